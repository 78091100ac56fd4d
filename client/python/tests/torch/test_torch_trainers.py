"""The installed Lightning and Accelerate over a real gateway."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import harness
import pytest
import torch
from test_torch_loader import core_order, dataset_of, keys_of
from training import FEATURES

import millrace.torch
from millrace.torch import DataLoader

warnings.filterwarnings("ignore", module="lightning")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import lightning.pytorch as lightning
    from accelerate import Accelerator
    from lightning.pytorch.callbacks import ModelCheckpoint


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Model(lightning.LightningModule):  # type: ignore[misc]
    """Records its training samples."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(FEATURES, 10)
        self.seen: list[list[str]] = []

    def _register_sharded_tensor_state_dict_hooks_if_available(self) -> None:
        """Does nothing: under Python 3.11 the sharded tensors of torch 1.13 cannot be imported, and this test does not use them."""

    def training_step(self, batch: dict[str, Any], _: int) -> torch.Tensor:
        self.seen.append(batch["__key__"])
        return torch.nn.functional.cross_entropy(self.linear(batch["jpg"]), batch["cls"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


def fit(gateway: harness.Gateway, at: Path, workers: int, resume: Optional[str] = None, steps: int = -1) -> Model:
    lightning.seed_everything(1)
    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=3, max_steps=steps, logger=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[ModelCheckpoint(at, "{step}", every_n_train_steps=1, save_top_k=-1)],
    )
    trainer.fit(model, DataLoader(dataset_of(gateway), num_workers=workers), ckpt_path=resume)
    return model


def test_lightning(gateway: harness.Gateway, tmp_path: Path) -> None:
    """Lightning calls set_epoch of the loader's sampler and saves the loader's state in its checkpoints."""
    want = [keys for epoch in range(3) for keys in core_order(gateway, epoch)]
    whole = fit(gateway, tmp_path / "whole", workers=0)
    assert whole.seen == want
    part = fit(gateway, tmp_path / "part", workers=2, steps=22)
    assert part.seen == want[:22]
    rest = fit(gateway, tmp_path / "rest", workers=1, resume=str(tmp_path / "part" / "step=22.ckpt"))
    assert part.seen + rest.seen == want
    assert torch.equal(rest.linear.weight, whole.linear.weight)


def test_accelerate_saves_a_registered_loader(gateway: harness.Gateway, tmp_path: Path) -> None:
    """Accelerate's checkpoints contain a loader that is registered but not prepared."""
    accelerator = Accelerator(cpu=True)
    model, loader = torch.nn.Linear(FEATURES, 10), DataLoader(dataset_of(gateway), num_workers=2)
    model = accelerator.prepare(model)
    accelerator.register_for_checkpointing(loader)
    batches = iter(loader)
    got = [next(batches)["__key__"] for _ in range(7)]
    accelerator.save_state(str(tmp_path / "state"))
    del batches

    again = Accelerator(cpu=True)
    other = DataLoader(dataset_of(gateway), num_workers=0)
    model = again.prepare(model)
    again.register_for_checkpointing(other)
    again.load_state(str(tmp_path / "state"))
    assert got + keys_of(other) == core_order(gateway, 0)


def test_accelerate_prepares_a_loader_of_one_process(gateway: harness.Gateway) -> None:
    """With one process nothing is divided, and Accelerate calls set_epoch of the dataset."""
    accelerator = Accelerator(cpu=True)
    prepared = accelerator.prepare(torch.utils.data.DataLoader(dataset_of(gateway).batches(), batch_size=None, num_workers=1))
    for epoch in range(2):
        assert keys_of(prepared) == core_order(gateway, epoch)


def test_a_loader_is_stateful(gateway: harness.Gateway) -> None:
    from lightning.fabric.utilities.types import _Stateful
    from torchdata.stateful_dataloader import Stateful

    loader = DataLoader(dataset_of(gateway))
    assert isinstance(loader, _Stateful)
    assert isinstance(millrace.torch.Dataset(gateway.url, "photos").samples(), Stateful)
