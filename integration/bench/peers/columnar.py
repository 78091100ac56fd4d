"""How each library reads Parquet files. Its authors should review this code, like libraries.py.

All libraries read the same files, which `datasets` has written. Images arrive as batches of a tensor of bytes and a tensor of classes, and
texts as a dict of columns (sets.py). No library decodes images: decoding is switched off in `datasets`, because otherwise the decoder would
dominate the measurement.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from libraries import Job, Reader, from_millrace, loader_options, to_tensor
from torch.utils import data as torch_data

TEXTS = ("id", "text", "url", "language", "score")


def _sample(row: dict[str, Any]) -> Any:
    """A row in the form of a sample that torch's default_collate accepts."""
    return (to_tensor(row["image"]["bytes"]), row["label"]) if "image" in row else row


def _collate(rows: list[dict[str, Any]]) -> Any:
    batch = torch_data.default_collate([_sample(row) for row in rows])
    return tuple(batch) if isinstance(batch, list) else batch


def millrace(job: Job) -> Reader:
    """Reads in batches with the default plan. The columns' types select the decoders."""
    from millrace import decoders, open

    dataset = f"parquet-{job.set}"
    decode = decoders(open(f"s3://peers/{dataset}").describe())
    if job.set.startswith("texts"):
        return from_millrace(job, dataset, decode, lambda batch: {name: batch[name] for name in TEXTS})
    return from_millrace(job, dataset, {**decode, "image.bytes": to_tensor}, lambda batch: (batch["image.bytes"], batch["label"]))


def huggingface(job: Job) -> Reader:
    """Uses `datasets` in streaming mode over s3fs, with a different order of files in each epoch and a buffer of 1,000 rows, its default.
    """
    import datasets

    options = {"endpoint_url": job.endpoint}
    files = f"s3://peers/parquet-{job.set}/*.parquet"
    data = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True, storage_options=options)
    if not job.set.startswith("texts"):
        data = data.cast_column("image", datasets.Image(decode=False))
    data = data.shuffle(seed=job.seed, buffer_size=1000)
    loader: Any = torch_data.DataLoader(data, batch_size=job.batch, collate_fn=_collate, **loader_options(job))
    epochs = itertools.count()

    def epoch() -> Iterator[Any]:
        data.set_epoch(next(epochs))
        return iter(loader)

    return Reader(epoch, lambda _: None)


def litdata(job: Job) -> Reader:
    """Uses LitData's ParquetLoader, which downloads whole files to a local directory and reads them there by row group."""
    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.streaming.item_loader import ParquetLoader

    class Samples(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: Any) -> Any:
            return _sample(super().__getitem__(at))

    data = Samples(
        f"s3://peers/parquet-{job.set}", item_loader=ParquetLoader(), cache_dir=job.local, shuffle=True, seed=job.seed,
        storage_options={"endpoint_url": job.endpoint},
    )
    loader = StreamingDataLoader(data, batch_size=job.batch, **loader_options(job))
    return Reader(lambda: iter(loader), lambda _: loader.state_dict())


def pyarrow(job: Job) -> Reader:
    """Uses pyarrow's dataset over its own S3 filesystem. Its threads read ahead in stored order, because it has no shuffle.

    A batch ends at the end of a row group.
    """
    from pyarrow import dataset, fs

    scheme, _, address = job.endpoint.partition("://")
    store = fs.S3FileSystem(endpoint_override=address, scheme=scheme)
    found = store.get_file_info(fs.FileSelector(f"peers/parquet-{job.set}"))
    files = sorted(f.path for f in found if f.path.endswith(".parquet"))
    data = dataset.dataset(files, filesystem=store, format="parquet")

    def epoch() -> Iterator[Any]:
        for batch in data.to_batches(batch_size=job.batch):
            if not batch.num_rows:
                continue
            if "image" in batch.schema.names:
                contents = batch.column("image").field("bytes")
                images = [to_tensor(memoryview(value.as_buffer())) for value in contents]
                yield torch.stack(images), torch.from_numpy(batch.column("label").to_numpy())
            else:
                yield {name: _column(batch.column(name)) for name in TEXTS}

    return Reader(epoch, lambda _: None)


def _column(values: Any) -> Any:
    """Returns numbers as a tensor, and strings as a list."""
    return values.to_pylist() if str(values.type) == "string" else torch.from_numpy(values.to_numpy())


LIBRARIES: dict[str, Callable[[Job], Reader]] = {
    "millrace-parquet": millrace,
    "datasets": huggingface,
    "litdata-parquet": litdata,
    "pyarrow": pyarrow,
}
