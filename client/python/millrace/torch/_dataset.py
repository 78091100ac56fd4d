"""Datasets for torch: the batches of consecutive epochs, for loaders of this package and others."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Optional

from torch.utils import data as torch_data

from .._job import AGREE, Place, State, find_ranks, refuse, send_checked, settle, warn_of_uneven_shares
from .._parameters import NOT_FOR_LOADERS, Decode, EpochOptions, checked, flat
from ..batch import Batch, Sample
from ..client import ClientOwner, Origin
from ..epoch import Epoch, Plan, Reader
from ..errors import InvalidArgument, SampleError, StateError
from ._columns import AUTOMATIC, allow_read_only, collate_columns, columns_alone, gives_views, stack_as_they_come, without_rows
from ._places import Places

if TYPE_CHECKING:
    from typing_extensions import Unpack

PREFETCH_FACTOR = 2  # torch's own default
_LOG = logging.getLogger("millrace")
_UNSAID = {"dataset", "decode"}


def _build(batch: Batch, *, make: Callable[[Batch], Any]) -> Any:
    """Converts a batch to the value that the dataset yields. It is the last step in the reader's threads."""
    value = make(batch)
    if not isinstance(value, (Batch, Sample)):
        batch.forget_decoded()  # otherwise a waiting batch would hold its data twice
    return value


