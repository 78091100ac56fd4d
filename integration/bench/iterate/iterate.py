"""Goal 10: iterates a warm gateway with the Python client, against a bare loop of readinto and against one GET per sample.

iterate.py GATEWAY DATASET QUERY SPAN ROUNDS STORE PREFIX

Arms alternate; each reads for SPAN seconds. Prints {"client": [...], "checked": [...], "readinto": [...], "get1": [...]}: samples
per second. "client" is a plain installation; "checked" has the package that computes CRC-32C, and checks every body.
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
from typing import Any
from urllib.parse import urlsplit

import boto3

import millrace

IN_FLIGHT = 16  # requests of the arm with one GET per sample


def by_client(client: millrace.Client, plan: dict[str, Any], first: int, span: float) -> float:
    """Reads every sample as a separate memoryview."""
    begun, samples = time.monotonic(), 0
    for number in itertools.count(first):
        for batch in client.epoch(number, **plan):
            samples += len(batch.views())
            if time.monotonic() - begun > span:
                return samples / (time.monotonic() - begun)
    raise AssertionError("epochs end")


def by_readinto(conn: http.client.HTTPConnection, buffer: memoryview, path: str, words: str, first: int, span: float) -> float:
    """Reads the same bytes over one connection into one buffer, and does nothing else."""
    samples, number, batch, begun = 0, first, 0, time.monotonic()
    while time.monotonic() - begun <= span:
        conn.request("GET", f"{path}/epochs/{number}/batches/{batch}?{words}")
        answer = conn.getresponse()
        if answer.status != 200:
            raise SystemExit(f"batch {batch}: {answer.status} {answer.read(300)!r}")
        left = buffer[: int(answer.headers["Content-Length"])]
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
    """Reads one object per sample, in random order, over keep-alive connections."""
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
    plan = {"shuffle": query["shuffle"], "order": millrace.Order(window=int(query["window"]))}
    s3 = boto3.client("s3", endpoint_url=store)
    bucket, _, under = prefix.partition("/")
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=under, MaxKeys=1000)["Contents"]
    urls = []
    for o in listed:
        at = urlsplit(s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": o["Key"]}, ExpiresIn=3600))
        urls.append(f"{at.path}?{at.query}")
    found: dict[str, list[float]] = {"client": [], "checked": [], "readinto": [], "get1": []}
    conn, buffer = http.client.HTTPConnection(urlsplit(gateway).netloc), memoryview(bytearray(64 << 20))
    plain, checked = (millrace.Client(gateway, dataset=dataset, routing=millrace.Routing(check=check)) for check in ("never", "auto"))
    with plain, checked:
        for turn in range(int(rounds) + 1):  # the first round creates buffers and connections, and does not count
            first = turn * 1000
            found["readinto"].append(by_readinto(conn, buffer, f"/v1/datasets/{dataset}", words, first, float(span)))
            found["client"].append(by_client(plain, plan, first, float(span)))
            found["checked"].append(by_client(checked, plan, first, float(span)))
            found["get1"].append(by_get(store, urls, float(span)))
    found = {arm: rates[1:] for arm, rates in found.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
