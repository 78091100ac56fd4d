"""Parses an MDS shard strictly by MosaicML Streaming's format."""

import itertools
import json
import struct


def mds(body: bytes) -> list[dict[str, bytes]]:
    """The columns of each sample of a shard."""
    (count,) = struct.unpack_from("<I", body)
    offsets = struct.unpack_from(f"<{count + 1}I", body, 4)
    header = json.loads(body[8 + 4 * count : offsets[0]])
    sizes = header["column_sizes"]
    if offsets[-1] != len(body) or header["format"] != "mds":
        raise ValueError(f"a shard of {len(body)} bytes whose last offset is {offsets[-1]}")
    out = []
    for begin, end in itertools.pairwise(offsets):
        lengths = iter(struct.unpack_from(f"<{sizes.count(None)}I", body, begin))
        at, sample = begin + 4 * sizes.count(None), {}
        for column, size in zip(header["column_names"], sizes):
            length = next(lengths) if size is None else size
            sample[column] = body[at : at + length]
            at += length
        if at != end:
            raise ValueError(f"a sample of {end - begin} bytes with columns of {at - begin}")
        out.append(sample)
    return out
