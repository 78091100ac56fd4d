"""Memory that a gateway lends, in torch: copies for functions that may write, and workers that read it themselves."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import Any

import harness
import pytest
import torch

import millrace
import millrace.torch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is lent on Linux alone")


def doubled(view: memoryview) -> torch.Tensor:
    """A decoder that writes where its bytes lie."""
    return torch.frombuffer(view, dtype=torch.uint8)[:1000].mul_(2)


def looking(seen: list[bool], view: memoryview) -> torch.Tensor:
    seen.append(view.readonly)
    return torch.frombuffer(view, dtype=torch.uint8)[:1000]


def columns_of(url: str, **options: Any) -> list[tuple[Any, Any]]:
    loader = options.pop("loader", {})
    dataset = millrace.torch.Dataset(url, **{"decode": {"jpg": doubled, "cls": int}, **options})
    with warnings.catch_warnings(), dataset:
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        return [(batch["jpg"], batch["cls"]) for batch in millrace.torch.DataLoader(dataset, **loader)]


def same(a: list[tuple[Any, Any]], b: list[tuple[Any, Any]]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) and torch.equal(n, m) for (x, n), (y, m) in zip(a, b))


@pytest.mark.parametrize("workers", ["", "fork", "spawn"])
def test_functions_may_write_into_copies(neighbour: harness.Gateway, gateway: harness.Gateway, workers: str) -> None:
    """Each worker has a connection, and memory, of its own."""
    loader = {"num_workers": 2, "multiprocessing_context": workers} if workers else {}
    want = columns_of(gateway.url)
    assert same(columns_of(neighbour.url, loader=loader), want)
    assert neighbour.count("millrace_shared_batches_total") >= len(want) - 1  # the last one is small


def test_who_sees_the_memory(neighbour: harness.Gateway) -> None:
    for copy in (True, False):
        seen: list[bool] = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with millrace.torch.Dataset(neighbour.url, decode={"jpg": partial(looking, seen), "cls": int}, copy=copy) as dataset:
                assert next(iter(dataset))["jpg"].shape == (32, 1000)
        assert set(seen) == {not copy}
    for options, copies in (
        ({}, False), ({"decode": False}, False), ({"decode": {"cls": int}}, False), ({"transform": dict}, True), ({"collate": list}, True),
        ({"filter": bool}, True), ({"batch_transform": len}, True), ({"decode": {"jpg": doubled}}, True), ({"transform": dict, "copy": False}, False),
    ):  # fmt: skip
        with millrace.torch.Dataset(neighbour.url, **options) as dataset:
            assert dataset.epoch().copies == copies, options


def test_samples_by_number(neighbour: harness.Gateway, gateway: harness.Gateway) -> None:
    read = [millrace.torch.MapDataset(g.url, decode={"jpg": doubled}).__getitems__(range(100)) for g in (neighbour, gateway)]
    assert all(torch.equal(a["jpg"], b["jpg"]) for a, b in zip(*read))
    assert neighbour.count("millrace_shared_batches_total") > 0
