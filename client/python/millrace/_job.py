"""State that the processes of a job share: ranks, one generation of the data, and the position to resume from.

It also checks whether objects can be sent to spawned workers, before the workers start.
"""

from __future__ import annotations

import logging
import operator
import os
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from reprlib import repr as short
from typing import Any, NamedTuple, Optional

from ._http import Gateways
from .epoch import Plan
from .errors import GenerationGone, InvalidArgument, StateError

log = logging.getLogger("millrace")

VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun, Lightning, Accelerate
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # mpirun
    # srun; a batch script without a step is a single process
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)

ASK = "give all ranks the same order=millrace.Order(generation=...): rank 0 asks client.describe()['generation'] and tells the others"
AGREE = f"call torch.distributed.init_process_group before the dataset is made, or {ASK}"

_FORM = 2  # version of State.to_dict
_NAMES = "state", "epoch", "batch", "dataset", "order"
_NO_STATE = "load what state_dict of a dataset or loader returned, or do not load a state to begin at the beginning"
_CURES = {
    "batch_size": "read this epoch to its end with the batch size that it was begun with; set_epoch begins another one with any; "
    "on another number of ranks, give global_batch_size= instead of batch_size_per_rank=",
}
_BAD = re.compile(r"quarantine=[^&)]*&?")  # part of a mixture's definition


def find_ranks() -> tuple[int, int]:
    """Returns rank and world size, from torch.distributed if it is initialized, otherwise from the environment; the default is 0 and 1."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    for rank, world_size in VARIABLES:
        if world_size in os.environ and rank in os.environ:
            r, w = os.environ[rank], os.environ[world_size]
            if not (r.isdecimal() and w.isdecimal() and int(r) < int(w)):
                raise InvalidArgument(f"find the rank: {rank}={r} and {world_size}={w} are not a rank and a world size")
            return int(r), int(w)
    rank, world_size = VARIABLES[0]
    # One variable without the other is a mistake: as a single process, every rank would read everything.
    if rank in os.environ or os.environ.get(world_size, "1") != "1":
        raise InvalidArgument(f"find the rank: of {rank} and {world_size} one is in the environment and the other is not")
    return 0, 1


def warn_of_uneven_shares(plan: Plan) -> None:
    """Warns if ranks get different numbers of samples of a full batch, or if some get none of the last batch."""
    size, ranks = plan.batch_size, plan.world_size
    if size % ranks:
        shares = f"some get {size // ranks} samples of every batch, others {size // ranks + 1}; choose a global_batch_size that the ranks divide"
        warnings.warn(f"{ranks} ranks share a batch of {size} unevenly: {shares}", stacklevel=2)
    left = plan.delivered % size
    if 0 < left < ranks and plan.parameters.get("tail") != "pad":
        cure = 'millrace.Share(tail="pad") fills the batch with repeated samples, tail="drop" leaves it out'
        warnings.warn(f"the last batch has {left} samples for {ranks} ranks, so {ranks - left} get empty tensors; {cure}", stacklevel=2)


def advise_homes(core: Gateways, plan: Plan, about: Mapping[str, Any]) -> None:
    """Logs once, on rank 0, that homes would reduce store reads.

    It does so if ranks read through a list or pattern of gateways that form no cluster, and the order has homes. about is the gateway's
    description of the dataset.
    """
    given = plan.parameters
    several = 1 < core.listed <= plan.world_size
    chosen = "share" in given or given.get("balance") == "bytes" or about.get("cluster") is True
    homes = given.get("shuffle") == "slot" or "strata" in given
    if several and homes and not chosen and plan.rank == 0 and not core.advised:
        core.advised = True
        log.warning(
            "%s: each of the %d gateways reads the whole dataset from the store: with "
            "millrace.Routing(home='rank') for the client, and "
            "millrace.Share(by='locality', homes=%d) for its epochs, they read it once together", plan.dataset, core.listed, core.listed,
        )  # fmt: skip


def refuse(about: Mapping[str, Any], rank: int, world_size: int, cure: str = ASK) -> None:
    """Rejects a read without a generation by one of several ranks, if the ranks could read different generations.

    about is the gateway's description of the dataset.
    """
    if world_size > 1 and about.get("follows") is True:
        raise InvalidArgument(
            f"read dataset {about.get('name')}: rank {rank} of {world_size} names no generation, and the gateways move to new ones by "
            f"themselves, so ranks could read different ones; now it is {about.get('generation')}",
            cure=cure,
        )


def agree(dataset: str, generation: str) -> Optional[str]:
    """Makes all processes of torch.distributed use one generation of a dataset: the generation of the first process that calls this.

    Returns None if torch.distributed is not initialized, or has no store. It uses the store rather than the group, because a broadcast
    would hang if some processes do not create the dataset, and because it requires a GPU per process.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    store = distributed.distributed_c10d._get_default_store()
    # MPI has no store, or an empty one in torch 2
    if store is None or type(store) is distributed.Store:
        return None
    agreed: bytes = store.compare_set(f"millrace/generation/{dataset}", "", generation)
    return agreed.decode()


