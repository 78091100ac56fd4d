"""Plain torch.distributed with a loader that has a state: torchdata's StatefulDataLoader, or a graph of torchdata's nodes. See jobs.py."""

from __future__ import annotations

import torch
import torch.distributed as dist
from jobs import AT, JOB, Model, dataset, record
from torch.nn.parallel import DistributedDataParallel
from torchdata.nodes import IterableWrapper, Loader, Prefetcher
from torchdata.stateful_dataloader import StatefulDataLoader

if JOB["ranks"] > 1:
    dist.init_process_group("gloo")
rank = dist.get_rank() if JOB["ranks"] > 1 else 0
data = dataset()
if JOB["loader"] == "nodes":
    loader = Loader(Prefetcher(IterableWrapper(data), prefetch_factor=3))
else:
    loader = StatefulDataLoader(data.samples(), batch_size=JOB["loader_batch"], num_workers=JOB["workers"])
    assert len(loader) * JOB["epochs"] == JOB["steps"]
model: torch.nn.Module = Model()
if JOB["ranks"] > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
if JOB["resume"]:
    loader.load_state_dict(torch.load(AT / f"state-{rank}"))
    step = JOB["save"]
steps = JOB["steps"] // JOB["epochs"]
for epoch in range(step // steps, JOB["epochs"]):
    for batch in loader:
        optimizer.zero_grad()
        model(**batch)["loss"].backward()
        optimizer.step()
        step += 1
        if step == JOB["save"]:
            torch.save(loader.state_dict(), AT / f"state-{rank}")
        record(step, epoch, batch["number"], rank)
    assert step == (epoch + 1) * steps, (step, epoch)
