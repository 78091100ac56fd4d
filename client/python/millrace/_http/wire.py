"""HTTP/1.1 to gateways: kept connections, and attempts that wait in short steps. Standard library only.

A thread waits for its own response, at most TICK seconds at a time. After each step it checks for cancellation, the deadline, and whether
the gateway is alive. Attempts therefore need no other thread and share no state.

Connections belong to one process: a forked child starts without any (`Gateways` has one Wire per process), and never shares a socket with
its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import re
import selectors
import socket
import ssl
import struct
import threading
import time
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Optional

from .._process import no_fork
from ..errors import Closed, InvalidArgument, MillraceError, ProtocolError, Unauthenticated, by_code
from .fleet import PORTS, Address, Gateway, is_here, parse
from .settings import Secret, Settings
from .shm import SUPPORTED, LocalSocket

TICK = 0.1  # seconds: maximum delay until a waiting thread notices a cancellation
STILL = 1.0  # seconds: a thread that wakes this much too late was suspended with its process
DIAL_TIME = 5.0  # seconds: short, because the client can fail over to another gateway
LOOKUP_TIME = 30.0  # maximum seconds of a name lookup by the system
IDLE_TIME = 90.0  # seconds after which a kept connection is not reused

# A gateway that has sent nothing for QUIET_TIME is probed. After MOST_SIGNS failed probes it counts as dead. If a gateway responds to
# probes, its store is slow, and the client keeps waiting.
QUIET_TIME = 2.0
SIGN_TIME = 1.0
MOST_SIGNS = 2

MAX_HEAD = 64 << 10
MAX_PROBLEM = 64 << 10
MOST_INTERIM = 16
_TARGET = re.compile("[!-~]+")
_CHUNK = re.compile("([0-9A-Fa-f]{1,15})[ \t]*(;.*)?")
# bytes per read while the length is unknown: a response's head and the start of its body
_PIECE = 16 << 10
WHOLE = 4 << 20  # bytes of a body per call: about the size of a socket buffer
_STEP_OVER = (TimeoutError, BlockingIOError)
_WAITS_FOR_ALL = getattr(socket, "MSG_WAITALL", 0) if os.name == "posix" else 0

Task = threading.Event
"""Set when a request, or all requests of a reader, are cancelled."""


class ShortBody(MillraceError):
    """A connection that was refused, reset or too slow, or a truncated body. The request is retried."""


class Stopwatch:
    """Counts the seconds during which this process ran.

    Suspension by a scheduler, migration of a virtual machine, or a closed laptop are no faults of a gateway. A response that arrived
    meanwhile waits in the socket.
    """

    def __init__(self) -> None:
        self._seen, self._sum = time.monotonic(), 0.0

    def seconds(self, step: float = TICK) -> float:
        """Returns the time since the start. step is how long the thread may have waited since the last call."""
        now = time.monotonic()
        self._sum += min(now - self._seen, step + STILL)
        self._seen = now
        return self._sum


class Attempt:
    """One request to one gateway, by one thread."""

    def __init__(
        self, gateway: Gateway, watch: Stopwatch, ends: float, over: Callable[[], bool], quiet: Optional[Callable[[Attempt], None]] = None
    ) -> None:
        """A wait raises an exception when `over` returns true, and when the watch reaches `ends`. quiet is called when no data arrives."""
        self.gateway, self.watch, self.ends, self._over, self._quiet = gateway, watch, ends, over, quiet
        self._heard = watch.seconds()
        self._owed = 0  # failed probes

    def go_on(self) -> None:
        """Raises if there is no reason to keep waiting."""
        now = self.watch.seconds()
        if self._over():
            raise Closed("closed")
        if now >= self.ends:
            raise TimeoutError("the attempt took too long")
        if self._quiet is not None and now - self._heard >= QUIET_TIME:
            self._quiet(self)

    def note_sign(self, lives: bool) -> None:
        """Records received data or the result of a probe, and raises after too many failed probes."""
        if lives:
            self._heard, self._owed = self.watch.seconds(), 0
            return
        self._owed += 1
        if self._owed == MOST_SIGNS:
            raise TimeoutError("the gateway has stopped: it sends nothing and answers no probe")

    def wait(self, sock: socket.socket, event: int) -> None:
        """Waits until a socket is writable or readable."""
        with selectors.DefaultSelector() as ready:
            ready.register(sock, event)
            while not ready.select(TICK):
                self.go_on()

    def receive(self, sock: socket.socket, into: memoryview, whole: bool = False) -> int:
        """Reads available bytes, at least one; 0 at the end.

        With `whole` the kernel may wait for all of them, which is cheaper than many reads.
        """
        flags = _WAITS_FOR_ALL if whole and not isinstance(sock, ssl.SSLSocket) else 0
        while True:
            self.go_on()  # also after data, because a gateway may send single bytes
            try:
                n = sock.recv_into(into, 0, flags)
            except _STEP_OVER:
                continue
            self.note_sign(True)
            return n

    def send(self, sock: socket.socket, data: memoryview) -> None:
        while data:
            self.go_on()
            with contextlib.suppress(*_STEP_OVER):
                data = data[sock.send(data) :]

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Shortens the time limit for a part of the attempt."""
        ends, self.ends = self.ends, min(self.ends, self.watch.seconds() + seconds)
        try:
            yield
        finally:
            self.ends = ends

    def dial(self, at: Address) -> socket.socket:
        """Connects to one of the addresses of a name."""
        here = at.here()
        found: list[Any] = [(here[0], socket.SOCK_STREAM, 0, "", here[1])] if here else socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)
        self.watch.seconds(LOOKUP_TIME if at.has_name else TICK)
        for address in found[:-1]:
            with contextlib.suppress(OSError), self.within(DIAL_TIME):
                return self._connect(*address)
            self.go_on()
        with self.within(DIAL_TIME):
            return self._connect(*found[-1])

    def _connect(self, family: int, kind: int, protocol: int, _: str, at: Any) -> socket.socket:
        with contextlib.ExitStack() as failed:
            of = LocalSocket if SUPPORTED and family == socket.AF_UNIX else socket.socket
            sock = failed.enter_context(of(family, kind, protocol))
            sock.settimeout(0)
            fault = sock.connect_ex(at)
            if fault == errno.EINPROGRESS:
                self.wait(sock, selectors.EVENT_WRITE)
                fault = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if fault:
                raise OSError(fault, os.strerror(fault))
            if family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(None if _WAITS_FOR_ALL else TICK)
            # the kernel enforces the timeout: with Python's own timeouts, each call would return with the available bytes
            if _WAITS_FOR_ALL:
                for way in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                    sock.setsockopt(socket.SOL_SOCKET, way, struct.pack("ll", 0, int(TICK * 1e6)))
            failed.pop_all()
        return sock


