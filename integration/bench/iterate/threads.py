"""The benefit of client threads that switch between fetching and decoding, compared with the same number of threads with fixed roles.

threads.py GATEWAY LINE DATASET QUERY SPAN ROUNDS

Four threads do three kinds of work. In "line" each connection is slow (LINE is the gateway behind such a network), and decoding takes
almost no time. In "decoder" the gateway is near, and decoding takes longer than fetching. In "both" the kinds alternate, for half of the
epoch each. The decoder waits, like one that runs on its own core and has released the interpreter's lock.

Arms alternate; each reads for SPAN seconds. Prints {work: {arm: [samples per second]}}. The arms are "moving", and "F+D" for F threads that
fetch and D that decode.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import millrace

THREADS = 4
AHEAD = 16  # batches
QUICK, SLOW = 0.002, 0.06  # seconds to decode a batch
TURN = 32  # number of batches after which "both" switches

Decode = Callable[[millrace.Batch], float]


def wait(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


WORKS: dict[str, tuple[bool, Decode]] = {
    "line": (True, lambda _: wait(QUICK)),
    "decoder": (False, lambda _: wait(SLOW)),
    "both": (True, lambda b: wait(SLOW if b.number // TURN % 2 else QUICK)),
}


def moving(client: millrace.Client, plan: dict[str, Any], decode: Decode, number: int) -> Iterator[millrace.Batch]:
    with client.epoch(number, **plan, reading=millrace.Reading(threads=THREADS, batch_transform=decode)).read() as reader:
        yield from reader


def fixed(client: millrace.Client, plan: dict[str, Any], decode: Decode, fetching: int, number: int) -> Iterator[millrace.Batch]:
    """Fixed roles: a typical pool of threads from the standard library."""
    with (
        ThreadPoolExecutor(THREADS - fetching) as pool,
        client.epoch(number, **plan, reading=millrace.Reading(threads=fetching)).read() as reader,
    ):
        ahead: deque[tuple[millrace.Batch, Future[float]]] = deque()
        for batch in reader:
            ahead.append((batch, pool.submit(decode, batch)))
            while ahead and (ahead[0][1].done() or len(ahead) == AHEAD):
                ahead[0][1].result()
                yield ahead.popleft()[0]
        for batch, decoded in ahead:
            decoded.result()
            yield batch


def rate(epochs: Callable[[int], Iterator[millrace.Batch]], first: int, span: float) -> float:
    begun, samples = time.monotonic(), 0
    for number in itertools.count(first):
        for batch in epochs(number):
            samples += len(batch)
            if time.monotonic() - begun > span:
                return samples / (time.monotonic() - begun)
    raise AssertionError("epochs end")


def main() -> None:
    gateway, line, dataset, words, span, rounds = sys.argv[1:]
    query = dict(w.split("=") for w in words.split("&"))
    order = millrace.Order(window=int(query["window"]))
    plan = {"shuffle": query["shuffle"], "order": order, "global_batch_size": int(query["batch_size"])}
    found: dict[str, dict[str, list[float]]] = {}
    with millrace.Client(gateway, dataset=dataset) as near, millrace.Client(line, dataset=dataset) as far:
        # opens connections and warms the gateway
        rate(partial(moving, far, plan, lambda _: 0.0), 0, float(span))
        for turn, (work, (distant, decode)) in itertools.product(range(int(rounds)), WORKS.items()):
            client, arms = far if distant else near, found.setdefault(work, {})
            arms.setdefault("moving", []).append(rate(partial(moving, client, plan, decode), turn * 1000, float(span)))
            for fetching in range(1, THREADS):
                arm = arms.setdefault(f"{fetching}+{THREADS - fetching}", [])
                arm.append(rate(partial(fixed, client, plan, decode, fetching), turn * 1000, float(span)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
