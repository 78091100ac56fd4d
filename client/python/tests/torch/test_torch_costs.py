"""Losses of balanced shares, weighted so that the gradient is that of one process."""

from __future__ import annotations

import json
from collections import UserDict
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest
import torch
from ddp import pair
from test_torch_distributed import run_ranks
from training import features

import millrace
import millrace.torch
from millrace import Reading, Share


def gradients(gateway: harness.Gateway, ranks: int, divisor: str, **share: Any) -> tuple[Any, Any]:
    """Returns the gradient of each step, and the numbers of samples of the ranks' micro-batches."""
    ended = run_ranks("weighted.py", ranks, gateway.url, json.dumps(share), divisor)
    found = [np.array(rank["gradients"]) for rank in ended]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    return found[0], [rank["sizes"] for rank in ended]


def test_the_weighted_gradient_is_that_of_one_process(gateway: harness.Gateway) -> None:
    """Also with micro-batches, and where a rank has no sample of the last batch. The mean of the ranks' means differs."""
    want, _ = gradients(gateway, 1, "__batch_samples__")
    got, sizes = gradients(gateway, 3, "__batch_samples__", balance="bytes", micro=2)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    assert [sum(sum(rank[step]) for rank in sizes) for step in range(7)] == [83] * 6 + [2]
    assert [0, 0] in [rank[-1] for rank in sizes]
    assert len({tuple(rank[0]) for rank in sizes}) > 1
    plain, _ = gradients(gateway, 2, "", balance="bytes")
    assert np.abs(plain - want).max() > 1e-6
    cost, _ = gradients(gateway, 1, "__batch_cost__", balance="bytes")
    np.testing.assert_allclose(gradients(gateway, 2, "__batch_cost__", balance="bytes")[0], cost, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("workers", [0, 2])
def test_totals_and_micro_batches(gateway: harness.Gateway, workers: int) -> None:
    share = Share(balance="bytes", micro=3, rank=1, world_size=4)
    with millrace.Client(gateway.url) as client:
        want = [(b.batch_samples, b.batch_cost, tuple(b.micro), list(b.keys)) for b in client.epoch(0, global_batch_size=83, share=share)]
    dataset = millrace.torch.Dataset(
        gateway.url, "photos", global_batch_size=83, decode={"jpg": features, "cls": int}, share=share, reading=Reading(totals=True, keys=True)
    )
    got = list(millrace.torch.DataLoader(dataset, num_workers=workers))
    assert [(b["__batch_samples__"], b["__batch_cost__"], b["__micro__"], b["__key__"]) for b in got] == want
    assert (want[-1][0], len(want[-1][3])) == (2, 1)
    for batch in got:
        parts = list(millrace.torch.micro_batches(batch))
        assert tuple(len(part["cls"]) for part in parts) == batch["__micro__"]
        assert [key for part in parts for key in part["__key__"]] == batch["__key__"]
        assert torch.equal(torch.cat([part["jpg"] for part in parts]), batch["jpg"])
        assert [part["jpg"].data_ptr() for part in parts] == [batch["jpg"][at:].data_ptr() for at in np.cumsum([0, *batch["__micro__"][:-1]])]


def test_an_empty_share_has_the_totals_of_its_batch(gateway: harness.Gateway) -> None:
    share = Share(balance="bytes", rank=3, world_size=4)
    dataset = millrace.torch.Dataset(gateway.url, "photos", global_batch_size=83, decode={"cls": int}, share=share, reading=Reading(totals=True))
    with millrace.Client(gateway.url) as client:
        batch = client.epoch(0, global_batch_size=83, share=share).batch(6)
    *_, last = millrace.torch.DataLoader(dataset)
    assert (last["cls"].shape, last["__micro__"]) == ((0,), (0,))
    assert (last["__batch_samples__"], last["__batch_cost__"]) == (2, batch.batch_cost)


def test_totals_are_refused_without_dicts(gateway: harness.Gateway) -> None:
    for options in ({"transform": pair, "reading": Reading(totals=True)}, {"reading": Reading(totals=True, collate=len)}):
        dataset = millrace.torch.Dataset(gateway.url, "photos", decode={"cls": int}, **options)
        with pytest.raises(millrace.InvalidArgument, match=r"add __batch_samples__, .*returned a .*, want a dict; return a dict"):
            next(iter(millrace.torch.DataLoader(dataset)))
    with pytest.raises(millrace.InvalidArgument, match="a sample belongs to no batch"):
        millrace.torch.MapDataset(gateway.url, "photos", reading=Reading(totals=True))


def labels(samples: Any) -> UserDict[str, Any]:
    """A function for collate or batch_transform. The tokenizers of Transformers return a UserDict too."""
    return UserDict(labels=torch.tensor([sample["cls"] for sample in samples]))


@pytest.mark.parametrize("function", ["collate", "batch_transform"])
def test_totals_of_other_batches(gateway: harness.Gateway, function: str) -> None:
    """The last share is empty."""
    share, options = Share(balance="bytes", micro=2, rank=3, world_size=4), {"global_batch_size": 83, "decode": {"cls": int}, "fields": "cls"}
    reading = Reading(totals=True, **{function: labels})  # type: ignore[arg-type]
    loaders = [
        millrace.torch.DataLoader(millrace.torch.Dataset(gateway.url, "photos", share=share, reading=r, **options), num_workers=1)
        for r in (reading, Reading(totals=True))
    ]
    for batch, want in zip(*loaders):
        assert isinstance(batch, UserDict)
        for part, same in zip(millrace.torch.micro_batches(batch), millrace.torch.micro_batches(want)):
            assert torch.equal(part.pop("labels"), same.pop("cls"))
            assert part == same
    assert batch["__micro__"] == (0, 0)


def test_micro_batches_require_totals(gateway: harness.Gateway) -> None:
    dataset = millrace.torch.Dataset(gateway.url, "photos", decode={"cls": int})
    with pytest.raises(millrace.InvalidArgument, match=r"no __micro__; read it with millrace.Reading\(totals=True\)"):
        list(millrace.torch.micro_batches(next(iter(dataset))))


@pytest.mark.parametrize(("tail", "length"), [("short", 500), ("drop", 498), ("pad", 581)])
def test_the_number_of_samples_of_a_balanced_share_is_not_known(gateway: harness.Gateway, tail: str, length: int) -> None:
    share: dict[str, Any] = {"balance": "bytes", "tail": tail}
    dataset = millrace.torch.Dataset(gateway.url, "photos", global_batch_size=83, decode={"cls": int}, share=Share(**share))
    assert len(dataset.samples()) == len(list(dataset.samples())) == length
    dataset = millrace.torch.Dataset(
        gateway.url, "photos", global_batch_size=83, decode={"cls": int}, share=Share(**share, rank=0, world_size=2)
    )
    with pytest.raises(TypeError, match=r"the number of samples of a rank is not known; len\(dataset\) is that of its batches"):
        len(dataset.samples())
    assert 0 < len(list(dataset.samples())) < length


def test_costs_after_a_reindex(tmp_path: Path) -> None:
    """They are those of a generation, which a state names."""
    rows, share = tmp_path / "a.jsonl", Share(balance="cost:numbers", bucket=2)
    rows.write_text("".join(f'{{"n": {i}}}\n' for i in range(200)))
    harness.run("index", str(tmp_path))
    harness.run("cost", "numbers", str(tmp_path), "--from", "n")
    with harness.closing(g := harness.Gateway(f"d={tmp_path}")), millrace.Client(g.url) as c:
        state = c.epoch(0, global_batch_size=30, share=share).read(1).state_dict()
        (tmp_path / "b.jsonl").write_text(rows.read_text())
    harness.run("index", str(tmp_path))
    with harness.closing(g := harness.Gateway(f"d={tmp_path}")), millrace.Client(g.url) as c:
        with pytest.raises(millrace.errors.MillraceError, match="numbers"):
            millrace.torch.Dataset(c, global_batch_size=30, share=share)
        dataset = millrace.torch.Dataset(c, global_batch_size=30, share=share, order=millrace.Order(generation=state["generation"]))
        dataset.load_state_dict(state)
        assert dataset.state_dict() == state
        harness.run("cost", "numbers", str(tmp_path), "--from", "n")
        dataset = millrace.torch.Dataset(c, global_batch_size=30, share=share)
        dataset.load_state_dict(state)
        assert dataset.state_dict() == state


def test_samples_one_by_one_resume_only_where_a_micro_batched_share_ends(gateway: harness.Gateway) -> None:
    """Their order is not that of positions, so that a place within the share is no position."""
    for micro in (1, 3):
        dataset = millrace.torch.Dataset(gateway.url, "photos", global_batch_size=50, decode={"cls": int}, share=Share(balance="bytes", micro=micro))
        samples = iter(dataset.samples())
        for _ in range(7):
            next(samples)
        if micro == 1:
            assert dataset.state_dict()["position"] == 7
            continue
        with pytest.raises(millrace.errors.StateError, match="is within its share of a batch"):
            dataset.state_dict()
        for _ in range(43):
            next(samples)
        assert dataset.state_dict()["position"] == 50
