"""The prefetching threads: order, bounds, and the division of work."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Optional

import pytest

from millrace._http import Task
from millrace._layout import Head, Manifest
from millrace._pool import Pool
from millrace._process import Buffers
from millrace.batch import Batch, Decoding
from millrace.errors import Closed


def batch(number: int, size: int = 10) -> Batch:
    head = Head(0, number, 100, 1, 0, "g", "d", "", "", "", 0)
    return Batch(head, memoryview(bytes(size)), Decoding(lambda _: Manifest([], [])))


def pool(
    n: int,
    fetch: Callable[[int], Batch] = batch,
    decode: Optional[Callable[[Batch], None]] = None,
    *,
    threads: int = 4,
    room: int = 1 << 20,
    most: int = 16,
) -> Pool:
    def announced(number: int, _: Task, size: Callable[[int], None]) -> Batch:
        b = fetch(number)
        size(len(b.data))
        return b

    return Pool(range(n), announced, decode, threads=threads, room=room, most=most, guess=10)


def take_all(p: Pool) -> list[int]:
    out = []
    while (b := p.take()) is not None:
        out.append(b.number)
    p.close()
    return out


class Gate:
    """Holds threads until it is opened, and counts them."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._changed = threading.Condition()
        self.held = 0

    def wait(self) -> None:
        with self._changed:
            self.held += 1
            self._changed.notify_all()
        assert self._opened.wait(60)

    def until(self, held: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.held >= held, 60)

    def open(self) -> None:
        self._opened.set()


def test_order_is_kept_whatever_comes_first() -> None:
    late = Gate()

    def fetch(number: int) -> Batch:
        if number == 0:
            late.wait()
        if number == 5:
            late.open()
        return batch(number)

    assert take_all(pool(40, fetch, lambda _: None)) == list(range(40))


@pytest.mark.parametrize(("room", "most", "want"), [(35, 16, 3), (1 << 20, 5, 5), (0, 16, 1)])
def test_what_is_ahead_is_bounded(room: int, most: int, want: int) -> None:
    gate = Gate()

    def fetch(number: int) -> Batch:
        gate.wait()
        return batch(number)

    p = pool(40, fetch, threads=8, room=room, most=most)
    p._start()
    gate.until(want)
    assert (p.stats().fetching, p.stats().ahead_bytes) == (want, 10 * want)
    gate.open()
    assert take_all(p) == list(range(40))
    assert p.stats().most_ahead_bytes <= max(room, 10)


def test_room_is_made_by_what_is_taken() -> None:
    p = pool(10, lambda n: batch(n, 1000), threads=2, room=1500)
    assert take_all(p) == list(range(10))
    # Two fetches may begin before a length is known, but never more.
    assert p.stats().most_ahead_bytes <= 2 * 1000


def test_all_threads_fetch_while_fetching_is_slow() -> None:
    gate = Gate()

    def fetch(number: int) -> Batch:
        gate.wait()
        return batch(number)

    p = pool(20, fetch, lambda _: None, threads=4)
    p._start()
    gate.until(4)
    assert (p.stats().fetching, p.stats().decoding) == (4, 0)
    gate.open()
    assert take_all(p) == list(range(20))


def test_all_threads_wake_when_there_is_room_for_all() -> None:
    gate, together = Gate(), Gate()

    def fetch(number: int, _: Task, announced: Callable[[int], None]) -> Batch:
        gate.wait()
        announced(10)  # the estimate of the first batch filled the whole room until now
        together.wait()
        return batch(number)

    p = Pool(range(4), fetch, None, threads=4, room=1000, most=16, guess=1000)
    p._start()
    gate.until(1)
    while len(p._work._waiters) < 3:  # type: ignore[attr-defined]
        time.sleep(0.001)
    gate.open()
    together.until(4)  # no batch is taken, because that would also wake a thread
    together.open()
    assert take_all(p) == list(range(4))


def test_all_threads_but_one_decode_while_decoding_is_slow() -> None:
    decoding, fetching = Gate(), Gate()

    def fetch(number: int) -> Batch:
        if number >= 4:
            fetching.wait()
        return batch(number)

    p = pool(20, fetch, lambda _: decoding.wait(), threads=4)
    p._start()
    decoding.until(3)
    fetching.until(1)
    s = p.stats()
    assert (s.fetching, s.decoding) == (1, 3)
    assert s.undecoded == 1  # fetched, and waiting for a decoding thread
    fetching.open()
    decoding.open()
    assert take_all(p) == list(range(20))
    assert p.stats().moves >= 3


def test_the_last_thread_decodes_when_there_is_no_room() -> None:
    decoding = Gate()
    p = pool(20, batch, lambda _: decoding.wait(), threads=4, most=4)
    p._start()
    decoding.until(4)
    assert (p.stats().fetching, p.stats().decoding) == (0, 4)
    decoding.open()
    assert take_all(p) == list(range(20))


@pytest.mark.parametrize("where", ["fetch", "decode"])
def test_a_fault_comes_when_its_turn_has_come(where: str) -> None:
    def fails(number: int) -> None:
        if number == 3:
            raise ZeroDivisionError

    def fetch(number: int) -> Batch:
        if where == "fetch":
            fails(number)
        return batch(number)

    p = pool(20, fetch, lambda b: fails(b.number) if where == "decode" else None)
    assert [b.number for b in (p.take(), p.take(), p.take()) if b is not None] == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        p.take()
    with pytest.raises(Closed):
        p.take()
    p.close()
    assert p.stats().threads == 0


