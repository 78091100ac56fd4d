"""Batches, shares and digests: sections 5 and 7 of docs/order.md."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from hashlib import sha256
from typing import Optional

from ._generator import key, name_words, prefix, word_bytes


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
        words += [len(text), *name_words(text), len(counts), *(sums[b] - sums[a] for a, b in itertools.pairwise(first))]
    if subset:
        text = subset.encode("ascii")
        words += [key("subset"), len(text), *name_words(text)]
    return sha256(word_bytes(*words)).hexdigest()[:32]
