"""Training scripts in each framework's own style: killed in mid-epoch, resumed, and compared with an uninterrupted run.

Both runs must train on the same samples at each step. All ranks together must read each sample of an epoch once, in a different order in
each epoch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import harness
import pytest
import torch

import millrace

HERE = Path(__file__).parent
EPOCHS, STEPS, SAVE, KILL = 2, 50, 32, 37  # 500 samples in batches of 20 for all ranks together
JOB = {"batch_size": 100, "epochs": EPOCHS, "steps": STEPS, "save": SAVE, "workers": 0, "dispatch": None, "stateful": False, "loader": "torch"}

Step = tuple[int, list[int]]
"""An epoch, and the numbers of the samples."""


def run(script: str, ranks: int, at: Path, **job: Any) -> dict[int, Step]:
    """Runs a job's ranks, and returns the samples of each step in rank order."""
    at.mkdir(exist_ok=True)
    for old in at.glob("record-*"):
        old.unlink()
    said = json.dumps({**JOB, "loader_batch": 20 // ranks, "ranks": ranks, "at": str(at), "resume": False, **job})
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    environment |= {"PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]), "HF_HUB_OFFLINE": "1"}
    if ranks > 1:  # with the variables of torchrun
        environment |= {
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(harness.free_port()), "GLOO_SOCKET_IFNAME": "lo", "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "none",
        }
    each = [{"RANK": str(r), "LOCAL_RANK": str(r)} if ranks > 1 else {} for r in range(ranks)]
    processes = [
        subprocess.Popen([sys.executable, str(HERE / script), said], env=environment | own, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for own in each
    ]
    try:
        ends = [p.communicate(timeout=300) for p in processes]
    finally:
        for p in processes:
            p.kill()
    want = -signal.SIGKILL if "kill" in job else 0
    assert [p.returncode for p in processes] == [want] * ranks, "\n".join(err[-4000:] for _, err in ends)
    steps: dict[int, Step] = {}
    for rank in range(ranks):
        for line in (at / f"record-{rank}").read_text().splitlines():
            step, epoch, numbers = json.loads(line)
            steps.setdefault(step, (epoch, []))[1].extend(numbers)
    return steps


def order(url: str, epoch: int) -> list[int]:
    """The samples' numbers in the order of the gateway's manifest."""
    with millrace.Client(url, "photos") as client:
        opened = client.epoch(epoch, global_batch_size=100, seed=7, fields="jpg")
        return [(len(view) - 2000) // 7 for batch in opened for view in batch["jpg"]]


def each_once(steps: dict[int, Step]) -> bool:
    """Reports whether each sample of each epoch occurs once."""
    return all(sorted(n for epoch, numbers in steps.values() if epoch == e for n in numbers) == list(range(500)) for e in range(EPOCHS))


def check(script: str, gateway: harness.Gateway, at: Path, ranks: int, then: int, **job: Any) -> None:
    """Trains until the job is killed, resumes it on other ranks, and compares each step with the uninterrupted order."""
    whole = [(e, n) for e in range(EPOCHS) for n in order(gateway.url, e)]
    assert all(sorted(n for e, n in whole if e == epoch) == list(range(500)) for epoch in range(EPOCHS))
    want = {step: (whole[20 * step - 20][0], [n for _, n in whole[20 * step - 20 : 20 * step]]) for step in range(1, STEPS + 1)}
    if job.get("workers", 0) > 1 and job.get("loader") != "millrace":  # a torch loader alternates between the samples of its workers
        want = run(script, ranks, at / "whole", url=gateway.url, **job)
        assert each_once(want)
    first = run(script, ranks, at / "parts", url=gateway.url, **job, kill=KILL)
    assert first == {step: want[step] for step in range(1, KILL + 1)}
    rest = run(script, then, at / "parts", url=gateway.url, **job, resume=True)
    assert rest == {step: want[step] for step in range(SAVE + 1, STEPS + 1)}


# With a torch loader each worker makes its own batches, so the samples of a step depend on the number of workers and ranks.
OURS = {"loader": "millrace", "batch_size": 20}
ACCELERATE = [(2, 1, {}), (1, 2, OURS)]
if harness.LONG:
    ACCELERATE = [(ranks, then, {"dispatch": d}) for ranks, then, d in ((1, 1, None), (2, 2, None), (2, 1, None), (2, 2, False), (1, 2, False))]
    ACCELERATE += [(ranks, ranks, {"dispatch": d, "workers": 2}) for ranks, d in ((1, None), (2, None), (2, False))]
    ACCELERATE += [(2, 1, {**OURS, "workers": 2})]
    ACCELERATE += [(2, 2, {"workers": 2, "method": "spawn"}), (2, 2, {"workers": 2, "method": "spawn", "dispatch": False})]
if torch.__version__ >= "2":  # earlier versions of Accelerate create no StatefulDataLoader without workers
    ACCELERATE += [(2, 2, {"stateful": True, "dispatch": False})]


@pytest.mark.parametrize(("ranks", "then", "job"), ACCELERATE)
def test_accelerate(gateway: harness.Gateway, tmp_path: Path, ranks: int, then: int, job: dict[str, Any]) -> None:
    check("with_accelerate.py", gateway, tmp_path, ranks, then, **job)


# Trainer takes the batch size of a process from its checkpoint, so with other ranks its steps would differ.
TRAINER = [(2, {})]
if harness.LONG:
    TRAINER = [(1, {}), (2, {}), (2, {"dispatch": False}), (1, {"workers": 2}), (2, {"workers": 2}), (2, {"workers": 2, "dispatch": False})]


@pytest.mark.parametrize(("ranks", "job"), TRAINER)
def test_trainer(gateway: harness.Gateway, tmp_path: Path, ranks: int, job: dict[str, Any]) -> None:
    check("with_trainer.py", gateway, tmp_path, ranks, ranks, **job)


# torch's own loader has no state, and Lightning skips nothing for it. A LightningDataModule saves the dataset's state.
LIGHTNING = [(2, 1, OURS), (1, 1, {"loader": "torch"})]
if harness.LONG:
    LIGHTNING += [
        (1, 2, {**OURS, "workers": 2}),
        (2, 2, {"loader": "torch", "batch_size": 20}),
        (1, 1, {"loader": "torchdata"}),
        (2, 2, {"loader": "torchdata", "batch_size": 20}),
        (2, 2, {"loader": "torchdata", "batch_size": 20, "workers": 2}),
    ]


@pytest.mark.parametrize(("ranks", "then", "job"), LIGHTNING)
def test_lightning(gateway: harness.Gateway, tmp_path: Path, ranks: int, then: int, job: dict[str, Any]) -> None:
    check("with_lightning.py", gateway, tmp_path, ranks, then, **job)


def test_lightning_with_workers_of_torch(gateway: harness.Gateway, tmp_path: Path) -> None:
    """The position of torch's workers is unknown, so such a run cannot resume in mid-epoch."""
    ranks = 2 if harness.LONG else 1
    steps = run("with_lightning.py", ranks, tmp_path, url=gateway.url, loader="torch", workers=2)
    assert list(steps) == list(range(1, STEPS + 1))
    assert each_once(steps)


# Without its own batch_size a node receives batches. Loaders with a state require the same ranks and workers.
TORCH = [(2, {"loader": "nodes", "batch_size": 20}), (1, {"loader": "torchdata"})]
if harness.LONG:
    TORCH += [(2, {"loader": "torchdata", "batch_size": 20}), (2, {"loader": "torchdata", "batch_size": 20, "workers": 2})]


@pytest.mark.parametrize(("ranks", "job"), TORCH)
def test_torch(gateway: harness.Gateway, tmp_path: Path, ranks: int, job: dict[str, Any]) -> None:
    check("with_torch.py", gateway, tmp_path, ranks, ranks, **job)
