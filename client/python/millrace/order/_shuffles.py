"""The orders none, full, window and slot: section 4 of docs/order.md."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import gcd
from typing import Protocol

from ._generator import Permutation, key, perm, prefix, shuffled, word


class Order(Protocol):
    """One epoch: sample at(t) stands at position t, and sample x at position(x). Samples are numbered in stored order."""

    def at(self, t: int) -> int: ...
    def position(self, x: int) -> int: ...


class Homes(Order, Protocol):
    """An order whose samples and chunks have homes: lanes or strata."""

    def homes(self) -> int: ...
    def home(self, t: int) -> int: ...
    def chunk_home(self, chunk: int) -> tuple[int, int]: ...


class Stored:
    """The shuffle `none`."""

    def at(self, t: int) -> int:
        return t

    def position(self, x: int) -> int:
        return x


class Full:
    """The shuffle `full`."""

    def __init__(self, counts: Sequence[int], seed: int, epoch: int) -> None:
        self._perm = perm(key("full", seed, epoch), sum(counts))

    def at(self, t: int) -> int:
        return self._perm.at(t)

    def position(self, x: int) -> int:
        return self._perm.place(x)


class Window:
    """The shuffle `window`, with strata or without."""

    def __init__(self, counts: Sequence[int], window: int, seed: int, epoch: int, strata: int = 0) -> None:
        n = len(counts)
        self._seed, self._epoch, self._strata = seed, epoch, strata
        self._first = prefix(counts)
        self._order = shuffled(key("chunks", seed, epoch), n)
        rows, width = n, 1
        if strata:
            rows, width = -(-n // strata), strata
            self._order = self._stratified(self._order)
        self._begin = prefix(counts[c] for c in self._order)
        windows = -(-rows // (window // width))
        self._bounds = [min(n, i * rows // windows * width) for i in range(windows + 1)] if n else [0]

    def stratum(self, chunk: int) -> int:
        """The stratum of a chunk, in all epochs."""
        return perm(key("strata", self._seed), len(self._first) - 1).at(chunk) % self._strata

    def _stratified(self, sequence: Iterable[int]) -> list[int]:
        """Row by row, the next chunk of every stratum that still has one."""
        waiting: dict[int, list[int]] = {}
        for chunk in sequence:
            waiting.setdefault(self.stratum(chunk), []).append(chunk)
        out: list[int] = []
        row = 0
        while waiting:
            p = perm(key("strata-row", self._seed, self._epoch, row), self._strata)
            for s in sorted(waiting, key=p.place):
                out.append(waiting[s].pop(0))
            waiting = {s: chunks for s, chunks in waiting.items() if chunks}
            row += 1
        return out

    def homes(self) -> int:
        return self._strata

    def home(self, t: int) -> int:
        """The stratum of the sample at position t."""
        return self.stratum(bisect_right(self._first, self.at(t)) - 1)

    def chunk_home(self, chunk: int) -> tuple[int, int]:
        """The stratum of a chunk, and how many there are."""
        return self.stratum(chunk), self._strata

    def _permutation(self, i: int) -> tuple[int, Permutation]:
        lo, hi = self._begin[self._bounds[i]], self._begin[self._bounds[i + 1]]
        return lo, perm(key("window", self._seed, self._epoch, i), hi - lo)

    def at(self, t: int) -> int:
        i = bisect_right(self._bounds, bisect_right(self._begin, t) - 1) - 1
        lo, p = self._permutation(i)
        x = lo + p.at(t - lo)
        place = bisect_right(self._begin, x) - 1
        return self._first[self._order[place]] + x - self._begin[place]

    def position(self, x: int) -> int:
        chunk = bisect_right(self._first, x) - 1
        place = self._order.index(chunk)
        i = bisect_right(self._bounds, place) - 1
        lo, p = self._permutation(i)
        return lo + p.place(self._begin[place] + x - self._first[chunk] - lo)


Piece = tuple[int, int, int]  # chunk, offset in it, length


class Slot:
    """The shuffle `slot`."""

    def __init__(self, counts: Sequence[int], window: int, seed: int, epoch: int) -> None:
        self._seed, self._epoch = seed, epoch
        self._first = prefix(counts)
        order = [c for c in shuffled(key("chunks", seed), len(counts)) if counts[c] > 0]
        n, s = len(order), sum(counts)
        m = min(window, n)
        self._lanes: list[tuple[list[Piece], list[int]]] = []
        if n == 0:
            return
        h, q = s // n, 0
        while gcd(n + q, m) != 1:
            q += 1
        cuts = [min(s, j * (s + q * h) // m) for j in range(m)] + [s]
        begin = prefix(counts[c] for c in order)
        for j in range(m):
            self._lanes.append(self._lane(j, cuts[j], cuts[j + 1], order, begin))
        self._lengths = [cuts[j + 1] - cuts[j] for j in range(m)]
        self._sorted = sorted(self._lengths)
        self._sums = prefix(self._sorted)
        self._last: tuple[int, list[int], Permutation] = (-1, [], perm(0, 0))  # the row that was asked for last

    def _lane(self, j: int, lo: int, hi: int, order: list[int], begin: list[int]) -> tuple[list[Piece], list[int]]:
        """The pieces of lane j, as this epoch orders them."""
        head: list[Piece] = []
        whole: list[Piece] = []
        tail: list[Piece] = []
        if lo < hi:
            for place in range(bisect_right(begin, lo) - 1, bisect_right(begin, hi - 1)):
                a, b = max(lo, begin[place]), min(hi, begin[place + 1])
                piece = (order[place], a - begin[place], b - a)
                if b - a == begin[place + 1] - begin[place]:
                    whole.append(piece)
                elif a == lo:
                    head.append(piece)
                else:
                    tail.append(piece)
        p = shuffled(key("lane", self._seed, self._epoch, j), len(whole))
        pieces = head + [whole[i] for i in p] + tail
        return pieces, prefix(length for _, _, length in pieces)

    def _before(self, k: int) -> int:
        """R(k): the samples before row k."""
        i = bisect_right(self._sorted, k)
        return self._sums[i] + (len(self._sorted) - i) * k

    def _row(self, k: int) -> tuple[list[int], Permutation]:
        """A(k), the lanes longer than k, and the row's permutation of them."""
        if self._last[0] != k:
            lanes = [j for j, length in enumerate(self._lengths) if length > k]
            self._last = k, lanes, perm(key("row", self._seed, self._epoch, k), len(lanes))
        return self._last[1:]

    def _piece(self, j: int, i: int) -> Permutation:
        chunk, offset, length = self._lanes[j][0][i]
        return perm(key("piece", self._seed, self._epoch, chunk, offset), length)

    def at(self, t: int) -> int:
        lo, hi = 0, self._sorted[-1]  # R(lo) <= t < R(hi)
        while hi - lo > 1:
            mid = (lo + hi) // 2
            lo, hi = (mid, hi) if self._before(mid) <= t else (lo, mid)
        k = lo
        lanes, p = self._row(k)
        j = lanes[p.at(t - self._before(k))]
        pieces, starts = self._lanes[j]
        i = bisect_right(starts, k) - 1
        chunk, offset, _ = pieces[i]
        return self._first[chunk] + offset + self._piece(j, i).at(k - starts[i])

    def homes(self) -> int:
        return len(self._lanes)

    def _find(self, x: int) -> tuple[int, int, int]:
        """The lane, the piece there and the place in it of sample x."""
        chunk = bisect_right(self._first, x) - 1
        inside = x - self._first[chunk]
        for j, (pieces, _) in enumerate(self._lanes):
            for i, (c, offset, length) in enumerate(pieces):
                if c == chunk and offset <= inside < offset + length:
                    return j, i, inside - offset
        raise ValueError(f"sample {x} of {self._first[-1]}")

    def home(self, t: int) -> int:
        """The lane of the sample at position t."""
        return self._find(self.at(t))[0]

    def chunk_home(self, chunk: int) -> tuple[int, int]:
        """The lane with most of a chunk, and how many lanes there are; 0 and 0 for an empty chunk."""
        held = [sum(n for c, _, n in pieces if c == chunk) for pieces, _ in self._lanes]
        if not any(held):
            return 0, 0
        return held.index(max(held)), len(held)

    def position(self, x: int) -> int:
        j, i, inside = self._find(x)
        k = self._lanes[j][1][i] + self._piece(j, i).place(inside)
        lanes, p = self._row(k)
        return self._before(k) + p.place(lanes.index(j))


