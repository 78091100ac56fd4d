"""Where the next pass over a torch dataset begins: shared by a process and the workers of its loaders."""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any, Optional

import torch

from .._job import Place
from ..errors import StateError

_EPOCH, _BATCH, _SAMPLE, _BEGUN, _WORKERS, _HANDED, _PASSES = range(7)
_LEFT = 4  # cells for a pass: its name and its place
_KEPT = 64  # passes of workers that are remembered: far more than are ever begun at the same time
_PATIENCE = 60.0


class Places:
    """The place of a dataset, in memory that its workers see.

    A pass has begun when its first batch has come, and from then on the next pass is of the next epoch. Loaders other than this
    package's tell nobody when they begin a pass; so worker 0 moves the dataset on when it begins one, and leaves the place of that
    pass for the other workers.
    """

    def __init__(self) -> None:
        self._cells = torch.zeros(_PASSES + _LEFT * _KEPT, dtype=torch.int64).share_memory_()
        self._cells[_HANDED] = -1
        self._pid = os.getpid()
        self._passes = 0  # that this worker has begun
        self.moves = 0
        """How often the place was changed in this process, so that a pass can tell whether it is still the current one."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._cells.is_shared():  # a copy, and not what a worker is given
            self._cells.share_memory_()
            self._pid = os.getpid()

    @property
    def last(self) -> Place:
        """Where the latest pass began; before the first, where it is to begin."""
        return Place(*self._cells[:_BEGUN].tolist())

    @property
    def next(self) -> Place:
        """Where the next pass begins."""
        return Place(self.last.epoch + 1) if self.begun else self.last

    @property
    def begun(self) -> bool:
        """Whether a pass has begun at the last place."""
        return bool(self._cells[_BEGUN])

    def own(self) -> None:
        """Gives a forked process cells of its own. Call it before reading cells to change them: the parent changes its own meanwhile."""
        if self._pid != os.getpid():
            self._cells, self._pid = self._cells.clone().share_memory_(), os.getpid()

    def go_to(self, place: Place) -> None:
        """Has the next pass begin there."""
        self._note(_EPOCH, *place, 0, 0, -1)
        self.moves += 1

    def fix(self, epoch: int) -> None:
        """Has the next pass be of this epoch. A place in it where no pass has begun yet stays."""
        self.own()
        if epoch != self.last.epoch:
            self.go_to(Place(epoch))
        elif self.begun:
            self._note(_BATCH, 0, 0, 0, 0, -1)
        self._note(_WORKERS, 0)

    def begin(self, place: Place, moves: int) -> None:
        """Notes that a batch has come of a pass of this process."""
        if moves == self.moves and not self.begun:
            self._note(_EPOCH, *place, 1)

    def hand_out(self, batch: int) -> None:
        """Tells the workers which batch their loader hands out next."""
        self._note(_HANDED, batch)

    @property
    def counted(self) -> bool:
        """Whether the loader that has begun a pass is this package's, which counts batches by their number."""
        return int(self._cells[_HANDED]) >= 0

    @property
    def handed_out(self) -> Place:
        """The place of the batch that the loader hands out next."""
        return Place(self.last.epoch, int(self._cells[_HANDED]))

    def in_queues(self, first: int, step: int, taken: int) -> int:
        """How many of the batches that a worker's reader has given wait in the queues of their loader, if it is this package's."""
        next_out = int(self._cells[_HANDED])
        return 0 if next_out < 0 else taken - min(taken, max(0, -((first - next_out) // step)))

    def _note(self, at: int, *values: int) -> None:
        self.own()
        self._cells[at : at + len(values)] = torch.tensor(values)

    # What workers do: they write to their parent's cells.

    @property
    def workers_read(self) -> bool:
        """Whether workers read the dataset, of which this process cannot know what was yielded."""
        return bool(self._cells[_WORKERS])

    def enter_worker(self) -> None:
        """Notes that workers read the dataset."""
        self._cells[_WORKERS] = 1

    def peek(self, worker: int) -> Place:
        """Returns where the pass begins that this worker would begin now."""
        if self._told():
            return self.last
        name, at = self._pass(worker, self._passes + 1)
        return self._left(name, at) or self.next

    def claim(self, worker: int, given: Optional[Place] = None) -> Place:
        """Begins this worker's next pass, at the place that its loader's state gave if there is one; returns where."""
        self._passes += 1
        if self._told():
            return self.last
        name, at = self._pass(worker, self._passes)
        if worker == 0:
            place = given or self.next
            self._cells[:_WORKERS] = torch.tensor([*place, 1])
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
        """Whether the loader has said where the pass begins, or cannot be followed: that of a process which only got the dataset."""
        parent = multiprocessing.parent_process()
        return self.counted or parent is None or parent.pid != self._pid

    def _pass(self, worker: int, count: int) -> tuple[int, int]:
        """The name of a pass, which all its workers know by themselves, and where its place is left for them.

        A process numbers its children, and a loader makes those of a pass one after another.
        """
        first: int = multiprocessing.current_process()._identity[-1] - worker
        return (first << 32) + count, _PASSES + _LEFT * ((31 * first + count) % _KEPT)

    def _left(self, name: int, at: int) -> Optional[Place]:
        found, *place = self._cells[at : at + _LEFT].tolist()
        return Place(*place) if found == name else None