def settle(about: Mapping[str, Any], given: Optional[str]) -> tuple[str, Optional[Mapping[str, Any]]]:
    """Returns the generation to read. If other ranks may have another generation, it also returns the dataset's description."""
    if given is not None:
        return given, None
    present = str(about["generation"])
    data = sys.modules.get("torch.utils.data")
    # a forked worker would share the store's connection with its parent
    in_worker = data is not None and data.get_worker_info() is not None
    agreed = None if in_worker else agree(str(about["name"]), present)
    if agreed is not None:
        return agreed, None
    return present, about if about.get("follows") is True else None


class Place(NamedTuple):
    """The next position: a batch of an epoch, or a sample in this rank's share of the batch if samples are yielded individually."""

    epoch: int
    batch: int = 0
    sample: int = 0

    @property
    def fixes(self) -> tuple[str, ...]:
        """Names the properties of a plan that must not change.

        They include the world size if the position counts samples of a rank's share.
        """
        return "generation", "batch_size", "order_digest", *(("world_size",) if self.sample else ())

    def refuse_samples(self) -> None:
        """Raises StateError for a position within a batch, which readers of batches do not support."""
        if self.sample:
            raise StateError(
                f"begin at batch {self.batch} of epoch {self.epoch}: the state was saved after {self.sample} of its samples",
                cure="read on by a loader of torch's with a batch_size, as the one that saved the state",
            )


