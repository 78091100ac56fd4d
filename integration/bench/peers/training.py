"""A training step with decoding, with each library as in its own documentation. The library's authors should review this code.

Two sets of JPEG images of 256 x 256 (4:2:0, some 17 KB): `photos` with classes, `captions` with a text. Every reader yields batches
of 64: a tensor of bytes [64, 3, 224, 224], each image cropped and flipped at random, and one of classes or of words' numbers.
Each library keeps its defaults: the decoder (Pillow, or torchvision for LitData), its place (workers, and for Millrace also threads),
the shuffling. The model is as small as possible for learning from pixels, because there are only two processors.

    training.py LIBRARY JOB-AS-JSON     reads an epoch in a separate process, and prints its results as JSON
"""

from __future__ import annotations

import gc
import io
import itertools
import json
import os
import random
import sys
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sets
import torch
from libraries import Job, Reader, loader_options
from torch.utils import data as torch_data

SIDE, CROP, BATCH, WORDS, VOCABULARY = 256, 224, 64, 32, 4096
SETS = {"photos": "cls", "captions": "txt"}  # sets, with the other part of a sample
FILES = 8  # shards or Parquet files per set, so that each worker has several


# The sets.


def draw(directory: Path, samples: int) -> None:
    """Draws the images of both sets: colored blurs with some noise, which are neither very easy nor hard to decode."""
    import numpy as np
    from PIL import Image

    for i in range(samples):
        rng = np.random.default_rng(i)
        blur = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        noise = rng.integers(-12, 13, (SIDE, SIDE, 1), dtype=np.int16)
        Image.fromarray(np.clip(np.asarray(blur) + noise, 0, 255).astype(np.uint8)).save(directory / f"{i:06d}.jpg", quality=80)


def beside(name: str, i: int, samples: int) -> Any:
    """Returns the part of a sample other than its image: its class, or a caption."""
    if name == "photos":
        return i * sets.CLASSES // samples
    pick = random.Random(i)
    return " ".join(pick.choices(sets._WORDS, k=pick.randint(8, 40)))


def numbers(of: Any) -> torch.Tensor:
    """Returns a class as a tensor, or a caption as the numbers of its first words."""
    if not isinstance(of, str):
        return torch.tensor(of)
    found = [zlib.crc32(word.encode()) % VOCABULARY for word in of.split()[:WORDS]]
    return torch.tensor(found + [0] * (WORDS - len(found)))


def pack(kind: str, name: str, images: Path, out: str) -> None:
    """Writes a set with a library's own writer. All formats contain the same JPEG files."""
    part, paths = SETS[name], sorted(images.iterdir())
    rows = [(path, beside(name, i, len(paths))) for i, path in enumerate(paths)]
    shard = sum(path.stat().st_size for path in paths) // FILES
    {"tar": _tar, "mds": _mds, "litdata": _litdata, "parquet": _parquet}[kind](rows, part, shard, out)


Rows = list[tuple[Path, Any]]


def _tar(rows: Rows, part: str, shard: int, out: str) -> None:
    import webdataset

    with webdataset.ShardWriter(out + "/shard-%06d.tar", maxsize=shard, maxcount=1 << 30, verbose=0) as w:
        for path, value in rows:
            w.write({"__key__": path.stem, "jpg": path.read_bytes(), part: str(value).encode()})


def _mds(rows: Rows, part: str, shard: int, out: str) -> None:
    from PIL import Image
    from streaming import MDSWriter

    with MDSWriter(out=out, columns={"jpg": "jpeg", part: "int" if part == "cls" else "str"}, size_limit=shard) as w:
        for path, value in rows:
            w.write({"jpg": Image.open(path), part: value})


def _litdata(rows: Rows, part: str, shard: int, out: str) -> None:
    from litdata.streaming.cache import Cache
    from PIL import Image

    cache = Cache(out, chunk_bytes=shard)
    for i, (path, value) in enumerate(rows):
        cache[i] = {"jpg": Image.open(path), part: value}
    cache.done()
    cache.merge()


def _parquet(rows: Rows, part: str, shard: int, out: str) -> None:  # noqa: ARG001
    import datasets

    kinds = datasets.Features({"jpg": datasets.Image(), part: datasets.Value("int64" if part == "cls" else "string")})
    table = datasets.Dataset.from_list([{"jpg": {"bytes": path.read_bytes(), "path": path.name}, part: value} for path, value in rows], kinds)
    for n in range(FILES):
        table.shard(FILES, n, contiguous=True).to_parquet(f"{out}/train-{n:05d}-of-{FILES:05d}.parquet")