class Dataset(ClientOwner):
    """The batches of one epoch for this rank, in order. Iterating yields a dict of columns per batch: see collate_columns.

    Read it with DataLoader of this module. For other loaders, two methods return torch IterableDatasets: dataset.samples() for loaders
    with a batch_size, which make their own batches, like Hugging Face's Trainer; dataset.batches() for DataLoader(..., batch_size=None).
    len(dataset) is the number of batches.

    source         a Client; a directory or `s3://bucket/prefix`, read without a server (millrace.open); or the URL of a gateway or several
    epoch          the first epoch; set_epoch changes it
    decode         decoders of parts, called by the reader's threads. True: see help(millrace.values), with images as uint8 tensors of bands x
                   height x width. A mapping, such as {"jpg": to_tensor, "cls": int}: these parts, the others stay bytes. False, None: none
    transform      function of a sample, as for Client.epoch; dicts and tuples that it returns become columns
    global_batch_size, batch_size_per_rank
                   samples of a batch: of all ranks together, or of each. Without both: the dataset's default, 256 unless its index has
                   another. A run that resumes on another number of ranks must pass the first
    seed, shuffle, fields, order
                   as for Client.epoch; shuffle=False is stored order
    share          millrace.Share; the default of rank and world_size is torch.distributed's, otherwise the environment's (torchrun, mpirun,
                   srun), otherwise one process
    reading        millrace.Reading. The result of collate or batch_transform is yielded: the first is a function of a list of samples, the
                   second of a Batch, for example to return the location for reporting losses: see collate_columns and the page
                   Importance. keys=True also yields the samples' names

    The dataset's generation is requested immediately, and then used for all epochs, workers and resumed runs. All processes of
    torch.distributed use the same one, if it is initialized by then; generation sets another. Workers may be forked or spawned; for
    spawned ones all these functions must be importable. A dataset of a directory or bucket keeps its gateway until it is closed or
    garbage-collected; it is also a context manager.
    """

    @checked(EpochOptions, unfit=NOT_FOR_LOADERS)
    def __init__(
        self, source: Origin, dataset: Optional[str] = None, *, epoch: int = 0, decode: Decode = True, **options: Unpack[EpochOptions],
    ) -> None:
        super().__init__()
        given = flat(options)
        rank, world_size, copy = given.pop("rank", None), given.pop("world_size", None), given.pop("copy", True)
        collate, batch_transform, keys = given.get("collate"), given.get("batch_transform"), given.get("keys", False)
        if collate is not None and batch_transform is not None:
            raise InvalidArgument("new dataset: of collate and batch_transform only one can make what is yielded")
        one_by_one = collate is not None or given.get("transform") is not None
        columns = partial(collate_columns if one_by_one else columns_alone, keys=keys)
        make = batch_transform or (columns if collate is None else attrgetter("value"))
        self._views = not copy
        self._writable = copy and gives_views(decode, given.get("filter"), given.get("transform"), collate, batch_transform)
        about = self._read_from(source, dataset)
        # None: the ranks are detected
        self.ranks_given = None if rank is None or world_size is None else (rank, world_size)
        self._ranks_of_parent: Optional[tuple[int, int]] = None
        self.generation, self._alone = settle(about, given.get("generation"))
        self.present = self.generation  # initial generation of a run; a state may have another one
        self._options: dict[str, Any] = {
            **given, "dataset": str(about["name"]), "decode": AUTOMATIC if decode is True else decode,
            "collate": collate, "batch_transform": partial(_build, make=make),
        }  # fmt: skip
        self._options.pop("generation", None)
        self.prefetch_factor = PREFETCH_FACTOR
        """Number of batches that each process decodes ahead, including those in the queues of this module's DataLoader."""
        self._makes_batches = "collate" if collate is not None else "batch_transform" if batch_transform is not None else ""
        self._cut = without_rows if batch_transform is None else None
        self._gather = stack_as_they_come if not one_by_one and batch_transform is None else None
        # the latest loaded state, which every later order must match
        self._loaded = State(Place(epoch), {})
        self._open: dict[tuple[int, int, int, str], Epoch] = {}
        self.places = Places()
        self._yielded: Optional[Count] = None  # progress of this process's latest pass
        self._left = False  # whether an unfinished pass was logged
        self.set_epoch(epoch)
        if self._alone is None:
            self.epoch()  # reports invalid parameters and uneven shares here

    def __repr__(self) -> str:
        said = [f", {name}={value!r}" for name, value in self._options.items() if name not in _UNSAID and isinstance(value, (int, str))]
        return f"<Dataset of {self.client!r}{''.join(said)}>"

    def __getitem__(self, which: object) -> NoReturn:
        raise InvalidArgument(
            "a Dataset has batches, in its order, and no samples by number",
            cure="read millrace.torch.DataLoader(dataset); other loaders take dataset.samples(); millrace.torch.MapDataset has samples by number",
        )

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker has no torch.distributed to ask.
        return {**self.__dict__, "_yielded": None, "_ranks_of_parent": self.ranks()}

    # Position and ranks.

    @property
    def place(self) -> tuple[int, int]:
        """The start of the next pass: the numbers of the epoch and batch."""
        return self.places.next[:2]

    def ranks(self) -> tuple[int, int]:
        """Returns rank and world size."""
        if self.ranks_given is not None:
            return self.ranks_given
        if self._ranks_of_parent is not None and torch_data.get_worker_info() is not None:
            return self._ranks_of_parent
        return find_ranks()

    def epoch(self, number: Optional[int] = None) -> Epoch:
        """Returns the Epoch from which this rank's batches are read: the current one, or another."""
        return self._of(self.place[0] if number is None else number, *self.ranks())

    def _of(self, number: int, rank: int, world_size: int) -> Epoch:
        if self._alone is not None:
            refuse(self._alone, *self.ranks(), AGREE)
        want = number, rank, world_size, self.generation
        if want not in self._open:
            epoch = self.client._epoch(number, rank=rank, world_size=world_size, generation=self.generation, **self._options)
            self._loaded.check(epoch.plan)
            worker = torch_data.get_worker_info()
            if rank == 0 and (worker is None or worker.id == 0):
                warn_of_uneven_shares(epoch.plan)
            self._open = {**dict(list(self._open.items())[-1:]), want: epoch}
        if self._views:
            allow_read_only()
        epoch, worker = self._open[want], torch_data.get_worker_info()
        threads = epoch.threads if worker is None or "threads" in self._options else _threads_of_worker(worker.num_workers)
        cut = self._cut if world_size > 1 else None
        return replace(epoch, threads=threads, prefetch_factor=self.prefetch_factor, gather=self._gather, cut=cut, writable=self._writable)

    def epoch_for(self, place: Place) -> Epoch:
        """Returns the Epoch for a pass over batches from a position. For this package's own modules."""
        place.refuse_samples()
        return self._of(place.epoch, *self.ranks())

    def epoch_of_samples(self, number: int, processes: int) -> Epoch:
        """Returns the Epoch whose values are lists of samples: all samples if Accelerate distributes them. For this package's own modules.
        """
        epoch = self._of(number, *((0, 1) if processes > 1 else self.ranks()))
        return replace(epoch, steps=replace(epoch.steps, collate=list, batch_transform=None), gather=None, cut=None)

    def __len__(self) -> int:
        """Number of batches in an epoch. The number of samples is len(dataset.samples())."""
        return self.epoch().plan.batches

    def batches(self) -> BatchDataset:
        """Returns the batches as a torch IterableDataset, for other loaders: DataLoader(dataset.batches(), batch_size=None)."""
        return BatchDataset(self)

    def samples(self) -> SampleDataset:
        """Returns the samples individually as a torch IterableDataset, for loaders with a batch_size and for libraries that use such
        loaders.

        A sample is the result of transform, or a dict of decoded parts without transform. len() is the number of samples for this rank. The
        returned dataset and this one share their position: each can load a state that the other saved.
        """
        if self._makes_batches:
            raise InvalidArgument(
                f"read samples: {self._makes_batches} makes batches of them", cure="give collate_fn to the loader of samples() instead",
            )  # fmt: skip
        return SampleDataset(self)

    @checked()
    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass, which is otherwise the one after the last pass. A position in it from a loaded state is kept."""
        if epoch != self.places.last.epoch:
            self._yielded = None
        self.places.fix(epoch)

    def take_shuffle(self, shuffle: bool) -> None:
        """Applies a loader's shuffle argument: False is stored order, True any other."""
        said = self._options.get("shuffle")
        if said is None and not shuffle:
            self._options["shuffle"], self._open = "none", {}
        elif said is not None and shuffle != (said not in (False, "none")):
            raise InvalidArgument(f"new loader: shuffle={shuffle}, and the dataset says shuffle={said!r}", cure="say it to one of them")

    def go_to(self, place: Place) -> None:
        """Sets the start of the next pass."""
        self.places.go_to(place)
        self._yielded = None

    def leave(self) -> None:
        """Starts a pass, of the next epoch if the current one has begun. Rank 0 logs the first unfinished pass.

        For this package's own modules.
        """
        places, left, begins = self.places, self._reached(), self.places.next
        batches = next((len(epoch) for (number, *_), epoch in self._open.items() if left and number == left.epoch), 0)
        if places.begun and left and left.batch < batches and not self._left and self.ranks()[0] == 0:
            self._left = True
            samples = f" and {left.sample} samples" if left.sample else ""
            _LOG.warning(
                "%s: epoch %d was left after %d of %d batches%s, and this pass reads epoch %d: set_epoch(%d) begins epoch %d again (logged once)",
                self._options["dataset"], left.epoch, left.batch, batches, samples, begins.epoch, left.epoch, left.epoch,
            )  # fmt: skip
        self.go_to(begins)

    def _reached(self) -> Optional[Place]:
        """Returns the next position of the last pass, or None if only its loader's workers know it."""
        if self.places.counted:
            return self.places.handed_out
        return self._yielded.place if self._yielded is not None and not self.places.workers_read else None

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint after the batches that were yielded in this process.

        It contains no rank, world size or number of workers. With workers only the loader knows the yielded batches: use the loader's
        state_dict.
        """
        if torch_data.get_worker_info() is not None:
            return {}  # the iterator's own state is sufficient
        if self.places.workers_read:
            raise StateError(
                "save state: workers read this dataset, and only their loader knows what it has yielded",
                cure="call state_dict of the loader, millrace.torch.DataLoader or torchdata's StatefulDataLoader",
            )
        if self._yielded is None:
            return self.state_at(self.places.next)
        return self.state_at(self._yielded.place, self._yielded.processes)

    def state_at(self, place: Place, processes: int = 1) -> dict[str, Any]:
        """Returns the state of a reader that resumes at a place."""
        if processes > 1:
            raise StateError(
                f"save state: Accelerate shares samples out among {processes} processes, and reads ahead; only it knows what it has yielded",
                cure="resume by accelerate.skip_first_batches, or give dispatch_batches=False to Accelerate",
            )
        return State.of(place, self.epoch(place.epoch).plan).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes where state was saved, on any number of ranks and workers, in the state's generation.

        Raises StateError immediately if the state has another batch size or order, and GenerationGone if it belongs to other data. The data
        may have another name, or be on another gateway.
        """
        if torch_data.get_worker_info() is not None:
            return
        before = self._loaded, self.generation, self._alone, self._open
        try:
            place = self.accept(state)
            self._loaded.hold(self._options["dataset"], lambda: self.epoch(place.epoch).plan)
        except BaseException:
            self._loaded, self.generation, self._alone, self._open = before
            raise
        if self.ranks()[0] == 0:
            self._loaded.tell_age(self.present)
        self.go_to(place)

    def accept(self, state: Mapping[str, Any]) -> Place:
        """Applies the generation of a state, and returns its position."""
        self._loaded = State.parse(state)
        self.generation, self._alone, self._open = self._loaded.generation, None, {}
        return self._loaded.place

    def collect(self, error: SampleError) -> None:
        """Adds a worker's error to the list of on_error. For this package's own modules."""
        self._options["on_error"](error)

    def __iter__(self) -> Iterator[Any]:
        return self.begin()

    def begin(self, *, samples: bool = False, processes: int = 1) -> Pass:
        """Starts a pass of this process, or of this worker for its share. For this package's own modules."""
        worker = torch_data.get_worker_info()
        if worker is None:
            self.places.own()
            if self.places.begun:
                self.leave()
            self._yielded = Count(self.places.next, self.places.moves, processes=processes)
            return Pass(self, self._yielded, samples, processes)
        self.places.enter_worker()
        # An object that cannot be pickled would block the loader forever: views are sent as copies.
        ForkingPickler.register(memoryview, _view_as_bytes)
        return Pass(self, None, samples, processes, worker.id, worker.num_workers)


