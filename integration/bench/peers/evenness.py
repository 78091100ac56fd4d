"""How evenly batches mix classes if a set is stored class by class: evenness.py [--json]

The set has 16,384 samples of 32 classes in 256 shards, one class after another; batches have 256 samples. Each library reads files that it
wrote itself, in one process, with the shuffle that its documentation recommends. Millrace's order is computed according to
docs/spec/order.md. A figure is the mean of chi_square (read.py) over the batches of an epoch: 1 if samples are drawn at random.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

warnings.filterwarnings("ignore")
os.environ["DISABLE_VERSION_CHECK"] = "1"  # otherwise LitData sends a request to PyPI
sys.path.append(str(Path(__file__).resolve().parents[3] / "client" / "python"))

import torch
from read import chi_square

from millrace import proof

SAMPLES, SHARDS, CLASSES, BATCH, SEED = 16_384, 256, 32, 256, 1
SHARD = SAMPLES // SHARDS


def unevenness(ids: Iterable[int]) -> float:
    """The mean of chi_square over the batches of an epoch of sample numbers."""
    all_ids = torch.tensor(list(ids))
    if sorted(all_ids.tolist()) != list(range(SAMPLES)):
        raise SystemExit("not every sample came exactly once")
    labels = all_ids * CLASSES // SAMPLES
    batches = labels.split(BATCH)
    return sum(chi_square(torch.bincount(b, minlength=CLASSES).double()) for b in batches) / len(batches)


def webdataset(directory: str) -> Iterator[int]:
    import webdataset as wds

    with wds.ShardWriter(directory + "/%06d.tar", maxcount=SHARD, verbose=0) as shards:
        for i in range(SAMPLES):
            shards.write({"__key__": f"{i:06d}", "id": str(i).encode()})
    urls = directory + f"/{{000000..{SHARDS - 1:06d}}}.tar"
    for (i,) in wds.WebDataset(urls, shardshuffle=100, seed=SEED).shuffle(1000, seed=SEED).to_tuple("id"):
        yield int(i)


def streaming(directory: str, algorithm: str) -> Iterator[int]:
    from streaming import MDSWriter, StreamingDataset

    with MDSWriter(out=directory, columns={"id": "int"}, size_limit=12 * SHARD + 256) as shards:
        for i in range(SAMPLES):
            shards.write({"id": i})
    for sample in StreamingDataset(local=directory, shuffle=True, shuffle_seed=SEED, shuffle_algo=algorithm, batch_size=BATCH):
        yield sample["id"]


def litdata(directory: str) -> Iterator[int]:
    from litdata import StreamingDataset
    from litdata.streaming.cache import Cache

    cache = Cache(directory, chunk_size=SHARD)
    for i in range(SAMPLES):
        cache[i] = {"id": i}
    cache.done()
    cache.merge()
    for sample in StreamingDataset(directory, shuffle=True, seed=SEED):
        yield int(sample["id"])


def tfrecord(_: str) -> Iterator[int]:
    """Uses tf.data's shuffle(1000) after shuffled files: each new sample replaces a random one of a buffer."""
    import random

    draw = random.Random(SEED)
    files = [range(s * SHARD, (s + 1) * SHARD) for s in range(SHARDS)]
    draw.shuffle(files)
    held: list[int] = []
    for i in (i for f in files for i in f):
        if len(held) < 1000:
            held.append(i)
            continue
        at = draw.randrange(1000)
        yield held[at]
        held[at] = i
    draw.shuffle(held)
    yield from held


def millrace(shuffle: str, window: int = 128) -> Iterator[int]:
    drawn = proof.shuffle(shuffle, [SHARD] * SHARDS, window=window, seed=SEED, epoch=0)
    return (drawn.at(t) for t in range(SAMPLES))


def main() -> None:
    with tempfile.TemporaryDirectory() as root:

        def place(name: str) -> str:
            path = os.path.join(root, name)
            os.mkdir(path)
            return path

        rows = {
            "WebDataset, `shardshuffle=100`, `.shuffle(1000)`": webdataset(place("webdataset")),
            "MosaicML Streaming, `py1e`, the default": streaming(place("py1e"), "py1e"),
            "MosaicML Streaming, `py1s`": streaming(place("py1s"), "py1s"),
            "LitData, `shuffle=True`": litdata(place("litdata")),
            "tf.data, shuffled files, `.shuffle(1000)` (its rule, simulated)": tfrecord(place("tfrecord")),
            "`RandomSampler` over a folder of files": iter(torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(SEED)).tolist()),
            "Millrace, `shuffle=slot`, `window=16`": millrace("slot", 16),
            "Millrace, `shuffle=slot`, `window=128`, the default": millrace("slot"),
            "Millrace, `shuffle=window`, `window=16`": millrace("window", 16),
            "Millrace, `shuffle=window`, `window=128`": millrace("window"),
            "Millrace, `shuffle=full`": millrace("full"),
        }
        figures = {how: f"{unevenness(ids):.2f}" for how, ids in rows.items()}
    if "--json" in sys.argv[1:]:
        print(json.dumps(figures))
    else:
        for how, figure in figures.items():
            print(f"{figure:>6}  {how}")


if __name__ == "__main__":
    main()
