"""What the processes of a job have in common: ranks, one generation of the data, and the place where it resumes, as a checkpoint has it.

And their workers: what cannot be sent to one that is spawned is named before it starts.
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
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # srun; a batch script by itself has no step, and is one process
)

ASK = "give all ranks the same order=millrace.Order(generation=...): rank 0 asks client.describe()['generation'] and tells the others"
AGREE = f"call torch.distributed.init_process_group before the dataset is made, or {ASK}"

_FORM = 2  # of what State.to_dict returns
_NAMES = "state", "epoch", "batch", "dataset", "order"
_NO_STATE = "load what state_dict of a dataset or loader returned, or do not load a state to begin at the beginning"
_CURES = {
    "batch_size": "read this epoch to its end with the batch size that it was begun with; set_epoch begins another one with any; "
    "on another number of ranks, give global_batch_size= instead of batch_size_per_rank=",
}
_BAD = re.compile(r"quarantine=[^&)]*&?")  # in the definition of a mixture


def find_ranks() -> tuple[int, int]:
    """Returns rank and world size: those of torch.distributed if it is initialized, else the environment's, else 0 and 1."""
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
    # One without the other is a mistake: read as a single process, every rank would read everything.
    if rank in os.environ or os.environ.get(world_size, "1") != "1":
        raise InvalidArgument(f"find the rank: of {rank} and {world_size} one is in the environment and the other is not")
    return 0, 1


def warn_of_uneven_shares(plan: Plan) -> None:
    """Warns where a full batch has more samples for one rank than for another, and where the last batch has none for some."""
    size, ranks = plan.batch_size, plan.world_size
    if size % ranks:
        shares = f"some get {size // ranks} samples of every batch, others {size // ranks + 1}; choose a global_batch_size that the ranks divide"
        warnings.warn(f"{ranks} ranks share a batch of {size} unevenly: {shares}", stacklevel=2)
    left = plan.delivered % size
    if 0 < left < ranks and plan.parameters.get("tail") != "pad":
        cure = 'millrace.Share(tail="pad") fills the batch with repeated samples, tail="drop" leaves it out'
        warnings.warn(f"the last batch has {left} samples for {ranks} ranks, so {ranks - left} get empty tensors; {cure}", stacklevel=2)


def advise_homes(core: Gateways, plan: Plan) -> None:
    """Tells a job whose ranks read through a list of gateways, or a pattern, what homes would save: rank 0 once, if its order has homes.

    A client cannot see whether the gateways are one cluster.
    """
    given = plan.parameters
    several = 1 < core.listed <= plan.world_size
    chosen = "share" in given or given.get("balance") == "bytes"
    homes = given.get("shuffle") == "slot" or "strata" in given
    if several and homes and not chosen and plan.rank == 0 and not core.advised:
        core.advised = True
        log.warning(
            "%s: each of the %d gateways reads the whole dataset from the store, unless they are a cluster: with "
            "millrace.Routing(home='rank') for the client, and "
            "millrace.Share(by='locality', homes=%d) for its epochs, they read it once together", plan.dataset, core.listed, core.listed,
        )  # fmt: skip


def refuse(about: Mapping[str, Any], rank: int, world_size: int, cure: str = ASK) -> None:
    """Refuses to read for one of several ranks that names no generation, where ranks could get different ones.

    about is what a gateway says of the dataset.
    """
    if world_size > 1 and about.get("follows") is True:
        raise InvalidArgument(
            f"read dataset {about.get('name')}: rank {rank} of {world_size} names no generation, and the gateways move to new ones by "
            f"themselves, so ranks could read different ones; now it is {about.get('generation')}",
            cure=cure,
        )


def agree(dataset: str, generation: str) -> Optional[str]:
    """Has all processes of torch.distributed take one generation of a dataset: the one that the first of them asks with.

    Returns None if torch.distributed is not initialized, or has no store to agree by. The store is asked rather than the group: a
    broadcast would hang where not every process makes the dataset, and wants a GPU of its own for each.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    store = distributed.distributed_c10d._get_default_store()
    if store is None or type(store) is distributed.Store:  # MPI has none, or an empty one in torch 2
        return None
    agreed: bytes = store.compare_set(f"millrace/generation/{dataset}", "", generation)
    return agreed.decode()


def settle(about: Mapping[str, Any], given: Optional[str]) -> tuple[str, Optional[Mapping[str, Any]]]:
    """Returns the generation to read, and what the gateway said of the dataset if other ranks may have another one."""
    if given is not None:
        return given, None
    present = str(about["generation"])
    data = sys.modules.get("torch.utils.data")
    in_worker = data is not None and data.get_worker_info() is not None  # a forked one would share the store's connection with its parent
    agreed = None if in_worker else agree(str(about["name"]), present)
    if agreed is not None:
        return agreed, None
    return present, about if about.get("follows") is True else None


class Place(NamedTuple):
    """What comes next: a batch of an epoch, or, where samples are yielded one by one, a sample of this rank's share of that batch."""

    epoch: int
    batch: int = 0
    sample: int = 0

    @property
    def fixes(self) -> tuple[str, ...]:
        """What of a plan must not change: also the world size where the samples of a rank's share are counted."""
        return "generation", "batch_size", "order_digest", *(("world_size",) if self.sample else ())

    def refuse_samples(self) -> None:
        """Raises StateError for a place within a batch, where no reader of batches can begin."""
        if self.sample:
            raise StateError(
                f"begin at batch {self.batch} of epoch {self.epoch}: the state was saved after {self.sample} of its samples",
                cure="read on by a loader of torch's with a batch_size, as the one that saved the state",
            )


