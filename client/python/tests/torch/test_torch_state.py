"""Stopping at random batches and resuming with other loaders, workers and ranks: every sample exactly once."""

from __future__ import annotations

import json
import random
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from test_torch_loader import core_order, dataset_of, keys_of
from torch.utils import data as torch_data
from torchdata.stateful_dataloader import StatefulDataLoader

import millrace
import millrace.torch
from millrace import Reading, errors
from millrace.torch import DataLoader, StateError


@pytest.fixture(autouse=True)
def _few_cores() -> Iterator[None]:
    """Ignores torch's warning about more workers than cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


def test_many_stops_on_changing_ranks_and_workers(gateway: harness.Gateway) -> None:
    seed = random.randrange(1 << 32)
    r = random.Random(seed)
    seen: list[list[str]] = []
    state: dict[str, Any] = {}
    stops = []
    while True:
        world_size, workers, steps = r.choice([1, 2, 3]), r.choice([0, 0, 1, 3]), r.randrange(1, 8)
        stops.append((world_size, workers, steps))
        loaders = [DataLoader(dataset_of(gateway, rank=k, world_size=world_size), num_workers=workers) for k in range(world_size)]
        for loader in loaders:
            if state:
                loader.load_state_dict(state)
        passes = [iter(loader) for loader in loaders]
        for _ in range(steps):
            shares = [next(p, None) for p in passes]
            if shares[0] is None:
                break
            seen.append([k for s in shares for k in s["__key__"]])
        states = [loader.state_dict() for loader in loaders]
        assert states == states[:1] * world_size
        state = states[0]
        if state["epoch"] > 0:
            break
    assert seen == core_order(gateway, 0), f"seed {seed}: {stops}"


def test_a_state_says_what_was_yielded_and_not_what_was_read_ahead(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway)
    reading = iter(dataset)
    for m in range(4):
        assert dataset.state_dict()["position"] == 30 * m
        next(reading)
    del reading  # otherwise a later failing test keeps its threads
    loader = DataLoader(dataset, num_workers=2, prefetch_factor=4)
    ahead = iter(loader)
    for m in range(4):
        assert loader.state_dict()["position"] == 30 * m
        next(ahead)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_stateful_data_loader(gateway: harness.Gateway, workers: int) -> None:
    """torchdata's loader saves its workers' iterators and creates them twice. Prefetched batches are discarded."""
    seed = random.randrange(1 << 32)
    r = random.Random(seed)
    want = core_order(gateway, 0)
    seen: list[list[str]] = []
    state: Any = None
    while len(seen) < len(want):
        loader = StatefulDataLoader(dataset_of(gateway).batches(), batch_size=None, num_workers=workers)
        if state is not None:
            loader.load_state_dict(state)
        batches = iter(loader)
        steps = r.randrange(1, 9)
        seen += keys_of(b for _, b in zip(range(steps), batches))
        state = loader.state_dict()
        del batches
    assert seen == want, f"seed {seed}"


@pytest.mark.parametrize("workers", [0, 2])
def test_the_state_of_a_stateful_loader_goes_on_elsewhere(gateway: harness.Gateway, workers: int) -> None:
    """torchdata accepts its own state only for as many workers. That of the dataset is for any loader."""
    dataset = dataset_of(gateway)
    loader = StatefulDataLoader(dataset.batches(), batch_size=None, num_workers=workers)
    seen = keys_of(b for _, b in zip(range(5), loader))
    other = StatefulDataLoader(dataset_of(gateway).batches(), batch_size=None, num_workers=workers + 1)
    other.load_state_dict(loader.state_dict())
    with pytest.raises(AssertionError):
        iter(other)
    again = dataset_of(gateway)
    again.load_state_dict(dataset.state_dict(batches=5))
    assert seen + keys_of(StatefulDataLoader(again.batches(), batch_size=None, num_workers=3)) == core_order(gateway, 0)


@pytest.mark.parametrize("start", [0, 47])
def test_workers_of_torch(gateway: harness.Gateway, start: int) -> None:
    """Only the trainer knows how many batches torch's loader has yielded."""
    want, dataset = [k for batch in core_order(gateway, 0) for k in batch], dataset_of(gateway)
    dataset.load_state_dict({**dataset.state_dict(), "position": start})
    loader = torch_data.DataLoader(dataset.batches(), batch_size=None, num_workers=3)
    seen, place = want[:start], start
    for n, batch in enumerate(loader):
        seen, place = seen + batch["__key__"], dataset.state_dict(batches=n + 1)["position"]
        assert place == len(seen) % 500
        if n == 4:
            break
    assert dataset.state_dict(batches=0)["position"] == start
    with pytest.raises(errors.InvalidArgument, match="batches is -1, want 0 or more"):
        dataset.state_dict(batches=-1)
    state = dataset.state_dict(batches=5)
    with pytest.raises(StateError, match=r"only their loader knows what it has yielded; .* dataset.state_dict\(batches=...\)"):
        dataset.state_dict()
    other = dataset_of(gateway, global_batch_size=64)
    other.load_state_dict(state)
    assert seen + [k for batch in keys_of(DataLoader(other, num_workers=2)) for k in batch] == want


