"""Datasets and a loader for PyTorch. Importing this module imports torch; importing millrace does not.

    dataset = millrace.torch.Dataset("http://gateway:8080", "photos", global_batch_size=256, decode={"jpg": to_tensor, "cls": int})
    for batch in millrace.torch.DataLoader(dataset, num_workers=4):
        images, labels = batch["jpg"], batch["cls"]

The gateway puts batches together, and DataLoader of this module yields them. global_batch_size counts the samples of a batch, all
ranks together. Each rank gets its share of every batch, and its workers take turns with the batches. A loader of torch's that has a
batch_size makes its own batches: give it dataset.samples().
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from functools import partial
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from ._agree import AGREE, refuse, settle
from ._habits import NOT_FOR_LOADERS
from ._memory import LARGE, own
from ._parameters import Decode, EpochOptions, checked, flat
from ._ranks import advise_homes, find_ranks, warn_of_uneven_shares
from .batch import Batch, Sample
from .client import ClientOwner, Origin
from .epoch import Epoch
from .errors import InvalidArgument, SampleError, StateError

try:
    import torch
    from torch.utils import data as torch_data

    from ._loader import PREFETCH_FACTOR, DataLoader
    from ._map import MapDataset
    from ._places import Places
    from ._reading import PassState, Reading, threads_of_worker
    from ._samples import BatchDataset, SampleDataset
    from ._spawn import send_checked
    from ._state import Place, State
    from ._tensors import AUTOMATIC, allow_read_only, gives_views
except ImportError as e:
    raise ImportError("millrace.torch needs torch, which is not installed: pip install 'millrace-data[torch]'") from e

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["DataLoader", "Dataset", "MapDataset", "StateError", "collate_columns"]

_LOG = logging.getLogger("millrace")

Columns = dict[str, Any]
_UNSAID = {"dataset", "decode", "progress"}


def _build(batch: Batch, *, make: Callable[[Batch], Any]) -> Any:
    """Makes of a batch what the dataset yields, in the reader's threads: the last step there."""
    value = make(batch)
    if not isinstance(value, (Batch, Sample)):
        batch.forget_decoded()  # else a batch that waits holds all of it twice
    return value


def collate_columns(batch: Batch, *, keys: bool = False) -> Any:
    """Makes columns of a batch, as a Dataset without collate and batch_transform yields them: tensors where values stack, lists otherwise.

    Tensors, NumPy arrays and numbers are stacked as torch's default_collate does it, everything else is a list; a part without a
    decoder is a list of bytes. The columns are a dict, or what transform has returned decides: of dicts a dict, of tuples a tuple, else
    one column. With keys the names of the samples are added to the dict as "__key__".
    """
    if not issubclass(type(batch), Batch):
        cure = "loaders of others yield no Batch: say reading=millrace.Reading(batch_transform=millrace.torch.collate_columns)"
        raise InvalidArgument(f"collate columns: got {type(batch).__name__}, want a Batch", cure=cure)
    if batch.value is not None:
        columns = collate_samples(batch)
        if keys and not isinstance(columns, dict):
            raise InvalidArgument("keys=True names samples in dicts, and transform returns no dict", cure="have it return sample.key too")
        return {**columns, "__key__": list(batch.keys)} if keys else columns
    out: Columns = {}
    names = list(batch[0]) if len(batch) else []
    for sample in batch:
        if sample.keys() != set(names):
            one, other = (", ".join(map(repr, parts)) or "no parts" for parts in (names, sample))
            raise InvalidArgument(
                f"collate {batch.which(0)}: it has {one}, and {batch.which(sample.index)} has {other}",
                cure='name parts that all samples have with fields=, of folders of pictures one name for all (fields="jpg,cls"), or give transform',
            )
    for name in names:
        column, what = batch[name], f"part {name} of batch {batch.number} of epoch {batch.epoch}"
        out[name] = column if isinstance(column, torch.Tensor) else _stack(batch, what, [own(v) for v in column], name)
    if keys:
        out["__key__"] = list(batch.keys)
    return out


