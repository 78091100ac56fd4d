"""Tokens and TLS: which servers receive a token, and how a new token or an unknown certificate affects a job."""

from __future__ import annotations

import contextlib
import http.client
import logging
import multiprocessing
import pickle
import re
import socket
import ssl
import struct
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Optional

import harness
import pytest
from harness import Fault, is_batch

import millrace
from millrace import TLS, Routing, errors
from millrace._http import wire

CANARY = "canary-a"
PROBLEM = b"HTTP/1.1 %d x\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n%s\r\n%s"


def problem(status: int, code: str, header: bytes = b"", retryable: bool = False) -> bytes:
    """A response that refuses a request."""
    body = b'{"code": "%s", "detail": "what is wrong", "retryable": %s}' % (code.encode(), b"true" if retryable else b"false")
    return PROBLEM % (status, len(body), header, body)


def shown(head: bytes) -> str:
    """The token in a request."""
    found = re.search(rb"(?i)\r\nauthorization: bearer (\S+)\r\n", head)
    return found[1].decode() if found else ""


class Guard:
    """Refuses requests without a valid token, like a gateway."""

    def __init__(self, *valid: str) -> None:
        self.valid = set(valid)

    def __call__(self, _: int, head: bytes, answer: bytes) -> Optional[bytes]:
        if b" /readyz " in head or shown(head) in self.valid:
            return answer
        return problem(401, "unauthenticated")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> harness.Authority:
    return harness.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def tls(authority: harness.Authority) -> ssl.SSLContext:
    return authority.server("IP:127.0.0.1")


@pytest.fixture
def guarded(gateway: harness.Gateway, tls: ssl.SSLContext) -> Iterator[Callable[[Fault], harness.Proxy]]:
    """Creates servers with TLS in front of the gateway."""
    made: list[harness.Proxy] = []

    def serve(fault: Fault) -> harness.Proxy:
        made.append(harness.Proxy(gateway.port, fault, tls=tls))
        return made[-1]

    yield serve
    for p in made:
        p.close()


