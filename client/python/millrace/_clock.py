"""The time that deadlines are counted in: that in which this process ran.

A job that a scheduler suspends for an hour, a virtual machine that is moved, a laptop that is shut: none of them says anything about
a gateway, and an answer that came meanwhile waits in the socket. So what is under way goes on where it was.
"""

from __future__ import annotations

import threading
import time
from typing import Optional

STILL = 1.0  # a thread that wakes so many seconds too late was not slow: everything stood still


class Clock:
    """Seconds, from an arbitrary beginning, without those in which the process stood still.

    That is noticed by a thread that says when it will look again: whoever looks long after that knows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows
        self._still = 0.0
        self._due: Optional[float] = None

    def now(self) -> float:
        """The time."""
        with self._lock:
            now = time.monotonic()
            if self._due is not None and now > self._due + STILL:
                self._still += now - self._due
                self._due = now
            return now - self._still

    def look_again(self, seconds: Optional[float]) -> float:
        """Says that the calling thread will look again after so many seconds, None: at no certain time. Returns the time."""
        now = self.now()
        with self._lock:
            self._due = None if seconds is None else now + self._still + seconds
        return now
