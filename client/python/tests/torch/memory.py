"""A trainer that is slow: python memory.py SOURCE WORKERS. SOURCE is a directory for ImageFolder, or a gateway's URL for Millrace.

It takes one batch after another and sleeps, so that everything is read ahead that may be. Whoever started it looks at its memory.
"""

from __future__ import annotations

import io
import sys
import time
import warnings
from typing import Any

import torch
from PIL import Image
from torchvision import datasets, transforms

import millrace.torch

BATCH = 128
SIDE = 224
SLEEP, TIMES = 15.0, 2

to_tensor = transforms.Compose([transforms.Resize((SIDE, SIDE)), transforms.ToTensor()])


def decoded(view: memoryview) -> Any:
    """An image as ImageFolder has it."""
    return to_tensor(Image.open(io.BytesIO(view)).convert("RGB"))


def loader_of(source: str, workers: int) -> Any:
    if source.startswith("http"):
        dataset = millrace.torch.Dataset(source, "images", batch_size=BATCH, decode={"jpg": decoded, "cls": int})
        return millrace.torch.DataLoader(dataset, num_workers=workers)
    return torch.utils.data.DataLoader(
        datasets.ImageFolder(source, to_tensor), batch_size=BATCH, shuffle=True, num_workers=workers
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    batches = iter(loader_of(sys.argv[1], int(sys.argv[2])))
    for _ in range(TIMES):
        batch = next(batches)
        time.sleep(SLEEP)
