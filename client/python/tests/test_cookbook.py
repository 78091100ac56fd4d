"""Runs every recipe of docs/cookbook.md over suitable data."""

from __future__ import annotations

import gc
import gzip
import json
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest
import soundfile
import torch
from PIL import Image

PAGE = harness.ROOT / "docs/cookbook.md"
RECIPES = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))
Rows = list[tuple[Any, ...]]


def picture(path: Path, n: int, mode: str = "RGB") -> Path:
    """Writes a picture whose size depends on n."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(n).integers(0, 256, (40 + n % 9, 50 + n % 5, 3), np.uint8)
    Image.fromarray(noise).convert(mode).save(path, "JPEG")
    return path


def class_folders(here: Path) -> None:
    for n in range(60):
        picture(here / "photos" / ("cat", "dog", "emu")[n % 3] / f"{n}.jpg", n, "L" if n == 7 else "RGB")


def imagenet(here: Path) -> None:
    (here / "imagenet").mkdir()
    for wnid in ("n01440764", "n02102040"):
        with tarfile.open(here / "imagenet" / f"{wnid}.tar", "w") as shard:
            for n in range(20):
                shard.add(picture(here / "loose.JPEG", n), f"{wnid}_{n}.JPEG")


def captions(here: Path) -> None:
    for n in range(50):
        picture(here / "pictures" / f"{n}.jpg", n).with_suffix(".txt").write_text("no" if n < 10 else f"picture number {n}")


def c4(here: Path) -> None:
    (here / "c4").mkdir()
    for name in ("c4-train.00000-of-00002", "c4-train.00001-of-00002", "c4-validation.00000-of-00001"):
        with gzip.open(here / "c4" / f"{name}.json.gz", "wt") as f:
            for n in range(40):
                f.write(json.dumps({"text": f"{name} says " + "word " * n, "timestamp": "2019-04-25T12:57:54Z", "url": "https://example.com"}) + "\n")


def tokens(here: Path) -> None:
    (here / "tokens").mkdir()
    np.arange(64 * 50 + 1, dtype=np.uint16).tofile(here / "tokens/train.bin")


def speech(here: Path) -> None:
    (here / "speech").mkdir()
    for n in range(24):
        sound = np.random.default_rng(n).uniform(-1, 1, 8000 + 100 * n)
        soundfile.write(here / "speech" / f"84-121123-{n:04d}.flac", sound, 4000)
        (here / "speech" / f"84-121123-{n:04d}.txt").write_text(f"transcript {n}")


def rows(here: Path) -> None:
    import datasets

    features = datasets.Features({"image": datasets.Image(), "caption": datasets.Value("string"), "label": datasets.ClassLabel(names=["cat", "dog"])})
    pictures = [{"bytes": picture(here / "loose.jpg", n).read_bytes(), "path": f"{n}.jpg"} for n in range(60)]
    table = {"image": pictures, "caption": [f"picture {n}" if n % 5 else None for n in range(60)], "label": [n % 2 for n in range(60)]}
    (here / "rows").mkdir()
    datasets.Dataset.from_dict(table, features=features).to_parquet(here / "rows/train-00000-of-00001.parquet")


def images(side: int, labels: int) -> Callable[[Rows], None]:
    """Returns a check of the samples on which recipes with pictures and labels must have trained."""

    def check(seen: Rows) -> None:
        assert all(x.shape[1:] == (3, side, side) and x.dtype is torch.float32 and 0.2 < x.mean() < 0.8 for x, _ in seen)
        assert set(torch.cat([y for _, y in seen]).tolist()) == set(range(labels))

    return check


def check_captions(seen: Rows) -> None:
    assert all(x.shape[1:] == (3, 224, 224) and ids.shape[1:] == (32,) for x, ids in seen)
    read = {bytes(row).rstrip(b"\0").decode() for _, ids in seen for row in ids.tolist()}
    assert read == {f"picture number {n}" for n in range(10, 50)}


def check_c4(seen: Rows) -> None:
    read = {bytes(row).rstrip(b"\0") for (ids,) in seen for row in ids.tolist()}
    assert len(read) == 80
    assert all(text.startswith(b"c4-train") for text in read)


def check_tokens(seen: Rows) -> None:
    assert all(torch.equal(inputs + 1, targets) and inputs.shape[1] == 64 for inputs, targets in seen)
    assert sorted(torch.cat([inputs for inputs, _ in seen]).flatten().tolist()) == list(range(64 * 50))


def check_speech(seen: Rows) -> None:
    assert all(sounds.shape[1:] == (4000,) for sounds, _ in seen)
    assert {text for _, texts in seen for text in texts} == {f"transcript {n}" for n in range(24)}


KINDS: dict[str, tuple[Callable[[Path], None], int, Callable[[Rows], None]]] = {
    "ImageFolder": (class_folders, 60, images(224, 3)),
    "ImageNet": (imagenet, 40, images(224, 2)),
    "Captions": (captions, 40, check_captions),
    "C4": (c4, 80, check_c4),
    "Tokens": (tokens, 50, check_tokens),
    "Audio": (speech, 24, check_speech),
    "Parquet": (rows, 48, images(32, 2)),
}


def test_every_recipe_is_run() -> None:
    assert set(RECIPES) == set(KINDS)


PREAMBLE = """
import multiprocessing
from millrace import _local

_local.LINGER = "1s"

def train(*columns):
    print(len(columns[0]))

if __name__ == "__main__":
    multiprocessing.set_start_method({method!r})
"""


@pytest.mark.parametrize(("name", "method"), [("ImageFolder", "spawn"), ("ImageFolder", "forkserver"), ("Audio", "spawn")])
def test_recipe_runs_as_a_script_whose_workers_import_it(name: str, method: str, tmp_path: Path, runtime: Path) -> None:  # noqa: ARG001
    make, samples, _ = KINDS[name]
    make(tmp_path)
    for line in re.findall(r"^\$ (millrace .*)$", RECIPES[name], re.M):
        harness.run(*(word.replace("./", f"{tmp_path}/") for word in shlex.split(line)[1:]))
    script = tmp_path / "recipe.py"
    script.write_text(PREAMBLE.format(method=method) + "\n".join(re.findall(r"^```python\n(.*?)^```$", RECIPES[name], re.M | re.S)))
    command = [sys.executable, script.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=harness.without(), check=False)
    assert done.returncode == 0, done.stderr
    assert sum(map(int, done.stdout.split())) == samples


@pytest.mark.parametrize("name", KINDS)
def test_recipe(name: str, tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    make, samples, check = KINDS[name]
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    seen: Rows = []
    space: dict[str, Any] = {"train": lambda *columns: seen.append(columns), "__name__": "__main__"}
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", RECIPES[name], re.M | re.S):
        if language == "console":
            for line in text.splitlines():
                assert line.startswith("$ millrace ")
                harness.run(*shlex.split(line)[2:])
        else:
            exec(compile(text, f"{PAGE}: {name}", "exec"), space)
    assert sum(len(columns[0]) for columns in seen) == samples
    check(seen)
    space.clear()
    gc.collect()  # frees the dataset, and with it this process's lease of the gateway
