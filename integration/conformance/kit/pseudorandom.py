"""Bytes and numbers that look random, but are the same on every machine."""

import hashlib


def stream(label: str, n: int) -> bytes:
    """Returns n bytes that look random, and depend only on the label."""
    blocks = (n + 31) // 32
    return b"".join(hashlib.sha256(f"{label}/{i}".encode()).digest() for i in range(blocks))[:n]


def number(label: str, below: int) -> int:
    return int.from_bytes(stream(label, 8), "little") % below
