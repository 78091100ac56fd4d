"""Accelerate's own style: prepare, accumulate, save_state; set_epoch and skip_first_batches to resume. See jobs.py."""

from __future__ import annotations

from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches
from accelerate.utils import InitProcessGroupKwargs
from jobs import AT, JOB, Model, dataset, record
from torch.optim import SGD
from torch.utils.data import DataLoader

import millrace.torch


def main() -> None:
    accelerator = Accelerator(
        cpu=True,
        dataloader_config=DataLoaderConfiguration(dispatch_batches=JOB["dispatch"], use_stateful_dataloader=JOB["stateful"]),
        kwargs_handlers=[InitProcessGroupKwargs(backend="gloo")] if JOB["ranks"] > 1 else [],  # default: MPI, which Debian's torch supports
    )
    if JOB["loader"] == "millrace":
        loader = millrace.torch.DataLoader(dataset(), num_workers=JOB["workers"])
    else:
        samples = dataset().samples()
        loader = DataLoader(samples, batch_size=JOB["loader_batch"], num_workers=JOB["workers"], multiprocessing_context=JOB.get("method"))
    model = Model()
    model, optimizer, loader = accelerator.prepare(model, SGD(model.parameters(), lr=0.1), loader)
    steps, step = len(loader), 0
    if JOB["resume"]:
        accelerator.load_state(str(AT / "state"))
        step = JOB["save"]
    for epoch in range(step // steps, JOB["epochs"]):
        loader.set_epoch(epoch)
        batches = loader
        if JOB["resume"] and epoch == JOB["save"] // steps and not JOB["stateful"] and JOB["loader"] != "millrace":
            batches = skip_first_batches(loader, step % steps)
        for batch in batches:
            with accelerator.accumulate(model):
                optimizer.zero_grad()
                accelerator.backward(model(**batch)["loss"])
                optimizer.step()
            step += 1
            if step == JOB["save"]:
                accelerator.save_state(str(AT / "state"))
            record(step, epoch, batch["number"], accelerator.process_index)
        assert step == (epoch + 1) * steps, (step, epoch, steps)
    accelerator.end_training()


if __name__ == "__main__":  # spawned workers import this file
    main()