def put(path: Path, text: str) -> Path:
    """Replaces a file atomically, as users replace tokens: a reader finds the old text or the new one."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)
    return path


Serve = Callable[[Fault], harness.Proxy]


@pytest.mark.parametrize("way", ["token", "function", "token_file", "MILLRACE_TOKEN", "MILLRACE_TOKEN_FILE"])
def test_ways_to_give_a_token(
    way: str, guarded: Serve, authority: harness.Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path / "token", CANARY + "\r\n")
    one, two = guarded(Guard(CANARY)), guarded(Guard(CANARY))
    options: dict[str, object] = {"token": CANARY, "function": lambda: CANARY, "token_file": file}
    given: dict[str, object] = {"token" if way == "function" else way: options[way]} if way in options else {}
    if not given:
        monkeypatch.setenv(way, CANARY if way == "MILLRACE_TOKEN" else str(file))
    with millrace.Client([one.url, two.url], **harness.grouped(ca_file=authority.file, **given)) as client:  # type: ignore[arg-type]
        assert len(client.epoch(0).batch(0)) == 32
        for what in (repr(client), repr(client.core.settings), repr(vars(client.core.here().wire)), repr(vars(client.core))):
            assert CANARY not in what
    heads = one.heads + two.heads
    probes = [h for h in heads if b" /readyz " in h]
    assert probes
    assert [shown(h) for h in heads if h not in probes] == [CANARY] * (len(heads) - len(probes))
    assert not [h for h in probes if CANARY.encode() in h]


def test_a_refused_token_is_read_again(guarded: Serve, authority: harness.Authority, tmp_path: Path) -> None:
    file, guard = put(tmp_path / "token", "canary-a\n"), Guard("canary-a")
    proxy = guarded(guard)
    with millrace.Client(proxy.url, "photos", token_file=file, tls=TLS(ca_file=authority.file)) as client:
        epoch = client.epoch(0)
        put(file, "canary-b")
        epoch.batch(0)  # the old token is still valid, so the client does not read the file again
        guard.valid = {"canary-b"}
        before = len(proxy.heads)
        assert len(epoch.batch(1)) == 32
        assert [shown(h) for h in proxy.heads[before:]] == ["canary-a", "canary-b"]
        guard.valid = {"canary-c"}
        put(file, "canary-c")
        before = len(proxy.heads)
        with pytest.raises(millrace.NotFound):
            client.json("POST", "/v1/datasets/other/importance", body={"url": "x", "losses": []})
        assert [shown(h) for h in proxy.heads[before:]] == ["canary-b", "canary-c"]
        guard.valid = {"canary-d"}
        for change, text in [
            (lambda: None, r"401 unauthenticated: what is wrong; give a token that the gateway knows: MILLRACE_TOKEN_FILE"),
            (lambda: put(file, "canary-x"), "what is wrong"),
            (lambda: put(file, ""), f"401: the token is refused, and cannot be read again: token file '{file}': the token is empty"),
            (file.unlink, f"cannot be read again: token file '{file}': No such file or directory"),
        ]:
            change()
            before = len(proxy.heads)
            with pytest.raises(millrace.errors.Unauthenticated, match=text) as e:
                epoch.batch(2)
            assert "canary" not in str(e.value)
            assert (e.value.code, e.value.status, e.value.retryable) == ("unauthenticated", 401, False)
            assert len(proxy.heads) - before <= 2  # it is not retried


def test_a_new_token_whose_request_is_cut(gateway: harness.Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, cuts = put(tmp_path / "token", "canary-a"), [0]
    send, used = wire.Attempt.send, list[int]()
    monkeypatch.setattr(wire.Attempt, "send", lambda a, sock, data: (used.append(sock.fileno()), send(a, sock, data)))

    def cut(number: int, head: bytes, answer: bytes) -> bytes:
        if shown(head) == "canary-a":
            return problem(401, "unauthenticated") if number else answer
        cuts[0] += 1
        return answer if cuts[0] > 3 else b""

    proxy = harness.Proxy(gateway.port, cut)
    with harness.closing(proxy), millrace.Client(proxy.url, token_file=file) as client:
        client.datasets()
        put(file, "canary-b")
        assert client.datasets()
    assert min(used) >= 0  # no closed connection is reused


def test_tokens_change_during_an_epoch(guarded: Serve, authority: harness.Authority, tmp_path: Path) -> None:
    """Each token stays valid until the second token after it exists, as when users replace tokens.

    No token is replaced between a refusal and the retry that follows. However slow the retrying thread is, it has read a token that is
    still valid.
    """
    file, guard = put(tmp_path / "token", "canary-0"), Guard("canary-0")
    lock, answered, due = threading.Lock(), 0, 4
    current, refused = "canary-0", set[bytes]()

    def changing(number: int, head: bytes, answer: bytes) -> Optional[bytes]:
        nonlocal answered, due, current
        with lock:
            said = guard(number, head, answer)
            if is_batch(head) and said == answer:
                answered += 1
                refused.discard(head.split(b"\r\n", 1)[0])
                if answered >= due and not refused:
                    put(file, f"canary-{answered}")
                    guard.valid = {f"canary-{answered}", current}
                    current, due = f"canary-{answered}", answered + 4
            elif is_batch(head):
                refused.add(head.split(b"\r\n", 1)[0])
        return said

    proxy = guarded(changing)
    with millrace.Client(proxy.url, token_file=file, tls=TLS(ca_file=authority.file)) as client:
        epoch = client.epoch(0, global_batch_size=8)
        ledger = millrace.Ledger()
        with epoch.read(ledger=ledger) as reader:
            for _ in reader:
                pass
        ledger.check()
    assert answered == 63
    assert len({shown(h) for h in proxy.heads if is_batch(h)}) > 4


def test_a_gateway_that_does_not_know_a_new_token_yet(guarded: Serve, authority: harness.Authority) -> None:
    late, early = guarded(Guard("canary-a")), guarded(Guard("canary-b"))
    with millrace.Client([late.url, early.url], token="canary-b", routing=Routing(home=lambda *_: 0), tls=TLS(ca_file=authority.file)) as client:
        assert len(client.epoch(0).batch(0)) == 32
    assert late.heads


def _read_elsewhere(client: millrace.Client, came: multiprocessing.Queue[object]) -> None:
    try:
        came.put(len(client.epoch(0).batch(0)))
    except millrace.MillraceError as e:
        came.put(str(e))


@pytest.mark.parametrize("way", ["token", "token_file", "MILLRACE_TOKEN"])
def test_spawned_workers(
    way: str, guarded: Serve, authority: harness.Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = Guard("canary-a")
    proxy, file = guarded(guard), put(tmp_path / "token", "canary-a")
    monkeypatch.setenv("MILLRACE_TOKEN", "canary-a") if way == "MILLRACE_TOKEN" else None
    given = {"token": {"token": "canary-a"}, "token_file": {"token_file": file}}.get(way, {})
    client = millrace.Client(proxy.url, **harness.grouped(ca_file=authority.file, **given))  # type: ignore[arg-type]
    packed = pickle.dumps(client)
    assert (b"canary" in packed) == (way == "token")  # with the other ways, workers look up the token like the client
    assert "canary" not in repr(pickle.loads(packed).core.settings)
    if way != "token":
        guard.valid = {"canary-new"}
        put(file, "canary-new")
        monkeypatch.setenv("MILLRACE_TOKEN", "canary-new") if way == "MILLRACE_TOKEN" else None
    spawn = multiprocessing.get_context("spawn")
    came: multiprocessing.Queue[object] = spawn.Queue()
    worker = spawn.Process(target=_read_elsewhere, args=(client, came))
    worker.start()
    assert came.get(timeout=60) == 32
    worker.join(60)
    with pytest.raises(millrace.InvalidArgument, match="cannot be pickled; give ca_file"):
        pickle.dumps(millrace.Client(proxy.url, tls=TLS(context=ssl.create_default_context())))


def variables(e: BaseException) -> str:
    """The tracebacks of an error and of its causes, with the variables of all frames except the test's own.

    Error reporters and debuggers also follow the context of an error that was raised from None.
    """
    assert e.__traceback__ is not None
    cause: Optional[BaseException] = e
    frames, told = e.__traceback__.tb_next, ""
    while cause is not None:
        told += "".join(traceback.TracebackException(type(cause), cause, frames, capture_locals=True).format())
        cause = cause.__cause__ or cause.__context__
        frames = cause.__traceback__ if cause is not None else None
    return told


def _reset_within_bodies(s: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            conn, _ = s.accept()
            conn.recv(1000)
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            conn.close()


def test_nothing_shows_a_token(
    guarded: Serve,
    authority: harness.Authority,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Covers all failures and all levels of logging, with the variables of all frames in the traceback and with http.client's debug output.
    """
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 1)
    faults: list[Fault] = [
        Guard("other"),
        lambda _, head, answer: answer[:700] if is_batch(head) else answer,
        lambda _, head, answer: b"" if is_batch(head) else answer,
        lambda *_: problem(403, "forbidden"),
        lambda *_: problem(400, "invalid_argument"),
        lambda *_: b"SSH\r\n\r\n",
    ]
    for fault in faults:
        client = millrace.Client(guarded(fault).url, token=CANARY, deadline=0.5, tls=TLS(ca_file=authority.file))
        with client, pytest.raises(millrace.MillraceError) as e:
            client.epoch(0).batch(0)
        logging.getLogger().debug("failed", exc_info=e.value)
        for text in (str(e.value), repr(e.value), repr(vars(e.value)), variables(e.value), repr(pickle.dumps(e.value))):
            assert "canary" not in text
    client = millrace.Client(guarded(Guard()).url, token=CANARY, headers={"X-A": "€"}, tls=TLS(ca_file=authority.file))
    with client, pytest.raises(millrace.InvalidArgument, match="a header has characters") as g:
        client.datasets()
    assert "canary" not in variables(g.value)
    out = capsys.readouterr()
    assert "failed" in caplog.text
    assert "canary" not in caplog.text + out.out + out.err


