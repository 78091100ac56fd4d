"""Reads epoch 0 of a dataset again and again until a file exists: epochs.py FILE DATASET GATEWAY...

Prints the SHA-256 of the bodies of each reading.
"""

import hashlib
import logging
import sys
from pathlib import Path

import millrace

logging.basicConfig(level=logging.DEBUG)
with millrace.Client(sys.argv[3:], sys.argv[2], routing=millrace.Routing(check="always")) as client:
    over = False
    while not over:
        over = Path(sys.argv[1]).exists()
        digest, epoch = hashlib.sha256(), client.epoch(0, global_batch_size=16, reading=millrace.Reading(form="tar", keys=False))
        for batch in epoch:
            digest.update(batch.data)
        print(digest.hexdigest(), flush=True)
