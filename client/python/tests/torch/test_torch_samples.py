"""torch loaders with a batch_size: dataset.samples() yields single samples, from which they make batches."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator
from typing import Any, Optional

import harness
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import GradientState, PartialState
from test_torch_loader import ALL, core_order, dataset_of, keys_of
from torch.utils import data as torch_data
from torchdata.stateful_dataloader import StatefulDataLoader

import millrace
import millrace.torch


@pytest.fixture(autouse=True)
def _few_cores() -> Iterator[None]:
    """Ignores torch's warning about more workers than cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


def flat(batches: Any) -> list[str]:
    return list(itertools.chain.from_iterable(keys_of(batches)))


def order(gateway: harness.Gateway, epoch: int) -> list[str]:
    return list(itertools.chain.from_iterable(core_order(gateway, epoch)))


@pytest.mark.parametrize("make", [torch_data.DataLoader, StatefulDataLoader])
@pytest.mark.parametrize(("workers", "method"), [(0, None), (1, "fork"), (3, "fork"), (2, "spawn")])
def test_a_batch_size_of_the_loaders_own(
    gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]], make: Any, workers: int, method: Optional[str]
) -> None:
    loader = make(dataset_of(gateway).samples(), batch_size=8, num_workers=workers, multiprocessing_context=method)
    assert len(loader) == 63
    for epoch in range(2):
        batches = list(loader)
        for b in batches:
            assert b["cls"].tolist() == [int(files[k][1]) for k in b["__key__"]]
        if workers < 2:
            assert [len(k) for k in keys_of(batches)] == [8] * 62 + [4]
            assert flat(batches) == order(gateway, epoch)
        assert sorted(flat(batches)) == ALL


def test_a_chain_of_datasets(gateway: harness.Gateway) -> None:
    one, two = dataset_of(gateway), dataset_of(gateway, epoch=1)
    samples, batches = one.samples() + two.samples(), one.batches() + two.batches()
    assert flat(torch_data.DataLoader(samples, batch_size=7)) == order(gateway, 0) + order(gateway, 1)
    assert keys_of(torch_data.DataLoader(batches, batch_size=None)) == core_order(gateway, 1) + core_order(gateway, 2)
    assert (len(torch_data.DataLoader(samples, batch_size=7)), len(torch_data.DataLoader(batches, batch_size=None))) == (143, 34)


def test_torchs_defaults(gateway: harness.Gateway) -> None:
    loader = torch_data.DataLoader(dataset_of(gateway).samples())
    assert len(loader) == 500
    assert next(iter(loader))["jpg"].shape == (1, 16)
    assert len(torch_data.DataLoader(dataset_of(gateway).samples(), batch_size=8, drop_last=True)) == 62


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("options", [{}, {"batch_size": 8}, {"batch_size": None}, {"shuffle": True}])
def test_a_loader_of_torchs_refuses_a_dataset_of_batches(gateway: harness.Gateway, options: dict[str, Any], workers: int) -> None:
    """The loader would make batches of batches."""
    loader = torch_data.DataLoader(dataset_of(gateway), num_workers=workers, **options)
    with pytest.raises(millrace.InvalidArgument, match=r"a Dataset has batches.*; read millrace.torch.DataLoader\(dataset\); .* dataset.samples\(\)"):
        next(iter(loader))


def test_the_tutorials_line(gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]]) -> None:
    """Uses size = len(dataloader.dataset), num_batches = len(dataloader), correct / size."""
    loader = torch_data.DataLoader(dataset_of(gateway).samples(), batch_size=64)
    correct = sum((b["cls"] == 3).sum().item() for b in loader)
    assert correct / len(loader.dataset) == sum(cls == b"3" for _, cls in files.values()) / 500  # type: ignore[arg-type]


def test_ranks_get_their_own_samples(gateway: harness.Gateway) -> None:
    seen = []
    for rank in range(3):
        loader = torch_data.DataLoader(dataset_of(gateway, rank=rank, world_size=3).samples(), batch_size=7)
        batches = list(loader)
        assert len(loader.dataset) == len(flat(batches))  # type: ignore[arg-type]
        assert len(batches) == len(loader)
        seen += flat(batches)
    assert sorted(seen) == ALL


def _third(sample: millrace.Sample) -> bool:
    return sample["cls"] % 3 == 0


def _pair(sample: millrace.Sample) -> tuple[torch.Tensor, int]:
    return sample["jpg"] * 2, sample["cls"]


