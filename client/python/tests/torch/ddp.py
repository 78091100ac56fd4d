"""One rank of a job whose shares of batches are sometimes empty. Prints its steps and model as JSON.

usage: python ddp.py URL all|"one in forty"     how many samples the filter keeps; two ranks never have samples of the last batch
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from training import FEATURES, digest, features

import millrace
import millrace.torch
from millrace import Reading

BATCH_SIZE = 166  # an epoch has three full batches and two more samples


def pair(sample: millrace.Sample) -> Any:
    return features(sample["jpg"]), sample["cls"]


def one_in_forty(sample: millrace.Sample) -> bool:
    return sample.position % 40 == 39


def main(url: str, keep: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(FEATURES, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    reading = Reading(threads=2, filter=one_in_forty if keep == "one in forty" else None)
    dataset = millrace.torch.Dataset(url, "photos", global_batch_size=BATCH_SIZE, decode={"cls": int}, transform=pair, reading=reading)
    sizes = []
    for x, y in millrace.torch.DataLoader(dataset):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        sizes.append(len(y))
    finite = all(bool(p.isfinite().all()) for p in model.parameters())
    return {"sizes": sizes, "finite": finite, "digest": digest(model.state_dict())}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
