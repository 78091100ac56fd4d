"""A training job, written like a Ray Train user's: python ray_training.py JOB-AS-JSON. Prints the digests of its models as JSON.

It trains twice: without a fault, and with a worker that fails in the middle of an epoch, so that Ray resumes at the last checkpoint. Each
worker appends its training samples to a separate file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import ray
import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

import millrace.torch
from millrace import Reading, Share

FEATURES, STEPS, SAVE, FAIL = 16, 22, 5, 18  # an epoch has 12 batches


def features(view: memoryview) -> torch.Tensor:
    """Numbers from the first bytes of a sample."""
    return torch.from_numpy(np.frombuffer(view[:FEATURES], np.uint8).astype(np.float32) / 255 - 0.5)


def report(step: int, model: Any, optimizer: Any, loader: Any) -> None:
    """Reports a step to Ray from every worker. Rank 0 adds a checkpoint."""
    with tempfile.TemporaryDirectory() as directory:
        made = None
        if ray.train.get_context().get_world_rank() == 0:
            state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}
            torch.save(state, Path(directory) / "state.pt")
            made = Checkpoint.from_directory(directory)
        ray.train.report({"step": step}, checkpoint=made)


def train(job: dict[str, Any]) -> None:
    torch.manual_seed(0)
    rank = ray.train.get_context().get_world_rank()
    dataset = millrace.torch.Dataset(
        job["url"], "photos", global_batch_size=40, seed=7, decode={"jpg": features, "cls": int}, share=Share(tail="drop"),
        reading=Reading(keys=True, threads=2),
    )
    loader = millrace.torch.DataLoader(dataset)  # without prepare_data_loader: each rank reads its own share
    model = prepare_model(torch.nn.Linear(FEATURES, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            saved = torch.load(Path(directory) / "state.pt")
        step = saved["step"]
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
    with Path(job["at"], f"{job['name']}-{rank}").open("a") as record:
        while step < STEPS:
            for batch in loader:
                loss = torch.nn.functional.cross_entropy(model(batch["jpg"]), batch["cls"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                print(json.dumps([step, batch["__key__"]]), file=record, flush=True)
                if job["fail"] and checkpoint is None and step == FAIL and rank == 1:
                    raise RuntimeError("a worker that fails, as planned")
                if step % SAVE == 0 or step == STEPS:
                    report(step, model, optimizer, loader)
                if step == STEPS:
                    break


def main(at: str, url: str) -> None:
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    weights = []
    for name in ("whole", "failing"):
        trainer = TorchTrainer(
            train, train_loop_config={"at": at, "url": url, "name": name, "fail": name == "failing"},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(
                name=name, storage_path=f"{at}/storage",
                checkpoint_config=CheckpointConfig(num_to_keep=1), failure_config=FailureConfig(max_failures=1),
            ),
        )
        with trainer.fit().checkpoint.as_directory() as directory:
            weights.append(torch.load(Path(directory) / "state.pt"))
    ray.shutdown()
    same = all(torch.equal(a, b) for a, b in zip(weights[0]["model"].values(), weights[1]["model"].values()))
    print(json.dumps({"same": same, "states": [w["loader"] for w in weights]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
