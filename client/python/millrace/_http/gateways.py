"""Requests with retries: attempts, rounds, waits and deadlines, as in the Go client.

`Transfer` is the transfer of one batch over one or more attempts.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Optional, TypeVar
from urllib.parse import quote, unquote

from .._layout import ARROW, OPEN, Head, Layout, open_framed, samples_after
from .._process import Buffers, Take, new
from ..crc import checksum
from ..errors import (
    BatchTooLarge,
    Closed,
    DeadlineExceeded,
    EndOfEpoch,
    GatewayUnavailable,
    GenerationGone,
    IntegrityError,
    InternalError,
    InvalidArgument,
    MillraceError,
    NotFound,
    ProtocolError,
    StoreError,
    Unauthenticated,
)
from . import shm
from .fleet import ADDRESSES, Fleet, Gateway, home_by_rank, system_lookup
from .settings import Settings
from .wire import LOOKUP_TIME, SIGN_TIME, TICK, UNTRUSTED, Answer, Attempt, ShortBody, Stopwatch, Task, Wire, cause, no_answer, read_error

T = TypeVar("T")
Ask = Callable[[Wire, Attempt], T]

_LOG = logging.getLogger("millrace")

# number of corrupt bodies after which a request fails, unless there are more gateways than that
WRONG_BODIES = 4
MAX_RETRY_AFTER = 30.0
MAX_JSON = 512 << 20
# bytes of buffers that are kept for the next reader, so that short epochs avoid page faults
IDLE_BUFFERS = 32 << 20
# bytes of shared memory that stay mapped for the next reader: mapping new memory costs more than a batch
IDLE_MEMORY = 256 << 20
SILENCE = 2.0  # seconds without a response after which a wait is logged

Answered = tuple[Head, memoryview, Optional[Layout]]
"""Header, bytes and layout of a batch."""

_NONE_TO_GIVE = "bytes: the gateway had no memory to give, or the last batch has less than 64 KiB"
_WRITABLE = "bytes: functions of yours may write into them; with millrace.Reading(copy=False) they are given the gateway's memory"


class Process:
    """State of one process: connections, and the observed state of the gateways."""

    def __init__(self, s: Settings) -> None:
        self.wire = Wire(s)
        home = home_by_rank if isinstance(s.routing.home, str) else s.routing.home
        self.fleet = Fleet(s.endpoints, home, self.wire.lives, s.routing.lookup or system_lookup)
        self.buffers: list[Buffers] = []  # buffers that no reader uses
        self.told = False  # whether the wait for a gateway was logged


class Gateways:
    """The gateways, used as one. Pickling keeps only the settings, since connections belong to one process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._processes: dict[int, Process] = {}
        self._closed = False
        self.answered = False
        """Whether any gateway has answered yet."""
        self.advised = False
        """Whether the advice about homes was logged."""
        self._hold = None if settings.local is None else settings.local.hold()

    def __getstate__(self) -> dict[str, Any]:
        if self.settings.tls.context is not None:
            cure = "give ca_file, client_cert and client_key: their names can"
            raise InvalidArgument("the context of TLS(context=...) cannot be pickled", cure=cure)
        return {"settings": self.settings, "answered": self.answered, "advised": self.advised}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["settings"])  # type: ignore[misc]
        self.answered, self.advised = state["answered"], state["advised"]

    def here(self) -> Process:
        """Returns the state of this process, which is new after a fork."""
        pid = os.getpid()
        found = self._processes.get(pid)
        if found is None:
            if self._closed:
                raise Closed("the client is closed")
            found = self._processes.setdefault(pid, Process(self.settings))
        return found

    def close(self) -> None:
        """Cancels requests of this process and closes its connections."""
        self._closed = True
        found = self._processes.get(os.getpid())
        if found is not None:
            found.wire.close()
        if self._hold is not None:
            self._hold.close()

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(s.name for s in self.settings.endpoints))

    @property
    def listed(self) -> int:
        """The number of listed gateways, if all ranks list them in the same order and the client has no homes; otherwise 0."""
        endpoints = self.settings.endpoints
        return 0 if self.settings.routing.home is not None or any(s.means == ADDRESSES for s in endpoints) else len(endpoints)

    @property
    def transport(self) -> str:
        """How batches are transferred, and the reason."""
        here = self.here()
        if not self.settings.routing.shared_memory:
            return "bytes: Routing(shared_memory=False)"
        if not shm.SUPPORTED:
            return "bytes: this system or this Python cannot be given memory"
        if not any(g.address.socket for g in here.fleet.gateways):
            return "bytes: the gateway is not at a Unix socket"
        return here.wire.transport or "shared memory, if the gateway gives it: no batch was read yet"

    def lend(self, most: int) -> Buffers:
        """Returns buffers for a reader that uses at most this many at once. It reuses those of an earlier reader."""
        idle = self.here().buffers
        found = idle.pop() if idle else Buffers()
        found.most = most
        return found

    def give_back(self, buffers: Buffers) -> None:
        """Keeps the buffers of a finished reader for the next one, if they are small."""
        here = self.here()
        if buffers.held <= IDLE_BUFFERS:
            here.buffers.append(buffers)
        here.wire.unmap(IDLE_MEMORY)

    def _retry(self, what: str, ask: Ask[T], rank: int, world_size: int, task: Task) -> T:
        """Sends a request to one gateway after another until one responds: without delay within a round, with a wait between rounds."""
        try:
            return _Request(self, what, rank, world_size, task).run(ask)
        except MillraceError as e:
            if self.settings.local is not None:
                self.settings.local.explain(e)
            raise

    def json(
        self, method: str, path: str, query: Optional[Mapping[str, str]] = None, body: Any = None, *, span: Optional[range] = None
    ) -> Any:
        """Reads or sends a resource, with the same retries as a batch. With a span it returns those bytes of the resource."""
        sent = None if body is None else json.dumps(body, allow_nan=False).encode()
        target = target_of(path, query)
        headers = {"Accept": "application/json"} if span is None else {"Range": f"bytes={span.start}-{span.stop - 1}"}

        def ask(wire: Wire, a: Attempt) -> Any:
            with wire.send(a, method, target, headers, sent) as r:
                if r.status not in ((200, 201) if span is None else (206,)):
                    raise no_answer(f"{path}: no parts", a.gateway) if r.status == 200 else read_error(a.gateway, r)
                if span is not None:
                    if r.length != len(span):
                        raise no_answer(f"{path}: {r.length} bytes, want {len(span)}", a.gateway)
                    return r.read(len(span))
                raw = r.read(MAX_JSON)
            if len(raw) > MAX_JSON:
                raise no_answer(f"more than {MAX_JSON} bytes of JSON", a.gateway)
            try:
                return json.loads(raw)
            except (ValueError, RecursionError) as e:
                raise no_answer(f"{path}: no JSON: {e}", a.gateway) from None

        return self._retry(f"{'read' if method == 'GET' else 'send'} {path}", ask, 0, 1, Task())

    def batch(
        self, want: Expected, task: Task, take: Take = new, announced: Optional[Callable[[int], None]] = None, *, writable: bool = False
    ) -> Answered:
        """Reads a batch: its header, the bytes of its complete, checked body, and its layout.

        take provides memory for a body, and announced is called with its length. writable requests bytes, because shared memory of a
        gateway is read-only. Setting the task cancels the request.
        """
        transfer = Transfer(self.settings, want, take, announced, writable=writable)
        return self._retry(f"read epoch {want.epoch} batch {want.number}", transfer.ask, want.rank, want.world_size, task)


