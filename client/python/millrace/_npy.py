"""The header of NumPy's .npy, without NumPy (format versions 1 to 3)."""

from __future__ import annotations

from typing import NamedTuple

from ._head import Head
from ._literals import literal
from .errors import ProtocolError

MEDIA_TYPE = "application/x-npy"


class ArrayHeader(NamedTuple):
    """Type and shape of a batch that is an array, as NumPy's header spells them. The rows are the samples."""

    dtype: object
    shape: tuple[int, ...]


def open_npy(head: Head, body: memoryview) -> tuple[memoryview, ArrayHeader]:
    """Returns the bytes of a batch that is an array, and what its header says about it."""
    try:
        if bytes(body[:6]) != b"\x93NUMPY":
            raise ValueError("no .npy header")
        wide = 2 if body[6] == 1 else 4
        start = 8 + wide
        end = start + int.from_bytes(body[8:start], "little")
        fields = literal(bytes(body[start:end]).decode("utf-8"))
        shape = tuple(int(n) for n in fields["shape"])
        if fields["fortran_order"] or not shape or shape[0] != head.samples or end > len(body):
            raise ValueError(f"an array of shape {shape} for {head.samples} samples")
        if (len(body) - end) % max(head.samples, 1):
            raise ValueError(f"{len(body) - end} bytes for {head.samples} samples")
    except (ValueError, KeyError, TypeError, SyntaxError, IndexError, MemoryError, RecursionError) as e:
        raise ProtocolError(f"batch {head.number}: {e}") from None
    return body[end:], ArrayHeader(fields["descr"], shape)
