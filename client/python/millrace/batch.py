"""A batch and its samples: views of the received bytes, split and decoded on demand."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import mmap
import random
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Optional, Union, overload

from ._layout import Head, Keys, Layout, Manifest, Stream, Table
from ._process import is_free, no_fork, own, size_of
from ._selection import Contents, Parts
from .errors import CannotDecode, DecodeError, InvalidArgument, MillraceError, SampleError

if TYPE_CHECKING:
    import numpy

Decoder = Callable[[memoryview], Any]
"""Converts the bytes of one part of one sample into a value of any type except None."""

_CLOSED = memoryview(b"")
_CLOSED.release()  # with which a view of a closed batch raises ValueError


@dataclass(frozen=True)
class Decoding:
    """How to decode a batch, and where to get its keys and positions if it does not contain them."""

    manifest: Callable[[Head], Manifest]
    decode: Mapping[str, Decoder] = field(default_factory=dict)
    # returns a decoder for a part that `decode` does not name, by part and source
    automatic: Optional[Callable[[str, str], Optional[Decoder]]] = None
    positions: Callable[[Head], Optional[Sequence[int]]] = lambda _: None  # if known without the manifest
    gather: Callable[[int, Iterator[Any]], Any] = lambda _, values: list(values)  # combines the decoded values into a column
    on_error: Optional[Callable[[SampleError], Any]] = None  # returns a replacement for a failed value, or None to omit the sample
    mixed: Optional[Mapping[str, str]] = None  # for several datasets, which the manifest names: the addresses with which some were opened
    contents: Contents = field(default_factory=Contents)
    # identifies the order of all epochs: seed of the samples' generators, together with epoch and position
    seed: str = ""
    # one rank reads the epoch; several ranks take equal numbers of steps regardless of filter and on_error
    alone: bool = True


class Batch(Sequence["Sample"]):
    """One rank's share of one global batch: a sequence of samples.

    `batch["jpg"]` is a list of that part of all samples: the results of the reader's decoder, or memoryviews without a decoder. In
    millrace.numpy it is an array of samples x shape if the values can be stacked. Parsing and object creation happen on demand.

    A view keeps the bytes of the whole batch in memory: copy data that outlives the batch (`bytes(view)`). Views are read-only if a gateway
    on this machine shares the memory. `with batch:` closes it at the end.

    A batch that was requested in a `form` is not split into samples: it has only `data`, `keys`, `positions` and the values of its header.
    """

    def __init__(self, head: Head, data: memoryview, decoding: Decoding, layout: Optional[Layout] = None) -> None:
        self._head, self._decoding = head, decoding
        if isinstance(layout, Table):
            layout.name_of = decoding.contents.name_of
        self._manifest: Optional[Manifest] = None
        self._decoded: dict[str, list[Any]] = {}
        self._decoders: dict[tuple[str, str], Optional[Decoder]] = {}  # decoders found so far, by part and source
        self._some: dict[str, dict[int, Any]] = {}  # decoded parts that only some samples have
        self._records: Any = None  # the columns of an Arrow stream
        self._kept: Sequence[int] = range(head.samples)  # indexes in the table of the remaining samples
        self._refused: list[int] = []  # indexes in the table of samples that the filter rejected
        self._replaced: set[int] = set()  # indexes in the table of samples for which on_error has returned a value
        self.failures: list[SampleError] = []
        """The errors of samples that on_error omitted."""
        self.number: int = head.number
        """Number of the batch in its epoch, from 0."""
        self.epoch: int = head.epoch
        """Number of the epoch."""
        self.batches: int = head.batches
        """Number of batches in the epoch."""
        self.generation: str = head.generation
        """Generation of the index that the batch comes from."""
        self.dataset: str = head.dataset
        """Name of the dataset."""
        self.location: str = head.location
        """Canonical path and query, for reporting losses."""
        self.content_type: str = head.content_type
        """Media type of the answer."""
        self.etag: str = head.etag
        """Strong ETag of the answer, with its quotation marks."""
        self.crc32c: int = head.crc32c
        """CRC-32C of the answer's body, from the index."""
        self.batch_samples: int = head.batch_samples
        """Number of samples of the global batch, of all ranks together, before filter or on_error omitted any."""
        self.batch_cost: Optional[int] = head.batch_cost or None
        """Sum of the costs of these samples, each at least 1; None without `balance`."""
        self.data: memoryview = data
        """All bytes of the samples, in the requested form."""
        self.nbytes: int = len(data)
        """Length of data; it stays when the batch is closed."""
        self.layout = layout
        """Positions of the samples in data; with `Reading(form="npy")` type and shape of the array; None in other forms."""
        self.value: Any = None
        """Result of the reader's `batch_transform` or `collate`, or a list of `transform` results."""

    def close(self) -> None:
        """Releases the bytes immediately, and not at garbage collection. `len`, numbers and `value` stay.

        Raises BufferError if a view of shared memory of a gateway is left, or an array over one, possibly in `value`. The batch then
        remains usable.
        """
        if self.closed:
            return
        self.forget_decoded()
        memory, length = self.data.obj, len(self.data)
        with no_fork:  # prevents another thread from releasing the memory meanwhile
            self.data = _CLOSED
            if isinstance(memory, mmap.mmap) and not is_free(memory):
                self.data = memoryview(memory)[:length]
                raise BufferError(f"close batch {self.number} of epoch {self.epoch}: a view of it, or an array over one, is still there")
        self.layout = None

    @property
    def closed(self) -> bool:
        """Whether `close` has released the bytes."""
        return self.data is _CLOSED

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with contextlib.suppress(*[BufferError] if kind else []):  # the frames of an exception may hold views
            self.close()

    @property
    def padded(self) -> int:
        """Number of samples that repeat samples of the epoch: the last ones, or with `micro` those with the greatest positions."""
        return len(set(self._padding()).intersection(self._kept)) if len(self) < self.came else self._head.padded

    def _padding(self) -> Sequence[int]:
        """Returns the indexes in the table of these samples."""
        n, padded = self.came, self._head.padded
        return (sorted(range(n), key=self._all_positions().__getitem__) if padded and len(self._head.micro) > 1 else range(n))[n - padded :]

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def micro(self) -> list[int]:
        """Number of samples of each micro-batch; without `micro` of the batch."""
        return [part.stop - part.start for part in self.micro_batches()]

    def micro_batches(self) -> list[slice]:
        """Returns the range of each micro-batch, for samples and columns: `batch[part]`, `batch["jpg"][part]`. It may be empty."""
        ends = (bisect_left(self._kept, end) for end in itertools.accumulate(self._head.micro))
        return [slice(a, b) for a, b in itertools.pairwise([0, *ends])]

    @property
    def came(self) -> int:
        """Number of samples before filter or on_error omitted any."""
        return self._head.samples

    @property
    def emptied(self) -> bool:
        """Whether the batch is skipped, because filter or on_error have omitted all its samples and no other ranks must stay in step."""
        return self._decoding.alone and len(self) == 0 < self.came

    def _pick(self, values: Sequence[Any]) -> Sequence[Any]:
        """Returns the values of the remaining samples, given those of all samples in the table."""
        return values if len(self._kept) == self._head.samples else [values[at] for at in self._kept]

    @overload
    def __getitem__(self, at: int) -> Sample: ...
    @overload
    def __getitem__(self, at: slice) -> list[Sample]: ...
    @overload
    def __getitem__(self, at: str) -> Any: ...

    def __getitem__(self, at: Union[int, slice, str]) -> Any:
        if isinstance(at, str):
            return self.column(at)
        if isinstance(at, slice):
            return [Sample(self, i) for i in self._each()[at]]
        try:
            return Sample(self, self._each()[at])
        except IndexError:
            raise IndexError(f"sample {at} of a batch of {len(self)}") from None

    def __iter__(self) -> Iterator[Sample]:
        return (Sample(self, i) for i in self._each())

    def _each(self) -> range:
        _ = self.table  # raises an exception if the batch has no table
        return range(len(self))

    def __repr__(self) -> str:
        size = "closed" if self.closed else f"{len(self.data)} bytes"
        return f"<Batch {self.number} of {self.batches} in epoch {self.epoch}: {len(self)} samples, {size}>"

    def __reduce__(self) -> str:
        raise TypeError("a Batch cannot be pickled: its views are of this process's memory; send what you make of it, such as bytes(batch.data)")

    @property
    def table(self) -> Table:
        """The ranges of the samples and parts in the bytes."""
        if isinstance(self.layout, Table):
            return self.layout
        if self.closed:
            raise InvalidArgument(f"batch {self.number} of epoch {self.epoch} is closed", cure="copy what outlives it: bytes(view)")
        raise InvalidArgument(f"samples cannot be cut from {self.content_type}: it has only `data`", cure="leave `form` out")

    def _asked(self) -> Manifest:
        if self._manifest is None:
            self._manifest = self._decoding.manifest(self._head)
        return self._manifest

    @property
    def keys(self) -> Sequence[str]:
        """The names of the samples, fetched separately unless `Reading(keys=True)` included them."""
        return Keys(self._pick(self._all_keys()))

    def _all_keys(self) -> Sequence[str]:
        keys = self.layout.keys if isinstance(self.layout, Table) else None
        return self._asked().keys if keys is None else keys

    @property
    def positions(self) -> Sequence[int]:
        """The positions of the samples in the order of the epoch; those of padding are beyond its end or repeat."""
        return self._pick(self._all_positions())

    @property
    def omitted(self) -> tuple[list[int], ...]:
        """The positions of samples that the reader's filter rejected, that on_error omitted, and that it replaced, without padding."""
        failed = set(range(self._head.samples)).difference(self._kept, self._refused) if self.failures else ()
        lists = self._refused, failed, self._replaced
        positions, padding = (self._all_positions(), self._padding()) if any(lists) else ((), ())
        return tuple([positions[at] for at in sorted(of) if at not in padding] for of in lists)

    def _all_positions(self) -> Sequence[int]:
        known = self._decoding.positions(self._head)
        return self._asked().positions if known is None else known

    def sample(self, i: int) -> memoryview:
        """Returns the stored bytes of sample i. In class folders they are followed by its class."""
        bounds, at = self.table.bounds, self._kept[i]
        return self.data[bounds[at] : bounds[at + 1]]

    def views(self) -> list[memoryview]:
        """Returns the bytes of all samples."""
        data = self.data
        return [data[a:b] for a, b in self._pick(list(itertools.pairwise(self.table.bounds)))]

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the column of a part, or default if no sample of the batch has the part."""
        return self[name] if name in self.names() else default

    def column(self, name: str) -> Any:
        """Returns one part of all samples, decoded if there is a decoder for it. A null is None. In the form arrow it is a pyarrow.Array."""
        if isinstance(self.layout, Stream):
            return self._read(self.layout).column(name)
        done = self._decoded.get(name)
        if done is not None:
            return done
        column = self.raw(name)
        return self._gather(name, column, partial(self._decode, name)) if self._decodes(name) else column

    def _gather(self, name: str, column: Sequence[memoryview], one: Callable[[int, Optional[memoryview]], Any]) -> list[Any]:
        return self._decoded.setdefault(name, self._decoding.gather(len(column), (one(i, v) for i, v in enumerate(column))))

    def raw(self, name: str) -> list[memoryview]:
        """Returns one part of all samples, as views; None for null values."""
        where = self.table.column(name)
        if where is None:  # some samples lack it
            return [self.parts(i)[name] for i in range(len(self))]
        data = self.data
        return [data[a:b] for a, b in self._pick(where)]

    def parts(self, i: int) -> Parts:
        """Returns the parts of sample i by name, as views; None for null columns."""
        contents = self._decoding.contents
        contents = contents.sources.get(self._source_of(i), contents)
        return Parts(contents, contents.fill({name: self.data[a:b] for name, a, b in self.table.parts(self._kept[i])}))

    def names(self) -> list[str]:
        """Returns the names of all parts of the samples."""
        if isinstance(self.layout, Stream):
            return list(self._read(self.layout).schema.names[1:])
        contents = self._decoding.contents
        if contents.sources:
            return list(dict.fromkeys(name for i in range(len(self)) for name in self.parts(i)))
        return contents.names(self.table.names())

    def _read(self, stream: Stream) -> Any:
        self._records = stream.read(self.data) if self._records is None else self._records
        return self._records

    def _source_of(self, i: int) -> str:
        """Returns the source of sample i in a mixture whose sources have different columns."""
        return self._asked().sources[self._kept[i]] if self._decoding.contents.sources else ""

    def decoder(self, name: str, i: int = 0) -> Optional[Decoder]:
        """Returns the reader's decoder for a part of sample i, if any. It differs between samples only in a mixture."""
        given, automatic = self._decoding.decode.get(name), self._decoding.automatic
        if given is not None or automatic is None:
            return given
        of = name, self._source_of(i)
        if of not in self._decoders:
            self._decoders[of] = automatic(*of)
        return self._decoders[of]

    def _decodes(self, name: str) -> bool:
        return any(self.decoder(name, i) is not None for i in range(len(self)))

    def decode_all(self) -> None:
        """Decodes every part that has a decoder, like the reader's threads do ahead of the consumer.

        A sample may lack some of these parts, but not all.

        A sample with a part that cannot be decoded is omitted if the reader's on_error says so.
        """
        self.check_decoders()
        given, lost = self._decoding.decode, set[int]()
        for name in given:
            self._decode_part(name, lost)
        for name in self.names() if self._decoding.automatic is not None else ():
            if name not in given:
                # the error is raised again when the caller accesses the part
                with contextlib.suppress(CannotDecode):
                    self._decode_part(name, lost)
        self.leave_out(lost)

    def check_decoders(self) -> None:
        """Rejects decoders for parts that no sample has."""
        given = self._decoding.decode
        if given and len(self) and given.keys().isdisjoint(self.names()):
            raise InvalidArgument(
                f"decode batch {self.number} of epoch {self.epoch}: no sample has a part {', '.join(map(repr, given))}: "
                f"the first one has {', '.join(map(repr, self.parts(0)))}"
            )

    def _decode_part(self, name: str, lost: set[int]) -> None:
        """Decodes a part of the samples that have it. Adds samples to omit to lost."""
        if name in self._decoded or not self._decodes(name):
            return
        known = self._some.pop(name, {})

        def one(i: int, view: Optional[memoryview]) -> Any:
            if i in lost:
                return None
            if i in known:
                return known[i]
            try:
                return self._decode(name, i, view)
            except DecodeError:
                if self._decoding.on_error is None:
                    raise
                lost.add(i)
                return None

        try:
            column = self.raw(name)
        except KeyError:
            having = ((i, self.parts(i)) for i in range(len(self)))
            self._some[name] = {i: one(i, parts[name]) for i, parts in having if name in parts}
        else:
            self._gather(name, column, one)

    def _decode(self, name: str, i: int, view: Optional[memoryview]) -> Any:
        """Returns the value of a part, or its replacement by on_error. on_error has already seen a DecodeError that this raises."""
        decoder = self.decoder(name, i)
        if view is None or decoder is None:
            return view
        try:
            if decoder is str:
                return str(view, "utf-8")
            if decoder is int or decoder is float or decoder is bytes:
                return decoder(bytes(view))
            value = decoder(view)
            # only null in JSON decodes to None
            if value is None and name in self._decoding.decode and bytes(view[:8]).strip() != b"null":
                raise TypeError("the decoder returned None: have it return a value, or raise an exception")
            return value
        except CannotDecode as e:
            raise CannotDecode(f"decode part {name!r}: {e.message}", cure=e.cure) from e
        except Exception as e:
            error = DecodeError(f"decode part {name!r} of {self.which(i)}: {type(e).__name__}: {e}")
            error.__cause__ = e
        return self.instead(i, error)

    def which(self, i: int) -> str:
        """Describes sample i, with position and key if available. It fetches them if the batch does not include them."""
        text = f"sample {i} of batch {self.number} in epoch {self.epoch}"
        with contextlib.suppress(MillraceError):
            text += f" (position {self.positions[i]})"
        with contextlib.suppress(MillraceError):
            text += f", key {self.keys[i]!r}"
            if (source := Sample(self, i).source) is not None:
                text += f", source {source!r}"
        return text

    def instead(self, i: int, error: SampleError) -> Any:
        """Returns the replacement by on_error for a value of sample i, or raises the error if there is none."""
        if self._decoding.on_error is not None:
            value = self._decoding.on_error(error)
            if value is not None:
                self._replaced.add(self._kept[i])
                return value
            self.failures.append(error)
        raise error

    def keep(self, sample: Sample) -> None:
        """Keeps the decoded parts of a sample of this batch, so that no part is decoded twice."""
        for name in sample._own:
            self._some.setdefault(name, {})[sample.index] = sample[name]

    def leave_out(self, lost: set[int], refused: Sequence[int] = ()) -> None:
        """Removes samples that failed, and those that the filter rejected."""
        self._refused += [self._kept[i] for i in refused]
        lost = lost.union(refused)
        if not lost:
            return
        keep = [i for i in range(len(self)) if i not in lost]
        for name, column in self._decoded.items():  # a list, or the result of gather
            self._decoded[name] = self._decoding.gather(len(keep), (column[i] for i in keep)) if isinstance(column, list) else column[keep]
        for name, some in self._some.items():
            self._some[name] = {at: some[i] for at, i in enumerate(keep) if i in some}
        self._kept = [self._kept[i] for i in keep]

    def let_go(self) -> None:
        """Releases the bytes and the decoded parts. Unlike close it ignores views, which keep their memory."""
        self.forget_decoded()
        self.data, self.layout = _CLOSED, None

    def forget_decoded(self) -> None:
        """Releases the decoded parts, after a loader has put its result into `value`. A part is decoded again on demand."""
        self._decoded, self._some, self._records = {}, {}, None

    def decoded_size(self) -> int:
        """Estimates the bytes of decoder results and of the value made from them."""
        return sum(map(size_of, (self.value, self._decoded, self._some)))


