"""Random augmentation in torch's loaders: equal bit for bit with any number of workers, ranks and threads, and after a resume."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Optional

import harness
import pytest
import torch
from torch.utils import data as torch_data

import millrace
import millrace.importance
import millrace.torch
from millrace import Reading

SAMPLES, BATCH_SIZE, SIDE = 500, 42, 12

Augmented = dict[int, bytes]
"""The bytes of augmented pictures, by their positions."""


@pytest.fixture(autouse=True)
def _few_cores() -> Iterator[None]:
    """Ignores torch's warning about more workers than cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


def pixels(view: memoryview) -> torch.Tensor:
    return torch.frombuffer(bytearray(view[:1200]), dtype=torch.uint8).view(3, 20, 20)


def augment(sample: millrace.Sample) -> dict[str, Any]:
    """A random crop, possibly flipped, with noise from both generators."""
    top, left = sample.rng.randrange(20 - SIDE), sample.rng.randrange(20 - SIDE)
    crop = sample["jpg"][:, top : top + SIDE, left : left + SIDE].float()
    if sample.rng.random() < 0.5:
        crop = crop.flip(2)
    noise = torch.from_numpy(sample.numpy_rng.normal(size=crop.shape)).float()
    return {"position": sample.position, "image": crop + noise * sample.rng.gauss(0, 1), "cls": sample["cls"]}


def big_classes(sample: millrace.Sample) -> bool:
    return bool(sample["cls"] > 2)


def dataset_of(gateway: harness.Gateway, **options: Any) -> millrace.torch.Dataset:
    settings: dict[str, Any] = {"global_batch_size": BATCH_SIZE, "seed": 3, "decode": {"jpg": pixels, "cls": int}, "transform": augment, **options}
    return millrace.torch.Dataset(gateway.url, "photos", **harness.grouped(**settings))


def thread_of(_: millrace.Sample) -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


@pytest.mark.parametrize(("cores", "workers", "threads"), [(1, 4, 1), (2, 4, 1), (2, 2, 1), (4, 2, 2), (64, 2, 2)])
def test_workers_share_the_cores(gateway: harness.Gateway, monkeypatch: pytest.MonkeyPatch, cores: int, workers: int, threads: int) -> None:
    """Forked workers inherit the cores that are set here."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    dataset = dataset_of(gateway, transform=thread_of, global_batch_size=10)
    loader = millrace.torch.DataLoader(dataset, num_workers=workers)
    found = {one for pids, idents in loader for one in zip(pids.tolist(), idents.tolist())}
    each = Counter(pid for pid, _ in found)
    assert len(each) == workers
    assert max(each.values()) <= threads


def augmented(batches: Iterable[Any], into: Optional[Augmented] = None) -> Augmented:
    out: Augmented = {} if into is None else into
    for batch in batches:
        assert batch["image"].shape[1:] == (3, SIDE, SIDE)
        for position, image in zip(batch["position"].tolist(), batch["image"]):
            assert position not in out
            out[position] = image.numpy().tobytes()
    return out


@pytest.fixture
def want(gateway: harness.Gateway) -> Augmented:
    """The batches of one rank from the core's epoch, read in one thread, in order."""
    out: Augmented = {}
    with millrace.Client(gateway.url, "photos") as client:
        alone = Reading(threads=1, prefetch_bytes=0)
        epoch = client.epoch(0, global_batch_size=64, seed=3, decode={"jpg": pixels, "cls": int}, transform=augment, reading=alone)
        for batch in epoch:
            out.update({value["position"]: value["image"].numpy().tobytes() for value in batch.value})
    assert len(out) == len(set(out.values())) == SAMPLES
    return out


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("threads", [1, 8])
def test_augmentation_repeats(gateway: harness.Gateway, want: Augmented, ranks: int, threads: int) -> None:
    for workers in (0, 1, 4):
        got: Augmented = {}
        for rank in range(ranks):
            torch.manual_seed(workers)  # has no effect
            dataset = dataset_of(gateway, rank=rank, world_size=ranks, threads=threads)
            augmented(millrace.torch.DataLoader(dataset, num_workers=workers), got)
        assert got == want


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_augmentation_repeats_in_other_loaders(gateway: harness.Gateway, want: Augmented, method: str) -> None:
    stateful_dataloader = pytest.importorskip("torchdata.stateful_dataloader")
    for loader in (torch_data.DataLoader, stateful_dataloader.StatefulDataLoader):
        batches = loader(dataset_of(gateway).batches(), batch_size=None, num_workers=2, multiprocessing_context=method)
        assert augmented(batches) == want
    single = torch_data.DataLoader(dataset_of(gateway).samples(), batch_size=16, num_workers=3, multiprocessing_context="fork")
    assert augmented(single) == want


