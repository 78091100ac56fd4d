"""Writes files for the table of oddities that only libraries can write: odd.py KIND DIRECTORY.

Each kind is written with its usual library. Nothing is printed.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROWS = {"id": list(range(4)), "text": ["a", "b", "c", "d"]}


def parquet(directory: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    for split in range(2):
        parquet.write_table(pyarrow.table(ROWS), directory / f"train-{split:05d}-of-00002.parquet")
    (directory / "README.md").write_text("a card\n")


def arrow(directory: Path) -> None:
    import pyarrow
    from pyarrow import feather

    feather.write_feather(pyarrow.table(ROWS), directory / "data-00000-of-00001", compression="uncompressed")
    (directory / "dataset_info.json").write_text("{\n}\n")


def npz(directory: Path) -> None:
    np.savez(directory / "arrays.npz", a=np.arange(4))


def tfrecord(directory: Path) -> None:
    import tfrecord

    for shard in range(2):
        out = tfrecord.TFRecordWriter(str(directory / f"train-{shard:05d}-of-00002"))
        for i in range(5):
            out.write({"id": (i, "int")})
        out.close()


def damaged(directory: Path) -> None:
    tfrecord(directory)
    path = directory / "train-00001-of-00002"
    body = bytearray(path.read_bytes())
    body[0] ^= 1
    path.write_bytes(body)


def jsonl(directory: Path) -> None:
    """Writes lines joined by `"\\n".join`, and lines in the format of Windows's Notepad."""
    lines = [json.dumps({"id": i, "text": "x" * (5000 * (i % 2))}) for i in range(4)]
    (directory / "joined.jsonl").write_text("\n".join(lines))
    (directory / "notepad.jsonl").write_text("\r\n".join(lines), encoding="utf-8-sig", newline="")


def mds(directory: Path) -> None:
    from streaming import MDSWriter

    names = [f"a column with a name of some forty bytes {i:04d}" for i in range(1500)]
    with MDSWriter(columns=dict.fromkeys(names, "float32"), out=str(directory)) as writer:
        for i in range(3):
            writer.write(dict.fromkeys(names, np.float32(i)))


def litdata(directory: Path) -> None:
    import litdata.helpers
    from litdata.streaming.cache import Cache

    litdata.helpers._get_newer_version = lambda _: None  # otherwise it sends a request to PyPI
    cache = Cache(str(directory), chunk_bytes=1 << 20)
    for i in range(3):
        cache[i] = [float(i)] * 5000
    cache.done()
    cache.merge()


KINDS: Any = {f.__name__: f for f in (parquet, arrow, npz, tfrecord, damaged, jsonl, mds, litdata)}

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    KINDS[sys.argv[1]](Path(sys.argv[2]))
