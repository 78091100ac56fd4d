"""Buffers that bodies are read into, used again when nobody looks at them any more.

A new buffer costs a pass over its memory (zeros, page faults), about a third of what it costs to receive a body of the same
machine. So a client lends its buffers, and takes one back when no memoryview, and no array over one, is left: a bytearray refuses
to be resized while somebody looks at it, which is the question that is asked here.
"""

from __future__ import annotations

import threading
from typing import Optional

SPARE = 16  # a new buffer is a sixteenth larger than asked for: the next batch may be a little longer


class Arena:
    """The buffers of a client's readers in one process.

    It knows as many bytes as the open readers may have ahead, and two buffers more: one that is being filled, and one that the caller
    has. Those beyond belong to who looks at them alone. What one reader had, the next one finds, until `rest`: an epoch may be short.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows
        self._readers = self._room = self._most = 0
        self._lent: list[bytearray] = []
        self._known = 0  # bytes of those

    def open(self, room: int, most: int) -> None:
        """Makes room for a reader that has `most` batches of together `room` bytes ahead."""
        with self._lock:
            self._readers, self._room, self._most = self._readers + 1, self._room + room, self._most + most

    def close(self, room: int, most: int) -> None:
        """Takes that room back."""
        with self._lock:
            self._readers, self._room, self._most = self._readers - 1, self._room - room, self._most - most
            while self._lent and self._known > max(self._room, room):
                self._forget(self._spare() or self._lent[0])

    def rest(self) -> None:
        """Forgets the buffers, if no reader is open."""
        with self._lock:
            while self._lent and not self._readers:
                self._forget(self._lent[0])

    def take(self, size: int) -> memoryview:
        """Returns `size` bytes with anything in them, lent for as long as there is a view of them."""
        with self._lock:
            for i in range(len(self._lent) - 1, -1, -1):  # the one lent last is most likely in the processor's cache
                b = self._lent[i]
                if size <= len(b) <= 2 * size + 4096 and _free(b):
                    self._lent.append(self._lent.pop(i))
                    return memoryview(b)[:size]
            b = bytearray(size + size // SPARE)
            self._add(b)
            return memoryview(b)[:size]

    def _add(self, b: bytearray) -> None:
        """Makes place: those that are free go first, whose memory that gives back."""
        while self._lent and (self._known + len(b) > self._room + 2 * len(b) or len(self._lent) >= self._most):
            self._forget(self._spare() or self._lent[0])
        self._lent.append(b)
        self._known += len(b)

    def _spare(self) -> Optional[bytearray]:
        return next((b for b in self._lent if _free(b)), None)

    def _forget(self, b: bytearray) -> None:
        self._lent = [other for other in self._lent if other is not b]
        self._known -= len(b)


def _free(b: bytearray) -> bool:
    """Reports whether nobody looks at the buffer."""
    try:
        last = b.pop()
    except (BufferError, IndexError):
        return False
    b.append(last)
    return True
