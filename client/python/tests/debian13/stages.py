"""One stage of a run that moves between frameworks: python stages.py FRAMEWORK JOB-AS-JSON.

It resumes from the checkpoint of the stage before, trains a small model in the framework's style, saves a checkpoint after each step, and
kills itself at the step `kill`, with `early` before the checkpoint of that step.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.request
import warnings
from pathlib import Path
from typing import Any, Optional

import torch

import millrace
import millrace.torch
from millrace import Reading

warnings.simplefilter("ignore")
torch.set_num_threads(1)
FRAMEWORK, JOB = sys.argv[1], json.loads(sys.argv[2])
FILE = Path(JOB["at"]) / "checkpoint.pt"


def rows(numbers: list[int]) -> dict[str, torch.Tensor]:
    """Returns the input of the model for samples."""
    n = torch.tensor(numbers)
    return {"x": torch.stack([n / 500, n % 7 / 7], 1), "labels": n % 10, "number": n}


def number(sample: millrace.Sample) -> dict[str, Any]:
    return {"number": int(sample.key[-3:])}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        torch.manual_seed(1)
        super().__init__()
        self.linear = torch.nn.Linear(2, 10)

    def forward(self, number: torch.Tensor) -> dict[str, torch.Tensor]:
        row = rows(number.tolist())
        return {"loss": torch.nn.functional.cross_entropy(self.linear(row["x"]), row["labels"])}


class Run:
    """The model, and the checkpoint: its weights, the samples of all steps, and the state."""

    def __init__(self) -> None:
        self.model, self.state, self.record, self.step = Model(), None, [], 0
        if FILE.exists():
            saved = torch.load(FILE)
            self.state, self.record = saved["state"], saved["record"]
            self.model.load_state_dict(saved["model"])
        self.first = os.getpid()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def dataset(self) -> millrace.torch.Dataset:
        made = millrace.torch.Dataset(
            JOB["url"], "photos", global_batch_size=JOB["size"], seed=7, decode=False, transform=number, reading=Reading(keys=True)
        )
        if self.state:
            made.load_state_dict(self.state)
        return made

    def train(self, numbers: Any, state: dict[str, Any]) -> None:
        """Makes a step of a plain torch loop."""
        self.optimizer.zero_grad()
        self.model(torch.as_tensor(numbers))["loss"].backward()
        self.optimizer.step()
        self.save(numbers, state)

    def save(self, numbers: Any, state: dict[str, Any]) -> None:
        """Saves a checkpoint after a step, and kills the process if it is the last one."""
        self.step += 1
        if self.step == JOB["kill"] and JOB["early"]:
            self.kill()
        self.record.append(torch.as_tensor(numbers).tolist())
        torch.save({"model": self.model.state_dict(), "record": self.record, "state": json.loads(json.dumps(state))}, FILE.with_suffix(".new"))
        FILE.with_suffix(".new").rename(FILE)
        if self.step == JOB["kill"]:
            self.kill()

    def kill(self) -> None:
        """Kills the process that the test has started, and this one."""
        os.kill(self.first, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def with_millrace(run: Run) -> None:
    loader = millrace.torch.DataLoader(run.dataset(), num_workers=JOB["workers"])
    while True:
        for batch in loader:
            run.train(batch["number"], loader.state_dict())


def with_torch(run: Run) -> None:
    dataset = run.dataset()
    loader = torch.utils.data.DataLoader(dataset.batches(), batch_size=None, num_workers=2)
    while True:
        for n, batch in enumerate(loader, 1):
            run.train(batch["number"], dataset.state_dict(batches=n))


def with_torchdata(run: Run) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    dataset = run.dataset()
    loader = StatefulDataLoader(dataset.samples(), batch_size=JOB["size"])
    while True:
        for batch in loader:
            run.train(batch["number"], dataset.state_dict())


def with_accelerate(run: Run) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(run.model, run.optimizer, millrace.torch.DataLoader(run.dataset()))
    while True:
        for batch in loader:
            optimizer.zero_grad()
            accelerator.backward(model(batch["number"])["loss"])
            optimizer.step()
            run.save(batch["number"], loader.state_dict())


def with_trainer(run: Run) -> None:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    loader = millrace.torch.DataLoader(run.dataset())
    loader.set_epoch = lambda _: None  # type: ignore[method-assign]

    class Stepping(Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            return loader

        def training_step(self, model: Any, inputs: Any, *more: Any, **options: Any) -> Any:
            self.numbers = inputs["number"]
            return super().training_step(model, {"number": self.numbers}, *more, **options)

    class Saving(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            run.save(trainer.numbers, loader.state_dict())

    arguments = TrainingArguments(JOB["at"], max_steps=10**6, use_cpu=True, report_to=[], disable_tqdm=True, max_grad_norm=0, save_strategy="no")
    constant = torch.optim.lr_scheduler.LambdaLR(run.optimizer, lambda _: 1.0)
    trainer = Stepping(run.model, arguments, train_dataset=run.dataset().samples(), optimizers=(run.optimizer, constant), callbacks=[Saving()])
    trainer.train()


def with_lightning(run: Run) -> None:
    import lightning.pytorch as lightning

    loader = millrace.torch.DataLoader(run.dataset())

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = run.model

        def training_step(self, batch: Any, _: int) -> Any:
            return self.model(batch["number"])["loss"]

        def on_train_batch_end(self, _: Any, batch: Any, __: int) -> None:
            run.save(batch["number"], loader.state_dict())

        def configure_optimizers(self) -> Any:
            return run.optimizer

    lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=-1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    ).fit(Module(), loader)


def with_jax(run: Run) -> None:
    import jax
    import numpy as np

    import millrace.jax

    sharding = jax.sharding.NamedSharding(jax.make_mesh((1,), ("data",)), jax.sharding.PartitionSpec("data"))
    loader = millrace.jax.DataLoader(
        JOB["url"], "photos", sharding=sharding, global_batch_size=JOB["size"], seed=7, decode=False, transform=number
    )
    if run.state:
        loader.load_state_dict(run.state)
    while True:
        for batch in loader:
            run.train(np.asarray(batch["number"]).astype(np.int64), loader.state_dict())


def with_ray(run: Run) -> None:
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    first = run.first

    def train(_: Any) -> None:
        made = Run()
        made.first = first
        with_millrace(made)

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    scaling, config = ScalingConfig(num_workers=1), RunConfig(storage_path=JOB["at"])
    TorchTrainer(train, train_loop_config={}, scaling_config=scaling, run_config=config).fit()


def with_client(run: Run) -> None:
    with millrace.Client(JOB["url"], "photos") as client:
        state: Any = run.state or 0
        while True:
            with client.epoch(state, global_batch_size=JOB["size"], seed=7, reading=Reading(keys=True)).read() as reader:
                for batch in reader:
                    state = reader.state_dict()
                    run.train([int(key[-3:]) for key in batch.keys], state)


def with_http(run: Run) -> None:
    """Reads as a shell script with curl does: by the specification alone."""

    def get(path: str, generation: Optional[str], skip: int = 0) -> Any:
        query = f"?seed=7&batch_size={JOB['size']}" + (f"&generation={generation}" if generation else "") + (f"&skip={skip}" if skip else "")
        with urllib.request.urlopen(f"{JOB['url']}/v1/datasets/photos/epochs/{path}{query}") as answer:
            return json.load(answer)

    state = run.state or {"state": 3, "generation": None, "epoch": 0, "position": 0}
    while True:
        epoch, size = get(str(state["epoch"]), state["generation"]), JOB["size"]
        generation, plan = epoch["parameters"]["generation"][:32], epoch["plan_digests"][0]["digest"]
        first, skip = divmod(state["position"], size)
        for n in range(first, epoch["batches"]):
            samples = get(f"{state['epoch']}/batches/{n}/manifest", generation, skip if n == first else 0)["samples"]
            end = {"epoch": state["epoch"], "position": (n + 1) * size} if n + 1 < epoch["batches"] else {"epoch": state["epoch"] + 1, "position": 0}
            run.train([int(s["key"][-3:]) for s in samples], after := {"state": 3, "generation": generation, "plan": plan, **end})
        state = after


if __name__ == "__main__":
    globals()[f"with_{FRAMEWORK}"](Run())
