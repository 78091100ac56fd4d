"""The order compared with the vectors that the gateway's own tests use."""

from __future__ import annotations

from typing import Any

import harness
import order_vectors
import pytest
from harness import ROOT

import millrace
from millrace import Order, Reading, Share, proof
from millrace._plan import ORDER

SMALL = 200  # mutation tests run only vectors with at most this many samples
VECTORS = [f"shuffle/testdata/{name}.json" for name in ("vectors", "weighted", "homes", "mixtures", "costs")]


@pytest.mark.parametrize("file", [*VECTORS, "chunkindex/selection/testdata/rules.json"])
def test_small_vectors(file: str) -> None:
    compared, wrong = order_vectors.check(ROOT / file, most=SMALL)
    assert not wrong
    assert compared


@pytest.mark.parametrize("file", VECTORS)
def test_large_vectors(file: str) -> None:
    compared, wrong = order_vectors.check(ROOT / file, least=SMALL + 1)
    assert not wrong
    assert compared


def test_the_example_of_costs() -> None:
    """That of section 10 of docs/spec/order.md."""
    assert proof.divide([5, 9, 1, 9, 3, 2, 8], 2) == [[1, 5, 6], [0, 2, 3, 4]]
    assert proof.divide([6, 8, 6, 7, 7], 2) == [[0, 2, 3], [1, 4]]  # of two equal samples the first is exchanged
    counts = [3, 0, 5, 2, 4]
    slot = proof.shuffle("slot", counts, window=3, seed=42)
    bucket = proof.Bucket(4, 3, 14, lambda t: 1 + slot.at(t) % 5, seed=42)
    assert [slot.at(bucket.at(t)) for t in range(14)] == [12, 1, 6, 8, 2, 13, 0, 10, 5, 9, 4, 3, 7, 11]
    digest = proof.order_digest("slot", counts, window=3, seed=42)
    assert proof.bucket_digest(digest, 4, 3, "bytes") == "3899a5d8693dc92bd16b5769f62e6a72"


def test_homes_are_those_of_the_gateway(gateway: Any) -> None:
    with millrace.Client(gateway.url) as client:
        stored = [key for b in client.epoch(0, shuffle="none", reading=Reading(keys=True)) for key in b.keys]
        shares: list[list[str]] = []
        for rank in range(5):
            share = Share(by="locality", homes=2, rank=rank, world_size=5)
            epoch = client.epoch(1, shuffle="slot", global_batch_size=40, order=Order(window=6), share=share, reading=Reading(keys=True))
            shares.append(list(epoch.batch(1).keys))
            assert epoch.plan.parameters["homes"] == "2"
        o = proof.shuffle("slot", epoch.chunks(), window=6, seed=int(epoch.plan.parameters["seed"]), epoch=1)
        assert isinstance(o, proof.Slot)
        homes = [o.home(t) * 2 // o.homes() for t in range(40, 80)]
        want = [[stored[o.at(40 + place)] for place in share] for share in proof.deal_homes(homes, 5, 2)]
        assert shares == want


def test_refusals() -> None:
    with pytest.raises(ValueError, match="want none, window, slot or full"):
        proof.shuffle("chaos", [1], window=1)
    with pytest.raises(ValueError, match="want 1 or more"):
        proof.shuffle("slot", [1])
    with pytest.raises(ValueError, match="divisor"):
        proof.shuffle("window", [1], window=3, strata=2)
    with pytest.raises(ValueError, match="no healthy sample"):
        proof.Quarantine(1, [2], [0, 1])
    for pattern in ("[", "a[]", "a\\"):
        with pytest.raises(ValueError, match="incomplete"):
            proof.shard_part([pattern], "a")


@pytest.mark.parametrize(
    "plan",
    [
        {"shuffle": "none"},
        {"shuffle": "full", "seed": 2**64 - 1},
        {"shuffle": "slot", "window": 5},
        {"shuffle": "window", "window": 8, "strata": 4},
    ],
)
def test_equal_to_the_gateway(gateway: Any, plan: dict[str, Any]) -> None:
    with millrace.Client(gateway.url) as client:
        stored = [key for b in client.epoch(0, shuffle="none", reading=Reading(keys=True)) for key in b.keys]
        epoch = client.epoch(3, **harness.grouped(keys=True, **plan))
        o = epoch.order()
        assert [key for b in epoch for key in b.keys] == [stored[o.at(t)] for t in range(len(stored))]
        p = {k: int(v) for k, v in epoch.plan.parameters.items() if k in ORDER and k != "shuffle"}
        assert proof.order_digest(plan["shuffle"], epoch.chunks(), **p) == epoch.plan.order_digest
