"""Mixtures that a client defines, and their schedules."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import harness
import pytest
from test_select import narrow, read, values

import millrace
from millrace import Order, Reading


def test_a_source_of_a_mixture_may_be_smaller_than_a_batch(tmp_path: Path) -> None:
    at = harness.lines(tmp_path / "a", "a", 20)
    harness.run("index", str(at), "--tail", "drop")
    with harness.closing(g := harness.Gateway(f"a={at}")), millrace.Client(g.url) as c:
        assert len(read(millrace.mix({c: 1, c.take(15): 1}))) == 32


def test_mixtures(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, b = two
    mixed = millrace.mix({a: 0.7, b: 0.3}, samples=100)
    assert mixed.dataset == "mix:a:7,b:3,samples=100"
    found = values(mixed)
    assert Counter(next(iter(v)) for v in found) == {"a": 70, "b": 30}
    assert values(mixed, global_batch_size=9) == found
    assert values(millrace.mix([(a, 7), (b, 3)], samples=100)) == found
    fixed = values(millrace.mix({a: 3, b: 1}, per_batch=True))
    assert all(Counter(next(iter(v)) for v in fixed[i : i + 4]) == {"a": 3, "b": 1} for i in range(0, len(fixed), 4))


def test_mixtures_with_a_schedule(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, b = two
    plain = values(millrace.mix({a: 0.7, b: 0.3}, samples=100), global_batch_size=10)
    mixed = millrace.mix({a: 0.7, b: 0.3}, samples=100, schedule={40: {b: 1}, 130: {a: 0.5, b: 0.5}})
    found = [values(mixed, epoch, global_batch_size=10) for epoch in (0, 1)]
    assert found[0][:40] == plain[:40] != found[0][40:80]
    assert all("b" in v for v in found[0][40:] + found[1][:30])
    assert Counter("b" in v for v in found[1][30:]) == {True: 35, False: 35}
    other = millrace.mix({a: 0.7, b: 0.3}, samples=100, schedule={40: {b: 2}, 60: {a: 1}})
    assert values(other, global_batch_size=10)[:60] == found[0][:60]
    digest = mixed.dataset.rpartition("=")[2]
    assert millrace.mix({a: 0.7, b: 0.3}, samples=100, schedule=digest).dataset == mixed.dataset
    late = millrace.mix({a: 1, b: 0}, samples=100, schedule={50: {b: 1}})
    assert ["b" in v for v in values(late, global_batch_size=10)] == [False] * 50 + [True] * 50
    with pytest.raises(millrace.InvalidArgument, match=r"segment 2 of the schedule begins at position 30 of epoch 1"):
        mixed.epoch(0, global_batch_size=20)
    for wrong, why in (
        ({"schedule": {50: {b: 1}}}, "requires samples=N"),
        ({"schedule": {50: {b: 1}}, "samples": 100, "per_batch": True}, "requires weights"),
        ({"schedule": {50: {b.take(3): 1}}, "samples": 100}, "is no source of the mixture"),
        ({"schedule": {50: {b: -1}}, "samples": 100}, "mix: schedule from position 50: share -1"),
        ({"schedule": {50: {b: 0}}, "samples": 100}, "segment 1: has no positive weight"),
        ({"schedule": {50: {b: 1}, 0: {a: 1}}, "samples": 100}, "segment 1: begins at position 0: must be after 0"),
        ({"schedule": "ab" * 32, "samples": 100}, "has no schedule abababababab"),
    ):
        with pytest.raises(millrace.errors.MillraceError, match=why):
            millrace.mix({a: 7, b: 3}, **wrong).epoch(0)


def test_a_schedule_is_stored_by_those_who_may(tmp_path: Path) -> None:
    at = harness.lines(tmp_path / "a", "a", 20)
    with harness.closing(g := harness.Gateway(f"a={at}", args=("--allow", "read"))), millrace.Client(g.url) as c, pytest.raises(
        millrace.errors.Denied, match=r"mix: .*schedule=DIGEST"
    ):
        millrace.mix({c: 1}, samples=100, schedule={20: {c: 1}})


@pytest.mark.usefixtures("runtime")
def test_a_schedule_without_a_server(tmp_path: Path) -> None:
    for word in ("a", "b"):
        (tmp_path / word).mkdir()
        (tmp_path / word / "a.jsonl").write_text(f'{{"{word}": 1}}\n' * 30)
    a, b = millrace.open(tmp_path / "a"), millrace.open(tmp_path / "b")
    mixed = millrace.mix({a: 1, b: 0}, samples=40, schedule={20: {b: 1}})
    assert ["b" in v for v in values(mixed, global_batch_size=10)] == [False] * 20 + [True] * 20


def test_mixtures_of_parts(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, b = two
    parts = a.split(train=0.9, val=0.1)
    bad = read(b, shuffle=False)[5]
    mixed = millrace.mix({parts["train"]: 0.5, b.quarantine(bad): 0.25, b.take(10): 0.25}, samples=400)
    found = values(mixed, global_batch_size=20)
    whole = {v["a"] for v in values(parts["train"])}
    assert {v["a"] for v in found if "a" in v} == whole
    assert Counter("a" in v for v in found) == {True: 200, False: 200}
    assert 5 in {v["b"] for v in found if "b" in v}  # from the part that is used completely
    only = millrace.mix({b.quarantine(bad): 1})
    assert 5 not in {v["b"] for v in values(only)}
    with pytest.raises(millrace.InvalidArgument, match=r"generation '000.*3 sources"):
        mixed.epoch(0, order=Order(generation="0" * 64))
    with pytest.raises(millrace.errors.GenerationGone):
        mixed.epoch(0, order=Order(generation=",".join(["0" * 64] * 3)))


def test_mixtures_go_on_anywhere(tmp_path: Path) -> None:
    """A job stops, one of its datasets grows, and the job resumes on another gateway."""
    a, b = harness.lines(tmp_path / "a", "a", 200), harness.lines(tmp_path / "b", "b", 100)
    with harness.closing(g := harness.Gateway(f"a={a}", f"b={b}")), millrace.Client(g.url) as c:
        mixed = millrace.mix({narrow(c, "a"): 2, narrow(c, "b"): 1})
        epoch = mixed.epoch(0)
        want, generation = [bytes(x.data) for x in epoch], epoch.generation
    (b / "more.jsonl").write_text('{"b": 1000}\n' * 30)
    harness.run("index", str(b), "--batch-size", "16")
    with harness.closing(g := harness.Gateway(f"a={a}", f"b={b}")), millrace.Client(g.url) as c:
        mixed = millrace.mix({narrow(c, "a"): 2, narrow(c, "b"): 1})
        assert [bytes(x.data) for x in mixed.epoch(0, order=Order(generation=generation), reading=Reading(start=5))] == want[5:]
        assert mixed.epoch(0).generation != generation


def test_a_batch_size_beside_per_batch_is_refused_with_the_cure(two: tuple[millrace.Client, millrace.Client]) -> None:
    a, b = two
    with pytest.raises(millrace.InvalidArgument, match=r"must be 10: .*; omit global_batch_size, or use shares with this sum"):
        millrace.mix({a: 7, b: 3}, per_batch=True).epoch(0, global_batch_size=64)


def test_a_run_resumes_with_another_future(two: tuple[millrace.Client, millrace.Client]) -> None:
    """A state loads into a mixture whose schedule changes later; the error for an earlier change names its position."""
    a, b = two
    first = {40: {b: 1}, 130: {a: 1, b: 1}, 180: {a: 1}}

    def mixed(schedule: Any) -> millrace.View:
        return millrace.mix({a: 0.7, b: 0.3}, samples=100, schedule=schedule)

    with mixed(first).epoch(1, global_batch_size=10).read() as reader:
        read = [next(reader) for _ in range(5)]
        state = reader.state_dict()
    assert (state["epoch"], state["position"], len(read)) == (1, 50, 5)
    for schedule in ({**first, 180: {b: 1}}, {**first, 150: {b: 1}, 180: {a: 2, b: 1}}, {40: {b: 1}, 130: {a: 1, b: 1}}):
        again = mixed(schedule).epoch(state, global_batch_size=10)
        assert (again.number, again.start) == (1, 5)
    whole = values(mixed(first), 1, global_batch_size=10)
    assert [json.loads(bytes(s.data)) for x in mixed({**first, 180: {b: 1}}).epoch(state, global_batch_size=10) for s in x][:30] == whole[50:80]
    for schedule, where in (
        ({40: {b: 1}, 140: {a: 1, b: 1}}, "position 30 of epoch 1"),
        ({**first, 130: {a: 1, b: 2}}, "position 30 of epoch 1"),
        ({40: {b: 1}, 90: {a: 1}, 130: {a: 1, b: 1}}, "position 90 of epoch 0"),
        ({130: {a: 1, b: 1}}, "position 40 of epoch 0"),
        (None, "position 40 of epoch 0"),
    ):
        with pytest.raises(millrace.errors.StateError, match=f"its weights differ from {where} on"):
            mixed(schedule).epoch(state, global_batch_size=10)
    with mixed(None).epoch(3, global_batch_size=10).read() as reader:
        for _ in range(5):
            next(reader)
        plain = reader.state_dict()
    with pytest.raises(millrace.errors.StateError, match="its weights differ from position 40 of epoch 0 on"):
        mixed(first).epoch(plain, global_batch_size=10)
    assert mixed({350: {b: 1}}).epoch(plain, global_batch_size=10).start == 5
    with pytest.raises(millrace.errors.StateError, match="seed, shuffle, window"):
        mixed(first).epoch(state, seed=5, global_batch_size=10)
