"""Reads epoch 0 of a dataset until a file is there: epochs.py FILE DATASET GATEWAY... prints the SHA-256 of each reading's bodies."""

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
