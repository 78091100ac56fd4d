#!/usr/bin/env python3
"""Reads an epoch from Millrace gateways with Python's standard library, and prints a line for each sample."""

import http.client
import os
import re
import struct
import sys
import time
from urllib.parse import urlsplit

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Again(Exception):
    """A failure that a retry may fix."""


def get(gateways, path, deadline=120):
    """The headers and the body of a batch: retried, resumed, checked. The gateway that answers is moved to the front."""
    body, size, etag, attempt, end = bytearray(), 0, "", 0, time.monotonic() + deadline
    while True:
        pause = min(0.1 * 2**attempt, 5)
        try:
            url = urlsplit(gateways[0])
            connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
            connection = connect(url.netloc, timeout=30)
            resume = {"Range": f"bytes={len(body)}-", "If-Range": etag} if body else {}
            connection.request("GET", path, headers={"Accept-Encoding": "identity", **resume})
            answer = connection.getresponse()
            if answer.status == 200:  # the whole of it, even for a range
                body, size, etag = bytearray(), int(answer.headers["Content-Length"]), answer.headers["ETag"]
            elif answer.status in (408, 429, 500, 503, 504) or "Retry-After" in answer.headers:
                pause = float(answer.headers.get("Retry-After", pause))
                raise Again(f"status {answer.status}")
            elif answer.status != 206 or not answer.headers["Content-Range"].startswith(f"bytes {len(body)}-"):
                sys.exit(f"{path}: status {answer.status}: {answer.read().decode()}")
            while chunk := answer.read(1 << 16):
                body += chunk
            if len(body) < size:
                raise Again(f"{len(body)} of {size} bytes")
            if crc32c(body) == int(answer.headers["Millrace-Crc32c"], 16):
                return answer.headers, memoryview(body)
            body = bytearray()  # the damage could be anywhere
            raise Again("wrong CRC-32C")
        except (OSError, http.client.HTTPException, Again) as e:
            if time.monotonic() > end:
                sys.exit(f"{gateways[0]}{path}: {e}, given up after {deadline} s")
            attempt += 1
            gateways.append(gateways.pop(0))
            if attempt % len(gateways) == 0:  # all of them were asked
                time.sleep(pause)


def samples(body):
    """The samples of a framed body: its header has 40 bytes, and lengths follow."""
    magic, version, _, count, *_, table, size = struct.unpack_from("<4sHHIIIIIIQ", body)
    if magic != b"MLRF" or version != 1 or table + size != len(body):
        sys.exit("this is not the framed form")
    at = table
    for length in struct.unpack_from(f"<{count}I", body, 40):
        yield body[at : at + length]
        at += length


gateways = os.environ["MILLRACE_URL"].split()
path = f"/v1/datasets/{os.environ['MILLRACE_DATASET']}/epochs/{os.environ['MILLRACE_EPOCH']}/batches/0"
path += "?" + "&".join(filter(None, ["format=framed", os.environ.get("MILLRACE_PLAN")]))
while path:
    headers, body = get(gateways, path)
    for i, sample in enumerate(samples(body)):
        print(headers["Millrace-Batch"], i, len(sample), "%08x" % crc32c(sample))
    link = re.match('<(.*)>; rel="next"', headers.get("Link", ""))  # it pins the generation
    path = link and link[1]
