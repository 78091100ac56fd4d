"""The environment of the readers: MinIO, the proxy in front of it, the gateways that readers start, and measurements of processes."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
KEYS = {"AWS_ACCESS_KEY_ID": "peers", "AWS_SECRET_ACCESS_KEY": "peers-secret", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
BUCKET = "peers"
# Like integration/bench/shaped.go: 20 ms to the first byte, 80 MB/s per stream, 500 MB/s in total.
SHAPED = ["--first-byte", "20ms", "--stream", "80e6", "--total", "500e6"]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def get(url: str, method: str = "GET") -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as r:
        return bytes(r.read())


def until_up(url: str, child: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            get(url)
            return
        except OSError as e:
            if time.monotonic() > end or child.poll() is not None:
                raise SystemExit(f"{child.args!r} does not answer at {url}: {e}") from e
            time.sleep(0.02)


class Store:
    """MinIO in a directory, behind a wire that counts requests."""

    def __init__(self, minio: str, wire: str, directory: Path) -> None:
        import boto3

        port = free_port()
        env = {**os.environ, "MINIO_ROOT_USER": KEYS["AWS_ACCESS_KEY_ID"], "MINIO_ROOT_PASSWORD": KEYS["AWS_SECRET_ACCESS_KEY"]}
        self.backend = f"127.0.0.1:{port}"
        self.wire = wire
        command = [minio, "server", "--quiet", "--address", self.backend, str(directory)]
        self.minio = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_up(f"http://{self.backend}/minio/health/ready", self.minio)
        self.s3 = boto3.client("s3", endpoint_url=f"http://{self.backend}")
        self.s3.create_bucket(Bucket=BUCKET)
        allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/*"}
        self.s3.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
        self.front: subprocess.Popen[bytes] | None = None

    def upload(self, directory: Path, prefix: str) -> None:
        for path in sorted(p for p in directory.rglob("*") if p.is_file()):
            self.s3.upload_file(str(path), BUCKET, f"{prefix}/{path.relative_to(directory)}")

    def stand(self, shape: list[str]) -> None:
        """Starts a wire in front of the store."""
        self.unstand()
        listen, control = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.endpoint, self.control = f"http://{listen}", f"http://{control}"
        self.front = subprocess.Popen([self.wire, "--listen", listen, "--control", control, "--backend", self.backend, *shape])
        until_up(self.control + "/counts", self.front)

    def unstand(self) -> None:
        if self.front is not None:
            self.front.kill()
            self.front.wait()
            self.front = None

    def reset(self) -> None:
        get(self.control + "/reset", "POST")

    def counts(self) -> dict[str, int]:
        return dict(json.loads(get(self.control + "/counts")))

    def cut(self, after: int, answers: int) -> None:
        get(f"{self.control}/cut?after={after}&answers={answers}", "POST")

    def close(self) -> None:
        self.unstand()
        self.minio.kill()
        self.minio.wait()


class Gateway:
    """The gateway that a reader's millrace.open starts, for a separate user with an empty cache.

    It has the library's default cache, a quarter of the machine's memory, and no disk cache.
    """

    def __init__(self, program: str, endpoint: str, directory: Path) -> None:
        self.directory = empty(directory)
        self.env = {"MILLRACE_PROGRAM": program, "XDG_RUNTIME_DIR": str(directory), "XDG_CACHE_HOME": str(directory), "AWS_ENDPOINT_URL_S3": endpoint}

    def processes(self) -> list[int]:
        """The IDs of the gateway's processes, once it has started."""
        mark = f"--datasets\0{self.directory}/".encode()
        return [pid for pid in _running() if mark in _command(pid)]

    def close(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):  # it has exited
                os.kill(pid, signal.SIGKILL)
        while self.processes():  # its memory must be free for the next measurement
            time.sleep(0.01)


def _running() -> list[int]:
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it has exited


def tree(root: int) -> list[int]:
    """A process and all of its descendants."""
    below: dict[int, list[int]] = {}
    for pid in _running():
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it has exited
        below.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found += below.get(pid, [])
    return found


