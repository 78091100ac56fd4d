"""Buffers that bodies are read into, used again when nobody looks at them any more.

A new buffer costs a pass over its memory (zeros, page faults), about a third of what it costs to receive a body of the same
machine. So a reader lends its buffers, and takes one back when no memoryview, and no array over one, is left: a bytearray refuses
to be resized while somebody looks at it, which is the question that is asked here.
"""

from __future__ import annotations

import threading

SPARE = 16  # a new buffer is a sixteenth larger than asked for: the next batch may be a little longer


class Arena:
    """The buffers of one reader. It holds `most` at a time; those beyond belong to who looks at them alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._lent: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """Returns `size` bytes with anything in them, lent for as long as there is a view of them."""
        with self._lock:
            best = -1
            for i, b in enumerate(self._lent):
                if size <= len(b) <= 2 * size + 4096 and (best < 0 or len(b) < len(self._lent[best])) and _free(b):
                    best = i
            if best >= 0:
                return memoryview(self._lent[best])[:size]
        buffer = bytearray(size + size // SPARE)
        view = memoryview(buffer)[:size]
        with self._lock:
            self._lent.append(buffer)
            if len(self._lent) > self._most:
                del self._lent[0]
        return view

    def close(self) -> None:
        """Forgets the buffers."""
        with self._lock:
            self._lent.clear()


def _free(b: bytearray) -> bool:
    """Reports whether nobody looks at the buffer."""
    try:
        last = b.pop()
    except (BufferError, IndexError):
        return False
    b.append(last)
    return True
