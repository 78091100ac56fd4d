"""Splits, first samples, bad samples and mixtures of them that a client defines."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from fractions import Fraction
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest

import millrace
from millrace import Order, Reading, Share, proof


def read(client: millrace.Client, number: int = 0, **how: Any) -> list[str]:
    epoch = client.epoch(number, **harness.grouped(keys=True, **how))
    ledger = millrace.Ledger()
    with epoch.read(ledger=ledger) as reader:
        keys = [key for batch in reader for key in batch.keys]
    ledger.check()
    return keys


def values(client: millrace.Client, number: int = 0, **how: Any) -> list[Any]:
    return [json.loads(bytes(s.data)) for batch in client.epoch(number, **harness.grouped(**how)) for s in batch]


def test_a_split(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, _ = two
    whole = read(a, shuffle=False)
    parts = a.split(train=0.75, val=0.25)
    train, val = (read(part, shuffle=False) for part in parts.values())
    assert list(parts) == ["train", "val"]
    assert sorted(train + val) == sorted(whole)
    for i, keys in enumerate((train, val)):
        assert keys
        assert all(proof.subset_part([3, 1], "", key.encode()) == i for key in keys)
    assert sorted(read(parts["train"], 5, global_batch_size=7)) == sorted(train)
    assert read(a.split({"train": 3, "val": 1})["val"]) == read(parts["val"]) == read(a, subset="train=3,val=1:val")
    assert read(a.split(train=0.75)["train"]) == read(parts["train"])  # the remaining part has no name
    assert read(a.split(train=3, val=1, salt="x")["val"], shuffle=False) != val
    inner = read(parts["train"].split(x=0.5, y=0.5)["x"], shuffle=False)
    assert set(inner) < set(train)
    assert 0.3 < len(inner) / len(train) < 0.7


def test_the_first_samples(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, _ = two
    whole = read(a, shuffle=False)
    assert read(a.take(5), shuffle=False) == whole[:5]
    assert sorted(read(a.take(50), 3, global_batch_size=8)) == sorted(whole[:50])
    assert read(a.take(200), shuffle=False) == whole
    assert read(a.take(50).take(3), shuffle=False) == whole[:3]
    assert read(a.subset([3, 4, 9]), shuffle=False) == [whole[3], whole[4], whole[9]]
    train = a.split(train=0.5)["train"]
    assert read(train.take(4), shuffle=False) == read(train, shuffle=False)[:4]


def test_more_samples_than_there_are_is_refused_with_both_numbers(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, _ = two
    call: Any
    for call, takes, there in (
        (lambda: a.take(201), 201, 200), (lambda: a.subset(range(190, 500)), 500, 200), (lambda: a.subset([3, 200]), 201, 200),
        (lambda: a.take(50).take(51), 51, 50), (lambda: a.subset("samples:0-200"), 201, 200),
    ):
        with pytest.raises(millrace.InvalidArgument, match=rf"this takes {takes} samples, and there are {there}; take\({there}\) has all"):
            call()


def test_an_epoch_without_batches_is_refused(two: tuple[millrace.Client, millrace.Client]) -> None:
    """A loop over it would silently do nothing."""
    a, _ = two
    sizes = {len(part): part for part in a.take(1).split(x=0.5, y=0.5).values()}
    assert set(sizes) == {0, 1}
    assert len(read(sizes[1])) == 1
    drop = Share(tail="drop")
    for refused, said in (
        (lambda: sizes[0].epoch(0), "there are no samples; give the part a larger share"),
        (lambda: millrace.mix({a: 1, sizes[0]: 1}), "there are no samples; give the part a larger share"),
        (lambda: a.take(15).epoch(0, share=drop), r"15 samples fill no batch of 16, and tail='drop' .*; give a smaller global_batch_size, or share="),
    ):
        with pytest.raises(millrace.InvalidArgument, match=f"^epoch 0 of <View of .* subset samples:0.*>: {said}"):
            refused()


def test_stored_subsets(tmp_path: Path) -> None:
    at = harness.lines(tmp_path / "a", "a", 200)
    made = json.loads(harness.run("subset", str(at), "--into", "train=9,val=1", "--json"))
    with harness.closing(g := harness.Gateway(f"a={at}")), millrace.Client(g.url) as c:
        train = read(c.subset("train"), shuffle=False)
        assert train == read(c.split(train=0.9, val=0.1)["train"], shuffle=False)
        assert read(c.subset(f"{made['subset']}:train").take(3), shuffle=False) == train[:3]
        mixed = millrace.mix({c.subset("train"): 1})
        assert Counter(read(mixed)) == Counter(train)


@pytest.fixture
def many(tmp_path: Path) -> Iterator[millrace.Client]:
    """A dataset of 5,000 samples on a gateway that stores subsets."""
    at = harness.lines(tmp_path / "many", "n", 5000)
    gateway = harness.Gateway(f"many={at}", args=("--allow", "read,report"))
    with harness.closing(gateway), millrace.Client(gateway.url) as c:
        yield c


def test_subset_by_keys(many: millrace.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A random half, from a list, an iterator and a file, in any order. All yield the same subset, in stored order."""
    whole = read(many, shuffle=False, global_batch_size=500)
    half = random.Random(7).sample(whole, 2500)
    listed = many.subset(keys=half)
    want = [key for key in whole if key in set(half)]
    assert read(listed, shuffle=False, global_batch_size=500) == want
    assert sorted(read(listed, 3, global_batch_size=500)) == sorted(half)
    (tmp_path / "train.txt").write_text("\n".join([*reversed(half), half[0]]))
    for again in (many.subset(keys=tmp_path / "train.txt"), many.subset(keys=iter(half))):
        assert again.selection.subset == listed.selection.subset
    assert "1 keys are given more than once" in caplog.text
    assert read(pickle.loads(pickle.dumps(listed)), shuffle=False, global_batch_size=500) == want
    assert read(listed.take(3), shuffle=False) == want[:3]
    assert read(listed.exclude(want[:2]), shuffle=False, global_batch_size=500) == want[2:]
    parts = listed.split(a=0.5, b=0.5).values()
    assert sorted(key for part in parts for key in read(part, global_batch_size=500)) == sorted(half)
    both = millrace.mix({listed: 1, many.subset(keys=set(whole) - set(half)): 1})
    assert sorted(read(both, global_batch_size=500)) == sorted(whole)


