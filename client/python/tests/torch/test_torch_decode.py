"""Datasets of tensors without explicit decoders, and loaders that receive a sample that cannot be decoded."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Optional

import harness
import numpy as np
import pytest
import torch
from test_decode import BAD, SAMPLES, key, mixed, picture  # noqa: F401
from torch.utils import data as torch_data
from torchvision.transforms.functional import pil_to_tensor

import millrace
import millrace.torch
from millrace import Reading
from millrace._process import LARGE, Buffers
from millrace.torch._columns import as_tensor
from millrace.values import Automatic

PARTS = "png,cls,txt,npy,xyz"


@pytest.fixture(autouse=True)
def _few_cores() -> Iterator[None]:
    """Ignores torch's warning about more workers than cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


@pytest.mark.parametrize(("workers", "method"), [(0, None), (2, "fork"), (1, "spawn")])
def test_tensors(mixed: harness.Gateway, workers: int, method: Optional[str]) -> None:  # noqa: F811
    dataset = millrace.torch.Dataset(mixed.url, fields=PARTS, reading=Reading(on_error="skip", keys=True))
    seen = []
    for batch in millrace.torch.DataLoader(dataset, num_workers=workers, multiprocessing_context=method):
        labels = batch["cls"].tolist()
        assert batch["png"].dtype is torch.uint8
        assert torch.equal(batch["png"], torch.stack([pil_to_tensor(picture(i)) for i in labels]))
        assert torch.equal(batch["npy"], torch.stack([torch.arange(3) + i for i in labels]))
        assert batch["txt"] == [f"é {i}" for i in labels]
        assert batch["xyz"] == [b"%d" % i for i in labels]
        assert batch["__key__"] == [key(i) for i in labels]
        seen += labels
    assert sorted(seen) == [i for i in range(SAMPLES) if i != BAD]


def test_samples_by_number(mixed: harness.Gateway) -> None:  # noqa: F811
    samples = millrace.torch.MapDataset(mixed.url, fields="png,txt")
    assert samples[0]["png"].shape == (3, 6, 8)
    assert samples[0]["txt"] == "é 0"
    assert isinstance(millrace.torch.MapDataset(mixed.url, fields="txt", decode=False)[0]["txt"], bytes)
    bare = next(iter(millrace.torch.Dataset(mixed.url, fields="txt", decode=False)))
    assert all(isinstance(v, bytes) for v in bare["txt"])
    with pytest.raises(millrace.errors.CannotDecode, match="'pkl'"):
        next(iter(millrace.torch.Dataset(mixed.url)))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("ours", [True, False])
def test_a_sample_that_cannot_be_decoded_has_a_name(mixed: harness.Gateway, workers: int, ours: bool) -> None:  # noqa: F811
    dataset = millrace.torch.Dataset(mixed.url, fields="png", seed=3)
    if ours:
        loader: Any = millrace.torch.DataLoader(dataset, num_workers=workers)
    else:
        loader = torch_data.DataLoader(dataset.batches(), batch_size=None, num_workers=workers)
    batches = iter(loader)
    with pytest.raises(millrace.errors.DecodeError) as raised:
        list(batches)
    assert (raised.value.part, raised.value.key, raised.value.epoch) == ("png", key(BAD), 0)
    assert "--key" in raised.value.report()
    if ours:
        with pytest.raises(millrace.errors.Closed, match="with the exception before") as closed:
            next(batches)
        assert "address" not in str(closed.value)


def test_what_tensors_are_made_of() -> None:
    for mode in ("L", "RGB", "RGBA", "CMYK", "1", "I", "F"):
        image = picture(3).convert(mode)
        assert torch.equal(as_tensor(image), pil_to_tensor(image)), mode
    for dtype, want in (("uint16", torch.int32), (">u2", torch.int32), ("uint32", torch.int64), (">f4", torch.float32), ("bool", torch.bool)):
        made = as_tensor(np.array([[1, 0]], dtype))
        assert (made.dtype, made.tolist()) == (want, [[1, 0]])
    assert as_tensor(np.array(2.5)).shape == ()
    assert as_tensor(np.array([2**63 - 1], "uint64")).tolist() == [2**63 - 1]
    with pytest.raises(ValueError, match="too large"):
        as_tensor(np.array([2**63], "uint64"))
    assert isinstance(as_tensor(np.array(["2026"], "M8[Y]")), np.ndarray)
    automatic = Automatic(finish=as_tensor).of({"fields": [{"name": "w", "encoding": "raw", "type": "list<float>"}]}, False)
    decoder = automatic("w")
    assert decoder is not None
    assert torch.equal(decoder(memoryview(b"\0\0\x80\x3f")), torch.ones(1))


def test_large_columns_lie_in_memory_that_is_used_again(mixed: harness.Gateway, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    def large(view: memoryview) -> torch.Tensor:
        return torch.full((1 << 20,), int(view), dtype=torch.uint8)

    lent, take = [], Buffers.take

    def spy(self: Buffers, size: int) -> memoryview:
        view = take(self, size)
        if size >= LARGE:
            lent.append(view.obj)
        return view

    monkeypatch.setattr(Buffers, "take", spy)
    dataset = millrace.torch.Dataset(mixed.url, fields="cls", global_batch_size=2, decode={"cls": large})
    want = [batch["cls"] for batch in dataset.client.epoch(0, fields="cls", global_batch_size=2, decode={"cls": int})]
    held = list(dataset)  # memory that is still held is not reused
    assert [column[:, 0].tolist() for column in (batch["cls"] for batch in held)] == want
    assert all(bool((row == row[0]).all()) for batch in held for row in batch["cls"])
    assert len(lent) == len({id(b) for b in lent}) == len(want)
    del held
    lent.clear()
    dataset.set_epoch(0)
    assert [batch["cls"][:, 0].tolist() for batch in dataset] == want
    assert len(lent) == len(want)
    assert len({id(b) for b in lent}) < len(want)
