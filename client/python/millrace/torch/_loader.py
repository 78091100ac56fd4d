"""The loader of millrace.torch: torch's own, with a state that counts the yielded batches."""

from __future__ import annotations

import inspect
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing import connection
from typing import Any, Optional

from torch.utils import data as torch_data

from .._job import Place
from .._parameters import INSTEAD, checked
from .._pool import Stats
from ..epoch import Ledger
from ..errors import Closed, InvalidArgument, ProtocolError
from ._columns import Parcel
from ._dataset import PREFETCH_FACTOR, Dataset
from ._places import Count

_END = 0.5  # seconds within which a killed worker must exit

# options of torch's loader that this one does not support, with the value that has no effect
_NOT_HERE = {
    "batch_size": (None, "give global_batch_size= or batch_size_per_rank= to the Dataset"),
    "drop_last": (False, "give share=millrace.Share(tail='drop') to the Dataset"),
    **dict.fromkeys(("sampler", "batch_sampler"), (None, INSTEAD["sampler"])),
    "in_order": (True, "leave it out: a state counts the batches in the order of the epoch"),
}


class DataLoader(torch_data.DataLoader):  # type: ignore[misc,type-arg,unused-ignore]
    """torch's DataLoader for a Dataset of this module, with state_dict and load_state_dict that count the yielded batches.

    Batches are in the order of the epoch for any number of workers. The next pass reads the next epoch, whether this one was finished or
    not; set_epoch selects another. prefetch_factor is the number of batches that each process decodes ahead, including the main one without
    workers. The other options are torch's, except those that form batches.
    """

    # The ranks already share batches. Accelerate's prepare must therefore leave this loader unchanged, and its checkpoints must contain the
    # loader's state.
    _is_accelerate_prepared = True
    use_stateful_dataloader = True

    @checked(passed=inspect.signature(torch_data.DataLoader).parameters)
    def __init__(
        self,
        dataset: Dataset,
        *,
        num_workers: int = 0,
        prefetch_factor: int = PREFETCH_FACTOR,
        shuffle: Optional[bool] = None,
        ledger: Optional[Ledger] = None,
        **options: Any,
    ) -> None:
        """shuffle=False reads the dataset in stored order; True and None read it in its own order. ledger records the yielded batches.
        options are torch's.
        """
        given: object = dataset
        if not isinstance(given, Dataset):
            cure = "write DataLoader(millrace.torch.Dataset(source, global_batch_size=...)), and give a MapDataset to torch's own DataLoader"
            raise InvalidArgument(f"new loader: {dataset!r} is no millrace.torch.Dataset", cure=cure)
        for name, (usual, cure) in _NOT_HERE.items():
            if options.pop(name, usual) not in (usual, None):
                raise InvalidArgument(f"new loader: {name} is not the loader's to say, since batches come as the gateway made them", cure=cure)
        if shuffle is not None:
            dataset.take_shuffle(shuffle)
        dataset.prefetch_factor, dataset.ledger = prefetch_factor, ledger
        if num_workers:
            options["prefetch_factor"] = prefetch_factor
        options["collate_fn"] = partial(_collate, options.get("collate_fn"))
        super().__init__(dataset.batches(), batch_size=None, num_workers=num_workers, **options)
        self._batches = dataset
        self._count = Count()

    def __repr__(self) -> str:
        return f"<DataLoader of {self._batches!r}, num_workers={self.num_workers}>"

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override,unused-ignore]
        dataset = self._batches
        dataset.leave()
        if self._count.failed:
            self._iterator = None  # persistent workers that have exited
        # opened here to report errors early, and so that forked workers need no request
        self._count = dataset.count()
        dataset.places.hand_out(self._count.batch)
        dataset.places.stats.zero_()
        return _CountedPass(dataset, super().__iter__(), self._count)

    @property
    def stats(self) -> Stats:
        """The reader's counters of the latest pass, summed over the workers; waiting_seconds is the trainer's wait for batches."""
        sums = zip(vars(Stats()).items(), self._batches.places.stats.sum(0).tolist())
        stats = Stats(**{name: type(zero)(value) for (name, zero), value in sums})
        stats.waiting_seconds = self._count.waited
        return stats

    def set_epoch(self, epoch: int) -> None:
        """Calls set_epoch of the dataset."""
        self._batches.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint after the last yielded batch, for all loaders and readers of this package."""
        return self._batches.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes where state was saved: see Dataset.load_state_dict. Takes effect at the next iter()."""
        self._batches.load_state_dict(state)


class _CountedPass(Iterator[Any]):
    """One pass of a loader, which counts its batches when it yields them."""

    def __init__(self, dataset: Dataset, batches: Iterator[Any], count: Count) -> None:
        self._dataset, self._batches, self._count = dataset, batches, count

    def __next__(self) -> Any:
        while isinstance(batch := self._next(), Parcel):
            for error in batch.failures:
                self._dataset.collect(error)
            if not batch.emptied:
                return batch.value
        return batch

    def _next(self) -> Any:
        begun = time.monotonic()
        try:
            batch = next(self._batches)
            self._count.waited += time.monotonic() - begun
        except StopIteration:
            self._end()
            raise
        except BaseException as e:
            try:
                # a connection error, not an error of a worker's function
                if isinstance(e, (OSError, EOFError)) and "in DataLoader worker" not in str(e):
                    self._report_killed()
            finally:
                self._shut_down()
            raise
        place = self._count.place
        self._count.take()
        places = self._dataset.places
        if self._count.moves == places.moves:
            places.begin(place, self._count.moves)
            if (ledger := self._dataset.ledger) is not None:
                ledger.add(self._dataset.epoch(place.epoch).plan, place.position, batch.omitted if isinstance(batch, Parcel) else ((), (), ()))
            places.hand_out(self._count.batch)
        return batch

    def _report_killed(self) -> None:
        """Reports the killed worker, like torch's SIGCHLD handler, which does not see children of a fork server."""
        workers = getattr(self._batches, "_workers", ())
        ended = connection.wait([worker.sentinel for worker in workers], _END)
        for worker in workers:
            if worker.sentinel in ended:
                worker.join()
                if worker.exitcode < 0:
                    raise RuntimeError(f"DataLoader worker (pid {worker.pid}) is killed by signal: {signal.strsignal(-worker.exitcode)}")

    def __len__(self) -> int:
        return max(0, self._count.total - self._count.batch)

    def _shut_down(self) -> None:
        """Ends the workers.

        The garbage collector would do so later, because the frames of an exception delay it, and torch would wait 5 s for each.
        """
        failed, self._batches = self._batches, iter(())
        self._count.failed = True
        end = getattr(failed, "_shutdown_workers", None)
        if end is not None:
            end()

    def _end(self) -> None:
        epoch, batch = self._count.place.epoch, self._count.batch
        if self._count.failed:
            raise Closed(f"epoch {epoch}: the pass has ended at batch {batch}, with the exception before", cure="begin another pass: iter(loader)")
        if batch < self._count.total:
            raise ProtocolError(f"epoch {epoch}: the workers have ended after batch {batch} of {self._count.total}")
        if self._count.moves == self._dataset.places.moves:
            self._dataset.go_to(Place(epoch + 1))


def _collate(collate_fn: Optional[Callable[[Any], Any]], batch: Any) -> Any:
    if collate_fn is None or isinstance(batch, Parcel):
        return batch if collate_fn is None or batch.emptied else batch._replace(value=collate_fn(batch.value))
    return collate_fn(batch)
