"""Datasets and a loader for PyTorch. Importing this module imports torch; nothing else of the package does.

    dataset = millrace.torch.Dataset("http://gateway:8080", "photos", batch_size=256, decode={"jpg": to_tensor, "cls": int})
    for batch in millrace.torch.DataLoader(dataset, num_workers=4):
        images, labels = batch["jpg"], batch["cls"]

The unit is the batch: the gateway has put it together, so a loader is not to batch again. batch_size counts the samples of a
global batch, all ranks together; each rank gets its share of every one, and its workers take turns with the batches.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, Callable, Optional, Union

from ._agree import ASK, agree, refuse
from ._ranks import find_ranks
from .batch import Batch, Decoder, Sample
from .client import Client, client_of
from .epoch import DECODED_BYTES, PREFETCH_BYTES, THREADS, Epoch, Reader
from .errors import Closed, InvalidArgument, ProtocolError, StateError

try:
    import torch
    from torch.utils import data as torch_data
except ImportError as e:
    raise ImportError("millrace.torch needs torch, which is not installed: pip install 'millrace-data[torch]'") from e

__all__ = ["DataLoader", "Dataset", "MapDataset", "StateError", "collate_columns"]

Columns = dict[str, Any]
Place = tuple[int, int]  # epoch, and the number of its batch that comes next

PREFETCH_FACTOR = 2  # torch's own default
_STATE = 1  # what state_dict returns is of this form


@dataclass(frozen=True)
class _Build:
    """Makes of a batch what the dataset yields, in the reader's threads."""

    keys: bool
    collate: Optional[Callable[[list[Columns]], Any]]
    transform: Optional[Callable[[Batch], Any]]

    def __call__(self, batch: Batch) -> Any:
        value = self._build(batch)
        if not isinstance(value, (Batch, Sample)):
            batch.forget_decoded()  # else a batch that waits holds all of it twice
        return value

    def _build(self, batch: Batch) -> Any:
        if self.transform is not None:
            return self.transform(batch)
        if self.collate is not None:
            return self.collate([_plain(s, self.keys) for s in batch])
        return collate_columns(batch, keys=self.keys)


def _plain(sample: Sample, keys: bool) -> Columns:
    """A sample as a dict that outlives its batch: what no decoder has made is bytes."""
    out: Columns = {name: _own(sample[name]) for name in sample}
    if keys:
        out["__key__"] = sample.key
    return out


