"""Real DataLoaders over a real gateway: every number of workers and every start method yields the core's order."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, Optional

import harness
import pytest
import torch
from torch.utils import data as torch_data
from training import features

import millrace
import millrace.torch

BATCH_SIZE = 30
ALL = [f"img-{i:03d}" for i in range(500)]


@pytest.fixture(autouse=True)
def _few_cores() -> Iterator[None]:
    """Ignores torch's warning about more workers than cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


def dataset_of(gateway: harness.Gateway, **options: Any) -> millrace.torch.Dataset:
    settings = {"global_batch_size": BATCH_SIZE, "seed": 3, "decode": {"jpg": features, "cls": int}, "keys": True, **options}
    return millrace.torch.Dataset(gateway.url, "photos", **harness.grouped(**settings))


def core_order(gateway: harness.Gateway, epoch: int, **options: Any) -> list[list[str]]:
    """The samples' names batch by batch, from the core's Epoch."""
    with millrace.Client(gateway.url, "photos") as client:
        opened = client.epoch(epoch, seed=3, **harness.grouped(global_batch_size=BATCH_SIZE, keys=True, **options))
        return [list(b.keys) for b in opened]


def keys_of(batches: Any) -> list[list[str]]:
    return [b["__key__"] for b in batches]


@pytest.mark.parametrize(("workers", "method"), [(0, None), (1, "fork"), (4, "fork"), (1, "spawn"), (4, "spawn"), (2, "forkserver")])
def test_any_workers_yield_the_order(
    gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]], workers: int, method: Optional[str]
) -> None:
    dataset = dataset_of(gateway)
    loader = millrace.torch.DataLoader(dataset, num_workers=workers, multiprocessing_context=method)
    assert (len(loader), len(dataset), len(dataset.samples())) == (17, 17, 500)
    batches = list(loader)
    assert keys_of(batches) == core_order(gateway, 0)
    for b in batches:
        assert b["cls"].tolist() == [int(files[k][1]) for k in b["__key__"]]
        assert torch.equal(b["jpg"], torch.stack([features(memoryview(files[k][0])) for k in b["__key__"]]))


def slow(view: memoryview) -> torch.Tensor:
    time.sleep(0.002)
    return features(view)


@pytest.mark.parametrize(("workers", "method"), [(0, None), (2, "fork"), (2, "spawn")])
def test_stats_are_those_of_all_workers(gateway: harness.Gateway, workers: int, method: Optional[str]) -> None:
    loader = millrace.torch.DataLoader(dataset_of(gateway, decode={"jpg": slow}), num_workers=workers, multiprocessing_context=method)
    assert loader.stats == millrace.Stats()
    for _ in range(2):  # each pass counts from 0
        begun = time.monotonic()
        assert len(list(loader)) == 17
        took, stats = time.monotonic() - begun, loader.stats
        assert stats.batches == 17
        assert isinstance(stats.bytes, int)
        assert stats.bytes > 0
        assert stats.decode_seconds > 500 * 0.002
        assert stats.fetch_seconds > 0
        assert 0 < stats.waiting_seconds <= took
    before = next(iter(loader)) and loader.stats.waiting_seconds
    time.sleep(0.1)  # in the training step
    assert loader.stats.waiting_seconds == before


@pytest.mark.parametrize("workers", [0, 2])
def test_the_next_epoch_follows(gateway: harness.Gateway, workers: int) -> None:
    loader = millrace.torch.DataLoader(dataset_of(gateway), num_workers=workers, persistent_workers=workers > 0)
    for epoch in range(3):
        assert keys_of(loader) == core_order(gateway, epoch)
    loader.set_epoch(7)
    assert keys_of(loader) == core_order(gateway, 7)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_goes_on_with_a_pass_that_was_left(gateway: harness.Gateway, workers: int) -> None:
    dataset = dataset_of(gateway)
    loader = millrace.torch.DataLoader(dataset, num_workers=workers)
    want = core_order(gateway, 0)
    left = iter(loader)
    assert [next(left)["__key__"] for _ in range(5)] == want[:5]
    state = loader.state_dict()
    del left
    assert keys_of(loader) == core_order(gateway, 1)
    loader.load_state_dict(state)
    again = iter(loader)
    assert next(again)["__key__"] == want[5]
    del again
    assert keys_of(loader) == core_order(gateway, 1)


