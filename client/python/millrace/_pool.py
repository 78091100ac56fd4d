"""Threads that read ahead: one pool whose threads switch between fetching and decoding, depending on which is behind.

The idea is Lobster's flexible allocation of a node's threads to loading and preprocessing (Liu et al., ICPP 2022), with queues instead of a
performance model: see Pool._choose. If the network is slow, all threads fetch; if decoding is slow, all except one decode.

Two limits bound the memory. Fetching may continue while the stored bytes of requested batches that the consumer has not taken yet are
within `room`. Decoding may continue while at most `decoded_most` batches are decoded or being decoded, with at most `decoded_room` bytes of
decoder results. The batch that the consumer waits for is always fetched and decoded.
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from ._process import finish_imports
from .batch import Batch
from .errors import Closed, InvalidArgument

Fetch = Callable[[int, threading.Event, Callable[[int], None]], Batch]

_LOOK = 0.25  # seconds: maximum delay of a Ctrl-C

_FETCHING, _FETCHED, _DECODING, _READY = range(4)


@dataclass
class Stats:
    """Counters and current state of a reader's threads.

    Seconds are sums over all threads; waiting_seconds is the consumer's total wait for batches. ahead_bytes are stored bytes,
    decoded_bytes are decoder results of the waiting batches.
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


@dataclass
class _Slot:
    """A batch in progress that has not been taken yet."""

    reserved: int  # stored bytes, or an estimate
    state: int = _FETCHING
    decoded: int = 0  # bytes of decoder results
    batch: Optional[Batch] = None
    error: Optional[BaseException] = None


@dataclass
class _Average:
    sum: float
    n: int = 0

    def add(self, value: int) -> None:
        self.sum, self.n = (self.sum if self.n else 0) + value, self.n + 1

    @property
    def value(self) -> float:
        """The average, or the initial value before the first one is added."""
        return self.sum / max(self.n, 1)


_working: weakref.WeakSet[Pool] = weakref.WeakSet()  # pools that have or had threads
# seconds for threads to end before interpreter exit; decoders on a busy machine may need most of them
_LAST = 30.0


@atexit.register
def _end() -> None:
    """Ends the threads of all pools before interpreter exit, which would abort if a thread returned from C++ afterwards."""
    end = time.monotonic() + _LAST
    for p in (pools := list(_working)):
        p.stop()
    for p in pools:
        p.join(end)


