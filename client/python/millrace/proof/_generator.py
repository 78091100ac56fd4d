"""Keys, draws and permutations: sections 2 and 3 of docs/order.md."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from math import isqrt
from typing import Protocol

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
EXACT = 128  # up to so many elements a permutation is shuffled
ROUNDS = 8


def mix(z: int) -> int:
    """Returns a word that each bit of z has a part in."""
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
    """Returns the bytes of a name, eight to a word, the first lowest."""
    return [int.from_bytes(name[i : i + 8], "little") for i in range(0, len(name), 8)]


def word_bytes(*words: int) -> bytes:
    """Returns words as a digest takes them: eight bytes each, the lowest first."""
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
    """Returns what the places 0 to n-1 hold (Fisher and Yates)."""
    p = list(range(n))
    for i in range(n - 1, 0, -1):
        j = draw(k, i, i + 1)
        p[i], p[j] = p[j], p[i]
    return p


class Permutation(Protocol):
    """Of n elements: place i holds at(i), and v is held by place(v)."""

    def at(self, i: int) -> int: ...
    def place(self, v: int) -> int: ...


class _Exact:
    """A permutation that is laid out."""

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

    def _once(self, x: int) -> int:
        left, right = divmod(x, self.b)
        for i in range(ROUNDS):
            if i % 2 == 0:
                left = (left + self._add(i, right, self.a)) % self.a
            else:
                right = (right + self._add(i, left, self.b)) % self.b
        return left * self.b + right

    def _back(self, x: int) -> int:
        left, right = divmod(x, self.b)
        for i in reversed(range(ROUNDS)):
            if i % 2 == 0:
                left = (left - self._add(i, right, self.a)) % self.a
            else:
                right = (right - self._add(i, left, self.b)) % self.b
        return left * self.b + right

    def at(self, i: int) -> int:
        i = self._once(i)
        while i >= self.n:
            i = self._once(i)
        return i

    def place(self, v: int) -> int:
        v = self._back(v)
        while v >= self.n:
            v = self._back(v)
        return v


@lru_cache(maxsize=4096)
def perm(k: int, n: int) -> Permutation:
    """Returns the permutation of n elements of a key."""
    return _Exact(k, n) if n <= EXACT else _Feistel(k, n)


def prefix(counts: Iterable[int]) -> list[int]:
    """Returns the sums of the first 0, 1, 2, ... counts."""
    return [0, *accumulate(counts)]


def holder(sums: list[int], x: int) -> int:
    """Returns which of the counts that prefix has summed x falls into."""
    return bisect_right(sums, x) - 1
