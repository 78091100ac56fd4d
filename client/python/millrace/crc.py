"""CRC-32C (Castagnoli) of received data.

The standard library has no CRC-32C (zlib.crc32 uses another polynomial), and pure Python is about a thousand times too slow. It is
therefore computed if a package for it is installed (`pip install 'millrace-data[crc]'`), and with a table in Python only on request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Optional, Union

Buffer = Union[bytes, bytearray, memoryview]
Checksum = Callable[[Buffer, int], int]
"""Accepts bytes, and the checksum of the preceding bytes."""

_installed: Optional[Checksum] = None
# imported here, because a reader's thread would import with a lock that a fork leaves locked in the child
try:
    from crc32c import crc32c as _fast
except ImportError:
    pass
else:
    _installed = _fast

CHECKS = ("auto", "always", "never")


def checksum(check: str) -> Optional[Checksum]:
    """Returns the function that checks bodies, or None.

    check is "auto" (if the package crc32c is installed), "always" (without the package in Python, a few megabytes per second: for tests and
    diagnosis) or "never". Lengths are always compared.
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
    """Returns the CRC-32C of data, computed byte by byte in Python; value is that of the preceding bytes."""
    table, crc = _table(), value ^ 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