@dataclass(frozen=True)
class State:
    """A position, and the properties that must be unchanged when a reader resumes there.

    The name of the dataset may change: a copy of the same data, in another directory or on another gateway, has the same generation.
    """

    place: Place
    fixed: Mapping[str, Any]
    dataset: str = ""  # name of the dataset when the state was saved, for messages
    # the parameters that determine order_digest, for messages
    order: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, place: Place, plan: Plan) -> State:
        """Returns the state of a reader with this plan."""
        return cls(place, {name: getattr(plan, name) for name in place.fixes}, plan.dataset, plan.order)

    @classmethod
    def parse(cls, state: Optional[Mapping[str, Any]]) -> State:
        """Parses the output of to_dict."""
        if not state or not isinstance(state, Mapping):
            raise StateError(f"load state: {short(state)} is not a state", cure=_NO_STATE)
        if lacks := [name for name in _NAMES if name not in state]:
            raise StateError(f"load state: it holds {short(list(state))} and lacks {', '.join(lacks)}", cure=_NO_STATE)
        if state["state"] != _FORM:
            raise StateError(f"load state: its form is {short(state['state'])}, want {_FORM}", cure="load it by the release that saved it")
        try:
            place = Place(*map(operator.index, (state["epoch"], state["batch"], state.get("sample", 0))))
            found = cls(place, {name: state[name] for name in place.fixes}, str(state["dataset"]), dict(state["order"]))
        except (KeyError, TypeError, ValueError) as e:
            raise StateError(f"load state: not what state_dict returned: {type(e).__name__}: {e}", cure=_NO_STATE) from None
        if min(place) < 0:
            raise StateError(f"load state: epoch {place.epoch}, batch {place.batch}, sample {place.sample}: want 0 or more", cure=_NO_STATE)
        return found

    @property
    def generation(self) -> str:
        """The generation that was read."""
        return str(self.fixed["generation"])

    def hold(self, dataset: str, opened: Callable[[], Plan]) -> None:
        """Compares the state with the current dataset and the plan of the epoch, which the function opened returns.

        Raises StateError like check, and also for a position beyond the end of the epoch. The state of one of several workers is only
        checked, because it may exceed the end by less than their number. GenerationGone explains the consequence for the resumed run.
        """
        try:
            plan = opened()
        except GenerationGone as e:
            same = dataset == self.dataset
            why = "the data were indexed again since the state was saved" if same else "it is of other data, or the data were indexed again since"
            e.message = f"load state: {why}: generation {self.generation[:12]} of {self.dataset!r} is not here: {e.message}"
            e.cure = "restore that index and its data, or begin a new run"
            raise
        self.check(plan)
        if self.place.batch > plan.batches:
            raise StateError(f"load state: batch {self.place.batch} of epoch {self.place.epoch}, which has {plan.batches}")

    def tell_age(self, present: str) -> None:
        """Warns if the generation is not the current one, since files added or removed later are not read."""
        if self.generation != present:
            log.warning(
                "load state: the state is of generation %s; the data were indexed again since (generation %s): reading goes on with the files as "
                "they were then", self.generation[:12], present[:12],
            )

    def check(self, plan: Plan) -> None:
        """Raises StateError if the data or the order have changed or, within an epoch, the batch size."""
        begun = self.place != Place(self.place.epoch)
        for name, value in self.fixed.items():
            if name == "batch_size" and not begun:
                continue
            if (now := getattr(plan, name)) != value and not (name == "order_digest" and self._replaces(plan)):
                changed = f"{name} is {now!r}, and was {value!r}" if name != "order_digest" else self._changed(plan)
                raise StateError(f"load state: {changed} when the state was saved", cure=_CURES.get(name, self._cure(plan)))

    def _cure(self, plan: Plan) -> Optional[str]:
        """Returns a remedy if exclude may have changed the subset, or None if the earlier parameters are required."""
        subset = plan.order.get("subset", "")
        if "samples:" not in subset or subset == self.order.get("subset", ""):
            return None
        also = 'reading=millrace.Reading(on_error="skip") leaves out those that only fail to decode'
        return f"exclude(...) is for a new run: to go on from this checkpoint, use quarantine(...) with the same samples; {also}"

    def _replaces(self, plan: Plan) -> bool:
        """Reports whether the order is the same except for replaced bad samples."""
        bad, rest = _apart(plan.dataset, plan.order)
        bad_before, rest_before = _apart(self.dataset, self.order)
        return bad != bad_before and rest == rest_before

    def _changed(self, plan: Plan) -> str:
        """Describes the changed parameters of the order. A mixture has them in its definition, which is the dataset's name."""
        now, was = {"dataset": plan.dataset, **plan.order}, {"dataset": self.dataset, **self.order}
        names = sorted(name for name in {*now, *was} if now.get(name) != was.get(name))
        names = [name for name in names if name != "dataset"] or names
        said = "; ".join(f"{name} is {now.get(name, 'not given'):.80}, and was {was.get(name, 'not given'):.80}" for name in names)
        return said or "the order is another one than"

    def to_dict(self) -> dict[str, Any]:
        """Returns the state as a dict for JSON: the position, the dataset, the values that must not change, and the parameters of the order."""
        sample = {"sample": self.place.sample} if self.place.sample else {}
        place = {"epoch": self.place.epoch, "batch": self.place.batch, **sample}
        return {"state": _FORM, **place, "dataset": self.dataset, **self.fixed, "order": dict(self.order)}


def _apart(dataset: str, order: Mapping[str, str]) -> tuple[list[str], list[Any]]:
    """Returns the replaced bad samples, and the other parameters that determine the order."""
    mixture = dataset if dataset.startswith("mix:") else ""
    bad = [order.get("quarantine", ""), *_BAD.findall(mixture)]
    return bad, [_BAD.sub("", mixture).replace("()", ""), {name: value for name, value in order.items() if name != "quarantine"}]


def send_checked(kind: type, options: str) -> None:
    """Makes objects of a class raise InvalidArgument when they are sent to another process with a function that cannot be pickled.

    options names the attribute with their parameters by name, including functions.
    """

    def reduce(one: Any) -> Any:
        for name, function in _flat(getattr(one, options)):
            try:
                ForkingPickler.dumps(function)
            except (pickle.PicklingError, AttributeError, TypeError) as e:
                raise InvalidArgument(
                    f"start a worker: {name} cannot be sent to a process that is spawned: {e}",
                    cure="write the function with def at the top level of a module, not as a lambda or within another function",
                ) from None
        return one.__reduce_ex__(pickle.HIGHEST_PROTOCOL)

    ForkingPickler.register(kind, reduce)


def _flat(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}[{part!r}]", function) for part, function in value.items())
        else:
            yield name, value