def _own_loader(dataset: millrace.torch.Dataset) -> Any:
    return torch_data.DataLoader(dataset.batches(), batch_size=None)


def _single_samples(dataset: millrace.torch.Dataset) -> Any:
    return torch_data.DataLoader(dataset.samples(), batch_size=40)


def _workers(dataset: millrace.torch.Dataset) -> Any:
    return millrace.torch.DataLoader(dataset, num_workers=2)


@pytest.mark.parametrize(
    ("make", "position"), [(iter, 30), (millrace.torch.DataLoader, 30), (_workers, 30), (_own_loader, 30), (_single_samples, 40)]
)
def test_a_pass_that_was_left_is_logged_once(gateway: harness.Gateway, make: Any, position: int, caplog: pytest.LogCaptureFixture) -> None:
    dataset = dataset_of(gateway)
    next(iter(make(dataset)))
    assert not caplog.messages
    for _ in range(2):
        next(iter(make(dataset)))
    assert caplog.messages == [
        f"photos: epoch 0 was left at position {position} of 500, and this pass reads epoch 1: set_epoch(0) begins epoch 0 again (logged once)"
    ]
    dataset.set_epoch(0)
    assert keys_of(millrace.torch.DataLoader(dataset)) == core_order(gateway, 0)


@pytest.mark.parametrize("make", [iter, millrace.torch.DataLoader, _workers, _own_loader, _single_samples])
def test_a_pass_is_not_logged_as_left(gateway: harness.Gateway, make: Any, caplog: pytest.LogCaptureFixture) -> None:
    dataset = dataset_of(gateway)
    for _ in range(2):  # to the end
        list(make(dataset))
    for _, _ in zip(range(len(make(dataset)) if make is not iter else 17), make(dataset)):  # all batches, but without a request for another one
        pass
    list(make(dataset))
    for _ in range(2):  # set_epoch determines the next epoch
        dataset.set_epoch(0)
        next(iter(make(dataset)))
    assert not caplog.messages


@pytest.mark.parametrize("persistent", [False, True])
def test_torchs_own_loader(gateway: harness.Gateway, persistent: bool) -> None:
    dataset = dataset_of(gateway)
    loader = torch_data.DataLoader(dataset.batches(), batch_size=None, num_workers=3, persistent_workers=persistent)
    for epoch in (0, 1, 4):
        dataset.set_epoch(epoch)
        assert keys_of(loader) == core_order(gateway, epoch)
    with pytest.raises(millrace.torch.StateError, match="only their loader knows"):
        dataset.state_dict()


def test_a_fork_amid_reading(gateway: harness.Gateway) -> None:
    """The child does not use the parent's connections and threads."""
    dataset = dataset_of(gateway)
    ours = iter(dataset)
    got = [next(ours)["__key__"] for _ in range(3)]
    assert keys_of(millrace.torch.DataLoader(dataset, num_workers=2, multiprocessing_context="fork")) == core_order(gateway, 1)
    assert got + keys_of(ours) == core_order(gateway, 0)


def test_ranks_share_every_batch(gateway: harness.Gateway) -> None:
    whole = core_order(gateway, 0)
    ranks = [keys_of(millrace.torch.DataLoader(dataset_of(gateway, rank=r, world_size=3), num_workers=r)) for r in range(3)]
    assert [a + b + c for a, b, c in zip(*ranks)] == whole


def test_workers_end_with_their_pass(gateway: harness.Gateway) -> None:
    before = set(multiprocessing.active_children())
    loader = millrace.torch.DataLoader(dataset_of(gateway), num_workers=2)
    batches = iter(loader)
    next(batches)
    ours = set(multiprocessing.active_children()) - before
    assert len(ours) == 2
    del batches
    assert not [p for p in ours if p.is_alive()]
    assert loader.state_dict()["position"] == 30


def test_more_workers_than_batches(gateway: harness.Gateway) -> None:
    loader = millrace.torch.DataLoader(dataset_of(gateway, global_batch_size=300), num_workers=4)
    assert sorted(k for keys in keys_of(loader) for k in keys) == ALL


def end_of_a_worker(view: memoryview) -> Any:
    """Kills itself, like the kernel when memory is short."""
    if torch_data.get_worker_info() is not None and bytes(view[:1]) == b"7":
        os.kill(os.getpid(), signal.SIGKILL)
    return int(bytes(view))