def _columns_alone(batch: Batch, *, keys: bool) -> Any:
    """Makes columns of a batch, and lets go of its bytes: a batch that waits for the trainer holds its columns alone."""
    columns = collate_columns(batch, keys=keys)
    batch.let_go()
    return columns


def _stack_as_they_come(take: Callable[[int], memoryview], n: int, values: Iterator[Any]) -> Any:
    """Stacks tensors while they are decoded, and lets go of each: a thread needs memory for one sample beside the batch's.

    Returns a list where values are no tensors, or differ: _stack then says how.
    """
    first = next(values, None)
    if type(first) is not torch.Tensor or first.requires_grad or first.layout is not torch.strided or first.device.type != "cpu":
        return [first, *values] if n else []
    shape = (n, *first.shape)
    size = n * first.nelement() * first.element_size()
    if torch_data.get_worker_info() is not None:  # to the main process in shared memory: share_memory_ would copy all of it, before anything has come
        out = torch.empty(0, dtype=first.dtype).set_(torch.UntypedStorage._new_shared(size), 0, shape)
    elif size < LARGE:
        out = torch.empty(shape, dtype=first.dtype)
    else:
        out = torch.frombuffer(take(size), dtype=first.dtype).view(shape)
    out[0] = first
    for i, value in enumerate(values, 1):
        if type(value) is not torch.Tensor or value.shape != first.shape or value.dtype is not first.dtype:
            return [*out[:i], value, *values]
        out[i] = value
    return out


def collate_samples(batch: Batch) -> Any:
    """Makes columns of what a transform has returned for each sample of a batch: of dicts a dict, of tuples a tuple, else one column."""
    values = batch.value
    first = values[0] if values else {}
    odd = next((i for i, value in enumerate(values) if _form(value) != _form(first)), None)
    if odd is not None:
        raise InvalidArgument(
            f"collate {batch.which(0)}: transform returned {_words(first)}, and of {batch.which(odd)} {_words(values[odd])}",
            cure="have it return the same names, or as many values, for all samples; or give collate",
        )
    if isinstance(first, Mapping):
        return {name: _stack(batch, f"{name!r} of transformed samples", [v[name] for v in values]) for name in first}
    if isinstance(first, tuple):
        return tuple(_stack(batch, f"element {i} of transformed samples", list(column)) for i, column in enumerate(zip(*values)))
    return _stack(batch, "transformed samples", values)


def _form(value: Any) -> Any:
    """What transformed samples of a batch have in common: the names of dicts, the length of tuples; None of other values."""
    return value.keys() if isinstance(value, Mapping) else len(value) if isinstance(value, tuple) else None


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(repr, value)) or 'nothing'}"
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"


def _cure_of_shapes(shapes: list[tuple[int, ...]], part: str) -> str:
    """Says how values become alike. part is empty where a transform made them."""
    if any(len(shape) != 3 for shape in shapes):
        return "make them alike in transform=, by cutting or padding; or give collate"
    if len({shape[1:] for shape in shapes}) == 1:
        return (
            "some pictures are gray or have alpha: have transform call image.expand(3, -1, -1) of a gray one and image[:3] of one with alpha, "
            "or a decoder convert('RGB')"
        )
    resize = f"torchvision.transforms.functional.resize(s[{part!r}], [224, 224])"
    alike = f"make them alike: transform=lambda s: {{**s, {part!r}: {resize}}}" if part else "have transform resize them"
    return f"{alike}; or give collate"


def _stack(batch: Batch, what: str, values: list[Any], part: str = "") -> Any:
    """Stacks tensors and numbers; other values stay a list. part is the part that they are decoded from."""
    first = next((value for value in values if value is not None), None)
    if not (isinstance(first, (torch.Tensor, int, float)) or type(first).__module__ == "numpy"):
        return values
    if nulls := sum(value is None for value in values):
        raise InvalidArgument(
            f"stack {what}: {nulls} of {len(values)} values are null, and a tensor has no place for them",
            cure="leave these samples out (reading=millrace.Reading(filter=lambda sample: sample[NAME] is not None)), or have transform put "
            "another value there",
        )
    at = {tuple(value.shape): i for i, value in reversed(list(enumerate(values))) if hasattr(value, "shape")}
    shapes = sorted(at, key=at.__getitem__)
    if len(shapes) > 1:
        raise InvalidArgument(
            f"stack {what}: the values have {len(shapes)} shapes, {shapes[0]} and {shapes[1]} among them, that of {batch.which(at[shapes[1]])}",
            cure=_cure_of_shapes(shapes, part),
        )
    try:
        return torch_data.default_collate(values)
    except (RuntimeError, TypeError) as e:
        raise InvalidArgument(f"stack {what}: {e}", cure="have the decoder or transform make values of one type, or give collate") from e


