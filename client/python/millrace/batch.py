"""A batch and its samples: views of the bytes that came, cut and decoded only when somebody asks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union, overload

from . import _tar
from .errors import InvalidArgument, MillraceError, ProtocolError

Decoder = Callable[[memoryview], Any]
"""Turns the bytes of one part of one sample into a value."""


@dataclass(frozen=True)
class Head:
    """What the header of an answer says about a batch."""

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


Part = tuple[str, int, int]
"""Name, begin and end of one part, in the bytes of the batch."""


class Table:
    """Where the samples of a batch lie in its bytes, with what else is known of them."""

    def __init__(
        self, bounds: Sequence[int], keys: Optional[Sequence[str]] = None, positions: Optional[Sequence[int]] = None
    ) -> None:
        self.bounds = bounds
        """One more than samples: sample i is [bounds[i], bounds[i+1])."""
        self.positions = positions
        self._known = keys

    @property
    def keys(self) -> Optional[Sequence[str]]:
        """The samples' names, where the table has them."""
        return self._known

    def parts(self, i: int) -> Optional[list[Part]]:  # noqa: ARG002
        """The parts of sample i, where the table has them."""
        return None

    def column(self, name: str) -> Optional[list[tuple[int, int]]]:  # noqa: ARG002
        """Where one part of all samples lies, if the table has parts and all samples have this one."""
        return None


@dataclass(frozen=True)
class Source:
    """Where what is missing of a batch is asked for: its table and keys, when they did not come with it."""

    manifest: Callable[[Head], Table]
    format: str = "tar"  # of the samples
    decode: Mapping[str, Decoder] = field(default_factory=dict)
    positions: Optional[Callable[[Head], Optional[Sequence[int]]]] = None
    plain: bool = True  # a body is the samples one after another, from its first byte on
    gather: Callable[[int, Iterator[Any]], Any] = lambda _, values: list(values)  # makes a column of the decoded values


