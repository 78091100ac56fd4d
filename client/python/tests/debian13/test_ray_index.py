"""A Ray cluster creates an index in parts. The worker of one part is killed, and then the worker that Ray starts in its place."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import bucket
import harness
import pytest

T = TypeVar("T")

SHARDS, PARTS = 1000, 16
HELD = b"/shard-000500.tar"  # in the middle of part 4


class Store:
    """A bucket with tar shards, behind a proxy that delays all reads of one shard until it is released."""

    def __init__(self, directory: Path) -> None:
        self.minio = bucket.MinIO(directory / "minio")
        self.asked, self.released = threading.Event(), threading.Event()
        self.proxy = harness.Proxy(int(self.minio.variables["AWS_ENDPOINT_URL"].rpartition(":")[2]), self._hold)

    def _hold(self, _number: int, head: bytes, answer: bytes) -> bytes | None:
        if not self.released.is_set() and HELD in head.split(b"\r\n", 1)[0]:
            self.asked.set()
            return None
        return answer

    def close(self) -> None:
        self.proxy.close()
        self.minio.close()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store with 1,000 shards."""
    made = Store(tmp_path)
    try:
        for name, value in made.minio.variables.items():
            monkeypatch.setenv(name, value)
        files = tmp_path / "files"
        files.mkdir()
        for i in range(SHARDS):
            (files / f"{i:06}.txt").write_text(f"{i:06} " * 400)
        harness.run("pack", str(files), "s3://bucket/photos", "--shard-size", "4KiB")
        yield made
    finally:
        made.close()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, store: Store) -> Iterator[str]:
    """Starts three nodes and returns their address. Processes that start later reach the store through its proxy."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.proxy.url)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with tempfile.TemporaryDirectory(prefix="ray-") as short:  # a socket's path must be short
        monkeypatch.setenv("RAY_TMPDIR", short)
        nodes = [sys.executable, str(Path(__file__).with_name("ray_nodes.py"))]
        with subprocess.Popen(nodes, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdin is not None
            assert run.stdout is not None
            try:
                yield next(line.split()[1] for line in run.stdout if line.startswith("address "))
            finally:
                run.stdin.close()
                run.wait(60)


def of_part() -> list[int]:
    """Returns the processes that run the part with the delayed shard."""
    return harness.running(" index s3://bucket/photos ", f" --part 4/{PARTS} ")


def until(condition: Callable[[], T]) -> T:
    """Waits until a condition holds, and returns its value."""
    end = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < end, "it is not so after a minute"
        time.sleep(0.02)
    return value


def files_of(place: Path) -> dict[str, bytes]:
    """Returns the files of a directory, by name."""
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_index_on_ray(store: Store, cluster: str, tmp_path: Path) -> None:
    page = (harness.ROOT / "docs/frameworks.md").read_text()
    [command] = re.findall(r"^    (python3 index.py .*)\n", page, re.M)
    words = shlex.split(command.replace("python3", sys.executable).replace("s3://train/photos", "s3://bucket/photos"))
    assert words[2] == str(PARTS)
    many, one = tmp_path / "many", tmp_path / "one"
    begin = time.monotonic()
    run = subprocess.Popen(
        [*words, "--index-url", str(many)], cwd=harness.ROOT / "deploy/ray", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "RAY_ADDRESS": cluster, "MILLRACE": harness.binary()},
    )
    with run:
        try:
            assert store.asked.wait(120), "nobody has read the shard"
            [first] = of_part()
            worker = int(Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(worker, signal.SIGKILL)
            second = until(lambda: [pid for pid in of_part() if pid != first])
            os.kill(second[0], signal.SIGKILL)
            until(lambda: first not in of_part())  # the part does not continue without its worker
            store.released.set()
            said, _ = run.communicate(timeout=300)
        finally:
            run.kill()
    assert run.returncode == 0, said
    took = time.monotonic() - begin
    done = re.findall(r"^node (\w+): scanned part (\d+) of 16 ", said, re.M)
    assert sorted(int(part) for _, part in done) == list(range(PARTS)), said
    assert len({node for node, _ in done}) == 3, said
    assert "read 0 B, reused 1,000 shards" in said
    assert len(store.proxy.asked(b"GET /bucket/photos" + HELD)) >= 2, "the part was not begun again"
    harness.run("index", "s3://bucket/photos", "--index-url", str(one))
    assert files_of(many) == files_of(one)
    print(f"figure: {SHARDS} shards indexed by {PARTS} tasks of Ray on three nodes, one worker and one part killed, in {took:.1f} s")
