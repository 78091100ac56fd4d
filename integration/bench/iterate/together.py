"""Goal 18: the memory of a gateway and of the workers of a DataLoader that read from it. Each page counts once.

together.py SOCKET DATASET QUERY WORKERS PID ADMIN

Prints {"pss": bytes of all processes, "alone": bytes of the same processes without the gateway and without data, "used": bytes in use of
the gateway's budget according to ADMIN, "rate": samples per second}. "pss" and "used" are from the moment when their difference was
largest. A page that n processes have mapped counts as 1/n in each (PSS).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

import millrace.torch

LONG = 4.0  # seconds that workers read before their memory is measured


class Nothing(IterableDataset):  # type: ignore[misc]
    """A dataset without samples, which makes workers import torch and wait."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            time.sleep(0.05)
            yield torch.zeros(1)


def shares(pids: list[int]) -> int:
    """The memory of several processes together."""
    total = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it has just exited
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
    return total


def in_use(admin: str) -> float:
    """The bytes in use of the gateway's budget, including shared segments."""
    with urllib.request.urlopen(f"{admin}/metrics") as answer:
        return next(float(line.split()[1]) for line in answer.read().decode().splitlines() if line.startswith("millrace_budget_used_bytes "))


def family() -> list[int]:
    """This process and its children."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [os.getpid(), *map(int, children)]


def main() -> None:
    socket, dataset, words, workers, pid, admin = sys.argv[1:]
    query = dict(w.split("=") for w in words.split("&"))
    plan: dict[str, Any] = {"shuffle": query["shuffle"], "order": millrace.Order(window=int(query["window"]))}
    nothing = iter(DataLoader(Nothing(), batch_size=None, num_workers=int(workers)))
    for _ in range(10 * int(workers)):
        next(nothing)
    alone = shares(family())
    del nothing
    data = millrace.torch.Dataset(f"unix:{socket}", dataset, **plan)
    loader = millrace.torch.DataLoader(data, num_workers=int(workers))
    samples, most, epoch, begun = 0, (-math.inf, 0, 0.0), 0, time.monotonic()
    while time.monotonic() - begun < LONG:
        data.set_epoch(epoch)
        for batch in loader:
            samples += len(batch)
            if time.monotonic() - begun > LONG / 2:
                used, pss = in_use(admin), shares([*family(), int(pid)])
                most = max(most, (pss - used, pss, used))
            if time.monotonic() - begun > LONG:
                break
        epoch += 1
    print(json.dumps({"pss": most[1], "alone": alone, "used": most[2], "rate": samples / (time.monotonic() - begun)}))


if __name__ == "__main__":
    main()
