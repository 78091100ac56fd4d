"""What the readers stand on: MinIO, the wire before it, a gateway; and a watch over processes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"AWS_ACCESS_KEY_ID": "peers", "AWS_SECRET_ACCESS_KEY": "peers-secret", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
BUCKET = "peers"
# As bench/shaped.go has it: 20 ms to the first byte, 80 MB/s a stream, 500 MB/s in all.
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
                raise SystemExit(f"{child.args} does not answer at {url}: {e}") from e
            time.sleep(0.02)


class Store:
    """MinIO in a directory, and a wire before it that counts."""

    def __init__(self, minio: str, wire: str, directory: Path) -> None:
        import boto3

        port = free_port()
        env = {**os.environ, "MINIO_ROOT_USER": KEYS["AWS_ACCESS_KEY_ID"], "MINIO_ROOT_PASSWORD": KEYS["AWS_SECRET_ACCESS_KEY"]}
        self.backend = f"127.0.0.1:{port}"
        self.wire = wire
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.minio = subprocess.Popen([minio, "server", "--quiet", "--address", self.backend, str(directory)], env=env, **quiet)
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
        """Puts a wire before the store."""
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
    """A fresh gateway of some sets, with an empty cache."""

    def __init__(self, program: str, endpoint: str, names: list[str], directory: Path, cache: str) -> None:
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        sets = [a for name in names for a in ("--dataset", f"{name}=s3://{BUCKET}/{name}")]
        disk = ["--disk-cache", str(directory), "--disk-cache-size", "4GiB"]
        env = {**os.environ, **KEYS, "AWS_ENDPOINT_URL_S3": endpoint}
        self.child = subprocess.Popen(
            [program, "serve", "--listen", address, "--cache-size", cache, *disk, *sets],
            env=env, stdout=subprocess.DEVNULL, stderr=(directory.parent / "gateway.log").open("wb"),
        )
        try:
            until_up(self.url + "/readyz", self.child)
        except SystemExit as e:
            raise SystemExit(f"{e}\n{(directory.parent / 'gateway.log').read_text()}") from e

    def close(self) -> None:
        self.child.kill()
        self.child.wait()


def tree(root: int) -> list[int]:
    """A process and all below it."""
    below: dict[int, list[int]] = {}
    for p in Path("/proc").iterdir():
        if p.name.isdigit():
            try:
                parent = int((p / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue  # it has ended
            below.setdefault(parent, []).append(int(p.name))
    found = [root]
    for pid in found:
        found += below.get(pid, [])
    return found


class Watch:
    """Follows memory and processor time of some processes and all that they start."""

    def __init__(self, *roots: int) -> None:
        self.roots, self.peak, self.cpu = roots, 0, dict[int, float]()
        self._before = {pid: _cpu(pid) for r in roots for pid in tree(r)}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(0.05):
            self.look()

    def look(self) -> None:
        pids = [pid for r in self.roots for pid in tree(r)]
        self.peak = max(self.peak, sum(_memory(pid) for pid in pids))
        for pid in pids:
            self.cpu[pid] = max(self.cpu.get(pid, 0), _cpu(pid) - self._before.get(pid, 0))

    def close(self) -> tuple[int, float]:
        """Returns the most bytes of memory held together, shared pages once, and the seconds of processor time."""
        self.look()
        self._end.set()
        self._thread.join()
        return self.peak, sum(self.cpu.values())


def _memory(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass  # it has ended
    return 0


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0  # it has ended
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def empty(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def run(python: list[str], job: dict[str, Any], library: str, gateway: Gateway | None, at_once: bool = False) -> Any:
    """Reads with a library in a process of its own, and watches it."""
    env = {**os.environ, **KEYS, "S3_ENDPOINT_URL": job["endpoint"], "PYTHONPATH": str(ROOT / "client" / "python")}
    script = str(Path(__file__).with_name("read.py"))
    child = subprocess.Popen([*python, script, library, json.dumps(job)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watch = Watch(child.pid, *([gateway.child.pid] if gateway else []))

    def finish() -> dict[str, Any]:
        try:
            out, err = child.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            for pid in tree(child.pid):
                os.kill(pid, 9)
            out, err = child.communicate()
        memory, cpu = watch.close()
        lines = [x for x in out.decode().splitlines() if x.startswith("RESULT ")]
        tail = err.decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        saw = json.loads(lines[0][7:]) if lines else {"epochs": [], "state": None, "error": f"ended with {child.returncode}: {tail[0][:200]}"}
        return {**saw, "memory": memory, "cpu": cpu, "code": child.returncode}

    return finish if at_once else finish()
