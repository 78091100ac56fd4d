"""One batch on its way, over as many attempts as it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional
from urllib.parse import quote, unquote

from .._layout import OPEN, Head, Layout, open_framed, samples_after
from .._memory import Take
from ..crc import checksum
from ..errors import BatchTooLarge, EndOfEpoch, IntegrityError, MillraceError, ProtocolError
from . import shm
from .fleet import Gateway
from .settings import Settings
from .wire import Answer, Attempt, ShortBody, Wire, cause, no_answer, read_error

Answered = tuple[Head, memoryview, Optional[Layout]]
"""Header, bytes and layout of a batch."""

_NONE_TO_GIVE = "bytes: the gateway had no memory to give, or the last batch has less than 64 KiB"
_WRITABLE = "bytes: functions of yours may write into them; with millrace.Reading(copy=False) they are given the gateway's memory"


@dataclass(frozen=True)
class Expected:
    """What is asked for, and what an answer must be besides what it says itself."""

    path: str
    query: Mapping[str, str]
    dataset: str
    epoch: int
    number: int
    batches: int
    rank: int
    world_size: int


class Transfer:
    """What came of a body that broke is kept: the ETag says that the rest of it, from whichever gateway, belongs to the same bytes."""

    def __init__(self, settings: Settings, want: Expected, take: Take, announced: Optional[Callable[[int], None]], *, writable: bool) -> None:
        self._settings, self._want, self._take, self._announced, self._writable = settings, want, take, announced, writable
        self._target = target_of(want.path, want.query)
        self._check = checksum(settings.routing.check)
        self._drop()

    def _drop(self) -> None:
        self._head: Optional[Head] = None
        self._body, self._got = memoryview(b""), 0

    def ask(self, wire: Wire, a: Attempt) -> Answered:
        """Returns the batch, or raises."""
        try:
            return self._answer(wire, a)
        except (ProtocolError, IntegrityError):
            self._drop()  # whose bytes are wrong is not known
            raise

    def _answer(self, wire: Wire, a: Attempt) -> Answered:
        g = a.gateway
        headers = {"Range": f"bytes={self._got}-", "If-Range": self._head.etag} if self._got and self._head else {}
        if asks := self._asks_for_memory(g):
            headers["Accept"] = shm.MEDIA_TYPE
        with wire.send(a, "GET", self._target, headers) as r:
            if r.status not in (200, 206) or (r.status == 206 and not self._got):
                raise self._refusal(read_error(g, r), g)
            head = read_head(r.headers, self._want, g)
            if r.length is None:
                raise no_answer("no Content-Length", g)
            if r.status == 206:
                self._go_on(r, head, g)
            else:
                self._begin(r.length, head, g)
            self._read(r, g)
            lent = head.content_type == shm.MEDIA_TYPE
            if asks or self._writable:
                wire.transport = "shared memory" if lent else _WRITABLE if self._writable else _NONE_TO_GIVE
            if lent:
                return self._take_memory(r, head, g)
        body = self._body
        self._compare(head, g, body)
        opened = OPEN.get(head.content_type.split(";", maxsplit=1)[0].strip())
        try:
            return (head, body, None) if opened is None else (head, *opened(head, body))
        except ProtocolError as e:
            raise no_answer(e.message, g) from None

    def _asks_for_memory(self, g: Gateway) -> bool:
        may = shm.SUPPORTED and self._settings.routing.shared_memory and bool(g.address.socket) and not self._writable
        return may and self._want.query.get("format") == "framed"

    def _take_memory(self, r: Answer, head: Head, g: Gateway) -> Answered:
        """Takes samples that came as memory beside their table."""
        table = self._body
        self._drop()  # a part of it would be of another answer
        try:
            length = samples_after(head, table)
            self._refuse_above(len(table) + length, g)
            if self._announced is not None:
                self._announced(len(table) + length)
            if not isinstance(r.sock, shm.LocalSocket):
                raise ProtocolError("no memory: this connection brings none")
            data = r.sock.take(r.headers.get("millrace-shared"), length)
            self._compare(head, g, table, data)
            return (head, *open_framed(head, table, data))
        except ProtocolError as e:
            if isinstance(r.sock, shm.LocalSocket):
                r.sock.segments.spoiled = True  # whatever the table was, the memory beside it is in doubt
            raise no_answer(e.message, g) from None

    def _compare(self, head: Head, g: Gateway, *parts: memoryview) -> None:
        """Holds the bytes of a batch, one part after the other, against their checksum."""
        got = head.crc32c
        if self._check is not None:
            got = 0
            for part in parts:
                got = self._check(part, got)
        if got != head.crc32c:
            text = f"{g.name}: the body does not match its CRC-32C: got {got:08x}, want {head.crc32c:08x}"
            raise IntegrityError(text, gateway=g.name)

    def _refusal(self, e: MillraceError, g: Gateway) -> MillraceError:
        """Takes the end of the epoch, where the batch must exist, for a fault of the gateway, and a body of another length too."""
        if e.status == 416:
            return no_answer(e.message, g)
        most = max(e.batches or 0, self._want.batches)
        if isinstance(e, EndOfEpoch) and self._want.number < most:
            return no_answer(f"batch {self._want.number} of {most}: {e.message}", g)
        return e

    def _begin(self, length: int, head: Head, g: Gateway) -> None:
        """Takes the header of a whole body, which replaces what is there."""
        self._drop()
        self._refuse_above(length, g)
        if head.content_type == shm.MEDIA_TYPE:  # a table, whose length is not the batch's
            self._head, self._body = head, memoryview(bytearray(length))
            return
        if self._announced is not None:
            self._announced(length)
        self._head, self._body = head, self._take(length)

    def _refuse_above(self, length: int, g: Gateway) -> None:
        limit = self._settings.routing.max_batch_bytes
        if length > limit:
            raise BatchTooLarge(f"{g.name}: a batch of {length} bytes, more than the client's Routing(max_batch_bytes={limit})", gateway=g.name)

    def _go_on(self, r: Answer, head: Head, g: Gateway) -> None:
        """Refuses an answer that is not the rest of the body."""
        size = len(self._body)
        got, want = r.headers.get("content-range"), f"bytes {self._got}-{size - 1}/{size}"
        if got != want or r.length != size - self._got:
            raise no_answer(f"got the part {got!r} with {r.length} bytes, want {want!r}", g)
        if self._head is None or head != self._head._replace(location=head.location):
            raise no_answer(f"got the rest of another batch, {head.etag}", g)

    def _read(self, r: Answer, g: Gateway) -> None:
        """Reads the body, or the rest of it."""
        size = len(self._body)
        try:
            while self._got < size:
                n = r.readinto(self._body[self._got :])
                if n == 0:
                    raise ConnectionError("the connection was closed")
                self._got += n
        except OSError as e:
            text = f"{g.name}: body ends after {self._got} of {size} bytes: {cause(e)}"
            # A strong ETag stands for these bytes, but not for those of a table whose samples lie elsewhere.
            if self._head is None or not self._head.etag.startswith('"') or self._head.content_type == shm.MEDIA_TYPE:
                self._drop()
            code = None if isinstance(e, TimeoutError) else "short_body"
            raise ShortBody(text, code=code, retryable=True, gateway=g.name) from e


def read_head(h: Mapping[str, str], want: Expected, g: Gateway) -> Head:
    """Takes what a batch's header says and compares it with what was asked for."""

    def number(name: str, base: int = 10) -> int:
        text = h.get(name.lower(), "")
        try:
            if not text.isalnum() or len(text) > 20:
                raise ValueError
            return int(text, base)
        except ValueError:
            raise no_answer(f"header {name}: {text[:100]!r}", g) from None

    location = h.get("content-location", "")
    path, _, query = location.partition("?")
    dataset, said = unquote(path.partition("/v1/datasets/")[2].split("/", 1)[0]), _said(query)
    head = Head(
        epoch=number("Millrace-Epoch"),
        number=number("Millrace-Batch"),
        batches=number("Millrace-Batches"),
        samples=number("Millrace-Samples"),
        padded=number("Millrace-Padded") if h.get("millrace-padded") else 0,
        generation=h.get("millrace-generation", ""),
        dataset=dataset,
        location=location,
        content_type=h.get("content-type", ""),
        etag=h.get("etag", ""),
        crc32c=number("Millrace-Crc32c", 16),
    )
    for text, got, wanted in (
        ("epoch {}", head.epoch, want.epoch),
        ("batch {}", head.number, want.number),
        ("a batch of {} batches", head.batches, want.batches),
        ("dataset {!r}", head.dataset or want.dataset, want.dataset),
        ("generation {!r}", head.generation, want.query.get("generation", head.generation or "one")),
    ):
        if got != wanted:
            raise no_answer(f"got {text.format(got)}, want {text.format(wanted)}", g)
    for name, value in want.query.items():
        if said.get(name, value) != value:
            raise no_answer(f"got a plan with {name} {said[name]!r}, want {value!r}", g)
    if head.number >= head.batches:
        raise no_answer(f"got batch {head.number} of {head.batches} batches", g)
    if head.padded > head.samples:
        raise no_answer(f"{head.padded} of {head.samples} samples are padding", g)
    size, ranks = said.get("batch_size", ""), int(want.query.get("world_size", "1"))
    if size.isdigit() and head.samples > -(-int(size) // ranks):
        raise no_answer(f"got {head.samples} samples in a share of {size} by {ranks} ranks", g)
    return head


@lru_cache(maxsize=64)
def _said(query: str) -> dict[str, str]:
    """The parameters of a canonical location, which are the same for all batches of a rank."""
    return dict(pair.partition("=")[::2] for pair in query.split("&"))


def target_of(path: str, query: Optional[Mapping[str, str]] = None) -> str:
    """Returns path and query, in alphabetical order as gateways write them. They take values as they are, but for a key."""
    written = (f"{name}={quote(value, safe='' if name == 'key' else ',:%+')}" for name, value in sorted((query or {}).items()))
    return f"{path}?{'&'.join(written)}" if query else path