class Answer:
    """A gateway's response: its parsed head, and a body to read."""

    def __init__(self, a: Attempt, sock: socket.socket) -> None:
        """Reads the head of the response, and skips interim responses (100 to 199), which proxies may send."""
        self._a, self.sock, self._rest = a, sock, bytearray()
        for _ in range(MOST_INTERIM):
            self._read_head()
            if not 100 <= self.status < 200:
                break
        else:
            raise OSError(f"more than {MOST_INTERIM} interim answers")
        length = self.headers.get("content-length", "")
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        self.length: Optional[int] = None
        """Remaining bytes of the body; None if it extends to the end of the connection."""
        if self.status in (204, 304):
            self.length = 0
        elif not self._chunked and length.isdecimal() and len(length) < 19:
            self.length = int(length)

    def _read_head(self) -> None:
        first = self._until(b"\r\n")
        version, status, reason = (first + "  ").split(" ", 2)
        if not (version.startswith("HTTP/1.") and status.isdecimal() and len(status) == 3):
            raise OSError(f"no HTTP: {printable(first, 100)!r}")
        self.status, self.reason = int(status), reason.strip()
        self.headers = {"connection": "close"} if version == "HTTP/1.0" else {}
        for line in self._headers():
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()

    def _headers(self) -> list[str]:
        # line end of the previous line: without headers, the empty line follows immediately
        self._rest[:0] = b"\r\n"
        return self._until(b"\r\n\r\n").split("\r\n")[1:]

    def _until(self, mark: bytes) -> str:
        """Returns the bytes before a mark, and consumes both."""
        while (end := self._rest.find(mark)) < 0:
            if len(self._rest) > MAX_HEAD:
                raise OSError(f"no HTTP: a head does not end: {printable(self._rest.decode('latin-1'), 100)!r}")
            piece = bytearray(_PIECE)
            n = self._a.receive(self.sock, memoryview(piece))
            if n == 0:
                raise ConnectionError("the connection was closed")
            self._rest += piece[:n]
        found = self._rest[:end].decode("latin-1")
        del self._rest[: end + len(mark)]
        return found

    def readinto(self, into: memoryview) -> int:
        """Reads available bytes of the body, at least one; 0 at the end of the connection. It never reads beyond the body."""
        n = min(len(self._rest), len(into))
        if n:
            into[:n] = self._rest[:n]
            del self._rest[:n]
        else:
            n = self._a.receive(self.sock, into, whole=len(into) <= WHOLE)
        if self.length is not None:
            self.length -= n
        return n

    def read(self, most: int) -> bytes:
        """Returns the body; if it is longer than `most`, slightly more than that."""
        out, piece = bytearray(), memoryview(bytearray(_PIECE))
        for left in self._chunks():
            while left != 0 and len(out) <= most:
                n = self.readinto(piece[:left])
                if n == 0 and left is not None:
                    raise ConnectionError(f"the connection was closed after {len(out)} bytes")
                out += piece[:n]
                left = left - n if left is not None else None if n else 0
            if len(out) > most:
                break
        return bytes(out)

    def _chunks(self) -> Iterator[Optional[int]]:
        """Yields the lengths of the pieces of the body."""
        if not self._chunked:
            yield self.length
            return
        while True:
            line = self._until(b"\r\n")
            found = _CHUNK.fullmatch(line)
            if found is None:
                raise OSError(f"the length of a chunk is {printable(line, 30)!r}")
            size = int(found[1], 16)
            if size == 0:
                break
            yield size
            self._until(b"\r\n")
        self._headers()  # trailers
        self.length = 0

    @property
    def whole(self) -> bool:
        """Whether the response was read completely, so that its connection can be reused."""
        return self.length == 0 and not self._rest and "close" not in self.headers.get("connection", "").lower()


