"""The order against the vectors that the gateway's own tests use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import harness
import pytest
from harness import ROOT

import millrace
from millrace import Order, Reading, Share, proof


def vectors(file: str, section: str) -> list[Any]:
    data = json.loads((ROOT / file).read_text())[section]
    assert data
    return list(data)


def spread(runs: list[list[int]]) -> list[int]:
    return [value for value, times in runs for _ in range(times)]


def digest(samples: Iterable[int]) -> str:
    h = hashlib.sha256()
    for x in samples:
        h.update(x.to_bytes(8, "little"))
    return h.hexdigest()


def test_generator() -> None:
    for v in vectors("shuffle/testdata/vectors.json", "generator"):
        k = proof.key(v["purpose"], *v["numbers"])
        assert k == v["key"]
        assert [proof.word(k, c) for c in range(len(v["words"]))] == v["words"]
        assert [proof.draw(k, i, n) for i, n in enumerate(v["bounds"])] == v["draws"]
        if v["n"]:
            p = proof.perm(k, v["n"])
            assert [p.at(i) for i in v["places"]] == v["perm"]
            assert [p.place(x) for x in v["perm"]] == v["places"]


def test_plans() -> None:
    for v in vectors("shuffle/testdata/vectors.json", "plans"):
        counts = spread(v["chunks"])
        samples = sum(counts)
        o = proof.shuffle(v["shuffle"], counts, window=v["window"], seed=v["seed"], epoch=v["epoch"])
        assert [o.at(t) for t in v["positions"]] == v["at"]
        assert [o.position(x) for x in v["of"]] == v["position"]
        if "digest" in v:
            assert digest(o.at(t) for t in range(samples)) == v["digest"]
        assert proof.batches(samples, v["batch_size"], v["tail"]) == v["batches"]
        for s in v["shares"]:
            positions, padded = proof.share(samples, v["batch_size"], v["tail"], s["batch"], s["rank"], v["world_size"])
            assert (len(positions), padded) == (s["count"], s["padded"])
            assert digest(o.at(t) for t in positions) == s["digest"]


def test_importance() -> None:
    for v in vectors("shuffle/testdata/weighted.json", "importance"):
        counts, weights = spread(v["chunks"]), spread(v["weights"])
        o = proof.Importance(v["shuffle"], counts, weights, window=v["window"], seed=v["seed"], epoch=v["epoch"])
        assert (o.phase, digest(o.draws)) == (v["phase"], v["draws"])
        assert [o.order.at(t) for t in v["positions"]] == v["virtual"]
        assert [o.at(t) for t in v["positions"]] == v["samples"]
        assert [list(o.of(x)) for x in v["of"]] == v["draws_of"]
        args = {"window": v["window"], "seed": v["seed"], "importance": v["importance"], "weights": weights}
        assert proof.order_digest(v["shuffle"], counts, **args) == v["order_digest"]


def test_balance() -> None:
    for v in vectors("shuffle/testdata/weighted.json", "balance"):
        assert proof.deal(v["lengths"], v["world_size"]) == v["shares"]


def stratified(v: Any, epoch: int) -> tuple[list[int], list[int], proof.Homes]:
    counts, weights = spread(v["chunks"]), spread(v.get("weights", []))
    args = {"window": v["window"], "seed": v["seed"], "epoch": epoch, "strata": v["strata"]}
    if weights:
        o: Any = proof.Importance(v["shuffle"], counts, weights, **args).order
    else:
        o = proof.shuffle(v["shuffle"], counts, **args)
    return counts, weights, o


def test_strata() -> None:
    for v in vectors("shuffle/testdata/homes.json", "strata"):
        counts, weights, o = stratified(v, v["epoch"])
        assert isinstance(o, proof.Window)
        args = {"window": v["window"], "seed": v["seed"], "importance": v["importance"], "weights": weights, "strata": v["strata"]}
        assert proof.order_digest("window", counts, **args) == v["order_digest"]
        assert [o.stratum(c) for c in range(min(20, len(counts)))] == v["stratum"]
        assert [o.at(t) for t in v["positions"]] == v["at"]
        assert [o.position(x) for x in v["of"]] == v["position"]
        assert digest(o.at(t) for t in range(sum(counts))) == v["digest"]


def test_homes() -> None:
    for v in vectors("shuffle/testdata/homes.json", "homes"):
        counts, weights, o = stratified(v, v["epoch"])
        if not weights:
            assert [list(o.chunk_home(c)) for c in range(min(20, len(counts)))] == v["home"]
        for deal in v["deals"]:
            positions, _ = proof.share(sum(counts), v["batch_size"], v["tail"], deal["batch"])
            homes = [o.home(t) * v["homes"] // o.homes() for t in positions]
            assert proof.deal_homes(homes, v["world_size"], v["homes"]) == deal["shares"]


def test_quarantine() -> None:
    for v in vectors("shuffle/testdata/mixtures.json", "quarantine"):
        counts, subset = spread(v["chunks"]), v.get("subset", "")
        if subset:
            counts = proof.subset_counts(counts, [x for x, is_member in enumerate(spread(v["members"])) if is_member])
        args = {"window": v["window"], "seed": v["seed"]}
        o = proof.shuffle(v["shuffle"], counts, epoch=v["epoch"], **args)
        q = proof.Quarantine(v["seed"], counts, v["bad"])
        assert [q.sub(v["epoch"], x) for x in v["bad"]] == v["substitutes"]
        assert digest(q.sub(v["epoch"], o.at(t)) for t in range(sum(counts))) == v["digest"]
        assert q.order_digest(proof.order_digest(v["shuffle"], counts, subset=subset, **args)) == v["order_digest"]


def test_subset() -> None:
    for v in vectors("shuffle/testdata/mixtures.json", "subset"):
        members = [x for x, is_member in enumerate(spread(v["members"])) if is_member]
        counts = proof.subset_counts(spread(v["chunks"]), members)
        args = {"window": v["window"], "seed": v["seed"]}
        o = proof.shuffle(v["shuffle"], counts, epoch=v["epoch"], **args)
        assert len(members) == v["samples"]
        assert digest(members[o.at(t)] for t in range(len(members))) == v["digest"]
        assert proof.order_digest(v["shuffle"], counts, subset=v["subset"], **args) == v["order_digest"]


def test_rules() -> None:
    for v in vectors("selection/testdata/rules.json", "rules"):
        assert [proof.subset_part(v["parts"], v["salt"], name.encode()) for name in v["keys"]] == v["subsets"]


def test_mixtures() -> None:
    for v in vectors("shuffle/testdata/mixtures.json", "mixture"):
        m = proof.Mixture(v["seed"], v["sources"], v["t"])
        assert m.samples == v["samples"]
        assert [m.source_seed(i) for i in range(len(m.sources))] == v["seeds"]
        assert [list(m.at(*p)) for p in v["positions"]] == v["turns"]
        assert [m.before(*p) for p in v["positions"]] == v["counts"]
        plans = [proof.order_digest("full", [s[0]], seed=seed) for s, seed in zip(m.sources, v["seeds"])]
        assert m.order_digest(plans) == v["order_digest"]
        if "digest" in v:
            assert digest(x for t in range(m.samples) for x in m.at(1, t)) == v["digest"]


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
        p = {k: int(v) for k, v in epoch.plan.parameters.items() if k in ("window", "seed", "strata")}
        assert proof.order_digest(plan["shuffle"], epoch.chunks(), **p) == epoch.plan.order_digest
