"""Subsets, quarantine and mixtures, from the command that creates them to the batches."""

from __future__ import annotations

import json
from pathlib import Path

import harness
import pytest

import millrace
from millrace import Order, Reading, proof


@pytest.fixture
def words(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"word": {i}}}\n' for i in range(200)))
    harness.run("index", str(tmp_path), "--batch-size", "16")
    return tmp_path


def read(epoch: millrace.Epoch) -> list[str]:
    ledger = millrace.Ledger()
    with epoch.read(ledger=ledger) as reader:
        keys = [key for batch in reader for key in batch.keys]
    ledger.check()
    return keys


def test_subsets(words: Path) -> None:
    harness.run("subset", str(words), "--into", "train=90,val=10")
    with harness.closing(g := harness.Gateway(f"d={words}")), millrace.Client(g.url) as client:
        everything = read(client.epoch(0, reading=Reading(keys=True)))
        train, val = (client.epoch(0, order=Order(subset=name), reading=Reading(keys=True)) for name in ("train", "val"))
        assert train.plan.parameters["subset"].endswith(":train")
        parts = read(train), read(val)
        assert sorted(parts[0] + parts[1]) == sorted(everything)
        for i, keys in enumerate(parts):
            assert keys
            assert all(proof.subset_part([90, 10], "", key.encode()) == i for key in keys)
        with pytest.raises(millrace.MillraceError, match="test"):
            client.epoch(0, order=Order(subset="test"))
        with pytest.raises(millrace.InvalidArgument, match=r"millrace\.proof"):
            train.order()


def test_quarantine(words: Path) -> None:
    with harness.closing(g := harness.Gateway(f"d={words}")), millrace.Client(g.url) as client:
        plain = client.epoch(1, reading=Reading(keys=True))
        before, counts, stored = read(plain), plain.chunks(), read(client.epoch(0, shuffle="none", reading=Reading(keys=True)))
        bad = [3, 77, 150]
        made = json.loads(harness.run("quarantine", str(words), "--json", *(w for x in bad for w in ("--key", stored[x]))))
        digest = next(v for v in made.values() if isinstance(v, str) and len(v) == 64 and v != plain.generation)
        epoch = client.epoch(1, order=Order(quarantine=digest), reading=Reading(keys=True))
        after = read(epoch)
        q = proof.Quarantine(int(epoch.plan.parameters["seed"]), counts, bad)
        o = plain.order()
        assert after == [stored[q.sub(1, o.at(t))] for t in range(len(stored))]
        assert [t for t in range(200) if before[t] != after[t]] == sorted(o.position(x) for x in bad)
        assert q.order_digest(plain.plan.order_digest) == epoch.plan.order_digest


def test_mixture(words: Path) -> None:
    mixture = ("--dataset", f"more={words}", "--mixture", "both=d:3,more:1,samples=400")
    with harness.closing(g := harness.Gateway(f"d={words}", args=mixture)), millrace.Client(g.url, "both") as client:
        epoch = client.epoch(0, decode={"json": millrace.load_json})
        assert (epoch.plan.samples, len(read(epoch))) == (400, 400)
        got = [row["word"] for batch in epoch for row in batch["json"]]
        assert sorted(set(got)) == list(range(200))
        m = proof.Mixture(int(epoch.plan.parameters["seed"]), [(200, 3, 0), (200, 1, 0)], 400)
        assert sum(m.at(0, t)[0] for t in range(400)) == 100
        with pytest.raises(millrace.InvalidArgument, match="mixture"):
            epoch.order()
