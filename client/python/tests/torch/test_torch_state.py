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
        assert dataset.state_dict()["batch"] == m
        next(reading)
    del reading  # otherwise a later failing test keeps its threads
    loader = DataLoader(dataset, num_workers=2, prefetch_factor=4)
    ahead = iter(loader)
    for m in range(4):
        assert loader.state_dict()["batch"] == m
        next(ahead)


def test_a_state_that_an_older_release_saved(gateway: harness.Gateway) -> None:
    """The file never changes: a later release must accept it and save the same state.

    The test only replaces its generation by that of the packed data.
    """
    saved = json.loads((Path(__file__).parents[1] / "testdata" / "state-2.json").read_text(encoding="utf-8"))
    dataset = dataset_of(gateway)
    saved["generation"] = dataset.state_dict()["generation"]
    loader = DataLoader(dataset, num_workers=1)
    loader.load_state_dict(saved)
    assert loader.state_dict() == saved
    assert keys_of(loader) == core_order(gateway, 1)[5:]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_stateful_data_loader(gateway: harness.Gateway, workers: int) -> None:
    """torchdata's loader saves its workers' iterators and creates them twice. Prefetched batches are discarded."""
    seed = random.randrange(1 << 32)
    r = random.Random(seed)
    want = core_order(gateway, 0)
    seen: list[list[str]] = []
    state: Any = None
    while True:
        loader = StatefulDataLoader(dataset_of(gateway).batches(), batch_size=None, num_workers=workers)
        if state is not None:
            loader.load_state_dict(state)
        batches = iter(loader)
        steps = r.randrange(1, 9)
        got = keys_of(b for _, b in zip(range(steps), batches))
        seen += got
        state = loader.state_dict()
        del batches
        if len(got) < steps:
            break
    assert seen == want, f"seed {seed}"


def test_stateful_data_loader_wants_its_workers_back(gateway: harness.Gateway) -> None:
    loader = StatefulDataLoader(dataset_of(gateway).batches(), batch_size=None, num_workers=0)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()["fetcher_state"]["dataset_iter_state"] if "fetcher_state" in loader.state_dict() else None
    assert state is None or state["batch"] == 1
    dataset = dataset_of(gateway)
    reading = iter(dataset)
    mine = reading.state_dict()  # type: ignore[attr-defined]
    with pytest.raises(StateError, match=r"of worker 1 of 3 into worker 0 of 1"):
        reading.load_state_dict({**mine, "worker": 1, "workers": 3})  # type: ignore[attr-defined]


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
    [
        ({"global_batch_size": 31}, "batch_size is 31, and was 30 when"),
        ({"seed": 4}, "seed is 4, and was 3 when"),
        ({"shuffle": "full"}, "shuffle is full, and was "),
        ({"subset": "samples:0-99"}, "subset is .*, and was not given when"),
    ],
)
def test_a_state_of_another_order_is_refused(gateway: harness.Gateway, options: dict[str, Any], said: str) -> None:
    dataset = dataset_of(gateway)
    next(iter(dataset))
    state = dataset.state_dict()
    with pytest.raises(StateError, match=rf"^load state: {said}"):
        dataset_of(gateway, **options).load_state_dict(state)


def test_between_two_epochs_the_batch_size_may_change(gateway: harness.Gateway) -> None:
    loader = DataLoader(dataset_of(gateway))
    keys_of(loader)
    state = loader.state_dict()
    assert (state["epoch"], state["batch"]) == (1, 0)
    other = DataLoader(dataset_of(gateway, global_batch_size=100))
    other.load_state_dict(state)
    want = [k for batch in core_order(gateway, 1) for k in batch]
    assert [k for batch in keys_of(other) for k in batch] == want


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
    gone = pytest.raises(errors.GenerationGone, match=r"^load state: it is of other data.*since: generation [0-9a-f]{12} of 'one-[0-9a-f]{8}'")
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
    gone = r"^load state: the data were indexed again since the state was saved: generation .* is not here: .*; restore that index"
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
        state = millrace.torch.Dataset(millrace.mix({a: 1, b: 2})).state_dict()
        with pytest.raises(StateError, match=r"^load state: dataset is mix:.*:2,.*:1, and was mix:.*:1,.*:2 when"):
            millrace.torch.Dataset(millrace.mix({a: 2, b: 1})).load_state_dict(state)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "{} is not a state"), (None, "None is not a state"), ("x", "'x' is not a state"), ([1], r"\[1\] is not a state"),
        ({"state": {0: "moments"}, "groups": []}, r"it holds \['state', 'groups'\] and lacks epoch, batch, dataset, order"),
        ({"state": 2, "epoch": 1.5, "batch": 0, "dataset": "", "order": {}}, "not what state_dict returned: TypeError: 'float' .*"),
    ],
)
def test_what_is_no_state_is_refused_with_the_cure(gateway: harness.Gateway, given: Any, said: str) -> None:
    with pytest.raises(StateError, match=f"^load state: {said}; load what state_dict .* returned, or do not load a state to begin at the beginning$"):
        DataLoader(dataset_of(gateway)).load_state_dict(given)


def test_a_state_beyond_the_end_is_refused(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway)
    batches = dataset.epoch(0).plan.batches
    dataset.load_state_dict({**dataset.state_dict(), "batch": batches})
    with pytest.raises(StateError, match=rf"batch {batches + 1} of epoch 0, which has {batches}"):
        dataset.load_state_dict({**dataset.state_dict(), "batch": batches + 1})


@pytest.mark.parametrize(
    "change",
    [{"state": 1}, {"state": None}, {"epoch": -1}, {"batch": "x"}, {"batch": None}, {"batch": -3}, {"generation": "0" * 64}],
)
def test_a_state_that_is_none_is_refused(gateway: harness.Gateway, change: dict[str, Any]) -> None:
    state = {**dataset_of(gateway).state_dict(), **change}
    with pytest.raises(millrace.MillraceError):
        dataset_of(gateway).load_state_dict(state)
    with pytest.raises(StateError):
        dataset_of(gateway).load_state_dict({"epoch": 1})


def test_a_refused_state_changes_nothing(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway)
    state = {**dataset.state_dict(), "batch": 4}
    with pytest.raises(StateError):
        dataset.load_state_dict({**state, "order_digest": "0" * 32})
    assert keys_of(dataset) == core_order(gateway, 0)
    dataset.load_state_dict(state)
    assert keys_of(dataset) == core_order(gateway, 0)[4:]
