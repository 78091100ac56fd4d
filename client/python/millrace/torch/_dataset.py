"""Datasets for torch: the batches of consecutive epochs, for loaders of this package and others."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from torch.utils import data as torch_data

from .._job import AGREE, Place, Plan, State, brief, find_ranks, refuse, send_checked, settle, warn_of_uneven_shares
from .._parameters import NOT_FOR_LOADERS, Decode, EpochOptions, checked, flat
from ..batch import Batch, Sample
from ..client import ClientOwner, Origin
from ..epoch import Epoch, Ledger, Reader
from ..errors import InvalidArgument, SampleError, StateError
from ._columns import AUTOMATIC, Parcel, allow_read_only, build, collate_columns, columns_alone, gives_views, stack_as_they_come, without_rows
from ._places import IN_ORDER, IN_TURN, NO_WORKERS, Count, Places

if TYPE_CHECKING:
    from typing_extensions import Unpack

PREFETCH_FACTOR = 2  # torch's own default
_LOG = logging.getLogger("millrace")
_UNSAID = {"dataset", "decode"}


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
                   Importance. keys=True also yields the samples' names, and totals=True what weights a loss

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
        collate, batch_transform = given.get("collate"), given.get("batch_transform")
        if collate is not None and batch_transform is not None:
            raise InvalidArgument("new dataset: of collate and batch_transform only one can make what is yielded")
        one_by_one = collate is not None or given.get("transform") is not None
        columns = partial(collate_columns if one_by_one else columns_alone, keys=given.get("keys", False))
        make = batch_transform or (columns if collate is None else attrgetter("value"))
        totals = given.pop("totals", False)
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
            "collate": collate, "batch_transform": partial(build, make=make, totals=totals),
        }  # fmt: skip
        self._options.pop("generation", None)
        self.prefetch_factor = PREFETCH_FACTOR
        """Number of batches that each process decodes ahead, including those in the queues of this module's DataLoader."""
        self._makes_batches = "collate" if collate is not None else "batch_transform" if batch_transform is not None else ""
        self._cut = without_rows if batch_transform is None else None
        self._gather = stack_as_they_come if not one_by_one and batch_transform is None else None
        # the latest loaded state, which every later order must match
        self._loaded: Optional[State] = None
        self._open: dict[tuple[int, int, int, str], Epoch] = {}
        self.places = Places()
        self.ledger: Optional[Ledger] = None
        """Set by millrace.torch.DataLoader, whose workers then find the positions of samples that they leave out."""
        self._yielded: Optional[Count] = None  # progress of the latest pass, if this process or a DataLoader of this module counts it
        self._resumed: Optional[tuple[Place, int]] = None  # start of the next pass of a worker, and the samples of its first batch to leave out
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
    def place(self) -> Place:
        """The start of the next pass: the number of the epoch, and the first position in it."""
        return self.places.next

    def ranks(self) -> tuple[int, int]:
        """Returns rank and world size."""
        if self.ranks_given is not None:
            return self.ranks_given
        if self._ranks_of_parent is not None and torch_data.get_worker_info() is not None:
            return self._ranks_of_parent
        return find_ranks()

    def epoch(self, number: Optional[int] = None) -> Epoch:
        """Returns the Epoch from which this rank's batches are read: the current one, or another."""
        return self._of(self.place.epoch if number is None else number, *self.ranks())

    def _of(self, number: int, rank: int, world_size: int) -> Epoch:
        if self._alone is not None:
            refuse(self._alone, *self.ranks(), AGREE)
        want = number, rank, world_size, self.generation
        if want not in self._open:
            epoch = self.client._epoch(number, rank=rank, world_size=world_size, generation=self.generation, **self._options)
            if self._loaded:
                self._loaded.check(epoch.plan, epoch.core)
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
        samples = next((epoch.plan.delivered for (number, *_), epoch in self._open.items() if left and number == left.epoch), 0)
        if places.begun and left and left.position < samples and not self._left and self.ranks()[0] == 0:
            self._left = True
            _LOG.warning(
                "%s: epoch %d was left at position %d of %d, and this pass reads epoch %d: set_epoch(%d) begins epoch %d again (logged once)",
                self._options["dataset"], left.epoch, left.position, samples, begins.epoch, left.epoch, left.epoch,
            )  # fmt: skip
        self.go_to(begins)

    def count(self) -> Count:
        """Starts a pass that a DataLoader of this module counts. For this package's own modules."""
        self.leave()
        place = self.places.next
        plan = self.epoch(place.epoch).plan
        self._yielded = Count(place, self.places.moves, size=plan.batch_size, total=plan.batches)
        return self._yielded

    def _reached(self) -> Optional[Place]:
        """Returns the next position of the last pass, or None if it is not known."""
        return self._yielded.place if self._yielded is not None and not self.places.workers else None

    def state_dict(self, batches: Optional[int] = None) -> dict[str, Any]:
        """Returns the state for a checkpoint after the yielded items, for all loaders and readers of this package.

        If workers of a loader of another library read, only that loader knows which items it has yielded. Then batches is the number of
        batches that it has yielded in its latest pass over dataset.batches().
        """
        if self._yielded is not None and self._yielded.ahead:
            raise StateError(
                "save state: Accelerate reads a batch ahead, and only it knows what it has yielded",
                cure="read with millrace.torch.DataLoader, or resume by accelerate.skip_first_batches, as Trainer does",
            )
        return self.state(batches)

    def state(self, batches: Optional[int] = None) -> dict[str, Any]:
        """Returns the state for a loader that counts its own batches. For this package's own modules."""
        if torch_data.get_worker_info() is not None:
            return self._state_of_worker()
        count, way, place = self._yielded, self.places.workers, self.places.next
        if way == IN_TURN or (way == IN_ORDER and batches is None):
            raise StateError(
                "save state: workers read this dataset, and only their loader knows what it has yielded",
                cure="call state_dict of a millrace.torch.DataLoader; or, without filter= and on_error=, have another loader read "
                "dataset.batches(), and call dataset.state_dict(batches=...) with the number of them",
            )
        if way == IN_ORDER and batches is not None:
            if batches < 0:
                raise InvalidArgument(f"save state: batches is {batches}, want 0 or more")
            start, size = self.places.last, self.epoch(self.places.last.epoch).plan.batch_size
            place = Place(start.epoch, (start.position // size + batches) * size) if batches else start
        elif way == NO_WORKERS and count is not None:
            place = self._place_of(count)
        return State.of(place, self.epoch(place.epoch).plan).to_dict()

    def _refuse_shared(self, count: Count) -> None:
        if count.processes > 1:
            raise StateError(
                f"save state: Accelerate shares samples out among {count.processes} processes, and reads ahead; only it knows what it has yielded",
                cure="resume by accelerate.skip_first_batches, or give dispatch_batches=False to Accelerate",
            )

    def _place_of(self, count: Count) -> Place:
        self._refuse_shared(count)
        if count.within:
            rank, ranks = self.ranks()
            raise StateError(
                f"save state: rank {rank} of {ranks} is within its share of a batch",
                cure="save where a batch ends: a loader's batch_size that divides batch_size_per_rank ends there; or read with "
                "millrace.torch.DataLoader",
            )
        return count.place

    def _state_of_worker(self) -> dict[str, Any]:
        """Returns the state of this worker, which torchdata's StatefulDataLoader saves, and loads into the same worker of as many."""
        if (count := self._yielded) is None:
            return {}
        self._refuse_shared(count)
        place = count.request or self._share_of(self.places.peek(_worker().id))
        plan = self.epoch(place.epoch).plan
        return {**State(brief(plan.generation), plan.digest_at(*place), *place).to_dict(), "yielded": count.given, "ranks": plan.world_size}

    def _share_of(self, place: Place) -> Place:
        """Returns the first position that this worker reads of a pass from a place."""
        worker, size = _worker().id, self.epoch(place.epoch).plan.batch_size
        return Place(place.epoch, (place.position // size + worker) * size) if worker else place

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes where any loader or reader has saved state, on any number of ranks and workers, in the state's generation.

        Raises StateError immediately if the state is of another order, and GenerationGone if it belongs to other data. The data may have
        another name, or be on another gateway.
        """
        if torch_data.get_worker_info() is not None:
            self._load_in_worker(dict(state))
            return
        before = self._loaded, self.generation, self._alone, self._open
        try:
            self._accept(loaded := State.parse(state))
            place = loaded.resume(self.present, lambda: self.epoch(loaded.epoch).plan, self.client.core)
            self.generation = self.epoch(loaded.epoch).generation
        except BaseException:
            self._loaded, self.generation, self._alone, self._open = before
            raise
        self.go_to(place)

    def _accept(self, loaded: State) -> None:
        # a state has only a digest of a mixture's generations
        generation = self.generation if brief(self.generation) == loaded.generation else loaded.generation
        self._loaded, self.generation, self._alone, self._open = loaded, generation, None, {}

    def _load_in_worker(self, state: dict[str, Any]) -> None:
        if not state:
            return
        yielded, ranks = state.pop("yielded", 0), state.pop("ranks", 0)
        self._accept(loaded := State.parse(state))
        rank, world_size = self.ranks()
        if yielded and ranks != world_size:
            raise StateError(f"load state: its loader was within a share of {ranks} ranks, not {world_size}", cure="resume it on as many ranks")
        if rank == _worker().id == 0:
            loaded.tell_age(self.present)
        self._resumed = Place(loaded.epoch, loaded.position), yielded

    def collect(self, error: SampleError) -> None:
        """Adds a worker's error to the list of on_error. For this package's own modules."""
        self._options["on_error"](error)

    def __iter__(self) -> Iterator[Any]:
        return self.begin()

    def begin(self, *, samples: bool = False, processes: int = 1, ahead: bool = False) -> Pass:
        """Starts a pass of this process, or of this worker for its share. For this package's own modules."""
        if torch_data.get_worker_info() is not None:
            # An object that cannot be pickled would block the loader forever: views are sent as copies.
            ForkingPickler.register(memoryview, _view_as_bytes)
            request, given = self._resumed or (None, 0)
            self._yielded, self._resumed = Count(request=request, given=given, processes=processes), None
            return Pass(self, self._yielded, samples, _worker().id, _worker().num_workers)
        self.places.own()
        if self.places.begun:
            self.leave()
        place = self.places.next
        count = Count(place, self.places.moves, request=place, processes=processes, ahead=ahead)
        if not self.places.counted:
            self._yielded = count
        return Pass(self, count, samples)

    def claim(self, samples: bool, given: Optional[Place]) -> Place:
        """Starts a pass of this worker, at its part of the loader's state if one is given. For this package's own modules."""
        omits = self.omits and self.ranks()[1] == 1  # some batches are then skipped
        place = self.places.claim(_worker().id, IN_TURN if samples or omits or given else IN_ORDER, given)
        return given or self._share_of(place)

    @property
    def omits(self) -> bool:
        """Whether filter or on_error may leave samples out."""
        return self._options.get("filter") is not None or self._options.get("on_error", "raise") != "raise"


send_checked(Dataset, "_options")


def _worker() -> Any:
    """Returns the number of this process's worker and of all workers of its loader."""
    return torch_data.get_worker_info()


def _threads_of_worker(workers: int) -> int:
    """Returns the number of decoding threads per worker of a loader: the cores divided by the workers, from 1 to 2."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(2, cores // workers))


def _view_as_bytes(view: memoryview) -> tuple[type[memoryview], tuple[bytes]]:
    return memoryview, (bytes(view),)


class Pass(Iterator[Any]):
    """One pass of one process over a dataset. It opens nothing before the first item is requested, and counts the yielded items."""

    def __init__(self, dataset: Dataset, count: Count, samples: bool, worker: int = 0, step: int = 1) -> None:
        """Items are batches or samples, of every step-th batch. count has the start, unless a worker determines it at the first item."""
        self._dataset, self._count, self._samples, self._worker, self._step = dataset, count, samples, worker, step
        self._in_worker = torch_data.get_worker_info() is not None
        self._counted = dataset.places.counted and not samples  # counted by this package's DataLoader
        self._reader: Optional[Reader] = None
        # items of the last batch with the place after each, in reverse order
        self._items: list[tuple[Any, Optional[Place]]] = []
        self._pid = os.getpid()

    def _open(self) -> Reader:
        count, dataset = self._count, self._dataset
        if self._reader is None:
            if self._in_worker:
                count.request = dataset.claim(self._samples, count.request)
            first: Any = count.request
            epoch = dataset.epoch_of_samples(first.epoch, count.processes) if self._samples else dataset.epoch(first.epoch)
            start, skip = divmod(first.position, epoch.plan.batch_size)
            self._reader = epoch.read(start, step=self._step, skip=skip)
            if self._in_worker:
                if not self._counted:
                    self._reader.epoch.steps.warn_of_copies()
                self._reader.count_elsewhere(partial(dataset.places.in_queues, start, self._step))
        return self._reader

    def __next__(self) -> Any:
        if self._pid != os.getpid():
            raise InvalidArgument("read the next batch: an iterator belongs to the process that made it; make another one")
        reader, count = self._open(), self._count
        while not self._items:  # a share may be empty
            self._take(reader)
        if not self._in_worker and count.request:
            self._dataset.places.begin(count.request, count.moves)
        item, place = self._items.pop()
        count.place, count.within = place or count.place, place is None
        count.given += 1
        if not self._items:
            count.request, count.given = self._after, 0
        if isinstance(item, (Batch, Sample)) and self._in_worker:
            raise InvalidArgument(
                "read the next batch: what batch_transform returns goes to another process, where a Batch cannot go",
                cure="return what the trainer needs of it: columns (their views are copied), or bytes(batch.data)",
            )
        return item

    def _take(self, reader: Reader) -> None:
        count, plan = self._count, reader.epoch.plan
        try:
            batch = reader.advance() if self._counted else next(reader)
        except StopIteration:
            if not self._in_worker and count.moves == self._dataset.places.moves:
                self._dataset.go_to(Place(plan.epoch + 1))
            raise
        if self._counted:
            self._dataset.places.note_stats(self._worker, reader.stats)
        told = batch.failures if self._counted and self._in_worker and reader.epoch.steps.collects else []
        omitted = batch.omitted if self._counted and self._dataset.ledger is not None else ()
        value = Parcel(batch.value, batch.emptied, told, omitted) if batch.emptied or told or any(omitted) else batch.value
        self._lay_out(batch, list(value) if self._samples else [value], plan)

    def _lay_out(self, batch: Batch, values: list[Any], plan: Plan) -> None:
        """Sets the items of a batch, without those that a worker had yielded before its loader resumed."""
        count, begin = self._count, batch.number * plan.batch_size
        if count.request is None or count.request.position < begin:
            count.request, count.given = Place(plan.epoch, begin), 0
        alone, end = plan.world_size == 1, Place(plan.epoch, begin + plan.batch_size)
        # samples that were left out belong to the one before; ranks leave out different numbers, and micro-batches change the order
        known = alone and plan.parameters.get("micro", "1") == "1"
        inside = [Place(plan.epoch, count.request.position + at) if known else None for at in batch._kept[1 : len(values)]]
        last = None if self._samples and self._dataset.omits and not alone else end
        self._items = list(zip(values, [*inside, last]))[count.given :][::-1]
        self._after = Place(plan.epoch, begin + self._step * plan.batch_size)


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
        return self.dataset.begin(ahead=loader_of(self) is not None)

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
        return self.dataset.state()

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
        processes = self._processes_of_parent or self._processes()
        if self.dataset.omits and processes == 1 < self.dataset.ranks()[1]:
            warnings.warn(
                "filter= and on_error= leave out other numbers of samples on each rank, so their loaders of samples() differ in length: ranks that "
                "wait for each other at every step, as DDP's do, read with millrace.torch.DataLoader",
                stacklevel=2,
            )
        return self.dataset.begin(samples=True, processes=processes, ahead=loader_of(self) is not None)

    def __len__(self) -> int:
        """Number of samples for this rank in an epoch; of all ranks if Accelerate distributes them.

        Raises TypeError if it depends on the samples' costs or homes.
        """
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
    """Returns the number of samples for a rank in an epoch. Raises TypeError if shares depend on the samples' costs or homes."""
    if plan.world_size == 1:
        return plan.batches * plan.batch_size if plan.parameters.get("tail") == "pad" else plan.delivered
    first, last = plan.share(0), plan.share(plan.batches - 1)
    if first is None or last is None:
        raise TypeError("with balance or by='locality' the number of samples of a rank is not known; len(dataset) is that of its batches")
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
