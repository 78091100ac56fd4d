"""Writes a set in a library's own format with the library's own writer: pack.py FORMAT NAME BYTES SHARD DIR

SHARD is the bytes after which a shard ends, the same for all formats.
"""

from __future__ import annotations

import os
import sys

import libraries  # noqa: F401  keeps libraries from asking the network
import sets


def tar(data: sets.Set, shard: int, out: str) -> None:
    """WebDataset's shards. Millrace indexes the same files in place."""
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


if __name__ == "__main__":
    kind, name, size, shard, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    {"tar": tar, "mds": mds, "litdata": litdata}[kind](sets.make(name, int(size)), int(shard), out)
