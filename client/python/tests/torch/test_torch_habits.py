"""Habits from other libraries: they either work, or are refused with a suggestion."""

from __future__ import annotations

import copy
import itertools
import multiprocessing
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
import torch
from test_torch_loader import core_order, dataset_of, keys_of
from torch.utils import data as torch_data
from torchdata.stateful_dataloader import StatefulDataLoader

import millrace
import millrace.torch
from millrace import Order, Reading, Share

LOADERS: dict[str, Callable[[Any, int], Any]] = {
    "ours": lambda d, workers: millrace.torch.DataLoader(d, num_workers=workers),
    "torch": lambda d, workers: torch_data.DataLoader(d.batches(), batch_size=None, num_workers=workers),
    "torchdata": lambda d, workers: StatefulDataLoader(d.batches(), batch_size=None, num_workers=workers),
}


@pytest.fixture(autouse=True)
def _few_cores() -> Iterator[None]:
    """Ignores torch's warning about more workers than cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


def some(batches: Any, n: int) -> list[list[str]]:
    return keys_of(itertools.islice(iter(batches), n))


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("which", list(LOADERS))
def test_the_next_pass_is_of_the_next_epoch(gateway: harness.Gateway, which: str, workers: int) -> None:
    dataset = dataset_of(gateway)
    loader = LOADERS[which](dataset, workers)
    wants = [core_order(gateway, epoch) for epoch in range(8)]
    assert (len(loader), len(dataset)) == (17, 17)  # does not change the position
    assert some(loader, 4) == wants[0][:4]
    assert some(loader, 1) == wants[1][:1]
    assert keys_of(loader) == wants[2]
    assert keys_of(loader) == wants[3]
    dataset.set_epoch(3)
    assert some(loader, 2) == wants[3][:2]
    dataset.set_epoch(3)
    assert some(loader, 2) == wants[3][:2]
    dataset.set_epoch(6)
    assert keys_of(loader) == wants[6]
    assert some(loader, 3) == wants[7][:3]


def test_plain_passes(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway)
    wants = [core_order(gateway, epoch) for epoch in range(4)]
    assert keys_of(list(dataset)) == wants[0]
    iter(dataset), iter(dataset)  # no batch is taken from these
    for batch in dataset:
        assert batch["__key__"] == wants[1][0]
        break
    assert dataset.state_dict()["epoch"] == 1
    assert dataset.state_dict()["position"] == 30
    assert dataset.place == (2, 0)
    left = iter(dataset)
    assert next(left)["__key__"] == wants[2][0]
    assert keys_of(dataset) == wants[3]
    assert keys_of(left) == wants[2][1:]  # a pass continues at its position
    assert dataset.place == (4, 0)


def test_persistent_workers(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway)
    loader = torch_data.DataLoader(dataset.batches(), batch_size=None, num_workers=2, persistent_workers=True)
    for epoch in range(3):
        assert keys_of(loader) == core_order(gateway, epoch)
    assert some(loader, 3) == core_order(gateway, 3)[:3]
    assert keys_of(loader) == core_order(gateway, 4)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("kind", [millrace.torch.Dataset, millrace.torch.MapDataset])
@pytest.mark.parametrize(
    ("name", "options"),
    [("transform", {"transform": lambda sample: sample["cls"]}), ("decode['cls']", {"decode": {"cls": lambda view: int(view)}})],
)
def test_a_lambda_is_refused_before_a_worker_is_spawned(gateway: harness.Gateway, method: str, kind: Any, name: str, options: Any) -> None:
    with kind(gateway.url, **options) as dataset:
        loader = torch_data.DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context=method)
        with pytest.raises(millrace.InvalidArgument, match=rf"start a worker: {re.escape(name)} cannot be sent .*; write the function with def"):
            next(iter(loader))
        assert copy.deepcopy(dataset) is not None


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_passes_of_workers_that_begin_at_the_same_time(gateway: harness.Gateway, method: str) -> None:
    """The workers of two passes start in any order, with the same torch seed. Each pass still reads a single epoch."""
    loader = torch_data.DataLoader(dataset_of(gateway).batches(), batch_size=None, num_workers=3, multiprocessing_context=method)
    passes = []
    for _ in range(2):
        torch.manual_seed(0)
        passes.append(iter(loader))
    got = [keys_of(p) for p in passes]
    assert sorted(got) == sorted([core_order(gateway, 0), core_order(gateway, 1)])


def test_a_state_goes_on_after_a_left_pass(gateway: harness.Gateway) -> None:
    loader = millrace.torch.DataLoader(dataset_of(gateway), num_workers=2)
    assert some(loader, 5) == core_order(gateway, 0)[:5]
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (0, 150)
    assert some(loader, 2) == core_order(gateway, 1)[:2]
    loader.load_state_dict(state)
    loader.set_epoch(0)  # as trainers do before each pass: the position in the epoch stays
    assert keys_of(loader) == core_order(gateway, 0)[5:]
    assert some(loader, 2) == core_order(gateway, 1)[:2]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_resumes_and_goes_on_to_the_next_epoch(gateway: harness.Gateway, workers: int) -> None:
    loader = StatefulDataLoader(dataset_of(gateway).batches(), batch_size=None, num_workers=workers)
    some(loader, 2)
    batches = iter(loader)
    got = some(batches, 5)
    state = loader.state_dict()
    del batches
    other = StatefulDataLoader(dataset_of(gateway).batches(), batch_size=None, num_workers=workers)
    other.load_state_dict(state)
    assert got + keys_of(other) == core_order(gateway, 1)
    assert some(other, 3) == core_order(gateway, 2)[:3]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_a_copy_moves_by_itself(gateway: harness.Gateway, copied: Callable[[Any], Any]) -> None:
    dataset = dataset_of(gateway)
    some(dataset, 1)
    other = copied(dataset)
    loader = torch_data.DataLoader(other.batches(), batch_size=None, num_workers=2)
    assert some(loader, 1) == core_order(gateway, 1)[:1]
    assert some(loader, 1) == core_order(gateway, 2)[:1]
    assert dataset.place == (1, 0)


def _in_a_child(dataset: Any, said: Any) -> None:
    said.put([some(dataset, 2), some(dataset, 2)])


def test_a_forked_process_moves_by_itself(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway)
    some(dataset, 1)
    context = multiprocessing.get_context("fork")
    said = context.Queue()
    child = context.Process(target=_in_a_child, args=(dataset, said))
    child.start()
    assert said.get(timeout=60) == [core_order(gateway, epoch)[:2] for epoch in (1, 2)]
    child.join()
    assert dataset.place == (1, 0)


def test_shuffle_is_yes_or_no(gateway: harness.Gateway) -> None:
    stored = core_order(gateway, 0, shuffle="none")
    assert stored != core_order(gateway, 0)
    assert keys_of(dataset_of(gateway, shuffle=False)) == core_order(gateway, 0, shuffle=False) == stored
    assert keys_of(dataset_of(gateway, shuffle=True)) == core_order(gateway, 0, shuffle=True) == core_order(gateway, 0)
    assert keys_of(millrace.torch.DataLoader(dataset_of(gateway), shuffle=False)) == stored
    assert keys_of(millrace.torch.DataLoader(dataset_of(gateway), shuffle=True)) == core_order(gateway, 0)
    assert keys_of(millrace.torch.DataLoader(dataset_of(gateway, shuffle="none"), shuffle=False)) == stored
    for said, loader_says in ((False, True), ("slot", False)):
        with pytest.raises(millrace.InvalidArgument, match="say it to one of them"):
            millrace.torch.DataLoader(dataset_of(gateway, shuffle=said), shuffle=loader_says)
    samples = millrace.torch.MapDataset(gateway.url, "photos", decode=False, seed=3, shuffle=True, reading=Reading(keys=True))
    assert [samples[i]["__key__"] for i in range(3)] != stored[0][:3]


@pytest.mark.parametrize(
    ("word", "value", "instead"),
    [
        ("drop_last", True, "tail='drop'"),
        ("num_workers", 2, r"millrace.torch.DataLoader\(dataset, num_workers"),
        ("transforms", len, "decode="),
        ("collate_fn", len, "collate="),
        ("start", 5, "(load_state_dict|reads what it is asked for)"),
        ("progress", True, "tqdm"),
        ("remote", "s3://train/photos", "first argument"),
        ("shuffle_seed", 1, "seed="),
        ("loader", len, "decode="),
        ("buffer_size", 1000, "shuffle='slot'"),
        ("resampled", True, "each sample once"),
        ("streaming", True, "nothing is copied"),
        ("root", "data", "first argument"),
        ("train", True, "split='train'"),
    ],
)
def test_words_of_others_are_told_ours(word: str, value: Any, instead: str) -> None:
    """The refusal comes without a request: there is no gateway at this address."""
    for kind in (millrace.torch.Dataset, millrace.torch.MapDataset):
        with pytest.raises(millrace.InvalidArgument, match=rf"{word} is no parameter here; .*{instead}"):
            kind("http://127.0.0.1:1", "photos", **{word: value})


def test_slips_are_refused_at_construction_and_by_mypy(tmp_path: Path) -> None:
    for kind in (millrace.torch.Dataset, millrace.torch.MapDataset):
        with pytest.raises(millrace.InvalidArgument, match=r"shufle is no parameter here; did you mean shuffle\?"):
            kind("http://127.0.0.1:1", "photos", shufle="none")  # type: ignore[call-arg]
        with pytest.raises(millrace.InvalidArgument, match="sugar is no parameter here; help"):
            kind("http://127.0.0.1:1", "photos", sugar=1)  # type: ignore[call-arg]
    program = tmp_path / "slips.py"
    program.write_text(
        "from millrace import Client\nfrom millrace.torch import Dataset, MapDataset\n"
        "Dataset('u', global_batch_size=3, shuffle=False)\nDataset('u', batch_sise=3)\nMapDataset('u', shufle='none')\n"
        "Client('u').epoch(0, drop_last=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(program)],
        cwd=Path(millrace.__file__).parent.parent, capture_output=True, text=True, timeout=300, check=False,
    )
    assert re.findall(r'error: Unexpected keyword argument "(\w+)"', done.stdout) == ["batch_sise", "shufle", "drop_last"], done.stdout
    assert "Found 3 errors" in done.stdout


@pytest.mark.parametrize("kind", [millrace.torch.Dataset, millrace.torch.MapDataset])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on_error": "skip"}, r"on_error is no parameter here; write reading=millrace.Reading\(on_error=...\)"),
        ({"seed": "x"}, "seed='x': want a whole number, 0 or more"),
        ({"shuffle": "ful"}, r"shuffle='ful': .*did you mean 'full'\?"),
        ({"transform": "jpg"}, "transform='jpg': want a function"),
        ({"shuffle": "full", "order": Order(window=8)}, "window: "),
        ({"order": Order(subset="trian")}, "read /v1/datasets/photos/epochs/0: "),
    ],
)
def test_what_cannot_be_read_is_refused_at_construction(gateway: harness.Gateway, kind: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(millrace.MillraceError, match=f"^{said}"):
        kind(gateway.url, "photos", **options)


@pytest.mark.parametrize(
    "options", [{"global_batch_size": 0}, {"batch_size_per_rank": "64"}, {"tail": "dorp"}, {"filter": "x"}, {"epoch": -1}, {"rank": -1}]
)
def test_slips_are_refused_before_a_gateway_is_asked(options: dict[str, Any]) -> None:
    with pytest.raises(millrace.InvalidArgument, match="want"):
        millrace.torch.Dataset("http://127.0.0.1:1", "photos", **harness.grouped(**options))


def test_a_size_per_rank_times_the_ranks_is_the_global_size(gateway: harness.Gateway) -> None:
    """Also if the ranks are only found after the dataset was created."""
    dataset = millrace.torch.Dataset(gateway.url, "photos", batch_size_per_rank=25, fields="cls", decode={"cls": int})
    assert dataset.epoch().plan.batch_size == 25
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RANK", "1")
        environment.setenv("WORLD_SIZE", "4")
        assert dataset.epoch().plan.batch_size == 100
        assert len(next(iter(dataset))["cls"]) == 25
    share = Share(rank=1, world_size=2)
    with pytest.raises(millrace.InvalidArgument, match="global_batch_size and batch_size_per_rank say the same; give one of them"):
        millrace.torch.Dataset(gateway.url, "photos", global_batch_size=50, batch_size_per_rank=25, share=share)


def test_a_loader_is_of_a_dataset(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        for wrong in ("s3://train/photos", client, millrace.torch.MapDataset(client, decode=False)):
            with pytest.raises(millrace.InvalidArgument, match=r"is no millrace.torch.Dataset; write DataLoader\(millrace.torch.Dataset\("):
                millrace.torch.DataLoader(wrong)  # type: ignore[arg-type]


def test_datasets_and_loaders_say_what_they_are(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway, tail="drop")
    client = f"<Client of photos at {gateway.url}: 500 samples>"
    assert repr(dataset) == f"<Dataset of {client}, global_batch_size=30, seed=3, tail='drop', keys=True>"
    assert repr(millrace.torch.DataLoader(dataset, num_workers=2)) == f"<DataLoader of {dataset!r}, num_workers=2>"
    assert repr(millrace.torch.MapDataset(dataset.client, decode=False)) == f"<MapDataset of {client}>"
    with pytest.raises(millrace.InvalidArgument, match=r"no samples by number; .*millrace.torch.MapDataset"):
        dataset[0]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("which", list(LOADERS))
def test_shares_of_different_lengths_are_told_once(gateway: harness.Gateway, which: str, workers: int, recwarn: Any) -> None:
    """The warning comes at construction, before a model is built."""
    for world_size, rank, times in ((3, 0, 1), (3, 1, 0), (2, 0, 0)):
        recwarn.clear()
        dataset = dataset_of(gateway, global_batch_size=64, rank=rank, world_size=world_size)
        told = [str(w.message) for w in recwarn if "unevenly" in str(w.message)]
        assert len(told) == times
        for text in told:
            assert text.startswith("3 ranks share a batch of 64 unevenly: some get 21 samples of every batch, others 22; choose a global_batch_size")
        recwarn.clear()
        some(LOADERS[which](dataset, workers), 2)
        assert not [w for w in recwarn if "unevenly" in str(w.message)]


def test_slips_of_a_loader_and_of_set_epoch(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway)
    loader: Any = millrace.torch.DataLoader
    call: Any
    for call, said in (
        (lambda: loader(dataset, num_worker=2), r"num_worker is no parameter here; did you mean num_workers\?"),
        (lambda: loader(dataset, 64), "DataLoader: argument 2 stands without a name"),
        (lambda: loader(dataset, num_workers="2"), "num_workers='2': want a whole number, 0 or more"),
        (lambda: loader(dataset, rank=1), r"give share=millrace.Share\(rank=..., world_size=...\) to .*Dataset"),
        (lambda: loader(dataset, prefetch_factor=0), "prefetch_factor=0: want a whole number, 1 or more"),
        (lambda: loader(dataset).set_epoch("1"), "epoch='1': want a whole number, 0 or more"),
        (lambda: dataset.set_epoch(-1), "epoch=-1: want a whole number, 0 or more"),
        (lambda: dataset.set_epoch(None), "epoch=None: want a whole number"),  # type: ignore[arg-type]
        (lambda: dataset.samples()[0], "MapDataset has samples by number"),
        (lambda: millrace.torch.collate_columns([1]), "got list, want a Batch; .*batch_transform=millrace.torch.collate_columns"),  # type: ignore[arg-type]
        (lambda: dataset_of(gateway, global_batch_size=torch.tensor(1.5)), r"global_batch_size=tensor\(1.5.*want a whole number"),
        (lambda: millrace.torch.Dataset("data", 64), "dataset=64: .*; give its name; the size of batches is global_batch_size="),  # type: ignore[arg-type]
        (lambda: millrace.torch.Dataset("data", workers=2), r"DataLoader\(dataset, num_workers=\.\.\.\)"),  # type: ignore[call-arg]
    ):
        with pytest.raises(millrace.InvalidArgument, match=said):
            call()
    assert len(loader(dataset, pin_memory=False, timeout=0)) == 17
    assert ", seed=3" in repr(dataset_of(gateway, epoch=None, seed=torch.tensor(3)))


@pytest.mark.parametrize("option", [{"batch_size": 8}, {"drop_last": True}, {"in_order": False}, {"sampler": [1]}, {"batch_sampler": [1]}], ids=str)
def test_a_loader_leaves_batches_and_their_order_as_they_are(gateway: harness.Gateway, option: dict[str, Any]) -> None:
    dataset = dataset_of(gateway)
    with pytest.raises(millrace.InvalidArgument, match=next(iter(option))):
        millrace.torch.DataLoader(dataset, num_workers=2, **option)
    usual = {"batch_size": None, "drop_last": False}
    assert len(millrace.torch.DataLoader(dataset, num_workers=2, **{name: usual[name] for name in option if name in usual})) == 17