def test_a_worker_that_is_killed(gateway: harness.Gateway) -> None:
    for _ in range(5):
        loader = millrace.torch.DataLoader(dataset_of(gateway, decode={"jpg": features, "cls": end_of_a_worker}), num_workers=2)
        with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid"):
            list(loader)


@pytest.mark.parametrize("method", ["fork", "forkserver"])
@pytest.mark.parametrize("error", [ConnectionResetError(104, "Connection reset by peer"), EOFError()])
def test_a_worker_that_is_killed_while_its_tensors_are_asked_for(
    gateway: harness.Gateway, monkeypatch: pytest.MonkeyPatch, error: Exception, method: str
) -> None:
    """torch may find the worker's closed socket before it has noticed the worker's end."""
    loader = millrace.torch.DataLoader(dataset_of(gateway), num_workers=2, multiprocessing_context=method)
    batches = iter(loader)
    next(batches)
    inner = batches._batches  # type: ignore[attr-defined]

    def broken() -> Any:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # as if torch's handler ran later
        os.kill(inner._workers[1].pid, signal.SIGKILL)
        raise error

    before = signal.getsignal(signal.SIGCHLD)
    monkeypatch.setattr(inner, "_next_data", broken)
    try:
        with pytest.raises(RuntimeError, match=rf"^DataLoader worker \(pid {inner._workers[1].pid}\) is killed by signal: Killed"):
            next(batches)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_decoder_that_fails_in_a_worker(gateway: harness.Gateway) -> None:
    loader = millrace.torch.DataLoader(dataset_of(gateway, decode={"jpg": _broken}), num_workers=2, persistent_workers=True)
    for _ in range(2):
        before = set(multiprocessing.active_children())
        batches = iter(loader)
        ours = set(multiprocessing.active_children()) - before
        with pytest.raises(millrace.errors.DecodeError, match="this is no photo") as raised:
            next(batches)
        assert str(raised.value).count("leave such samples out") == 1
        assert len(ours) == 2
        assert not [p for p in ours if p.is_alive()]
        with pytest.raises(millrace.errors.Closed, match="ended at batch 0, with the exception before"):
            next(batches)


@pytest.mark.parametrize(("workers", "factor"), [(0, 2), (0, 5), (2, 2), (2, 3)])
def test_what_is_decoded_ahead_is_bounded(gateway: harness.Gateway, workers: int, factor: int) -> None:
    """prefetch_factor counts the decoded batches of a worker, in its reader and in the loader's queues together."""
    dataset = dataset_of(gateway, global_batch_size=10, decode={"cls": _Counting()}, fields="cls", keys=False)
    count = dataset._options["decode"]["cls"].count
    most = factor * max(workers, 1)
    for taken, _ in enumerate(millrace.torch.DataLoader(dataset, num_workers=workers, prefetch_factor=factor, timeout=60 * bool(workers)), 1):
        if taken in (3, 20):
            end = time.monotonic() + 60
            while count.value < 10 * (taken + most):  # decoding continues up to this limit
                assert time.monotonic() < end, count.value
                time.sleep(0.001)
        assert count.value <= 10 * (taken + most)


@pytest.mark.parametrize("decoded_bytes", [0, 60_000])
def test_what_decoders_return_is_bounded(gateway: harness.Gateway, decoded_bytes: int) -> None:
    """A batch has 50 samples of 400 bytes, 20,000 in total. The next batch is decoded even beyond the limit."""
    dataset = dataset_of(gateway, global_batch_size=50, decode={"cls": _large}, fields="cls", keys=False, decoded_bytes=decoded_bytes)
    dataset.prefetch_factor = 100
    reader = dataset.epoch().read()
    with reader:
        for batch in reader:
            assert batch.value["cls"].shape == (50, 100)
            assert reader.stats.decoded_bytes <= max(20_000, decoded_bytes)
            assert not batch._decoded  # waiting batches are not stored twice


def _large(view: memoryview) -> torch.Tensor:
    return torch.full((100,), int(bytes(view)), dtype=torch.float32)


class _Counting:
    """A decoder that counts its calls in all processes together."""

    def __init__(self) -> None:
        self.count = multiprocessing.Value("q", 0)

    def __call__(self, view: memoryview) -> int:
        with self.count:
            self.count.value += 1
        return int(bytes(view))


def _broken(view: memoryview) -> int:
    raise ValueError(f"this is no photo: {len(view)} bytes")


def _first_sizes(samples: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(s["__key__"], len(s["jpg"])) for s in samples]