send_checked(Dataset, "_options")


def _threads_of_worker(workers: int) -> int:
    """Returns the number of decoding threads per worker of a loader: the cores divided by the workers, from 1 to 2."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(2, cores // workers))


def _view_as_bytes(view: memoryview) -> tuple[type[memoryview], tuple[bytes]]:
    return memoryview, (bytes(view),)


@dataclass
class Count:
    """The progress of a pass. It does not reference the pass, which ends when its user drops it."""

    place: Place
    moves: int = 0  # value of the dataset's counter when the pass began
    total: int = 0  # batches of the epoch, for a loader
    waited: float = 0.0  # seconds that the trainer waited for batches, for a loader
    # number of processes among which Accelerate distributes samples; 1: it does not
    processes: int = 1
    failed: bool = False


class Parcel(NamedTuple):
    """A batch for this package's DataLoader, which counts it.

    It may have no remaining samples, or errors for a list of the main process.
    """

    value: Any
    emptied: bool
    failures: list[SampleError]


class Pass(Iterator[Any]):
    """One pass of one process over a dataset. It opens nothing before the first item is requested, and counts the yielded items."""

    def __init__(self, dataset: Dataset, yielded: Optional[Count], samples: bool, processes: int, worker: int = 0, step: int = 1) -> None:
        """Items are batches or samples. yielded has the start; None: a worker determines it when the first item is requested."""
        self._dataset, self._yielded, self._samples, self._processes = dataset, yielded, samples, processes
        self._worker, self._step = worker, step
        self._in_worker = torch_data.get_worker_info() is not None
        self._counted = dataset.places.counted and not samples  # counted by this package's DataLoader
        self._reader: Optional[Reader] = None
        self._items: list[Any] = []  # items of the last batch, in reverse order
        self._pid = os.getpid()

    @property
    def place(self) -> Place:
        """The position of the next item."""
        return self._share_of(self._dataset.places.peek(self._worker)) if self._yielded is None else self._yielded.place

    def _share_of(self, place: Place) -> Place:
        return place if self._worker == 0 else Place(place.epoch, place.batch + self._worker)

    def _open(self) -> tuple[Count, Reader]:
        places = self._dataset.places
        if self._yielded is None:
            self._yielded = Count(self._share_of(places.claim(self._worker)))
        if self._reader is None:
            first = self._yielded.place
            epoch = self._dataset.epoch_of_samples(first.epoch, self._processes) if self._samples else self._dataset.epoch_for(first)
            self._reader = epoch.read(first.batch, step=self._step)
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

    def _take(self, yielded: Count, reader: Reader) -> None:
        try:
            batch = reader.advance() if self._counted else next(reader)
        except StopIteration:
            if not self._in_worker and yielded.moves == self._dataset.places.moves:
                self._dataset.go_to(Place(yielded.place.epoch + 1))
            raise
        if self._counted:
            self._dataset.places.note_stats(self._worker, reader.stats)
        epoch, number, sample = yielded.place
        done = sample if batch.number == number else 0
        told = batch.failures if self._counted and self._in_worker and reader.epoch.steps.collects else []
        value = Parcel(batch.value, batch.emptied, told) if batch.emptied or told else batch.value
        self._items = (list(value) if self._samples else [value])[done:][::-1]
        yielded.place = Place(epoch, batch.number, done)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of this worker, which torchdata's StatefulDataLoader saves after each batch."""
        state = self._dataset.state_at(self.place, self._processes)
        return {**state, "worker": self._worker, "workers": self._step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes at the position of the same worker in an earlier run with the same number of workers."""
        place = self._dataset.accept(state)
        if (state.get("worker"), state.get("workers")) != (self._worker, self._step):
            raise StateError(
                f"load state of worker {state.get('worker')} of {state.get('workers')} into worker {self._worker} of {self._step}",
                cure="StatefulDataLoader resumes on as many workers; millrace.torch.DataLoader on any number",
            )
        # otherwise the dataset logs it
        if self._in_worker and self._worker == self._dataset.ranks()[0] == 0:
            State.parse(state).tell_age(self._dataset.present)
        self._reader, self._items = None, []
        if self._yielded is None:
            self._yielded = Count(self._dataset.places.claim(self._worker, place))
        self._yielded.place = place


class BatchDataset(torch_data.IterableDataset):  # type: ignore[misc,type-arg,unused-ignore]
    """The batches of a Dataset. Position and state are the Dataset's."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__()
        self.dataset = dataset
        """The Dataset that is read."""
        self._processes_of_parent = 0  # in a spawned worker: the number that its parent has detected

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.dataset!r}>"

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker cannot detect Accelerate, so its parent does.
        processes = self._processes() if get_spawning_popen() is not None else 1
        return {**self.__dict__, "_processes_of_parent": processes if processes > 1 else 0}

    def __iter__(self) -> Iterator[Any]:
        self._processes()
        return self.dataset.begin()

    def __getitem__(self, which: object) -> Any:
        return self.dataset[which]

    def __len__(self) -> int:
        return len(self.dataset)

    def set_epoch(self, epoch: int) -> None:
        """Calls set_epoch of the Dataset."""
        # Up to version 1.14, Accelerate's loader of skip_first_batches calls set_epoch(0) at the start of each pass, even in a later epoch.
        if epoch or not getattr(loader_of(self), "skip_batches", 0):
            self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the Dataset."""
        return self.dataset.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes the Dataset where the state was saved."""
        self.dataset.load_state_dict(state)

    def _processes(self) -> int:
        """Returns the number of processes among which Accelerate distributes items; 1 means that it does not distribute them."""
        if loader_of(self) is not None and (processes := processes_of_accelerate()) > 1:
            raise InvalidArgument(
                f"read batches: Accelerate would share the batches of one rank out among {processes} processes",
                cure="prepare millrace.torch.DataLoader(dataset), which has each rank read its own, or a loader of dataset.samples()",
            )
        return 1


