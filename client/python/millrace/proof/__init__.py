"""Proof of what an epoch delivers: a ledger of what came, and the order, computed without a gateway and equal to the gateway's.

The order is a public format, version 1, which never changes: https://github.com/millrace-data/millrace/blob/main/docs/order.md. What is needed are
the sample counts of the chunks, the shuffle, its window and the seed, as a plan has them (`Epoch.plan.parameters`):

    from millrace import proof

    epoch = proof.shuffle("slot", [3, 0, 5, 2, 4], window=2, seed=42, epoch=0)
    epoch.at(0)         # 5: the sample at position 0, numbered in stored order
    epoch.position(5)   # 0
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Optional

from .._fork import no_fork
from ..batch import Batch
from ..errors import LedgerError
from ._orders import Full, Homes, Importance, Order, Slot, Stored, Window, draw, key, perm, shuffle, shuffled, word
from ._selections import (
    Mixture,
    Quarantine,
    batches,
    deal,
    deal_homes,
    order_digest,
    shard_part,
    share,
    subset_counts,
    subset_part,
)  # fmt: skip

__all__ = [
    "Full", "Homes", "Importance", "Ledger", "Mixture", "Order", "Quarantine", "Slot", "Stored", "Window", "batches", "deal", "deal_homes",
    "draw", "key", "order_digest", "perm", "shard_part", "share", "shuffle", "shuffled", "subset_counts", "subset_part", "word",
]  # fmt: skip

_COMPACT = 4096  # intervals that are noted before they are put in order
_MOST_NAMED = 10


class Ledger:
    """Which positions of one epoch have come.

    Readers of all ranks add their batches (`Epoch.read(ledger=...)` does); ledgers of several processes are merged; `check` tells
    what is missing or came twice. Positions are kept as intervals: an epoch read in order costs a few bytes for each rank. It proves
    that every position came once, of an order in which every position is another sample, or with importance another draw;
    that the bytes are the right ones the lengths and checksums of the batches say. It is safe to use from many threads, and in a forked child.
    """

    def __init__(self, samples: int, *, name: str = "") -> None:
        """Makes the ledger of an epoch of so many positions; name tells the orders apart that may be merged."""
        self.samples, self.name = samples, name
        self.seen = 0
        """Samples that were added, padding apart."""
        self.padded = 0
        """Samples that only fill up the last batch."""
        self._runs: list[tuple[int, int]] = []
        self._twice: list[tuple[int, int]] = []
        self._most = _COMPACT  # runs that are noted before they are joined

    def add(self, batch: Batch) -> None:
        """Notes the samples of a batch, also those that a filter has refused. Those that only pad it are counted apart."""
        positions = batch.positions
        n = len(positions) - batch.padded
        refused = batch.refused
        self.note([*positions[:n], *refused] if refused else positions[:n], batch.padded)

    def note(self, positions: Sequence[int], padded: int = 0) -> None:
        """Notes positions."""
        runs = list(_runs(positions))
        with no_fork:
            self.seen += len(positions)
            self.padded += padded
            self._runs += runs
            if len(self._runs) > self._most:
                self._joined()

    def _joined(self) -> list[tuple[int, int]]:
        """Puts what was noted in order, and returns it; what overlaps came twice."""
        with no_fork:
            joined: list[tuple[int, int]] = []
            for a, b in sorted(self._runs):
                last, end = joined[-1] if joined else (0, -1)
                if a < end:
                    self._twice.append((a, min(b, end)))
                if a <= end:
                    joined[-1] = last, max(end, b)
                else:
                    joined.append((a, b))
            self._runs, self._most = joined, 2 * len(joined) + _COMPACT
            return joined

    def merge(self, other: Ledger) -> None:
        """Adds what another ledger of the same epoch has seen."""
        if (self.samples, self.name) != (other.samples, other.name):
            raise ValueError(f"ledger of {other.samples} positions of {other.name!r}: want {self.samples} of {self.name!r}")
        with no_fork:
            self._runs += other._joined()
            self._twice += other._twice
            self.seen += other.seen
            self.padded += other.padded

    @property
    def missing(self) -> int:
        """How many positions have not come."""
        return self.samples - sum(min(b, self.samples) - min(a, self.samples) for a, b in self._joined())

    @property
    def first_missing(self) -> Optional[int]:
        """The lowest position that has not come."""
        runs = self._joined()
        first = runs[0][1] if runs and runs[0][0] == 0 else 0
        return first if first < self.samples else None

    @property
    def duplicates(self) -> int:
        """How often a position came that had come before."""
        self._joined()
        return sum(b - a for a, b in self._twice)

    def check(self, part: bool = False) -> None:
        """Raises LedgerError unless every position came exactly once; with part, unless none came twice."""
        runs, faults = self._joined(), []
        beyond = runs[-1][1] - self.samples if runs else 0
        missing, duplicates = (0 if part else self.missing), self.duplicates
        if missing:
            faults.append(f"{missing} of {self.samples} samples missing, the first at position {self.first_missing}")
        if duplicates:
            named = ", ".join(str(a) if b == a + 1 else f"{a} to {b - 1}" for a, b in self._twice[:_MOST_NAMED])
            faults.append(f"{duplicates} samples came again: positions {named}")
        if beyond > 0:
            faults.append(f"position {runs[-1][1] - 1} is beyond the {self.samples} samples of the epoch")
        if faults:
            raise LedgerError(
                "samples not delivered exactly once: " + "; ".join(faults),
                missing=missing, first_missing=self.first_missing, duplicates=duplicates,
            )

    def to_json(self) -> str:
        """Returns the ledger as text, for another process or a checkpoint."""
        runs = self._joined()
        state = {"samples": self.samples, "name": self.name, "seen": self.seen, "padded": self.padded}
        return json.dumps({**state, "runs": runs, "twice": self._twice})

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Reads what to_json wrote."""
        state: dict[str, Any] = json.loads(text)
        ledger = cls(int(state["samples"]), name=str(state["name"]))
        ledger.seen, ledger.padded = int(state["seen"]), int(state["padded"])
        ledger._runs = [(int(a), int(b)) for a, b in state["runs"]]
        ledger._twice = [(int(a), int(b)) for a, b in state["twice"]]
        return ledger

    def __reduce__(self) -> tuple[Any, ...]:
        return Ledger.from_json, (self.to_json(),)


def _runs(positions: Iterable[int]) -> Iterable[tuple[int, int]]:
    if isinstance(positions, range) and positions.step == 1:
        if positions:
            yield positions.start, positions.stop
        return
    begin = end = -1
    for p in positions:
        if p != end:
            if end > begin:
                yield begin, end
            begin = p
        end = p + 1
    if end > begin:
        yield begin, end