def _number(batch: millrace.Batch) -> tuple[int, int]:
    return batch.number, len(batch)


def test_collate_and_transform(gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]]) -> None:
    for batch in dataset_of(gateway, decode=None, collate=_first_sizes):
        assert batch == [(k, len(files[k][0])) for k, _ in batch]
    numbers = list(millrace.torch.DataLoader(dataset_of(gateway, batch_transform=_number), num_workers=2))
    assert numbers == [(m, min(30, 500 - 30 * m)) for m in range(17)]
    with pytest.raises(millrace.InvalidArgument, match="only one"):
        dataset_of(gateway, collate=_first_sizes, batch_transform=_number)


def views_of(batch: millrace.Batch) -> dict[str, Any]:
    return {"cls": batch["cls"], "all": batch.data[:10]}


def itself(batch: millrace.Batch) -> millrace.Batch:
    return batch


def test_views_travel_as_copies_and_batches_not_at_all(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url, "photos") as client:
        want = client.epoch(0, global_batch_size=BATCH_SIZE, seed=3).batch(0)
    loader = millrace.torch.DataLoader(dataset_of(gateway, decode=None, keys=False, batch_transform=views_of), num_workers=1, timeout=60)
    got = next(iter(loader))
    assert (got["cls"], got["all"]) == (want["cls"], want.data[:10])
    with pytest.raises(millrace.InvalidArgument, match="a Batch cannot go"):
        next(iter(millrace.torch.DataLoader(dataset_of(gateway, decode=None, batch_transform=itself), num_workers=1, timeout=60)))
    assert len(next(iter(millrace.torch.DataLoader(dataset_of(gateway, decode=None, batch_transform=itself))))) == BATCH_SIZE


def test_what_does_not_stack_is_named(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway, decode={"jpg": _all_of_it})
    with pytest.raises(millrace.InvalidArgument, match=r"stack part jpg of batch 0 of epoch 0"):
        next(iter(dataset))


def _all_of_it(view: memoryview) -> torch.Tensor:
    return torch.frombuffer(bytearray(view), dtype=torch.uint8)


def test_without_a_decoder_a_part_is_bytes(gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]]) -> None:
    batch = next(iter(dataset_of(gateway, decode=None, fields="cls")))
    assert batch == {"cls": [files[k][1] for k in batch["__key__"]], "__key__": batch["__key__"]}


@pytest.mark.parametrize("kind", [millrace.torch.Dataset, millrace.torch.MapDataset])
def test_a_closed_dataset_lets_go_of_its_own_client(gateway: harness.Gateway, kind: Any) -> None:
    with kind(gateway.url, "photos", decode=False) as dataset:
        next(iter(dataset))
    with pytest.raises(millrace.errors.Closed):
        next(iter(dataset))
    with millrace.Client(gateway.url, "photos") as client:
        with kind(client):
            pass
        assert client.describe()["name"] == "photos"


def test_a_dataset_can_be_pickled(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway, epoch=2)
    copy = pickle.loads(pickle.dumps(dataset))
    assert keys_of(copy) == core_order(gateway, 2)


def test_wrong_names_are_said_at_once(gateway: harness.Gateway) -> None:
    with pytest.raises(millrace.NotFound):
        millrace.torch.Dataset(gateway.url, "no-such-dataset")
    with pytest.raises(millrace.InvalidArgument, match="belong together"):
        dataset_of(gateway, rank=1)
    for option in ("batch_size", "drop_last"):
        with pytest.raises(millrace.InvalidArgument, match="Dataset"):
            millrace.torch.DataLoader(dataset_of(gateway), **{option: 1})


def test_without_torch() -> None:
    program = "import sys; sys.modules['torch'] = None\nimport millrace\ntry:\n  import millrace.torch\nexcept ImportError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "millrace.torch needs torch, which is not installed: pip install 'millrace-data[torch]'\n"


DROPS = """
import sys, millrace.torch

for make in (millrace.torch.Dataset, millrace.torch.MapDataset):
    dataset = make(sys.argv[1], "photos", decode=False)
    next(iter(millrace.torch.DataLoader(dataset))) if make is millrace.torch.Dataset else dataset[0]
"""


def test_a_dataset_that_is_dropped_closes_its_connections(gateway: harness.Gateway) -> None:
    warns = [sys.executable, "-W", "error::ResourceWarning", "-c", DROPS, gateway.url]
    done = subprocess.run(warns, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