# The transformation of images, the same for all libraries.


class Augment:
    """Crops and flips a Pillow image or a tensor at random. `fixed`: takes the center crop instead."""

    def __init__(self, fixed: bool) -> None:
        from torchvision import transforms

        at_random = [transforms.RandomCrop(CROP), transforms.RandomHorizontalFlip()]
        self.steps = transforms.Compose([transforms.CenterCrop(CROP)] if fixed else at_random)

    def __call__(self, image: Any) -> torch.Tensor:
        from torchvision.transforms.functional import pil_to_tensor

        value: torch.Tensor = image if isinstance(image, torch.Tensor) else pil_to_tensor(self.steps(image))
        return self.steps(value) if value is image else value


# The readers.


def millrace(job: Job, fixed: bool) -> Reader:
    """Reads tar shards without a server and decodes them automatically. Crops use the sample's own generator, so they are reproducible."""
    from millrace.torch import DataLoader, Dataset

    part, edge = SETS[job.set], SIDE - CROP

    def sample(of: Any) -> tuple[torch.Tensor, torch.Tensor]:
        top, left, flip = (edge // 2, edge // 2, False) if fixed else (of.rng.randint(0, edge), of.rng.randint(0, edge), of.rng.random() < 0.5)
        crop = of["jpg"][:, top : top + CROP, left : left + CROP]
        return crop.flip(2) if flip else crop, numbers(of[part])

    data = Dataset(f"s3://peers/tar-{job.set}", global_batch_size=job.batch, seed=job.seed, transform=sample)
    loader = DataLoader(data, **loader_options(job))
    return Reader(lambda: iter(loader), lambda _: loader.state_dict())


def webdataset(job: Job, fixed: bool) -> Reader:
    """Streams the same tar shards with curl, with a shuffle of the shards, one of 1,000 samples, and decode("pil")."""
    import webdataset as wds

    urls = f"{job.endpoint}/peers/tar-{job.set}/shard-{{000000..{job.shards - 1:06d}}}.tar"
    data = (
        wds.WebDataset(urls, shardshuffle=100, seed=job.seed, nodesplitter=wds.split_by_node)
        .shuffle(1000)
        .decode("pil")
        .to_tuple("jpg", SETS[job.set])
        .map_tuple(Augment(fixed), numbers)
        .batched(job.batch)
    )
    loader = wds.WebLoader(data, batch_size=None, **loader_options(job))
    return Reader(lambda: ((image, torch.as_tensor(of)) for image, of in loader), lambda _: None)


def streaming(job: Job, fixed: bool) -> Reader:
    """Reads MDS shards with a column of type `jpeg`, shuffled by py1e, the default.

    Its client is deleted before workers are forked: libraries.py.
    """
    os.environ["S3_ENDPOINT_URL"] = job.endpoint
    from streaming import StreamingDataLoader, StreamingDataset

    part, augment = SETS[job.set], Augment(fixed)

    class Samples(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: int) -> Any:
            sample = super().__getitem__(at)
            return augment(sample["jpg"]), numbers(sample[part])

    data = Samples(remote=f"s3://peers/mds-{job.set}", local=job.local, shuffle=True, shuffle_seed=job.seed, batch_size=job.batch)
    for stream in data.streams:
        stream._downloader.clean_up()
    loader = StreamingDataLoader(data, batch_size=job.batch, **loader_options(job))
    return Reader(lambda: iter(loader), lambda _: loader.state_dict())


def litdata(job: Job, fixed: bool) -> Reader:
    """Reads LitData's chunks with images from its serializer of JPEG files, which decodes with torchvision."""
    from litdata import StreamingDataLoader, StreamingDataset

    part, augment = SETS[job.set], Augment(fixed)

    class Samples(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: Any) -> Any:
            sample = super().__getitem__(at)
            return augment(sample["jpg"]), numbers(sample[part])

    options = {"endpoint_url": job.endpoint}
    data = Samples(f"s3://peers/litdata-{job.set}", cache_dir=job.local, shuffle=True, seed=job.seed, storage_options=options)
    loader = StreamingDataLoader(data, batch_size=job.batch, **loader_options(job))
    return Reader(lambda: iter(loader), lambda _: loader.state_dict())


def huggingface(job: Job, fixed: bool) -> Reader:
    """Uses `datasets` in streaming mode on Parquet with a column Image(), which decodes with Pillow: shuffled files, a buffer of 1,000
    rows.
    """
    import datasets

    part, augment = SETS[job.set], Augment(fixed)
    files = f"s3://peers/parquet-{job.set}/*.parquet"
    data = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True, storage_options={"endpoint_url": job.endpoint})
    data = data.shuffle(seed=job.seed, buffer_size=1000)

    def collate(rows: list[dict[str, Any]]) -> Any:
        return torch.stack([augment(row["jpg"]) for row in rows]), torch.stack([numbers(row[part]) for row in rows])

    loader: Any = torch_data.DataLoader(data, batch_size=job.batch, collate_fn=collate, **loader_options(job))
    epochs = itertools.count()

    def epoch() -> Iterator[Any]:
        data.set_epoch(next(epochs))
        return iter(loader)

    return Reader(epoch, lambda _: None)


