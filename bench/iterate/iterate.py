"""Goal 10: iterates a warm gateway with the Python client, against a bare loop of readinto and against one GET per sample.

iterate.py GATEWAY DATASET QUERY SPAN ROUNDS STORE PREFIX

Arms alternate; each reads for SPAN seconds. Prints {"client": [...], "readinto": [...], "get1": [...]}: samples per second.
The store's credentials come from the environment.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3

import millrace

IN_FLIGHT = 16  # requests of the arm with one GET per sample


def batches(gateway: str, dataset: str, query: dict[str, Any], first: int) -> Iterator[millrace.Batch]:
    """Endless: one epoch after another."""
    with millrace.Client(gateway, dataset=dataset) as client:
        for number in itertools.count(first):
            yield from client.epoch(number, progress=False, **query)


def by_client(gateway: str, dataset: str, query: dict[str, Any], first: int, span: float) -> float:
    """Every sample as a memoryview of its own."""
    begun, samples = time.monotonic(), 0
    for batch in batches(gateway, dataset, query, first):
        samples += len(batch.views())
        if time.monotonic() - begun > span:
            break
    return samples / (time.monotonic() - begun)


def by_readinto(gateway: str, dataset: str, query: dict[str, Any], first: int, span: float) -> float:
    """The same bytes over one connection into one buffer, and nothing else."""
    conn = http.client.HTTPConnection(urlsplit(gateway).netloc)
    words = "&".join(f"{k}={v}" for k, v in query.items())
    buffer, samples, begun = bytearray(64 << 20), 0, time.monotonic()
    number, batch = first, 0
    while time.monotonic() - begun <= span:
        conn.request("GET", f"/v1/datasets/{dataset}/epochs/{number}/batches/{batch}?{words}")
        answer = conn.getresponse()
        if answer.status != 200:
            raise SystemExit(f"batch {batch}: {answer.status} {answer.read(300)!r}")
        left = memoryview(buffer)[: int(answer.headers["Content-Length"])]
        while len(left):
            n = answer.readinto(left)
            if n == 0:
                raise SystemExit(f"batch {batch} ended early")
            left = left[n:]
        answer.read()
        samples += int(answer.headers["Millrace-Samples"])
        batch += 1
        if batch == int(answer.headers["Millrace-Batches"]):
            number, batch = number + 1, 0
    return samples / (time.monotonic() - begun)


def by_get(store: str, urls: list[str], span: float) -> float:
    """One object a sample, in random order, over keep-alive connections."""
    counts, begun = [0] * IN_FLIGHT, time.monotonic()

    def run(worker: int) -> None:
        pick, conn = random.Random(worker), http.client.HTTPConnection(urlsplit(store).netloc)
        while time.monotonic() - begun <= span:
            conn.request("GET", pick.choice(urls))
            answer = conn.getresponse()
            if answer.status != 200 or not answer.read():
                raise SystemExit(f"one GET: {answer.status}")
            counts[worker] += 1

    threads = [threading.Thread(target=run, args=(w,)) for w in range(IN_FLIGHT)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(counts) / (time.monotonic() - begun)


def main() -> None:
    gateway, dataset, words, span, rounds, store, prefix = sys.argv[1:]
    query = dict(w.split("=") for w in words.split("&"))
    typed: dict[str, Any] = {k: int(v) if v.isdigit() else v for k, v in query.items()}
    s3 = boto3.client("s3", endpoint_url=store)
    bucket, _, under = prefix.partition("/")
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=under, MaxKeys=1000)["Contents"]
    urls = []
    for o in listed:
        at = urlsplit(s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": o["Key"]}, ExpiresIn=3600))
        urls.append(f"{at.path}?{at.query}")
    found: dict[str, list[float]] = {"client": [], "readinto": [], "get1": []}
    for turn in range(int(rounds)):
        first = turn * 1000
        found["readinto"].append(by_readinto(gateway, dataset, query, first, float(span)))
        found["client"].append(by_client(gateway, dataset, typed, first, float(span)))
        found["get1"].append(by_get(store, urls, float(span)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
