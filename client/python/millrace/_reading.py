"""One pass of one process over a torch dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from torch.utils import data as torch_data

from ._state import Place, State
from .batch import Batch, Sample
from .epoch import Epoch, Reader
from .errors import InvalidArgument, SampleError, StateError

if TYPE_CHECKING:
    from .torch import Dataset


@dataclass
class PassState:
    """What a dataset remembers of a pass of its own process. It does not keep the pass alive: that ends when its user drops it."""

    place: Place
    moves: int  # of the dataset when the pass began
    processes: int = 1  # among which Accelerate shares the samples out; 1: it does not


def threads_of_worker(workers: int) -> int:
    """Returns how many threads each of a loader's workers decodes with: the cores divided by the workers, from 1 to 2."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(2, cores // workers))


class Parcel(NamedTuple):
    """A batch on its way to this package's DataLoader, which counts it: an emptied one, or one with errors for a list of the main process."""

    value: Any
    emptied: bool
    failures: list[SampleError]


class Reading(Iterator[Any]):
    """The batches of a pass. It opens nothing before the first item is asked for, and counts the items it yields."""

    def __init__(self, dataset: Dataset, yielded: Optional[PassState], processes: int, worker: int = 0, step: int = 1) -> None:
        """yielded says where to begin. With None a worker finds the place when the first item is asked for."""
        self._dataset, self._yielded, self._processes, self._worker, self._step = dataset, yielded, processes, worker, step
        self._in_worker = torch_data.get_worker_info() is not None
        self._counted = self._is_counted()
        self._reader: Optional[Reader] = None
        self._items: list[Any] = []  # of the batch that was read last, the next one at the end
        self._pid = os.getpid()

    def _is_counted(self) -> bool:
        """Whether this package's DataLoader counts the items."""
        return self._dataset.places.counted

    def _epoch_at(self, place: Place) -> Epoch:
        return self._dataset.epoch_for(place)

    def _items_of(self, value: Any) -> list[Any]:
        """Returns the items of a batch, which became this value."""
        return [value]

    @property
    def place(self) -> Place:
        """The place of the next item."""
        return self._share_of(self._dataset.places.peek(self._worker)) if self._yielded is None else self._yielded.place

    def _share_of(self, place: Place) -> Place:
        return place if self._worker == 0 else Place(place.epoch, place.batch + self._worker)

    def _open(self) -> tuple[PassState, Reader]:
        places = self._dataset.places
        if self._yielded is None:
            self._yielded = PassState(self._share_of(places.claim(self._worker)), 0, self._processes)
        if self._reader is None:
            first = self._yielded.place
            self._reader = self._epoch_at(first).read(first.batch, step=self._step)
            if self._in_worker:
                if not self._counted:
                    self._reader.epoch.steps.warn_of_copies()
                self._reader.count_elsewhere(partial(places.in_queues, first.batch, self._step))
        return self._yielded, self._reader

    def __next__(self) -> Any:
        if self._pid != os.getpid():
            raise InvalidArgument("read the next batch: an iterator belongs to the process that made it; make another one")
        yielded, reader = self._open()
        while not self._items:  # a share may be empty
            self._take(yielded, reader)
        if not self._in_worker:
            self._dataset.places.begin(yielded.place, yielded.moves)
        item, (epoch, batch, sample) = self._items.pop(), yielded.place
        yielded.place = Place(epoch, batch, sample + 1) if self._items else Place(epoch, batch + self._step)
        if isinstance(item, (Batch, Sample)) and self._in_worker:
            raise InvalidArgument(
                "read the next batch: what batch_transform returns goes to another process, where a Batch cannot go",
                cure="return what the trainer needs of it: columns (their views are copied), or bytes(batch.data)",
            )
        return item

    def _take(self, yielded: PassState, reader: Reader) -> None:
        """Takes a batch from the reader."""
        try:
            batch = reader.advance() if self._counted else next(reader)
        except StopIteration:
            if not self._in_worker and yielded.moves == self._dataset.places.moves:
                self._dataset.go_to(Place(yielded.place.epoch + 1))
            raise
        epoch, number, sample = yielded.place
        done = sample if batch.number == number else 0
        told = batch.failures if self._counted and self._in_worker and reader.epoch.steps.collects else []
        value = Parcel(batch.value, batch.emptied, told) if batch.emptied or told else batch.value
        self._items = self._items_of(value)[done:][::-1]
        yielded.place = Place(epoch, batch.number, done)

    def state_dict(self) -> dict[str, Any]:
        """What torchdata's StatefulDataLoader saves of each worker, after each batch that it hands out."""
        state = self._dataset.state_at(self.place, self._processes)
        return {**state, "worker": self._worker, "workers": self._step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where this worker's predecessor was. Its number among as many workers is the same."""
        place = self._dataset.accept(state)
        if (state.get("worker"), state.get("workers")) != (self._worker, self._step):
            raise StateError(
                f"load state of worker {state.get('worker')} of {state.get('workers')} into worker {self._worker} of {self._step}",
                cure="StatefulDataLoader resumes on as many workers; millrace.torch.DataLoader on any number",
            )
        if self._in_worker and self._worker == self._dataset.ranks()[0] == 0:  # else the dataset has told it
            State.parse(state).tell_age(self._dataset.present)
        self._reader, self._items = None, []
        if self._yielded is None:
            self._yielded = PassState(self._dataset.places.claim(self._worker, place), 0, self._processes)
        self._yielded.place = place


class SampleReading(Reading):
    """The samples of a pass, one by one."""

    def _is_counted(self) -> bool:
        return False

    def _epoch_at(self, place: Place) -> Epoch:
        return self._dataset.epoch_of_samples(place.epoch, self._processes)

    def _items_of(self, value: Any) -> list[Any]:
        return list(value)
