"""The binary format of responses according to docs/spec/framed.md: header, framed and .npy bodies, manifest, and the index's chunks."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Optional, Union

from ._process import import_whole, literal
from .errors import CannotDecode, InvalidArgument, ProtocolError

FRAMED = "application/vnd.millrace.framed"
NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"
VERSION = 1
KEYS, PARTS = 1, 2


class Head(NamedTuple):
    """The parsed header of a response with a batch."""

    epoch: int
    number: int
    batches: int
    samples: int
    padded: int
    generation: str
    dataset: str
    location: str  # canonical path and query of the batch
    content_type: str
    etag: str
    crc32c: int
    batch_samples: int = 0
    batch_cost: int = 0  # 0: not balanced
    micro: Sequence[int] = ()


Part = tuple[str, int, int]
"""Name, start and end of one part, in the bytes of the batch."""

_Layout = tuple[list[str], tuple[int, ...], tuple[int, ...], tuple[int, ...], list[int]]
"""Names; the name numbers, offsets and lengths of all parts; and the first part of each sample."""

_FRAME = struct.Struct("<4sHHIIIIIIQ")  # magic, version, flags, samples, names, parts, bytes of keys and names, table, data


def samples_after(head: Head, table: memoryview) -> int:
    """Returns the number of sample bytes for a table without samples."""
    if len(table) < _FRAME.size:
        raise ProtocolError(f"batch {head.number}: a framed table of {len(table)} bytes")
    return int(_FRAME.unpack_from(table)[-1])


def open_framed(head: Head, body: memoryview, apart: Optional[memoryview] = None) -> tuple[memoryview, Table]:
    """Returns the sample bytes of a framed batch and its table. Keys and parts are unpacked on demand.

    The samples follow the table, unless they are passed as apart.
    """
    if len(body) < _FRAME.size:
        raise ProtocolError(f"batch {head.number}: a framed body of {len(body)} bytes")
    magic, version, flags, samples, names, parts, key_bytes, name_bytes, length, data = _FRAME.unpack_from(body)
    if magic != b"MLRF" or version != VERSION:
        raise ProtocolError(f"batch {head.number}: a framed body of version {version}, want {VERSION}")
    if not flags & PARTS:
        raise ProtocolError(f"batch {head.number}: a framed table without parts")
    keyed = flags & KEYS
    text = _FRAME.size + 4 * (samples * (2 + keyed) + 3 * parts + names)
    if text + key_bytes + name_bytes > length or length + (0 if apart is not None else data) != len(body) or samples != head.samples:
        raise ProtocolError(f"batch {head.number}: a framed table that contradicts itself or the header")
    table = Table(body[:length], samples, names, parts, text if keyed else 0, text + key_bytes)
    if table.bounds[-1] != data:
        raise ProtocolError(f"batch {head.number}: lengths of {table.bounds[-1]} bytes, where there are {data}")
    return body[length:] if apart is None else apart, table


class Table:
    """The positions of a batch's samples and parts in its bytes. The table is unpacked on demand."""

    def __init__(self, raw: memoryview, samples: int, names: int, parts: int, key_text: int, name_text: int) -> None:
        """key_text and name_text are the offsets of the texts of keys and names; key_text is 0 without keys."""
        self._raw, self._samples, self._names, self._parts = raw, samples, names, parts
        self._key_text, self._name_text = key_text, name_text
        self.bounds: Sequence[int] = [0, *accumulate(self._numbers(0, samples))]
        """One more than samples: sample i is [bounds[i], bounds[i+1])."""
        self.name_of: Callable[[str], str] = str
        """Maps stored names to public names; set before the table is unpacked."""
        # Not cached_property, which locks until Python 3.12: after a fork the lock could stay locked in the child.
        self._unpacked_keys: Optional[list[str]] = None
        self._layout: Optional[_Layout] = None

    def _numbers(self, at: int, n: int) -> tuple[int, ...]:
        """Returns n numbers of the table after the first `at`."""
        return struct.unpack_from(f"<{n}I", self._raw, _FRAME.size + 4 * at)

    def _texts(self, begin: int, end: int, lengths: Sequence[int]) -> list[str]:
        """Returns consecutive texts of the given lengths."""
        raw, bounds = bytes(self._raw[begin:end]), [0, *accumulate(lengths)]
        if bounds[-1] > len(raw):
            raise ProtocolError("a framed table whose names are longer than their text")
        return [raw[a:b].decode("utf-8", "surrogateescape") for a, b in pairwise(bounds)]

    @property
    def keys(self) -> Optional[Sequence[str]]:
        """The names of the samples, if the table has them."""
        if self._unpacked_keys is None and self._key_text:
            self._unpacked_keys = self._texts(self._key_text, self._name_text, self._numbers(self._samples, self._samples))
        return self._unpacked_keys

    def _laid(self) -> _Layout:
        if self._layout is None:
            at, n = self._samples * (2 if self._key_text else 1), self._parts
            first = [0, *accumulate(self._numbers(at, self._samples))]
            at += self._samples
            which, offsets, lengths = (self._numbers(at + i * n, n) for i in range(3))
            names = self._texts(self._name_text, len(self._raw), self._numbers(at + 3 * n, self._names))
            if first[-1] != n or (which and max(which) >= len(names)):
                raise ProtocolError("a framed table whose parts contradict each other")
            called = list(map(self.name_of, names))
            if called != names:
                number = {name: i for i, name in reversed(list(enumerate(called)))}
                merged = tuple(number[called[n]] for n in which)
                # otherwise a sample has two parts with the same name
                if all(len(set(merged[a:b])) == b - a for a, b in pairwise(first)):
                    names, which = called, merged
            self._layout = names, which, offsets, lengths, first
        return self._layout

    def names(self) -> list[str]:
        """Returns the names of all parts."""
        return list(dict.fromkeys(self._laid()[0]))

    def parts(self, i: int) -> list[Part]:
        """Returns the parts of sample i."""
        names, which, offsets, lengths, first = self._laid()
        begin, end = self.bounds[i], self.bounds[i + 1]
        out = []
        for j in range(first[i], first[i + 1]):
            a = begin + offsets[j]
            if a + lengths[j] > end:
                raise ProtocolError(f"part {names[which[j]]!r} of sample {i} is longer than the sample")
            out.append((names[which[j]], a, a + lengths[j]))
        return out

    def column(self, name: str) -> Optional[list[tuple[int, int]]]:
        """Returns the range of one part in each sample, if all samples have the same parts in the same order; otherwise None."""
        names, which, offsets, lengths, first = self._laid()
        each = first[1] if self._samples else 0
        if not each or which != which[:each] * self._samples or name not in (parts := [names[w] for w in which[:each]]):
            return None
        j = parts.index(name)
        out = [(b + o, b + o + n) for b, o, n in zip(self.bounds, offsets[j::each], lengths[j::each])]
        if any(z > end for (_, z), end in zip(out, self.bounds[1:])):
            raise ProtocolError(f"part {name!r} of a sample is longer than the sample")
        return out