class SampleDataset(BatchDataset):
    """The samples of a Dataset, individually. Position and state are the Dataset's.

    Accelerate, and Hugging Face's Trainer through it, distributes the samples of a prepared loader among its processes. Such a loader reads
    the samples of all ranks. Accelerate's own state tells the number of processes, and the loader being read.
    """

    def __iter__(self) -> Iterator[Any]:
        processes, options = self._processes_of_parent or self._processes(), self.dataset._options
        leaves_out = options.get("filter") is not None or options.get("on_error", "raise") != "raise"
        if leaves_out and processes == 1 < self.dataset.ranks()[1]:
            warnings.warn(
                "filter= and on_error= leave out other numbers of samples on each rank, so their loaders of samples() differ in length: ranks that "
                "wait for each other at every step, as DDP's do, read with millrace.torch.DataLoader",
                stacklevel=2,
            )
        return self.dataset.begin(samples=True, processes=processes)

    def __len__(self) -> int:
        """Number of samples for this rank in an epoch; of all ranks if Accelerate distributes them."""
        processes = 1 if self.dataset.ranks_given else processes_of_accelerate()
        return _share_of(self.dataset.epoch_of_samples(self.dataset.place[0], processes).plan)

    def _processes(self) -> int:
        processes = processes_of_accelerate()
        if processes == 1:
            return 1
        prepared, (rank, world_size) = loader_of(self) is not None, self.dataset.ranks()
        if not self.dataset.ranks_given:
            if not prepared:
                raise InvalidArgument(
                    f"read samples: Accelerate runs {processes} processes, and has not prepared this loader: each process would read all of them",
                    cure="give the loader of samples() to Accelerator.prepare, or share=millrace.Share(rank=..., world_size=...) to the dataset",
                )
            return processes
        if prepared and world_size > 1:
            raise InvalidArgument(
                f"read for rank {rank} of {world_size}: Accelerate shares samples out too, among {processes} processes",
                cure="leave out Share(rank=..., world_size=...), or read with millrace.torch.DataLoader and without Accelerate's prepare",
            )
        return 1


