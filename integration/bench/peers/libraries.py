"""How each library reads a set. Its authors should review this code.

Each function takes a Job and returns a Reader. All return the same: batches of a tensor of bytes
[samples, length] and a tensor of classes, by a DataLoader with the requested number of workers.
Settings are those that the library's own documentation recommends for training from S3, and all
others keep their defaults. The workers batch samples, as WebDataset's documentation advises. Its
further step of shuffling the batches of all workers again is left out, because it passes every
sample through the main process once more.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

warnings.filterwarnings("ignore")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["DISABLE_VERSION_CHECK"] = "1"

import torch

BATCH = 256


@dataclass
class Job:
    set: str  # name of the set
    samples: int
    shards: int  # tar shards of the set
    endpoint: str  # of the store
    local: str  # empty directory for the library's files on this machine
    workers: int
    seed: int = 1
    batch: int = BATCH  # samples of this process's batches
    ranks: int = 1  # processes that read together, as RANK and WORLD_SIZE say too
    state: dict[str, Any] | None = None  # of a reader before
    skip: int = 0  # batches that an earlier run has had


@dataclass
class Reader:
    epoch: Callable[[], Iterator[Any]]  # the batches of one more epoch: see sets.py
    # the state after a number of batches; None: the library cannot resume, and reads these batches
    # again
    state: Callable[[int], dict[str, Any] | None]


def to_tensor(content: Any) -> torch.Tensor:
    """A tensor over the bytes that a library hands out: the batch is a copy of them in any case."""
    return torch.frombuffer(content, dtype=torch.uint8)


def loader_options(job: Job) -> dict[str, Any]:
    return {"num_workers": job.workers, "persistent_workers": job.workers > 0, "prefetch_factor": 2}  # torch's own default


def webdataset(job: Job) -> Reader:
    """tar shards, streamed whole over HTTP by curl, a shuffle of the shards and one of 1,000 samples in memory."""
    return _webdataset(job, None)


def webdataset_cache(job: Job) -> Reader:
    """The same with cache_dir: shards are downloaded whole to a local directory, and read from there."""
    return _webdataset(job, job.local)


def _webdataset(job: Job, cache_dir: str | None) -> Reader:
    import webdataset as wds

    last = job.shards - 1
    urls = f"{job.endpoint}/peers/tar-{job.set}/shard-{{000000..{last:06d}}}.tar"
    data = (
        wds.WebDataset(urls, shardshuffle=100, seed=job.seed, nodesplitter=wds.split_by_node, cache_dir=cache_dir)
        .shuffle(1000)
        .to_tuple("bin", "cls")
        .map_tuple(to_tensor, int)
        .batched(job.batch)
    )
    loader = wds.WebLoader(data, batch_size=None, **loader_options(job))

    def epoch() -> Iterator[Any]:
        for n, (content, label) in enumerate(loader):
            if n >= job.skip:
                yield content, torch.as_tensor(label)
        job.skip = 0

    return Reader(epoch, lambda _: None)


def streaming(job: Job) -> Reader:
    """MDS shards, downloaded whole to a local directory, shuffled by py1e, the default.

    The client that has fetched the index is dropped before workers are forked. Streaming 0.13 leaves it to them with its open
    connection: two workers then read each other's answers from one socket, wait 60 seconds for bytes that the other one took, or
    keep a broken shard. This is kinder than spawning the workers, which costs each of them seconds of imports.
    """
    os.environ["S3_ENDPOINT_URL"] = job.endpoint
    from streaming import StreamingDataLoader, StreamingDataset

    class Samples(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
            sample = super().__getitem__(at)
            return to_tensor(sample["bin"]), sample["cls"]

    data = Samples(
        remote=f"s3://peers/mds-{job.set}", local=job.local, shuffle=True, shuffle_seed=job.seed, batch_size=job.batch
    )
    for stream in data.streams:
        stream._downloader.clean_up()
    loader = StreamingDataLoader(data, batch_size=job.batch, **loader_options(job))
    if job.state is not None:
        loader.load_state_dict(job.state)
    return Reader(lambda: iter(loader), lambda _: loader.state_dict())


def litdata(job: Job) -> Reader:
    """LitData's chunks, downloaded whole to a local directory."""
    from litdata import StreamingDataLoader, StreamingDataset

    class Samples(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: Any) -> tuple[torch.Tensor, int]:
            sample = super().__getitem__(at)
            return to_tensor(sample["bin"]), sample["cls"]

    data = Samples(
        f"s3://peers/litdata-{job.set}", cache_dir=job.local, shuffle=True, seed=job.seed,
        storage_options={"endpoint_url": job.endpoint},
    )
    loader = StreamingDataLoader(data, batch_size=job.batch, **loader_options(job))
    if job.state is not None:
        loader.load_state_dict(job.state)
    return Reader(lambda: iter(loader), lambda _: loader.state_dict())


def millrace(job: Job) -> Reader:
    """Reads tar shards, the same as WebDataset's, by batches with the default plan, without a
    server: millrace.open starts a gateway.
    """
    return from_millrace(job, f"tar-{job.set}", {"bin": to_tensor, "cls": int}, _content_and_class)


def millrace_mds(job: Job) -> Reader:
    """MDS shards, the same as MosaicML Streaming's, likewise."""
    return from_millrace(job, f"mds-{job.set}", {"bin": to_tensor, "cls": to_number}, _content_and_class)


def to_number(content: Any) -> int:
    return int.from_bytes(content, "little")


def _content_and_class(batch: dict[str, Any]) -> Any:
    return batch["bin"], batch["cls"]


def from_millrace(job: Job, dataset: str, decode: Mapping[str, Callable[[Any], Any]], build: Callable[[dict[str, Any]], Any]) -> Reader:
    """Reads batches of a dataset in the bucket. build makes the set's batches from the columns. The
    decoders only read: copy=False.
    """
    from millrace import Reading
    from millrace.torch import DataLoader, Dataset

    samples = job.batch * job.ranks
    data = Dataset(f"s3://peers/{dataset}", global_batch_size=samples, seed=job.seed, decode=decode, reading=Reading(copy=False))
    if job.state is not None:
        data.load_state_dict(job.state)
    loader = DataLoader(data, **loader_options(job))

    def epoch() -> Iterator[Any]:
        for batch in loader:
            if batch:  # a rank's share of the last batch may be empty
                yield build(batch)

    return Reader(epoch, lambda _: loader.state_dict())


LIBRARIES: dict[str, Callable[[Job], Reader]] = {
    "millrace": millrace,
    "millrace-mds": millrace_mds,
    "webdataset": webdataset,
    "webdataset-cache": webdataset_cache,
    "streaming": streaming,
    "litdata": litdata,
}
