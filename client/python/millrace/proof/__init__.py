"""The order of an epoch, computed without a gateway.

The order is a public format, version 1, which never changes: https://github.com/millrace-data/millrace/blob/main/docs/spec/order.md. It
requires the sample counts of the chunks, the shuffle, its window and the seed, as a plan has them (`Epoch.plan.parameters`):

    from millrace import proof

    epoch = proof.shuffle("slot", [3, 0, 5, 2, 4], window=2, seed=42, epoch=0)
    epoch.at(0)         # 5: the sample at position 0, numbered in stored order
    epoch.position(5)   # 0
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from heapq import heapreplace
from itertools import accumulate, pairwise
from typing import Optional

from ._orders import (
    Full,
    Homes,
    Importance,
    Order,
    Slot,
    Stored,
    Window,
    draw,
    key,
    name_words,
    order_digest,
    perm,
    prefix,
    shuffle,
    shuffled,
    word,
    word_bytes,
)  # fmt: skip

__all__ = [
    "Bucket", "Full", "Homes", "Importance", "Mixture", "Order", "Quarantine", "Slot", "Stored", "Window", "batches", "bucket_digest",
    "deal_homes", "divide", "draw", "key", "order_digest", "perm", "shard_part", "share", "shuffle", "shuffled", "subset_counts",
    "subset_part", "word",
]  # fmt: skip

# Subsets, quarantine, mixtures, batches, shares and digests: sections 4, 5, 7 and 9 of docs/spec/order.md.


def subset_part(parts: Sequence[int], salt: str, name: bytes) -> int:
    """Returns the part of a split to which a sample belongs, by the sample's key. parts are the relative sizes."""
    u = int.from_bytes(sha256(b"millrace subset\n" + salt.encode() + b"\n" + name).digest()[:8], "big")
    return bisect_right(list(accumulate(parts)), u * sum(parts) >> 64)


def shard_part(patterns: Sequence[str], shard: str) -> int:
    """Returns the part to which a sample belongs, by the key of its shard: the first part with a matching pattern, or -1.

    Raises ValueError for a malformed pattern.
    """
    for i, pattern in enumerate(patterns):
        name = shard if "/" in pattern else shard.rsplit("/", 1)[-1]
        if re.fullmatch(_expression(pattern), name, re.DOTALL):
            return i
    return -1


_PIECE = re.compile(r"(?P<any>[*?])|\[(?P<not>\^?)(?P<of>(?:\\.|[^\]\\])+)\]|\\(?P<kept>.)|(?P<plain>[^\[\\])", re.DOTALL)


def _expression(pattern: str) -> str:
    """Returns the regular expression for a pattern of Go's path.Match: *, ?, [a-z], [^a-z] and \\ before any character."""
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
    """Returns the number of samples of each chunk that belong to a subset. members are the subset's samples, ascending."""
    first = prefix(counts)
    return [bisect_left(members, b) - bisect_left(members, a) for a, b in pairwise(first)]


class Quarantine:
    """Replaces bad samples by healthy ones."""

    def __init__(self, seed: int, counts: Sequence[int], bad: Iterable[int]) -> None:
        self._seed, self._first, self._bad = seed, prefix(counts), set(bad)
        if len(self._bad) >= self._first[-1]:
            raise ValueError("quarantine: no healthy sample is left")

    def sub(self, epoch: int, x: int) -> int:
        """Returns the sample to deliver where the order has sample x."""
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
        """Returns the digest of the order, computed from the digest without quarantine."""
        words = [key("quarantine"), self._seed, len(self._first) - 1, *self._first[1:], len(self._bad), *sorted(self._bad)]
        return sha256(plan.encode("ascii") + word_bytes(*words)).hexdigest()[:32]


Weighted = tuple[int, int, int]
"""A source of a mixture: samples of an epoch, weight, samples per batch."""


