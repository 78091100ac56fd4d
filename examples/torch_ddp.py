"""Trains an image classifier with DistributedDataParallel. A restart resumes from the checkpoint, on any number of ranks.

torchrun --nproc_per_node 4 torch_ddp.py s3://train/photos
"""

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchvision.transforms.functional import resize

import millrace.torch


def prepare(sample):
    return {"image": resize(sample["jpg"].expand(3, -1, -1), [64, 64], antialias=True) / 255, "label": sample["cls"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", help="directory, bucket or gateway of samples with the parts jpg and cls")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256, help="samples of all ranks together")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    parser.add_argument("--save", type=int, default=100, help="steps between two checkpoints")
    args = parser.parse_args()

    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count()) if gpu else torch.device("cpu")
    dataset = millrace.torch.Dataset(
        args.source, global_batch_size=args.batch_size, seed=1, transform=prepare, reading=millrace.Reading(totals=True)
    )
    loader = millrace.torch.DataLoader(dataset, num_workers=2)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 5, stride=4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(3600, 10))
    model = DistributedDataParallel(network.to(device))
    optimizer = torch.optim.AdamW(model.parameters())
    step = 0

    if args.checkpoint.exists():
        saved = torch.load(args.checkpoint, map_location=device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        step = saved["step"]

    def save():
        if dist.get_rank() == 0:  # the loader's state is the same on all ranks
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict(), "step": step}
            torch.save(state, args.checkpoint.with_suffix(".tmp"))
            args.checkpoint.with_suffix(".tmp").replace(args.checkpoint)

    while dataset.place[0] < args.epochs:
        epoch = dataset.place[0]
        for batch in loader:
            outputs = model(batch["image"].to(device))
            # shares may differ in size; the mean over ranks of this is the loss of the global batch
            loss = torch.nn.functional.cross_entropy(outputs, batch["label"].to(device), reduction="sum")
            loss = loss * dist.get_world_size() / batch["__batch_samples__"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % args.save == 0:
                save()
        save()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}, step {step}, loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
