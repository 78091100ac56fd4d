"""A newcomer's first dataset: a folder of pictures, sorted by class, so small that it has three chunks. Its default order mixes it."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest
import torch
from PIL import Image

import millrace.torch

CLASSES, EACH, SIDE, BATCH = 10, 300, 64, 64


def picture(r: np.random.Generator, label: int) -> bytes:
    """A JPEG of noisy stripes, whose direction is the class."""
    y, x = np.mgrid[:SIDE, :SIDE]
    angle = math.pi * (label + r.uniform(-0.2, 0.2)) / CLASSES
    wave = np.sin((x * math.cos(angle) + y * math.sin(angle)) * r.uniform(0.5, 0.9) + r.uniform(0, 2 * math.pi))
    pixels = 128 + 20 * wave[..., None] * r.uniform(0.3, 1, 3) + r.normal(0, 45, (SIDE, SIDE, 3))
    out = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=92)
    return out.getvalue()


def pixels(jpeg: Any) -> torch.Tensor:
    """A picture in the form of a network's input."""
    image = np.asarray(Image.open(io.BytesIO(bytes(jpeg))))
    return torch.from_numpy(image.copy()).permute(2, 0, 1).float() / 64 - 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ImageFolder of 3,000 pictures."""
    root, r = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for label in range(CLASSES):
        (root / f"class-{label}").mkdir()
        for i in range(EACH):
            (root / f"class-{label}" / f"{i:04d}.jpg").write_bytes(picture(r, label))
    assert " in 3 chunks " in harness.run("index", str(root))
    return root


@pytest.fixture(scope="module")
def pictures(folder: Path) -> Iterator[harness.Gateway]:
    """A gateway that serves the folder."""
    g = harness.Gateway(f"pictures={folder}")
    yield g
    g.close()


def batches(gateway: harness.Gateway, seed: int, epoch: int, **order: Any) -> Iterator[tuple[list[int], Any]]:
    """The labels and pictures of an epoch."""
    how = harness.grouped(global_batch_size=BATCH, keys=True, **order)
    dataset = millrace.torch.Dataset(gateway.url, "pictures", seed=seed, decode={"jpg": pixels}, **how)
    loader = millrace.torch.DataLoader(dataset, num_workers=0)
    loader.set_epoch(epoch)
    for b in loader:
        yield [int(key.split("/")[0].removeprefix("class-")) for key in b["__key__"]], b["jpg"]


def test_every_batch_has_its_share_of_every_class(pictures: harness.Gateway) -> None:
    spread: list[float] = []
    for labels, _ in batches(pictures, seed=1, epoch=0):
        if len(labels) == BATCH:
            count = Counter(labels)
            spread += [(count[c] - BATCH / CLASSES) ** 2 for c in range(CLASSES)]
    relative = sum(spread) / len(spread) / (BATCH / CLASSES * (1 - 1 / CLASSES))
    assert relative < 0.8, f"a class's share varies {relative:.2f} times as much as by chance, 0.5 is what the plan says"