def _own(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def collate_columns(batch: Batch, *, keys: bool = False) -> Columns:
    """Makes a dict of columns of a batch: tensors where values stack, lists otherwise.

    Tensors, NumPy arrays and numbers are stacked as torch's default_collate does it, everything else is a list; a part without a
    decoder is a list of bytes. With keys the names of the samples are added as "__key__". A rank's share of the last batch of an
    epoch may be empty, and has no columns then: `tail="drop"` and `tail="pad"` have no such shares.
    """
    out: Columns = {}
    names = list(batch[0]) if len(batch) else []
    for sample in batch:
        if len(sample) != len(names) or any(name not in sample.parts for name in names):
            raise InvalidArgument(
                f"collate batch {batch.number} of epoch {batch.epoch}: one sample has the parts {', '.join(names)}, another one "
                f"{', '.join(sample)}: name the parts that all have with fields, or give collate or transform"
            )
    for name in names:
        column = batch[name]
        out[name] = column if isinstance(column, torch.Tensor) else _stack(name, [_own(v) for v in column], batch)
    if keys:
        out["__key__"] = list(batch.keys)
    return out


def _stack_as_they_come(n: int, values: Iterator[Any]) -> Any:
    """Stacks tensors while they are decoded, and lets go of each: a thread needs memory for one sample beside the batch's.

    Returns a list where values are no tensors, or differ: _stack then says how.
    """
    first = next(values, None)
    if type(first) is not torch.Tensor or first.requires_grad or first.layout is not torch.strided or first.device.type != "cpu":
        return [first, *values] if n else []
    out = torch.empty((n, *first.shape), dtype=first.dtype)
    if torch_data.get_worker_info() is not None:
        out.share_memory_()  # where it has to be when it goes to the main process
    out[0] = first
    for i, value in enumerate(values, 1):
        if type(value) is not torch.Tensor or value.shape != first.shape or value.dtype is not first.dtype:
            return [*out[:i], value, *values]
        out[i] = value
    return out


def _stack(name: str, values: list[Any], batch: Batch) -> Any:
    first = values[0]
    if not (isinstance(first, (torch.Tensor, int, float)) or type(first).__module__ == "numpy"):
        return values
    try:
        return torch_data.default_collate(values)
    except (RuntimeError, TypeError) as e:
        raise InvalidArgument(
            f"stack part {name} of batch {batch.number} of epoch {batch.epoch}: {e}: "
            "have the decoder make equal shapes, or give collate or transform"
        ) from e


class Dataset(torch_data.IterableDataset):  # type: ignore[misc,type-arg,unused-ignore]
    """The batches of one epoch for this rank, in order. Iterating yields a dict of columns per batch: see collate_columns.

    source         a Client; a directory or `s3://bucket/prefix`, read without a server (millrace.open); or the URL of a gateway or several
    rank, world_size  found if left out: torch.distributed's, else the environment's (torchrun, mpirun, srun), else one process
    epoch          the first epoch; set_epoch changes it
    decode         what parts are turned into, such as {"jpg": to_tensor, "cls": int}: run by the reader's threads
    collate        function of a list of samples, each a dict from part to value; what it returns is yielded instead
    transform      function of a Batch, for what collate cannot do, such as reporting losses; what it returns is yielded instead
    keys           yield the samples' names too
    plan           the other parameters of Client.epoch that say what is read: seed, shuffle, window, tail, subset, fields, ...

    The gateway is asked at once for the dataset's generation, which then holds for all epochs, workers and resumed runs. All processes
    of torch.distributed take the same one, if it is initialized by then; generation gives another. Use it
    with DataLoader of this module, with torch's (batch_size=None) or with torchdata's StatefulDataLoader (batch_size=None).
    Workers may be forked or spawned; in spawned ones decode, collate and transform must be importable.
    """

    def __init__(
        self,
        source: Union[Client, str, os.PathLike[str], Sequence[str]],
        dataset: Optional[str] = None,
        *,
        batch_size: Optional[int] = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        epoch: int = 0,
        decode: Optional[Mapping[str, Decoder]] = None,
        collate: Optional[Callable[[list[Columns]], Any]] = None,
        transform: Optional[Callable[[Batch], Any]] = None,
        keys: bool = False,
        threads: int = THREADS,
        prefetch_bytes: int = PREFETCH_BYTES,
        decoded_bytes: int = DECODED_BYTES,
        generation: Optional[str] = None,
        **plan: Any,
    ) -> None:
        super().__init__()
        if (rank is None) != (world_size is None):
            raise InvalidArgument("new dataset: rank and world_size belong together: give both or none")
        if collate is not None and transform is not None:
            raise InvalidArgument("new dataset: of collate and transform only one can make what is yielded")
        self.client = client_of(source)
        self._ranks = None if rank is None or world_size is None else (rank, world_size)
        self._ranks_of_parent: Optional[tuple[int, int]] = None
        about = self.client.describe(dataset)
        self.generation, self._alone = _settle(about, generation)
        self._options: dict[str, Any] = {
            **plan, "dataset": str(about["name"]), "batch_size": batch_size, "keys": keys, "decode": decode,
            "transform": _Build(keys, collate, transform), "threads": threads, "prefetch_bytes": prefetch_bytes, "decoded_bytes": decoded_bytes,
            "progress": False,
        }
        self.prefetch_factor = PREFETCH_FACTOR
        """How many batches each process decodes ahead; those in the queues of this module's DataLoader count."""
        self._gather = _stack_as_they_come if collate is None and transform is None else None
        self._expected: dict[str, Any] = {}  # of a loaded state
        self._open: Optional[tuple[tuple[int, int, int, str], Epoch]] = None
        # Shared memory, so that workers that outlive an epoch see which one is next: epoch, batch, whether workers read, and
        # the batch that a DataLoader of this module hands out next, -1 for other loaders.
        self._place = torch.tensor([0, 0, 0, -1]).share_memory_()
        self._pid = os.getpid()
        self.moves = 0  # how often the place was changed, so that a pass can tell whether it is still the current one
        self._reading: Optional[weakref.ref[_Reading]] = None
        self.set_epoch(epoch)

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker has no torch.distributed to ask.
        return {**self.__dict__, "_reading": None, "_ranks_of_parent": self.ranks()}

    # Where things stand.

    @property
    def place(self) -> Place:
        """Where the next pass begins: the epoch's number and the batch's."""
        epoch, batch, *_ = self._place.tolist()
        return epoch, batch

    def ranks(self) -> tuple[int, int]:
        """Returns rank and world size."""
        if self._ranks is not None:
            return self._ranks
        if self._ranks_of_parent is not None and torch_data.get_worker_info() is not None:
            return self._ranks_of_parent
        return find_ranks()

    def epoch(self, number: Optional[int] = None) -> Epoch:
        """Returns the core's Epoch that batches are read from: the current one, or another."""
        rank, world_size = self.ranks()
        if self._alone is not None:
            refuse(self._alone, rank, world_size, _AGREE)
        want = (self.place[0] if number is None else number, rank, world_size, self.generation)
        if self._open is None or self._open[0] != want:
            epoch = self.client.epoch(want[0], rank=rank, world_size=world_size, generation=self.generation, **self._options)
            self._check(epoch)
            self._open = (want, epoch)
        self._open[1].prefetch_factor = self.prefetch_factor
        self._open[1].gather = self._gather
        return self._open[1]

    def _check(self, epoch: Epoch) -> None:
        found = _identity(epoch)
        for name, value in self._expected.items():
            if found[name] != value:
                raise StateError(f"load state: {name} is {found[name]!r}, and was {value!r} when the state was saved")

    def __len__(self) -> int:
        """How many batches an epoch has: the same for every rank."""
        return len(self.epoch())

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that is read next, from its beginning; the current one stays where it is. To be called between passes."""
        if epoch < 0:
            raise InvalidArgument(f"set epoch {epoch}: want 0 or more")
        if epoch != self.place[0]:
            self.go_to((epoch, 0))
        self._note(2, 0, -1)

    def go_to(self, place: Place) -> None:
        """Has the next pass begin there."""
        self._note(0, *place, 0, -1)
        self.moves += 1
        self._reading = None

    def hand_out(self, batch: int) -> None:
        """Tells the workers which batch their loader hands out next."""
        self._note(3, batch)

    def _note(self, at: int, *values: int) -> None:
        if self._pid != os.getpid():  # a forked process leaves its parent's place alone
            self._place, self._pid = self._place.clone().share_memory_(), os.getpid()
        self._place[at : at + len(values)] = torch.tensor(values)

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint needs to go on after the batches that were yielded in this process.

        It holds no rank, world size or number of workers. With workers only the loader knows what it has yielded: ask it.
        """
        if torch_data.get_worker_info() is not None:
            return {}  # the iterator's own state says it all
        if int(self._place[2]):
            raise StateError(
                "save state: workers read this dataset, and only their loader knows what it has yielded",
                cure="call state_dict of the loader, millrace.torch.DataLoader or torchdata's StatefulDataLoader",
            )
        reading = self._reading() if self._reading is not None else None
        return self.state_at(reading.place if reading is not None else self.place)

    def state_at(self, place: Place) -> dict[str, Any]:
        """Returns the state of whoever is to go on at a place."""
        return {"state": _STATE, "epoch": place[0], "batch": place[1], **_identity(self.epoch(place[0]))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where state was saved, on any number of ranks and workers. Its generation is taken on.

        Raises StateError if the state is not one of this dataset, batch size and order: at once, the gateway is asked.
        """
        if torch_data.get_worker_info() is not None or not state:
            return
        before = self._expected, self.generation, self._alone, self._open
        try:
            place = self.accept(state)
            self.epoch(place[0])
        except BaseException:
            self._expected, self.generation, self._alone, self._open = before
            raise
        self.go_to(place)

    def accept(self, state: Mapping[str, Any]) -> Place:
        """Takes on the generation of a state, and returns its place."""
        try:
            if state["state"] != _STATE:
                raise StateError(f"load state: its form is {state['state']!r}, want {_STATE}")
            epoch, batch = int(state["epoch"]), int(state["batch"])
            expected = {name: state[name] for name in ("dataset", "generation", "batch_size", "order_digest")}
        except (KeyError, TypeError, ValueError) as e:
            raise StateError(f"load state: not a state of this class: {type(e).__name__}: {e}") from None
        if epoch < 0 or batch < 0:
            raise StateError(f"load state: epoch {epoch}, batch {batch}: want 0 or more")
        self._expected, self.generation, self._alone, self._open = expected, str(expected["generation"]), None, None
        return epoch, batch

    def __iter__(self) -> Iterator[Any]:
        worker = torch_data.get_worker_info()
        place = self.place
        if worker is None:
            reading = _Reading(self, place[0], place[1], 1, 0)
            self._reading = weakref.ref(reading)
            return reading
        self._place[2] = 1
        # What cannot be pickled would keep the loader waiting for ever: views travel as copies.
        ForkingPickler.register(memoryview, _view_as_bytes)
        return _Reading(self, place[0], place[1] + worker.id, worker.num_workers, worker.id)


_AGREE = f"call torch.distributed.init_process_group before the dataset is made, or {ASK}"


def _settle(about: Mapping[str, Any], given: Optional[str]) -> tuple[str, Optional[Mapping[str, Any]]]:
    """Returns the generation to read, and what the gateway said of the dataset if other ranks may have another one."""
    if given is not None:
        return given, None
    present = str(about["generation"])
    in_worker = torch_data.get_worker_info() is not None  # a forked one would share the store's connection with its parent
    agreed = None if in_worker else agree(str(about["name"]), present)
    if agreed is not None:
        return agreed, None
    return present, about if about.get("follows") is True else None


def _view_as_bytes(view: memoryview) -> tuple[type[memoryview], tuple[bytes]]:
    return memoryview, (bytes(view),)


def _identity(epoch: Epoch) -> dict[str, Any]:
    p = epoch.plan
    return {"dataset": p.dataset, "generation": p.generation, "batch_size": p.batch_size, "order_digest": p.order_digest}


def _in_queues(place: torch.Tensor, first: int, step: int, taken: int) -> int:
    """How many of the batches that a worker's reader has given wait in the queues of their loader, if it is one of this module."""
    next_out = int(place[3])
    return 0 if next_out < 0 else taken - min(taken, max(0, -((first - next_out) // step)))


class _Reading(Iterator[Any]):
    """One pass of one process over its batches. It opens nothing before it is asked for one, and counts what it has yielded."""

    def __init__(self, dataset: Dataset, epoch: int, batch: int, step: int, worker: int) -> None:
        self._dataset, self._epoch, self._next, self._step, self._worker = dataset, epoch, batch, step, worker
        self._reader: Optional[Reader] = None
        self._pid = os.getpid()

    @property
    def place(self) -> Place:
        return self._epoch, self._next

    def __next__(self) -> Any:
        if self._reader is None:
            self._reader = self._dataset.epoch(self._epoch).read(self._next, step=self._step)
            if torch_data.get_worker_info() is not None:
                self._reader.count_elsewhere(partial(_in_queues, self._dataset._place, self._next, self._step))
        if self._pid != os.getpid():
            raise InvalidArgument("read the next batch: an iterator belongs to the process that made it; make another one")
        batch = next(self._reader)
        self._next = batch.number + self._step
        if isinstance(batch.value, (Batch, Sample)) and torch_data.get_worker_info() is not None:
            raise InvalidArgument(
                "read the next batch: what transform returns goes to another process, where a Batch cannot go",
                cure="return what the trainer needs of it: columns (their views are copied), or bytes(batch.data)",
            )
        return batch.value

    def state_dict(self) -> dict[str, Any]:
        """What torchdata's StatefulDataLoader saves of each worker, after each batch that it hands out."""
        return {**self._dataset.state_at(self.place), "worker": self._worker, "workers": self._step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where this worker's predecessor was. Its number among as many workers is the same."""
        epoch, batch = self._dataset.accept(state)
        if (state.get("worker"), state.get("workers")) != (self._worker, self._step):
            raise StateError(
                f"load state of worker {state.get('worker')} of {state.get('workers')} into worker {self._worker} of {self._step}",
                cure="StatefulDataLoader resumes on as many workers; millrace.torch.DataLoader on any number",
            )
        self._reader, self._epoch, self._next = None, epoch, batch


_NOT_HERE = {  # what torch's loader takes and this one cannot do
    "batch_size": "say batch_size to the Dataset: it counts the samples of all ranks together",
    "shuffle": "the order is the Dataset's: its shuffle is 'slot' if nothing else is said",
    "drop_last": "say tail='drop' to the Dataset",
}


class DataLoader(torch_data.DataLoader):  # type: ignore[misc,type-arg,unused-ignore]
    """torch's DataLoader for a Dataset of this module, with state_dict and load_state_dict that count what it has yielded.

    Batches come in the order of the epoch whatever the number of workers. After the last one the next epoch follows by itself;
    a pass that was left begins anew. prefetch_factor is how many batches each process decodes ahead, the main one without workers.
    The other options are torch's, less what makes batches.
    """

    def __init__(self, dataset: Dataset, *, num_workers: int = 0, prefetch_factor: int = PREFETCH_FACTOR, **options: Any) -> None:
        for name, cure in _NOT_HERE.items():
            if options.get(name):
                raise InvalidArgument(f"new loader: {name} is not the loader's to say, since batches come as the gateway made them", cure=cure)
        if prefetch_factor < 1:
            raise InvalidArgument(f"new loader: prefetch_factor {prefetch_factor}: want 1 or more")
        dataset.prefetch_factor = prefetch_factor
        if num_workers:
            options["prefetch_factor"] = prefetch_factor
        options.setdefault("collate_fn", _as_it_is)
        super().__init__(dataset, batch_size=None, num_workers=num_workers, **options)
        # Where Lightning calls set_epoch. torch refuses to have it changed, and uses it to repeat None.
        self.__dict__["sampler"] = _EpochSampler(dataset)
        self._batches = dataset
        self._count: Optional[_Count] = None

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override,unused-ignore]
        dataset = self._batches
        if self._current() is not None:
            dataset.go_to((dataset.place[0], 0))
        if self._count is not None and self._count.failed:
            self._iterator = None  # persistent workers, which have ended
        # Opened here, so that what is wrong is said here, and forked workers need not ask.
        self._count = _Count(dataset.place, dataset.moves, len(dataset))
        dataset.hand_out(dataset.place[1])
        return _Pass(dataset, super().__iter__(), self._count)

    def _current(self) -> Optional[_Count]:
        """The pass that is under way, or was left."""
        c = self._count
        return c if c is not None and c.moves == self._batches.moves else None

    def set_epoch(self, epoch: int) -> None:
        """Calls set_epoch of the dataset."""
        self._batches.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint needs to go on after the last batch that was yielded, on any number of ranks and workers."""
        current = self._current()
        return self._batches.state_at(self._batches.place if current is None else current.place)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where state was saved: see Dataset.load_state_dict. Takes effect at the next iter()."""
        self._batches.load_state_dict(state)


@dataclass
class _Count:
    """What a loader remembers of a pass. The pass itself is its reader's: workers end when that lets go of it."""

    place: Place
    moves: int  # of the dataset when the pass began
    total: int
    failed: bool = False


class _Pass(Iterator[Any]):
    """One pass of a loader, counted where its batches are handed out."""

    def __init__(self, dataset: Dataset, batches: Iterator[Any], count: _Count) -> None:
        self._dataset, self._batches, self._count = dataset, batches, count

    def __next__(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            self._end()
            raise
        except BaseException:
            self._shut_down()
            raise
        epoch, number = self._count.place
        self._count.place = epoch, number + 1
        if self._count.moves == self._dataset.moves:
            self._dataset.hand_out(number + 1)
        return batch

    def __len__(self) -> int:
        return max(0, self._count.total - self._count.place[1])

    def _shut_down(self) -> None:
        """Ends the workers. Left to the garbage collector, which the frames of an exception delay, it takes torch 5 s each."""
        failed, self._batches = self._batches, iter(())
        self._count.failed = True
        end = getattr(failed, "_shutdown_workers", None)
        if end is not None:
            end()

    def _end(self) -> None:
        epoch, batch = self._count.place
        if self._count.failed:
            raise Closed(f"epoch {epoch}: the pass has ended at batch {batch}, with the exception before", cure="begin another pass: iter(loader)")
        if batch < self._count.total:
            raise ProtocolError(f"epoch {epoch}: the workers have ended after batch {batch} of {self._count.total}")
        if self._count.moves == self._dataset.moves:
            self._dataset.go_to((epoch + 1, 0))


class _EpochSampler(torch_data.Sampler):  # type: ignore[misc,type-arg,unused-ignore]
    """Stands where torch has a sampler that repeats None: the batches are the dataset's. It only passes epochs on."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None

    def set_epoch(self, epoch: int) -> None:
        self._dataset.set_epoch(epoch)


def _as_it_is(batch: Any) -> Any:
    return batch


class MapDataset(torch_data.Dataset):  # type: ignore[misc,type-arg,unused-ignore]
    """Samples by number, for torch's samplers. Slower than Dataset: every sample is a request of its own.

    Sample i is the one at position i of an epoch's order; in the default, shuffle="none", that is the order in which they are
    stored, the same forever. A sample is a dict from part to value, bytes where there is no decoder, or what transform makes of it.
    """

    def __init__(
        self,
        source: Union[Client, str, os.PathLike[str], Sequence[str]],
        dataset: Optional[str] = None,
        *,
        epoch: int = 0,
        shuffle: str = "none",
        decode: Optional[Mapping[str, Decoder]] = None,
        transform: Optional[Callable[[Sample], Any]] = None,
        keys: bool = False,
        threads: int = 16,
        generation: Optional[str] = None,
        **plan: Any,
    ) -> None:
        """Opens the order. threads are those that __getitems__ reads with, which torch 2 calls for a batch of numbers."""
        if threads < 1:
            raise InvalidArgument(f"threads {threads}: want 1 or more")
        self.client = client_of(source)
        generation, alone = _settle(self.client.describe(dataset), generation)
        if alone is not None:
            refuse(alone, *find_ranks(), _AGREE)
        self._epoch = self.client.epoch(
            epoch, dataset=dataset, batch_size=1, shuffle=shuffle, decode=decode, keys=keys, progress=False, generation=generation, **plan
        )
        self._keys, self._transform, self._threads = keys, transform, threads

    def __len__(self) -> int:
        return self._epoch.plan.samples

    def __getitem__(self, position: int) -> Any:
        count = len(self)
        at = position + count if position < 0 else position
        if not 0 <= at < count:
            raise IndexError(f"sample {position} of {count}")
        sample = self._epoch.batch(at)[0]
        return _plain(sample, self._keys) if self._transform is None else self._transform(sample)

    def __getitems__(self, positions: Sequence[int]) -> list[Any]:
        """Reads several samples side by side."""
        if len(positions) < 2:
            return [self[i] for i in positions]
        with ThreadPoolExecutor(min(self._threads, len(positions)), "millrace-map") as pool:
            return list(pool.map(self.__getitem__, positions))
