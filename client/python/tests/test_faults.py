"""Faults of networks and machines: gateways that die, hang, refuse or send wrong data.

Errors are typed, and no read hangs or returns a short batch.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from conftest import SAMPLES
from harness import Fault, is_batch

import millrace
from millrace import Reading, Routing
from millrace._http import fleet, wire


def body_of(answer: bytes) -> int:
    """The position where the body of a response begins."""
    return answer.index(b"\r\n\r\n") + 4


def read_all(client: millrace.Client, **options: object) -> list[list[str]]:
    epoch = client.epoch(0, **harness.grouped(keys=True, **options))  # type: ignore[arg-type]
    ledger, job, keys = millrace.Ledger(), harness.Job(), []
    with epoch.read(ledger=ledger) as reader:
        for batch in reader:
            job.took(batch)
            keys.append(list(batch.keys))
    ledger.check()
    job.completed(SAMPLES)
    return keys


def impatient(url: str, deadline: float, **options: float) -> millrace.Epoch:
    """An epoch that reads with short timeouts, but was opened with normal ones."""
    with millrace.Client(url) as client:
        plan = client.epoch(0).plan
    core = millrace.Client(url, deadline=deadline, **options).core  # type: ignore[arg-type]
    return millrace.Epoch(core, plan, threads=1, prefetch_bytes=0)


@pytest.fixture(scope="module")
def right(gateway: harness.Gateway) -> list[list[str]]:
    with millrace.Client(gateway.url) as client:
        return read_all(client)


def test_a_gateway_is_killed_in_mid_epoch(dataset: Path, gateway: harness.Gateway, right: list[list[str]]) -> None:
    first = harness.Gateway(f"photos={dataset}")
    with harness.closing(first), millrace.Client([first.url, gateway.url], "photos", routing=Routing(home=lambda *_: 0)) as client:
        epoch = client.epoch(0, reading=Reading(keys=True, threads=2, prefetch_bytes=1 << 18))
        ledger, job, keys = millrace.Ledger(), harness.Job(), []
        with epoch.read(ledger=ledger) as reader:
            for batch in reader:
                job.took(batch)
                keys.append(list(batch.keys))
                if batch.number == 4:
                    first.kill()
        ledger.check()
        job.completed(SAMPLES)
        assert keys == right


def test_a_gateway_comes_back(dataset: Path, right: list[list[str]]) -> None:
    first = harness.Gateway(f"photos={dataset}")
    with harness.closing(first), millrace.Client(first.url) as client:
        job, keys = harness.Job(), []
        for batch in client.epoch(0, reading=Reading(keys=True, threads=2, prefetch_bytes=1 << 18)):
            job.took(batch)
            keys.append(list(batch.keys))
            if batch.number == 4:
                first.kill()
                second = harness.Gateway(f"photos={dataset}", port=first.port)
        job.completed(SAMPLES)
        with harness.closing(second):
            assert keys == right


def test_no_gateway_is_left(dataset: Path) -> None:
    first = harness.Gateway(f"photos={dataset}")
    epoch = impatient(first.url, 1.5)
    with harness.closing(first), contextlib.closing(epoch.core):
        reader = epoch.read()
        next(reader)
        first.kill()
        with pytest.raises(millrace.GatewayUnavailable, match=r"read epoch 0 batch \d+: given up .* check the address") as e:
            list(reader)
        assert e.value.retryable
        with pytest.raises(millrace.errors.Closed):
            next(reader)
    assert not harness.ours()


READS = """
import millrace, os, sys
from millrace._http import gateways
pause = gateways._Request._pause
def tell(self, seconds):
    os.write(int(sys.argv[3]), b"waits")
    pause(self, seconds)
