"""Forks at every line that a reader's threads come to, with optional packages and without them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import harness
import pytest
from harness import LONG, is_batch, without

HERE = Path(__file__).parent


@pytest.mark.parametrize("hidden", [(), ("crc32c",), ("crc32c", "numpy", "torch")], ids=lambda hidden: "-".join(("no", *hidden)))
@pytest.mark.parametrize("way", ["plain", "cut", "tls"])
def test_a_fork_at_every_line(gateway: harness.Gateway, way: str, hidden: tuple[str, ...]) -> None:
    """A short run takes every 50th line of them, other ones in each variant."""

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