def test_transform_and_filter(gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]]) -> None:
    dataset = dataset_of(gateway, transform=_pair, filter=_third, keys=False)
    got = [label for images, labels in torch_data.DataLoader(dataset.samples(), batch_size=8) for label in labels.tolist()]
    assert sorted(got) == sorted(int(cls) for _, cls in files.values() if int(cls) % 3 == 0)
    assert next(iter(dataset))[0].shape[1:] == (16,)


def _keys(samples: list[dict[str, Any]]) -> list[str]:
    return [s["__key__"] for s in samples]


def test_what_makes_batches_is_refused(gateway: harness.Gateway) -> None:
    for name, function in (("collate", _keys), ("batch_transform", len)):
        with pytest.raises(millrace.InvalidArgument, match=rf"read samples: {name} makes batches of them; give collate_fn"):
            dataset_of(gateway, **{name: function}).samples()
    assert next(iter(torch_data.DataLoader(dataset_of(gateway).samples(), batch_size=8, collate_fn=_keys))) == order(gateway, 0)[:8]


def test_filtered_batches_are_counted(gateway: harness.Gateway) -> None:
    """Every loader skips batches without remaining samples, but a state counts them."""

    want = [[k] for k in order(gateway, 0) if k < "img-020"]
    for workers in (0, 3):
        loader = millrace.torch.DataLoader(dataset_of(gateway, global_batch_size=1, filter=_first_twenty), num_workers=workers)
        batches = iter(loader)
        got = [next(batches)["__key__"] for _ in range(7)]
        state = loader.state_dict()
        del batches
        other = millrace.torch.DataLoader(dataset_of(gateway, global_batch_size=1, filter=_first_twenty), num_workers=2)
        other.load_state_dict(state)
        assert got + keys_of(other) == want
        plain = torch_data.DataLoader(dataset_of(gateway, global_batch_size=1, filter=_first_twenty).batches(), batch_size=None, num_workers=workers)
        assert sorted(keys_of(plain)) == sorted(want)


def _first_twenty(sample: millrace.Sample) -> bool:
    return sample.key < "img-020"


