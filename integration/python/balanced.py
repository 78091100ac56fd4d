"""One rank of a job with torch.distributed whose step takes as long as the lengths of its texts: python balanced.py JOB-AS-JSON.

For each arm it reads an epoch, and writes a line of JSON for each step to the file of its rank. A step ends when all ranks have ended it. Rank 0
then saves the loader's state: a killed job resumes from it, on any number of ranks.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import millrace
import millrace.torch
from millrace import Order, Reading, Share


def dataset_of(job: dict[str, Any], arm: dict[str, Any]) -> millrace.torch.Dataset:
    order, share = ({f.name: arm[f.name] for f in fields(kind) if f.name in arm} for kind in (Order, Share))
    return millrace.torch.Dataset(
        job["url"], job["dataset"], global_batch_size=job["batch_size"], shuffle="full", decode={"txt": len},
        order=Order(**order), share=Share(**share), reading=Reading(keys=True),
    )


def read(job: dict[str, Any], arm: dict[str, Any], rank: int) -> None:
    loader = millrace.torch.DataLoader(dataset_of(job, arm))
    state = Path(job["state"])
    if job["resume"]:
        loader.load_state_dict(json.loads(state.read_text()))
    with Path(job["log"], f"{arm['name']}-{dist.get_world_size()}-{rank}").open("w") as log:
        dist.barrier()
        began = time.perf_counter()
        for batch in loader:
            cost = sum(map(int, batch["txt"]))
            time.sleep(cost * job["seconds_per_cost"])
            dist.barrier()
            step = {"keys": batch["__key__"], "cost": cost, "seconds": time.perf_counter() - began, "state": loader.state_dict()}
            print(json.dumps(step), file=log, flush=True)
            dist.barrier()  # each rank has recorded the step before it is part of the state
            if rank == 0:
                saved = state.with_suffix(".tmp")
                saved.write_text(json.dumps(step["state"]))
                saved.replace(state)
            began = time.perf_counter()


def main(job: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for arm in job["arms"]:
        read(job, arm, dist.get_rank())
    dist.destroy_process_group()
    print("all arms ended")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
