"""Subsets, quarantine, mixtures, batches, shares and digests: sections 4, 5, 7 and 9 of docs/order.md."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Optional

from ._orders import key, name_words, perm, prefix, word, word_bytes


def subset_part(parts: Sequence[int], salt: str, name: bytes) -> int:
    """Which of some subsets a sample belongs to, by its key; parts are their sizes, relative to each other."""
    u = int.from_bytes(sha256(b"millrace subset\n" + salt.encode() + b"\n" + name).digest()[:8], "big")
    return bisect_right(list(accumulate(parts)), u * sum(parts) >> 64)


def shard_part(patterns: Sequence[str], shard: str) -> int:
    """Which of some subsets a sample belongs to, by the key of its shard: the first one whose pattern takes it; -1 if none does.

    Raises ValueError where a pattern is malformed.
    """
    for i, pattern in enumerate(patterns):
        name = shard if "/" in pattern else shard.rsplit("/", 1)[-1]
        if re.fullmatch(_expression(pattern), name, re.DOTALL):
            return i
    return -1


_PIECE = re.compile(r"(?P<any>[*?])|\[(?P<not>\^?)(?P<of>(?:\\.|[^\]\\])+)\]|\\(?P<kept>.)|(?P<plain>[^\[\\])", re.DOTALL)


def _expression(pattern: str) -> str:
    """The regular expression of a pattern of Go's path.Match: *, ?, [a-z], [^a-z] and \\ before any character."""
    out, at = "", 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if not piece:
            raise ValueError(f"pattern {pattern!r}: {pattern[at:]!r} is incomplete; write \\ before a bracket that stands for itself")
        at = piece.end()
        if piece["any"]:
            out += {"*": "[^/]*", "?": "[^/]"}[piece["any"]]
        elif piece["of"]:
            letters = re.findall(r"\\.|.", piece["of"], re.DOTALL)
            out += f"[{piece['not']}{''.join(c if c == '-' else re.escape(c[-1]) for c in letters)}]"
        else:
            out += re.escape(piece["kept"] or piece["plain"])
    return out


def subset_counts(counts: Sequence[int], members: Sequence[int]) -> list[int]:
    """How many samples of each chunk belong to a subset that has these samples, ascending."""
    first = prefix(counts)
    return [bisect_left(members, b) - bisect_left(members, a) for a, b in pairwise(first)]


class Quarantine:
    """Healthy samples in the place of bad ones."""

    def __init__(self, seed: int, counts: Sequence[int], bad: Iterable[int]) -> None:
        self._seed, self._first, self._bad = seed, prefix(counts), set(bad)
        if len(self._bad) >= self._first[-1]:
            raise ValueError("quarantine: no healthy sample is left")

    def sub(self, epoch: int, x: int) -> int:
        """The sample that is delivered where the order has x."""
        if x not in self._bad:
            return x
        chunk = bisect_right(self._first, x) - 1
        j = sum(y in self._bad for y in range(self._first[chunk], x))
        n = len(self._first) - 1
        for c in range(chunk, chunk + n):
            healthy = [y for y in range(self._first[c % n], self._first[c % n + 1]) if y not in self._bad]
            if healthy:
                return healthy[(j + word(key("quarantine", self._seed, epoch, chunk), 0)) % len(healthy)]
        raise AssertionError("unreachable: a healthy sample is left")

    def order_digest(self, plan: str) -> str:
        """The digest of the order, from that without quarantine."""
        words = [key("quarantine"), self._seed, len(self._first) - 1, *self._first[1:], len(self._bad), *sorted(self._bad)]
        return sha256(plan.encode("ascii") + word_bytes(*words)).hexdigest()[:32]


Weighted = tuple[int, int, int]
"""A source of a mixture: samples of an epoch, weight, samples in a batch."""