class Watch:
    """Measures memory and processor time of a reader with its child processes, and of its gateway."""

    def __init__(self, reader: int, gateway: Gateway | None) -> None:
        self.reader, self.gateway = reader, gateway
        self.memory = self.of_gateway = 0  # bytes at the largest sum of both, and the gateway's part of it
        self.most_of_reader = self.most_of_gateway = 0  # largest bytes of each
        self._cpu: dict[int, float] = {}  # seconds by process
        self._gateways: set[int] = set()
        self._ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(0.05):
            self.look()

    def look(self) -> None:
        if self.gateway and not self._gateways:
            self._gateways.update(self.gateway.processes())
        readers = tree(self.reader)
        of_gateway = sum(map(_memory, self._gateways))
        of_reader = sum(map(_memory, readers))
        self.most_of_reader, self.most_of_gateway = max(self.most_of_reader, of_reader), max(self.most_of_gateway, of_gateway)
        held = of_gateway + of_reader
        if held > self.memory:
            self.memory, self.of_gateway = held, of_gateway
        for pid in (*readers, *self._gateways):
            self._cpu[pid] = max(self._cpu.get(pid, 0), _cpu(pid))

    def close(self) -> float:
        """Returns the seconds of processor time. The reader has exited, but the gateway has not."""
        self.look()
        self._end.set()
        self._thread.join()
        gateway = sum(self._cpu.pop(pid, 0) for pid in self._gateways)
        # For exited processes the usage is exact; a killed worker's usage is only sampled.
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = now.ru_utime + now.ru_stime - self._ended.ru_utime - self._ended.ru_stime
        return gateway + max(ended, sum(self._cpu.values()))


def _memory(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass  # it has exited
    return 0


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0  # it has exited
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def empty(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def memory_of_torch() -> int:
    """Bytes of memory of a process that has only imported torch."""
    script = "import os; os.environ['OMP_NUM_THREADS'] = '1'; import torch; print(open('/proc/self/smaps_rollup').read())"
    out = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(int(line.split()[1]) << 10 for line in out.splitlines() if line.startswith("Pss:"))


LIMIT = 300.0  # maximum seconds of a reader


class Run:
    """Reads with a library in a separate process, and measures it."""

    def __init__(self, job: dict[str, Any], library: str, gateway: Gateway | None, env: dict[str, str], script: str = "read.py") -> None:
        env = {**env, "S3_ENDPOINT_URL": job["endpoint"], "PYTHONPATH": str(ROOT / "client" / "python"), **(gateway.env if gateway else {})}
        command = [sys.executable, str(Path(__file__).with_name(script)), library, json.dumps(job)]
        self.child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.watch = Watch(self.child.pid, gateway)

    def finish(self) -> dict[str, Any]:
        """Returns the reader's results, and the memory (bytes) and processor time (seconds) of the reader and its gateway.

        Processor time counts from the creation of the reader, because imports of torch do not depend on the library. "memory" is the
        largest memory of both together, in which shared pages count once, and "gateway" the gateway's part. "files" is the page cache for
        the reader's local files. "code" is the exit code; read.FORCED is no failure.
        """
        try:
            out, err = self.child.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.kill()
            out, err = self.child.communicate()
        cpu = self.watch.close()
        lines = [x for x in out.decode().splitlines() if x.startswith("RESULT ")]
        tail = err.decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        if lines:
            saw = json.loads(lines[0][7:])
        else:
            error = f"ended with {self.child.returncode}: {tail[0][:200]}"
            saw = {"epochs": [], "state": None, "files": 0, "error": error}
        before = saw.pop("before", 0.0)
        return {**saw, "memory": self.watch.memory, "gateway": self.watch.of_gateway, "cpu": cpu - before, "code": self.child.returncode}

    def kill(self) -> None:
        """Kills a reader that still runs, with its child processes, and removes the shared memory that they held."""
        if self.child.poll() is not None:
            return
        below = tree(self.child.pid)
        unlink = _shared(below)
        for pid in below:
            with contextlib.suppress(ProcessLookupError):  # it has exited
                os.kill(pid, signal.SIGKILL)
        self.child.wait()
        for path in unlink:
            path.unlink(missing_ok=True)


def _shared(pids: list[int]) -> set[Path]:
    """Finds files of shared memory that processes hold. If all processes are killed together, they cannot remove these."""
    found = set()
    for pid in pids:
        try:
            maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        except OSError:
            continue  # it has exited
        found |= {Path(line.split()[-1]) for line in maps if " /dev/shm/" in line and not line.endswith("(deleted)")}
    return found
