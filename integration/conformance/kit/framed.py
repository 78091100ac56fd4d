"""Parses the framed form of a batch, and responses with many batches, strictly by docs/spec/framed.md."""

import struct
from typing import NamedTuple, Optional

HEADER = struct.Struct("<4sHHIIIIIIQ")
BATCH = struct.Struct("<4sHHQQIIII32s")


class Framed(NamedTuple):
    samples: list[bytes]
    keys: Optional[list[str]]
    parts: Optional[list[dict[str, bytes]]]


def parse(body: bytes) -> Framed:
    """Splits a framed body. An inconsistent table raises ValueError."""
    magic, version, flags, n, names, parts, key_bytes, name_bytes, table, size = HEADER.unpack_from(body)
    if magic != b"MLRF" or version != 1 or table % 8 or table + size != len(body):
        raise ValueError(f"header {body[:40].hex()} before a body of {len(body)} bytes")
    at = HEADER.size

    def numbers(count: int) -> tuple[int, ...]:
        nonlocal at
        at += 4 * count
        return struct.unpack_from(f"<{count}I", body, at - 4 * count)

    lengths = numbers(n)
    key_lengths = numbers(n) if flags & 1 else ()
    laid = [numbers(n), numbers(parts), numbers(parts), numbers(parts), numbers(names)] if flags & 2 else []
    text = body[at : at + key_bytes + name_bytes]
    if at + len(text) > table or any(body[at + len(text) : table]) or sum(lengths) != size:
        raise ValueError("a table that contradicts its header")
    samples = cut(body[table:], lengths)
    keys = [k.decode() for k in cut(text[:key_bytes], key_lengths)] if flags & 1 else None
    if not laid:
        return Framed(samples, keys, None)
    counts, which, offsets, sizes, name_lengths = laid
    called = [name.decode() for name in cut(text[key_bytes:], name_lengths)]
    out: list[dict[str, bytes]] = []
    j = 0
    for sample, count in zip(samples, counts):
        out.append({})
        for _ in range(count):
            if offsets[j] + sizes[j] > len(sample):
                raise ValueError("a part that is longer than its sample")
            out[-1][called[which[j]]] = sample[offsets[j] : offsets[j] + sizes[j]]
            j += 1
    return Framed(samples, keys, out)


def cut(data: bytes, lengths: tuple[int, ...]) -> list[bytes]:
    """Cuts data into pieces of these lengths, which must cover it exactly."""
    out, at = [], 0
    for n in lengths:
        out.append(data[at : at + n])
        at += n
    if at != len(data):
        raise ValueError(f"lengths of {at} bytes, where there are {len(data)}")
    return out


class Streamed(NamedTuple):
    batch: int
    crc: int
    samples: int
    padded: int
    etag: str
    body: bytes


def batches(body: bytes) -> list[Streamed]:
    """Splits a response with many batches."""
    out, at = [], 0
    while at < len(body):
        magic, version, header, batch, size, crc, samples, padded, _, etag = BATCH.unpack_from(body, at)
        if magic != b"MLRB" or version != 1 or header < BATCH.size or at + header + size > len(body):
            raise ValueError(f"batch header {body[at : at + 72].hex()} at {at} of {len(body)} bytes")
        out.append(Streamed(batch, crc, samples, padded, f'"{etag.hex()}"', body[at + header : at + header + size]))
        at += header + size
    return out
