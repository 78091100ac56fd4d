"""One rank of a small training job: python training.py JOB-AS-JSON. Prints its steps as JSON.

Every rank gathers the samples of all ranks and computes the whole global batch. So the order of sums does not depend on the number of
ranks: two runs that read the same global batches end with the same bits.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import millrace.torch
from millrace import Reading

FEATURES = 16


def features(view: memoryview) -> torch.Tensor:
    """Numbers from the first bytes of a sample."""
    return torch.frombuffer(bytearray(view[:FEATURES]), dtype=torch.uint8).float() / 255 - 0.5


def dataset_of(job: dict[str, Any]) -> millrace.torch.Dataset:
    return millrace.torch.Dataset(
        job["url"], "photos", global_batch_size=job["batch_size"], seed=7, decode={"jpg": features, "cls": int},
        reading=Reading(keys=True, threads=2),
    )


def digest(*states: Any) -> str:
    """Returns a digest of all bits of the tensors, which may be anywhere in the states."""
    h = hashlib.sha256()

    def walk(x: Any) -> None:
        if isinstance(x, torch.Tensor):
            h.update(x.detach().contiguous().numpy().tobytes())
        elif isinstance(x, dict):
            for k in sorted(x, key=str):
                h.update(str(k).encode())
                walk(x[k])
        elif isinstance(x, (list, tuple)):
            for v in x:
                walk(v)

    walk(states)
    return h.hexdigest()


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    # From here on only torch.distributed provides the rank, and spawned workers do not have it.
    for name in ("RANK", "WORLD_SIZE"):
        del os.environ[name]
    rank, world_size = dist.get_rank(), dist.get_world_size()
    dataset = dataset_of(job)
    loader = millrace.torch.DataLoader(
        dataset, num_workers=job["workers"], multiprocessing_context=job["method"] if job["workers"] else None
    )
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    checkpoint = Path(job["checkpoint"])
    if job["resume"]:
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])

    seen: list[Any] = []
    steps = 0
    while dataset.place[0] < job["epochs"] and steps < job["steps"]:
        epoch = dataset.place[0]
        for batch in loader:
            shares: list[Any] = [None] * world_size
            dist.all_gather_object(shares, batch)
            shares = [s for s in shares if "cls" in s]  # a rank may have no samples of a short batch
            loss = torch.nn.functional.cross_entropy(model(torch.cat([s["jpg"] for s in shares])), torch.cat([s["cls"] for s in shares]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append([epoch, [k for s in shares for k in s["__key__"]]])
            steps += 1
            if steps == job["steps"]:
                break
    state = loader.state_dict()
    states: list[Any] = [None] * world_size
    dist.all_gather_object(states, state)
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": state}, checkpoint)
    dist.barrier()
    dist.destroy_process_group()
    return {
        "rank": rank, "seen": seen, "state": state, "same": all(s == state for s in states),
        "digest": digest(model.state_dict(), optimizer.state_dict()),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