class ArrayHeader(NamedTuple):
    """Type and shape of a batch that is an array, according to NumPy's header. The rows are the samples."""

    dtype: object
    shape: tuple[int, ...]


def open_npy(head: Head, body: memoryview) -> tuple[memoryview, ArrayHeader]:
    """Returns the bytes of a batch that is an array, and its parsed header."""
    try:
        if bytes(body[:6]) != b"\x93NUMPY":
            raise ValueError("no .npy header")
        wide = 2 if body[6] == 1 else 4
        start = 8 + wide
        end = start + int.from_bytes(body[8:start], "little")
        fields = literal(bytes(body[start:end]).decode("utf-8"))
        shape = tuple(int(n) for n in fields["shape"])
        if fields["fortran_order"] or not shape or shape[0] != head.samples or end > len(body):
            raise ValueError(f"an array of shape {shape} for {head.samples} samples")
        if (len(body) - end) % max(head.samples, 1):
            raise ValueError(f"{len(body) - end} bytes for {head.samples} samples")
    except (ValueError, KeyError, TypeError, SyntaxError, IndexError, MemoryError, RecursionError) as e:
        raise ProtocolError(f"batch {head.number}: {e}") from None
    return body[end:], ArrayHeader(fields["descr"], shape)


class Stream(NamedTuple):
    """An Arrow stream: the column of keys, then the parts, with a row for each sample."""

    samples: int

    def read(self, body: memoryview) -> Any:
        """Returns the stream as a pyarrow.RecordBatch over the memory of the body."""
        try:
            records = import_whole("pyarrow.ipc").open_stream(body).read_next_batch()
        except ImportError as e:
            raise CannotDecode("pyarrow is not installed", cure="pip install pyarrow, or leave form out: with decode=True columns are lists") from e
        except (ValueError, StopIteration, OSError) as e:
            raise ProtocolError(f"an Arrow stream: {e}") from None
        if records.num_rows != self.samples:
            raise ProtocolError(f"an Arrow stream of {records.num_rows} rows for {self.samples} samples")
        return records


