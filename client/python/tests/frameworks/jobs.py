"""Shared code of this folder's scripts: the dataset, a model, a record of the training, and an exit by SIGKILL.

A script is one rank of a training job in a framework's own style: python SCRIPT.py JOB-AS-JSON. For each step it appends a line to the
job's record: the step, the epoch and the samples' numbers. At the step `kill` it kills itself. With `resume` it continues from the
framework's own checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

import millrace
import millrace.torch

warnings.simplefilter("ignore")
torch.set_num_threads(1)
if not hasattr(torch.cpu, "set_device"):  # Accelerate numbers the processors of several processes, which torch 1.13 does not support
    torch.cpu.__dict__.update(device_count=lambda: 1, set_device=lambda _: None)
    torch.serialization.register_package(9, lambda _: None, lambda storage, place: storage if place == "cpu:0" else None)
JOB: dict[str, Any] = json.loads(sys.argv[1])
AT = Path(JOB["at"])


def number_of(view: memoryview) -> int:
    """Returns a sample's number, which is encoded in its length."""
    return (len(view) - 2000) // 7


def row(sample: millrace.Sample) -> dict[str, Any]:
    """Returns the input of a model. It contains only tensors, as Accelerate requires if one process sends batches to the others."""
    return {"x": torch.tensor([sample["jpg"] / 500, sample.rng.random()]), "labels": sample["cls"], "number": sample["jpg"]}


def dataset() -> millrace.torch.Dataset:
    decode = {"jpg": number_of, "cls": int}
    return millrace.torch.Dataset(JOB["url"], "photos", global_batch_size=JOB["batch_size"], seed=7, decode=decode, transform=row)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        torch.manual_seed(1)
        super().__init__()
        self.linear = torch.nn.Linear(2, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor, number: torch.Tensor) -> dict[str, torch.Tensor]:
        assert len(number) == len(labels)
        return {"loss": torch.nn.functional.cross_entropy(self.linear(x), labels)}


def record(step: int, epoch: int, number: torch.Tensor, rank: int) -> None:
    """Records a training step, and kills the process if it is the last one."""
    with (AT / f"record-{rank}").open("a") as f:
        print(json.dumps([step, epoch, number.tolist()]), file=f)
    if step == JOB.get("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