class _Request:
    """A request that is sent to one gateway after another, until one responds."""

    def __init__(self, core: Gateways, what: str, rank: int, world_size: int, task: Task) -> None:
        self._core, self._here, self._what, self._task = core, core.here(), what, task
        self._rank, self._world_size = rank, world_size
        self._watch = Stopwatch()
        self._rounds = self._wrong = self._internal = 0
        self._last: Optional[MillraceError] = None  # the most informative fault
        # a response that a dataset or token is unknown
        self._absence: Optional[MillraceError] = None

    def run(self, ask: Ask[T]) -> T:
        """Sends the request until there is a response, or the time has run out."""
        while True:
            for g in self._round():
                try:
                    done = self._attempt(g, ask)
                except MillraceError as e:
                    if self._note(g, e):
                        break
                else:
                    self._here.fleet.answered(g)
                    self._core.answered = True
                    if self._watch.seconds() < SILENCE:
                        self._here.told = False
                    # it references this frame, and with it the buffer of the body
                    self._last = None
                    return done
            self._here.fleet.all_failed()
            self._pause(max(min(self._asked_to_wait, default=0.0), random.uniform(0, min(0.05 * 2 ** min(self._rounds, 7), 5.0)) + 0.001))

    def _round(self) -> Iterator[Gateway]:
        """Yields the gateways in order, while there is time left."""
        self._rounds += 1
        self._go_on()
        self._everyone: list[Gateway] = []
        self._absent = 0
        # seconds, one entry per gateway that may respond later
        self._asked_to_wait: list[float] = []
        try:
            self._everyone = self._here.fleet.order(self._rank, self._world_size)
        except GatewayUnavailable as e:
            self._last = e
        self._watch.seconds(LOOKUP_TIME if self._here.fleet.names else TICK)
        for g in self._everyone:
            self._go_on()
            if self._watch.seconds() >= self._end():
                return
            yield g

    def _attempt(self, g: Gateway, ask: Ask[T]) -> T:
        self._begun = self._watch.seconds()
        ends = min(self._end(), self._begun + self._core.settings.routing.attempt_timeout)
        try:
            return ask(self._here.wire, Attempt(g, self._watch, ends, self._over, self._quiet))
        except ssl.SSLCertVerificationError as e:
            raise ProtocolError(f"{g.name}: {cause(e)}", gateway=g.name, cure=UNTRUSTED) from None
        except OSError as e:
            raise ShortBody(f"{g.name}: {cause(e)}", retryable=True, gateway=g.name) from e

    def _note(self, g: Gateway, e: MillraceError) -> bool:
        """Records a gateway's failure. Raises it if it is final, and returns whether the round is over."""
        self._go_on()
        elsewhere = _elsewhere(e)
        # A fault is more informative than a timeout in the middle of an attempt. It is also reported together with absence.
        if self._last is None or not (elsewhere or (isinstance(e, ShortBody) and self._watch.seconds() >= self._end())):
            self._last = e
        self._core.answered = self._core.answered or e.status != 0
        local = self._core.settings.local
        if local is not None and isinstance(e, (ShortBody, NotFound, Unauthenticated, ProtocolError)) and local.revive():
            self._last = None
            return True
        wait = min(e.retry_after, MAX_RETRY_AFTER)
        if self._final(e, elsewhere):
            e = self._absence if elsewhere and self._absence is not None else e
            reasons = "; ".join(f"{name}: {reason}" for name, reason in e.faults)
            raise _reworded(e, f"{reasons} ({self._what}: {e.gateway})" if reasons else f"{self._what}: {e.message}") from e.__cause__
        if not elsewhere:
            self._asked_to_wait.append(wait)
        # another gateway would fail the same way
        if not isinstance(e, (InternalError, StoreError)):
            self._here.fleet.failed(g, self._watch.seconds() - self._begun, wait)
        return False

    def _final(self, e: MillraceError, elsewhere: bool) -> bool:
        """Reports whether neither another gateway nor a later attempt can succeed."""
        if elsewhere:
            if not isinstance(self._absence, GenerationGone):
                # generation_gone is kept, because its gateway has looked in the store, which is more informative than other absences
                self._absence = e
            self._absent += 1
            return self._absent == len(self._everyone)
        if isinstance(e, InternalError):
            self._internal += 1
            return self._internal > 1
        if e.status == 0 and isinstance(e, (ProtocolError, IntegrityError)):
            self._wrong += 1
            return self._wrong >= max(WRONG_BODIES, len(self._everyone))
        return not e.retryable

    def _pause(self, seconds: float) -> None:
        until = self._watch.seconds() + seconds
        if until >= self._end():
            raise self._given_up()  # a wait beyond the deadline would only hide the fault
        while self._watch.seconds() < until and not self._over():
            if self._last is not None:
                self._tell(self._last.message, not self._core.answered and isinstance(self._last.__cause__, ConnectionRefusedError))
            self._task.wait(min(TICK, seconds))

    def _given_up(self) -> MillraceError:
        """Returns the error to raise when the time has run out: an earlier fault if there was one."""
        took, last, absence = self._watch.seconds(), self._last, self._absence
        if last is None:
            return DeadlineExceeded(f"{self._what}: nothing came in {took:.0f} s", retryable=True)
        text = f"{self._what}: given up after {took:.1f} s: {last.message}"
        if absence is not None and absence is not last:
            text += f"; another gateway: {absence.message}"
        if not isinstance(last, ShortBody):
            return _reworded(last, text)
        kind = IntegrityError if last.code == "short_body" else DeadlineExceeded if isinstance(last.__cause__, TimeoutError) else GatewayUnavailable
        return kind(text, retryable=True, gateway=last.gateway)

    def _end(self) -> float:
        s = self._core.settings
        return s.deadline if self._core.answered else min(s.deadline, s.routing.first_answer)

    def _over(self) -> bool:
        return self._task.is_set() or self._here.wire.closed

    def _go_on(self) -> None:
        if self._over():
            raise Closed(f"{self._what}: closed")

    def _quiet(self, a: Attempt) -> None:
        """Called while a gateway sends nothing."""
        self._tell(f"{a.gateway.name} says nothing")
        if len(self._here.fleet.gateways) > 1:
            lives = False
            with contextlib.suppress(Exception):
                self._here.wire.lives(a.gateway, min(SIGN_TIME, a.ends - a.watch.seconds()), self._over)
                lives = True
            self._watch.seconds(SIGN_TIME)
            a.note_sign(lives)

    def _tell(self, text: str, at_once: bool = False) -> None:
        """Logs a long wait for a gateway."""
        took = self._watch.seconds()
        if not self._here.told and (at_once or took >= SILENCE):
            self._here.told = True
            times = "once" if self._rounds < 2 else f"{self._rounds} times in {took:.0f} s"
            left = self._end() - took
            _LOG.warning("%s: waiting for a gateway, asked %s, for at most %.0f s more: %s", self._what, times, left, text)