Layout = Union[Table, ArrayHeader, Stream]
"""The positions of samples in a body, or its columns."""

OPEN: dict[str, Callable[[Head, memoryview], tuple[memoryview, Layout]]] = {
    FRAMED: open_framed, NPY: open_npy, ARROW: lambda head, body: (body, Stream(head.samples)),
}  # fmt: skip
"""By media type: functions that return the sample bytes and their layout."""


class Keys(list[str]):
    """The names of samples. If it is called like the method of a dict, it raises an error with an explanation."""

    def __call__(self) -> Any:
        raise InvalidArgument("batch.keys are the names of the samples, without (): the names of their parts are batch.names()")


class Manifest(NamedTuple):
    """The parsed manifest of a batch."""

    keys: list[str]
    positions: list[int]
    sources: Sequence[str] = ()  # the dataset of each sample, for a mixture


def read_manifest(answer: Any, head: Head) -> Manifest:
    """Parses and checks the manifest of a batch."""
    of = Manifest([], [])
    try:
        for s in answer["samples"]:
            position, key = s["position"], s["key"]
            if not isinstance(position, int) or not isinstance(key, str):
                raise TypeError("a sample without position or key")
            of.keys.append(base64.b64decode(key).decode("utf-8", "surrogateescape") if s.get("key_base64") else key)
            of.positions.append(position)
    except (KeyError, TypeError, ValueError, binascii.Error) as e:
        raise ProtocolError(f"the manifest of batch {head.number}: {e}") from None
    if len(of.keys) != head.samples:
        raise ProtocolError(f"the manifest of batch {head.number} has {len(of.keys)} samples, the batch {head.samples}")
    return of._replace(sources=[str(s.get("source", "")) for s in answer["samples"]])


_ROOT = struct.Struct("<8sIIQ")  # magic, version, length of the metadata, segments; then a row for each segment
_ROW = struct.Struct("<32x2Q")  # length of the segment, length of its resident part
_SEGMENT = struct.Struct("<8sII8xQ8xQ16x24xIIQQ")  # magic, version, sections, chunks, samples; entry of section 2: number, 0, offset, length
_ENTRY = struct.Struct("<36xI16x")  # row of a chunk: its number of samples
MAX_CHUNKS = 1 << 25


def chunk_counts(read: Callable[[int, int], bytes], what: str) -> list[int]:
    """Returns the sample counts of an index's chunks (docs/spec/index-format.md). read(start, length) returns bytes of it."""
    magic, version, meta, segments = _ROOT.unpack(read(0, _ROOT.size))
    if (magic, version) != (b"MILLRACE", 3):
        raise ProtocolError(f"{what}: an index of another version")
    counts: list[int] = []
    at = _ROOT.size + _ROW.size * segments + meta
    for size, resident in _ROW.iter_unpack(read(_ROOT.size, _ROW.size * segments)):
        head = read(at, resident)
        *ours, chunks, samples, number, _, offset, length = _SEGMENT.unpack_from(head)
        if ours != [b"MRSEGMNT", 3, 10] or number != 2 or len(counts) + chunks > MAX_CHUNKS or length != chunks * _ENTRY.size:
            raise ProtocolError(f"{what}: a table of {length} bytes for {chunks} chunks")
        found = [n for (n,) in _ENTRY.iter_unpack(head[offset : offset + length])]
        if (len(found), sum(found)) != (chunks, samples):
            raise ProtocolError(f"{what}: {len(found)} chunks of {sum(found)} samples, where there are {chunks} of {samples}")
        counts += found
        at += size
    return counts