@pytest.mark.parametrize(("ranks", "workers"), [(1, 4), (2, 1), (3, 0)])
def test_augmentation_repeats_after_a_resume(gateway: harness.Gateway, want: Augmented, ranks: int, workers: int) -> None:
    """2 ranks with 3 workers begin an epoch, and others continue in the middle of it."""
    got: Augmented = {}
    states = []
    for rank in range(2):
        loader = millrace.torch.DataLoader(dataset_of(gateway, rank=rank, world_size=2), num_workers=3)
        batches = iter(loader)
        augmented([next(batches) for _ in range(5)], got)
        states.append(loader.state_dict())
    assert states[0] == states[1]
    assert len(got) == 5 * BATCH_SIZE
    for rank in range(ranks):
        loader = millrace.torch.DataLoader(dataset_of(gateway, rank=rank, world_size=ranks, threads=8), num_workers=workers)
        loader.load_state_dict(states[0])
        augmented(loader, got)
    assert got == want


@pytest.mark.parametrize("workers", [0, 2])
def test_a_filter_and_a_resume(gateway: harness.Gateway, want: Augmented, workers: int) -> None:
    """A batch that loses some or all samples changes no other batch."""
    options: dict[str, Any] = {"global_batch_size": 3, "filter": big_classes}
    kept: Augmented = {}
    numbers: list[list[int]] = [batch["position"].tolist() for batch in dataset_of(gateway, **options)]
    augmented(dataset_of(gateway, **options), kept)
    assert 300 < len(kept) < 400
    assert kept.items() <= want.items()
    assert len(numbers) < (SAMPLES + 2) // 3
    got: Any = []
    loader = millrace.torch.DataLoader(dataset_of(gateway, **options), num_workers=workers)
    again = millrace.torch.DataLoader(dataset_of(gateway, **options), num_workers=2 - workers)
    try:
        for _, batch in zip(range(60), loader):
            got.append(batch["position"].tolist())
        again.load_state_dict(loader.state_dict())
        got += [batch["position"].tolist() for batch in again]
    except millrace.MillraceError as e:  # its frames would keep the workers alive
        got = str(e)
    assert got == numbers


UNLIKE: dict[str, Any] = {
    "a dict of 'jpg', and of .* a dict of 'jpg', 'cls'": lambda s: {"jpg": 1, "cls": 2} if s.position % 2 else {"jpg": 1},
    "a dict of 'jpg', 'cls', and of .* a dict of 'jpg'": lambda s: {"jpg": 1} if s.position % 2 else {"jpg": 1, "cls": 2},
    "a tuple of 1, and of .* a tuple of 2": lambda s: (1, 2) if s.position % 2 else (1,),
    "a dict of 'jpg', and of .* a tuple of 1": lambda s: (1,) if s.position % 2 else {"jpg": 1},
    "a tuple of 1, and of .* a int": lambda s: 1 if s.position % 2 else (1,),
}


