"""Real jobs of 1, 2 and 3 ranks with torch.distributed: their training is equal bit for bit, wherever they stop."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

import millrace
from millrace._job import VARIABLES, find_ranks

BATCH_SIZE, EPOCHS = 30, 2
BATCHES = -(-500 // BATCH_SIZE)


def run_ranks(program: str, world_size: int, *arguments: str) -> list[dict[str, Any]]:
    """Runs a job's ranks in separate processes, and returns the output of each."""
    here = Path(__file__).parent
    base = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    base |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(harness.free_port()), "GLOO_SOCKET_IFNAME": "lo", "WORLD_SIZE": str(world_size)}
    base["PYTHONPATH"] = os.pathsep.join([str(here.parents[1]), os.environ.get("PYTHONPATH", "")])
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", str(here / program), *arguments],
            env=base | {"RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for r in range(world_size)
    ]
    try:
        ends = [p.communicate(timeout=300) for p in ranks]
    finally:
        for p in ranks:
            p.kill()
            p.wait()
    assert [p.returncode for p in ranks] == [0] * world_size, "\n".join(err for _, err in ends)
    return [json.loads(out.splitlines()[-1]) for out, _ in ends]


def run_job(world_size: int, **job: Any) -> list[dict[str, Any]]:
    """Runs a training job."""
    return run_ranks("training.py", world_size, json.dumps(job))


def test_stop_anywhere_and_resume_on_other_ranks(gateway: harness.Gateway, tmp_path: Path) -> None:
    job = {"url": gateway.url, "batch_size": BATCH_SIZE, "epochs": EPOCHS}
    (whole,) = run_job(1, **job, steps=10**6, workers=0, method=None, resume=False, checkpoint=str(tmp_path / "whole"))
    assert len(whole["seen"]) == EPOCHS * BATCHES
    for epoch in range(EPOCHS):
        assert sorted(k for e, keys in whole["seen"] if e == epoch for k in keys) == [f"img-{i:03d}" for i in range(500)]

    seed = random.randrange(1 << 32)
    r = random.Random(seed)
    first = r.randrange(1, BATCHES)
    second = r.randrange(1, 2 * BATCHES - first)
    checkpoint = str(tmp_path / "parts")
    parts = [
        run_job(2, **job, steps=first, workers=1, method="spawn", resume=False, checkpoint=checkpoint),
        run_job(3, **job, steps=second, workers=2, method="fork", resume=True, checkpoint=checkpoint),
        run_job(1, **job, steps=10**6, workers=4, method="fork", resume=True, checkpoint=checkpoint),
    ]
    for ranks in parts:
        assert all(rank["same"] for rank in ranks)
        assert len({rank["digest"] for rank in ranks}) == 1
    seen = [batch for ranks in parts for batch in ranks[0]["seen"]]
    assert seen == whole["seen"], f"seed {seed}: stopped after {first} and {second} more"
    assert parts[-1][0]["digest"] == whole["digest"], f"seed {seed}: stopped after {first} and {second} more"
    assert parts[-1][0]["state"] == whole["state"]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets environment variables, and removes those of a launcher that may have started the tests."""
    for name in itertools.chain(*VARIABLES):
        monkeypatch.delenv(name, raising=False)

    def put(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE"])
def test_half_an_environment_is_refused(missing: str, environment: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    environment(RANK="1", WORLD_SIZE="4")
    assert find_ranks() == (1, 4)
    monkeypatch.delenv(missing)
    with pytest.raises(millrace.InvalidArgument, match=r"RANK and WORLD_SIZE"):
        find_ranks()


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        ({}, (0, 1)),
        ({"WORLD_SIZE": "1"}, (0, 1)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, (2, 3)),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8"}, (5, 8)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (0, 1)),  # a batch script, outside srun
        ({"RANK": "3", "WORLD_SIZE": "4", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, (3, 4)),
    ],
)
def test_ranks_of_the_environment(variables: dict[str, str], want: tuple[int, int], environment: Callable[..., None]) -> None:
    environment(**variables)
    assert find_ranks() == want


@pytest.mark.parametrize("values", [("4", "4"), ("-1", "4"), ("x", "4"), ("0", "0")])
def test_ranks_that_are_none_are_refused(values: tuple[str, str], environment: Callable[..., None]) -> None:
    environment(RANK=values[0], WORLD_SIZE=values[1])
    with pytest.raises(millrace.InvalidArgument, match="are not a rank and a world size"):
        find_ranks()
