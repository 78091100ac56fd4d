"""One run through all frameworks, each in its own style: killed in every stage, and resumed by the next framework from one state.

The stages follow an Eulerian circuit, in which each framework comes after each other one. TEST_CHAIN is the number of whole circuits, of the
frameworks in TEST_FRAMEWORKS or of all. Without it the test walks a part of a circuit, without Ray, which takes a minute to begin.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
import torch

import millrace
from millrace import Reading

HERE = Path(__file__).parent
CIRCUITS = int(os.environ.get("TEST_CHAIN", "0"))
SECONDS = 240 if harness.LONG else 100
ALL = "millrace", "torch", "torchdata", "accelerate", "trainer", "lightning", "jax", "ray", "client", "http"
FRAMEWORKS = os.environ["TEST_FRAMEWORKS"].split(",") if "TEST_FRAMEWORKS" in os.environ else [one for one in ALL if CIRCUITS or one != "ray"]


def circuit(nodes: list[str], r: random.Random) -> list[str]:
    """Returns a random walk through all ordered pairs of different nodes (Hierholzer)."""
    left = {a: r.sample([b for b in nodes if b != a], len(nodes) - 1) for a in nodes}
    stack, walk = [r.choice(nodes)], list[str]()
    while stack:
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            walk.append(stack.pop())
    return walk[::-1]


def stage(framework: str, at: Path, url: str, r: random.Random) -> None:
    """Runs a stage until it has killed itself."""
    file, sizes = at / "checkpoint.pt", [4, 10, 20, 50, 64, 100]
    if framework == "jax":  # whose batches have one shape
        position = torch.load(file)["state"]["position"] if file.exists() else 0
        sizes = [n for n in (1, 2, 4, 5, 10, 20, 25, 50) if math.gcd(position, 500) % n == 0][-3:]
    job = {"at": str(at), "url": url, "size": r.choice(sizes), "kill": r.randrange(2, 6), "early": r.random() < 0.5, "workers": r.randrange(2)}
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "HOME": str(at)}
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as short, tempfile.TemporaryFile("w+") as told:
        done = subprocess.run(
            [sys.executable, str(HERE / "stages.py"), framework, json.dumps(job)], env={**os.environ, **environment, "RAY_TMPDIR": short},
            stdout=told, stderr=told, timeout=300, check=False,
        )
        kill_processes_of(short)
        told.seek(0)
        assert done.returncode == -9, f"{framework} {job}: {told.read()[-3000:]}"


def kill_processes_of(directory: str) -> None:
    """Kills Ray's processes with this directory, which outlive a killed driver for a minute."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"RAY_TMPDIR={directory}\0".encode() in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def test_a_run_through_all_frameworks(gateway: harness.Gateway, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    r, begun, walk = random.Random(seed), time.monotonic(), list[str]()
    for _ in range(CIRCUITS or 1):
        for framework in circuit(FRAMEWORKS, r):
            if CIRCUITS or time.monotonic() - begun < SECONDS:
                stage(framework, tmp_path, gateway.url, r)
                walk.append(framework)
    saved = torch.load(tmp_path / "checkpoint.pt")
    with millrace.Client(gateway.url, "photos") as client:
        want = [
            int(key[-3:])
            for epoch in range(saved["state"]["epoch"] + 1)
            for batch in client.epoch(epoch, global_batch_size=100, seed=7, reading=Reading(keys=True)) for key in batch.keys
        ]  # fmt: skip
    seen = [n for numbers in saved["record"] for n in numbers]
    assert seen == want[: len(seen)], f"seed {seed}: {walk}"
    assert len(seen) == 500 * saved["state"]["epoch"] + saved["state"]["position"]
    model = torch.nn.Linear(2, 10)
    sys.argv = ["", "", json.dumps({"at": str(tmp_path)})]
    from stages import Model

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for numbers in saved["record"]:
        optimizer.zero_grad()
        model(torch.tensor(numbers))["loss"].backward()
        optimizer.step()
    assert all(torch.equal(value, saved["model"][name]) for name, value in model.state_dict().items()), f"seed {seed}: {walk}"
    assert len(walk) > 1
    print(f"figure: {len(walk)} stages, {len({*itertools.pairwise(walk)})} pairs of frameworks, {len(saved['record'])} steps")
