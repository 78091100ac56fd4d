"""Starts workers again and again while the process reads: python alive.py URL HOW TIMES. Prints how often they hung.

The loader's own timeout detects a hang. A worker hangs if it waits for a lock that a thread of the parent held at the fork: it then returns
no batch.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import millrace.torch
from millrace import Reading

HANGS = 60  # seconds without a batch, long enough for a busy machine


def label(view: memoryview) -> int:
    """A decoder that computes for a while. Other threads wait for the interpreter's lock while they hold their own locks."""
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass
    return int(bytes(view))


def dataset_of(url: str, batch_size: int, decoder: Any) -> millrace.torch.Dataset:
    return millrace.torch.Dataset(url, "photos", global_batch_size=batch_size, decode={"cls": decoder}, fields="cls", reading=Reading(threads=16))


def begin(how: str, val: millrace.torch.Dataset) -> Any:
    """Starts a reader in this process, which runs until the result is released."""
    if how == "client":
        batches = iter(val.client.epoch(0, dataset="photos", global_batch_size=2, decode={"cls": label}, reading=Reading(threads=16)))
        next(batches)
        return batches
    loader = millrace.torch.DataLoader(val)
    if how == "dropped":
        next(iter(loader))
        return None
    if how == "break":
        for i, _ in enumerate(loader):
            if i == 3:
                break
        return None
    batches = iter(loader)
    next(batches)
    return batches


def main(url: str, how: str, times: int) -> int:
    val, train = dataset_of(url, 2, label), dataset_of(url, 50, int)
    hung = 0
    for _ in range(times):
        alive = begin(how, val)
        try:
            loader = millrace.torch.DataLoader(train, num_workers=2, timeout=HANGS)
            assert sum(len(b["cls"]) for b in loader) == 500
        except RuntimeError as e:
            if "timed out" not in str(e):
                raise
            hung += 1
        del alive
    return hung


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