def _elsewhere(e: MillraceError) -> bool:
    """Reports whether another gateway might respond to a request that this one cannot serve.

    Such a gateway lacks the dataset, does not know a new token, or redirects.
    """
    return (isinstance(e, NotFound) and not isinstance(e, EndOfEpoch)) or isinstance(e, Unauthenticated) or 300 <= e.status < 400


def _reworded(e: MillraceError, text: str) -> MillraceError:
    e.message, e.args = text, (text,)
    return e


@dataclass(frozen=True)
class Expected:
    """A requested batch, and the properties that its response must have."""

    path: str
    query: Mapping[str, str]
    dataset: str
    epoch: int
    number: int
    batches: int
    rank: int
    world_size: int


class Transfer:
    """The transfer of a batch. It keeps the bytes of a truncated body: the ETag identifies the same bytes on any gateway."""

    def __init__(self, settings: Settings, want: Expected, take: Take, announced: Optional[Callable[[int], None]], *, writable: bool) -> None:
        self._settings, self._want, self._take, self._announced, self._writable = settings, want, take, announced or (lambda _: None), writable
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
            self._drop()  # either the earlier bytes or the new ones are wrong
            raise

    def _answer(self, wire: Wire, a: Attempt) -> Answered:
        g = a.gateway
        headers = {"Range": f"bytes={self._got}-", "If-Range": self._head.etag} if self._got and self._head else {}
        may = shm.SUPPORTED and self._settings.routing.shared_memory and bool(g.address.socket)
        if asks := may and not self._writable and self._want.query.get("format") in ("framed", "arrow"):
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

    def _take_memory(self, r: Answer, head: Head, g: Gateway) -> Answered:
        """Accepts a body in shared memory, except the table of the framed form."""
        table, framed = self._body, self._want.query.get("format") == "framed"
        self._drop()  # the remaining part would belong to another response
        if not isinstance(r.sock, shm.LocalSocket):
            raise no_answer("no memory: this connection brings none", g)
        try:
            data = r.sock.take(r.headers.get("millrace-shared"), samples_after(head, table) if framed else None)
            self._refuse_above(len(table) + len(data), g)
            self._announced(len(table) + len(data))
            self._compare(head, g, table, data)
            return (head, *(open_framed(head, table, data) if framed else OPEN[ARROW](head, data)))
        except ProtocolError as e:
            r.sock.segments.spoiled = True  # the shared memory is not reliable either
            raise no_answer(e.message, g) from None

    def _compare(self, head: Head, g: Gateway, *parts: memoryview) -> None:
        """Compares the checksum of a batch, given in parts."""
        got = head.crc32c
        if self._check is not None:
            got = 0
            for part in parts:
                got = self._check(part, got)
        if got != head.crc32c:
            text = f"{g.name}: the body does not match its CRC-32C: got {got:08x}, want {head.crc32c:08x}"
            raise IntegrityError(text, gateway=g.name)

    def _refusal(self, e: MillraceError, g: Gateway) -> MillraceError:
        """Converts an end of epoch into a protocol error if the batch must exist, and so also for a body of another length."""
        if e.status == 416:
            return no_answer(e.message, g)
        most = max(e.batches or 0, self._want.batches)
        if isinstance(e, EndOfEpoch) and self._want.number < most:
            return no_answer(f"batch {self._want.number} of {most}: {e.message}", g)
        return e

    def _begin(self, length: int, head: Head, g: Gateway) -> None:
        """Accepts the header of a complete body, which replaces earlier bytes."""
        self._drop()
        self._refuse_above(length, g)
        if head.content_type == shm.MEDIA_TYPE:  # a table, whose length differs from the batch's
            self._head, self._body = head, memoryview(bytearray(length))
            return
        self._announced(length)
        self._head, self._body = head, self._take(length)

    def _refuse_above(self, length: int, g: Gateway) -> None:
        limit = self._settings.routing.max_batch_bytes
        if length > limit:
            raise BatchTooLarge(f"{g.name}: a batch of {length} bytes, more than the client's Routing(max_batch_bytes={limit})", gateway=g.name)

    def _go_on(self, r: Answer, head: Head, g: Gateway) -> None:
        """Rejects a response that is not the rest of the body."""
        size = len(self._body)
        got, want = r.headers.get("content-range"), f"bytes {self._got}-{size - 1}/{size}"
        if got != want or r.length != size - self._got:
            raise no_answer(f"got the part {got!r} with {r.length} bytes, want {want!r}", g)
        if self._head is None or head != self._head._replace(location=head.location):
            raise no_answer(f"got the rest of another batch, {head.etag}", g)

    def _read(self, r: Answer, g: Gateway) -> None:
        size = len(self._body)
        try:
            while self._got < size:
                n = r.readinto(self._body[self._got :])
                if n == 0:
                    raise ConnectionError("the connection was closed")
                self._got += n
        except OSError as e:
            text = f"{g.name}: body ends after {self._got} of {size} bytes: {cause(e)}"
            # A strong ETag identifies these bytes, except for a table whose samples are in shared memory.
            if self._head is None or not self._head.etag.startswith('"') or self._head.content_type == shm.MEDIA_TYPE:
                self._drop()
            code = None if isinstance(e, TimeoutError) else "short_body"
            raise ShortBody(text, code=code, retryable=True, gateway=g.name) from e


