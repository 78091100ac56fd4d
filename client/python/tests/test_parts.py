"""Parsing of bytes: framed tables and arrays, valid and damaged ones."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from millrace import crc
from millrace._layout import Head, Manifest, chunk_counts, open_framed, open_npy
from millrace.batch import Batch, Decoding
from millrace.errors import InvalidArgument, MillraceError, ProtocolError


def head(samples: int) -> Head:
    return Head(0, 0, 1, samples, 0, "g", "d", "", "", "", 0)


TABLE: list[dict[str, bytes]] = [{"cls": b"1", "jpg": b"abc"}, {"cls": b"", "jpg": b"d"}, {"cls": b"23", "jpg": b"efgh"}]


def framed(samples: list[dict[str, bytes]], keys: list[str]) -> bytes:
    """Returns a framed body according to docs/spec/framed.md, with all samples joined."""
    names = list(dict.fromkeys(n for s in samples for n in s))
    u32 = lambda ns: struct.pack(f"<{len(ns)}I", *ns)  # noqa: E731
    body = b"".join(b"".join(s.values()) for s in samples)
    text = "".join(keys).encode(), "".join(names).encode()
    offsets: list[int] = []
    for s in samples:
        at = 0
        for v in s.values():
            offsets.append(at)
            at += len(v)
    every = [(n, v) for s in samples for n, v in s.items()]
    table = u32([sum(map(len, s.values())) for s in samples]) + u32([len(k.encode()) for k in keys]) + u32([len(s) for s in samples])
    table += u32([names.index(n) for n, _ in every]) + u32(offsets) + u32([len(v) for _, v in every]) + u32([len(n) for n in names])
    table += text[0] + text[1]
    length = 40 + len(table) + -len(table) % 8
    start = struct.pack(
        "<4sHHIIIIIIQ", b"MLRF", 1, 3, len(samples), len(names), len(every), len(text[0]), len(text[1]), length, len(body)
    )
    return (start + table).ljust(length, b"\0") + body


def opened(data: bytes, samples: int, **decode: Any) -> Batch:
    body, table = open_framed(head(samples), memoryview(data))
    return Batch(head(samples), body, Decoding(lambda _: Manifest([], []), decode=decode), table)


def test_a_table_without_parts_is_refused() -> None:
    data = bytearray(framed(TABLE, ["a", "b", "c"]))
    data[6] = 1  # flags: with keys, without parts
    with pytest.raises(ProtocolError, match="without parts"):
        opened(bytes(data), 3)


MIXED = [{"a": b"1", "b": b"2"}, {"b": b"3", "a": b"4"}]


@pytest.mark.parametrize("samples", [TABLE, [], [{}, {}], [{"a": b"1"}, {"b": b"2", "a": b"3"}], MIXED])
def test_framed(samples: list[dict[str, bytes]]) -> None:
    keys = [f"k{i}é" for i in range(len(samples))]
    batch = opened(framed(samples, keys), len(samples))
    assert list(batch.keys) == keys
    assert [{n: bytes(v) for n, v in s.parts.items()} for s in batch] == samples
    for name in {n for s in samples for n in s}:
        if all(name in s for s in samples):
            assert [bytes(v) for v in batch[name]] == [s[name] for s in samples]
        else:
            with pytest.raises(KeyError):
                batch[name]


def test_decoders_of_parts_that_some_samples_lack() -> None:
    seen: list[bytes] = []

    def noted(view: memoryview) -> str:
        seen.append(bytes(view))
        return bytes(view).decode()

    data = framed([{"jpg": b"one"}, {"png": b"two"}, {"jpg": b"three"}], ["a", "b", "c"])
    batch = opened(data, 3, jpg=noted, png=noted, gif=noted)
    batch.decode_all()
    assert [dict(s) for s in batch] == [{"jpg": "one"}, {"png": "two"}, {"jpg": "three"}]
    assert sorted(seen) == [b"one", b"three", b"two"]  # ahead of its use, and once
    with pytest.raises(InvalidArgument, match="no sample has a part 'gif': the first one has 'jpg'"):
        opened(data, 3, gif=noted).decode_all()
    opened(framed([], []), 0, gif=noted).decode_all()


NPY = b"\x93NUMPY\x01\x00"


def npy(text: str, data: bytes) -> bytes:
    return NPY + struct.pack("<H", len(text)) + text.encode() + data


def test_npy() -> None:
    body, array = open_npy(head(2), memoryview(npy("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }\n", b"abcdefghijkl")))
    assert (array.dtype, array.shape, bytes(body)) == ("<u2", (2, 3), b"abcdefghijkl")


def damage(data: bytes, r: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(r.randint(1, 4)):
        where = r.randrange(len(out))
        out[where] = r.choice((0, 1, 0x7F, 0xFF, r.randrange(256)))
    return bytes(out[: r.choice((len(out), r.randrange(len(out) + 1)))])


def read_batch(open_: Callable[[bytes], Batch], data: bytes) -> None:
    batch = open_(data)
    for s in batch:
        assert len(s.data) <= len(batch.data)
        assert sum(map(len, s.parts.values())) <= 3 * len(batch.data)
    for name in list(batch[0]) if len(batch) else []:
        batch[name]
    assert len(batch.keys) == len(batch)


@pytest.mark.parametrize(
    ("whole", "read"),
    [
        (framed(TABLE, ["a", "b", "c"]), lambda d: read_batch(lambda x: opened(x, 3), d)),
        (npy("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }", b"x" * 12), lambda d: open_npy(head(2), memoryview(d))),
    ],
)
def test_damaged_bytes_raise_what_is_documented(whole: bytes, read: Callable[[bytes], Any]) -> None:
    read(whole)
    r, refused = random.Random(7), 0
    for _ in range(3000):
        try:
            read(damage(whole, r))
        except (MillraceError, KeyError):
            refused += 1
    assert refused > 20


def test_crc() -> None:
    assert crc.crc32c(b"123456789") == 0xE3069283
    assert crc.crc32c(b"6789", crc.crc32c(b"12345")) == 0xE3069283
    data = random.Random(1).randbytes(100_000)
    always, auto = crc.checksum("always"), crc.checksum("auto")
    assert always is not None
    assert always(memoryview(bytearray(data))) == crc.crc32c(data)
    if auto is not None:
        assert auto(memoryview(bytearray(data))) == crc.crc32c(data)
    assert crc.checksum("never") is None


def index_of(*segments: list[int], version: int = 3, samples: int | None = None) -> bytes:
    """Returns an index with the header and the chunk table of each segment, from the sample counts of its chunks."""
    bodies = []
    for counts in segments:
        n = sum(counts) if samples is None else samples
        head = struct.pack("<8sII8xQ8xQ16x24xIIQQ", b"MRSEGMNT", 3, 10, len(counts), n, 2, 0, 344, 56 * len(counts))
        bodies.append(head.ljust(344, b"\0") + b"".join(struct.pack("<36xI16x", n) for n in counts))
    root = struct.pack("<8sIIQ", b"MILLRACE", version, 5, len(bodies)) + b"".join(struct.pack("<32xQQ", len(b) + 7, len(b)) for b in bodies)
    return root + b"meta." + b"".join(b + b"blocks." for b in bodies)


def counts_of(index: bytes) -> list[int]:
    return chunk_counts(lambda start, length: index[start : start + length], "index")


def test_chunk_counts_of_all_segments() -> None:
    assert counts_of(index_of([5, 1], [], [7])) == [5, 1, 7]
    for version in 2, 4:
        with pytest.raises(ProtocolError, match="an index of another version"):
            counts_of(index_of([5], version=version))
    with pytest.raises(ProtocolError, match="1 chunks of 5 samples, where there are 1 of 6"):
        counts_of(index_of([5], samples=6))
    with pytest.raises(ProtocolError, match="a table of 56 bytes for 2 chunks"):
        counts_of(index_of([5]).replace(struct.pack("<Q8xQ", 1, 5), struct.pack("<Q8xQ", 2, 5)))
