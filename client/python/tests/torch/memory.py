"""A slow trainer: python memory.py SOURCE WORKERS. SOURCE is a directory for ImageFolder, or a gateway's URL for Millrace.

Three times it takes a batch and waits until read-ahead stops. The parent process measures its memory.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torchvision import datasets, transforms

import millrace.torch

BATCH = 128
SIDE = 224
IDLE = 5.0  # seconds without computing, after which read-ahead has reached its limit

to_tensor = transforms.Compose([transforms.Resize((SIDE, SIDE)), transforms.ToTensor()])


def decoded(view: memoryview) -> Any:
    """An image, decoded like ImageFolder."""
    return to_tensor(Image.open(io.BytesIO(view)).convert("RGB"))


def loader_of(source: str, workers: int) -> Any:
    if source.startswith("http"):
        dataset = millrace.torch.Dataset(source, "images", global_batch_size=BATCH, decode={"jpg": decoded, "cls": int})
        return millrace.torch.DataLoader(dataset, num_workers=workers)
    return torch.utils.data.DataLoader(
        datasets.ImageFolder(source, to_tensor), batch_size=BATCH, shuffle=True, num_workers=workers
    )


def computed() -> int:
    """Returns the total processor time of this process and its workers, in hundredths of a second."""
    every = [os.getpid(), *(p.pid for p in multiprocessing.active_children() if p.pid)]
    return sum(sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) for pid in every)


def wait_until_idle() -> None:
    before = -100
    while (now := computed()) > before + 10:
        before = now
        time.sleep(IDLE)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    batches = iter(loader_of(sys.argv[1], int(sys.argv[2])))
    for _ in range(3):
        batch = next(batches)
        wait_until_idle()
