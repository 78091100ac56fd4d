"""Mixtures and parts of datasets in torch: workers, ranks and a resume in mid-epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import harness
import pytest

import millrace
import millrace.torch
from millrace import Reading, Share


def lines(at: Path, word: str, count: int) -> Path:
    at.mkdir()
    (at / "a.jsonl").write_text("".join(f'{{"word": "{word}", "n": {i}}}\n' for i in range(count)))
    harness.run("index", str(at), "--batch-size", "12")
    return at


def names(batch: Any) -> list[str]:
    return [f"{v['word']} {v['n']}" for v in batch["json"]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_mixture_goes_on_with_other_ranks(tmp_path: Path, workers: int) -> None:
    a, b = lines(tmp_path / "a", "a", 240), lines(tmp_path / "b", "b", 120)
    with harness.closing(g := harness.Gateway(f"a={a}", f"b={b}")):

        def dataset(rank: int, world_size: int) -> millrace.torch.Dataset:
            ca, cb = millrace.Client(g.url, "a"), millrace.Client(g.url, "b")
            bad = [s.key for s in ca.epoch(0, shuffle=False, reading=Reading(keys=True)).batch(0)[:2]]
            mixed = millrace.mix({ca.split(train=0.8)["train"].quarantine(bad): 0.75, cb.take(60): 0.25})
            return millrace.torch.Dataset(mixed, share=Share(rank=rank, world_size=world_size))

        whole = [names(x) for x in millrace.torch.DataLoader(dataset(0, 1), num_workers=workers)]
        begun = millrace.torch.DataLoader(dataset(0, 1), num_workers=workers)
        first = iter(begun)
        for want in whole[:5]:
            assert names(next(first)) == want
        state = begun.state_dict()
        del first
        ranks = []
        for rank in range(2):
            loader = millrace.torch.DataLoader(dataset(rank, 2), num_workers=workers)
            loader.load_state_dict(state)
            ranks.append([names(x) for x in loader])
        assert [x + y for x, y in zip(*ranks)] == whole[5:]
        assert not {"a 0", "a 1"} & {n for x in whole for n in x}
        other = millrace.torch.Dataset(millrace.mix({millrace.Client(g.url, "a"): 1, millrace.Client(g.url, "b"): 1}))
        with pytest.raises(millrace.errors.StateError):
            other.load_state_dict(state)


def test_parts_of_the_default_dataset(tmp_path: Path) -> None:
    a = lines(tmp_path / "a", "a", 50)
    with harness.closing(g := harness.Gateway(f"a={a}")), millrace.Client(g.url) as client:
        few = client.take(10)
        dataset = millrace.torch.Dataset(few, share=Share(rank=0, world_size=1))
        assert sorted(n for x in dataset for n in names(x)) == sorted(f"a {i}" for i in range(10))
        chosen = millrace.torch.MapDataset(client.subset([3, 7]))
        assert [chosen[i]["json"]["n"] for i in range(len(chosen))] == [3, 7]
        mixed = millrace.torch.MapDataset(millrace.mix({few: 1, client.subset([20]): 1}), shuffle=True)
        assert {mixed[i]["json"]["n"] for i in range(len(mixed))} <= {*range(10), 20}


@pytest.mark.parametrize("mixed", [False, True])
def test_a_checkpoint_goes_on_without_bad_samples_although_the_data_have_grown(tmp_path: Path, mixed: bool) -> None:
    """A job stops at a bad sample. Meanwhile data is added, which changes the sample's number."""
    a, b = lines(tmp_path / "a", "a", 240), lines(tmp_path / "b", "b", 120)

    def of(url: str, bad: list[str], **how: Any) -> millrace.torch.Dataset:
        chosen = millrace.Client(url, "a").split(train=0.8)["train"].quarantine(bad)
        source = millrace.mix({chosen: 0.5, millrace.Client(url, "b"): 0.5}) if mixed else chosen
        return millrace.torch.Dataset(source, **harness.grouped(rank=0, world_size=1, **how))

    with harness.closing(g := harness.Gateway(f"a={a}", f"b={b}")):
        dataset = of(g.url, [])
        batches = iter(dataset)
        next(batches)
        state, before = dataset.state_dict(), [names(x) for x in batches]
        with millrace.Client(g.url, "a") as client:
            samples = [sample for batch in client.epoch(0, decode=True, reading=Reading(keys=True)) for sample in batch]
            bad = [s.key for s in samples if f"a {s['json']['n']}" in {*before[3], *before[4]}]
    (a / "0.jsonl").write_text('{"word": "new", "n": 0}\n' * 30)
    harness.run("index", str(a), "--batch-size", "12")
    with harness.closing(g := harness.Gateway(f"a={a}", f"b={b}")):
        if mixed:  # its state has a digest of the generations
            with pytest.raises(millrace.errors.GenerationGone, match=r"give order=millrace.Order\(generation=...\) of the run"):
                of(g.url, bad).load_state_dict(state)
        dataset = of(g.url, bad, **({"generation": dataset.generation} if mixed else {}))
        dataset.load_state_dict(state)
        after = [names(x) for x in dataset]
        with pytest.raises(millrace.errors.StateError, match="seed"):
            of(g.url, bad, seed=5, generation=dataset.generation).load_state_dict(state)
    gone = {n for x in before[3:5] for n in x if n.startswith("a")}
    assert gone
    assert not gone & {n for x in after for n in x}
    assert [[n in gone or n == m for n, m in zip(x, y)] for x, y in zip(before, after)] == [[True] * len(x) for x in before]
    with harness.closing(g := harness.Gateway(f"a={a}", f"b={b}")), millrace.Client(g.url, "a") as client:
        other = millrace.torch.Dataset(client.split(train=0.8)["train"].exclude(bad), share=Share(rank=0, world_size=1))
        with pytest.raises(millrace.errors.GenerationGone if mixed else millrace.errors.StateError):
            other.load_state_dict(state)