def test_nothing_to_read() -> None:
    p = pool(0)
    assert take_all(p) == []
    assert p.stats().threads == 0


def test_one_thread_does_both() -> None:
    assert take_all(pool(20, batch, lambda _: None, threads=1)) == list(range(20))


def test_several_take_from_one_pool() -> None:
    got: list[int] = []
    last = Gate()

    def fetch(number: int) -> Batch:
        if number == 40:
            last.wait()
        return batch(number)

    p = pool(41, fetch, lambda _: None)

    def take() -> None:
        while (b := p.take()) is not None:
            got.append(b.number)

    takers = [threading.Thread(target=take, daemon=True) for _ in range(3)]
    for t in takers:
        t.start()
    while p._consumers < 3:
        time.sleep(0.001)
    last.open()
    for t in takers:
        t.join(60)
    assert sorted(got) == list(range(41))
    assert not any(t.is_alive() for t in takers)
    p.close()


class Case:
    """A pool with random parameters. Its threads must never all sleep while there is work."""

    def __init__(self, seed: int) -> None:
        r = self.random = random.Random(seed)
        self.n, self.slow = r.randrange(14), r.random() < 0.1
        self.sizes = [r.choice((0, 1, 5, 10, r.randrange(100))) for _ in range(self.n)]
        self.fails = {m: r.choice(("fetch", "decode", "again")) for m in range(self.n) if r.random() < 0.04}
        self.leaves = r.randrange(self.n + 1) if r.random() < 0.2 else -1
        self.decodes = r.random() < 0.7
        self.slept: list[str] = []
        self.pool = Pool(
            range(self.n),
            self.fetch,
            self.decode if self.decodes else None,
            threads=r.randrange(1, 7),
            room=r.choice((0, 10, 50, r.randrange(300))),
            most=r.randrange(1, 9),
            guess=r.choice((1, 10, 100)),
        )

    def look(self) -> None:
        """Checks that while there is work a waiting thread has been notified, or another thread is about to check."""
        if self.slow:
            time.sleep(self.random.random() * 1e-3)
        p = self.pool
        with p._lock:
            asleep = len(p._work._waiters)  # type: ignore[attr-defined]
            busy = p._now.fetching + p._now.decoding
            if asleep and asleep + busy == len(p._threads) == p._wanted and not p._stopped and p._choose() is not None:
                self.slept.append(f"{asleep} of {p._wanted} threads sleep while {p._choose()} is to be done")

    def fetch(self, number: int, _: Task, announced: Callable[[int], None]) -> Batch:
        for _ in range(2 if self.fails.get(number) == "again" else 1):  # an incomplete body that is requested again
            announced(self.sizes[number])
            self.look()
        if self.fails.get(number) == "fetch":
            raise ZeroDivisionError
        return batch(number, self.sizes[number])

    def decode(self, b: Batch) -> None:
        self.look()
        if self.fails.get(b.number) == "decode":
            raise ZeroDivisionError

    def run(self) -> None:
        """Reads to the end, or to the first failure, or to a random batch."""
        fault = min((m for m, where in self.fails.items() if where == "fetch" or (where == "decode" and self.decodes)), default=self.n)
        for m in range(self.n + 1):
            self.look()
            if m == self.leaves:
                break
            if m == fault < self.n:
                with pytest.raises(ZeroDivisionError):
                    self.pool.take()
                break
            b = self.pool.take()
            assert (b.number if b is not None else self.n) == m
        self.pool.close()
        assert self.pool.stats().threads == 0
        assert not self.slept


def test_any_pool() -> None:
    cases, done = iter(range(2000)), []

    def run() -> None:
        for seed in cases:
            done.append(seed)
            Case(seed).run()
        done.append(-1)

    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        t = threading.Thread(target=run, daemon=True)
        t.start()
        t.join(120)
    finally:
        sys.setswitchinterval(was)
    assert done[-1] == -1, f"case {done[-1]}"


def test_buffers() -> None:
    buffers = Buffers()
    buffers.most = 4
    a = buffers.take(1000)
    a[:] = b"a" * 1000
    part = a[10:20]
    del a
    assert buffers.take(1000).obj is not part.obj  # a view of a part still exists
    was = part.obj
    assert bytes(part) == b"a" * 10
    del part
    b = buffers.take(990)
    assert b.obj is was
    assert len(b) == 990
    del b
    held = [buffers.take(9_000) for _ in range(10)]
    assert len(buffers._known) == 4  # further buffers belong only to the caller
    big = buffers.take(100_000)
    del held, big
    assert len(buffers.take(9_000)) == 9_000
    buffers.take(200_000)
    assert sum(map(len, buffers._known)) < 220_000  # buffers of other lengths are not kept


def test_buffers_hold_little_more_than_what_is_looked_at() -> None:
    buffers, r, held = Buffers(), random.Random(1), []
    buffers.most = 1000
    for _ in range(300):
        held = [*held[-3:], buffers.take(r.randrange(1 << 12, 16 << 20))]
        looked_at = sum(len(view) for view in held)
        assert sum(map(len, buffers._known)) <= 1.25 * looked_at + 5 * 4096 + 2 * (16 << 20)