def test_a_token_without_a_name_is_not_shown() -> None:
    with pytest.raises(millrace.InvalidArgument, match="argument 3 stands without a name") as e:
        millrace.Client("http://127.0.0.1:1", "photos", "hidden-token")  # type: ignore[misc]
    assert "hidden-token" not in str(e.value)


def test_a_request_that_is_cut_shows_no_token() -> None:
    with socket.create_server(("127.0.0.1", 0)) as s:
        t = threading.Thread(target=_reset_within_bodies, args=(s,))
        t.start()
        client = millrace.Client(f"http://127.0.0.1:{s.getsockname()[1]}", token=CANARY, deadline=0.5)
        with client, pytest.raises(millrace.GatewayUnavailable, match=r"reset|[Bb]roken pipe") as f:
            client.json("POST", "/x", body="x" * (16 << 20))
        s.shutdown(socket.SHUT_RDWR)
        t.join(60)
        shows = "canary" in variables(f.value)  # a text of many MiB, which pytest must not print
        assert not shows


@pytest.mark.parametrize(
    ("given", "env", "text"),
    [
        ({"token": "canary", "token_file": "x"}, {}, "token and token_file are both given"),
        ({}, {"MILLRACE_TOKEN": "canary", "MILLRACE_TOKEN_FILE": "x"}, "MILLRACE_TOKEN and MILLRACE_TOKEN_FILE are both given"),
        ({"token": ""}, {}, "token: the token is empty"),
        ({}, {"MILLRACE_TOKEN": "\n"}, "MILLRACE_TOKEN: the token is empty"),
        ({"token_file": ""}, {}, "token_file names no file"),
        ({"token_file": "/nowhere/token"}, {}, "token file '/nowhere/token': No such file"),
        ({"token_file": "/"}, {}, "token file '/': Is a directory"),
        ({"token_file": "/dev/zero"}, {}, "token file '/dev/zero': a token has at most 65536 bytes"),
        ({"token": "canary\x07"}, {}, "one line of visible ASCII characters"),
        ({"token": "canary\ncanary"}, {}, "one line of visible ASCII characters"),
        ({"token": "Bearer canary"}, {}, "without spaces"),
        ({"token": "canary€"}, {}, "ASCII"),
        ({"token": b"other"}, {}, "a token is a str, not bytes"),
        ({"token": "canary"}, {"MILLRACE_INSECURE_PLAIN_HTTP": "perhaps"}, "MILLRACE_INSECURE_PLAIN_HTTP 'perhaps': want true or false"),
    ],
)
def test_tokens_that_cannot_be(given: dict[str, object], env: dict[str, str], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(millrace.InvalidArgument, match=re.escape(text)) as e:
        millrace.Client("https://gw", **harness.grouped(**given))  # type: ignore[arg-type]
    assert "canary" not in str(e.value) + variables(e.value)


def test_tokens_stay_off_plain_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    for url, safe in {
        "https://gw": True, "http://localhost:80": True, "http://127.1.2.3": True, "http://[::1]:8080": True, "localhost:8080": True,
        "http://[::ffff:127.0.0.1]": True, "http://gw": False, "gw:8080": False, "dns:gw:80": False, "http://10.0.0.1": False,
        "http://localhost.example": False,
    }.items():
        gateways = ["https://other", url]
        millrace.Client(gateways)
        millrace.Client(gateways, token="canary", tls=TLS(insecure_plain_http=True))
        if safe:
            millrace.Client(gateways, token="canary")
            continue
        with pytest.raises(millrace.InvalidArgument, match=r"without TLS; .*MILLRACE_INSECURE_PLAIN_HTTP=true"):
            millrace.Client(gateways, token="canary")
        with monkeypatch.context() as m:
            m.setenv("MILLRACE_INSECURE_PLAIN_HTTP", "true")
            packed = pickle.dumps(millrace.Client(gateways, token="canary"))
        with pytest.raises(millrace.InvalidArgument, match="without TLS"):
            pickle.loads(packed).datasets()  # other processes do not allow it


def test_addresses_hold_no_secrets() -> None:
    token = "mr_canary" + "x" * 37
    for url in (
        "http://u:canary@x", "https://canary@x:80/p", "u:canary@x:80", f"http://x/{token}", f"https://{token}:80", "http://x?token=canary",
        "http://x#canary", f"http://x?{token}", "ftp://u:canary@x", "http://u:can/ary@x", "http://u:canary@x:y", "dns:u:canary@x:80",
    ):
        with pytest.raises(millrace.InvalidArgument) as e:
            millrace.Client(url)
        assert "canary" not in str(e.value), url
        assert "ary@" not in str(e.value), url


def test_redirects_are_not_followed(guarded: Serve, authority: harness.Authority) -> None:
    thief = guarded(lambda *a: a[2])
    for there in (thief.url, thief.url.replace("127.0.0.1", "localhost")):
        proxy = guarded(lambda *_, to=there: problem(307, "", b"Location: %s/v1/datasets\r\n" % to.encode()))  # type: ignore[misc]
        with millrace.Client(proxy.url, token=CANARY, tls=TLS(ca_file=authority.file)) as client, pytest.raises(millrace.errors.ProtocolError) as e:
            client.datasets()
        assert e.value.status == 307
    assert not thief.heads


def test_gateways_must_prove_their_names(
    guarded: Serve, authority: harness.Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proxy = guarded(Guard(CANARY))
    named = proxy.url.replace("127.0.0.1", "localhost")
    for url, ca in ((proxy.url, None), (named, authority.file)):
        begun = time.monotonic()
        refused = pytest.raises(errors.ProtocolError, match=r"certificate.*SSL_CERT_FILE")
        with millrace.Client(url, token=CANARY, tls=TLS(ca_file=ca)) as client, refused:
            client.datasets()
        assert time.monotonic() - begun < client.core.settings.routing.first_answer / 2  # waiting would not help
    assert not proxy.heads
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with millrace.Client(proxy.url, token=CANARY) as client:
        assert client.datasets()
    empty = put(tmp_path / "empty.pem", "")
    for given, text in (({"ca_file": "/nowhere.pem"}, "ca_file '/nowhere.pem': "), ({"client_cert": empty}, f"client_cert '{empty}': ")):
        with pytest.raises(millrace.InvalidArgument, match=text):
            millrace.Client(proxy.url, **harness.grouped(**given))  # type: ignore[arg-type]


def test_client_certificates(gateway: harness.Gateway, authority: harness.Authority) -> None:
    wanting = authority.server("IP:127.0.0.1")
    wanting.verify_mode = ssl.CERT_REQUIRED
    cert, key = authority.certify("trainer", "DNS:trainer")
    both = cert.with_name("both.pem")
    both.write_text(cert.read_text() + key.read_text())
    proxy = harness.Proxy(gateway.port, lambda *a: a[2], tls=wanting)
    with harness.closing(proxy):
        for given in ({"client_cert": cert, "client_key": key}, {"client_cert": both}):
            with millrace.Client(proxy.url, **harness.grouped(ca_file=authority.file, **given)) as client:
                assert len(client.epoch(0).batch(0)) == 32
        with millrace.Client(proxy.url, deadline=0.5, tls=TLS(ca_file=authority.file)) as client, pytest.raises(millrace.GatewayUnavailable):
            client.datasets()


def _tunnels(s: socket.socket, heads: list[bytes], opened: threading.Event) -> None:
    """A proxy that refuses tunnels until it is opened."""
    with contextlib.suppress(OSError):
        while True:
            conn, _ = s.accept()
            heads.append(conn.recv(1000))
            host, port = heads[-1].split()[1].decode().rsplit(":", 1)
            if not opened.is_set():
                conn.sendall(b"HTTP/1.1 407 Who\x07 are you\r\nContent-Length: 0\r\n\r\n")
                conn.close()
                continue
            up = socket.create_connection((host.replace("192.0.2.0", "127.0.0.1"), int(port)))
            conn.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            for a, b in ((conn, up), (up, conn)):
                threading.Thread(target=_pump, args=(a, b), daemon=True).start()


def _pump(a: socket.socket, b: socket.socket) -> None:
    with contextlib.suppress(OSError), a:
        while piece := a.recv(1 << 16):
            b.sendall(piece)
        b.shutdown(socket.SHUT_WR)


def test_tls_beyond_a_proxy(gateway: harness.Gateway, authority: harness.Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = harness.Proxy(gateway.port, Guard(CANARY), tls=authority.server("IP:192.0.2.0"))
    heads: list[bytes] = []
    opened = threading.Event()
    with harness.closing(proxy), socket.create_server(("127.0.0.1", 0)) as s:
        t = threading.Thread(target=_tunnels, args=(s, heads, opened))
        t.start()
        monkeypatch.setenv("https_proxy", f"http://me:p%40ss@127.0.0.1:{s.getsockname()[1]}")
        with millrace.Client(f"https://192.0.2.0:{proxy.port}", "photos", token=CANARY, tls=TLS(ca_file=authority.file)) as client:
            client.core.settings.__dict__["deadline"] = 0.5
            with pytest.raises(millrace.GatewayUnavailable, match=r"the tunnel was refused: 407 Who  are you \(through .*no_proxy"):
                client.datasets()
            client.core.settings.__dict__["deadline"] = 60.0
            opened.set()
            assert len(client.epoch(0).batch(0)) == 32
        s.shutdown(socket.SHUT_RDWR)
        t.join(60)
    place = f"192.0.2.0:{proxy.port}"
    assert heads[0] == f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n".encode()
    assert not any(CANARY.encode() in head for head in heads)


def test_tls_sessions_are_resumed(guarded: Serve, authority: harness.Authority) -> None:
    proxy = guarded(lambda *a: a[2])
    with millrace.Client(proxy.url, tls=TLS(ca_file=authority.file)) as client:
        client.datasets()
        for kept in client.core.here().wire._idle.values():
            kept.clear()
        client.datasets()
    assert proxy.resumed == [False, True]


@pytest.mark.parametrize(
    ("status", "code", "kind", "cure"),
    [
        (401, "unauthenticated", millrace.errors.Unauthenticated, "MILLRACE_TOKEN_FILE"),
        (403, "forbidden", millrace.errors.Denied, "access file"),
        (404, "not_found", millrace.NotFound, "datasets"),
        (421, "misdirected_request", millrace.errors.Misdirected, "--host"),
    ],
)
def test_refusals_have_classes_and_cures(
    through: Callable[[Fault], harness.Proxy], status: int, code: str, kind: type[millrace.MillraceError], cure: str
) -> None:
    for said in (code, ""):
        proxy = through(lambda *_, c=said: problem(status, c))  # type: ignore[misc]
        with millrace.Client(proxy.url) as client, pytest.raises(kind, match=cure) as e:
            client.datasets()
        assert (type(e.value), e.value.code, e.value.status) == (kind, code, status)
        assert len(proxy.heads) == 1


def test_too_many_requests_wait(through: Callable[[Fault], harness.Proxy]) -> None:
    begun: list[float] = []

    def limited(number: int, _: bytes, answer: bytes) -> Optional[bytes]:
        begun.append(time.monotonic())
        return problem(429, "too_many_requests", b"Retry-After: 1\r\n", retryable=True) if number == 0 else answer

    proxy = through(limited)
    with millrace.Client(proxy.url) as client:
        assert client.datasets()
    assert begun[1] - begun[0] >= 1
    always = through(lambda *_: problem(429, "too_many_requests", b"Retry-After: 9\r\n", retryable=True))
    with millrace.Client(always.url, deadline=1) as client, pytest.raises(millrace.errors.TooManyRequests, match="raise the limit"):
        client.datasets()


def test_tokens_of_functions(guarded: Serve, authority: harness.Authority) -> None:
    calls: list[int] = []

    def token() -> str:
        calls.append(1)
        return f"canary-{len(calls)}"

    guard = Guard("canary-1")
    with millrace.Client(guarded(guard).url, token=token, tls=TLS(ca_file=authority.file)) as client:
        assert not calls
        epoch = client.epoch(0)
        epoch.batch(0)
        guard.valid = {"canary-2"}
        epoch.batch(1)
    assert len(calls) == 2
