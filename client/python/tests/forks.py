"""Forks while a reader's thread is stopped at one line after another: python forks.py JOB-AS-JSON.

Prints the number of forks, and which of them hung.

A thread that reaches a line for the first time waits there, with its locks held, until the main thread has forked. The child reads through
its own client and through the inherited one.
"""

from __future__ import annotations

import _imp
import contextlib
import gc
import json
import os
import queue
import signal
import sys
import threading
from types import FrameType
from typing import Any, Optional

import harness

import millrace
from millrace._http import wire
from millrace._process import no_fork

WATCHDOG = 60  # maximum seconds for a child on a busy machine
TRACED = ("millrace", "http/client.py", "socket.py", "ssl.py", "threading.py", "torch/utils/data/_utils/collate.py")
AT_ONCE = 4


def label(view: memoryview) -> int:
    """A decoder that returns the integer in its bytes."""
    return int(bytes(view))


class Steps:
    """Stops threads at every n-th line that no thread has reached before."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.seen: set[tuple[str, int]] = set()
        self.at: queue.SimpleQueue[Optional[str]] = queue.SimpleQueue()

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """Traces a thread."""
        code = frame.f_code
        if not any(part in code.co_filename for part in TRACED):
            return None
        line = code.co_filename, frame.f_lineno
        if event == "line" and line not in self.seen and not (_imp.lock_held() or no_fork._is_owned()):  # a fork waits for these locks
            self.seen.add(line)
            if len(self.seen) % self.every == 0:
                forked = threading._allocate_lock()  # type: ignore[attr-defined]
                forked.acquire()
                self.at.put((f"{os.path.basename(line[0])}:{line[1]} in {code.co_name}", forked))  # type: ignore[arg-type] # noqa: PTH119
                forked.acquire()
        return self.trace


class Job:
    """The open resources of the parent, and the work that its threads and its children do with them."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.url, self.tls = job["url"], job["tls"]
        PLAN["fields"] = job.get("fields", "cls")
        self.client = self.open()
        self.epoch = self.client.epoch(0, **harness.grouped(**PLAN))
        self.want = [list(b["cls"]) for b in self.epoch]
        self.ledger = millrace.Ledger()
        self.dataset: Any = None
        if job["torch"]:
            from millrace.torch import Dataset

            self.dataset = Dataset(self.client, "photos", global_batch_size=100, decode={"cls": label}, fields=PLAN["fields"])
        self.readers = [self.epoch.read(), self.epoch.read()]

    def open(self) -> millrace.Client:
        context = harness.tls_context(wire.ssl.PROTOCOL_TLS_CLIENT) if self.tls else None
        # the threads of this client are stopped during every fork
        patient = {"deadline": 1e6, "first_answer": 1e6, "attempt_timeout": 1e6}
        return millrace.Client(self.url, "photos", **harness.grouped(context=context, **patient))

    def read(self, every: list[Exception]) -> None:
        """Reads in a thread of the parent, over new and over kept connections."""
        try:
            for _ in range(2):
                with self.open() as client, client.epoch(0, **harness.grouped(**PLAN)).read(ledger=self.ledger) as reader:
                    assert [list(b["cls"]) for b in reader] == self.want
            if self.dataset is not None:
                assert [b["cls"].tolist() for b in self.dataset] == self.want
            for reader in self.readers:
                assert [list(b["cls"]) for b in reader] == self.want
        except Exception as e:
            every.append(e)

    def child(self) -> None:
        """The work of a forked child. All of it must finish."""
        with self.open() as fresh:
            assert list(fresh.epoch(0, **harness.grouped(**PLAN)).batch(1)["cls"]) == self.want[1]
        with self.epoch.read(1, 3) as reader:
            assert [list(b["cls"]) for b in reader] == self.want[1:3]
        if self.dataset is not None:
            self.dataset.set_epoch(0)  # otherwise it reads the pass after the parent's, which may have begun or not
            batches = iter(self.dataset)
            assert [next(batches)["cls"].tolist() for _ in range(2)] == self.want[:2]
            del batches
        for reader in self.readers:
            with contextlib.suppress(millrace.InvalidArgument):  # it belongs to the parent
                next(reader)
            reader.close()
        self.readers.clear()
        self.ledger.add(self.epoch.plan, 0)
        gc.collect()
        self.client.close()


PLAN: dict[str, Any] = {"global_batch_size": 100, "decode": {"cls": label}, "fields": "cls"}


def forked(job: Job) -> int:
    """Forks, and runs the child's work in the child."""
    child = os.fork()
    if child:
        return child
    threading.settrace(None)  # type: ignore[arg-type]
    signal.alarm(WATCHDOG)
    try:
        job.child()
        os._exit(0)
    except BaseException as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def main(settings: dict[str, Any]) -> dict[str, Any]:
    steps, faults, failed = Steps(settings["every"]), [], []
    job = Job(settings)
    threading.settrace(steps.trace)
    reading = threading.Thread(target=job.read, args=(failed,), daemon=True)
    reading.start()
    children: dict[int, str] = {}
    forks = 0

    def reap(most: int) -> None:
        while len(children) > most:
            child, status = os.wait()
            where = children.pop(child)
            if status:
                faults.append(f"{where}: {'hung' if status == signal.SIGALRM else status}")

    while reading.is_alive():
        try:
            where, go_on = steps.at.get(timeout=0.05)  # type: ignore[misc]
        except queue.Empty:
            continue
        children[forked(job)] = where
        forks += 1
        go_on.release()
        reap(AT_ONCE)
    reap(0)
    if failed:
        raise failed[0]
    return {"forks": forks, "faults": faults}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
