"""The position of the next pass over a torch dataset, shared by a process and the workers of its loaders."""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass, fields
from typing import Any, Optional

import torch

from .._job import Place
from .._pool import Stats
from ..errors import StateError

_EPOCH, _POSITION, _BEGUN, _WORKERS, _HANDED, _PASSES = range(6)
NO_WORKERS, IN_ORDER, IN_TURN = range(3)
"""How workers of another loader read: not at all, every item the next batch of the epoch, or parts of several batches in turn."""
_LEFT = 3  # cells per pass: its name and its start
_KEPT = 64  # number of remembered passes of workers, far more than start at the same time
_STATS = len(fields(Stats))  # cells per worker, at the end
_PATIENCE = 60.0
_START = Place(0)


@dataclass
class Count:
    """The progress of a pass. It does not reference the pass, which ends when its user drops it."""

    place: Place = _START  # the next position
    moves: int = 0  # value of the dataset's counter when the pass began
    request: Optional[Place] = None  # position of the batch that is being yielded; None before a worker has begun
    given: int = 0  # items of this batch that were yielded
    within: bool = False  # whether the pass is within a share of several ranks, after place
    processes: int = 1  # number of processes among which Accelerate distributes samples; 1: it does not
    ahead: bool = False  # whether Accelerate reads ahead
    size: int = 1  # samples of a batch, for a loader of this module, which counts batches
    total: int = 0  # batches of the epoch, for such a loader
    waited: float = 0.0  # seconds that the trainer waited for batches, for such a loader
    failed: bool = False

    @property
    def batch(self) -> int:
        """The number of the next batch."""
        return self.place.position // self.size

    def take(self) -> None:
        """Counts a batch that is yielded."""
        self.place = Place(self.place.epoch, (self.batch + 1) * self.size)


class Places:
    """The position of a dataset, in memory shared with its workers.

    A pass has begun when its first batch has arrived; from then on the next pass is of the next epoch. Loaders other than this package's do
    not announce a pass. Worker 0 therefore advances the dataset when it starts a pass, and stores the start of that pass for the other
    workers.
    """

    def __init__(self) -> None:
        self._cells = torch.zeros(_PASSES + (_LEFT + _STATS) * _KEPT, dtype=torch.int64).share_memory_()
        self._cells[_HANDED] = -1
        self._pid = os.getpid()
        self._passes = 0  # number of passes that this worker has started
        self.moves = 0
        """Number of changes of the position in this process, so that a pass can detect whether it is still current."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._cells.is_shared():  # this is a copy, and not the object for a worker
            self._cells.share_memory_()
            self._pid = os.getpid()

    @property
    def last(self) -> Place:
        """The position of the latest pass; before the first pass, its start."""
        return Place(*self._cells[:_BEGUN].tolist())

    @property
    def next(self) -> Place:
        """The start of the next pass."""
        return Place(self.last.epoch + 1) if self.begun else self.last

    @property
    def begun(self) -> bool:
        """Whether a pass has begun at the last position."""
        return bool(self._cells[_BEGUN])

    def own(self) -> None:
        """Creates separate cells in a forked process.

        Call it before reading cells in order to change them, because the parent changes its own meanwhile.
        """
        if self._pid != os.getpid():
            self._cells, self._pid = self._cells.clone().share_memory_(), os.getpid()

    def go_to(self, place: Place) -> None:
        """Sets the start of the next pass."""
        self._note(_EPOCH, *place, 0, 0, -1)
        self.moves += 1

    def fix(self, epoch: int) -> None:
        """Sets the epoch of the next pass. A position in it is kept if no pass has begun there yet."""
        self.own()
        if epoch != self.last.epoch:
            self.go_to(Place(epoch))
        elif self.begun:
            self._note(_POSITION, 0, 0, 0, -1)
        self._note(_WORKERS, 0)

    def begin(self, place: Place, moves: int) -> None:
        """Records that a batch of a pass of this process has arrived."""
        if moves == self.moves and not self.begun:
            self._note(_EPOCH, *place, 1)

    def hand_out(self, batch: int) -> None:
        """Publishes to the workers which batch their loader yields next."""
        self._note(_HANDED, batch)

    @property
    def counted(self) -> bool:
        """Whether the loader of the pass is this package's, which counts batches by number."""
        return int(self._cells[_HANDED]) >= 0

    def in_queues(self, first: int, step: int, taken: int) -> int:
        """Returns the number of batches from a worker's reader that wait in the queues of their loader, if it is this package's."""
        next_out = int(self._cells[_HANDED])
        return 0 if next_out < 0 else taken - min(taken, max(0, -((first - next_out) // step)))

    @property
    def stats(self) -> Any:
        """A view of the cells with the statistics of this pass's readers: one row per worker."""
        return self._cells[-_STATS * _KEPT :].view(torch.float64).view(_KEPT, _STATS)

    def note_stats(self, worker: int, stats: Stats) -> None:
        """Stores the statistics of a worker's reader."""
        self.stats[worker % _KEPT] = torch.tensor([*vars(stats).values()], dtype=torch.float64)

    def _note(self, at: int, *values: int) -> None:
        self.own()
        self._cells[at : at + len(values)] = torch.tensor(values)

    # Methods for workers, which write to their parent's cells.

    @property
    def workers(self) -> int:
        """How workers of another loader read the latest pass, whose yielded batches only the loader knows."""
        return int(self._cells[_WORKERS])

    def peek(self, worker: int) -> Place:
        """Returns the start of the pass that this worker would begin now."""
        if self._told():
            return self.last
        name, at = self._pass(worker, self._passes + 1)
        return self._left(name, at) or self.next

    def claim(self, worker: int, way: int, given: Optional[Place] = None) -> Place:
        """Starts this worker's next pass, at the position in its loader's state if one is passed. Returns the start. way: see IN_ORDER."""
        self._passes += 1
        if self._told():
            return self.last
        name, at = self._pass(worker, self._passes)
        if worker == 0:
            place = given or self.next
            self._cells[:_HANDED] = torch.tensor([*place, 1, way])
            self._cells[at + 1 : at + _LEFT] = torch.tensor(place)
            self._cells[at] = name
            return place
        end = time.monotonic() + _PATIENCE
        while (found := given or self._left(name, at)) is None:
            if time.monotonic() > end:
                raise StateError(
                    f"begin a pass in worker {worker}: worker 0 has not begun it in {_PATIENCE:.0f} s",
                    cure="read with millrace.torch.DataLoader, or begin passes of other loaders one after another",
                )
            time.sleep(0.001)
        return found

    def _told(self) -> bool:
        """Whether the loader has announced the start of the pass.

        Also true if the loader cannot be followed, as in a process that only received the dataset.
        """
        parent = multiprocessing.parent_process()
        return self.counted or parent is None or parent.pid != self._pid

    def _pass(self, worker: int, count: int) -> tuple[int, int]:
        """Returns the name of a pass, which all its workers can compute, and the cell with its start.

        A process numbers its children, and a loader creates the workers of a pass consecutively.
        """
        first: int = multiprocessing.current_process()._identity[-1] - worker
        return (first << 32) + count, _PASSES + _LEFT * ((31 * first + count) % _KEPT)

    def _left(self, name: int, at: int) -> Optional[Place]:
        found, *place = self._cells[at : at + _LEFT].tolist()
        return Place(*place) if found == name else None