@pytest.mark.parametrize("choose", ["subset", "exclude", "quarantine"])
def test_a_text_is_one_key_and_a_path_is_a_file_of_keys(many: millrace.Client, choose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    key, other = read(many.take(2), shuffle=False)
    (tmp_path / "bad.txt").write_text(f"{key}\n\n{other}\ta.jsonl\n")

    def chosen(keys: Any) -> tuple[str, str]:
        made = many.subset(keys=keys) if choose == "subset" else getattr(many, choose)(keys)
        return made.selection.subset, made.selection.quarantine

    assert chosen(key) == chosen([key])
    assert chosen(Path("bad.txt")) == chosen([key, other])
    wrong: Any
    for wrong, said in (
        ("bad.txt", rf"^{choose}: 'bad.txt' names a sample, and there is a file of this name; write pathlib.Path\('bad.txt'\) .*, or \['bad.txt'\]"),
        ("bda.txt", r"no sample has .*; batch.keys has the samples' names; a file of them is given as a pathlib.Path"),
        (Path("bda.txt"), f"^{choose}: read keys of 'bda.txt': .*No such file.*; give the path of a file of keys, one a line"),
        (3, f"^{choose}: 3 is not a key; give names of samples"), ([b"x"], "b'x' is not a key; give"), (("a", "b", "c"), "is not a key; give"),
    ):
        with pytest.raises((millrace.InvalidArgument, millrace.NotFound), match=said):
            chosen(wrong)


def test_folds_are_the_whole(many: millrace.Client) -> None:
    whole = read(many, global_batch_size=500)
    folds = [many.subset(keys=whole[k::5]) for k in range(5)]
    read_back = [read(fold, global_batch_size=100) for fold in folds]
    assert [len(keys) for keys in read_back] == [1000] * 5
    assert sorted(key for keys in read_back for key in keys) == sorted(whole)


def test_subset_of_unknown_keys(many: millrace.Client) -> None:
    with pytest.raises(millrace.InvalidArgument, match=r'no sample has 4 of 5 keys: "n1", "n2", "n3", \.\.\.') as e:
        many.subset(keys=[*read(many.take(1)), "n4", "n3", "n2", "n1"])
    assert "quarantine" not in str(e.value)


def test_numbers_beyond_an_address(many: millrace.Client) -> None:
    """Many numbers are stored. Selections within them still fit into an address."""
    whole = read(many, shuffle=False, global_batch_size=500)
    scattered = many.subset(range(0, 5000, 2))
    assert scattered.selection.subset.endswith(":listed")
    assert read(scattered, shuffle=False, global_batch_size=500) == whole[::2]
    assert read(many.split(a=9, b=1)["a"].subset(range(0, 4000, 2)), shuffle=False, global_batch_size=500) == (
        read(many.split(a=9, b=1)["a"], shuffle=False, global_batch_size=500)[0:4000:2]
    )


def test_listed_subsets_follow_generations(tmp_path: Path) -> None:
    """A client reads the generation in which it looked up its keys. In another generation it looks them up again."""
    at = harness.lines(tmp_path / "a", "a", 200)
    with harness.closing(g := harness.Gateway(f"a={at}", args=("--allow", "read,report"))), millrace.Client(g.url) as c:
        keys = read(c, shuffle=False)[3:150:7]
        part = c.subset(keys=keys)
        (at / "0.jsonl").write_text('{"a": 1000}\n' * 30)
        harness.run("index", str(at), "--batch-size", "16")
        c.json("POST", "/v1/reload")
        now, old = c.describe()["generation"], part.selection.generation
        assert now != old
        assert read(part, shuffle=False) == keys == read(c.subset(keys=keys), shuffle=False)
        epoch = part.epoch(0, shuffle=False, order=Order(generation=now), reading=Reading(keys=True))
        assert [key for batch in epoch for key in batch.keys] == keys
        assert c.subset(keys=keys, generation=old).selection == part.selection


def test_a_gateway_that_stores_no_subset(tmp_path: Path) -> None:
    a = harness.lines(tmp_path / "a", "a", 200)
    with harness.closing(g := harness.Gateway(f"a={a}", args=("--allow", "read"))), millrace.Client(g.url) as c:
        keys = read(c, shuffle=False)[:5]
        with pytest.raises(millrace.errors.Denied, match="millrace subset DATASET --keys FILE"):
            c.subset(keys=keys)
        (tmp_path / "keys.txt").write_text("\n".join(keys))
        made = json.loads(harness.run("subset", str(a), "--keys", str(tmp_path / "keys.txt"), "--json"))
        assert read(c.subset(f"{made['subset']}:listed"), shuffle=False) == keys


def test_bad_samples(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, _ = two
    stored, before = read(a, shuffle=False), read(a, 1)
    bad = [stored[i] for i in (3, 77, 78, 150)]
    clean = a.quarantine(bad[:1], reason="black").quarantine(bad[1:])
    assert clean.selection.quarantine == "samples:3,77-78,150"
    assert clean.selection.bad == {bad[0]: "black", bad[1]: "", bad[2]: "", bad[3]: ""}
    after = read(clean, 1)
    assert [t for t in range(200) if before[t] != after[t]] == sorted(before.index(key) for key in bad)
    assert not set(after) & set(bad)
    ranks = [clean.epoch(1, share=Share(rank=r, world_size=3), reading=Reading(keys=True, start=4)) for r in range(3)]
    resumed = sorted(key for e in ranks for b in e for key in b.keys)
    assert resumed == sorted(after[4 * 16 :])  # on other ranks, in the middle of the epoch
    train = a.split(train=0.5)["train"].quarantine(bad)
    assert set(read(train)) == set(read(a.split(train=0.5)["train"])) - set(bad)
    with pytest.raises(millrace.NotFound, match="sample 'nosuch'"):
        a.quarantine("nosuch")


def test_samples_that_are_left_out(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, _ = two
    stored = read(a, shuffle=False)
    bad = [stored[i] for i in (0, 77, 78, 199)]
    rest = a.exclude(bad[2:], reason="black").exclude(bad[:2])
    assert rest.selection.subset == "samples:1-76,79-198"
    assert rest.selection.bad == {bad[0]: "", bad[1]: "", bad[2]: "black", bad[3]: "black"}
    assert read(rest, shuffle=False) == [key for key in stored if key not in bad]
    after = read(rest, 1)
    assert sorted(after) == sorted(set(stored) - set(bad))  # each sample once
    ranks = [rest.epoch(1, share=Share(rank=r, world_size=3), reading=Reading(keys=True, start=4)) for r in range(3)]
    assert sorted(key for e in ranks for b in e for key in b.keys) == sorted(after[4 * 16 :])
    assert read(rest.take(3), shuffle=False) == stored[1:4]
    assert sorted(key for part in rest.split(x=0.5, y=0.5).values() for key in read(part)) == sorted(after)
    train = a.split(train=0.5)["train"]
    assert sorted(read(train.exclude(bad))) == sorted(set(read(train)) - set(bad))
    assert read(a.take(50).exclude(stored[:2]).quarantine(stored[4]).exclude(stored[2]), shuffle=False)[:1] == stored[3:4]
    mixed = millrace.mix({rest: 1, a.take(20): 0.0})
    assert Counter(read(mixed)) == Counter(after)
    scattered = a.exclude(stored[::2])  # more than two hundred bytes of ranges
    assert read(pickle.loads(pickle.dumps(scattered)), shuffle=False) == stored[1::2]
    assert a.exclude([]).selection.subset == a.quarantine([]).selection.quarantine == ""


def test_a_mixture_says_of_which_source_a_bad_sample_is(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, b = two
    bad: list[millrace.SampleError] = []

    def check(sample: millrace.Sample) -> Any:
        if json.loads(bytes(sample["json"])) in ({"a": 7}, {"b": 7}):
            raise ValueError("black")
        return sample

    for keys in (True, False):
        bad.clear()
        for _batch in millrace.mix({a: 2, b: 1}).epoch(0, transform=check, reading=Reading(on_error=bad.append, keys=keys)):
            pass
        assert sorted((e.source, e.key) for e in bad) == [("a", read(a, shuffle=False)[7]), ("b", read(b, shuffle=False)[7])]
        assert all(f", source '{e.source}': ValueError" in str(e) for e in bad)


def test_sources_of_other_parts(two: tuple[millrace.Client, millrace.Client], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    a, b = two
    millrace.mix({a: 1, b: 1})
    assert not caplog.records
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "one.txt").write_text("one")
    harness.run("index", str(texts))
    with harness.closing(g := harness.Gateway(f"a={tmp_path / 'a'}", f"texts={texts}")):
        millrace.mix({millrace.Client(g.url, "a"): 1, millrace.Client(g.url, "texts"): 1})
    assert "a has json; texts has txt" in caplog.text


def test_bad_samples_that_readers_find(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, _ = two

    def decode(view: memoryview) -> Any:
        value = json.loads(bytes(view))["a"]
        if value in (7, 8, 100):
            raise ValueError("black")
        return value

    bad: list[millrace.SampleError] = []
    for _batch in a.epoch(0, decode={"json": decode}, reading=Reading(keys=True, on_error=bad.append)):
        pass
    assert len(bad) == 3
    clean = a.quarantine(bad)
    assert clean.selection.quarantine == "samples:7-8,100"
    assert set(clean.selection.bad.values()) == {"part json does not decode"}
    for _batch in clean.epoch(0, decode={"json": decode}):
        pass


def test_a_stored_list_of_bad_samples(tmp_path: Path) -> None:
    at = harness.lines(tmp_path / "a", "a", 200)
    with harness.closing(g := harness.Gateway(f"a={at}")), millrace.Client(g.url) as c:
        key = read(c, shuffle=False)[5]
        digest = json.loads(harness.run("quarantine", str(at), "--key", key, "--json"))["quarantine"]
        clean = c.quarantine(digest)
        assert key not in read(clean)
        assert read(clean) == read(c.quarantine(key))
        with pytest.raises(millrace.NotFound, match="digest"):
            c.quarantine(digest[::-1])
        with pytest.raises(millrace.InvalidArgument, match="stored list"):
            clean.quarantine(key)
    (at / "0.jsonl").write_text('{"a": 1000}\n' * 30)
    harness.run("index", str(at), "--batch-size", "16")
    with harness.closing(g := harness.Gateway(f"a={at}")), millrace.Client(g.url) as c:
        grown = read(c.quarantine(digest))  # the list belongs to the older generation
        assert key in read(c)
        assert key not in grown
        assert grown == read(c.quarantine(key))


def test_bad_samples_belong_to_a_generation(tmp_path: Path) -> None:
    """New samples change the numbers of the bad ones.

    A client that names bad samples by number resumes with the generation of those numbers.
    """
    a, b = harness.lines(tmp_path / "a", "a", 200), harness.lines(tmp_path / "b", "b", 100)
    with harness.closing(g := harness.Gateway(f"a={a}", f"b={b}")):
        c = millrace.Client(g.url, "a")
        bad = [s.key for s in c.epoch(0, shuffle=False, reading=Reading(keys=True)).batch(0)[:2]]
        clean = c.quarantine(bad)
        mixed = millrace.mix({clean: 1, millrace.Client(g.url, "b"): 1})
        want, both, old = values(clean), values(mixed), clean.selection.generation
    (a / "0.jsonl").write_text('{"a": 1000}\n' * 30)
    harness.run("index", str(a), "--batch-size", "16")
    with harness.closing(harness.Gateway(f"a={a}", f"b={b}", port=g.port)):
        assert values(clean) == want
        assert values(mixed) == both
        assert c.describe()["generation"] != old
        assert c.quarantine(bad).selection.quarantine == "samples:30-31"
        assert values(c.quarantine(bad, generation=old)) == want
        for moved, chosen in (("quarantine=samples:30-31", clean), ("subset=samples:0-29,32-229", c.exclude(bad, generation=old))):
            epoch = chosen.epoch(0, order=Order(generation=c.describe()["generation"]), reading=Reading(keys=True))
            assert moved in "&".join(f"{k}={v}" for k, v in epoch.plan.parameters.items())
            assert not set(bad) & {key for batch in epoch for key in batch.keys}
        new = [millrace.Client(g.url, name).describe()["generation"] for name in "ab"]
        fresh = read(c.take(1))[0]  # from the added data
        assert c.exclude([fresh, bad[0]]).epoch(0, order=Order(generation=old)).plan.samples == 199
        assert values(millrace.mix({c.quarantine(bad, generation=old): 1, millrace.Client(g.url, "b"): 1})) == both
        assert mixed.epoch(0, order=Order(generation=",".join(new))).plan.dataset == "mix:a(quarantine=samples:30-31):1,b:1"
        assert values(mixed) == both
    for part in (clean, mixed):
        part.client.close()


def narrow(client: millrace.Client, dataset: str) -> millrace.Client:
    return millrace.Client([s.base.name for s in client.core.settings.endpoints], dataset).split(train=0.9)["train"]


def test_a_part_ends_with_its_client_and_travels_alone(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, b = two
    part, mixed = a.take(20), millrace.mix({a: 1, b: 1})
    want = read(part)
    travelled = pickle.loads(pickle.dumps(part))
    assert part.client is a
    assert mixed.client not in (a, b)
    with pytest.raises(FrozenInstanceError):
        part.selection = mixed.selection  # type: ignore[misc]
    mixed.client.close()
    assert read(part) == read(travelled) == want
    a.close()
    with pytest.raises(millrace.errors.Closed):
        read(part)
    assert read(travelled) == want
    travelled.client.close()


def test_rights(tmp_path: Path) -> None:
    """A mixture requires the right to read every source. A part of a dataset requires no more than the dataset itself."""
    a, b = harness.lines(tmp_path / "a", "a", 200), harness.lines(tmp_path / "b", "b", 100)
    held = {name: "mr_" + name[0] * 43 for name in ("both", "one")}
    access = tmp_path / "access.yaml"
    access.write_text(
        "tokens:\n"
        + "".join(f"  - {{name: {name}, sha256: {hashlib.sha256(text.encode()).hexdigest()}}}\n" for name, text in held.items())
        + 'grants:\n  - {who: ["token:both"], datasets: ["*"], rights: [read]}\n  - {who: ["token:one"], datasets: [a], rights: [read]}\n'
    )
    access.chmod(0o600)
    with harness.closing(g := harness.Gateway(f"a={a}", f"b={b}", args=("--access", str(access)))):
        mine, theirs = (millrace.mix({millrace.Client(g.url, "a", token=t): 1, millrace.Client(g.url, "b", token=t): 1}) for t in (held["both"],) * 2)
        assert len(read(mine)) == len(read(theirs)) == 300
        with millrace.Client(g.url, "a", token=held["one"]) as one:
            assert len(read(one.split(train=0.5)["train"].quarantine(read(one.take(3))))) > 50
            with pytest.raises(millrace.NotFound):
                one.json("GET", "/v1/datasets/mix:a:1,b:1")
            with pytest.raises(millrace.NotFound):
                millrace.mix({one: 1, millrace.Client(g.url, "b", token=held["one"]): 1})
        with millrace.Client(g.url, "a") as nobody, pytest.raises(millrace.errors.Unauthenticated):
            nobody.json("GET", "/v1/datasets/mix:a:1,b:1")


def test_without_a_server(tmp_path: Path, runtime: Path) -> None:
    """Two folders share one gateway, which is killed in mid-epoch. The restarted gateway serves both."""
    places = []
    for word in ("a", "b"):
        places.append(tmp_path / word)
        places[-1].mkdir()
        for i in range(60):
            (places[-1] / f"{word}{i:02d}.txt").write_text(f"{word} {i}")
    with millrace.open(places[0], deadline=20) as a, millrace.open(places[1], deadline=20) as b:
        mixed = millrace.mix({a.split(train=0.9)["train"]: 0.5, b: 0.5})
        with mixed.client:
            want = [bytes(v) for x in mixed.epoch(0, global_batch_size=8) for v in x["txt"]]
            epoch = mixed.epoch(0, global_batch_size=8, reading=Reading(prefetch_bytes=0))
            with epoch.read() as reader:
                got = [bytes(v) for v in next(reader)["txt"]]
                for pid in harness.gateways_at(runtime):
                    os.kill(pid, signal.SIGKILL)
                got += [bytes(v) for x in reader for v in x["txt"]]
            assert got == want
            assert {v[:1] for v in want} == {b"a", b"b"}
            travelled = pickle.loads(pickle.dumps(mixed))
            assert sorted(read(a.subset(keys=["a07", "a03"]))) == ["a03", "a07"]
            with pytest.raises(millrace.errors.TransformError) as failed:
                mixed.epoch(0, global_batch_size=8, transform=lambda _: 1 / 0).batch(0)
            assert failed.value.source in map(str, places)
        a.close()
        b.close()
        assert [bytes(v) for x in travelled.epoch(0, global_batch_size=8) for v in x["txt"]] == want
        travelled.client.close()


@pytest.mark.parametrize(
    ("shares", "want"),
    [
        ({"x": 0.9, "y": 0.1}, "x=9,y=1"), ({"x": 0.7, "y": 0.3}, "x=7,y=3"), ({"x": 1 / 3, "y": 2 / 3}, "x=1,y=2"),
        ({"x": 0.1 + 0.2, "y": 0.7}, "x=3,y=7"),
        ({"x": 90, "y": 10}, "x=9,y=1"), ({"x": Fraction(1, 7)}, "x=1,rest=6"),
        ({"x": 0.05, "rest": 0.05}, "x=1,rest=1,left=18"), ({"x": 1.0}, "x=1"),
        ({"rest": 0.1, "left": 0.1, "others": 0.1}, "rest=1,left=1,others=1,rest0=7"),
        ({"x": 0.33, "y": 0.33, "z": 0.34}, "x=33,y=33,z=34"), ({"x": 1e-6}, "x=1,rest=999999"),
    ],
)
def test_fractions(shares: dict[str, float], want: str) -> None:
    client = millrace.Client("http://127.0.0.1:1", "a")
    assert {c.selection.subset for c in client.split(shares).values()} == {f"{want}:{name}" for name in shares}


def test_refusals(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, b = two
    wrong: Any
    for wrong in ({"x": 0.9, "y": 0.2}, {"x": -0.1}, {"x": 0}, {"x": math.nan}, {"x": math.inf}, {"x": True}, {"x": "a"}, {}, {"x": 1 << 33, "y": 1}):
        with pytest.raises(millrace.InvalidArgument):
            a.split(wrong)
    call: Any
    for call in (
        lambda: a.take(0), lambda: a.take(-1), lambda: a.subset([3, 3]), lambda: a.subset([4, 3]), lambda: a.subset(["a.jsonl/3"]),
        lambda: a.subset(), lambda: a.subset("train", keys=["x"]), lambda: a.subset(keys=[]), lambda: a.subset(keys=Path("/nowhere")),
        lambda: a.subset(keys=[3]),
        lambda: a.take(5).subset(keys=["x"]), lambda: a.subset(range(3), generation="x"),
        lambda: a.quarantine("ab" * 32), lambda: a.exclude(read(a)), lambda: a.exclude("nosuch"), lambda: a.exclude([3]),
        lambda: a.split([0.8, 0.2]), lambda: a.split("train"), lambda: millrace.mix([a, b]), lambda: millrace.mix({"s3://train/a": 1}),
        lambda: millrace.mix({a: 0.0, b: 0}), lambda: millrace.mix({a: 1, b: 1}).exclude("x"),
        lambda: a.take(5).epoch(0, order=Order(subset="train")), lambda: a.take(5).epoch(0, dataset="b"), lambda: a.quarantine("samples:3").epoch(0),
        lambda: millrace.mix({}), lambda: millrace.mix({a: 0}), lambda: millrace.mix({a: 0.5}, per_batch=True),
        lambda: millrace.mix({a: 1}, samples=0).describe(),
        lambda: millrace.mix({millrace.mix({a: 1, b: 1}): 1, a: 1}), lambda: millrace.mix({a: 1, b: 1}).take(5),
        lambda: millrace.mix({a: 1, b: 1}).split(x=0.5),
        lambda: millrace.mix({a: 1, b: 1}).quarantine("x"), lambda: millrace.mix({a: 1, millrace.Client("http://127.0.0.1:1", "a"): 1}),
    ):
        with pytest.raises((millrace.InvalidArgument, millrace.NotFound)):
            call()
    with pytest.raises(millrace.NotFound):
        millrace.mix({a: 1, millrace.Client([s.base.name for s in a.core.settings.endpoints], "nosuch"): 1})
    assert read(a.take(5)) == read(a.take(5), subset="samples:0-4")


@pytest.mark.parametrize(
    ("which", "options", "said"),
    [
        (3, {}, "subset: 3 is no list of numbers; write subset"), ("", {}, "subset: want either a subset or keys"),
        (None, {"keys": ["x"], "generation": 3}, "generation=3: want a text"), ([], {}, "subset: no sample is named"),
    ],
)
def test_what_chooses_no_samples_is_refused(two: tuple[millrace.Client, millrace.Client], which: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(millrace.InvalidArgument, match=f"^{said}"):
        two[0].subset(which, **options)


def test_samples_are_chosen_by_arrays(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, _ = two
    whole = read(a, shuffle=False)
    assert read(a.subset(np.flatnonzero(np.arange(200) % 50 == 7)), shuffle=False) == whole[7::50]  # type: ignore[arg-type]
    assert read(a.quarantine(np.array(whole[:2])).quarantine(np.array(whole[2:4]))) == read(a.quarantine(whole[:4]))


@pytest.mark.parametrize("n", ["5", 2.5, True, 0, -1, None])
def test_take_wants_a_number_of_samples(gateway: harness.Gateway, n: Any) -> None:
    said = "^take: .* is no number of samples; give a whole number, 1 or more"
    with millrace.Client(gateway.url) as client, pytest.raises(millrace.InvalidArgument, match=said):
        client.take(n)