class Batch(Sequence["Sample"]):
    """One rank's share of one global batch.

    A sequence of samples. `batch["jpg"]` is that part of all its samples, a list; decoded, if the reader has a decoder for it.
    Nothing is parsed, and no object made, before it is asked for. Views keep the bytes of the whole batch in memory: copy
    (`bytes(view)`) what is to outlive it by much.
    """

    __slots__ = ("_decoded", "_head", "_manifest", "_some", "_source", "_table", "data", "value")

    def __init__(self, head: Head, data: memoryview, source: Source, table: Optional[Table] = None) -> None:
        self._head, self._source, self._table = head, source, table
        self._manifest: Optional[Table] = None
        self._decoded: dict[str, list[Any]] = {}
        self._some: dict[str, dict[int, Any]] = {}  # decoded parts that not all samples have
        self.data: memoryview = data
        """All bytes of the samples, in the form that was asked for."""
        self.value: Any = None
        """What the reader's `transform` returned for this batch."""

    number = property(lambda self: self._head.number, doc="Number of the batch in its epoch, from 0.")
    epoch = property(lambda self: self._head.epoch, doc="Number of the epoch.")
    batches = property(lambda self: self._head.batches, doc="How many batches the epoch has.")
    padded = property(lambda self: self._head.padded, doc="How many samples, the last ones, repeat samples of the epoch.")
    generation = property(lambda self: self._head.generation, doc="The index that the batch comes from.")
    dataset = property(lambda self: self._head.dataset, doc="Name of the dataset.")
    location = property(lambda self: self._head.location, doc="Canonical path and query: what losses are reported under.")
    content_type = property(lambda self: self._head.content_type, doc="Media type of the answer.")
    etag = property(lambda self: self._head.etag, doc="Strong ETag of the answer, with its quotation marks.")
    crc32c = property(lambda self: self._head.crc32c, doc="CRC-32C of the answer's body, from the index.")

    def __len__(self) -> int:
        return self._head.samples

    @overload
    def __getitem__(self, at: int) -> Sample: ...
    @overload
    def __getitem__(self, at: slice) -> list[Sample]: ...
    @overload
    def __getitem__(self, at: str) -> list[Any]: ...

    def __getitem__(self, at: Union[int, slice, str]) -> Union[Sample, list[Sample], list[Any]]:
        if isinstance(at, str):
            return self.column(at)
        if isinstance(at, slice):
            return [Sample(self, i) for i in range(*at.indices(len(self)))]
        n = len(self)
        i = at + n if at < 0 else at
        if not 0 <= i < n:
            raise IndexError(f"sample {at} of a batch of {n}")
        return Sample(self, i)

    def __iter__(self) -> Iterator[Sample]:
        for i in range(len(self)):
            yield Sample(self, i)

    def __contains__(self, what: object) -> bool:
        return any(s is what or s == what for s in self)

    def __repr__(self) -> str:
        return f"<Batch {self.number} of {self.batches} in epoch {self.epoch}: {len(self)} samples, {len(self.data)} bytes>"

    def __reduce__(self) -> str:
        raise TypeError("a Batch cannot be pickled: its views are of this process's memory; send what you make of it, such as bytes(batch.data)")

    @property
    def table(self) -> Table:
        """Where the samples lie. In a native form it costs a request for the batch's manifest."""
        if self._table is None:
            if not self._source.plain:
                raise InvalidArgument(f"samples cannot be cut from {self.content_type}: read `data`, or leave `form` out")
            self._table = self._asked()
        return self._table

    def _asked(self) -> Table:
        if self._manifest is None:
            self._manifest = self._source.manifest(self._head)
        return self._manifest

    @property
    def keys(self) -> Sequence[str]:
        """The names of the samples. They are asked for apart, unless `keys=True` had them sent along."""
        keys = self._table.keys if self._table is not None else None
        if keys is None:
            keys = self._asked().keys
        if keys is None:
            raise ProtocolError("the manifest of the batch has no keys")
        return keys

    @property
    def positions(self) -> Sequence[int]:
        """The positions of the samples in the order of the epoch; those of padding are beyond its end or repeat."""
        known = self._source.positions(self._head) if self._source.positions is not None else None
        if known is None:
            known = self._asked().positions
        if known is None:
            raise ProtocolError("the manifest of the batch has no positions")
        return known

    def sample(self, i: int) -> memoryview:
        """The bytes of sample i, as it is stored."""
        bounds = self.table.bounds
        return self.data[bounds[i] : bounds[i + 1]]

    def views(self) -> list[memoryview]:
        """The bytes of all samples."""
        data, bounds = self.data, self.table.bounds
        return [data[a:b] for a, b in zip(bounds, bounds[1:])]

    def column(self, name: str) -> list[Any]:
        """One part of all samples, decoded if there is a decoder for it."""
        done = self._decoded.get(name)
        if done is not None:
            return done
        column = self.raw(name)
        decoder = self._source.decode.get(name)
        if decoder is None:
            return list(column)
        values = (decode(decoder, name, self, i, v) for i, v in enumerate(column))
        return self._decoded.setdefault(name, self._source.gather(len(column), values))

    def raw(self, name: str) -> list[memoryview]:
        """One part of all samples, as views."""
        where = self.table.column(name)
        if where is not None:
            data = self.data
            return [data[a:b] for a, b in where]
        return [self.parts(i)[name] for i in range(len(self))]

    def parts(self, i: int) -> dict[str, memoryview]:
        """The parts of sample i by their names."""
        where = self.table.parts(i)
        if where is not None:
            return Parts((name, self.data[a:b]) for name, a, b in where)
        return Parts(parts_of(self._source.format, self.sample(i)))

    def decoder(self, name: str) -> Optional[Decoder]:
        """The reader's decoder of a part, if there is one."""
        return self._source.decode.get(name)

    def decode_all(self) -> None:
        """Decodes every part that the reader has a decoder for: what its threads do ahead. A sample may lack some of them, not all."""
        found = False
        for name in self._source.decode:
            try:
                self.column(name)
            except KeyError:
                self._decode_some(name)
            found = found or name in self._decoded or bool(self._some[name])
        if self._source.decode and len(self) and not found:
            raise InvalidArgument(
                f"decode batch {self.number} of epoch {self.epoch}: no sample has a part {', '.join(map(repr, self._source.decode))}: "
                f"the first one has {', '.join(map(repr, self.parts(0)))}"
            )

    def forget_decoded(self) -> None:
        """Lets go of the decoded parts: what a loader made of them is `value`. Asked for again, a part is decoded again."""
        self._decoded, self._some = {}, {}

    def decoded_size(self) -> int:
        """About how many bytes decoders returned, and what was made of them takes."""
        return sum(map(_size, (self.value, self._decoded, self._some)))

    def _decode_some(self, name: str) -> None:
        """Decodes a part of those samples that have it."""
        done = self._some[name] = {}
        for i in range(len(self)):
            parts = self.parts(i)
            if name in parts:
                done[i] = decode(self._source.decode[name], name, self, i, parts[name])


class Parts(dict[str, memoryview]):
    """The parts of a sample."""

    def __missing__(self, name: str) -> memoryview:
        raise KeyError(f"no part {name!r} in this sample, which has {', '.join(map(repr, self)) or 'none'}")


