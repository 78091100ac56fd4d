"""Trains an image classifier with Hugging Face's Trainer. A restart resumes from the last checkpoint.

python hf_trainer.py s3://train/photos        or: torchrun --nproc_per_node 4 hf_trainer.py s3://train/photos
"""

import argparse
from pathlib import Path

import torch
from torchvision.transforms.functional import resize
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import millrace.torch


def prepare(sample):
    return {"images": resize(sample["jpg"].expand(3, -1, -1), [64, 64], antialias=True) / 255, "labels": sample["cls"]}


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 5, stride=4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(3600, 10))

    def forward(self, images, labels):
        return {"loss": torch.nn.functional.cross_entropy(self.layers(images), labels)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", help="directory, bucket or gateway of samples with the parts jpg and cls")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of each process")
    parser.add_argument("--output", type=Path, default=Path("output"))
    args = parser.parse_args()

    arguments = TrainingArguments(
        str(args.output), num_train_epochs=args.epochs, per_device_train_batch_size=args.batch_size, save_strategy="epoch",
        logging_strategy="epoch", report_to=[],
    )  # fmt: skip
    dataset = millrace.torch.Dataset(args.source, global_batch_size=args.batch_size, seed=1, transform=prepare)
    trainer = Trainer(Classifier(), arguments, train_dataset=dataset.samples())  # the Trainer shards the samples itself
    last = get_last_checkpoint(str(args.output)) if args.output.is_dir() else None
    done = trainer.train(resume_from_checkpoint=last)
    print(f"step {done.global_step}, loss {done.training_loss:.3f}")


if __name__ == "__main__":
    main()