gateways._Request._pause = tell
plan = millrace.Client(sys.argv[1]).epoch(0, global_batch_size=250).plan
print(len(millrace.Epoch(millrace.Client(sys.argv[1], deadline=float(sys.argv[2])).core, plan).batch(0)))
"""


@pytest.mark.parametrize(("deadline", "busy"), [(3, 0), (5, 1)])
def test_a_job_is_suspended(through: Callable[[Fault], harness.Proxy], deadline: float, busy: int) -> None:
    # The job is suspended while it waits for a response, or before it repeats a request, each time longer than its deadline.
    job: list[subprocess.Popen[str]] = []
    suspended: list[threading.Thread] = []
    told, tells = os.pipe()

    def suspend() -> None:
        if busy:
            os.read(told, 5)  # the job has read that it must wait
        job[0].send_signal(signal.SIGSTOP)
        time.sleep(deadline + 1.5)
        job[0].send_signal(signal.SIGCONT)

    def fault(_: int, head: bytes, answer: bytes) -> bytes:
        if not is_batch(head) or (busy and suspended):
            return answer
        suspended.append(threading.Thread(target=suspend))
        suspended[0].start()
        if busy:
            return b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n"
        suspended[0].join()
        return answer

    command = [sys.executable, "-c", READS, through(fault).url, str(deadline), str(tells)]
    job.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[tells]))
    os.close(tells)
    out, err = job[0].communicate(timeout=60)
    suspended[0].join()
    os.close(told)
    assert out == "250\n", err


@pytest.mark.parametrize("where", [(fleet.Fleet, "order"), (wire.socket, "getaddrinfo")], ids=["order", "dial"])
def test_another_librarys_finalizer_takes_long(gateway: harness.Gateway, monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str]) -> None:
    """Garbage may be collected anywhere. If the workers of a torch loader hang, its finalizer takes 5 s for each."""
    real = getattr(*where)

    def stalled(*args: Any, **kw: Any) -> Any:
        time.sleep(2.5)
        return real(*args, **kw)

    with millrace.Client(gateway.url, deadline=2, routing=Routing(first_answer=2)) as client:
        monkeypatch.setattr(*where, stalled)
        assert client.describe()


def test_bodies_are_cut(through: Callable[[Fault], harness.Proxy], right: list[list[str]]) -> None:
    sent = [0]

    def cut(_: int, head: bytes, answer: bytes) -> bytes:
        if not is_batch(head):
            return answer
        most = 300 << 10  # bytes after which each response breaks
        sent[0] += min(len(answer), most)
        return answer[:most]

    proxy = through(cut)
    with millrace.Client(proxy.url, routing=Routing(check="always")) as client:
        keys = [key for batch in right for key in batch]
        assert read_all(client, global_batch_size=250, threads=2) == [keys[:250], keys[250:]]
    ranges = [int(m[1]) for m in (re.search(rb"Range: bytes=(\d+)-", h) for h in proxy.asked(b"If-Range")) if m]
    assert len(ranges) >= 4
    assert all(r > 0 for r in ranges)
    assert sent[0] < 2 * 1_990_000  # received bytes are not requested again, except for less than a piece per break


def test_bodies_that_never_come_whole(through: Callable[[Fault], harness.Proxy]) -> None:
    proxy = through(lambda _, head, answer: answer[: body_of(answer) + 10] if is_batch(head) else answer)
    epoch = impatient(proxy.url, 1.5)
    with contextlib.closing(epoch.core):
        with pytest.raises(millrace.errors.IntegrityError, match=r"body ends after .* of \d+ bytes") as e:
            list(epoch)
        assert e.value.gateway == proxy.url
    assert not harness.ours()


def test_bytes_are_changed(through: Callable[[Fault], harness.Proxy], right: list[list[str]]) -> None:
    def flip(number: int, head: bytes, answer: bytes) -> bytes:
        return answer[:-1] + bytes([answer[-1] ^ 1]) if is_batch(head) and number % 2 else answer

    with millrace.Client(through(flip).url, routing=Routing(check="always")) as client:
        assert read_all(client, threads=1) == right

    def always(_: int, head: bytes, answer: bytes) -> bytes:
        return answer[:-1] + bytes([answer[-1] ^ 1]) if is_batch(head) else answer

    client = millrace.Client(through(always).url, routing=Routing(check="always"))
    with client, pytest.raises(millrace.errors.IntegrityError, match="CRC-32C"):
        list(client.epoch(0, reading=Reading(threads=1)))
    with millrace.Client(through(always).url, routing=Routing(check="never")) as client:
        assert len(list(client.epoch(0))) == 16


def test_wrong_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    begun = time.monotonic()
    with pytest.raises(millrace.GatewayUnavailable, match=r"refused.*check the address"):
        millrace.Client(f"http://127.0.0.1:{port}", routing=Routing(first_answer=0.5)).epoch(0)
    with pytest.raises(millrace.GatewayUnavailable):
        millrace.Client("http://no-such-host.invalid:80", routing=Routing(first_answer=0.5)).epoch(0)
    with pytest.raises(millrace.GatewayUnavailable):
        millrace.Client("dns:no-such-host.invalid:80", routing=Routing(first_answer=0.5)).epoch(0)
    assert time.monotonic() - begun < millrace.Routing().first_answer
    for wrong in ("", "ftp://x", "http://", "http://x?y=1", "dns:x", "dns:u:p@x:1", "http://x:port", []):
        with pytest.raises(millrace.InvalidArgument):
            millrace.Client(wrong)
    with pytest.raises(millrace.InvalidArgument) as e:
        millrace.Client("dns:user:secret@x:1/")
    assert "secret" not in str(e.value)


PAGE = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: 5\r\n%s\r\nhello"


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (PAGE % (b"200 OK", b""), millrace.errors.ProtocolError, "no JSON"),
        (PAGE % (b"302 Found", b"Location: /login\r\n"), millrace.errors.ProtocolError, "a redirect to '/login', which no gateway sends"),
        (PAGE % (b"401 Unauthorized", b""), millrace.errors.Unauthenticated, "token"),
        (PAGE % (b"404 Not Found", b""), millrace.NotFound, "404 Not Found; check that the address is that of `millrace serve`"),
        (PAGE % (b"502 Bad Gateway", b""), millrace.GatewayUnavailable, "502 Bad Gateway"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", millrace.GatewayUnavailable, "SSH"),
    ],
)
def test_something_else_answers(
    through: Callable[[Fault], harness.Proxy], answer: bytes, kind: type[millrace.MillraceError], text: str
) -> None:
    with millrace.Client(through(lambda *_: answer).url, deadline=3) as client, pytest.raises(kind, match=text):
        client.epoch(0)


def test_answers_of_another_batch(through: Callable[[Fault], harness.Proxy]) -> None:
    for was, becomes, text in [
        (rb"Millrace-Batch: \d+", b"Millrace-Batch: 77", "batch 77"),
        (rb"Millrace-Generation: \w+", b"Millrace-Generation: 00ff", "generation '00ff'"),
        (rb"Millrace-Batches: \d+", b"Millrace-Batches: 99", "of 99 batches"),
        (rb"/v1/datasets/photos/", b"/v1/datasets/others/", "dataset 'others'"),
        (rb"batch_size=\d+", b"batch_size=33", "batch_size '33'"),
        (rb"Millrace-Samples: \d+", b"Millrace-Samples: 31", "contradicts"),
        (rb"Millrace-Samples: \d+", b"Millrace-Samples: -1", "Millrace-Samples"),
        (rb"Content-Length: \d+\r\n", b"", "no Content-Length"),
        (rb"MLRF\x01", b"MLRF\x02", "version 2"),
    ]:
        proxy = through(lambda _, head, answer, w=was, b=becomes: re.sub(w, b, answer) if is_batch(head) else answer)  # type: ignore[misc]
        with millrace.Client(proxy.url, routing=Routing(check="never")) as client, pytest.raises(millrace.errors.ProtocolError, match=text):
            client.epoch(0).batch(3)


def test_waits_as_long_as_it_is_asked_to(through: Callable[[Fault], harness.Proxy], right: list[list[str]]) -> None:
    busy = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
    at: list[float] = []

    def once(_: int, head: bytes, answer: bytes) -> bytes:
        if is_batch(head):
            at.append(time.monotonic())
            if len(at) == 1:
                return busy
        return answer

    with millrace.Client(through(once).url) as client:
        assert read_all(client, threads=1) == right
    assert at[1] - at[0] >= 1


def test_a_gateway_that_has_stopped_is_left(
    gateway: harness.Gateway, through: Callable[[Fault], harness.Proxy], right: list[list[str]]
) -> None:
    stuck = through(lambda _, head, answer: None if is_batch(head) or b"/readyz" in head else answer)
    with millrace.Client([stuck.url, gateway.url], routing=Routing(home=lambda *_: 0, attempt_timeout=30)) as client:
        assert read_all(client, threads=2) == right
    assert stuck.asked(b"/readyz")


def test_a_gateway_that_is_slow_is_waited_for(through: Callable[[Fault], harness.Proxy], gateway: harness.Gateway) -> None:
    slow = [False]

    def wait(_: int, head: bytes, answer: bytes) -> bytes:
        if is_batch(head):
            slow[0] = True
            time.sleep(4)  # like a slow store: longer than a gateway may be silent
        return answer

    proxy = through(wait)
    with millrace.Client([proxy.url, gateway.url], routing=Routing(home=lambda *_: 0)) as client:
        assert len(client.epoch(0).batch(0)) == 32
    assert slow[0]
    assert len(proxy.asked(b"/readyz")) >= 1
    assert len([h for h in proxy.heads if is_batch(h)]) == 1


def test_attempts_end(through: Callable[[Fault], harness.Proxy]) -> None:
    proxy = through(lambda _, head, answer: None if is_batch(head) else answer)
    epoch = impatient(proxy.url, 1, routing=Routing(attempt_timeout=0.4))
    with contextlib.closing(epoch.core), pytest.raises(millrace.errors.DeadlineExceeded, match="too long"):
        epoch.batch(0)


def test_headers(through: Callable[[Fault], harness.Proxy]) -> None:
    proxy = through(lambda *a: a[2])
    with millrace.Client(proxy.url, token="abc", headers={"X-Team": "vision"}) as client:
        client.epoch(0).batch(0)
    assert proxy.heads == proxy.asked(b"Authorization: Bearer abc\r\n") == proxy.asked(b"X-Team: vision\r\n")


def test_closing_ends_what_is_under_way(through: Callable[[Fault], harness.Proxy]) -> None:
    proxy = through(lambda _, head, answer: None if is_batch(head) else answer)
    with millrace.Client(proxy.url) as client:
        reader = client.epoch(0).read()
        raised: list[BaseException] = []

        def take() -> None:
            try:
                next(reader)
            except millrace.MillraceError as e:
                raised.append(e)

        taker = threading.Thread(target=take)
        taker.start()
        while not any(is_batch(h) for h in proxy.heads):
            time.sleep(0.01)
        reader.close()
        taker.join(60)
        assert [type(e) for e in raised] == [millrace.errors.Closed]
        assert not harness.ours()
    with pytest.raises(millrace.errors.Closed):
        client.epoch(0)


def test_a_loop_that_is_left_leaves_no_threads(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        for batch in client.epoch(0):
            if batch.number == 2:
                break
        end = time.monotonic() + 60
        while harness.ours() and time.monotonic() < end:
            time.sleep(0.01)
        assert not harness.ours()


def test_ctrl_c(through: Callable[[Fault], harness.Proxy]) -> None:
    proxy = through(lambda _, head, answer: None if is_batch(head) and b"/batches/3?" in head else answer)
    program = """
