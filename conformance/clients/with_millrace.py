#!/usr/bin/env python3
"""Reads an epoch from Millrace gateways with client/python, and prints a line for each sample."""

import os
import sys
from urllib.parse import parse_qsl

import millrace
from millrace.crc import crc32c

plan = {name: int(value) if value.isdecimal() else value for name, value in parse_qsl(os.environ.get("MILLRACE_PLAN", ""))}
try:
    with millrace.Client(os.environ["MILLRACE_URL"].split(), dataset=os.environ["MILLRACE_DATASET"], check="always") as client:
        for batch in client.epoch(int(os.environ["MILLRACE_EPOCH"]), **plan):
            for i, sample in enumerate(batch.views()):
                print(batch.number, i, len(sample), "%08x" % crc32c(sample))
except millrace.MillraceError as e:
    sys.exit(str(e))