@pytest.mark.parametrize("words", list(UNLIKE))
def test_transformed_samples_of_different_structure_are_refused(gateway: harness.Gateway, words: str) -> None:
    with pytest.raises(millrace.InvalidArgument, match=rf"sample 0 of batch 0 .*: transform returned {words}; have it return"):
        next(iter(dataset_of(gateway, transform=UNLIKE[words])))


def test_a_transform_does_without_the_compiler_of_torch(gateway: harness.Gateway) -> None:
    """The compiler takes seconds and 150 MB to import."""
    program = f"""
import sys, torch, millrace.torch
before = "torch._dynamo" in sys.modules
drawn = lambda s: torch.rand(3) + torch.nn.functional.dropout(torch.ones(3))
dataset = millrace.torch.Dataset({gateway.url!r}, "photos", transform=drawn, decode={{"cls": int}})
next(iter(dataset))
print(before or "torch._dynamo" not in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_that_fails_has_a_name(gateway: harness.Gateway, workers: int) -> None:
    loader = millrace.torch.DataLoader(dataset_of(gateway, transform=_fails_at_seven), num_workers=workers)
    with pytest.raises(millrace.errors.TransformError) as raised:
        list(loader)
    assert (raised.value.step, raised.value.epoch) == ("transform", 0)
    assert raised.value.key is not None
    assert "--key" in raised.value.report()
    skipping = dataset_of(gateway, transform=_fails_at_seven, on_error="skip")
    labels = [label for batch in millrace.torch.DataLoader(skipping, num_workers=workers) for label in batch.tolist()]
    assert len(labels) == SAMPLES * 9 // 10
    assert 7 not in labels


def _fails_at_seven(sample: millrace.Sample) -> int:
    label: int = sample["cls"]
    return [0, 1, 2, 3, 4, 5, 6, 8, 8, 9][label] if label != 7 else [][label]


@pytest.mark.parametrize("made", [(1.5, "a"), [1.5, "a"], 3.0, {"x": 1, "t": "b"}])
def test_what_a_transform_returns_becomes_columns(gateway: harness.Gateway, made: Any) -> None:
    batch = next(iter(dataset_of(gateway, global_batch_size=4, transform=lambda _: made)))
    if isinstance(made, tuple):
        assert torch.equal(batch[0], torch.tensor([1.5] * 4, dtype=batch[0].dtype))
        assert batch[1] == ["a"] * 4
    elif isinstance(made, dict):
        assert batch["x"].tolist() == [1] * 4
        assert batch["t"] == ["b"] * 4
    elif isinstance(made, float):
        assert batch.tolist() == [3.0] * 4
    else:
        assert batch == [made] * 4


def _label_and_position(sample: millrace.Sample) -> tuple[int, int]:
    return sample["cls"], sample.position


def _located(batch: millrace.Batch) -> Any:
    return batch.location, millrace.torch.collate_columns(batch)


@pytest.mark.parametrize("transform", [None, _label_and_position], ids=["columns", "tuples"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_training_loop_reports_losses(gateway: harness.Gateway, workers: int, transform: Any) -> None:
    """Two ranks report losses.

    A second report of the same losses, from batches read without torch, would raise Conflict if any loss were missing.
    """
    seed = 50 + workers + (transform is None)
    where = ""
    for rank in range(2):
        dataset = dataset_of(gateway, rank=rank, world_size=2, seed=seed, transform=transform, batch_transform=_located)
        for where, columns in millrace.torch.DataLoader(dataset, num_workers=workers):
            labels = columns["cls"] if transform is None else columns[0]
            millrace.importance.report(dataset, where, (labels - 4.5).requires_grad_())
    with millrace.Client(gateway.url, "photos") as client:
        for batch in client.epoch(0, seed=seed, decode={"cls": int}, **harness.grouped(global_batch_size=BATCH_SIZE)):
            millrace.importance.report(client, batch, [label - 4.5 for label in batch["cls"]])
        assert millrace.importance.freeze(client, batch) == millrace.importance.freeze(dataset, where)
