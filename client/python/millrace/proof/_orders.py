"""Keys, draws, permutations and the orders none, full, window and slot with their digest: sections 2 to 4 and 7 of docs/spec/order.md."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, pairwise
from math import isqrt
from typing import Protocol

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
EXACT = 128  # permutations of at most this many elements are shuffled explicitly
ROUNDS = 8


def mix(z: int) -> int:
    """Mixes the bits of z."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key(purpose: str, *numbers: int) -> int:
    """Returns the key of a stream of words, for a purpose and numbers."""
    name = purpose.encode("ascii")
    k = 0
    for w in (len(name), *name_words(name), *numbers):
        k = mix(((k ^ w) + GAMMA) & MASK)
    return k


def name_words(name: bytes) -> list[int]:
    """Returns the bytes of a name as words of eight bytes, little-endian."""
    return [int.from_bytes(name[i : i + 8], "little") for i in range(0, len(name), 8)]


def word_bytes(*words: int) -> bytes:
    """Returns words as little-endian bytes for a digest."""
    return b"".join(w.to_bytes(8, "little") for w in words)


def word(k: int, c: int) -> int:
    """Returns word c of a key."""
    return mix((k + (c + 1) * GAMMA) & MASK)


def draw(k: int, i: int, n: int) -> int:
    """Returns draw i of a key, uniform below n."""
    limit = (1 << 64) % n
    while True:
        product = word(k, i) * n
        if product & MASK >= limit:
            return product >> 64
        i += 1 << 32


def shuffled(k: int, n: int) -> list[int]:
    """Returns a Fisher-Yates shuffle of 0 to n-1."""
    p = list(range(n))
    for i in range(n - 1, 0, -1):
        j = draw(k, i, i + 1)
        p[i], p[j] = p[j], p[i]
    return p


class Permutation(Protocol):
    """A permutation of n elements: at(i) is the value at position i, and place(v) is the position of v."""

    def at(self, i: int) -> int: ...
    def place(self, v: int) -> int: ...


class _Exact:
    """A permutation stored as a list."""

    def __init__(self, k: int, n: int) -> None:
        self.places = shuffled(k, n)

    def at(self, i: int) -> int:
        return self.places[i]

    def place(self, v: int) -> int:
        return self.places.index(v)