class Sample(Mapping[str, Any]):
    """One sample of a batch: a mapping from the names of its parts to their content, decoded where there is a decoder."""

    __slots__ = ("_parts", "batch", "index")

    def __init__(self, batch: Batch, index: int) -> None:
        self.batch = batch
        self.index = index
        self._parts: Optional[dict[str, memoryview]] = None

    @property
    def data(self) -> memoryview:
        """The sample's bytes, without a copy."""
        return self.batch.sample(self.index)

    @property
    def key(self) -> str:
        """The sample's name, unique in its dataset."""
        return self.batch.keys[self.index]

    @property
    def position(self) -> int:
        """The sample's place in the order of the epoch."""
        return self.batch.positions[self.index]

    @property
    def parts(self) -> dict[str, memoryview]:
        """The parts as views, undecoded."""
        if self._parts is None:
            self._parts = self.batch.parts(self.index)
        return self._parts

    def __getitem__(self, name: str) -> Any:
        done = self.batch._decoded.get(name)
        if done is not None:
            return done[self.index]
        some = self.batch._some.get(name)
        if some is not None and self.index in some:
            return some[self.index]
        view = self.parts[name]
        decoder = self.batch.decoder(name)
        return view if decoder is None else decode(decoder, name, self.batch, self.index, view)

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __bytes__(self) -> bytes:
        return bytes(self.data)

    def __hash__(self) -> int:
        return hash((id(self.batch), self.index))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sample) and other.batch is self.batch and other.index == self.index

    def __repr__(self) -> str:
        return f"<Sample {self.index} of batch {self.batch.number}, epoch {self.batch.epoch}>"


class DecodeError(MillraceError):
    """A decoder of the caller's failed; the exception that it raised is the cause."""

    code = "decode_error"
    cure = "the decoder is the caller's: it gets a memoryview (bytes(view) copies it)"


def _size(value: Any) -> int:
    """About how many bytes a value takes: of tensors, arrays and bytes exactly, with all that a list, tuple or dict holds."""
    n = getattr(value, "nbytes", None)
    if isinstance(n, int):
        return n
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    if hasattr(value, "element_size"):  # a tensor, before torch 2
        return int(value.element_size() * value.nelement())
    if hasattr(value, "getbands"):  # an image of Pillow's
        return int(value.width * value.height * len(value.getbands()))
    return sys.getsizeof(value, 0)


def decode(decoder: Decoder, name: str, batch: Batch, i: int, view: memoryview) -> Any:
    """Decodes one part and says which one failed."""
    try:
        if decoder is int or decoder is float:
            return decoder(bytes(view))
        if decoder is str:
            return str(view, "utf-8")
        if decoder is bytes:
            return bytes(view)
        return decoder(view)
    except Exception as e:
        raise DecodeError(
            f"decode part {name!r} of sample {i} of batch {batch.number} in epoch {batch.epoch}: {type(e).__name__}: {e}"
        ) from e


def _tar_parts(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    members = _tar.members(data)
    # Members that programs leave beside data lie inside a sample now and then; the index calls them no parts of it.
    for name, content in [m for m in members if not _tar.hidden(m[0])] or members:
        yield _tar.split_name(name)[1], content


def _jsonl_parts(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    end = len(data)
    if end and data[end - 1] == 10:
        end -= 1
    yield "json", data[:end]


def _tfrecord_parts(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    yield "tfrecord", data[12 : len(data) - 4]


def _array_parts(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    yield "bin", data


# How samples in a dataset's own form are cut into their parts, for formats whose batches begin with their first sample. The framed form
# needs none of this: it says where parts lie. So a format that is missing here can be read in every form, but not cut in its own.
PLAIN: Mapping[str, Callable[[memoryview], Iterator[tuple[str, memoryview]]]] = {
    "tar": _tar_parts,
    "jsonl": _jsonl_parts,
    "tfrecord": _tfrecord_parts,
    "records": _array_parts,
    "tokens": _array_parts,
}


def parts_of(form: str, data: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Cuts one sample into its parts, by the dataset's format."""
    if form == "files":
        return _tar_parts(data)
    if form not in PLAIN:
        raise ProtocolError(
            f"parts of a sample of format {form!r} come only in the framed form: leave `form` out when you open the epoch"
        )
    return PLAIN[form](data)


def load_json(view: memoryview) -> Any:
    """A decoder for JSON: `decode={"json": millrace.load_json}`."""
    return json.loads(bytes(view))
