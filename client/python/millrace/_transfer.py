"""One batch on its way, over as many attempts as it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Callable, Optional, Union
from urllib.parse import unquote

from ._core import Core
from ._framed import Table, is_framed, open_framed
from ._gateways import TIMEOUTS, Gateway
from ._head import Head
from ._npy import ArrayHeader, is_npy, open_npy
from ._wire import Answer, Attempt, ShortBody, Task, cause, no_answer, read_error
from .crc import checksum
from .errors import BatchTooLarge, EndOfEpoch, IntegrityError, MillraceError, ProtocolError

EAGER = 32 << 20  # what a Content-Length is trusted with before a byte has come

Take = Callable[[int], memoryview]
Answered = tuple[Head, memoryview, Union[Table, ArrayHeader, None]]
"""Header, bytes and layout of a batch."""


class Expected:
    """What an answer must be, besides what it says itself."""

    def __init__(self, target: str, epoch: int, number: int, query: Mapping[str, str], dataset: str, batches: int) -> None:
        self.target, self.epoch, self.number, self.query = target, epoch, number, query
        self.dataset, self.batches = dataset, batches


class Transfer:
    """What came of a body that broke is kept: the ETag says that the rest of it, from whichever gateway, belongs to the same bytes."""

    def __init__(self, core: Core, want: Expected, take: Take, announced: Optional[Callable[[int], None]] = None) -> None:
        self._core, self._want, self._take, self._announced = core, want, take, announced
        self._check = checksum(core.settings.check)
        self._drop()

    def _drop(self) -> None:
        self._head: Optional[Head] = None
        self._etag, self._size, self._got = "", 0, 0
        self._body: memoryview = memoryview(b"")

    def run(self, rank: int, world_size: int, task: Task) -> Answered:
        """Returns the batch's header, the bytes of its whole, checked body, and what table came with them, or raises."""
        what = f"read epoch {self._want.epoch} batch {self._want.number}"
        return self._core.retry(what, self._ask, rank=rank, world_size=world_size, task=task)

    def _ask(self, a: Attempt) -> Answered:
        try:
            return self._answer(a)
        except (ProtocolError, IntegrityError):
            self._drop()  # whose bytes are wrong is not known
            raise

    def _answer(self, a: Attempt) -> Answered:
        g = a.gateway
        headers = {"Range": f"bytes={self._got}-", "If-Range": self._etag} if self._got else {}
        with self._core.here().wire.send(a, "GET", self._want.target, headers) as r:
            if r.status not in (200, 206) or (r.status == 206 and not self._got):
                e = read_error(g, r)
                raise no_answer(e.message, g) if e.status == 416 else self._contradiction(e)  # 416: a body of another length
            self._begin(r, g)
            self._read(r, g)
        head, body = self._head, self._body
        assert head is not None
        if self._check is not None and (got := self._check(body)) != head.crc32c:
            text = f"{g.name}: the body does not match its CRC-32C: got {got:08x}, want {head.crc32c:08x}"
            raise IntegrityError(text, gateway=g.name)
        try:
            if is_framed(head.content_type):
                return (head, *open_framed(head, body))
            if is_npy(head.content_type):
                return (head, *open_npy(head, body))
        except ProtocolError as e:
            raise no_answer(e.message, g) from None
        return head, body, None

    def _contradiction(self, e: MillraceError) -> MillraceError:
        """Takes the end of the epoch for a fault of the gateway where the batch must exist."""
        most = max(e.batches or 0, self._want.batches)
        if isinstance(e, EndOfEpoch) and self._want.number < most:
            return ProtocolError(f"batch {self._want.number} of {most}: {e.message}", gateway=e.gateway)
        return e

    def _begin(self, r: Answer, g: Gateway) -> None:
        """Takes the header of a whole body, which replaces what is there, or of the rest of it."""
        head = read_head(r.headers, self._want, g)
        if r.length is None:
            raise no_answer("no Content-Length", g)
        if r.status == 206:
            self._go_on(r, head, g)
            return
        self._drop()
        limit = self._core.settings.max_batch_bytes
        if r.length > limit:
            raise BatchTooLarge(f"{g.name}: a batch of {r.length} bytes, more than the client's max_batch_bytes of {limit}", gateway=g.name)
        self._head, self._size = head, r.length
        if head.etag.startswith('"'):
            self._etag = head.etag  # a strong one: it stands for these bytes
        if self._announced is not None:
            self._announced(self._size)

    def _go_on(self, r: Answer, head: Head, g: Gateway) -> None:
        """Refuses an answer that is not the rest of the body."""
        want = f"bytes {self._got}-{self._size - 1}/{self._size}"
        got = r.headers.get("content-range")
        if got != want or r.length != self._size - self._got:
            raise no_answer(f"got the part {got!r} with {r.length} bytes, want {want!r}", g)
        if self._head is None or head != replace(self._head, location=head.location):
            raise no_answer(f"got the rest of another batch, {head.etag}, want that of {self._etag}", g)

    def _read(self, r: Answer, g: Gateway) -> None:
        """Reads the body, or the rest of it. Beyond EAGER memory is taken only as bytes arrive, twice what has come at most."""
        size = self._size
        if len(self._body) == 0 and size:
            self._body = self._take(min(size, EAGER))
        try:
            while self._got < size:
                if self._got == len(self._body):
                    more = self._take(min(size, 2 * self._got))
                    more[: self._got] = self._body
                    self._body = more
                n = r.readinto(self._body[self._got :])
                if n == 0:
                    raise ConnectionError("the connection was closed")
                self._got += n
        except OSError as e:
            text = f"{g.name}: body ends after {self._got} of {size} bytes: {cause(e)}"
            if not self._etag:
                self._drop()
            code = None if isinstance(e, TIMEOUTS) else "short_body"
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
    head = Head(
        epoch=number("Millrace-Epoch"),
        number=number("Millrace-Batch"),
        batches=number("Millrace-Batches"),
        samples=number("Millrace-Samples"),
        padded=number("Millrace-Padded") if h.get("millrace-padded") else 0,
        generation=h.get("millrace-generation", ""),
        dataset=_dataset_of(path),
        location=location,
        content_type=h.get("content-type", ""),
        etag=h.get("etag", ""),
        crc32c=number("Millrace-Crc32c", 16),
    )
    if (head.epoch, head.number) != (want.epoch, want.number):
        raise no_answer(f"got epoch {head.epoch} batch {head.number}, want epoch {want.epoch} batch {want.number}", g)
    if head.generation != want.query.get("generation", head.generation) or not head.generation:
        raise no_answer(f"got generation {head.generation!r}, want {want.query.get('generation')!r}", g)
    if head.dataset and head.dataset != want.dataset:
        raise no_answer(f"got dataset {head.dataset!r}, want {want.dataset!r}", g)
    if head.number >= head.batches or head.batches != want.batches:
        raise no_answer(f"got batch {head.number} of {head.batches} batches, want of {want.batches}", g)
    if head.padded > head.samples:
        raise no_answer(f"{head.padded} of {head.samples} samples are padding", g)
    said = _said(query)
    for name, value in want.query.items():
        if said.get(name, value) != value:
            raise no_answer(f"got a plan with {name} {said[name]!r}, want {value!r}", g)
    size, ranks = said.get("batch_size", ""), int(want.query.get("world_size", "1"))
    if size.isdigit() and head.samples > -(-int(size) // ranks):
        raise no_answer(f"got {head.samples} samples in a share of {size} by {ranks} ranks", g)
    return head


def _dataset_of(path: str) -> str:
    _, found, rest = path.partition("/v1/datasets/")
    return unquote(rest.split("/", 1)[0]) if found else ""


@lru_cache(maxsize=64)
def _said(query: str) -> dict[str, str]:
    """The parameters of a canonical location, which are the same for all batches of a rank."""
    return dict(pair.partition("=")[::2] for pair in query.split("&"))