@dataclass(frozen=True)
class State:
    """A place, and what must not have changed when a reader goes on there.

    The name of the dataset may change: a copy of the same data, in another directory or at another gateway, has the same generation.
    """

    place: Place
    fixed: Mapping[str, Any]
    dataset: str = ""  # what it was called, for messages
    order: Mapping[str, str] = field(default_factory=dict)  # the parameters behind order_digest, for messages

    @classmethod
    def of(cls, place: Place, plan: Plan) -> State:
        """Returns the state of a reader of this plan."""
        return cls(place, {name: getattr(plan, name) for name in place.fixes}, plan.dataset, plan.order)

    @classmethod
    def parse(cls, state: Optional[Mapping[str, Any]]) -> State:
        """Reads what to_dict has returned."""
        if not state or not isinstance(state, Mapping):
            raise StateError(f"load state: {short(state)} is no state", cure=_NO_STATE)
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
        """Holds what is read now to the state: the dataset, and the plan of the epoch, which opened gives.

        Raises StateError as check does, and for a place beyond the end of the epoch. That of one of several workers, which is checked alone,
        may be beyond it by less than their number. GenerationGone says what it means to who resumes.
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
        """Warns if the generation is not the present one: what has come or gone since is not in what is read."""
        if self.generation != present:
            log.warning(
                "load state: the state is of generation %s; the data were indexed again since (generation %s): reading goes on with the files as "
                "they were then", self.generation[:12], present[:12],
            )

    def check(self, plan: Plan) -> None:
        """Raises StateError if other data or another order are read now, or, where the epoch has begun, batches of another size."""
        begun = self.place != Place(self.place.epoch)
        for name, value in self.fixed.items():
            if name == "batch_size" and not begun:
                continue
            if (now := getattr(plan, name)) != value and not (name == "order_digest" and self._replaces(plan)):
                changed = f"{name} is {now!r}, and was {value!r}" if name != "order_digest" else self._changed(plan)
                raise StateError(f"load state: {changed} when the state was saved", cure=_CURES.get(name, self._cure(plan)))

    def _cure(self, plan: Plan) -> Optional[str]:
        """What to do about another subset, if exclude may have made it; None: the parameters are to be those of before."""
        subset = plan.order.get("subset", "")
        if "samples:" not in subset or subset == self.order.get("subset", ""):
            return None
        instead = 'quarantine(...) in its place, or reading=millrace.Reading(on_error="skip")'
        return f"exclude(...) is for a new run: to go on from this checkpoint, use {instead}"

    def _replaces(self, plan: Plan) -> bool:
        """Reports whether the order is the same one, but for bad samples in whose places others come."""
        bad, rest = _apart(plan.dataset, plan.order)
        bad_before, rest_before = _apart(self.dataset, self.order)
        return bad != bad_before and rest == rest_before

    def _changed(self, plan: Plan) -> str:
        """Names what makes the order another one. That of a mixture follows from its definition, which is the dataset's name."""
        now, was = {"dataset": plan.dataset, **plan.order}, {"dataset": self.dataset, **self.order}
        names = sorted(name for name in {*now, *was} if now.get(name) != was.get(name))
        names = [name for name in names if name != "dataset"] or names
        said = "; ".join(f"{name} is {now.get(name, 'not given'):.80}, and was {was.get(name, 'not given'):.80}" for name in names)
        return said or "the order is another one than"

    def to_dict(self) -> dict[str, Any]:
        """Returns integers and texts, and the parameters of the order by their names."""
        sample = {"sample": self.place.sample} if self.place.sample else {}
        place = {"epoch": self.place.epoch, "batch": self.place.batch, **sample}
        return {"state": _FORM, **place, "dataset": self.dataset, **self.fixed, "order": dict(self.order)}


def _apart(dataset: str, order: Mapping[str, str]) -> tuple[list[str], list[Any]]:
    """Returns which bad samples others replace, and what else fixes the order."""
    mixture = dataset if dataset.startswith("mix:") else ""
    bad = [order.get("quarantine", ""), *_BAD.findall(mixture)]
    return bad, [_BAD.sub("", mixture).replace("()", ""), {name: value for name, value in order.items() if name != "quarantine"}]


def send_checked(kind: type, options: str) -> None:
    """Has the objects of a class refuse to be sent to another process with a function that cannot be sent.

    options names the attribute that holds their parameters by name, functions among them.
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
