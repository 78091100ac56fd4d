"""The header of NumPy's .npy, without NumPy (format versions 1 to 3)."""

from __future__ import annotations

import ast

from .batch import Head, Part, Table
from .errors import ProtocolError

MEDIA_TYPE = "application/x-npy"


def is_npy(content_type: str) -> bool:
    """Reports whether an answer is an array."""
    return content_type.split(";", maxsplit=1)[0].strip() == MEDIA_TYPE


class ArrayTable(Table):
    """Samples that are rows of an array."""

    def __init__(self, dtype: object, shape: tuple[int, ...], row: int) -> None:
        super().__init__(range(0, (shape[0] + 1) * row, row) if row else [0] * (shape[0] + 1))
        self.dtype, self.shape = dtype, shape

    def parts(self, i: int) -> list[Part]:
        return [("bin", self.bounds[i], self.bounds[i + 1])]

    def column(self, name: str) -> list[tuple[int, int]]:
        if name != "bin":
            raise KeyError(f"no part {name!r} in these samples, which have 'bin'")
        return list(zip(self.bounds, self.bounds[1:]))


def open_npy(head: Head, body: memoryview) -> tuple[memoryview, ArrayTable]:
    """Returns the bytes of a batch that is an array, and what its header says about it."""
    try:
        if bytes(body[:6]) != b"\x93NUMPY":
            raise ValueError("no .npy header")
        wide = 2 if body[6] == 1 else 4
        start = 8 + wide
        end = start + int.from_bytes(body[8:start], "little")
        fields = ast.literal_eval(bytes(body[start:end]).decode("utf-8"))
        shape = tuple(int(n) for n in fields["shape"])
        if fields["fortran_order"] or not shape or shape[0] != head.samples or end > len(body):
            raise ValueError(f"an array of shape {shape} for {head.samples} samples")
        row, rest = divmod(len(body) - end, max(head.samples, 1))
        if rest:
            raise ValueError(f"{len(body) - end} bytes for {head.samples} samples")
    except (ValueError, KeyError, TypeError, SyntaxError, IndexError, MemoryError, RecursionError) as e:
        raise ProtocolError(f"batch {head.number}: {e}") from None
    return body[end:], ArrayTable(fields["descr"], shape, row)
