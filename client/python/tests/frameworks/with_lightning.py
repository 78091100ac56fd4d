"""Lightning's own style: a LightningModule, checkpoints in mid-epoch, resume by ckpt_path. See jobs.py."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning
import torch
from jobs import AT, JOB, Model, dataset, record
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import millrace.torch


class Module(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    def _register_sharded_tensor_state_dict_hooks_if_available(self) -> None:
        """Does nothing: under Python 3.11 the sharded tensors of torch 1.13 cannot be imported, and this script does not use them."""

    def training_step(self, batch: dict[str, Any], _: int) -> torch.Tensor:
        return self.model(**batch)["loss"]

    def on_train_batch_end(self, _: Any, batch: dict[str, Any], __: int) -> None:
        record(self.trainer.global_step, self.trainer.current_epoch, batch["number"], self.trainer.global_rank)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


data, workers = dataset(), JOB["workers"]


class OfTorch(lightning.LightningDataModule):  # type: ignore[misc]
    """Uses torch's own loader, which has no state. Without workers the dataset itself knows its position."""

    def train_dataloader(self) -> Any:
        return DataLoader(data.samples(), batch_size=JOB["loader_batch"], num_workers=workers)

    def state_dict(self) -> dict[str, Any]:
        return {} if workers else data.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        data.load_state_dict(state)


loader = {
    "millrace": lambda: millrace.torch.DataLoader(data, num_workers=workers),
    "torch": OfTorch,
    "torchdata": lambda: StatefulDataLoader(data.samples(), batch_size=JOB["loader_batch"], num_workers=workers),
}[JOB["loader"]]()
trainer = lightning.Trainer(
    accelerator="cpu", devices=JOB["ranks"], strategy="ddp" if JOB["ranks"] > 1 else "auto", max_epochs=JOB["epochs"], logger=False,
    enable_progress_bar=False, enable_model_summary=False,
    callbacks=[ModelCheckpoint(AT, "{step}", every_n_train_steps=JOB["save"], save_top_k=-1)],
)
trainer.fit(Module(), loader, ckpt_path=str(AT / f"step={JOB['save']}.ckpt") if JOB["resume"] else None)
assert trainer.global_step == JOB["steps"], trainer.global_step
