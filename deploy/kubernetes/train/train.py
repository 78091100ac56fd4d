"""Trains a small network on pictures, one rank in each pod. Each rank reads its share of every batch from the gateway where that is at home."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import millrace
import millrace.torch

dist.init_process_group("gloo")  # of the variables that train.yaml sets
gateways = int(os.environ["GATEWAYS"])
client = millrace.Client(f"http://gateways-{{0..{gateways - 1}}}.gateways:8080", dataset="pictures", routing=millrace.Routing(home="rank"))
dataset = millrace.torch.Dataset(client, global_batch_size=64, fields="jpg,cls", share=millrace.Share(by="locality", homes=gateways, tail="drop"))
loader = millrace.torch.DataLoader(dataset)
torch.manual_seed(1)
model = DistributedDataParallel(nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

for epoch in range(3):
    totals = torch.zeros(3)  # samples, right guesses, losses
    for batch in loader:
        guesses = model(batch["jpg"].float() / 255)
        loss = nn.functional.cross_entropy(guesses, batch["cls"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = (guesses.argmax(1) == batch["cls"]).sum()
        totals += torch.stack([torch.tensor(float(len(guesses))), right, loss.detach() * len(guesses)])
    dist.all_reduce(totals)
    samples, right, losses = totals.tolist()
    print(f"epoch {epoch}: {samples:.0f} samples, {right / samples:.0%} right, loss {losses / samples:.3f}", flush=True)
