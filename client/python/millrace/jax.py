"""Batches as global arrays of JAX over a mesh of devices. Importing this module imports jax; importing millrace does not.

    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    loader = millrace.jax.DataLoader("http://gateway:8080", "photos", global_batch_size=256, sharding=sharding, fields="jpg,cls")
    for batch in loader:                    # {"jpg": uint8 (256, 224, 224, 3), "cls": int32 (256,)}
        state = train_step(state, batch)

Every process reads only the rows of the global batch that its devices hold. It needs no worker processes: threads fetch, decode and stack,
and the next batch is transferred to the devices while a step runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Optional

from ._job import Place, State, refuse
from ._parameters import NOT_FOR_LOADERS, BatchOptions, Decode, checked, flat
from .batch import Batch
from .client import ClientOwner, Origin
from .epoch import Epoch, Ledger
from .errors import InvalidArgument, StateError
from .values import Automatic

try:
    import jax
    import numpy as np

    from .numpy import array, as_array
except ImportError as e:
    raise ImportError("millrace.jax needs jax, which is not installed: pip install 'millrace-data[jax]'") from e

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["DataLoader"]

_UNFIT = {
    **NOT_FOR_LOADERS,
    "batch_size_per_rank": "write global_batch_size=: the samples of all processes together",
    **dict.fromkeys(("rank", "world_size", "balance", "micro", "by", "homes"), "leave it out: the sharding says which rows a process reads"),
    **dict.fromkeys(("filter", "collate", "batch_transform"), "use transform=: all batches have one shape, and are stacked here"),
    "totals": "leave it out: the rows of all processes are one array",
    "keys": "leave it out: names are nothing for a device",
    "copy": "leave it out: arrays are copied to devices",
}


def rows_of(sharding: Any, rows: int) -> tuple[int, int]:
    """Returns this process's rank and the number of ranks, for a sharding of the given number of rows.

    If each process holds separate rows, these are jax.process_index() and jax.process_count(). Processes that hold the same rows, because
    their devices share a model, are one rank.
    """
    spec = getattr(sharding, "spec", ())
    others = [sharding.mesh.size] * (len(spec) - 1) if spec else []
    try:
        held = sharding.addressable_devices_indices_map((rows, *others)).values()
    except ValueError as e:
        raise InvalidArgument(f"new loader: a batch of {rows} samples on this mesh: {e}", cure="a global_batch_size that the devices divide") from e
    spans = sorted({at[0].indices(rows)[:2] for at in held})
    first, end = spans[0][0], max(stop for _, stop in spans)
    if rows % (end - first) or first % (end - first) or sum(stop - start for start, stop in spans) != end - first:
        raise InvalidArgument(
            f"new loader: the devices of process {jax.process_index()} hold the rows {', '.join(f'{a}:{b}' for a, b in spans)} of {rows}",
            cure="order the mesh so that the rows of a process lie together, as jax.make_mesh does",
        )
    return first // (end - first), rows // (end - first)


class DataLoader(ClientOwner):
    """Global batches of one epoch after another, in order, on the devices of a sharding. Iterating yields one epoch.

    source        a Client; a directory or `s3://bucket/prefix`, read without a server (millrace.open); or the URL of a gateway or several
    sharding      jax.sharding.NamedSharding whose first axis is the batch's, for all arrays; or a mapping from part to sharding
    global_batch_size
                  samples of a batch, all processes together; a multiple of the devices along the first axis. Default: as for Client.epoch
    epoch         the first epoch; set_epoch changes it
    decode        True: see help(millrace.values), with images as uint8 arrays of height x width x bands. A mapping, such as {"cls": int}: these parts
    transform     function of one sample, as for Client.epoch; its results, any trees of arrays and numbers, are stacked
    ahead         number of batches on the devices or in transfer to them: the one that is yielded and the next
    ledger        millrace.Ledger that records the yielded batches
    seed, shuffle, fields, order
                  as for Client.epoch
    share         only millrace.Share(bucket=..., tail=...); tail is "drop" (default) or "pad", because all batches have the same shapes
    reading       millrace.Reading: allow_pickle, on_error, form, threads, prefetch_bytes, decoded_bytes. on_error is "raise" or a function
                  that returns a value: samples cannot be left out. form="npy" yields one array of tokens or records, without a copy

    Yields dicts from part to jax.Array, the first axis global_batch_size long; types are NumPy's, with 32 instead of 64 bits unless
    jax_enable_x64 is set. All processes create the loader with the same arguments, after jax.distributed.initialize. This fixes the
    dataset's generation. A loader of a directory or bucket keeps its gateway until it is closed or garbage-collected; it is also a context
    manager.
    """

    @checked(BatchOptions, unfit=_UNFIT)
    def __init__(
        self, source: Origin, dataset: Optional[str] = None, *, sharding: Any, epoch: int = 0, decode: Decode = True, ahead: int = 2,
        ledger: Optional[Ledger] = None, **options: Unpack[BatchOptions],
    ) -> None:
        given = {"tail": "drop", **flat(options)}
        tail, form, on_error = given["tail"], given.get("form"), given.get("on_error")
        whole = form == "npy"
        if tail == "short" or on_error == "skip":
            raise InvalidArgument(f"new loader: tail {tail!r}, on_error {on_error!r}: want 'drop' or 'pad', and no 'skip'")
        if form not in (None, "npy") or (whole and given.get("transform") is not None):
            raise InvalidArgument(f"new loader: form {form!r}: want 'npy' without a transform, or none")
        self._sharding, self._ahead, self._ledger = sharding, ahead, ledger
        about = self._read_from(source, dataset)
        self.batch_size: int = given.get("global_batch_size") or int(about["default_plan"]["batch_size"])
        """Samples of a global batch."""
        shardings = list(sharding.values()) if isinstance(sharding, Mapping) else [sharding]
        ranks = {rows_of(s, self.batch_size) for s in shardings}
        if len(ranks) != 1:
            raise InvalidArgument(f"new loader: shardings that give a process rows of different ranks: {sorted(ranks)}")
        self.rank, self.world_size = ranks.pop()
        if "generation" not in given:
            refuse(about, jax.process_index(), jax.process_count())
        self.generation: str = given.get("generation") or str(about["generation"])
        automatic = Automatic(finish=as_array) if decode is True else decode
        self._options: dict[str, Any] = {
            **given, "dataset": str(about["name"]), "global_batch_size": self.batch_size, "rank": self.rank, "world_size": self.world_size,
            "decode": None if whole else automatic, "collate": None if whole else _stack,
            "batch_transform": array if whole else None,
        }  # fmt: skip
        self._options.pop("generation", None)
        # initial generation of a run; a state may have another one
        self._present = self.generation
        # the start of the next pass, and the position after the last yielded batch
        self._next = self._after = Place(epoch)
        self._pass = 0
        self._opened: Optional[tuple[tuple[int, str], Epoch]] = None
        self._epoch(epoch)  # reports invalid parameters of the order here

    def __repr__(self) -> str:
        return f"<DataLoader of {self.client!r}, batch_size={self.batch_size}, rank {self.rank} of {self.world_size}>"

    def _epoch(self, number: int, generation: Optional[str] = None) -> Epoch:
        want = number, generation or self.generation
        if self._opened is None or self._opened[0] != want:
            self._opened = want, self.client._epoch(number, generation=want[1], **self._options)
        return self._opened[1]

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return len(self._epoch(self._next.epoch))

    def __iter__(self) -> Iterator[Any]:
        epoch, position = self._next
        self._pass += 1
        this = self._pass
        waiting: deque[tuple[int, Any, Any]] = deque()
        with self._epoch(epoch).read(position // self.batch_size) as reader:
            for batch in reader:
                omitted = batch.omitted if self._ledger is not None else ()
                waiting.append((batch.number, omitted, self._put(batch)))
                if len(waiting) == self._ahead:
                    yield self._hand_out(this, epoch, *waiting.popleft())
            while waiting:
                yield self._hand_out(this, epoch, *waiting.popleft())

    def _put(self, batch: Batch) -> Any:
        """Starts the transfer of this process's rows to its devices."""
        rows = self.batch_size // self.world_size

        def put(sharding: Any, local: Any) -> Any:
            if len(local) != rows:
                raise InvalidArgument(f"batch {batch.number} of epoch {batch.epoch} has {len(local)} samples here, and the devices want {rows}")
            return jax.make_array_from_process_local_data(sharding, local, (self.batch_size, *local.shape[1:]))

        if not isinstance(self._sharding, Mapping):
            return jax.tree.map(partial(put, self._sharding), batch.value)
        if batch.value.keys() != self._sharding.keys():
            raise InvalidArgument(f"there are shardings for {', '.join(self._sharding)}, and samples have {', '.join(batch.value)}")
        return {name: jax.tree.map(partial(put, self._sharding[name]), value) for name, value in batch.value.items()}

    def _hand_out(self, this: int, epoch: int, number: int, omitted: Any, value: Any) -> Any:
        if this == self._pass:  # otherwise another pass has started, or a state was loaded
            if self._ledger is not None:
                self._ledger.add(self._epoch(epoch).plan, number * self.batch_size, omitted)
            self._next, self._after = Place(epoch + 1), Place(epoch, (number + 1) * self.batch_size)
        return value

    @checked()
    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass, which is otherwise the one after the last pass. A position in it from a loaded state is kept."""
        self._begin_at(self._next if self._next.epoch == epoch else Place(epoch))

    def _begin_at(self, place: Place) -> None:
        self._next = self._after = place
        self._pass += 1

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint after the last yielded batch, the same in all processes, for all loaders of this package."""
        return State.of(self._after, self._epoch(self._after.epoch).plan).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes where any loader or reader has saved state, on any number of processes and devices, in the state's generation.

        Raises StateError immediately if the state is of another order or within a batch of this size, and GenerationGone if it belongs to
        other data. The data may have another name, or be on another gateway.
        """
        loaded = State.parse(state)
        place = loaded.resume(self._present, lambda: self._epoch(loaded.epoch, loaded.generation).plan, self.client.core)
        if place.position % self.batch_size:
            raise StateError(
                f"load state: position {place.position} of epoch {place.epoch} is within a batch of {self.batch_size}; batches have one shape",
                cure=f"give a global_batch_size that divides {place.position}, or read this epoch to its end with another loader",
            )
        self.generation = self._epoch(loaded.epoch, loaded.generation).generation
        self._begin_at(place)


def _stack(samples: list[Any]) -> Any:
    """Combines the trees of a batch's samples into one tree of arrays."""

    def column(path: Any, *values: Any) -> Any:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        try:
            stacked = np.stack([np.asarray(v) for v in values])
        except ValueError as e:
            raise InvalidArgument(f"stack {name}: {e}", cure="have the decoder or transform make equal shapes") from e
        if stacked.dtype.kind in "OSUMm":
            what = type(values[0]).__name__
            raise InvalidArgument(f"stack {name}: {what} is nothing for a device", cure="name the parts to read by fields=, or give decode=")
        return stacked

    try:
        return jax.tree_util.tree_map_with_path(column, *samples)
    except ValueError as e:
        raise InvalidArgument(f"stack samples of different parts: {e}", cure="name the parts that all have by fields=") from e