class Mixture:
    """Of which source each position is."""

    def __init__(self, seed: int, sources: Sequence[Weighted], samples: int = 0) -> None:
        """samples are the positions of an epoch; 0: as many as the sources have samples."""
        self.seed = seed
        self.sources: list[Weighted] = [(s, w, c) for s, w, c in sources]
        self.batch = sum(count for _, _, count in sources)
        self.samples = samples or sum(s for s, _, _ in sources)
        if self.batch:
            self.samples = -(-self.samples // self.batch) * self.batch
        self._phases: list[int] = []
        rest = sum(weight for _, weight, _ in sources)
        for i, (_, weight, _) in enumerate(sources):
            self._phases.append(word(key("mixture", seed, i), 0) % rest if rest else 0)
            rest -= weight
        self._last: tuple[int, int, list[tuple[int, int]]] = (-1, -1, [])  # the batch that was asked for last

    def source_seed(self, i: int) -> int:
        """The seed of a source's own order."""
        return word(key("source", self.seed, i), 0)

    def _counts(self, t: int) -> list[int]:
        """How many of the positions below t each source takes, by weight."""
        out, rest = [], sum(weight for _, weight, _ in self.sources)
        for (_, weight, _), phase in zip(self.sources, self._phases):
            n = (t * weight + phase) // rest
            out.append(n)
            t, rest = t - n, rest - weight
        return out

    def _listed(self, epoch: int, batch: int) -> list[tuple[int, int]]:
        """Source and number over all own epochs, place by place of a batch of fixed counts."""
        if self._last[:2] == (epoch, batch):
            return self._last[2]
        before = epoch * (self.samples // self.batch) + batch
        places = [(i, before * count + j) for i, (_, _, count) in enumerate(self.sources) for j in range(count)]
        p = perm(key("mix", self.seed, epoch, batch), self.batch)
        self._last = epoch, batch, [places[p.at(place)] for place in range(self.batch)]
        return self._last[2]

    def before(self, epoch: int, position: int) -> list[int]:
        """How many of all positions before this one are of each source."""
        if not self.batch:
            return self._counts(epoch * self.samples + position)
        batch, place = divmod(position, self.batch)
        out = [(epoch * (self.samples // self.batch) + batch) * count for _, _, count in self.sources]
        for i, _ in self._listed(epoch, batch)[:place]:
            out[i] += 1
        return out

    def at(self, epoch: int, position: int) -> tuple[int, int, int]:
        """The source of a position, its own epoch and its own position."""
        if self.batch:
            i, n = self._listed(epoch, position // self.batch)[position % self.batch]
        else:
            a, b = self._counts(epoch * self.samples + position), self._counts(epoch * self.samples + position + 1)
            i = [y - x for x, y in zip(a, b)].index(1)
            n = a[i]
        return i, n // self.sources[i][0], n % self.sources[i][0]

    def order_digest(self, plans: Sequence[str]) -> str:
        """The digest of the order; plans are those of the sources."""
        data = [word_bytes(1, key("mixture"), self.seed, self.samples, len(self.sources))]
        for source, plan in zip(self.sources, plans):
            data += [word_bytes(*source), plan.encode("ascii")]
        return sha256(b"".join(data)).hexdigest()[:32]


def batches(samples: int, size: int, tail: str = "short") -> int:
    """How many batches of a size an epoch has."""
    return samples // size if tail == "drop" else -(-samples // size)


def share(samples: int, size: int, tail: str, batch: int, rank: int = 0, world_size: int = 1) -> tuple[list[int], int]:
    """The positions of a rank's share of a batch, and how many of them repeat samples to fill it."""
    n = size if tail == "pad" else min(size, samples - batch * size)
    first, last = batch * size + rank * n // world_size, batch * size + (rank + 1) * n // world_size
    return [t % samples for t in range(first, last)], max(0, last - max(first, samples))


def deal(lengths: Sequence[int], world_size: int) -> list[list[int]]:
    """The shares of all ranks of a batch whose bytes are balanced, as places in it."""
    places = sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))
    shares: list[list[int]] = [[] for _ in range(world_size)]
    for i, place in enumerate(places):
        k, column = divmod(i, world_size)
        shares[column if k % 2 == 0 else world_size - 1 - column].append(place)
    return [sorted(s) for s in shares]


def deal_homes(homes: Sequence[int], world_size: int, groups: Optional[int] = None) -> list[list[int]]:
    """The shares of all ranks by share=locality; homes are the groups at home with the batch's samples, one group a rank unless said."""
    n, groups = len(homes), groups or world_size
    quota = [(r + 1) * n // world_size - r * n // world_size for r in range(world_size)]
    group_of = [r * groups // world_size for r in range(world_size)]
    held = [[place for place in range(n) if homes[place] == g] for g in range(groups)]
    over = [len(places) for places in held]
    for q, g in zip(quota, group_of):
        over[g] -= q
    while count := min(max(over), -min(over)):
        giver, taker = over.index(max(over)), over.index(min(over))
        held[taker] += held[giver][-count:]
        del held[giver][-count:]
        over[giver] -= count
        over[taker] += count
    left = [iter(sorted(places)) for places in held]
    return [[next(left[g]) for _ in range(q)] for q, g in zip(quota, group_of)]


def order_digest(
    name: str,
    counts: Sequence[int],
    *,
    window: int = 0,
    seed: int = 0,
    strata: int = 0,
    importance: str = "",
    weights: Sequence[int] = (),
    subset: str = "",
) -> str:
    """The name of the order of all epochs, as a plan's `order_digest` says it. With a subset the counts are those of its samples."""
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