def shuffle(
    name: str, counts: Sequence[int], *, window: int = 0, seed: int = 0, epoch: int = 0, strata: int = 0
) -> Order:
    """Returns the order of one epoch, by the shuffle's name; counts are the samples of each chunk."""
    if name == "none":
        return Stored()
    if name == "full":
        return Full(counts, seed, epoch)
    if window < 1:
        raise ValueError(f"window {window}: want 1 or more")
    if name == "window":
        if strata and window % strata:
            raise ValueError(f"strata {strata}: want a divisor of the window, {window}")
        return Window(counts, window, seed, epoch, strata)
    if name == "slot":
        return Slot(counts, window, seed, epoch)
    raise ValueError(f"shuffle {name!r}: want none, window, slot or full")


class Importance:
    """A shuffle whose samples are drawn by weight."""

    def __init__(
        self, name: str, counts: Sequence[int], weights: Sequence[int], *, window: int = 0, seed: int = 0, epoch: int = 0, strata: int = 0
    ) -> None:
        self.samples = len(weights)
        self._sums = prefix(weights)
        self.total = self._sums[-1]
        self.phase = word(key("importance", seed, epoch), 0) % self.total
        self.draws = [self._before(self._sums[x]) for x in prefix(counts)]
        """The virtual samples before each chunk."""
        virtual = [b - a for a, b in zip(self.draws, self.draws[1:])]
        self.order = shuffle(name, virtual, window=window, seed=seed, epoch=epoch, strata=strata)
        """The order of the virtual samples."""

    def _before(self, weight: int) -> int:
        """F, of the sum of the weights before a sample."""
        return (weight * self.samples + self.phase) // self.total

    def owner(self, v: int) -> int:
        """The sample of virtual sample v."""
        bound = -(-((v + 1) * self.total - self.phase) // self.samples)
        return bisect_left(self._sums, bound, lo=1) - 1

    def of(self, x: int) -> tuple[int, int]:
        """The virtual samples of sample x: from, to."""
        return self._before(self._sums[x]), self._before(self._sums[x + 1])

    def at(self, t: int) -> int:
        """The sample at position t."""
        return self.owner(self.order.at(t))
