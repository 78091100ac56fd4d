"""Batches that a real gateway shares: they have the same bytes, and do not change."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import harness
import pytest

import millrace
from millrace import Reading, Routing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is lent on Linux alone")

LENT = "millrace_shared_leased_bytes"
CAME = "millrace_shared_batches_total"


def digests(batches: Any) -> list[tuple[int, str]]:
    return [(batch.number, hashlib.sha256(batch.data).hexdigest()) for batch in batches]


def await_none_lent(gateway: harness.Gateway) -> None:
    end = time.monotonic() + harness.START
    while left := gateway.count(LENT):
        assert time.monotonic() < end, f"{left} bytes are lent"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"fields": "jpg"}, {"fields": "cls"}, {"keys": True}, {"seed": 7, "global_batch_size": 100, "rank": 1, "world_size": 3},
        {"form": "arrow"}, {"form": "tar"},
    ],
)
def test_the_same_bytes(neighbour: harness.Gateway, gateway: harness.Gateway, options: dict[str, Any]) -> None:
    lends = options.get("form") != "tar" and options.get("fields") != "cls"  # fields="cls" is too small to be shared
    with millrace.Client(neighbour.url, routing=Routing(check="always")) as near, millrace.Client(gateway.url) as far:
        for number in (0, 1, 0):
            here, there = list(near.epoch(number, **harness.grouped(**options))), list(far.epoch(number, **harness.grouped(**options)))
            assert [bytes(b.data) for b in here] == [bytes(b.data) for b in there]
            assert [(b.etag, b.crc32c, b.padded, len(b)) for b in here] == [(b.etag, b.crc32c, b.padded, len(b)) for b in there]
            if "form" not in options:
                assert [(b.keys, b.names(), b.positions) for b in here] == [(b.keys, b.names(), b.positions) for b in there]
                assert [s.parts for b in here for s in b] == [s.parts for b in there for s in b]
            assert here[0].data.readonly == lends
            assert not there[0].data.readonly
        assert (neighbour.count(CAME) > 0) == lends
        samples = near.epoch(0, fields="jpg").samples(range(200))
        assert samples.data.readonly
        assert bytes(samples.data) == bytes(far.epoch(0, fields="jpg").samples(range(200)).data)
    del here, samples
    await_none_lent(neighbour)


def test_a_batch_that_is_kept_stays(neighbour: harness.Gateway, gateway: harness.Gateway) -> None:
    with millrace.Client(neighbour.url) as client, millrace.Client(gateway.url) as far:
        epoch = client.epoch(0)
        kept, view = epoch.batch(0), epoch.batch(1).views()[5]
        want, part = bytes(kept.data), bytes(view)
        read = 0
        while read < 200:
            for batch in client.epoch(1 + read // 16):
                read += 1
                assert batch.data.readonly
        assert (bytes(kept.data), bytes(view)) == (want, part)
        assert want == bytes(far.epoch(0).batch(0).data)
        assert neighbour.count("millrace_shared_segments") < 64


def test_all_that_can_be_held(neighbour: harness.Gateway) -> None:
    """If the shared memory is exhausted, batches arrive as bytes."""
    with millrace.Client(neighbour.url) as client:
        epoch = client.epoch(0)
        held = [epoch.batch(number % 15) for number in range(80)]
        ways = [b.data.readonly for b in held]
        assert ways[0]
        assert not ways[-1]
        assert all(bytes(b.data) == bytes(held[b.number].data) for b in held)
        held.clear()
        assert epoch.batch(3).data.readonly


def test_threads(neighbour: harness.Gateway, gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as far, millrace.Client(neighbour.url) as client, ThreadPoolExecutor(6) as pool:
        want = [digests(far.epoch(n)) for n in range(6)]
        assert list(pool.map(lambda n: digests(client.epoch(n, reading=Reading(threads=2))), range(6))) == want
    await_none_lent(neighbour)


def test_the_gateway_is_killed(neighbour: harness.Gateway) -> None:
    with millrace.Client(neighbour.url, deadline=1) as client:
        epoch = client.epoch(0)
        held = [epoch.batch(n) for n in range(8)]
        assert held[7].data.readonly
        want = digests(held)
        neighbour.kill()
        with pytest.raises(millrace.GatewayUnavailable):
            epoch.batch(9)
        assert digests(held) == want


def test_forks(neighbour: harness.Gateway) -> None:
    """Later writes do not change the data of parent and child, which both continue to read."""
    with millrace.Client(neighbour.url) as client:
        epoch = client.epoch(0)
        want = digests(epoch)
        kept = [epoch.batch(0), epoch.batch(1)]
        assert kept[0].data.readonly
        go_on, told = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            ok = digests(kept) == want[:2] and digests(epoch) == want
            os.read(go_on, 1)  # the parent has released its batches, and read many others
            os._exit(0 if ok and digests(kept) == want[:2] and epoch.batch(2).data.readonly else 1)
        assert digests(kept) == want[:2]
        last = kept.pop()
        kept.clear()
        for number in range(1, 5):
            digests(client.epoch(number))
        assert digests([last]) == want[1:2]
        assert epoch.batch(2).data.readonly
        os.write(told, b".")
        assert os.waitpid(child, 0)[1] == 0
        os.close(go_on)
        os.close(told)
        del last
    await_none_lent(neighbour)


def test_forks_at_many_lines(neighbour: harness.Gateway) -> None:
    """Like tests/test_forks.py, with shared memory."""
    torch = importlib.util.find_spec("torch") is not None
    job = {"url": neighbour.url, "tls": False, "torch": torch, "fields": "jpg,cls", "every": 1 if harness.LONG else 60}
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("forks.py")), json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600 if harness.LONG else 300, env=harness.without(), check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["faults"] == [], done.stderr
    assert found["forks"] >= 10
    assert neighbour.count(CAME) > 0


def test_a_fork_that_python_does_not_see(neighbour: harness.Gateway) -> None:
    """The memory is not mapped in the child, because the gateway could not learn about the child's views."""
    program = """
import ctypes, os, sys, millrace
batch = millrace.Client(sys.argv[1]).epoch(0).batch(0)
assert batch.data.readonly
child = ctypes.PyDLL(None).fork()
if child == 0:
    batch.data[0]
    os._exit(0)
print(os.WTERMSIG(os.waitpid(child, 0)[1]), len(bytes(batch.data)) > 0)
"""
    done = subprocess.run([sys.executable, "-c", program, neighbour.url], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == f"{signal.SIGSEGV.value} True\n", done.stderr


def test_numpy_sees_it_without_a_copy(neighbour: harness.Gateway) -> None:
    np = pytest.importorskip("numpy")
    import millrace.numpy

    with millrace.Client(neighbour.url) as client:
        batch = client.epoch(0).batch(0)
        whole = np.frombuffer(batch.data, np.uint8)
        assert not whole.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            whole[0] = 1
        sizes = {len(v) for v in batch.views()}
        if len(sizes) == 1:
            assert np.shares_memory(millrace.numpy.array(batch, np.uint8), whole)
        with pytest.raises(BufferError):
            batch.close()
        first = whole[:8].copy()
        assert bytes(first) == bytes(batch.data[:8])
        del whole
        batch.close()
    await_none_lent(neighbour)


@pytest.mark.usefixtures("runtime")
def test_the_gateway_of_open(dataset: Any) -> None:
    with millrace.open(dataset) as data:
        for batch in data.epoch(0):
            assert batch.data.readonly == (len(batch.data) >= 1 << 16)
        assert data.epoch(0).batch(0).data.readonly
        assert data.describe()["transport"] == "shared memory"
