"""Threads that read ahead: one pool that moves between fetching and decoding, to whichever is behind.

The idea is Lobster's flexible allocation of a node's threads to loading and preprocessing (Liu et al., ICPP 2022), with queues instead of a
performance model. The rule, for a thread that is free:

1. The batch that the consumer waits for goes first: if it has come and is not decoded yet, decode it.
2. Decoding is behind if batches have come that are not decoded; fetching is behind if nothing is being fetched although there is room.
   Fetch if fetching is behind, else decode the oldest batch if decoding is behind, else fetch the next one if there is room.

So all threads fetch while the network is slow, and all but one decode while decoding is.

Two limits hold memory. Fetching has room while the stored bytes of the batches that were asked for, and are not yet handed out, stay
within `room`. Decoding has room while the batches that are decoded, or being decoded, are at most `decoded_most`, and what decoders
returned for them at most `decoded_room` bytes. The batch that the consumer waits for is always fetched and decoded.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import queue
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Callable, Optional

from ._wire import Task
from .batch import Batch
from .errors import Closed, InvalidArgument

Fetch = Callable[[int, Task, Callable[[int], None]], Batch]

_LOOK = 0.25  # seconds: how late a Ctrl-C is noticed at most

_FETCHING, _FETCHED, _DECODING, _READY, _DECODED = range(5)  # from _READY on a batch can be taken


@dataclass
class Stats:
    """What a reader's threads have done, and what they do now.

    seconds are sums over all threads; waiting_seconds is how long the consumer waited for a batch. ahead_bytes are stored bytes,
    decoded_bytes those that decoders returned for the batches that wait.
    """

    threads: int = 0
    fetching: int = 0
    decoding: int = 0
    undecoded: int = 0
    ready: int = 0
    ahead_bytes: int = 0
    most_ahead_bytes: int = 0
    decoded_bytes: int = 0
    batches: int = 0
    bytes: int = 0
    moves: int = 0
    fetch_seconds: float = 0.0
    decode_seconds: float = 0.0
    waiting_seconds: float = 0.0


class _Slot:
    __slots__ = ("batch", "decoded", "error", "reserved", "state")

    def __init__(self, reserved: int) -> None:
        self.state = _FETCHING
        self.batch: Optional[Batch] = None
        self.error: Optional[BaseException] = None
        self.reserved = reserved
        self.decoded = 0  # bytes that decoders returned


_working: weakref.WeakSet[Pool] = weakref.WeakSet()  # pools that have threads, or had some
_LAST = 5.0  # seconds that threads have to end before the interpreter does: a decoder may take longer


@atexit.register
def _end() -> None:
    """Ends the threads of all pools before the interpreter ends: it would abort the process if one came back from C++ then."""
    pools = [p for p in list(_working) if p.ours()]
    for p in pools:
        p.stop()
    end = time.monotonic() + _LAST
    for p in pools:
        p.join(end)


class Pool:
    """Fetches and decodes a sequence of batches ahead of whoever takes them, in order."""

    def __init__(
        self,
        numbers: Sequence[int],
        fetch: Fetch,
        decode: Optional[Callable[[Batch], None]],
        *,
        threads: int,
        room: int,
        most: int,
        guess: int,
        decoded_most: int = sys.maxsize,
        decoded_room: float = math.inf,
    ) -> None:
        """Makes a pool; room are the bytes ahead, most the batches ahead, guess the bytes of a batch that is not known yet."""
        self._numbers, self._fetch, self._decode = numbers, fetch, decode
        self._room, self._most, self._guess = room, most, max(guess, 1)
        self._decoded_most, self._decoded_room = decoded_most, decoded_room
        self.elsewhere: Callable[[int], int] = lambda _: 0
        """Says how many of the batches that were taken still wait for the trainer, in the queues of a DataLoader."""
        self._task = Task()
        self._pid = os.getpid()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # wakes a consumer: its batch may be ready
        self._lock = threading.Lock()  # guards what follows
        self._consumers = 0  # that wait for the next batch
        self._work = threading.Condition(self._lock)  # a thread that has nothing to do may find something
        self._slots: dict[int, _Slot] = {}
        self._next = 0
        self._known = self._known_bytes = 0  # batches whose length a gateway has announced
        self._sized = self._sized_bytes = 0  # batches that were decoded, and what decoders returned for them
        self._now = Stats()
        self._threads: list[threading.Thread] = []
        self._wanted = min(threads, len(numbers)) if threads else 0
        self._stopped = False

    def take(self) -> Optional[Batch]:
        """Returns the next batch, None at the end. What failed is raised when its turn has come, and ends the pool."""
        self._must_be_ours()
        self._start()
        begun = time.monotonic()
        while True:
            with self._lock:
                ready, slot = self._ready()
                if ready:
                    self._now.waiting_seconds += time.monotonic() - begun
                    if slot is None:
                        return None
                    del self._slots[self._now.batches]
                    self._now.batches += 1
                    self._now.ahead_bytes -= slot.reserved
                    self._now.decoded_bytes -= slot.decoded
                    self._work.notify()
                    break
                self._consumers += 1
                self._wake_another()
            self._wait()
        if slot.error is not None:
            self.stop()
            if isinstance(slot.error, StopIteration):
                # It would end the caller's loop as if the epoch were over.
                raise RuntimeError("a transform of batches raised StopIteration") from slot.error
            raise slot.error
        batch = slot.batch
        assert batch is not None
        self._now.bytes += len(batch.data)
        return batch

    def _ready(self) -> tuple[bool, Optional[_Slot]]:
        """Says whether the next batch is ready, and its place; None at the end. The caller holds the lock."""
        if self._now.batches == len(self._numbers):
            return True, None
        if self._stopped:
            raise Closed("the reader is closed")
        slot = self._slots.get(self._now.batches)
        if slot is None or slot.state < _READY:
            return False, None
        return True, slot

    def _wait(self) -> None:
        """Waits until the next batch may be ready. The caller does not hold the lock.

        A Condition will not do: where Ctrl-C comes just after its wait has released the lock, the lock stays released, and the end of
        the with statement around it fails. And a Ctrl-C that comes just before a wait begins does not end it: Python looks for one
        only once the wait is over.
        """
        try:
            with contextlib.suppress(queue.Empty):
                self._bell.get(timeout=_LOOK)
        finally:
            with self._lock:
                self._consumers -= 1

    def _wake_consumers(self) -> None:
        """Has the consumers look again. The caller holds the lock."""
        for _ in range(self._consumers):
            self._bell.put(None)

    def _start(self) -> None:
        while len(self._threads) < self._wanted and not self._stopped:
            _working.add(self)
            t = threading.Thread(target=self._run, name=f"millrace-{len(self._threads)}", daemon=True)
            t.start()
            self._threads.append(t)

    def _run(self) -> None:
        last: Optional[bool] = None
        while True:
            with self._lock:
                while True:
                    if self._stopped:
                        return
                    at, fetch = self._choose()
                    if at >= 0:
                        break
                    if self._next == len(self._numbers) and not self._now.fetching and self._undecoded() is None:
                        self._work.notify_all()
                        return
                    self._work.wait()
                if last is not None and last != fetch:
                    self._now.moves += 1
                last = fetch
                slot = self._claim(at, fetch)
                self._wake_another()
            begun, size = time.monotonic(), 0
            try:
                if fetch:
                    slot.batch = self._fetch(self._numbers[at], self._task, lambda size, s=slot: self._announced(s, size))  # type: ignore[misc]
                elif self._decode is not None and slot.batch is not None:
                    self._decode(slot.batch)
                    size = slot.batch.decoded_size()
            except BaseException as e:
                slot.error = e
            with self._lock:
                self._done(slot, fetch, time.monotonic() - begun, size)
            del slot  # whoever waits holds no batch

    def _choose(self) -> tuple[int, bool]:
        """Says which batch a free thread works on, and whether it fetches it. -1: none. The caller holds the lock."""
        waited = self._slots.get(self._now.batches)
        if waited is not None and waited.state == _FETCHED and (self._consumers or self._may_decode(self._now.batches)):
            return self._now.batches, False
        can_fetch = self._next < len(self._numbers) and (
            self._next == self._now.batches or (self._now.ahead_bytes + self._guess <= self._room and self._next - self._now.batches < self._most)
        )
        if can_fetch and not self._now.fetching:
            return self._next, True
        oldest = self._undecoded()
        if oldest is not None and self._may_decode(oldest):
            return oldest, False
        return (self._next, True) if can_fetch else (-1, False)

    def _may_decode(self, at: int) -> bool:
        """Reports whether there is room for one more decoded batch. Its size is taken to be the average; before any is known, all room."""
        elsewhere = self.elsewhere(self._now.batches)
        if at - self._now.batches + elsewhere >= self._decoded_most:
            return False
        others = self._now.decoding + elsewhere  # they have a size, but it is not known
        if at != self._now.batches:
            others += self._slots[self._now.batches].state < _DECODING  # it is decoded in any case
        elif others == 0 and not any(slot.state == _DECODED for slot in self._slots.values()):
            return True
        guess = self._sized_bytes / self._sized if self._sized else max(self._decoded_room, 1)
        return self._now.decoded_bytes + (others + 1) * guess <= self._decoded_room

    def _undecoded(self) -> Optional[int]:
        return next((i for i, s in self._slots.items() if s.state == _FETCHED), None)

    def _claim(self, at: int, fetch: bool) -> _Slot:
        if not fetch:
            slot = self._slots[at]
            slot.state = _DECODING
            self._now.decoding += 1
            return slot
        slot = self._slots[at] = _Slot(self._guess)
        self._next += 1
        self._now.fetching += 1
        self._reserve(self._guess)
        return slot

    def _reserve(self, size: int) -> None:
        self._now.ahead_bytes += size
        self._now.most_ahead_bytes = max(self._now.most_ahead_bytes, self._now.ahead_bytes)

    def _announced(self, slot: _Slot, size: int) -> None:
        """Puts the length that a gateway has announced in the place of the guess, and learns from it."""
        with self._lock:
            self._known, self._known_bytes = self._known + 1, self._known_bytes + size
            self._guess = max(self._known_bytes // self._known, 1)
            self._reserve(size - slot.reserved)
            slot.reserved = size
            self._wake_another()

    def _wake_another(self) -> None:
        """Wakes one thread if there is something to do; it wakes the next: all at once would only stand in each other's way."""
        if self._choose()[0] >= 0:
            self._work.notify()

    def _done(self, slot: _Slot, fetch: bool, took: float, size: int) -> None:
        if fetch:
            self._now.fetching -= 1
            self._now.fetch_seconds += took
            slot.state = _FETCHED if self._decode is not None and slot.error is None else _READY
        else:
            self._now.decoding -= 1
            self._now.decode_seconds += took
            slot.state, slot.decoded = _DECODED, size
            self._now.decoded_bytes += size
            self._sized, self._sized_bytes = self._sized + 1, self._sized_bytes + size
        if slot.state >= _READY and self._slots.get(self._now.batches) is slot:
            self._wake_consumers()

    def stats(self) -> Stats:
        """Returns what the threads have done."""
        self._must_be_ours()
        with self._lock:
            states = [slot.state for slot in self._slots.values()]
            return replace(
                self._now,
                threads=sum(t.is_alive() for t in self._threads),
                undecoded=states.count(_FETCHED),
                ready=states.count(_READY) + states.count(_DECODED),
            )

    def ours(self) -> bool:
        """Reports whether this process made the pool. In a forked child it is the parent's, sockets and locks included."""
        return self._pid == os.getpid()

    def _must_be_ours(self) -> None:
        if not self.ours():
            raise InvalidArgument("use a reader: it belongs to the process that made it", cure="iterate over the epoch again in the forked process")

    def stop(self) -> None:
        """Ends what is under way, without waiting for it."""
        if not self.ours():
            return
        with self._lock:
            self._stopped = True
            self._slots.clear()
            self._wake_consumers()
            self._work.notify_all()
        self._task.set()

    def close(self) -> None:
        """Ends what is under way and waits for the threads: only a function of the caller's, a decoder or one for tokens, can keep one."""
        self.stop()
        self.join(math.inf)

    def join(self, end: float) -> None:
        """Waits for the threads until a time of the monotonic clock."""
        for t in self._threads if self.ours() else ():
            if t is not threading.current_thread():
                t.join(None if end == math.inf else max(0.0, end - time.monotonic()))
