"""The ledger of an epoch in isolation: intervals, faults, merging, and its text form."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import pytest

from millrace import Ledger, proof
from millrace.errors import LedgerError


class Batch:
    """The part of a batch that a ledger reads."""

    def __init__(self, positions: Any, padded: int = 0, refused: Any = ()) -> None:
        self.positions, self.padded, self.refused = positions, padded, refused


def state(ledger: Ledger) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ledger.to_json())
    return found


def test_intervals_are_joined() -> None:
    ledger = Ledger(10, name="plan")
    ledger.note(range(4, 6))
    ledger.note([7, 8, 2, 3])
    ledger.note(range(3, 3))
    ledger.note([])
    assert state(ledger) == {"samples": 10, "name": "plan", "seen": 6, "padded": 0, "runs": [[2, 6], [7, 9]], "twice": []}
    assert (ledger.missing, ledger.first_missing, ledger.duplicates) == (4, 0, 0)
    ledger.note([0, 1])
    assert (ledger.missing, ledger.first_missing) == (2, 6)
    ledger.note([6, 9])
    assert (ledger.missing, ledger.first_missing, ledger.duplicates, ledger.seen) == (0, None, 0, 10)
    ledger.check()
    assert state(Ledger(3)) == {"samples": 3, "name": "", "seen": 0, "padded": 0, "runs": [], "twice": []}


@pytest.mark.parametrize("positions", [range(0, 8, 2), range(7, -1, -1), range(3, 5), [5, 5, 1], [0], [0, 0]])
def test_positions_of_any_form(positions: Any) -> None:
    ledger = Ledger(8)
    ledger.note(positions, 2)
    assert (ledger.seen, ledger.padded) == (len(positions), 2)
    assert ledger.missing == 8 - len(set(positions))
    assert ledger.duplicates == len(positions) - len(set(positions))


def test_a_batch_with_padding_and_refused_samples() -> None:
    ledger = Ledger(10)
    ledger.add(Batch(range(5)))  # type: ignore[arg-type]
    ledger.add(Batch([5, 6, 7, 0, 1], 2, [8, 9]))  # type: ignore[arg-type]
    assert (ledger.seen, ledger.padded, ledger.duplicates) == (10, 2, 0)
    ledger.check()


def test_what_comes_twice_is_named() -> None:
    ledger = Ledger(100)
    ledger.note(range(100))
    ledger.note(range(10, 13))
    ledger.note([50])
    with pytest.raises(LedgerError) as raised:
        ledger.check()
    assert str(raised.value) == "samples not delivered exactly once: 4 samples came again: positions 10 to 12, 50"
    assert (raised.value.missing, raised.value.first_missing, raised.value.duplicates) == (0, None, 4)
    for p in range(60, 80, 2):
        ledger.note([p])
    with pytest.raises(LedgerError, match=r"14 samples came again: positions 10 to 12, 50, 60, 62, 64, 66, 68, 70, 72, 74$"):
        ledger.check(part=True)
    overlap = Ledger(10)
    overlap.note(range(6))
    overlap.note(range(4, 10))
    assert (overlap.duplicates, overlap.missing) == (2, 0)
    assert state(overlap)["twice"] == [[4, 6]]


def test_what_is_missing_is_named() -> None:
    ledger = Ledger(10)
    ledger.note(range(3))
    ledger.note([12])
    with pytest.raises(LedgerError) as raised:
        ledger.check()
    assert str(raised.value) == (
        "samples not delivered exactly once: 7 of 10 samples missing, the first at position 3; "
        "position 12 is beyond the 10 samples of the epoch"
    )
    assert (raised.value.missing, raised.value.first_missing, raised.value.duplicates) == (7, 3, 0)
    with pytest.raises(LedgerError, match=r"once: position 12 is beyond"):
        ledger.check(part=True)
    with pytest.raises(LedgerError, match=r"10 of 10 samples missing, the first at position 0$"):
        Ledger(10).check()
    Ledger(10).check(part=True)
    Ledger(0).check()


def test_merging() -> None:
    a, b = Ledger(10, name="a"), Ledger(10, name="a")
    a.note(range(5), 1)
    b.note(range(4, 10), 2)
    b.note([9])
    a.merge(b)
    assert (a.seen, a.padded, a.duplicates, a.missing) == (12, 3, 2, 0)
    assert b.seen == 7
    for other in (Ledger(9, name="a"), Ledger(10, name="b")):
        want = f"ledger of {other.samples} positions of '{other.name}': want 10 of 'a'"
        with pytest.raises(ValueError) as raised:
            a.merge(other)
        assert str(raised.value) == want


def test_text_and_pickle() -> None:
    ledger = Ledger(10, name="plan")
    ledger.note([1, 2, 2, 5], 3)
    for copy in (Ledger.from_json(ledger.to_json()), pickle.loads(pickle.dumps(ledger))):
        assert state(copy) == state(ledger)
        copy.note([0, 2])
        assert (copy.seen, copy.padded, copy.duplicates, copy.first_missing) == (6, 3, 2, 3)
    assert ledger.duplicates == 1


def test_memory_stays_small() -> None:
    r = random.Random(1)
    ledger = Ledger(12_000)
    positions = list(range(12_000))
    r.shuffle(positions)
    for p in positions[:9_000]:
        ledger.note([p])
        assert len(ledger._runs) <= ledger._most
    assert ledger._most > proof._COMPACT
    assert (ledger.missing, ledger.duplicates) == (3_000, 0)
    for p in positions[9_000:]:
        ledger.note([p])
    ledger.check()
    assert len(ledger._runs) == 1