def _share_of(plan: Plan) -> int:
    """Returns the number of samples for a rank in an epoch; an estimate if shares depend on the samples' lengths or homes."""
    first, last = plan.share(0), plan.share(plan.batches - 1)
    if first is None or last is None:
        return -(-plan.delivered // plan.world_size)
    return len(first) * (plan.batches - 1) + len(last) if plan.batches else 0


def _state() -> Any:
    """Returns the module of Accelerate's state, or None without an Accelerator."""
    state: Any = sys.modules.get("accelerate.state")
    return state if state is not None and state.is_initialized() else None


def processes_of_accelerate() -> int:
    """Returns the number of Accelerate's processes; 1 without Accelerate."""
    state = _state()
    return int(state.PartialState().num_processes) if state else 1


def loader_of(dataset: Any) -> Optional[Any]:
    """Returns the loader, prepared by Accelerate, that is iterating over dataset, or over a part or chain of it."""
    if (state := _state()) is None:
        return None
    loaders = [loader for loader in state.GradientState().dataloader_references if loader is not None]
    return next((loader for loader in reversed(loaders) if _holds(loader.dataset, dataset)), None)


def _holds(read: Any, dataset: Any) -> bool:
    inner = [*getattr(read, "datasets", ()), *([read.dataset] if hasattr(read, "dataset") else [])]
    return read is dataset or any(_holds(one, dataset) for one in inner)