class Wire:
    """The connections of one process. They are closed together with it, when it is garbage-collected, and at interpreter exit."""

    def __init__(self, settings: Settings) -> None:
        self._tokens, self._new_context = settings.tokens(), settings.new_context
        # in this module's capitalization, so that a caller's header replaces the default
        self._headers = {
            "User-Agent": settings.routing.user_agent, "Accept-Encoding": "identity",
            **{name.title(): value for name, value in settings.headers.items()},
        }  # fmt: skip
        self._context: Optional[ssl.SSLContext] = None
        self._sessions: dict[str, Optional[ssl.SSLSession]] = {}
        self._lock = threading.Lock()  # guards the fields below
        self._idle: _Idle = {}
        self.closed = False
        self.transport = ""  # transport of the last batch from a Unix socket, with the reason
        weakref.finalize(self, _drain, self._idle).atexit = False
        _live.add(self)

    def lives(self, gateway: Gateway, limit: float, over: Optional[Callable[[], bool]] = None) -> bool:
        """Probes a gateway, and returns whether it accepts requests. A gateway that responds but refuses requests is alive.

        The probe requires no rights, so it sends no token.
        """
        a = Attempt(gateway, Stopwatch(), limit, over or (lambda: self.closed))
        with self._connect(a) as sock:
            a.send(sock, self._request(gateway, "GET", "/readyz", {}, None, None))
            return Answer(a, sock).status != 503

    @contextlib.contextmanager
    def send(self, a: Attempt, method: str, target: str, headers: dict[str, str], body: Optional[bytes] = None) -> Iterator[Answer]:
        """Sends a request. If the gateway refuses the token and the token has changed meanwhile, it sends the request once more."""
        g, token = a.gateway, self._tokens.current()
        for again in (True, False):
            r = self._exchange(a, self._request(g, method, target, headers, token, body))
            try:
                fresh = self._renewed(g, token) if again and r.status == 401 and token is not None else None
                if fresh is None:
                    yield r
                    return
                r.read(MAX_PROBLEM)
            finally:
                self._keep(g, r)
            token = fresh

    def _renewed(self, g: Gateway, refused: Secret) -> Optional[Secret]:
        try:
            return self._tokens.renew(refused)
        except InvalidArgument as e:
            text = f"{g.name}: 401: the token is refused, and cannot be read again: {e.message}"
            raise Unauthenticated(text, status=401, gateway=g.name) from None

    def _exchange(self, a: Attempt, request: memoryview) -> Answer:
        """Sends a request and reads the head of its response. A kept connection that the gateway has closed is replaced."""
        while True:
            kept = self._take(a.gateway)
            sock = kept or self._connect(a)
            try:
                a.send(sock, _letting_go(request, sock))
                return Answer(a, sock)
            except BaseException as e:
                sock.close()
                if kept is None or not isinstance(e, ConnectionError):
                    raise

    def _keep(self, gateway: Gateway, r: Answer) -> None:
        """Keeps the connection of a completely read response, and closes any other."""
        if isinstance(r.sock, ssl.SSLSocket):
            # for resuming the TLS session on the next connection
            self._sessions[gateway.name] = r.sock.session
        with self._lock:
            if r.whole and not self.closed and not _refuses(r.sock):
                self._idle.setdefault(gateway.name, []).append((time.monotonic(), r.sock))
                return
        r.sock.close()

    def _take(self, gateway: Gateway) -> Optional[socket.socket]:
        while True:
            with self._lock:
                idle = self._idle.get(gateway.name)
                if not idle:
                    return None
                # Prefers a connection whose shared memory can be reused, before the gateway allocates more.
                at = next((i for i, (_, s) in enumerate(idle) if isinstance(s, LocalSocket) and s.segments.ready), -1)
                since, sock = idle.pop(at)
            # this process may have been forked meanwhile
            if time.monotonic() - since < IDLE_TIME and not _refuses(sock):
                return sock
            sock.close()

    def unmap(self, most: int) -> None:
        """Closes idle connections, oldest first, while their mapped memory exceeds most bytes."""
        with self._lock:
            for kept in self._idle.values():
                for since, sock in reversed(kept[:]):
                    if isinstance(sock, LocalSocket):
                        most -= sock.segments.held
                        if most < 0:
                            kept.remove((since, sock))
                            sock.close()

    def _connect(self, a: Attempt) -> socket.socket:
        at = a.gateway.address
        proxy = _proxy_of(at)
        try:
            with contextlib.ExitStack() as failed:
                sock = failed.enter_context(a.dial(proxy or at))
                if at.scheme == "https":
                    with a.within(DIAL_TIME):
                        if proxy is not None:
                            self._tunnel(a, sock, proxy)
                        sock = failed.enter_context(self._wrapped(a.gateway, sock))
                        _shake_hands(a, sock)
                failed.pop_all()
                return sock
        except OSError as e:
            if proxy is None or isinstance(e, ssl.SSLCertVerificationError):
                raise
            raise ConnectionError(f"{cause(e)} (through {proxy.name}, the environment's proxy; no_proxy leaves gateways out)") from e

    def _tunnel(self, a: Attempt, sock: socket.socket, proxy: Address) -> None:
        place = a.gateway.address.place
        a.send(sock, _written("CONNECT", place, {"Host": place, **_credentials(proxy)}))
        r = Answer(a, sock)
        if r.status != 200:
            raise OSError(f"the tunnel was refused: {r.status} {printable(r.reason, 200)}")

    def _wrapped(self, g: Gateway, sock: socket.socket) -> ssl.SSLSocket:
        with no_fork:
            if self._context is None:
                self._context = self._new_context()  # loads all certificates, so do it only once
            return self._context.wrap_socket(
                sock, server_hostname=g.address.host, do_handshake_on_connect=False, session=self._sessions.get(g.name)
            )

    def _request(
        self, g: Gateway, method: str, target: str, headers: dict[str, str], token: Optional[Secret], body: Optional[bytes]
    ) -> memoryview:
        at, proxy = g.address, _proxy_of(g.address) if g.address.scheme == "http" else None
        if proxy is not None:
            target = f"http://{at.named or at.place}{at.prefix}{target}"
            headers = {**_credentials(proxy), **headers}
        else:
            target = at.prefix + target
        if token is not None:
            headers = {"Authorization": Secret(f"Bearer {token}"), **headers}
        if body is not None:
            headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        host = at.named or at.place.removesuffix(f":{PORTS[at.scheme]}")
        try:
            return _written(method, target, {"Host": host, **headers, **self._headers}, body or b"")
        except ValueError:  # the error's text may contain a token
            what = "a header has" if _TARGET.fullmatch(target) else "the path has"
            raise InvalidArgument(f"{g.name}: {what} characters that HTTP does not take", cure="headers are one line of Latin-1") from None

    def close(self) -> None:
        """Closes the kept connections. Running attempts detect it and close theirs."""
        with self._lock:
            self.closed = True
            _drain(self._idle)


