"""Opens a dataset without a server, reads two epochs, and prints the samples as JSON: `without_server.py DATASET`."""

import json
import sys

import millrace
from millrace import _local

_local.LINGER = "1s"
with millrace.open(sys.argv[1]) as data:
    reading = millrace.Reading(keys=True)
    epochs = [[key for batch in data.epoch(n, global_batch_size=4, reading=reading) for key in batch.keys] for n in range(2)]
    print(json.dumps({"epochs": epochs, "gateway": data.core.settings.endpoints[0].base.name}))
