"""CRC-32C (Castagnoli) of what arrived.

The standard library has none (zlib.crc32 is of another polynomial), and in Python itself it is about a thousand times too slow:
so it is computed where a package for it is installed (`pip install 'millrace-data[crc]'`), and by a table in Python only on request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Optional, Union

Buffer = Union[bytes, bytearray, memoryview]
Checksum = Callable[[Buffer, int], int]
"""Takes bytes, and the checksum of what came before them."""

_installed: Optional[Checksum] = None
try:  # once: a thread of a reader would import with a lock that a fork leaves closed in the child
    from crc32c import crc32c as _fast
except ImportError:
    pass
else:
    _installed = _fast

CHECKS = ("auto", "always", "never")


def checksum(check: str) -> Optional[Checksum]:
    """Returns the function that bodies are checked with, None for none.

    check is "auto" (where the package crc32c is installed), "always" (else in Python, some megabytes
    a second: for tests and doubts) or "never". Lengths are compared in any case.
    """
    if check == "never":
        return None
    return _installed or (crc32c if check == "always" else None)


@lru_cache(maxsize=1)
def _table() -> tuple[int, ...]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    return tuple(table)


def crc32c(data: Buffer, value: int = 0) -> int:
    """Returns the CRC-32C of data, byte by byte in Python; value is that of what came before."""
    table, crc = _table(), value ^ 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