def read_head(h: Mapping[str, str], want: Expected, g: Gateway) -> Head:
    """Parses the header of a batch and compares it with the request."""

    def number(name: str, base: int = 10, missing: str = "") -> int:
        return parsed(name, h.get(name.lower(), missing), base)

    def parsed(name: str, text: str, base: int = 10) -> int:
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
        padded=number("Millrace-Padded", missing="0"),
        generation=h.get("millrace-generation", ""),
        dataset=dataset,
        location=location,
        content_type=h.get("content-type", ""),
        etag=h.get("etag", ""),
        crc32c=number("Millrace-Crc32c", 16),
        batch_samples=number("Millrace-Batch-Samples", missing=h.get("millrace-samples", "")),
        batch_cost=number("Millrace-Batch-Cost", missing="0"),
        micro=tuple(parsed("Millrace-Micro", text) for text in h.get("millrace-micro", h.get("millrace-samples", "")).split(",")),
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
    if sum(head.micro) != head.samples or head.samples > head.batch_samples:
        raise no_answer(f"got {head.samples} samples of {head.batch_samples}, in micro-batches of {head.micro}", g)
    size, ranks = said.get("batch_size", ""), int(want.query.get("world_size", "1"))
    if "balance" in said:
        ranks = 1  # a rank may get nearly all samples, if another one gets the most expensive
    if size.isdigit() and head.samples > -(-int(size) // ranks):
        raise no_answer(f"got {head.samples} samples in a share of {size} by {ranks} ranks", g)
    return head


@lru_cache(maxsize=64)
def _said(query: str) -> dict[str, str]:
    """Returns the parameters of a canonical location, which are the same for all batches of a rank."""
    return dict(pair.partition("=")[::2] for pair in query.split("&"))


def target_of(path: str, query: Optional[Mapping[str, str]] = None) -> str:
    """Returns path and query, with parameters in alphabetical order like a gateway's. Only keys are fully escaped."""
    written = (f"{name}={quote(value, safe='' if name == 'key' else ',:%+')}" for name, value in sorted((query or {}).items()))
    return f"{path}?{'&'.join(written)}" if query else path
