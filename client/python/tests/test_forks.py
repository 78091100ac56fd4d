"""Forks at every line that a reader's threads reach, with and without optional packages."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest
from harness import LONG, is_batch, without

import millrace.epoch
from millrace._process import no_fork
from millrace.values import library

HERE = Path(__file__).parent


@pytest.mark.parametrize("hidden", [(), ("crc32c",), ("crc32c", "numpy", "torch")], ids=lambda hidden: "-".join(("no", *hidden)))
@pytest.mark.parametrize("way", ["plain", "cut", "tls"])
def test_a_fork_at_every_line(gateway: harness.Gateway, way: str, hidden: tuple[str, ...]) -> None:
    """A short run forks at every 50th line, at different lines in each variant."""

    def cut(number: int, head: bytes, answer: bytes) -> bytes:
        return answer[: len(answer) // 2] if way == "cut" and is_batch(head) and number % 3 == 0 else answer

    proxy = harness.Proxy(gateway.port, cut, tls=way == "tls")
    job = {"url": gateway.url if way == "plain" else proxy.url, "tls": way == "tls", "torch": "torch" not in hidden, "every": 1 if LONG else 50}
    if job["torch"] and importlib.util.find_spec("torch") is None:
        pytest.skip("there is no torch here")
    with harness.closing(proxy):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(HERE / "forks.py"), json.dumps(job)],
            capture_output=True, text=True, timeout=3600 if LONG else 300, env=without(*hidden), check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["faults"] == [], done.stderr
    assert found["forks"] >= (700 if LONG else 15)


def test_no_thread_imports(gateway: harness.Gateway) -> None:
    """All imports are complete before threads start, including Pillow's formats: a failed import would be repeated each time."""
    program = """
import contextlib, io, sys, threading, millrace
import PIL.Image
def image(view):
    with contextlib.suppress(PIL.UnidentifiedImageError):
        PIL.Image.open(io.BytesIO(view))
    return 1
found = []
class Watch:
    def find_spec(name, *_):
        if threading.current_thread() is not threading.main_thread():
            found.append(name)
sys.meta_path.insert(0, Watch)
for check in ("auto", "always"):
    with millrace.Client(sys.argv[1], routing=millrace.Routing(check=check)) as client:
        for batch in client.epoch(0, decode={"cls": int, "jpg": image}, reading=millrace.Reading(batch_transform=lambda b: b.keys)):
            pass
print(found)
"""
    command = [sys.executable, "-c", program, gateway.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=without("crc32c"), check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_a_fork_waits_for_the_import_of_a_decoders_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_import.py").write_text("import harness\nharness.gate()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    begun, forking, order = threading.Event(), threading.Event(), []

    def gate() -> None:
        begun.set()
        order.append("forked" if forking.wait(0.2) else "waited")

    monkeypatch.setattr(harness, "gate", gate, raising=False)
    t = threading.Thread(target=library, args=("slow_to_import", "nothing"))
    t.start()
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if library("slow_to_import", "nothing") is sys.modules["slow_to_import"] else 1)
    forking.set()
    t.join()
    assert order == ["waited"]
    assert os.waitpid(child, 0)[1] == 0


def test_a_fork_waits_for_what_a_child_must_not_find_half_done() -> None:
    """A fork waits until a TLS handshake or a change of a ledger is complete."""
    ledger, held, order = millrace.Ledger(), threading.Event(), []
    links = {"self": f"/v1/datasets/photos/epochs/0?generation={'a' * 64}"}
    description = {"links": links, "plan_digests": [{"position": 0, "digest": "0" * 32}]}
    plan = millrace.epoch.Plan("photos", 0, "", 2, 10, 0, "a" * 64, "", {"batch_size": "5"}, description, {})

    class Positions(list[int]):
        def __iter__(self) -> Iterator[int]:  # called while the ledger changes
            held.set()
            order.append("changed" if forking.wait(0.2) else "waited")
            return iter([3])

    forking = threading.Event()
    t = threading.Thread(target=ledger.add, args=(plan, 0, (Positions(), (), ())))
    t.start()
    assert held.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        ledger.add(plan, 5)
        os._exit(0 if no_fork.acquire(blocking=False) and '"read":[[0,0,10]]' in str(ledger) else 1)
    forking.set()
    t.join()
    assert order == ["waited"]
    assert os.waitpid(child, 0)[1] == 0
