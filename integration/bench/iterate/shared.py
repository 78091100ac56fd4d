"""Goal 18: batches in shared memory against a bare loop of readinto over loopback, with every sample summed in both.

shared.py SOCKET GATEWAY DATASET QUERY SPAN ROUNDS PID PID

SOCKET and GATEWAY are the addresses of two gateways that serve the same data, and the PIDs are their process IDs. Both gateways read the
dataset before the first round that counts. Arms alternate; each reads for SPAN seconds. Prints samples per second, and processor seconds
per sample of gateway and reader together: {"shared": [...], "socket": [...], "shared_cpu": [...], "socket_cpu": [...]}. The sums of both
arms must be equal.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

import millrace

TICKS = os.sysconf("SC_CLK_TCK")
HEADER = 40  # bytes of the framed form before the table of lengths


def processor(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def total(view: memoryview) -> int:
    """The sum of the complete 64-bit words of a sample."""
    return int(np.frombuffer(view, np.uint64, len(view) // 8).sum())


def by_memory(client: millrace.Client, plan: dict[str, Any], first: int) -> Iterator[tuple[int, int]]:
    """Yields the number and the sum of the samples of each batch from the client."""
    for number in itertools.count(first):
        for batch in client.epoch(number, **plan):
            views = batch.views()
            yield len(views), sum(map(total, views))


def by_readinto(conn: http.client.HTTPConnection, buffer: memoryview, path: str, words: str, first: int) -> Iterator[tuple[int, int]]:
    """Does the same over one connection into one buffer, and nothing else."""
    number, batch = first, 0
    while True:
        conn.request("GET", f"{path}/epochs/{number}/batches/{batch}?format=framed&{words}")
        answer = conn.getresponse()
        if answer.status != 200:
            raise SystemExit(f"batch {batch}: {answer.status} {answer.read(300)!r}")
        left = body = buffer[: int(answer.headers["Content-Length"])]
        while len(left):
            n = answer.readinto(left)
            if n == 0:
                raise SystemExit(f"batch {batch} ended early")
            left = left[n:]
        answer.read()
        samples, begins = struct.unpack_from("<I", body, 8)[0], struct.unpack_from("<I", body, 28)[0]
        bounds = [begins, *itertools.accumulate(struct.unpack_from(f"<{samples}I", body, HEADER), initial=begins)][1:]
        yield samples, sum(total(body[a:b]) for a, b in itertools.pairwise(bounds))
        batch += 1
        if batch == int(answer.headers["Millrace-Batches"]):
            number, batch = number + 1, 0


def measured(batches: Iterator[tuple[int, int]], pid: int, span: float) -> tuple[float, float, list[int]]:
    """Returns samples per second, processor seconds per sample, and the sums of the first batches."""
    next(batches)  # creates connections and buffers
    used, begun = processor(pid) + time.process_time(), time.monotonic()
    samples, sums = 0, list[int]()
    for n, s in batches:
        samples += n
        sums.append(s)
        if time.monotonic() - begun > span:
            break
    took = time.monotonic() - begun
    return samples / took, (processor(pid) + time.process_time() - used) / samples, sums[:8]


def main() -> None:
    socket, gateway, dataset, words, span, rounds, near, bare = sys.argv[1:]
    query = dict(w.split("=") for w in words.split("&"))
    plan: dict[str, Any] = {"shuffle": query["shuffle"], "order": millrace.Order(window=int(query["window"]))}
    found: dict[str, list[float]] = {"shared": [], "socket": [], "shared_cpu": [], "socket_cpu": []}
    conn, buffer = http.client.HTTPConnection(urlsplit(gateway).netloc), memoryview(bytearray(64 << 20))
    with millrace.Client(f"unix:{socket}", dataset=dataset, routing=millrace.Routing(check="never")) as client:
        for reader in (by_memory(client, plan, 0), by_readinto(conn, buffer, f"/v1/datasets/{dataset}", words, 0)):
            left = client.describe()["samples"]
            while left > 0:
                left -= next(reader)[0]
            reader.close()  # type: ignore[attr-defined]
        for turn in range(int(rounds) + 1):  # the first round creates memory and connections, and does not count
            sums = []
            for arm, pid, batches in (
                ("shared", near, by_memory(client, plan, turn * 1000)),
                ("socket", bare, by_readinto(conn, buffer, f"/v1/datasets/{dataset}", words, turn * 1000)),
            ):
                rate, cost, some = measured(batches, int(pid), float(span))
                batches.close()  # type: ignore[attr-defined]
                found[arm].append(rate)
                found[f"{arm}_cpu"].append(cost)
                sums.append(some)
            if any(a != b or a == 0 for a, b in zip(*sums)):
                raise SystemExit(f"round {turn}: the arms have read different samples: {sums}")
    print(json.dumps({arm: values[1:] for arm, values in found.items()}))


if __name__ == "__main__":
    main()