class Pool:
    """Fetches and decodes a sequence of batches ahead of the consumer, in order."""

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
        """Creates a pool. room limits the bytes ahead, and most the batches ahead. guess is the initial estimate of a batch's bytes."""
        self._numbers, self._fetch, self._decode = numbers, fetch, decode
        self._room, self._most, self._decoded_most, self._decoded_room = room, most, decoded_most, decoded_room
        self.elsewhere: Callable[[int], int] = lambda _: 0
        """Returns how many taken batches still wait for the trainer in the queues of a DataLoader."""
        self._task = threading.Event()
        self._pid = os.getpid()
        # wakes a consumer whose batch may be ready
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # guards the fields below
        self._consumers = 0  # number of consumers waiting for the next batch
        self._work = threading.Condition(self._lock)  # notifies an idle thread of possible work
        self._slots: dict[int, _Slot] = {}
        self._next = 0
        self._stored = _Average(max(guess, 1))  # bytes of a batch, as announced by gateways
        self._decoded = _Average(max(decoded_room, 1))  # bytes of decoder results per batch
        self._now = Stats()
        self._threads: list[threading.Thread] = []
        self._wanted = min(threads, len(numbers))
        self._stopped = False

    def take(self) -> Optional[Batch]:
        """Returns the next batch, or None at the end. An error is raised at the position of its batch, and ends the pool."""
        self._must_be_ours()
        self._start()
        begun = time.monotonic()
        while True:
            with self._lock:
                if self._now.batches == len(self._numbers):
                    return None
                if self._stopped:
                    raise Closed("the reader is closed")
                slot = self._slots.get(self._now.batches)
                if slot is not None and slot.state == _READY:
                    self._hand_out(slot, time.monotonic() - begun)
                    break
                self._consumers += 1
                self._wake_another()
            self._wait()
        if slot.error is not None:
            self.stop()
            if isinstance(slot.error, StopIteration):
                # A StopIteration would end the caller's loop like the end of the epoch.
                raise RuntimeError("on_error raised StopIteration") from slot.error
            raise slot.error
        return slot.batch

    def _start(self) -> None:
        if not self._threads:
            finish_imports()
        while len(self._threads) < self._wanted and not self._stopped:
            _working.add(self)
            t = threading.Thread(target=self._run, name=f"millrace-{len(self._threads)}", daemon=True)
            t.start()
            self._threads.append(t)

    def _hand_out(self, slot: _Slot, waited: float) -> None:
        now = self._now
        del self._slots[now.batches]
        now.batches += 1
        now.bytes += 0 if slot.batch is None else slot.batch.nbytes
        now.ahead_bytes -= slot.reserved
        now.decoded_bytes -= slot.decoded
        now.waiting_seconds += waited
        self._work.notify()

    def _wait(self) -> None:
        """Waits until the next batch may be ready. The caller does not hold the lock.

        A Condition is not suitable. If Ctrl-C arrives just after its wait has released the lock, the lock stays released, and leaving the
        with statement fails. A Ctrl-C that arrives just before a wait does not end it either: Python checks for one only after the wait.
        """
        try:
            with contextlib.suppress(queue.Empty):
                self._bell.get(timeout=_LOOK)
        finally:
            with self._lock:
                self._consumers -= 1

    def _wake_consumers(self) -> None:
        """Makes the consumers check again. The caller holds the lock."""
        for _ in range(self._consumers):
            self._bell.put(None)

    def _run(self) -> None:
        last: Optional[bool] = None
        while True:
            with self._lock:
                while not self._stopped and (found := self._choose()) is None:
                    if self._next == len(self._numbers) and not self._now.fetching and self._undecoded() is None:
                        self._work.notify_all()
                        return
                    self._work.wait()
                if self._stopped or found is None:
                    return
                at, fetch = found
                self._now.moves += last not in (None, fetch)
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
            del slot  # a waiting thread must not keep the batch in memory

    def _choose(self) -> Optional[tuple[int, bool]]:
        """Returns the next batch for an idle thread, and whether to fetch it. The caller holds the lock.

        The batch that the consumer waits for has priority: if it is fetched, it is decoded. Otherwise the thread fetches if no other thread
        does so and the limits allow it. Otherwise it decodes the oldest fetched batch or, if the limits do not allow that, fetches too.
        """
        first = self._now.batches
        waited = self._slots.get(first)
        if waited is not None and waited.state == _FETCHED and (self._consumers or self._may_decode(first)):
            return first, False
        ahead = self._now.ahead_bytes + self._stored.value
        can_fetch = self._next < len(self._numbers) and (self._next == first or (ahead <= self._room and self._next - first < self._most))
        if can_fetch and not self._now.fetching:
            return self._next, True
        oldest = self._undecoded()
        if oldest is not None and self._may_decode(oldest):
            return oldest, False
        return (self._next, True) if can_fetch else None

    def _may_decode(self, at: int) -> bool:
        """Reports whether one more batch may be decoded. Its size is estimated by the average, and initially by the whole room."""
        first = self._now.batches
        elsewhere = self.elsewhere(first)
        if at - first + elsewhere >= self._decoded_most:
            return False
        others = self._now.decoding + elsewhere  # batches whose size is not known yet
        if at != first:
            others += self._slots[first].state < _DECODING  # it will be decoded in any case
        elif others == 0 and not any(slot.state == _READY for slot in self._slots.values()):
            return True
        return self._now.decoded_bytes + (others + 1) * self._decoded.value <= self._decoded_room

    def _undecoded(self) -> Optional[int]:
        return next((i for i, s in self._slots.items() if s.state == _FETCHED), None)

    def _claim(self, at: int, fetch: bool) -> _Slot:
        if not fetch:
            self._slots[at].state = _DECODING
            self._now.decoding += 1
            return self._slots[at]
        self._next += 1
        self._now.fetching += 1
        slot = self._slots[at] = _Slot(0)
        self._reserve(slot, int(self._stored.value))
        return slot

    def _reserve(self, slot: _Slot, size: int) -> None:
        self._now.ahead_bytes += size - slot.reserved
        self._now.most_ahead_bytes = max(self._now.most_ahead_bytes, self._now.ahead_bytes)
        slot.reserved = size

    def _announced(self, slot: _Slot, size: int) -> None:
        """Replaces the estimate by the length that a gateway has announced, and updates the average."""
        with self._lock:
            self._stored.add(size)
            self._reserve(slot, size)
            self._wake_another()

    def _wake_another(self) -> None:
        """Wakes one thread if there is work; that thread wakes the next. Waking all at once would only cause contention."""
        if self._choose() is not None:
            self._work.notify()

    def _done(self, slot: _Slot, fetch: bool, took: float, size: int) -> None:
        if fetch:
            self._now.fetching -= 1
            self._now.fetch_seconds += took
            slot.state = _FETCHED if self._decode is not None and slot.error is None else _READY
        else:
            self._now.decoding -= 1
            self._now.decode_seconds += took
            slot.state, slot.decoded = _READY, size
            self._now.decoded_bytes += size
            self._decoded.add(size)
        if slot.state == _READY and self._slots.get(self._now.batches) is slot:
            self._wake_consumers()

    def stats(self) -> Stats:
        """Returns the current counters."""
        self._must_be_ours()
        with self._lock:
            states = [slot.state for slot in self._slots.values()]
            threads = sum(t.is_alive() for t in self._threads)
            return replace(self._now, threads=threads, undecoded=states.count(_FETCHED), ready=states.count(_READY))

    def ours(self) -> bool:
        """Reports whether this process created the pool. In a forked child it belongs to the parent, including sockets and locks."""
        return self._pid == os.getpid()

    def _must_be_ours(self) -> None:
        if not self.ours():
            raise InvalidArgument("use a reader: it belongs to the process that made it", cure="iterate over the epoch again in the forked process")

    def stop(self) -> None:
        """Stops the work in progress, without waiting for it."""
        if not self.ours():
            return
        with self._lock:
            self._stopped = True
            self._slots.clear()
            self._wake_consumers()
            self._work.notify_all()
        self._task.set()

    def close(self) -> None:
        """Stops the work in progress and waits for the threads. Only a function of the caller, such as a decoder, can delay one."""
        self.stop()
        self.join(math.inf)

    def join(self, end: float) -> None:
        """Waits for the threads until a time of the monotonic clock."""
        for t in self._threads if self.ours() else ():
            if t is not threading.current_thread():
                t.join(None if end == math.inf else max(0.0, end - time.monotonic()))