def test_resume_amid_a_batch(gateway: harness.Gateway) -> None:
    seed = random.randrange(1 << 32)
    r = random.Random(seed)
    want, seen, state = order(gateway, 0) + order(gateway, 1), list[str](), None
    while len(seen) < 1000:
        dataset = dataset_of(gateway)
        if state is not None:
            dataset.load_state_dict(state)
        left = -len(seen) % 500 or 500
        size = r.choice([1, 7, 8, 30, 64])
        seen += flat(itertools.islice(torch_data.DataLoader(dataset.samples(), batch_size=size), min(r.randrange(1, 9), -(-left // size))))
        state = dataset.state_dict()
        assert state["position"] == len(seen) % 500
        assert seen == want[: len(seen)], f"seed {seed}"


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_begin_amid_a_batch(gateway: harness.Gateway, workers: int) -> None:
    dataset = dataset_of(gateway)
    next(iter(torch_data.DataLoader(dataset.samples(), batch_size=47)))
    other = dataset_of(gateway)
    other.load_state_dict(dataset.state_dict())
    assert sorted(flat(torch_data.DataLoader(other.samples(), batch_size=8, num_workers=workers))) == sorted(order(gateway, 0)[47:])


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_stateful_loader_resumes_amid_a_batch(gateway: harness.Gateway, workers: int) -> None:
    whole = flat(StatefulDataLoader(dataset_of(gateway).samples(), batch_size=8, num_workers=workers))
    assert sorted(whole) == ALL
    r = random.Random(workers)
    seen: list[str] = []
    state: Any = None
    while len(seen) < len(whole):
        loader = StatefulDataLoader(dataset_of(gateway).samples(), batch_size=8, num_workers=workers)
        if state is not None:
            loader.load_state_dict(state)
        batches = iter(loader)
        steps = r.randrange(1, 20)
        seen += flat(itertools.islice(batches, steps))
        state = loader.state_dict()
        del batches
    assert seen == whole


def test_a_state_amid_a_batch_goes_on_elsewhere(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway)
    next(iter(torch_data.DataLoader(dataset.samples(), batch_size=47)))
    state = dataset.state_dict()
    assert state["position"] == 47
    others = [millrace.torch.DataLoader(dataset_of(gateway, rank=r, world_size=2, global_batch_size=40)) for r in range(2)]
    for other in others:
        other.load_state_dict(state)
    assert [[len(keys) for keys in keys_of(other)][:2] for other in others] == [[16, 20], [17, 20]]
    whole = dataset_of(gateway)
    whole.load_state_dict(state)
    assert flat(whole) == order(gateway, 0)[47:]


def test_ranks_save_no_state_within_a_batch(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway, rank=1, world_size=3)
    batches = iter(torch_data.DataLoader(dataset.samples(), batch_size=5))
    next(batches)
    with pytest.raises(millrace.torch.StateError, match="save state: rank 1 of 3 is within its share of a batch; save where a batch ends"):
        dataset.state_dict()
    next(batches)
    assert dataset.state_dict()["position"] == 30
    dataset = dataset_of(gateway, rank=1, world_size=3, filter=_third)
    assert len(list(itertools.islice(dataset.samples(), 30))) == 30
    with pytest.raises(millrace.torch.StateError, match="is within its share"):
        dataset.state_dict()


class Prepared:
    """A loader that Accelerate has prepared and that is being iterated, according to its state. It sends samples to other processes."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.dataset, self.skip_batches = loader, loader.dataset, 0

    def __iter__(self) -> Iterator[Any]:
        GradientState()._add_dataloader(self)
        yield from self.loader
        GradientState()._remove_dataloader(self)


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The state of Accelerate in the second of two processes."""
    Accelerator(cpu=True)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(PartialState._shared_state, "num_processes", 2)
    yield
    GradientState._reset_state()


@pytest.mark.usefixtures("two_processes")
@pytest.mark.parametrize(("workers", "method"), [(0, None), (2, "fork"), (2, "spawn")])
def test_who_shares_out_gets_all_samples(gateway: harness.Gateway, workers: int, method: Optional[str]) -> None:
    loader = torch_data.DataLoader(dataset_of(gateway).samples(), batch_size=10, num_workers=workers, multiprocessing_context=method)
    assert len(loader) == 50
    assert sorted(flat(Prepared(loader))) == ALL
    assert len(keys_of(millrace.torch.DataLoader(dataset_of(gateway), num_workers=workers, multiprocessing_context=method))) == 17  # 250 samples
    half = dataset_of(gateway, rank=1, world_size=2).samples()
    own = torch_data.DataLoader(half, batch_size=10, num_workers=workers, multiprocessing_context=method)
    assert len(own) == 25
    assert len(flat(own)) == 250


@pytest.mark.usefixtures("two_processes")
@pytest.mark.parametrize(("workers", "method"), [(0, None), (2, "fork"), (2, "spawn")])
def test_what_cannot_be_shared_out_is_refused(gateway: harness.Gateway, workers: int, method: Optional[str]) -> None:
    given: dict[str, Any] = {"num_workers": workers, "multiprocessing_context": method}
    loader = Prepared(torch_data.DataLoader(dataset_of(gateway, rank=0, world_size=2).samples(), batch_size=10, **given))
    with pytest.raises(millrace.InvalidArgument, match=r"rank 0 of 2: Accelerate shares samples out too, among 2 processes; leave out Share"):
        next(iter(loader))
    plain = torch_data.DataLoader(dataset_of(gateway).samples(), batch_size=10, **given)
    with pytest.raises(millrace.InvalidArgument, match=r"runs 2 processes, and has not prepared this loader: .*; give .* to Accelerator.prepare"):
        next(iter(plain))
    batches = Prepared(torch_data.DataLoader(dataset_of(gateway).batches(), batch_size=None, **given))
    with pytest.raises(millrace.InvalidArgument, match=r"share the batches of one rank out among 2 processes; prepare millrace.torch.DataLoader"):
        next(iter(batches))
    stateful = StatefulDataLoader(dataset_of(gateway).samples(), batch_size=10, num_workers=workers)
    with pytest.raises(millrace.torch.StateError, match="Accelerate shares samples out among 2 processes, and reads ahead"):
        [stateful.state_dict() for _ in Prepared(stateful)]


@pytest.mark.usefixtures("two_processes")
def test_a_loader_that_skips_begins_the_epoch_that_it_resumes(gateway: harness.Gateway) -> None:
    """Up to version 1.14, Accelerate calls set_epoch(0) in every epoch."""
    dataset = dataset_of(gateway)
    loader = Prepared(torch_data.DataLoader(dataset.samples(), batch_size=10))
    loader.skip_batches = 3
    GradientState()._add_dataloader(loader)
    loader.dataset.set_epoch(4)
    loader.dataset.set_epoch(0)
    assert dataset.place == (4, 0)
    loader.skip_batches = 0
    loader.dataset.set_epoch(0)
    assert dataset.place == (0, 0)
