"""A line on a terminal: how far, how fast, how long yet."""

from __future__ import annotations

import sys
import time
from typing import Optional, TextIO

EVERY = 0.2


class Progress:
    """Writes one line again and again, and nothing where nobody looks."""

    def __init__(self, batches: int, shown: Optional[bool] = None, out: Optional[TextIO] = None, label: str = "") -> None:
        self._out: Optional[TextIO] = out or sys.stderr  # a process may have none
        self._shown = self._out is not None and (_is_terminal(self._out) if shown is None else shown)
        self._batches, self._label = batches, label
        self._start = self._last = time.monotonic()
        self._done = self._samples = self._bytes = 0

    def add(self, samples: int, size: int) -> None:
        """Notes one batch."""
        self._done += 1
        self._samples += samples
        self._bytes += size
        now = time.monotonic()
        if self._shown and (now - self._last >= EVERY or self._done == self._batches):
            self._last = now
            self._write(now - self._start)

    def _write(self, took: float) -> None:
        rate = self._done / max(took, 1e-9)
        left = (self._batches - self._done) / rate
        share = self._done / max(self._batches, 1)
        bar = "#" * int(20 * share)
        text = f"{self._label} [{bar:<20}] {self._done}/{self._batches} batches, {self._samples / max(took, 1e-9):,.0f} samples/s, "
        text += f"{self._bytes / max(took, 1e-9) / 1e6:,.1f} MB/s, {left:.0f} s left"
        self._put(f"\r{text.strip()}\x1b[K")

    def close(self) -> None:
        """Ends the line."""
        if self._shown and self._done:
            self._put("\n")
            self._shown = False

    def _put(self, text: str) -> None:
        assert self._out is not None
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):  # a terminal that is gone is no reason to stop
            self._shown = False


def _is_terminal(out: TextIO) -> bool:
    try:
        return out.isatty()
    except (AttributeError, ValueError):  # what stands in for standard error may be less than a file, or closed
        return False
