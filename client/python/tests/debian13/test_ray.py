"""Ray Train over a real gateway: two workers, one of which fails, resume at their checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
from ray_training import FAIL, SAVE, STEPS

import millrace
from millrace import Reading, Share

HERE = Path(__file__).parent


def steps_of(at: Path, name: str, rank: int) -> list[tuple[int, list[str]]]:
    """Returns the steps of a worker with their samples, including those repeated after the last checkpoint."""
    return [tuple(json.loads(line)) for line in (at / f"{name}-{rank}").read_text().splitlines()]


def test_ray_train_resumes(gateway: harness.Gateway, tmp_path: Path) -> None:
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), str(HERE)]), "HOME": str(tmp_path),
        "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1",
    }
    with tempfile.TemporaryDirectory(prefix="ray-") as short:  # a socket's path must be short
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(HERE / "ray_training.py"), str(tmp_path), gateway.url],
            env={**environment, "RAY_TMPDIR": short}, capture_output=True, text=True, timeout=1800, check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["same"], "the resumed model differs"
    assert told["states"][0] == told["states"][1]
    with millrace.Client(gateway.url, dataset="photos") as client:
        how = {"share": Share(tail="drop"), "reading": Reading(keys=True)}
        epochs = [client.epoch(e, global_batch_size=40, seed=7, **how) for e in range(2)]
        want = dict(enumerate([list(b.keys) for epoch in epochs for b in epoch][:STEPS], 1))
    whole = [dict(steps_of(tmp_path, "whole", rank)) for rank in range(2)]
    assert {step: whole[0][step] + whole[1][step] for step in want} == want
    again = FAIL - FAIL % SAVE + 1
    for rank in range(2):
        steps = steps_of(tmp_path, "failing", rank)
        numbers = [step for step, _ in steps]
        assert numbers[-(STEPS - again + 1) :] == list(range(again, STEPS + 1)), "it did not begin again at the checkpoint"
        assert len(numbers) > STEPS
        assert dict(steps) == whole[rank]
        assert all(keys == whole[rank][step] for step, keys in steps)
