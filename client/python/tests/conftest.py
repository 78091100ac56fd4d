"""Shared fixtures: a small dataset of tar samples and a gateway over it."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from scripted import Clock

import millrace
from millrace import _local
from millrace._http import gateways

SAMPLES = 500
multiprocessing.set_forkserver_preload(["torch"])  # since Python 3.14 each of torch's workers would import it, which takes seconds for every loader


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests marked long, unless MILLRACE_LONG=1, and names them: tools/pytest.py lists them in its summary."""
    if harness.LONG:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    for item in long:
        items.remove(item)
        config.get_terminal_writer().line(f"only with long counts: {item.nodeid}")


@pytest.fixture(scope="session")
def files() -> dict[str, tuple[bytes, bytes]]:
    """The samples of the dataset: key -> (jpg, cls)."""
    r = random.Random(1)
    return {f"img-{i:03d}": (r.randbytes(2000 + 7 * i), str(i % 10).encode()) for i in range(SAMPLES)}


@pytest.fixture(scope="session")
def dataset(files: dict[str, tuple[bytes, bytes]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packed dataset."""
    source, packed = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("packed") / "photos"
    for key, (jpg, cls) in files.items():
        (source / f"{key}.jpg").write_bytes(jpg)
        (source / f"{key}.cls").write_bytes(cls)
    harness.run("pack", str(source), str(packed), "--batch-size", "32", "--shard-size", "256KiB", "--chunk-size", "64KiB", "--window", "8")
    return packed


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed dataset of 300 images of ten classes. Each class has its own color."""
    from PIL import Image

    source, packed = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("packed") / "images"
    for i in range(300):
        Image.new("RGB", (64, 64), (25 * (i % 10), i % 256, 0)).save(source / f"{i:03d}.jpg")
        (source / f"{i:03d}.cls").write_text(str(i % 10))
    harness.run("pack", str(source), str(packed))
    return packed


@pytest.fixture(scope="session")
def gateway(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Gateway]:
    """A gateway that all tests share. A test that kills or disconnects a gateway must start its own."""
    hosts = "--host", "gateways.example", "--host", "192.0.2.0"  # hosts to which tests send requests
    g = harness.Gateway(f"photos={dataset}", args=(f"MILLRACE_LOSS_LOG={tmp_path_factory.mktemp('losses')}", *hosts))
    yield g
    g.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[millrace.Client, millrace.Client]]:
    """Two datasets, a with 200 samples and b with 100, on a gateway without mixtures or write access."""
    a, b = harness.lines(tmp_path / "a", "a", 200), harness.lines(tmp_path / "b", "b", 100)
    gateway = harness.Gateway(f"a={a}", f"b={b}")
    with harness.closing(gateway), millrace.Client(gateway.url, "a") as ca, millrace.Client(gateway.url, "b") as cb:
        yield ca, cb


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all requests. Waits between rounds have their maximum length."""
    made = Clock()
    monkeypatch.setattr(gateways, "Stopwatch", lambda: made)
    monkeypatch.setattr(gateways, "Task", lambda: made)
    monkeypatch.setattr(gateways.random, "uniform", lambda low, high: low + high)
    return made


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a path that is short enough for a socket."""
    made = Path(tempfile.mkdtemp(prefix="ml-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def neighbour(dataset: Path, place: Path) -> Iterator[harness.Gateway]:
    """A gateway on a socket, which shares memory."""
    g = harness.Gateway(f"photos={dataset}", unix=f"unix:{place}/socket")
    yield g
    g.close()


@pytest.fixture(scope="session")
def grown(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Gateway]:
    """A gateway for the next generation of the dataset, which has one more shard."""
    made = tmp_path_factory.mktemp("grown")
    source, packed = made / "source", made / "photos"
    source.mkdir()
    for i in range(40):
        (source / f"new-{i:03d}.jpg").write_bytes(bytes([i]) * 500)
        (source / f"new-{i:03d}.cls").write_bytes(b"3")
    harness.run("pack", str(source), str(made / "more"))
    shutil.copytree(dataset, packed)
    for n, shard in enumerate((made / "more").glob("**/*.tar")):
        shutil.copy(shard, packed / f"zz-{n}.tar")
    harness.run("index", str(packed))
    g = harness.Gateway(f"photos={packed}")
    yield g
    g.close()


@pytest.fixture
def moving(gateway: harness.Gateway, grown: harness.Gateway) -> Iterator[harness.Moving]:
    """A gateway whose current generation moves from that of the dataset to the next one."""
    m = harness.Moving(gateway, grown)
    yield m
    m.close()


@pytest.fixture
def through(gateway: harness.Gateway) -> Iterator[Callable[[harness.Fault], harness.Proxy]]:
    """Creates proxies in front of the gateway."""
    made: list[harness.Proxy] = []

    def proxy(fault: harness.Fault) -> harness.Proxy:
        made.append(harness.Proxy(gateway.port, fault))
        return made[-1]

    yield proxy
    for p in made:
        p.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """The program directory of a Python environment without packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=120)
    return tmp_path / "venv/bin"


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with this platform's wheel, a wheel without the program and an sdist."""
    return harness.build_wheels(tmp_path_factory.mktemp("dist"))


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    """Checks that no test leaves a thread of a reader behind."""
    harness.begin()
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.name.startswith("millrace-")]
    for t in left:
        t.join(60)
    assert not [t for t in left if t.is_alive()]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A separate directory for the gateways of a test. It waits until all of them have exited."""
    place = tmp_path / "run"
    place.mkdir()
    if len(str(place)) > 50:  # a socket's path must be short
        place = Path(os.path.realpath("/tmp"), "ml-" + hashlib.sha256(str(tmp_path).encode()).hexdigest()[:10])
        place.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MILLRACE_PROGRAM", harness.binary())
    monkeypatch.setattr(_local, "LINGER", "1s")
    yield place
    end = time.monotonic() + 120  # a gateway that another process has started remains for a minute
    while left := harness.gateways_at(place):
        assert time.monotonic() < end, f"left running: {left}"
        time.sleep(0.05)
    shutil.rmtree(place)
