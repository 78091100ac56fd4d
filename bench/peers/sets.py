"""The two sets that all libraries read: samples of one length, stored class by class, so that a weak shuffle shows."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass

CLASSES = 32
_NOISE = random.Random(1).randbytes(1 << 22)  # incompressible, like JPEG


@dataclass(frozen=True)
class Set:
    name: str
    length: int  # bytes of a sample
    samples: int

    def content(self, i: int) -> bytes:
        """The bytes of sample i: its number, and noise."""
        at = (i * 7919) % (len(_NOISE) - self.length)
        return struct.pack("<q", i) + _NOISE[at : at + self.length - 8]

    def label(self, i: int) -> int:
        return i * CLASSES // self.samples

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        """All samples: number, class, bytes."""
        for i in range(self.samples):
            yield i, self.label(i), self.content(i)


def make(name: str, total: int) -> Set:
    """A set of about so many bytes: photos of 110 KB or text of 4 KB a sample."""
    length = {"photos": 110_000, "text": 4_000}[name]
    return Set(name, length, max(total // length, 4 * CLASSES))
