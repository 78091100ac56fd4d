"""Exits while the threads of a reader run in torch: python ends.py URL."""

from __future__ import annotations

import sys

import torch

import millrace.torch
from millrace import Reading


def label(view: memoryview) -> int:
    """A decoder that spends most of its time in torch, without the interpreter's lock."""
    a = torch.ones(200, 200)
    for _ in range(20):
        a = a @ a * 1e-3
    return int(bytes(view))


if __name__ == "__main__":
    val = millrace.torch.Dataset(sys.argv[1], "photos", global_batch_size=2, decode={"cls": label}, fields="cls", reading=Reading(threads=16))
    batches = iter(millrace.torch.DataLoader(val))
    next(batches)
