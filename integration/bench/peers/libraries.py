"""How each library reads a set. Its authors should review this code.

Each function accepts a Job and returns a Reader. All readers return the same: batches of a tensor of bytes [samples, length] and a tensor
of classes, from a DataLoader with the requested number of workers. Settings are those that the library's own documentation recommends for
training from S3; all others keep their defaults. The workers batch samples, as WebDataset's documentation advises. Its further step of
shuffling the batches of all workers again is omitted, because it passes every sample through the main process once more.
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
    endpoint: str  # URL of the store
    local: str  # empty directory for the library's local files
    workers: int
    seed: int = 1
    batch: int = BATCH  # samples per batch of this process
    ranks: int = 1  # number of processes that read together, also in RANK and WORLD_SIZE
    state: dict[str, Any] | None = None  # state of an earlier reader
    skip: int = 0  # batches that an earlier run has read


@dataclass
class Reader:
    epoch: Callable[[], Iterator[Any]]  # yields the batches of one more epoch: see sets.py
    # the state after a number of batches; None: the library cannot resume, and reads these batches again
    state: Callable[[int], dict[str, Any] | None]


def to_tensor(content: Any) -> torch.Tensor:
    """Wraps bytes of a library in a tensor without a copy, because batching copies them anyway."""
    return torch.frombuffer(content, dtype=torch.uint8)


def loader_options(job: Job) -> dict[str, Any]:
    return {"num_workers": job.workers, "persistent_workers": job.workers > 0, "prefetch_factor": 2}  # torch's default


def webdataset(job: Job) -> Reader:
    """Streams tar shards over HTTP with curl, shuffles the shards, and shuffles 1,000 samples in memory."""
    return _webdataset(job, None)


def webdataset_cache(job: Job) -> Reader:
    """Like webdataset, but with cache_dir: whole shards are downloaded to a local directory, and read from there."""
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
    """Downloads whole MDS shards to a local directory, shuffled by py1e, the default.

    The client that has fetched the index is deleted before workers are forked. Otherwise workers of Streaming 0.13 inherit it with its open
    connection. Two workers then read each other's responses from one socket, wait 60 seconds for bytes that the other worker read, or store
    a broken shard. The alternative, spawned workers, would cost each worker seconds of imports.
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
    """Downloads whole chunks of LitData to a local directory."""
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
    """Reads WebDataset's tar shards in batches with the default plan, without a server: millrace.open starts a gateway."""
    return from_millrace(job, f"tar-{job.set}", {"bin": to_tensor, "cls": int}, _content_and_class)


def millrace_mds(job: Job) -> Reader:
    """Reads MosaicML Streaming's MDS shards in the same way."""
    return from_millrace(job, f"mds-{job.set}", {"bin": to_tensor, "cls": to_number}, _content_and_class)


def to_number(content: Any) -> int:
    return int.from_bytes(content, "little")


def _content_and_class(batch: dict[str, Any]) -> Any:
    return batch["bin"], batch["cls"]


def from_millrace(job: Job, dataset: str, decode: Mapping[str, Callable[[Any], Any]], build: Callable[[dict[str, Any]], Any]) -> Reader:
    """Reads batches of a dataset in the bucket. build makes the set's batches from the columns. copy=False, because the decoders only read.
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
