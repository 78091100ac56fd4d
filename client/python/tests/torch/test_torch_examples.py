"""Runs the scripts in examples/ that train with torch, and resumes them."""

from __future__ import annotations

import re
from pathlib import Path

import harness

STEPS = 300 // 60


def test_distributed_data_parallel(images: Path, tmp_path: Path, runtime: Path) -> None:  # noqa: ARG001
    """Two ranks train two epochs; one rank resumes from their checkpoint and trains the third."""
    options = str(images), "--batch-size", "60", "--save", "3", "--checkpoint", str(tmp_path / "checkpoint.pt")
    whole = harness.run_example("torch_ddp.py", *options, "--epochs", "2", cwd=tmp_path, ranks=2)
    assert re.findall(r"epoch (\d), step (\d+)", whole) == [("0", str(STEPS)), ("1", str(2 * STEPS))]
    more = harness.run_example("torch_ddp.py", *options, "--epochs", "3", cwd=tmp_path, ranks=1)
    assert re.findall(r"epoch (\d), step (\d+)", more) == [("2", str(3 * STEPS))]


def test_trainer(images: Path, tmp_path: Path, runtime: Path) -> None:  # noqa: ARG001
    options = str(images), "--batch-size", "60", "--output", str(tmp_path / "output")
    for epochs in (1, 2):
        printed = harness.run_example("hf_trainer.py", *options, "--epochs", str(epochs), cwd=tmp_path)
        assert f"step {epochs * STEPS}, loss" in printed
