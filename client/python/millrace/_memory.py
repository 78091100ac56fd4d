"""How much memory values take, and which of them keep that of a batch."""

from __future__ import annotations

import sys
from typing import Any


def own(value: Any) -> Any:
    """Returns a value that does not keep the bytes of a batch in memory: of a view its bytes."""
    return bytes(value) if isinstance(value, memoryview) else value


def size_of(value: Any) -> int:
    """About how many bytes a value takes: of tensors, arrays and bytes exactly, with all that a list, tuple or dict holds."""
    n = getattr(value, "nbytes", None)
    if isinstance(n, int):
        return n
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(size_of, value))
    if hasattr(value, "element_size"):  # a tensor, before torch 2
        return int(value.element_size() * value.nelement())
    if hasattr(value, "getbands"):  # an image of Pillow's
        return int(value.width * value.height * len(value.getbands()))
    return sys.getsizeof(value, 0)