LIBRARIES: dict[str, tuple[str, Callable[[Job, bool], Reader]]] = {  # with the format of each
    "millrace": ("tar", millrace), "webdataset": ("tar", webdataset), "streaming": ("mds", streaming), "litdata": ("litdata", litdata),
    "datasets": ("parquet", huggingface),
}  # fmt: skip


# The model.


class Model(torch.nn.Module):  # type: ignore[misc]
    """Two convolutions over images at a quarter of their size. It classifies images, or finds the caption that belongs to each."""

    def __init__(self, name: str) -> None:
        super().__init__()
        nn = torch.nn
        self.image = nn.Sequential(
            nn.AvgPool2d(4), nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
            nn.Linear(256, sets.CLASSES),
        )
        self.words = nn.EmbeddingBag(VOCABULARY, sets.CLASSES) if name == "captions" else None

    def forward(self, images: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        """Returns the loss."""
        found = self.image(images.float() / 255)
        if self.words is not None:
            found, of = found @ self.words(of).T, torch.arange(len(of))
        loss: torch.Tensor = torch.nn.functional.cross_entropy(found, of)
        return loss


def epoch(job: Job, library: str, how: str) -> dict[str, Any]:
    """Reads one epoch: `check` also digests its values, `decode` only reads, `train` also takes a step with each batch."""
    model = Model(job.set)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    before, since = time.process_time(), time.monotonic()
    first = stepping = 0.0
    total = steps = samples = 0
    for images, of in LIBRARIES[library][1](job, how == "check").epoch():
        first = first or time.monotonic() - since
        if images.shape[1:] != (3, CROP, CROP) or images.dtype is not torch.uint8:
            raise ValueError(f"a batch of {images.dtype} of {tuple(images.shape)}")
        steps, samples = steps + 1, samples + len(images)
        if how == "check":
            total += sets.digest((bytes(image.numpy()), value.tolist()) for image, value in zip(images.contiguous(), of))
        elif how == "train":
            begun = time.thread_time()
            optimizer.zero_grad()
            model(images, of).backward()
            optimizer.step()
            stepping += time.thread_time() - begun
    seconds = time.monotonic() - since
    return {
        "first": first, "seconds": seconds, "steps": steps, "samples": samples, "digest": total % (1 << 64), "stepping": stepping, "before": before,
    }


def expected(name: str, images: Path) -> int:
    """The digest of an epoch of center crops, of images that Pillow decoded."""
    from PIL import Image

    paths, middle = sorted(images.iterdir()), Augment(fixed=True)
    whole = (Image.open(io.BytesIO(path.read_bytes())) for path in paths)
    return sets.digest((bytes(middle(image).numpy()), numbers(beside(name, i, len(paths))).tolist()) for i, image in enumerate(whole))


def main() -> None:
    from read import END, end_within

    library, options = sys.argv[1], json.loads(sys.argv[2])
    how, counts = options.pop("how"), options.pop("counts")
    saw: dict[str, Any] = {"epochs": [], "state": None, "error": None}
    job = Job(**options)
    try:
        saw["epochs"].append(epoch(job, library, how))
        saw["before"] = saw["epochs"][0].pop("before")
        with urllib.request.urlopen(counts, timeout=10) as answer:
            saw["epochs"][-1]["store"] = json.load(answer)
    except Exception as e:  # an exception of the library is a result
        saw["error"] = f"{type(e).__name__}: {e}"[:300]
    print("RESULT " + json.dumps(saw), flush=True)
    end_within(END)
    gc.collect()


if __name__ == "__main__":
    main()
