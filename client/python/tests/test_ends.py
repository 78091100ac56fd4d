"""The end of work in progress: by a timeout, by close, by the garbage collector, in a fork, at interpreter exit."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Optional

import harness
import pytest
from harness import Fault, is_batch

import millrace
from millrace import TLS, Routing
from millrace._http import gateways, wire
from millrace._process import is_free

LONG = 60.0  # longer than any operation, even on a stalled machine


def until(what: Callable[[], object]) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + LONG
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def started(what: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Starts a call in its own thread; the list receives its result or its exception."""
    came: list[object] = []

    def do() -> None:
        try:
            came.append(what())
        except Exception as e:
            came.append(e)

    t = threading.Thread(target=do, daemon=True)
    t.start()
    return t, came


@pytest.mark.parametrize("tls", [False, True])
def test_what_comes_in_many_steps(gateway: harness.Gateway, monkeypatch: pytest.MonkeyPatch, tls: bool) -> None:
    monkeypatch.setattr(wire, "TICK", 1e-5)  # a thread that waits for a body checks again and again
    proxy = harness.Proxy(gateway.port, lambda _, __, answer: answer, tls=tls)
    context = harness.tls_context(wire.ssl.PROTOCOL_TLS_CLIENT) if tls else None
    with harness.closing(proxy), millrace.Client(proxy.url, deadline=30, routing=Routing(check="always"), tls=TLS(context=context)) as client:
        assert [len(b) for b in client.epoch(0, global_batch_size=250)] == [250, 250]
        assert sum(is_batch(head) for head in proxy.heads) == 2  # completely, at the first attempt


