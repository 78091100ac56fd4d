"""Buffers that bodies are read into, used again when nothing looks at them any more.

A new buffer costs a pass over its memory (zeros, page faults): a quarter of the processor time that it takes to receive a body from the
same machine. A bytearray refuses to be resized while a memoryview, or an array over one, is left: that is asked here.
"""

from __future__ import annotations

import threading

LARGE = 1 << 20  # bytes of a column from which on its memory is worth using again. The C library mixes up large and small ones, and keeps them
SPARE = 32  # a new buffer is larger than asked for by one part in so many, since the next batch may be a little longer


def new(size: int) -> memoryview:
    """A buffer that no reader lends again."""
    return memoryview(bytearray(size))


class Buffers:
    """The latest buffers of one reader, which the next reader takes over."""

    def __init__(self) -> None:
        self.most = 1
        """Knows as many buffers as the reader may have in use at once. Those beyond belong to the caller, who keeps batches."""
        self._lock = threading.Lock()  # guards what follows
        self._known: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """Returns `size` bytes with anything in them, lent for as long as there is a view of them."""
        with self._lock:
            free = [b for b in self._known if _free(b)]
            b = min((b for b in free if size <= len(b) <= size + size // 4 + 4096), key=len, default=None)
            if b is None:
                # Those of other lengths go: they would be held in vain.
                self._known = [other for other in self._known if not any(other is f for f in free)][1 - self.most :]
                free.clear()  # before there is a new one
                b = bytearray(size + size // SPARE)
                self._known.append(b)
            return memoryview(b)[:size]


    @property
    def held(self) -> int:
        """Bytes."""
        return sum(map(len, self._known))


def _free(b: bytearray) -> bool:
    """Reports whether nothing looks at the buffer."""
    try:
        last = b.pop()
    except (BufferError, IndexError):
        return False
    b.append(last)
    return True
