#!/usr/bin/env python3
"""Reads an epoch from Millrace gateways with client/python, and prints a line for each sample."""

import os
import sys
from urllib.parse import parse_qsl

import millrace
from millrace.crc import crc32c

GROUPS = {"order": millrace.Order, "share": millrace.Share}
NAMES = {"batch_size": "global_batch_size", "share": "by"}  # query parameters that have other names in this client

plan = {}
for name, value in parse_qsl(os.environ.get("MILLRACE_PLAN", "")):
    name = NAMES.get(name, name)
    group = next((g for g, kind in GROUPS.items() if name in kind.__dataclass_fields__), None)
    (plan.setdefault(group, {}) if group else plan)[name] = int(value) if value.isdecimal() else value
plan.update((group, GROUPS[group](**plan[group])) for group in GROUPS.keys() & plan.keys())
try:
    always = millrace.Routing(check="always")
    with millrace.Client(os.environ["MILLRACE_URL"].split(), dataset=os.environ["MILLRACE_DATASET"], routing=always) as client:
        for batch in client.epoch(int(os.environ["MILLRACE_EPOCH"]), **plan):
            for i, sample in enumerate(batch.views()):
                print(batch.number, i, len(sample), "%08x" % crc32c(sample))
except millrace.MillraceError as e:
    sys.exit(str(e))
