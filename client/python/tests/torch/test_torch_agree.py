"""One generation for all ranks of a job: by torch.distributed, by the caller, or by the state of an earlier run."""

from __future__ import annotations

from typing import Any

import harness
import pytest
import torch
from test_torch_distributed import BATCH_SIZE, run_ranks
from test_torch_loader import core_order, keys_of

import millrace
import millrace.torch
from millrace import Order
from millrace._job import agree
from millrace.torch import DataLoader


def dataset_of(moving: harness.Moving, **options: Any) -> millrace.torch.Dataset:
    return millrace.torch.Dataset(moving.url, "photos", seed=3, fields="cls", **harness.grouped(global_batch_size=BATCH_SIZE, keys=True, **options))


def test_processes_agree_while_the_gateway_moves(moving: harness.Moving) -> None:
    """The first request receives the older generation, all others the newer one: without an agreement two ranks would differ."""
    moving.move_after_description = True
    ranks = run_ranks("agreeing.py", 3, moving.url)
    assert len(moving.asked(b"/datasets/photos HTTP")) > 3
    assert len({rank["generation"] for rank in ranks}) == 1
    size = 500 if ranks[0]["generation"] == moving.older else 540
    assert len({key for rank in ranks for keys in rank["keys"] for key in keys}) == size


def test_ranks_of_the_environment_cannot_agree(moving: harness.Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    for act in (len, lambda d: next(iter(d)), lambda d: d.state_dict(), lambda d: iter(DataLoader(d))):
        with pytest.raises(millrace.InvalidArgument, match=r"rank 1 of 4 .* torch\.distributed\.init_process_group before") as e:
            act(dataset_of(moving))
        assert "give all ranks the same order=millrace.Order(generation=...)" in str(e.value)
    with pytest.raises(millrace.InvalidArgument, match="init_process_group"):
        millrace.torch.MapDataset(moving.url, "photos")
    assert not moving.asked(b"/epochs/")
    assert dataset_of(moving, generation=moving.newer).epoch().plan.samples == 540
    assert dataset_of(moving, rank=0, world_size=1).epoch().plan.samples == 500
    assert len(millrace.torch.MapDataset(moving.url, "photos", order=Order(generation=moving.newer))) == 540


def test_a_gateway_that_stays_asks_for_nothing(gateway: harness.Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert len(millrace.torch.Dataset(gateway.url, "photos", global_batch_size=BATCH_SIZE)) == 17
    assert len(millrace.torch.MapDataset(gateway.url, "photos")) == 500


@pytest.mark.parametrize("store", [None, torch.distributed.Store()])
def test_processes_of_mpi_have_no_store_to_agree_by(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed.distributed_c10d, "_get_default_store", lambda: store)
    assert agree("photos", "one") is None


def test_a_resumed_job_keeps_its_generation(moving: harness.Moving, gateway: harness.Gateway, grown: harness.Gateway) -> None:
    """A job resumes on other ranks, while a newer generation is current, through a restarted gateway."""
    want = core_order(gateway, 0, fields="cls")
    loader = DataLoader(dataset_of(moving))
    batches = iter(loader)
    seen = keys_of(b for _, b in zip(range(5), batches))
    state = loader.state_dict()
    assert state["generation"] == moving.older[:32]
    moving.move()
    restarted = harness.Moving(gateway, grown)
    restarted.move()
    with harness.closing(restarted):
        loaders = [DataLoader(dataset_of(restarted, rank=r, world_size=3), num_workers=r % 2) for r in range(3)]
        for loader in loaders:
            loader.load_state_dict(state)
        for shares in zip(*loaders):
            seen.append([k for share in shares for k in share["__key__"]])
        assert seen == want
        assert loaders[0].state_dict()["generation"] == moving.older[:32]  # the next epoch has the same generation
        with pytest.raises(millrace.InvalidArgument, match="names no generation"):
            len(dataset_of(restarted, rank=0, world_size=3))