def test_workers_that_read_parts_of_batches_have_no_state(gateway: harness.Gateway) -> None:
    filtered, samples = dataset_of(gateway, filter=_all), dataset_of(gateway)
    for dataset, loader in (
        (filtered, torch_data.DataLoader(filtered.batches(), batch_size=None, num_workers=1)),
        (samples, torch_data.DataLoader(samples.samples(), batch_size=30, num_workers=2)),
    ):
        next(iter(loader))
        with pytest.raises(StateError, match="only their loader knows"):
            dataset.state_dict(batches=1)


def _all(_: millrace.Sample) -> bool:
    return True


def test_the_datasets_own_state(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway, epoch=5)
    reading = iter(dataset)
    first = [next(reading)["__key__"] for _ in range(6)]
    other = dataset_of(gateway)
    other.load_state_dict(dataset.state_dict())
    other.set_epoch(5)  # a training loop calls it before each epoch: the position stays
    assert first + keys_of(DataLoader(other, num_workers=2)) == core_order(gateway, 5)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"seed": 4}, "seed 4, shuffle slot"), ({"shuffle": "full"}, "seed 3, shuffle full"), ({"subset": "train=1,val=9:train"}, ".*subset train=1,")],
)
def test_a_state_of_another_order_is_refused(gateway: harness.Gateway, options: dict[str, Any], said: str) -> None:
    dataset = dataset_of(gateway)
    next(iter(dataset))
    state = dataset.state_dict()
    match = rf"^load state: it was saved in another order than that of photos, {said}.*; seed, .* determine the order; make the dataset with the"
    with pytest.raises(StateError, match=match):
        dataset_of(gateway, **options).load_state_dict(state)


def test_the_batch_size_may_change_at_any_time(gateway: harness.Gateway) -> None:
    loader = DataLoader(dataset_of(gateway))
    got = keys_of(b for _, b in zip(range(2), loader))
    state = loader.state_dict()
    other = DataLoader(dataset_of(gateway, global_batch_size=100))
    other.load_state_dict(state)
    rest = keys_of(other)
    assert [len(keys) for keys in rest] == [40, 100, 100, 100, 100]
    assert [k for batch in got + rest for k in batch] == [k for batch in core_order(gateway, 0) for k in batch]
    assert (other.state_dict()["epoch"], other.state_dict()["position"]) == (1, 0)


@pytest.mark.usefixtures("runtime")
def test_a_state_goes_on_with_a_copy_of_the_data(tmp_path: Path) -> None:
    """The name of a dataset that millrace.open has opened depends on its location."""
    one = tmp_path / "one"
    one.mkdir()
    (one / "a.jsonl").write_text("".join(f'{{"n": {i}}}\n' for i in range(100)))
    with millrace.torch.Dataset(one, global_batch_size=10, seed=3) as dataset:
        batches = iter(dataset)
        next(batches)
        state, want = dataset.state_dict(), next(batches)
    del batches
    shutil.copytree(one, tmp_path / "two", ignore=shutil.ignore_patterns(".millrace"))
    with millrace.torch.Dataset(tmp_path / "two", global_batch_size=10, seed=3) as dataset:
        dataset.load_state_dict(state)
        assert next(iter(dataset)) == want
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.jsonl").write_text('{"n": 1}\n' * 100)
    match = r"^load state: .* its generation [0-9a-f]{12} is not here, but [0-9a-f]{12}: .*; restore that index and its data, or begin a new run"
    gone = pytest.raises(errors.GenerationGone, match=match)
    with millrace.torch.Dataset(tmp_path / "other", global_batch_size=10, seed=3) as dataset, gone:
        dataset.load_state_dict(state)


def test_data_that_were_indexed_again_are_named(tmp_path: Path, runtime: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "a.csv").write_text("name,n\n" + "x,1\n" * 100)
    with millrace.torch.Dataset(rows, global_batch_size=10) as dataset:
        state = dataset.state_dict()
    while harness.gateways_at(runtime):  # the gateway knows the generation
        time.sleep(0.05)
    (rows / "a.csv").write_text("name,n\n" + "x,2\n" * 120)
    shutil.rmtree(rows / ".millrace")
    gone = r"^load state: the data were indexed again since the state was saved, or .*: its generation .* is not here, but .*; restore that index"
    with millrace.torch.Dataset(rows, global_batch_size=10) as dataset, pytest.raises(millrace.errors.GenerationGone, match=gone):
        dataset.load_state_dict(state)


@pytest.mark.usefixtures("runtime")
def test_a_state_of_an_older_generation_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/a.csv").write_text("name,n\n" + "x,1\n" * 100)
    with millrace.torch.Dataset(tmp_path / "rows", global_batch_size=10) as dataset:
        state = dataset.state_dict()
        dataset.load_state_dict(state)
        assert "indexed again" not in caplog.text
    (tmp_path / "rows/b.csv").write_text("name,n\n" + "x,2\n" * 20)
    with millrace.torch.Dataset(millrace.open(tmp_path / "rows", reindex=True), global_batch_size=10) as dataset:
        now = dataset.generation
        dataset.load_state_dict(state)
    said = f"the state is of generation {state['generation'][:12]}; the data were indexed again since (generation {now[:12]}): reading goes on with"
    assert caplog.text.count(said) == 1