class Mixture:
    """The source of each position."""

    def __init__(self, seed: int, sources: Sequence[Weighted], samples: int = 0, schedule: Sequence[Sequence[int]] = ()) -> None:
        """samples are the positions of an epoch; 0: the total of the sources. schedule has [first position, *weights] of later segments."""
        self.seed = seed
        self.sources: list[Weighted] = [(s, w, c) for s, w, c in sources]
        self.batch = sum(count for _, _, count in sources)
        self.samples = samples or sum(s for s, _, _ in sources)
        if self.batch:
            self.samples = -(-self.samples // self.batch) * self.batch
        self.schedule = [list(segment) for segment in schedule]
        # each segment's first position and counts there, and of each source the weight, the sum U and phi
        self._segments: list[tuple[int, list[int], list[tuple[int, int, int]]]] = []
        for first, *weights in [[0, *(weight for _, weight, _ in sources)], *self.schedule]:
            rests = [sum(weights[i:]) for i in range(len(weights))]
            phases = [word(key("mixture", seed, i, *([first] if first else [])), 0) % rest if rest else 0 for i, rest in enumerate(rests)]
            self._segments.append((first, self._counts(first) if first else [0] * len(sources), list(zip(weights, rests, phases))))
        # the most recently requested batch
        self._last: tuple[int, int, list[tuple[int, int]]] = (-1, -1, [])

    def source_seed(self, i: int) -> int:
        """Returns the seed of a source's own order."""
        return word(key("source", self.seed, i), 0)

    def _counts(self, t: int) -> list[int]:
        """Returns the number of positions below t from each source, by weight."""
        first, taken, shares = [segment for segment in self._segments if segment[0] <= t][-1]
        out, left = [], t - first
        for before, (weight, rest, phase) in zip(taken, shares):
            n = (left * weight + phase) // rest if rest else 0
            out.append(before + n)
            left -= n
        return out

    def until(self, epoch: int, position: int) -> Mixture:
        """Returns the mixture of the segments that begin before a position, whose digest identifies the order up to there."""
        if not self.schedule:
            return self
        kept = [segment for segment in self.schedule if segment[0] < epoch * self.samples + position]
        n = max(i + 1 for i, weights in enumerate(zip([w for _, w, _ in self.sources], *(segment[1:] for segment in kept))) if any(weights))
        return Mixture(self.seed, self.sources[:n], self.samples, [segment[: n + 1] for segment in kept])

    def _listed(self, epoch: int, batch: int) -> list[tuple[int, int]]:
        """Returns source and number over all own epochs, for each position of a batch with fixed counts."""
        if self._last[:2] == (epoch, batch):
            return self._last[2]
        before = epoch * (self.samples // self.batch) + batch
        places = [(i, before * count + j) for i, (_, _, count) in enumerate(self.sources) for j in range(count)]
        p = perm(key("mix", self.seed, epoch, batch), self.batch)
        self._last = epoch, batch, [places[p.at(place)] for place in range(self.batch)]
        return self._last[2]

    def before(self, epoch: int, position: int) -> list[int]:
        """Returns the number of positions before this one, in all epochs, from each source."""
        if not self.batch:
            return self._counts(epoch * self.samples + position)
        batch, place = divmod(position, self.batch)
        out = [(epoch * (self.samples // self.batch) + batch) * count for _, _, count in self.sources]
        for i, _ in self._listed(epoch, batch)[:place]:
            out[i] += 1
        return out

    def at(self, epoch: int, position: int) -> tuple[int, int, int]:
        """Returns the source of a position, with its own epoch and position."""
        if self.batch:
            i, n = self._listed(epoch, position // self.batch)[position % self.batch]
        else:
            a, b = self._counts(epoch * self.samples + position), self._counts(epoch * self.samples + position + 1)
            i = [y - x for x, y in zip(a, b)].index(1)
            n = a[i]
        return i, n // self.sources[i][0], n % self.sources[i][0]

    def order_digest(self, plans: Sequence[str]) -> str:
        """Returns the digest of the order; plans are the digests of the sources."""
        data = [word_bytes(1, key("mixture"), self.seed, self.samples, len(self.sources))]
        for source, plan in zip(self.sources, plans):
            data += [word_bytes(*source), plan.encode("ascii")]
        if self.schedule:
            data.append(word_bytes(key("schedule"), len(self._segments), *(x for segment in self.schedule for x in segment)))
        return sha256(b"".join(data)).hexdigest()[:32]


def batches(samples: int, size: int, tail: str = "short") -> int:
    """Returns the number of batches in an epoch."""
    return samples // size if tail == "drop" else -(-samples // size)


def share(samples: int, size: int, tail: str, batch: int, rank: int = 0, world_size: int = 1) -> tuple[list[int], int]:
    """Returns the positions of a rank's share of a batch, and how many of them are padding."""
    n = size if tail == "pad" else min(size, samples - batch * size)
    first, last = batch * size + rank * n // world_size, batch * size + (rank + 1) * n // world_size
    return [t % samples for t in range(first, last)], max(0, last - max(first, samples))


def divide(costs: Sequence[int], ranks: int) -> list[list[int]]:
    """Returns the shares of all ranks of a batch balanced by cost, as places in the batch. It also divides a share into micro-batches."""
    costs = [max(1, cost) for cost in costs]
    shares: list[list[int]] = [[] for _ in range(ranks)]
    lightest = [(0, 0, rank) for rank in range(ranks)]
    for place in sorted(range(len(costs)), key=lambda place: -costs[place]):
        total, n, rank = lightest[0]
        shares[rank].append(place)
        heapreplace(lightest, (total + costs[place], n + 1, rank))
    sums = [total for total, _, _ in sorted(lightest, key=lambda one: one[2])]
    for _ in range(min(ranks, 1024)):
        high, low = sums.index(max(sums)), sums.index(min(sums))
        pair = _exchange(costs, shares[high], shares[low], sums[high] - sums[low])
        if pair is None:
            break
        for rank, gone, new in (high, *pair), (low, *pair[::-1]):
            shares[rank][shares[rank].index(gone)] = new
            sums[rank] += costs[new] - costs[gone]
    return [sorted(share) for share in shares]


def _exchange(costs: Sequence[int], high: Iterable[int], low: Iterable[int], difference: int) -> Optional[tuple[int, int]]:
    """Returns the places of two shares whose exchange makes their sums most equal, or None."""
    first = {costs[y]: y for y in sorted(low, reverse=True)}  # the first place with each cost
    known = sorted(first)
    found: list[tuple[int, int, int]] = []
    for x in high:
        at = bisect_left(known, costs[x] - difference // 2)
        for cost in known[max(0, at - 1) : at + 1]:
            if 0 < costs[x] - cost < difference:
                found.append((abs(difference - 2 * (costs[x] - cost)), x, first[cost]))
    return min(found)[1:] if found else None


class Bucket:
    """The positions of an epoch with `bucket`: position t has the sample at position at(t) of the order without it."""

    def __init__(self, batches: int, batch_size: int, samples: int, cost: Callable[[int], int], *, seed: int = 0, epoch: int = 0) -> None:
        """cost returns the cost of the sample that the order without `bucket` has at a position."""
        self._batches, self._size, self._full = batches, batch_size, samples // batch_size
        self._cost, self._seed, self._epoch = cost, seed, epoch
        # the most recently requested block
        self._last: tuple[int, list[int]] = (-1, [])

    def _block(self, t: int) -> tuple[int, list[int]]:
        """Returns the first position of the block of a position, and the positions that its samples have without `bucket`."""
        size, b = self._size, t // (self._batches * self._size)
        begin, n = b * self._batches * size, min(self._batches, self._full - b * self._batches)
        if t >= self._full * size:  # in the remainder
            return t, [t]
        if self._last[0] != b:
            by_cost = sorted(range(begin, begin + n * size), key=lambda t: max(1, self._cost(t)))
            p = perm(key("bucket", self._seed, self._epoch, b), n)
            self._last = b, [t for q in range(n) for t in sorted(by_cost[p.at(q) * size : (p.at(q) + 1) * size])]
        return begin, self._last[1]

    def at(self, t: int) -> int:
        begin, block = self._block(t)
        return block[t - begin]

    def place(self, t: int) -> int:
        begin, block = self._block(t)
        return begin + block.index(t)


def bucket_digest(digest: str, batches: int, batch_size: int, cost: str) -> str:
    """Returns the digest of an order or plan with `bucket`, computed from that without it. cost is the name of the costs."""
    name = cost.encode("ascii")
    words = key("bucket"), batches, batch_size, len(name), *name_words(name)
    return sha256(digest.encode("ascii") + word_bytes(*words)).hexdigest()[:32] if batches > 1 else digest


def deal_homes(homes: Sequence[int], world_size: int, groups: Optional[int] = None) -> list[list[int]]:
    """Returns the shares of all ranks for share=locality, as positions in the batch. homes are the groups at home with the batch's samples.

    The default is one group per rank.
    """
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
