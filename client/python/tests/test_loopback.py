"""Datasets opened without a server where Unix sockets are impossible: a loopback port, and a token that only this user can read."""

from __future__ import annotations

import http.client
import os
import pickle
import re
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import harness
import pytest
from test_local import WHOLE, another, folder, read

import millrace
from millrace import Order, Reading, _local, importance

READ = """
import os, sys, millrace, millrace._local
millrace._local.LINGER, millrace._local.SHARED = "1s", os.environ["TMPDIR"]
with millrace.open(sys.argv[1]) as c:
    n = sum(len(b) for b in c.epoch(0, global_batch_size=16))
    print(n, c.core.settings.local.directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder of small files without an index."""
    return folder(tmp_path / "texts")


@pytest.fixture
def deep(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory for gateways, whose path is too long for a socket."""
    place = runtime / ("deep" * 12) / ("deeper" * 8)
    place.mkdir(parents=True)
    for name in ("XDG_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.setenv(name, str(place))
    monkeypatch.setattr(_local, "SHARED", str(place))
    return place


def directory_of(c: millrace.Client) -> Path:
    local = c.core.settings.local
    assert local is not None
    assert local.loopback
    return Path(local.directory)


def status(at: Path, target: str, token: str = "") -> int:
    """Returns the status of a gateway's response to a client with or without a token."""
    c = http.client.HTTPConnection((at / "port").read_text().strip(), timeout=30)
    c.request("GET", target, headers={"Authorization": f"Bearer {token}"} if token else {})
    found = c.getresponse().status
    c.close()
    return found


def taking(port: int, handler: type[BaseHTTPRequestHandler]) -> HTTPServer:
    """A server on a port that a killed process is about to free."""
    end = time.monotonic() + 30
    while True:
        try:
            return HTTPServer(("127.0.0.1", port), handler)
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_every_path_is_too_long(texts: Path, deep: Path) -> None:
    """Processes share one gateway, whose token no other user can read. It refuses every request without the token."""
    with millrace.open(texts) as c:
        at = directory_of(c)
        assert sorted(read(c)) == WHOLE
        assert at.stat().st_mode & 0o777 == 0o700
        for name in ("token", "access.yaml", "port"):
            assert (at / name).stat().st_mode & 0o777 == 0o600
        token = (at / "token").read_text()
        assert re.fullmatch(r"mr_[A-Za-z0-9_-]{43}", token)
        for target in ("/v1/datasets", f"/v1/datasets/{c.dataset}/epochs/0/batches/0", "/v1/stats", "/metrics"):
            assert status(at, target) == 401
            assert status(at, target, f"{token[:-4]}AAAA") == 401
            assert status(at, target, token) == 200
        (pid,) = harness.gateways_at(deep)
        arguments = dict(harness._processes())[pid]
        assert token not in arguments
        assert token not in (at / "log").read_text()
        with another(texts, READ) as p:
            assert p.stdout
            assert p.stdout.readline() == f"200 {at}\n"
            assert harness.gateways_at(deep) == [pid]
            p.communicate("")


@pytest.mark.parametrize("place", ["runtime", "deep"])
def test_the_user_reports_losses_and_draws_by_them(texts: Path, place: str, request: pytest.FixtureRequest) -> None:
    """Uses both a socket and a port."""
    request.getfixturevalue(place)
    with millrace.open(texts) as c:
        batch = c.epoch(0, global_batch_size=50, shuffle=True).batch(0)
        importance.report(c, batch, range(50))
        snapshot = importance.freeze(c, batch)
        assert len(c.epoch(1, global_batch_size=50, order=Order(importance=snapshot))) == 4
        c.json("POST", f"/v1/datasets/{c.dataset}/warm", {"epoch": "0"})


def test_sockets_cannot_be_bound(texts: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems do not support sockets."""

    class NoPlace(socket.socket):
        def bind(self, address: object) -> None:
            if self.family == socket.AF_UNIX:
                raise PermissionError(1, "Operation not permitted", address)
            super().bind(address)  # type: ignore[arg-type]

    monkeypatch.setattr(_local.socket, "socket", NoPlace)
    with millrace.open(texts) as c:
        assert directory_of(c).parent == runtime
        assert sorted(read(c)) == WHOLE


@pytest.mark.usefixtures("runtime")
def test_no_place_for_what_is_passing(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may write only in the home directory."""
    for name in ("XDG_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_local, "SHARED", "/nowhere")
    with millrace.open(texts) as c:
        assert directory_of(c).parent == tmp_path / "cache" / "millrace"
        assert sorted(read(c)) == WHOLE
        (pid,) = harness.gateways_at(tmp_path / "cache" / "millrace")
        os.kill(pid, signal.SIGKILL)


def test_a_killed_gateway_has_another_port_and_token(texts: Path, deep: Path) -> None:
    """After a restart all clients find the new port and token: in this process, in a fork, after pickling, and in mid-epoch."""
    with millrace.open(texts, deadline=20) as c:
        whole, packed, at = read(c), pickle.dumps(c), directory_of(c)
        with c.epoch(0, global_batch_size=16, reading=Reading(prefetch_bytes=0)).read() as reader:
            got = [bytes(v).decode() for v in next(reader)["txt"]]
            before = (at / "port").read_text(), (at / "token").read_text()
            (pid,) = harness.gateways_at(deep)
            os.kill(pid, signal.SIGKILL)
            got += [bytes(v).decode() for batch in reader for v in batch["txt"]]
        assert got == whole
        assert (at / "token").read_text() != before[1]
        with pickle.loads(packed) as other:
            assert read(other) == whole
        child = os.fork()
        if child == 0:
            os._exit(0 if read(c) == whole else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(harness.gateways_at(deep)) == 1


def test_the_port_is_another_programs_by_now(texts: Path, deep: Path) -> None:
    """Another program uses the port and does not know the token. The client starts a gateway on another port."""

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with millrace.open(texts, deadline=20) as c:
        whole, at = read(c), directory_of(c)
        port = int((at / "port").read_text().rpartition(":")[2])
        (pid,) = harness.gateways_at(deep)
        os.kill(pid, signal.SIGKILL)
        server = taking(port, Stranger)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert read(c) == whole
            with millrace.open(texts) as d:
                assert read(d) == whole
            assert not (at / "port").read_text().endswith(f":{port}\n")
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
