"""Real gateways, and a proxy with real sockets that simulates the faults of networks."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import platform
import random
import re
import shutil
import socket
import ssl
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Optional, Union

import millrace
from millrace._parameters import GROUPS

ROOT = Path(__file__).resolve().parents[3]
LONG = os.environ.get("MILLRACE_LONG") == "1"
PLATFORM = f"{sys.platform}/{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }"  # in Go's notation
START = 30.0  # seconds that a gateway may take to start on a loaded machine


class Job:
    """An epoch that a client reads, recorded in a history for integration/history: the file TEST_HISTORY.

    Without that file it does nothing.
    """

    _numbers = itertools.count()

    def __init__(self) -> None:
        self._name = f"python {os.getpid()}-{next(self._numbers)}"

    def took(self, batch: millrace.Batch) -> None:
        """Records a batch that the client takes."""
        self._add(
            url=batch.location, outcome="whole", etag=batch.etag, generation=batch.generation, samples=list(batch.keys),
            length=batch.nbytes, sha256=hashlib.sha256(batch.data).hexdigest(),
        )  # fmt: skip

    def completed(self, samples: int) -> None:
        """Records that the epoch is complete, with the given number of samples."""
        self._add(url="", outcome="completed", total=samples)

    def _add(self, **event: Any) -> None:
        if path := os.environ.get("TEST_HISTORY"):
            line = json.dumps({"client": self._name, "job": self._name, "end": datetime.now(timezone.utc).isoformat(), **event})
            with Path(path).open("a") as f:
                f.write(line + "\n")


def free_port() -> int:
    """A port for a server that another process starts. The system does not use this port for connections, which could take it meanwhile."""
    for port in random.sample(range(20_000, 32_000), 1000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


def binary() -> str:
    """The program under test: TEST_MILLRACE, or the output of `make build`."""
    path = os.environ.get("TEST_MILLRACE") or built()
    assert shutil.which(path), f"{path}: no such program; run make build"
    return path


@functools.cache
def built() -> str:
    """The output of `make build`, which must be as new as its sources."""
    program = ROOT / "bin" / "millrace"
    rooms = "chunkindex", "client/ledger", "cluster", "cmd", "datapath", "gateway", "internal", "s3backend", "shuffle"
    files = [*(p for room in rooms for p in (ROOT / room).rglob("*.*")), *ROOT.glob("client/*.go")]
    sources = [p for p in files if not p.name.endswith("_test.go") and "testdata" not in p.parts]
    newest = max(sources, key=lambda p: p.stat().st_mtime)
    assert not program.exists() or program.stat().st_mtime >= newest.stat().st_mtime, f"{program} is older than {newest}; run make build"
    return str(program)


def without(*packages: str) -> dict[str, str]:
    """The environment of a Python without the given packages."""
    path = [str(Path(__file__).parent / "hidden"), *sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), "HIDDEN": ",".join(packages)}


def run(*args: str) -> str:
    """Runs the program with these arguments and returns its output."""
    done = subprocess.run([binary(), *args], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(at: Path, word: str, count: int) -> Path:
    """Writes and indexes a dataset of JSON Lines in a new directory: a number under this word in each sample."""
    at.mkdir()
    (at / "a.jsonl").write_text("".join(f'{{"{word}": {i}}}\n' for i in range(count)))
    run("index", str(at), "--batch-size", "16")
    return at


def run_example(name: str, *args: str, cwd: Path, ranks: int = 1) -> str:
    """Runs the ranks of a script of examples/, with torchrun's environment if there are several, and returns the output of the first rank.
    """
    command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / name), *args]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "client" / "python"), *sys.path]), "OMP_NUM_THREADS": "1"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo", "WORLD_SIZE": str(ranks)}
    processes = [
        subprocess.Popen(command, env={**env, "RANK": str(r)}, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for r in range(ranks)
    ]
    try:
        ends = [p.communicate(timeout=300) for p in processes]
    finally:
        for p in processes:
            p.kill()
    assert [p.returncode for p in processes] == [0] * ranks, "\n".join(stderr for _, stderr in ends)
    return ends[0][0]


def pip_install(environment: Path, *what: str) -> None:
    """Installs packages into an environment, given by its program directory, without a package index."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"  # Debian's pip does not belong to a venv
    pip = [str(base), "-m", "pip", "--disable-pip-version-check", "--isolated", "--python", str(environment / "python")]
    hatchling = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}  # pip would otherwise download it for the build
    done = subprocess.run(
        [*pip, "install", "-q", "--no-index", *what], capture_output=True, text=True, timeout=120, env=hatchling, check=False
    )
    assert done.returncode == 0, done.stderr


