"""Shared memory in torch: copied bytes for functions that may write, and workers that read the shared memory themselves."""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial
from typing import Any

import harness
import pytest
import torch

import millrace
import millrace.torch
from millrace import Reading

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is lent on Linux alone")


def doubled(view: memoryview) -> torch.Tensor:
    """A decoder that writes into its input bytes."""
    return torch.frombuffer(view, dtype=torch.uint8)[:1000].mul_(2)


def plain(view: memoryview) -> torch.Tensor:
    """A decoder that does not write into its input."""
    return torch.frombuffer(view, dtype=torch.uint8)[:1000]


def looking(seen: list[bool], view: memoryview) -> torch.Tensor:
    seen.append(view.readonly)
    return plain(view)


def columns_of(url: str, **options: Any) -> list[tuple[Any, Any]]:
    loader = options.pop("loader", {})
    dataset = millrace.torch.Dataset(url, **harness.grouped(**{"decode": {"jpg": doubled, "cls": int}, **options}))
    with warnings.catch_warnings(), dataset:
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        return [(batch["jpg"], batch["cls"]) for batch in millrace.torch.DataLoader(dataset, **loader)]


def same(a: list[tuple[Any, Any]], b: list[tuple[Any, Any]]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) and torch.equal(n, m) for (x, n), (y, m) in zip(a, b))


@pytest.mark.parametrize("workers", ["", "fork", "spawn"])
def test_functions_may_write_and_others_take_memory(neighbour: harness.Gateway, gateway: harness.Gateway, workers: str) -> None:
    """Each worker has its own connection and its own memory."""
    loader = {"num_workers": 2, "multiprocessing_context": workers} if workers else {}
    assert same(columns_of(neighbour.url, loader=loader), columns_of(gateway.url))
    assert neighbour.count("millrace_shared_batches_total") == 0
    decode = {"jpg": plain, "cls": int}
    want = columns_of(gateway.url, decode=decode)
    assert same(columns_of(neighbour.url, loader=loader, decode=decode, copy=False), want)
    assert neighbour.count("millrace_shared_batches_total") >= len(want) - 1  # the last batch is too small to be shared


def test_who_sees_the_memory(neighbour: harness.Gateway) -> None:
    for copy in (True, False):
        seen: list[bool] = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with millrace.torch.Dataset(neighbour.url, decode={"jpg": partial(looking, seen), "cls": int}, reading=Reading(copy=copy)) as dataset:
                assert next(iter(dataset))["jpg"].shape == (32, 1000)
                told = dataset.client.describe()["transport"]
        assert set(seen) == {not copy}
        assert told.startswith("bytes: functions of yours") if copy else told == "shared memory"
    for options, writable in (
        ({}, False), ({"decode": False}, False), ({"decode": {"cls": int}}, False), ({"transform": dict}, True), ({"collate": list}, True),
        ({"filter": bool}, True), ({"batch_transform": len}, True), ({"decode": {"jpg": doubled}}, True), ({"transform": dict, "copy": False}, False),
    ):  # fmt: skip
        with millrace.torch.Dataset(neighbour.url, **harness.grouped(**options)) as dataset:
            assert dataset.epoch().writable == writable, options


def test_samples_by_number(neighbour: harness.Gateway, gateway: harness.Gateway) -> None:
    for decoder, copy in ((doubled, True), (plain, False)):
        both = [millrace.torch.MapDataset(g.url, decode={"jpg": decoder}, reading=Reading(copy=copy)) for g in (neighbour, gateway)]
        read = [dataset.__getitems__(range(100)) for dataset in both]
        assert all(torch.equal(a["jpg"], b["jpg"]) for a, b in zip(*read))
        assert (neighbour.count("millrace_shared_batches_total") > 0) is not copy


def test_a_batch_that_waits_holds_its_columns_alone(neighbour: harness.Gateway) -> None:
    """The gateway's memory is released while the trainer still holds the columns."""
    with millrace.torch.Dataset(neighbour.url, decode={"jpg": plain, "cls": int}, reading=Reading(copy=False)) as dataset:
        rows = iter(dataset)
        columns = [next(rows) for _ in range(3)]
        with rows._reader as reader:  # type: ignore[attr-defined]
            end = time.monotonic() + 30
            while (stats := reader.stats).ready < dataset.prefetch_factor and time.monotonic() < end:
                time.sleep(0.01)
            waiting = [slot.batch for slot in reader._pool._slots.values() if slot.batch is not None and slot.batch.value is not None]
            assert len(waiting) >= dataset.prefetch_factor
            assert all(batch.closed and batch.nbytes > 0 for batch in waiting)
            assert stats.bytes == sum(reader.epoch.batch(n).nbytes for n in range(3)) > 0
        assert all(column["jpg"].shape == (32, 1000) for column in columns)