class _Feistel:
    """A permutation of any size, in constant memory."""

    def __init__(self, k: int, n: int) -> None:
        self.k, self.n = k, n
        self.a = isqrt(n - 1) + 1
        self.b = -(-n // self.a)

    def _add(self, i: int, half: int, n: int) -> int:
        return (word(self.k, (i << 32) + half) * n) >> 64

    def _walk(self, x: int, rounds: Sequence[int], sign: int) -> int:
        """Repeats the rounds until the result is below n."""
        while True:
            left, right = divmod(x, self.b)
            for i in rounds:
                if i % 2 == 0:
                    left = (left + sign * self._add(i, right, self.a)) % self.a
                else:
                    right = (right + sign * self._add(i, left, self.b)) % self.b
            x = left * self.b + right
            if x < self.n:
                return x

    def at(self, i: int) -> int:
        return self._walk(i, range(ROUNDS), 1)

    def place(self, v: int) -> int:
        return self._walk(v, range(ROUNDS)[::-1], -1)


@lru_cache(maxsize=4096)
def perm(k: int, n: int) -> Permutation:
    """Returns the permutation of n elements for a key."""
    return _Exact(k, n) if n <= EXACT else _Feistel(k, n)


def prefix(counts: Iterable[int]) -> list[int]:
    """Returns the sums of the first 0, 1, 2, ... counts."""
    return [0, *accumulate(counts)]


class Order(Protocol):
    """The order of one epoch: sample at(t) is at position t, and sample x is at position(x). Samples are numbered in stored order."""

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
        """Returns the stratum of a chunk, the same in all epochs and for all seeds."""
        return perm(key("strata"), len(self._first) - 1).at(chunk) % self._strata

    def _stratified(self, sequence: Iterable[int]) -> list[int]:
        """Returns, row by row, the next chunk of every stratum that has chunks left."""
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
        """Returns the stratum of the sample at position t."""
        return self.stratum(bisect_right(self._first, self.at(t)) - 1)

    def chunk_home(self, chunk: int) -> tuple[int, int]:
        """Returns the stratum of a chunk, and the number of strata."""
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


MAX_LANES = 1 << 20


class Slot:
    """The shuffle `slot`."""

    def __init__(self, counts: Sequence[int], window: int, seed: int, epoch: int) -> None:
        self._seed, self._epoch = seed, epoch
        self._first = prefix(counts)
        n, self._samples = len(counts), self._first[-1]
        laid_out = perm(key("chunks"), n)
        self._order = [c for c in map(laid_out.at, range(n)) if counts[c] > 0]
        self._begin = prefix(counts[c] for c in self._order)
        self._layout = dict(zip(self._order, self._begin))
        self._m = min(window, self._samples)
        self._lanes: dict[int, tuple[list[Piece], list[int], int]] = {}
        # the most recently requested row
        self._last: tuple[int, Sequence[int], Permutation] = (-1, (), perm(0, 0))

    def _cut(self, j: int) -> int:
        return j * self._samples // self._m

    def _lane(self, j: int) -> tuple[list[Piece], list[int], int]:
        """Returns the pieces of lane j in this epoch's order, their first offsets, and the offset to read from."""
        found = self._lanes.get(j)
        if found is None:
            lo, hi = self._cut(j), self._cut(j + 1)
            pieces: list[Piece] = []
            for place in range(bisect_right(self._begin, lo) - 1, bisect_left(self._begin, hi)):
                begin, end = self._begin[place], self._begin[place + 1]
                a, b = max(lo, begin), min(hi, end)
                pieces.append((self._order[place], a - begin, b - a))
            p = perm(key("lane", self._seed, self._epoch, j), len(pieces))
            pieces = [pieces[p.at(i)] for i in range(len(pieces))]
            turn = draw(key("turn", self._seed, self._epoch, j), 0, hi - lo)
            found = self._lanes[j] = pieces, prefix(length for _, _, length in pieces), turn
        return found

    def _row(self, k: int) -> tuple[Sequence[int], Permutation]:
        """Returns the lanes of row k, ascending, and the row's permutation of them."""
        if self._last[0] != k:
            lanes: Sequence[int] = range(self._m)
            if k == self._samples // self._m:
                lanes = [j for j in lanes if self._cut(j + 1) - self._cut(j) > k]
            self._last = k, lanes, perm(key("row", self._seed, self._epoch, k), len(lanes))
        return self._last[1:]

    def _piece(self, piece: Piece) -> Permutation:
        chunk, g, length = piece
        return perm(key("piece", self._seed, self._epoch, chunk, g), length)

    def at(self, t: int) -> int:
        pieces, starts, turn = self._lane(self.home(t))
        offset = (t // self._m + turn) % starts[-1]
        i = bisect_right(starts, offset) - 1
        chunk, g, _ = pieces[i]
        return self._first[chunk] + g + self._piece(pieces[i]).at(offset - starts[i])

    def homes(self) -> int:
        return self._m

    def home(self, t: int) -> int:
        """Returns the lane of the sample at position t."""
        k, i = divmod(t, self._m)
        lanes, p = self._row(k)
        return lanes[p.at(i)]

    def chunk_home(self, chunk: int) -> tuple[int, int]:
        """Returns the lane with the largest part of a chunk, and the number of lanes; 0 and 0 for an empty chunk."""
        begin = self._layout.get(chunk)
        if begin is None:
            return 0, 0
        end = begin + self._first[chunk + 1] - self._first[chunk]
        lanes = range(self._lane_of(begin), self._lane_of(end - 1) + 1)
        held = [min(end, self._cut(j + 1)) - max(begin, self._cut(j)) for j in lanes]
        return lanes[held.index(max(held))], self._m

    def _lane_of(self, x: int) -> int:
        """Returns the lane of sample x of the layout."""
        return ((x + 1) * self._m - 1) // self._samples

    def position(self, x: int) -> int:
        chunk = bisect_right(self._first, x) - 1
        inside = x - self._first[chunk]
        j = self._lane_of(self._layout[chunk] + inside)
        pieces, starts, turn = self._lane(j)
        i = next(i for i, (c, _, _) in enumerate(pieces) if c == chunk)  # a lane has at most one piece of a chunk
        offset = starts[i] + self._piece(pieces[i]).place(inside - pieces[i][1])
        k = (offset - turn) % starts[-1]
        lanes, p = self._row(k)
        return k * self._m + p.place(bisect_left(lanes, j))


def shuffle(
    name: str, counts: Sequence[int], *, window: int = 0, seed: int = 0, epoch: int = 0, strata: int = 0
) -> Order:
    """Returns the order of one epoch, by the shuffle's name. counts are the numbers of samples in the chunks."""
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
        if window > MAX_LANES:
            raise ValueError(f"window {window}: want at most {MAX_LANES} lanes for slot")
        return Slot(counts, window, seed, epoch)
    raise ValueError(f"shuffle {name!r}: want none, window, slot or full")


def order_digest(
    name: str, counts: Sequence[int], *, window: int = 0, seed: int = 0, strata: int = 0, importance: str = "", weights: Sequence[int] = (),
    subset: str = "",
) -> str:
    """Returns the digest of the order of all epochs, a plan's `order_digest`. With a subset, counts are those of the subset's samples."""
    first = prefix(counts)
    words = [1, key(name), first[-1]]
    if name != "none" or importance:
        words.append(seed)
    if name in ("window", "slot"):
        words += [window, len(counts), *first[1:]]
    if strata:
        words += [key("strata"), strata]
    if importance:
        text = importance.encode("ascii")
        sums = prefix(weights)
        words += [len(text), *name_words(text), len(counts), *(sums[b] - sums[a] for a, b in pairwise(first))]
    if subset:
        text = subset.encode("ascii")
        words += [key("subset"), len(text), *name_words(text)]
    return sha256(word_bytes(*words)).hexdigest()[:32]


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
        """Number of virtual samples before each chunk."""
        virtual = [b - a for a, b in zip(self.draws, self.draws[1:])]
        self.order = shuffle(name, virtual, window=window, seed=seed, epoch=epoch, strata=strata)
        """The order of the virtual samples."""

    def _before(self, weight: int) -> int:
        """Returns F for the sum of the weights before a sample."""
        return (weight * self.samples + self.phase) // self.total

    def owner(self, v: int) -> int:
        """Returns the sample of which virtual sample v is a draw."""
        bound = -(-((v + 1) * self.total - self.phase) // self.samples)
        return bisect_left(self._sums, bound, lo=1) - 1

    def of(self, x: int) -> tuple[int, int]:
        """Returns the range of virtual samples of sample x."""
        return self._before(self._sums[x]), self._before(self._sums[x + 1])

    def at(self, t: int) -> int:
        """Returns the sample at position t."""
        return self.owner(self.order.at(t))