def test_what_is_taken_in_many_steps() -> None:
    with socket.create_server(("127.0.0.1", 0)) as s:
        client = millrace.Client(f"http://127.0.0.1:{s.getsockname()[1]}")
        t, came = started(lambda: client.json("POST", "/x", body="x" * (16 << 20)))
        conn, _ = s.accept()
        with conn:
            t.join(3 * wire.TICK)  # the socket's buffer is full, and the thread waits
            head, _, body = conn.recv(1 << 16).partition(b"\r\n\r\n")
            got = len(body)
            while got < (16 << 20) + 2:
                got += len(conn.recv(1 << 20))
            conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n[1,\r\n")
            t.join(3 * wire.TICK)
            conn.sendall(b"2\r\n2]\r\n0\r\nX-Behind: the body\r\n\r\n")
            t.join(LONG)
        assert came == [[1, 2]]
        assert b"\r\nContent-Length: 16777218\r\n" in head
        client.close()


def test_a_body_that_trickles_comes_to_its_end() -> None:
    begun = threading.Event()

    def trickle(s: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                conn, _ = s.accept()
                with conn, contextlib.suppress(OSError):
                    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                    while True:
                        conn.sendall(b" ")
                        begun.set()
                        time.sleep(wire.TICK / 5)

    with socket.create_server(("127.0.0.1", 0)) as s:
        t, _ = started(lambda: trickle(s))
        url = f"http://127.0.0.1:{s.getsockname()[1]}"
        client = millrace.Client(url, deadline=1, routing=Routing(attempt_timeout=0.4))
        reading, came = started(client.datasets)
        reading.join(LONG / 4)
        assert [type(e) for e in came] == [millrace.errors.DeadlineExceeded]
        client = millrace.Client(url)
        begun.clear()
        reading, came = started(client.datasets)
        assert begun.wait(LONG)
        client.close()
        reading.join(LONG / 4)
        assert [type(e) for e in came] == [millrace.errors.Closed]
        s.shutdown(socket.SHUT_RDWR)
        t.join(LONG)


def test_asking_for_a_sign_of_life_holds_nothing_up(
    through: Callable[[Fault], harness.Proxy], gateway: harness.Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "QUIET_TIME", 0.1)
    monkeypatch.setattr(gateways, "SIGN_TIME", LONG)
    held = threading.Event()

    def silent(_: int, head: bytes, answer: bytes) -> Optional[bytes]:
        if b" /readyz " in head:
            held.set()  # the client has requested a sign of life, which never comes
        return None if held.is_set() or is_batch(head) else answer

    stuck = through(silent)
    with millrace.Client([stuck.url, gateway.url], routing=Routing(home=lambda *_: 0, attempt_timeout=3)) as client:
        epoch = client.epoch(0)
        t, came = started(lambda: epoch.batch(0).number)
        assert held.wait(LONG)
        t.join(LONG)
        assert came == [0]  # from the other gateway
    held.clear()
    client = millrace.Client([stuck.url, gateway.url], routing=Routing(home=lambda *_: 0))
    epoch = client.epoch(0)
    t, came = started(lambda: epoch.batch(0))
    assert held.wait(LONG)
    client.close()
    t.join(LONG / 2)
    assert [type(e) for e in came] == [millrace.errors.Closed]


def test_closing_while_dialing() -> None:
    with socket.socket() as s, socket.socket() as first, socket.socket() as second:
        s.bind(("127.0.0.1", 0))
        s.listen(0)
        for waiting in (first, second):  # the server does not accept these, because its queue is full
            waiting.setblocking(False)
            waiting.connect_ex(s.getsockname())
        client = millrace.Client(f"http://127.0.0.1:{s.getsockname()[1]}", routing=Routing(first_answer=LONG))
        t, came = started(lambda: client.epoch(0))
        t.join(0.3)
        client.close()
        t.join(wire.DIAL_TIME / 2)
        assert [type(e) for e in came] == [millrace.errors.Closed]


def test_an_address_that_does_not_answer_is_passed_over(gateway: harness.Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as s, socket.socket() as first, socket.socket() as second:
        s.bind(("127.0.0.1", 0))
        s.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(s.getsockname())
        places = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", at) for at in (s.getsockname(), ("127.0.0.1", gateway.port))]
        monkeypatch.setattr(wire.socket, "getaddrinfo", lambda *_, **__: places)
        monkeypatch.setattr(wire, "DIAL_TIME", 0.5)
        with millrace.Client("http://localhost:1") as client:
            begun = time.monotonic()
            assert client.datasets()
            assert time.monotonic() - begun > 0.5


def test_closing_while_waiting_to_ask_again(through: Callable[[Fault], harness.Proxy]) -> None:
    busy = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1000\r\nContent-Length: 0\r\n\r\n"
    proxy = through(lambda *_: busy)
    client = millrace.Client(proxy.url, deadline=1000)
    t, came = started(lambda: client.epoch(0))
    until(lambda: proxy.heads)
    client.close()
    t.join(LONG / 4)
    assert [type(e) for e in came] == [millrace.errors.Closed]


def test_the_collector_finds_a_reader(gateway: harness.Gateway) -> None:
    gc.collect()  # frees objects of other tests
    client = millrace.Client(gateway.url)
    reader = client.epoch(0).read()
    next(reader)
    pool, buffers, here = reader._pool, reader._buffers, client.core.here()
    ring: list[object] = [reader]
    ring.append(ring)
    del reader, ring

    def collect() -> None:
        # The collector may run anywhere, for example in a reader's thread, or in one that is using the connections.
        with pool._lock, here.wire._lock, buffers._lock:
            gc.collect()

    t, _ = started(collect)
    t.join(LONG / 2)
    assert not t.is_alive()
    until(lambda: pool.stats().threads == 0)
    client.close()


def test_a_fault_holds_no_buffer(through: Callable[[Fault], harness.Proxy]) -> None:
    number = [0]

    def cut(_: int, head: bytes, answer: bytes) -> bytes:
        number[0] += is_batch(head)
        return answer[:20_000] if is_batch(head) and number[0] % 2 else answer

    gc.disable()
    try:
        with millrace.Client(through(cut).url) as client:
            with client.epoch(0).read() as reader:
                assert sum(len(b) for b in reader) == 500
            known = reader._buffers._known
            assert [is_free(b) for b in known] == [True] * len(known) != []
    finally:
        gc.enable()


def test_a_fork_at_any_moment(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        epoch = client.epoch(0)
        reader, other = epoch.read(), epoch.read()
        next(reader), next(other)
        here = client.core.here()
        with reader._pool._lock, other._pool._lock, here.wire._lock, reader._buffers._lock, here.fleet.asking:
            child = os.fork()  # other threads may hold these locks
        if child == 0:
            signal.alarm(int(LONG))
            try:
                reader.close()
                del other
                gc.collect()
                assert epoch.batch(1).number == 1
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert [b.number for b in reader] == list(range(1, 16))


def test_no_thread_can_be_started(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url, deadline=3) as client:
        was = threading.stack_size(1 << 46)  # larger than the address space
        try:
            with pytest.raises(RuntimeError, match="start new thread"), client.epoch(0).read() as reader:
                next(reader)
        finally:
            threading.stack_size(was)
        assert client.epoch(0).batch(0).number == 0
        assert [b.number for b in client.epoch(0)] == list(range(16))


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "raise SystemExit(0)", "client.close()", "other = epoch.read(); next(other); del reader"])
def test_the_interpreter_ends(through: Callable[[Fault], harness.Proxy], end: str) -> None:
    proxy = through(lambda _, head, answer: None if b"/batches/3?" in head else answer)
    program = f"""
import sys, millrace
client = millrace.Client(sys.argv[1])
epoch = client.epoch(0)
reader = epoch.read()
for _ in range(3):
    next(reader)
{end}
"""
    env = {**os.environ, "PYTHONPATH": str(Path(millrace.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore", "-c", program, proxy.url], capture_output=True, text=True, timeout=LONG, env=env, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


DROPS = """
import gc, sys, millrace

def read(url):
    client = millrace.Client(url, "photos")
    client.cycle = client
    return len(client.epoch(0).batch(0)), next(iter(client.epoch(0)))

read(sys.argv[1])
gc.collect()
kept = millrace.Client(sys.argv[1], "photos")
epoch = iter(kept.epoch(0))
next(epoch)
print("read")
"""


@pytest.mark.parametrize("transport", ["gateway", "neighbour"])
def test_a_client_that_is_dropped_closes_its_connections(request: pytest.FixtureRequest, transport: str) -> None:
    warns = [sys.executable, "-W", "error::ResourceWarning", "-c", DROPS, request.getfixturevalue(transport).url]
    done = subprocess.run(warns, capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "read\n", "")
