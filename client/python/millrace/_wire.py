"""HTTP to gateways: kept connections, attempts that end, and signs of life. Standard library only.

Connections, threads and what was seen of gateways belong to one process: a forked child begins anew (Client keeps one Wire
for each process id), and never shares a socket with its parent.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import selectors
import socket
import ssl
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Callable, Optional

from ._clock import Clock
from ._fork import no_fork
from ._gateways import Address, Gateway, parse
from ._token import Secret, Tokens
from .errors import GatewayUnavailable, InvalidArgument, MillraceError, ProtocolError, Unauthenticated, by_code

DIAL_TIMEOUT = 5.0  # short, since another gateway may answer meanwhile
IDLE_TIME = 90.0  # a kept connection that is older is not used again
MOST_IDLE = 64

# A gateway from which nothing has come for QUIET_TIME is asked for a sign of life. One that owes MOST_SIGNS of them has
# stopped, while one that answers has a slow store behind it, and is waited for.
QUIET_TIME = 2.0
SIGN_TIME = 1.0
MOST_SIGNS = 2
WATCH_EVERY = 0.25
WATCH_IDLE = 2.0  # the watching thread ends when there was nothing to watch for so long

MAX_PROBLEM = 64 << 10
MOST_INTERIM = 16


class ShortBody(MillraceError):
    """A connection that was refused, reset or too slow, or a body that ends early: tried again."""


@dataclass
class Attempt:
    """One request to one gateway. Whoever watches may end it; `reason` then says why."""

    gateway: Gateway
    ends: float  # by the wire's clock, as quiet_since
    quiet_since: float
    came: int = 0  # grows with whatever comes of the answer
    reason: str = ""
    sock: Optional[socket.socket] = None
    seen: int = 0
    owed: int = 0
    asked: bool = False  # its gateway is being asked for a sign of life

    def abort(self, reason: str) -> None:
        """Ends the attempt: whoever dials, or reads from its socket, wakes up."""
        self.reason = self.reason or reason
        sock = self.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not that of an SSLSocket, which would read on without TLS, and take what it gets for the body.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def dial(self, address: tuple[str, int], timeout: float, _: object = None) -> socket.socket:
        """Connects to one of the addresses of a name, as socket.create_connection does, and can be ended meanwhile."""
        fault: Optional[OSError] = None
        here = self.gateway.address.here()
        places: list[Any] = (
            [(here[0], socket.SOCK_STREAM, 0, "", here[1])] if here else socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        )
        for family, kind, protocol, _, at in places:
            sock = socket.socket(family, kind, protocol)
            self.sock = sock
            try:
                if self.reason:
                    raise TimeoutError(self.reason)
                sock.settimeout(timeout)
                sock.connect(at)
            except OSError as e:
                sock.close()
                fault = fault or e
            else:
                return sock
        try:
            raise fault or OSError("the name has no address")
        finally:
            fault = None  # which holds this frame, and with it the buffer that a body was to be read into


class _Response(http.client.HTTPResponse):
    """An answer, without the interim ones (100 to 199) that proxies may send before: http.client passes over 100 alone."""

    def _read_status(self) -> tuple[str, int, str]:
        for _ in range(MOST_INTERIM):
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 100 <= status < 200:
                return version, status, reason
            http.client.parse_headers(self.fp)
        raise http.client.BadStatusLine(f"more than {MOST_INTERIM} interim answers")


class _Here(http.client.HTTPConnection):
    """A connection over a Unix socket, which has no options of TCP."""

    def connect(self) -> None:
        """Connects."""
        self.sock = self._create_connection((self.host, self.port), self.timeout)  # type: ignore[attr-defined]


class _Secure(http.client.HTTPSConnection):
    """A connection over TLS. OpenSSL locks what connections share while it shakes hands: a fork waits for each such step."""

    session: Optional[ssl.SSLSession] = None
    """Of an earlier connection to the same gateway."""

    def connect(self) -> None:
        """Connects and shakes hands, within the timeout."""
        http.client.HTTPConnection.connect(self)
        ends = time.monotonic() + (self.timeout or DIAL_TIMEOUT)
        host, context = self._tunnel_host or self.host, self._context  # type: ignore[attr-defined]
        with no_fork:
            self.sock = context.wrap_socket(self.sock, server_hostname=host, do_handshake_on_connect=False, session=self.session)
        self.sock.settimeout(0)
        while True:
            try:
                with no_fork:
                    self.sock.do_handshake()
                break
            except ssl.SSLWantReadError:
                event = selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                event = selectors.EVENT_WRITE
            with selectors.DefaultSelector() as ready:
                ready.register(self.sock, event)
                if not ready.select(max(0.0, ends - time.monotonic())):
                    raise TimeoutError("the TLS handshake timed out")
        self.sock.settimeout(self.timeout)


@dataclass
class _Kept:
    connection: http.client.HTTPConnection
    since: float


class Wire:
    """The connections of one process."""

    def __init__(
        self,
        user_agent: str,
        tokens: Tokens,
        headers: dict[str, str],
        new_context: Callable[[], ssl.SSLContext],
        rest: Callable[[], None],
    ) -> None:
        """rest is called when there was nothing to watch for WATCH_IDLE seconds."""
        self.clock = Clock()
        self._rest = rest
        self._user_agent, self._tokens, self._headers, self._new_context = user_agent, tokens, headers, new_context
        self._context: Optional[ssl.SSLContext] = None
        self._sessions: dict[str, Optional[ssl.SSLSession]] = {}
        self._lock = threading.Lock()  # guards what follows
        self._idle: dict[str, deque[_Kept]] = {}
        self._watched: dict[int, Attempt] = {}
        self._watcher: Optional[threading.Thread] = None
        self._counting = 0
        self._closed = threading.Event()
        self.gateways: Callable[[], int] = lambda: 1

    # Attempts.

    @contextlib.contextmanager
    def attempt(self, gateway: Gateway, ends: float) -> Iterator[Attempt]:
        """Gives an Attempt that is ended when the clock is at `ends`, when its gateway has stopped, and when the wire is closed."""
        with self._watching(Attempt(gateway, ends, self.clock.now())) as a:
            try:
                yield a
            except MillraceError:
                raise
            except ssl.SSLCertVerificationError as e:
                raise ProtocolError(f"{gateway.name}: {_cause(e)}", gateway=gateway.name, cure=_UNTRUSTED) from None
            except (OSError, http.client.HTTPException) as e:
                raise ShortBody(f"{gateway.name}: {a.reason or _cause(e)}", retryable=True, gateway=gateway.name) from e

    @contextlib.contextmanager
    def _watching(self, a: Attempt) -> Iterator[Attempt]:
        with self.counting():
            with self._lock:
                if self._closed.is_set():
                    raise ShortBody("the client is closed", code="closed")
                self._watched[id(a)] = a
            try:
                yield a
            finally:
                with self._lock:
                    self._watched.pop(id(a), None)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Sees to it that the clock does not count the time in which the process stands still, between attempts too."""
        with self._lock:
            if self._watcher is None and not self._closed.is_set():
                watcher = threading.Thread(target=self._watch, name="millrace-watch", daemon=True)
                self.clock.look_again(WATCH_EVERY)
                try:
                    watcher.start()
                except BaseException:
                    self.clock.look_again(None)
                    raise
                self._watcher = watcher
            self._counting += 1
        try:
            yield
        finally:
            with self._lock:
                self._counting -= 1

    def _watch(self) -> None:
        last = self.clock.now()
        while True:
            now = self.clock.look_again(WATCH_EVERY)
            with self._lock:
                attempts = list(self._watched.values())
                if self._counting:
                    last = now
                over = self._closed.is_set() or now - last > WATCH_IDLE
                if over:
                    self.clock.look_again(None)
                    self._watcher = None
            if over:
                self._rest()
                return
            quiet: dict[int, list[Attempt]] = {}
            for a in attempts:
                if now >= a.ends:
                    a.abort("the attempt took too long")
                elif a.came != a.seen:
                    a.seen, a.owed, a.quiet_since = a.came, 0, now
                elif now - a.quiet_since >= QUIET_TIME and not a.asked and self.gateways() > 1:
                    quiet.setdefault(id(a.gateway), []).append(a)
            for same in quiet.values():
                self._begin_to_ask(same)
            self._closed.wait(WATCH_EVERY)

    def _begin_to_ask(self, attempts: list[Attempt]) -> None:
        """Asks in a thread of its own: an answer takes up to SIGN_TIME, and others must be ended meanwhile."""
        for a in attempts:
            a.asked = True
        try:
            threading.Thread(target=self._ask_for_sign, args=(attempts,), name="millrace-sign", daemon=True).start()
        except RuntimeError:  # there can be no more threads: later, perhaps
            for a in attempts:
                a.asked = False

    def _ask_for_sign(self, attempts: list[Attempt]) -> None:
        lives = False
        with contextlib.suppress(Exception):
            self.ready(attempts[0].gateway, SIGN_TIME)
            lives = True
        for a in attempts:
            if lives or a.came != a.seen:
                a.owed, a.quiet_since = 0, self.clock.now()
            else:
                a.owed += 1
                if a.owed >= MOST_SIGNS:
                    a.abort("the gateway gives no sign of life")
            a.asked = False

    def awake(self) -> bool:
        """Reports whether `rest` will be called."""
        with self._lock:
            return self._watcher is not None

    def ready(self, gateway: Gateway, limit: float) -> bool:
        """Asks for a sign of life: any answer is one, also that of a gateway that refuses new requests, which is not ready.

        It wants no right, so no token is shown.
        """
        now = self.clock.now()
        with self._watching(Attempt(gateway, now + limit, now)) as a:
            c = self._connect(a, limit)
            try:
                c.request("GET", gateway.address.prefix + "/readyz", headers=self._all_headers(gateway, {}, None))
                r = c.getresponse()
                r.read(MAX_PROBLEM)
                return r.status != http.client.SERVICE_UNAVAILABLE
            finally:
                c.close()

    def probe(self, gateway: Gateway, limit: float) -> None:
        """Raises if a gateway does not answer that it takes requests."""
        if not self.ready(gateway, limit):
            raise GatewayUnavailable(f"{gateway.name} is not ready", retryable=True, gateway=gateway.name)

    # Requests.

    def send(
        self, a: Attempt, method: str, target: str, headers: dict[str, str], body: Optional[bytes] = None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Sends one request, and once more if the gateway refuses the token and there is another one by now."""
        g = a.gateway
        token = self._tokens.current()
        c, r = self._exchange(a, method, target, self._all_headers(g, headers, token), body)
        if r.status != http.client.UNAUTHORIZED or token is None:
            return c, r
        try:
            fresh = self._tokens.renew(token)
            if fresh is None:
                return c, r
            r.read(MAX_PROBLEM)
            self.keep(g, c, r)
        except InvalidArgument as e:
            c.close()
            text = f"{g.name}: {r.status}: the token is refused, and cannot be read again: {e.message}"
            raise Unauthenticated(text, status=r.status, gateway=g.name) from None
        except BaseException:
            c.close()
            raise
        return self._exchange(a, method, target, self._all_headers(g, headers, fresh), body)

    def _exchange(
        self, a: Attempt, method: str, target: str, sent: dict[str, str], body: Optional[bytes]
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Sends one request. A kept connection that the gateway has closed meanwhile is replaced by a new one."""
        g = a.gateway
        if body is not None:
            sent["Content-Type"] = "application/json"
        while True:
            c = self._take(g)
            fresh = c is None
            if c is None:
                c = self._connect(a, DIAL_TIMEOUT)
            try:
                sock: Optional[socket.socket] = c.sock
                assert sock is not None
                a.sock = sock
                if a.reason:
                    raise TimeoutError(a.reason)
                sock.settimeout(None)  # the watching thread ends it
                c.request(method, self._target(g, target), body=body, headers=sent)
                r = c.getresponse()
            except (http.client.RemoteDisconnected, ConnectionError, BrokenPipeError):
                c.close()
                if fresh or a.reason:
                    raise
                continue
            except ValueError:  # whose text may repeat a token
                c.close()
                raise InvalidArgument(
                    f"{g.name}: a header has characters that HTTP does not take", cure="headers are one line of Latin-1"
                ) from None
            except BaseException:
                c.close()
                raise
            a.came += 1
            return c, r

    def keep(self, gateway: Gateway, c: http.client.HTTPConnection, r: http.client.HTTPResponse) -> None:
        """Keeps a connection whose answer was read to its end; closes any other."""
        if not r.isclosed() and r.length == 0:
            r.read()
        if isinstance(c.sock, ssl.SSLSocket):
            self._sessions[gateway.name] = c.sock.session  # the next connection shakes hands quicker
        if not r.isclosed() or r.will_close or c.sock is None:
            r.close()
            c.close()
            return
        with self._lock:
            if not self._closed.is_set():
                idle = self._idle.setdefault(gateway.name, deque())
                idle.append(_Kept(c, time.monotonic()))
                if len(idle) <= MOST_IDLE:
                    return
                c = idle.popleft().connection
        c.close()

    def _take(self, g: Gateway) -> Optional[http.client.HTTPConnection]:
        stale: list[http.client.HTTPConnection] = []
        found = None
        with self._lock:
            idle = self._idle.get(g.name)
            while idle:
                kept = idle.pop()
                if time.monotonic() - kept.since < IDLE_TIME:
                    found = kept.connection
                    break
                stale.append(kept.connection)
        for c in stale:
            c.close()
        return found

    def _connect(self, a: Attempt, limit: float) -> http.client.HTTPConnection:
        at = a.gateway.address
        host, port, proxy = at.host, at.port, _proxy_of(at)
        if proxy is not None:
            host, port = proxy.host, proxy.port
        c: http.client.HTTPConnection
        if at.scheme == "https":
            secure = c = _Secure(host, port, timeout=limit, context=self._tls())
            secure.session = self._sessions.get(a.gateway.name)
            if proxy is not None:
                c.set_tunnel(at.host, at.port, _credentials(proxy))
        else:
            c = (_Here if at.socket else http.client.HTTPConnection)(host, port, timeout=limit)
        c.response_class = _Response
        c.debuglevel = 0  # else http.client would print the token, wherever a program has it print requests
        c._create_connection = a.dial  # type: ignore[attr-defined]
        try:
            c.connect()
        except OSError as e:
            if proxy is not None and not isinstance(e, ssl.SSLCertVerificationError):
                raise ConnectionError(f"{_cause(e)} (through {proxy.name}, the environment's proxy; no_proxy leaves gateways out)") from e
            raise
        c.auto_open = 0
        return c

    def _tls(self) -> ssl.SSLContext:
        with no_fork:
            if self._context is None:
                self._context = self._new_context()  # reads all certificates: once
            return self._context

    def _target(self, g: Gateway, target: str) -> str:
        target = g.address.prefix + target
        if g.address.scheme == "http" and _proxy_of(g.address) is not None:
            return f"http://{g.address.named or g.name[7:].split('/')[0]}{target}"
        return target

    def _all_headers(self, g: Gateway, headers: dict[str, str], token: Optional[Secret]) -> dict[str, str]:
        out = {"User-Agent": self._user_agent, "Accept-Encoding": "identity"}
        if g.address.named:
            out["Host"] = g.address.named
        proxy = _proxy_of(g.address) if g.address.scheme == "http" else None
        if proxy is not None:
            out.update(_credentials(proxy))
        if token is not None:
            out["Authorization"] = Secret(f"Bearer {token}")
        out.update(self._headers)
        out.update(headers)
        return out

    def close(self) -> None:
        """Ends all attempts, closes all connections and waits for the watching thread."""
        with self._lock:
            self._closed.set()
            idle, self._idle = self._idle, {}
            attempts, watcher = list(self._watched.values()), self._watcher
        for a in attempts:
            a.abort("the client is closed")
        for kept in idle.values():
            for k in kept:
                k.connection.close()
        if watcher is not None and watcher is not threading.current_thread():
            watcher.join()


_UNTRUSTED = (
    "the gateway's certificate must be of that name and of a known authority: name a private one's file by ca_file= or "
    "SSL_CERT_FILE, and give the address that the certificate has"
)


def _cause(e: BaseException) -> str:
    return printable(e).strip() or type(e).__name__


def _credentials(proxy: Address) -> dict[str, str]:
    return {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}


@lru_cache(maxsize=256)
def _proxy_of(at: Address) -> Optional[Address]:
    """Goes by the environment, as every HTTP client does; never for this machine itself."""
    host = at.named.rpartition(":")[0] or at.host
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return None
    proxy = urllib.request.getproxies().get(at.scheme)
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    found = parse(proxy, "proxy")
    if found.scheme != "http":
        raise InvalidArgument(f"proxy {found.name}: the environment names it for {at.scheme}, and it is not reached by http://")
    return found


def printable(text: object, most: int = 4096) -> str:
    """Keeps a gateway's words fit for a terminal and a log: no control characters, no novel."""
    return "".join(c if c.isprintable() else " " for c in str(text)[:most])


def read_error(gateway: Gateway, r: http.client.HTTPResponse) -> MillraceError:
    """Turns an answer that is no success into an exception."""
    request_id = printable(r.headers.get("X-Request-Id", ""))
    after = r.headers.get("Retry-After", "")
    wait = float(after) if after.isdigit() and len(after) < 10 else 0.0
    try:
        body = r.read(MAX_PROBLEM)
    except (OSError, http.client.HTTPException):
        body = b""
    problem: Any = None
    if r.headers.get("Content-Type", "").split(";")[0].strip() == "application/problem+json":
        with contextlib.suppress(ValueError):
            problem = json.loads(body)
    if not isinstance(problem, dict):
        # Something between us and the gateway answered: a proxy that is starting, full or has no backend.
        detail = http.client.responses.get(r.status, "")
        if 300 <= r.status < 400:
            detail = f"a redirect to {printable(r.headers.get('Location', ''), 200)!r}, which no gateway sends"
        return by_code("", r.status)(
            f"{gateway.name}: {r.status} {detail}", status=r.status, request_id=request_id, gateway=gateway.name,
            retryable=r.status in (408, 429, 500, 502, 503, 504), retry_after=wait, code=None,
        )
    code = printable(problem.get("code", ""))
    ms, batches = problem.get("retry_after_ms"), problem.get("batches")
    if isinstance(ms, int) and 0 < ms < 1 << 40:
        wait = ms / 1000
    faults = tuple(
        (printable(f.get("name", "")), printable(f.get("reason", "")))
        for f in problem.get("faults") or () if isinstance(f, dict)
    )
    shards = tuple(s for s in problem.get("shards") or () if isinstance(s, str))
    kind = by_code(code, r.status)
    return kind(
        f"{gateway.name}: {r.status} {code}: {printable(problem.get('detail') or problem.get('title') or '')}",
        code=code or None, status=r.status, request_id=printable(problem.get("request_id") or request_id),
        retryable=problem.get("retryable") is True,
        retry_after=wait, gateway=gateway.name, batches=batches if isinstance(batches, int) else None, faults=faults, shards=shards,
    )


def no_answer(text: str, gateway: Gateway) -> ProtocolError:
    """An answer that is not a gateway's, or of something else than was asked for."""
    return ProtocolError(f"{gateway.name}: {text}", gateway=gateway.name)