def _without_rows(value: Any) -> Any:
    """Returns columns of the same types without their rows. Values that are no columns stay."""
    if isinstance(value, MutableMapping):
        columns = copy.copy(value)
        columns.update({name: _without_rows(column) for name, column in value.items()})
        return columns
    if isinstance(value, tuple):
        cut = map(_without_rows, value)
        return type(value)(*cut) if hasattr(value, "_fields") else tuple(cut)
    if isinstance(value, list):  # a column, or columns that default_collate has made of tuples
        return [_without_rows(column) for column in value] if any(isinstance(column, torch.Tensor) for column in value) else []
    return value[:0] if getattr(value, "shape", ()) else value


class Dataset(ClientOwner):
    """The batches of one epoch for this rank, in order. Iterating yields a dict of columns per batch: see collate_columns.

    Read it with DataLoader of this module. Loaders of others take IterableDatasets of torch's: dataset.samples(), for those that have a
    batch_size and make batches by themselves, as Hugging Face's Trainer does; dataset.batches() for DataLoader(..., batch_size=None).
    len(dataset) is the number of batches.

    source         a Client; a directory or `s3://bucket/prefix`, read without a server (millrace.open); or the URL of a gateway or several
    epoch          the first epoch; set_epoch changes it
    decode         what parts are turned into, by the reader's threads. True: as help(millrace.decode) says, images uint8 tensors of bands x
                   height x width. A mapping, such as {"jpg": to_tensor, "cls": int}: these parts, the others stay bytes. False, None: none
    transform      function of a sample, as Client.epoch has it; dicts and tuples that it returns become columns
    global_batch_size, batch_size_per_rank
                   samples of a batch: of all ranks together, or of each. Without both: the dataset's default, 256 unless its index says
                   otherwise. A run that resumes on another number of ranks gives the first
    seed, shuffle, fields, order
                   as Client.epoch has them; shuffle=False is stored order
    share          millrace.Share; rank and world_size are found if left out: torch.distributed's, else the environment's (torchrun, mpirun,
                   srun), else one process
    reading        millrace.Reading. What collate or batch_transform returns is yielded: the first is a function of a list of samples, the
                   second of a Batch, for what collate cannot do, such as passing on the location under which losses are reported: see
                   collate_columns and the page Importance. keys=True yields the samples' names too

    The gateway is asked at once for the dataset's generation, which then holds for all epochs, workers and resumed runs. All processes
    of torch.distributed take the same one, if it is initialized by then; generation gives another. Workers may be forked
    or spawned; in spawned ones all these functions must be importable. A dataset that was made of a directory or a bucket holds its
    gateway until it is closed or collected as garbage: it is a context manager too.
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
        columns = partial(collate_columns if one_by_one else _columns_alone, keys=keys)
        make = batch_transform or (columns if collate is None else attrgetter("value"))
        self._views = not copy
        self._writable = copy and gives_views(decode, given.get("filter"), given.get("transform"), collate, batch_transform)
        about = self._read_from(source, dataset)
        self._ranks = None if rank is None or world_size is None else (rank, world_size)
        self._ranks_of_parent: Optional[tuple[int, int]] = None
        self.generation, self._alone = settle(about, given.get("generation"))
        self.present = self.generation
        """The generation that a run begins with; that of a state may be another one. For this package's own modules."""
        self._options: dict[str, Any] = {
            **given, "dataset": str(about["name"]), "decode": AUTOMATIC if decode is True else decode,
            "collate": collate, "batch_transform": partial(_build, make=make), "progress": False,
        }  # fmt: skip
        self._options.pop("generation", None)
        self.prefetch_factor = PREFETCH_FACTOR
        """How many batches each process decodes ahead; those in the queues of this module's DataLoader count."""
        self._makes_batches = "collate" if collate is not None else "batch_transform" if batch_transform is not None else ""
        self._cut = _without_rows if batch_transform is None else None
        self._gather = _stack_as_they_come if not one_by_one and batch_transform is None else None
        self._loaded = State(Place(epoch), {})  # holds all orders to what the latest loaded state says
        self._open: dict[tuple[int, int, int, str], Epoch] = {}
        self.places = Places()
        """For this package's own modules."""
        self._yielded: Optional[PassState] = None  # by the pass of this process that was begun last
        self._left = False  # whether it was logged that a pass was left before its end
        self.set_epoch(epoch)
        if self._alone is None:
            self.epoch()  # so that what cannot be read is refused here, and uneven shares are told

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

    # Where things stand.

    @property
    def place(self) -> tuple[int, int]:
        """Where the next pass begins: the epoch's number and the batch's."""
        return self.places.next[:2]

    @property
    def ranks_given(self) -> bool:
        """Whether rank and world_size were said, rather than found."""
        return self._ranks is not None

    def ranks(self) -> tuple[int, int]:
        """Returns rank and world size."""
        if self._ranks is not None:
            return self._ranks
        if self._ranks_of_parent is not None and torch_data.get_worker_info() is not None:
            return self._ranks_of_parent
        return find_ranks()

    def epoch(self, number: Optional[int] = None) -> Epoch:
        """Returns the core's Epoch that this rank's batches are read from: the current one, or another."""
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
                advise_homes(self.client.core, epoch.plan)
            self._open = {**dict(list(self._open.items())[-1:]), want: epoch}
        if self._views:
            allow_read_only()
        epoch, worker = self._open[want], torch_data.get_worker_info()
        if worker is not None and "threads" not in self._options:
            epoch.threads = threads_of_worker(worker.num_workers)
        epoch.prefetch_factor, epoch.gather, epoch.writable = self.prefetch_factor, self._gather, self._writable
        epoch.cut = self._cut if epoch.plan.world_size > 1 else None
        return epoch

    def epoch_for(self, place: Place) -> Epoch:
        """Returns the Epoch that a pass over batches reads from a place. For this package's own modules."""
        place.refuse_samples()
        return self._of(place.epoch, *self.ranks())

    def epoch_of_samples(self, number: int, processes: int) -> Epoch:
        """Returns the Epoch whose values are lists of samples: all of them, where Accelerate shares them out. For this package's own modules."""
        epoch = copy.copy(self._of(number, *((0, 1) if processes > 1 else self.ranks())))
        epoch.steps, epoch.gather, epoch.cut = replace(epoch.steps, collate=list, batch_transform=None), None, None
        return epoch

    def __len__(self) -> int:
        """How many batches an epoch has. An epoch of samples() has len(dataset.samples())."""
        return self.epoch().plan.batches

    def batches(self) -> BatchDataset:
        """Returns the batches as an IterableDataset of torch's, for loaders of others: DataLoader(dataset.batches(), batch_size=None)."""
        return BatchDataset(self)

    def samples(self) -> SampleDataset:
        """Returns the samples one by one as an IterableDataset of torch's: for loaders that have a batch_size, and what is built on them.

        A sample is what transform returns, else a dict of decoded parts. len() is how many of them this rank gets. The dataset and what
        it returns here have one place: a state that one of them saved is loaded by the other.
        """
        if self._makes_batches:
            raise InvalidArgument(
                f"read samples: {self._makes_batches} makes batches of them", cure="give collate_fn to the loader of samples() instead",
            )  # fmt: skip
        return SampleDataset(self)

    @checked()
    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass, which would else be that after the last pass. A place in it that a state gave stays."""
        if epoch != self.places.last.epoch:
            self._yielded = None
        self.places.fix(epoch)

    def take_shuffle(self, shuffle: bool) -> None:
        """Takes on what a loader says of the order: False is stored order, True any other."""
        said = self._options.get("shuffle")
        if said is None and not shuffle:
            self._options["shuffle"], self._open = "none", {}
        elif said is not None and shuffle != (said not in (False, "none")):
            raise InvalidArgument(f"new loader: shuffle={shuffle}, and the dataset says shuffle={said!r}", cure="say it to one of them")

    def go_to(self, place: Place) -> None:
        """Has the next pass begin there."""
        self.places.go_to(place)
        self._yielded = None

    def leave(self) -> None:
        """Begins a pass, of the next epoch if one has begun. Rank 0 logs the first that was left. For this package's own modules."""
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
        """What the last pass would have yielded next; None: only its loader's workers know."""
        if self.places.counted:
            return self.places.handed_out
        return self._yielded.place if self._yielded is not None and not self.places.workers_read else None

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint needs to go on after the batches that were yielded in this process.

        It holds no rank, world size or number of workers. With workers only the loader knows what it has yielded: ask it.
        """
        if torch_data.get_worker_info() is not None:
            return {}  # the iterator's own state says it all
        if self.places.workers_read:
            raise StateError(
                "save state: workers read this dataset, and only their loader knows what it has yielded",
                cure="call state_dict of the loader, millrace.torch.DataLoader or torchdata's StatefulDataLoader",
            )
        if self._yielded is None:
            return self.state_at(self.places.next)
        return self.state_at(self._yielded.place, self._yielded.processes)

    def state_at(self, place: Place, processes: int = 1) -> dict[str, Any]:
        """Returns the state of a reader that is to go on at a place."""
        if processes > 1:
            raise StateError(
                f"save state: Accelerate shares samples out among {processes} processes, and reads ahead; only it knows what it has yielded",
                cure="resume by accelerate.skip_first_batches, or give dispatch_batches=False to Accelerate",
            )
        return State.of(place, self.epoch(place.epoch).plan).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where state was saved, on any number of ranks and workers. Its generation is taken on.

        Raises StateError if the state is not one of this batch size and order, and GenerationGone if it is one of other data: at once, the
        gateway is asked. The data may have another name, or lie at another gateway.
        """
        if torch_data.get_worker_info() is not None:
            return
        before = self._loaded, self.generation, self._alone, self._open
        try:
            place = self.accept(state)
            with self._loaded.told(self._options["dataset"]):
                self._loaded.check_end(self.epoch(place.epoch).plan)
        except BaseException:
            self._loaded, self.generation, self._alone, self._open = before
            raise
        if self.ranks()[0] == 0:
            self._loaded.tell_age(self.present)
        self.go_to(place)

    def accept(self, state: Mapping[str, Any]) -> Place:
        """Takes on the generation of a state, and returns its place."""
        self._loaded = State.parse(state)
        self.generation, self._alone, self._open = self._loaded.generation, None, {}
        return self._loaded.place

    @property
    def leaves_out(self) -> bool:
        """Whether filter or on_error may leave out samples. For this package's own modules."""
        return self._options.get("filter") is not None or self._options.get("on_error", "raise") != "raise"

    def collect(self, error: SampleError) -> None:
        """Puts a worker's error into the list of on_error. For this package's own modules."""
        self._options["on_error"](error)

    def __iter__(self) -> Iterator[Any]:
        return self.begin(Reading)

    def begin(self, reading: type[Reading], processes: int = 1) -> Reading:
        """Begins a pass of this process, or of this worker for its share. For this package's own modules."""
        worker = torch_data.get_worker_info()
        if worker is None:
            self.places.own()
            if self.places.begun:
                self.leave()
            self._yielded = PassState(self.places.next, self.places.moves, processes)
            return reading(self, self._yielded, processes)
        self.places.enter_worker()
        # What cannot be pickled would keep the loader waiting for ever: views travel as copies.
        ForkingPickler.register(memoryview, _view_as_bytes)
        return reading(self, None, processes, worker.id, worker.num_workers)


send_checked(Dataset, "_options")


def _view_as_bytes(view: memoryview) -> tuple[type[memoryview], tuple[bytes]]:
    return memoryview, (bytes(view),)
