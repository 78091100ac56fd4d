"""Writes a set in a library's own format with the library's own writer: pack.py FORMAT NAME MEBIBYTES SHARD DIR

MEBIBYTES is the size of the set; 0 is its default size. SHARD is the size of a shard in bytes, which is the same for all formats except
Parquet.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import libraries  # noqa: F401  keeps libraries from asking the network
import sets

FILES = 4  # Parquet files per set: `datasets` and LitData divide files among workers, of which there are four


def tar(data: sets.Set, shard: int, out: str) -> None:
    """Writes WebDataset's shards. Millrace indexes the same files in place."""
    import webdataset

    with webdataset.ShardWriter(os.path.join(out, "shard-%06d.tar"), maxsize=shard, maxcount=1 << 30, verbose=0) as w:
        for i, label, content in data:
            w.write({"__key__": f"{i:08d}", "bin": content, "cls": str(label).encode()})


def mds(data: sets.Set, shard: int, out: str) -> None:
    from streaming import MDSWriter

    with MDSWriter(out=out, columns={"bin": "bytes", "cls": "int"}, size_limit=shard) as w:
        for _, label, content in data:
            w.write({"bin": content, "cls": label})


def litdata(data: sets.Set, shard: int, out: str) -> None:
    from litdata.streaming.cache import Cache

    cache = Cache(out, chunk_bytes=shard)
    for i, label, content in data:
        cache[i] = {"bin": content, "cls": label}
    cache.done()
    cache.merge()


def parquet(data: sets.Set, _: int, out: str) -> None:
    """Writes files with `datasets` or pyarrow, together with LitData's index. Millrace and all others read them in place."""
    import datasets
    import litdata
    from pyarrow import parquet

    assert data.parquet is not None
    columns: dict[str, Any] = {"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=sets.CLASSES)}
    if isinstance(data, sets.Texts):
        types = {"id": "int64", "text": "string", "url": "string", "language": "string", "score": "float32"}
        columns = {name: datasets.Value(kind) for name, kind in types.items()}
    with tempfile.TemporaryDirectory() as cache:
        table = datasets.Dataset.from_generator(data.rows, features=datasets.Features(columns), cache_dir=cache)
        for n in range(FILES):
            path = os.path.join(out, f"train-{n:05d}-of-{FILES:05d}.parquet")
            part = table.shard(FILES, n, contiguous=True)
            if data.parquet.writer == "datasets":
                part.to_parquet(path, batch_size=data.parquet.group)
            else:
                parquet.write_table(part.with_format("arrow")[:], path, compression="zstd", row_group_size=data.parquet.group)
    litdata.index_parquet_dataset(out)


if __name__ == "__main__":
    kind, name, size, shard, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    {"tar": tar, "mds": mds, "litdata": litdata, "parquet": parquet}[kind](sets.make(name, int(size)), int(shard), out)