import signal, sys, threading, time, millrace
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
client = millrace.Client(sys.argv[1])
try:
    for batch in client.epoch(0):
        print(batch.number, flush=True)
except KeyboardInterrupt:
    client.close()
    while threading.active_count() > 1:  # where it came in the loop's body, the reader's threads end by themselves
        time.sleep(0.01)
    print("stopped", [t.name for t in threading.enumerate()], flush=True)
"""
    env = {**os.environ, "PYTHONPATH": str(Path(millrace.__file__).parent.parent)}
    child = subprocess.Popen([sys.executable, "-c", program, proxy.url], stdout=subprocess.PIPE, text=True, env=env)
    assert child.stdout is not None
    assert [child.stdout.readline() for _ in range(3)] == ["0\n", "1\n", "2\n"]
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert (out, child.returncode) == ("stopped ['MainThread']\n", 0)


def test_another_index_is_another_generation(tmp_path: Path) -> None:
    source, packed, other = tmp_path / "source", tmp_path / "packed", tmp_path / "other"
    source.mkdir()
    for i in range(40):
        (source / f"s{i}.txt").write_text(f"{i}")
    harness.run("pack", str(source), str(packed), "--batch-size", "4")
    old = harness.Gateway(f"d={packed}")
    with harness.closing(old), millrace.Client(old.url) as client:
        epoch = client.epoch(0)
        epoch.batch(0)
        old.kill()
        (source / "s40.txt").write_text("40")
        harness.run("pack", str(source), str(other), "--batch-size", "4")
        new = harness.Gateway(f"d={other}", port=old.port)
        with harness.closing(new), pytest.raises(millrace.NotFound, match="generation"):
            epoch.batch(1)


def test_a_store_that_changes(tmp_path: Path) -> None:
    source, packed = tmp_path / "source", tmp_path / "packed"
    source.mkdir()
    for i in range(40):
        (source / f"s{i}.bin").write_bytes(os.urandom(3000))
    harness.run("pack", str(source), str(packed), "--batch-size", "4")
    shard = next(packed.glob("*.tar"))
    with harness.closing(g := harness.Gateway(f"d={packed}")), millrace.Client(g.url) as client:
        epoch = client.epoch(0)
        shard.write_bytes(shard.read_bytes()[:1000])
        with pytest.raises(millrace.errors.StoreError, match="store_inconsistent") as e:
            epoch.batch(0)
        assert (e.value.status, e.value.retryable) == (502, False)
        assert e.value.request_id in g.log()