_Idle = dict[str, list[tuple[float, socket.socket]]]
_live: weakref.WeakSet[Wire] = weakref.WeakSet()


@atexit.register
def _end() -> None:
    """Closes idle connections, after the threads of readers have ended: _pool registers later, and therefore runs first."""
    for wire in list(_live):
        _drain(wire._idle)


def _drain(idle: _Idle) -> None:
    """Closes connections without a lock. A lock could already be held in a forked child, or when the garbage collector runs.

    It therefore does not unmap their memory: Segments is freed with its connection.
    """
    while idle:
        for _, sock in idle.popitem()[1]:
            socket.socket.close(sock)


def _written(method: str, target: str, headers: dict[str, str], body: bytes = b"") -> memoryview:
    """Returns the bytes of a request. Tracebacks show neither views nor Secrets."""
    head = Secret("".join(f"{name}: {value}\n" for name, value in headers.items()))
    if not _TARGET.fullmatch(target) or head.count("\n") != len(headers) or "\r" in head or "\0" in head:
        raise ValueError
    return memoryview((f"{method} {target} HTTP/1.1\n{head}\n".replace("\n", "\r\n")).encode("latin-1") + body)


def _refuses(sock: socket.socket) -> bool:
    return isinstance(sock, LocalSocket) and sock.refuses