def test_a_state_from_before_exclude_wants_quarantine(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        bad = client.epoch(0, reading=Reading(keys=True)).batch(0).keys[:1]
        state = millrace.torch.Dataset(client).state_dict()
        with pytest.raises(StateError, match=r"; exclude\(\.\.\.\) is for a new run: to go on from this checkpoint, use quarantine\(\.\.\.\)"):
            millrace.torch.Dataset(client.exclude(bad)).load_state_dict(state)
        millrace.torch.Dataset(client.quarantine(bad)).load_state_dict(state)


def test_another_mixture_is_named(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        a, b = client.take(100), client.subset(range(100, 200))
        dataset = millrace.torch.Dataset(millrace.mix({a: 1, b: 2}))
        state = dataset.state_dict()
        with pytest.raises(StateError, match=r"^load state: it was saved in another order than that of mix:.*:2,.*:1.*mixture sources and weights"):
            millrace.torch.Dataset(millrace.mix({a: 2, b: 1})).load_state_dict(state)
        again = millrace.torch.Dataset(millrace.mix({a: 1, b: 2}))
        again.load_state_dict(state)
        assert again.state_dict() == state
        assert again.generation == dataset.generation


FORM = {"state": 3, "generation": "0" * 32, "plan": "1" * 32, "epoch": 0, "position": 0}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "{} is not a state"), (None, "None is not a state"), ("x", "'x' is not a state"), ([1], r"\[1\] is not a state"),
        ({"state": {0: "moments"}, "groups": []}, r"it holds \['state', 'groups'\], want state, generation, plan, epoch, position"),
        ({**FORM, "rank": 0}, r"it holds \['state', .*\], want state, "),
        ({k: v for k, v in FORM.items() if k != "plan"}, "it holds .*, want state, "),
        ({**FORM, "epoch": 1.5}, r"epoch 1\.5: not what state_dict returned"), ({**FORM, "epoch": True}, "epoch True: not what"),
        ({**FORM, "epoch": (1 << 64) - 1}, "epoch 18446744073709551615: not what"),
        ({**FORM, "position": 1 << 63}, "position 9223372036854775808: not"),
        ({**FORM, "position": -1}, "position -1: not what"), ({**FORM, "position": "x"}, "position 'x': not what"),
        ({**FORM, "plan": "1" * 64}, "plan '1.*': not what"), ({**FORM, "generation": "G" * 32}, "generation 'G.*': not what"),
    ],
)  # fmt: skip
def test_what_is_no_state_is_refused_with_the_cure(gateway: harness.Gateway, given: Any, said: str) -> None:
    cure = "load what state_dict .* returned, or do not load a state to begin at the beginning"
    with pytest.raises(StateError, match=f"^load state: {said}.*; {cure}$"):
        DataLoader(dataset_of(gateway)).load_state_dict(given)


@pytest.mark.parametrize("form", [2, 4, "3"])
def test_a_state_of_another_form_is_refused(gateway: harness.Gateway, form: Any) -> None:
    with pytest.raises(StateError, match=rf"^load state: its form is {form!r}, want 3; load it by the release that saved it$"):
        DataLoader(dataset_of(gateway)).load_state_dict({**FORM, "state": form})


def test_a_state_at_the_end_of_an_epoch(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway)
    dataset.load_state_dict({**dataset.state_dict(), "position": 500})
    assert (dataset.place, dataset.state_dict()["epoch"]) == ((1, 0), 1)
    with pytest.raises(StateError, match=r"^load state: position 501 of epoch 0, which has 500 positions; load what"):
        dataset.load_state_dict({**dataset.state_dict(), "epoch": 0, "position": 501})
    dropped = dataset_of(gateway, tail="drop")
    dropped.load_state_dict({**dataset.state_dict(), "epoch": 0, "position": 480})
    assert keys_of(dropped) == core_order(gateway, 1)[:16]


def test_every_state_is_short(gateway: harness.Gateway) -> None:
    longest = {**FORM, "epoch": (1 << 64) - 2, "position": (1 << 63) - 1}
    assert len(json.dumps(longest, separators=(",", ":"))) == 161
    state = dataset_of(gateway).state_dict()
    assert list(state) == list(FORM)
    assert {len(state["generation"]), len(state["plan"])} == {32}


def test_a_refused_state_changes_nothing(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway)
    state = {**dataset.state_dict(), "position": 120}
    with pytest.raises(StateError):
        dataset.load_state_dict({**state, "plan": "0" * 32})
    with pytest.raises(errors.GenerationGone):
        dataset.load_state_dict({**state, "generation": "0" * 32})
    assert keys_of(dataset) == core_order(gateway, 0)
    dataset.load_state_dict(state)
    assert keys_of(dataset) == core_order(gateway, 0)[4:]
