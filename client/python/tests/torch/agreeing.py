"""One rank of a job that reads an epoch without naming a generation: python agreeing.py URL. Prints its samples as JSON."""

from __future__ import annotations

import json
import sys

import torch.distributed as dist

import millrace.torch
from millrace import Reading


def main(url: str) -> None:
    dist.init_process_group("gloo")
    dataset = millrace.torch.Dataset(url, "photos", decode=False, reading=Reading(keys=True))
    again = millrace.torch.Dataset(url, "photos")  # one of several ranks may also create it alone
    samples = millrace.torch.MapDataset(url, "photos") if dist.get_rank() == 0 else None
    keys = [b["__key__"] for b in millrace.torch.DataLoader(dataset, num_workers=1)]
    assert again.generation == dataset.generation
    assert samples is None or samples._epoch.generation == dataset.generation
    dist.barrier()  # rank 0 provides the store
    print(json.dumps({"generation": dataset.generation, "keys": keys}))


if __name__ == "__main__":
    main(sys.argv[1])