class Sample(MutableMapping[str, Any]):
    """One sample of a batch: a mapping from the names of its parts to their content, decoded if there is a decoder.

    A part is decoded on first access, and the result is stored; a part without a decoder is a memoryview of the batch's bytes. A sample may
    be changed: `sample["jpg"] = crop(sample["jpg"])`. The batch's own columns do not change.
    """

    __slots__ = ("__weakref__", "_content", "_numpy_rng", "_own", "_rng", "batch", "index")

    def __init__(self, batch: Batch, index: int) -> None:
        self.batch = batch
        self.index = index
        self._content: Optional[Parts] = None
        self._own: set[str] = set()  # parts that were decoded for this sample, or set
        self._rng: Optional[random.Random] = None
        self._numpy_rng: Optional[numpy.random.Generator] = None

    @property
    def data(self) -> memoryview:
        """The sample's bytes, without a copy."""
        return self.batch.sample(self.index)

    @property
    def key(self) -> str:
        """The sample's name, unique in its dataset."""
        batch = self.batch
        return batch._all_keys()[batch._kept[self.index]]

    @property
    def source(self) -> Optional[str]:
        """In a mixture, the sample's dataset: its name, or the address that `open` opened; else None. It requests the manifest of its batch."""
        batch = self.batch
        if (opened := batch._decoding.mixed) is None:
            return None
        name = batch._asked().sources[batch._kept[self.index]]
        return opened.get(name, name)

    @property
    def position(self) -> int:
        """The sample's position in the order of the epoch, independent of the number of ranks."""
        return self.batch.positions[self.index]

    @property
    def epoch(self) -> int:
        """Number of the epoch."""
        return self.batch.epoch

    @property
    def parts(self) -> dict[str, memoryview]:
        """The parts as views, undecoded."""
        return self.batch.parts(self.index)

    def seed(self, more: str = "") -> int:
        """Returns a 128-bit number that depends only on the order of the epoch, the epoch's number and the sample's position."""
        text = f"{self.batch._decoding.seed}/{self.epoch}/{self.position}{more}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")

    @property
    def rng(self) -> random.Random:
        """A random generator of this sample.

        Its seed is `seed`, so a random crop is reproducible with any number of ranks, workers and threads, and after a resume. The same
        holds for torch's own random functions in a filter, transform or collate.
        """
        if self._rng is None:
            self._rng = random.Random(self.seed())
        return self._rng

    @property
    def numpy_rng(self) -> numpy.random.Generator:
        """A NumPy generator with the same properties as `rng`."""
        if self._numpy_rng is None:
            try:
                import numpy
            except ImportError as e:
                raise CannotDecode("numpy_rng: numpy is not installed", cure="pip install 'millrace-data[numpy]', or draw from sample.rng") from e
            self._numpy_rng = numpy.random.default_rng(self.seed())
        return self._numpy_rng

    def _all(self) -> Parts:
        if self._content is None:
            self._content = self.batch.parts(self.index)
        return self._content

    def _named(self, name: str) -> str:
        """Returns the name under which the sample has a part, or the name itself."""
        content = self._all()
        return name if name in content or not isinstance(name, str) else content.contents.find(name, content) or name

    def __getitem__(self, name: str) -> Any:
        content = self._all()
        if name not in content:
            name = self._named(name)
        if name in self._own:
            return content[name]
        done: Any = self.batch._decoded.get(name)
        if done is not None:
            return done[self.index]
        some = self.batch._some.get(name)
        if some is not None and self.index in some:
            return some[self.index]
        view = content[name]
        if self.batch.decoder(name, self.index) is None:
            return view
        self[name] = value = self.batch._decode(name, self.index, view)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        name = self._named(name)
        self._all()[name] = value
        self._own.add(name)

    def __delitem__(self, name: str) -> None:
        name = self._named(name)
        del self._all()[name]
        self._own.discard(name)

    def __contains__(self, name: object) -> bool:
        content = self._all()
        if self._named(str(name)) in content:
            return True
        contents = content.contents
        if why := contents.unknown(str(name)):
            contents.missed.add(f"no part {name!r}: {why}")
            warnings.warn(f"the answer is the same for every sample: no part {name!r}: {why}", stacklevel=2)
        return False

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of a part, or default if the sample lacks the part."""
        return self[name] if self._named(name) in self._all() or self.__contains__(name) else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def plain(self, keys: bool = False) -> dict[str, Any]:
        """Returns a dict that outlives the batch: all parts, decoded, or as bytes without a decoder. keys adds the name as "__key__"."""
        out = {name: own(self[name]) for name in self}
        if keys:
            out["__key__"] = self.key
        return out

    def __bytes__(self) -> bytes:
        return bytes(self.data)

    def __hash__(self) -> int:
        return hash((id(self.batch), self.index))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sample) and other.batch is self.batch and other.index == self.index

    def __repr__(self) -> str:
        return f"<Sample {self.index} of batch {self.batch.number}, epoch {self.batch.epoch}: {', '.join(self)}>"