def _letting_go(request: memoryview, sock: socket.socket) -> memoryview:
    """Adds the leases without views to a request."""
    leases = sock.segments.let_go() if isinstance(sock, LocalSocket) else ""
    if not leases:
        return request
    end = bytes(request).index(b"\n") + 1
    return memoryview(b"".join((request[:end], f"Millrace-Release: {leases}\r\n".encode(), request[end:])))


def _shake_hands(a: Attempt, sock: ssl.SSLSocket) -> None:
    """Performs the TLS handshake. OpenSSL locks shared state meanwhile, so a fork waits for each step."""
    sock.settimeout(0)
    while True:
        try:
            with no_fork:
                sock.do_handshake()
            break
        except ssl.SSLWantReadError:
            event = selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            event = selectors.EVENT_WRITE
        a.wait(sock, event)
    sock.settimeout(TICK)


UNTRUSTED = (
    "the gateway's certificate must be of that name and of a known authority: name a private one's file by tls=millrace.TLS(ca_file=...) or "
    "SSL_CERT_FILE, and give the address that the certificate has"
)


def cause(e: BaseException) -> str:
    """Returns the text of an error, or its type if the text is empty."""
    return printable(e).strip() or type(e).__name__


def _credentials(proxy: Address) -> dict[str, str]:
    return {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}


@lru_cache(maxsize=256)
def _proxy_of(at: Address) -> Optional[Address]:
    """Returns the proxy from the environment; None for this machine itself."""
    host = at.named.rpartition(":")[0] or at.host
    if is_here(host):
        return None
    proxy = urllib.request.getproxies().get(at.scheme)
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    found = parse(proxy, "proxy")
    if found.scheme != "http":
        raise InvalidArgument(f"proxy {found.name}: the environment names it for {at.scheme}, and it is not reached by http://")
    return found


def printable(text: object, most: int = 4096) -> str:
    """Makes a gateway's text safe for terminals and logs: it replaces control characters and limits the length."""
    return "".join(c if c.isprintable() else " " for c in str(text)[:most])


def read_error(gateway: Gateway, r: Answer) -> MillraceError:
    """Converts an unsuccessful response into an exception."""
    said: Any = None
    if r.headers.get("content-type", "").split(";")[0].strip() == "application/problem+json":
        with contextlib.suppress(OSError, ValueError, RecursionError):
            said = json.loads(r.read(MAX_PROBLEM))
    problem: dict[str, Any] = said if isinstance(said, dict) else {}
    after, ms, batches = r.headers.get("retry-after", ""), problem.get("retry_after_ms"), problem.get("batches")
    code, cure = printable(problem.get("code", "")), None
    if problem:
        text, retryable = f"{code}: {printable(problem.get('detail') or problem.get('title') or '')}", problem.get("retryable") is True
    else:
        # The response comes from a proxy that is starting, overloaded or without a backend.
        text, retryable = printable(r.reason, 200), r.status in (408, 429, 500, 502, 503, 504)
        if 300 <= r.status < 400:
            text = f"a redirect to {printable(r.headers.get('location', ''), 200)!r}, which no gateway sends"
        # most likely another server: a gateway would send a problem document
        cure = ProtocolError.cure if r.status == 404 else None
    return by_code(code, r.status)(
        f"{gateway.name}: {r.status} {text}",
        code=code or None,
        status=r.status,
        gateway=gateway.name,
        request_id=printable(problem.get("request_id") or r.headers.get("x-request-id", "")),
        retryable=retryable,
        retry_after=ms / 1000 if isinstance(ms, int) and 0 < ms < 1 << 40 else float(after) if after.isdecimal() and len(after) < 10 else 0.0,
        cure=cure,
        batches=batches if isinstance(batches, int) else None,
        faults=tuple((printable(f.get("name", "")), printable(f.get("reason", ""))) for f in problem.get("faults") or () if isinstance(f, dict)),
        shards=tuple(s for s in problem.get("shards") or () if isinstance(s, str)),
    )


def no_answer(text: str, gateway: Gateway) -> ProtocolError:
    """Returns the error for a response that is not a gateway's, or that does not match the request."""
    return ProtocolError(f"{gateway.name}: {text}", gateway=gateway.name)