def build_wheels(out: Path) -> Path:
    """Builds this platform's wheel, the wheel without the program and the sdist into a folder."""
    command = [sys.executable, str(ROOT / "tools" / "wheels.py"), "--out", str(out), PLATFORM, "sdist", "pure"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return out


def wheel_with_program(dist: Path) -> Path:
    """The wheel with the program in a folder of `build_wheels`."""
    return next(p for p in dist.glob("*.whl") if not p.name.endswith("-none-any.whl"))


class Gateway:
    """One `millrace serve`."""

    def __init__(self, *datasets: str, port: int = 0, args: tuple[str, ...] = (), unix: str = "") -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        settings = dict(a.split("=", 1) for a in args if a.startswith("MILLRACE_"))  # settings without a flag
        flags = [a for a in args if not a.startswith("MILLRACE_")]
        self.args = [binary(), "serve", "--lame-duck", "0s", "--log-format", "json", *flags]
        if not {"--access", "--allow"} & {*args}:
            self.args += ["--allow", "read,report,warm"]
        for d in datasets:
            self.args += ["--dataset", d]
        self.process = subprocess.Popen(
            [*self.args, "--listen", unix or f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=self._log, env={**os.environ, **settings}
        )
        self.port = self._listening()
        self.url = unix or f"http://127.0.0.1:{self.port}"

    def _listening(self) -> int:
        end = time.monotonic() + START
        while time.monotonic() < end:
            found = re.search(r'"listen":"(?:127\.0\.0\.1:(\d+)|/)', self.log())
            if found:
                return int(found[1] or 0)
            assert self.process.poll() is None, self.log()
            time.sleep(0.01)
        raise AssertionError(f"the gateway did not come up: {self.log()}")

    def log(self) -> str:
        """Returns the gateway's log."""
        return os.pread(self._log.fileno(), 1 << 24, 0).decode()

    def requests(self, route: str, least: int = 0) -> list[dict[str, object]]:
        """The logged requests of a route.

        A line is logged after the response, so this waits until there are at least as many as the caller expects.
        """
        end = time.monotonic() + START
        while True:
            whole = (line for line in self.log().splitlines(keepends=True) if line.startswith("{") and line.endswith("\n"))
            lines = [json.loads(line) for line in whole]
            found = [line for line in lines if line.get("message") == "request" and route in str(line.get("route"))]
            if len(found) >= least or time.monotonic() > end:
                return found
            time.sleep(0.01)

    def get(self, path: str) -> bytes:
        """Reads a resource with an independent client."""
        if self.url.startswith("unix:"):
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(self.url[5:])
                s.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
                with s.makefile("rb") as whole:
                    return whole.read().partition(b"\r\n\r\n")[2]
        with urllib.request.urlopen(self.url + path) as r:
            data: bytes = r.read()
        return data

    def count(self, metric: str) -> int:
        """The sum of a metric over its labels."""
        lines = self.get("/metrics").decode().splitlines()
        return round(sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{metric}[ {{]", line)))

    def kill(self) -> None:
        """Kills the gateway."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Stops the gateway and deletes its log."""
        self.kill()
        self._log.close()


Fault = Callable[[int, bytes, bytes], Optional[bytes]]


def is_batch(head: bytes) -> bool:
    """Reports whether the head of a request requests a batch."""
    return b"/batches/" in head.split(b"\r\n", 1)[0]


class Proxy:
    """Forwards connections to a gateway, one request at a time, and lets a fault change each response.

    fault receives the number of the request, its head, and the whole response, and returns the bytes to send. If these are fewer than the
    response, the proxy then closes the connection. None: the proxy sends nothing, and keeps the connection open until it is closed itself.
    """

    def __init__(self, target: int, fault: Fault, tls: Union[bool, ssl.SSLContext] = False) -> None:
        self._target, self._fault = target, fault
        self._context = tls_context(ssl.PROTOCOL_TLS_SERVER) if tls is True else tls or None
        self.heads: list[bytes] = []
        self.resumed: list[bool] = []  # for each request, whether its TLS session was resumed
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(conn)
                t = threading.Thread(target=self._serve, args=(conn,), daemon=True)
                self._threads.append(t)
            t.start()

    def _serve(self, conn: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as ended:
            ended.enter_context(conn)
            if self._context is not None:
                conn = ended.enter_context(self._context.wrap_socket(conn, server_side=True))
                with self._lock:
                    self._open.add(conn)
            while True:
                head = _until(conn, b"\r\n\r\n")
                if not head:
                    return
                if isinstance(conn, ssl.SSLSocket):
                    self.resumed.append(bool(conn.session_reused))
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = _exactly(conn, int(length[1])) if length else b""
                with self._lock:
                    number = len(self.heads)
                    self.heads.append(head)
                answer = self._ask(head + body)
                sent = self._fault(number, head, answer)
                if sent is None:
                    self._ended.wait()
                    return
                conn.sendall(sent)
                if sent != answer:
                    return

    def _ask(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.target_of(request))) as up:
            up.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            out = b""
            while piece := up.recv(1 << 20):
                out += piece
        return re.sub(rb"(?i)connection: close\r\n", b"", out, count=1)

    def target_of(self, _request: bytes) -> int:
        """The port of the gateway that serves a request."""
        return self._target

    def asked(self, what: bytes) -> list[bytes]:
        """The heads of the requests that contain the given bytes."""
        return [h for h in self.heads if what in h]

    def close(self) -> None:
        """Closes all connections and waits for the threads."""
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for c in self._open:
                with contextlib.suppress(OSError):
                    c.shutdown(socket.SHUT_RDWR)
        for t in self._threads:
            t.join()


class Moving(Proxy):
    """A gateway that checks for new generations by itself, simulated by two that do not. move() makes the newer generation current.

    A request that names a generation goes to the gateway that has it, as if that generation were opened on demand.
    """

    def __init__(self, older: Gateway, newer: Gateway) -> None:
        self._ports = {json.loads(g.get("/v1/datasets/photos"))["generation"].encode(): g.port for g in (older, newer)}
        self.older, self.newer = (generation.decode() for generation in self._ports)
        self.move_after_description = False
        super().__init__(older.port, self._describe)

    def _describe(self, _number: int, head: bytes, answer: bytes) -> bytes:
        if self.move_after_description and b"/datasets/photos HTTP" in head:
            self.move()
        return follow(answer)

    def move(self, generation: str = "") -> None:
        """Makes the given generation current, by default the newer one."""
        self._target = self._ports[(generation or self.newer).encode()]

    def target_of(self, request: bytes) -> int:
        """The port of the gateway that has the requested generation, or the current one."""
        line = request.split(b"\r\n", 1)[0]
        return next((port for generation, port in self._ports.items() if generation[:32] in line), self._target)


def follow(answer: bytes) -> bytes:
    """Changes a gateway's description so that it reports checks for new generations. The length stays the same."""
    return re.sub(rb'"follows":( ?)false', rb'"follows":\1 true', answer)


def gateways_at(place: Path) -> list[int]:
    """The processes that serve the datasets of a directory."""
    return running(" serve ", f"--datasets {place}/")


def running(*words: str) -> list[int]:
    """The processes whose command lines contain all of these words. A space follows each argument."""
    return [pid for pid, arguments in _processes() if all(word in arguments for word in words)]


def _processes() -> Iterator[tuple[int, str]]:
    """Number and command line of each process. A zombie process has no command line."""
    if not Path("/proc/self/cmdline").exists():  # macOS, where ps is part of the system
        for line in subprocess.run(["ps", "-axo", "pid=,command="], capture_output=True, text=True, check=True).stdout.splitlines():
            pid, _, arguments = line.strip().partition(" ")
            yield int(pid), arguments
        return
    for at in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has exited meanwhile
            yield int(at.name), (at / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def tls_context(side: int) -> ssl.SSLContext:
    """TLS without certificate checks, for tests of connections."""
    context = ssl.SSLContext(side)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH-AES128-SHA:@SECLEVEL=0")
    return context


class Authority:
    """A certificate authority, created with openssl."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.file, self._key = directory / "ca.pem", directory / "ca.key"
        usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]  # required by CPython 3.13 and later
        self._openssl("req", "-x509", "-subj", "/CN=millrace test", *usage, "-out", str(self.file), "-keyout", str(self._key), *_NEW_KEY)

    def certify(self, name: str, *names: str) -> tuple[Path, Path]:
        """Creates a certificate, with its key, for names such as IP:127.0.0.1 or DNS:gw."""
        cert, key = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        said = ["-addext", f"subjectAltName={','.join(names)}", "-addext", "basicConstraints=critical,CA:FALSE"]
        issued = ["-CA", str(self.file), "-CAkey", str(self._key), "-subj", f"/CN={name}", *said]
        self._openssl("req", "-x509", *issued, "-out", str(cert), "-keyout", str(key), *_NEW_KEY)
        return cert, key

    def server(self, *names: str) -> ssl.SSLContext:
        """Returns the TLS context of a server with these names."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.file))
        context.load_cert_chain(*self.certify("server", *names))
        return context

    def _openssl(self, *args: str) -> None:
        subprocess.run(["openssl", *args], check=True, capture_output=True, timeout=60)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


def _until(conn: socket.socket, mark: bytes) -> bytes:
    out = b""
    while mark not in out:
        piece = conn.recv(1)
        if not piece:
            return b""
        out += piece
    return out


def _exactly(conn: socket.socket, n: int) -> bytes:
    out = b""
    while len(out) < n:
        piece = conn.recv(n - len(out))
        if not piece:
            raise OSError("the request ends early")
        out += piece
    return out


@contextlib.contextmanager
def closing(*things: Gateway | Proxy) -> Iterator[None]:
    """Closes gateways and proxies at the end."""
    try:
        yield
    finally:
        for t in things:
            t.close()


_before: set[threading.Thread] = set()


def begin() -> None:
    """Records the running threads. Threads of clients that earlier tests left open end by themselves."""
    _before.clear()
    _before.update(threading.enumerate())


def ours() -> list[str]:
    """The live threads of clients that did not exist when the test began."""
    return [t.name for t in threading.enumerate() if t.name.startswith("millrace-") and t not in _before]


def grouped(**parameters: Any) -> dict[str, Any]:
    """Groups the parameters of an epoch or a client into the dataclasses that the functions accept."""
    out = dict(parameters)
    for name, kind in GROUPS.items():
        if chosen := {f.name: out.pop(f.name) for f in fields(kind) if f.name in out}:
            out[name] = kind(**chosen)
    return out
