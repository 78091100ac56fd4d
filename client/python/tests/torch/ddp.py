"""One rank of a job whose last batch has fewer samples than there are ranks: python ddp.py URL. Prints its steps and model as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from training import FEATURES, digest, features

import millrace.torch
from millrace import Reading

BATCH_SIZE = 166  # three batches, and two samples


def pair(sample: millrace.Sample) -> Any:
    return features(sample["jpg"]), sample["cls"]


def main(url: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(FEATURES, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dataset = millrace.torch.Dataset(url, "photos", global_batch_size=BATCH_SIZE, decode={"cls": int}, transform=pair, reading=Reading(threads=2))
    sizes = []
    for x, y in millrace.torch.DataLoader(dataset):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        sizes.append(len(y))
    finite = all(bool(p.isfinite().all()) for p in model.parameters())
    return {"sizes": sizes, "finite": finite, "digest": digest(model.state_dict())}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
