"""One rank of a job that weights the losses of balanced shares. Prints the gradient of each step as JSON.

usage: python weighted.py URL SHARE DIVISOR    SHARE: JSON of millrace.Share; DIVISOR: "__batch_samples__", "__batch_cost__", or "" for the mean
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from training import FEATURES, features

import millrace
import millrace.torch

BATCH_SIZE = 83  # an epoch has six full batches and two more samples


def main(url: str, share: str, divisor: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(FEATURES, 10).double())
    dataset = millrace.torch.Dataset(
        url, "photos", global_batch_size=BATCH_SIZE, decode={"jpg": features, "cls": int}, share=millrace.Share(**json.loads(share)),
        reading=millrace.Reading(totals=True),
    )  # fmt: skip
    steps, sizes = [], []
    for batch in millrace.torch.DataLoader(dataset, num_workers=1):
        model.zero_grad()
        last = len(batch["__micro__"]) - 1
        for i, part in enumerate(millrace.torch.micro_batches(batch)):
            with model.no_sync() if i < last else nullcontext():
                losses = functional.cross_entropy(model(part["jpg"].double()), part["cls"], reduction="none")
                loss = losses.sum() * dist.get_world_size() / part[divisor] if divisor else losses.mean()
                loss.backward()
        steps.append(model.module.weight.grad.flatten().tolist())
        sizes.append(batch["__micro__"])
    return {"gradients": steps, "sizes": sizes}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
