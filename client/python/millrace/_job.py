"""Values that the processes of a job share: ranks, plan, one generation of the data, and the state to resume from.

It also checks whether objects can be sent to spawned workers, before the workers start.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
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
from urllib.parse import quote

from ._http import Gateways
from ._plan import SHARING, SHOWING
from .errors import GenerationGone, InvalidArgument, MillraceError, StateError

log = logging.getLogger("millrace")

VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun, Lightning, Accelerate
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # mpirun
    # srun; a batch script without a step is a single process
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)

ASK = "give all ranks the same order=millrace.Order(generation=...): rank 0 asks client.describe()['generation'] and tells the others"
AGREE = f"call torch.distributed.init_process_group before the dataset is made, or {ASK}"

_FORM = 3  # version of State.to_dict
_LIMITS = {"epoch": (1 << 64) - 2, "position": (1 << 63) - 1}
_NO_STATE = "load what state_dict of a dataset, loader or reader returned, or do not load a state to begin at the beginning"
_SCHEDULE = re.compile(",schedule=[0-9a-f]*")
_COMPARED = 64  # most recently stored schedules that an error compares
_ORDER = "seed, shuffle, window, strata, importance, subset, bucket with its batch size and costs, mixture sources and weights determine the order"


@dataclass(frozen=True)
class Plan:
    """The gateway's resolved plan of an epoch. It determines every byte of every batch."""

    dataset: str
    epoch: int
    format: str  # format of the stored samples
    batches: int
    samples: int  # positions of the epoch, all ranks together
    bytes: int  # total or estimated size of the stored samples
    generation: str
    order_digest: str  # equal digests mean equal orders
    parameters: Mapping[str, str]  # canonical, including the generation
    description: Mapping[str, Any] = field(repr=False)  # the gateway's full response
    dataset_description: Mapping[str, Any] = field(repr=False)

    @property
    def batch_size(self) -> int:
        """Samples of a global batch, all ranks together."""
        return int(self.parameters["batch_size"])

    @property
    def rank(self) -> int:
        """The rank whose share of each global batch is read."""
        return int(self.parameters.get("rank", "0"))

    @property
    def world_size(self) -> int:
        """Number of ranks that share each global batch."""
        return int(self.parameters.get("world_size", "1"))

    @property
    def bucket(self) -> int:
        """Number of batches whose samples are sorted by cost together; 1 means that the order is without buckets."""
        return int(self.parameters.get("bucket", "1"))

    @property
    def order(self) -> Mapping[str, str]:
        """The parameters that determine the order of samples, without those of batches, ranks and forms."""
        others = {*SHARING, *SHOWING, "generation"} - ({"bucket", "batch_size", "balance"} if self.bucket > 1 else set())
        return {name: value for name, value in self.parameters.items() if name not in others}

    @property
    def delivered(self) -> int:
        """Number of positions in all batches, all ranks together; with tail=drop the remainder is not included."""
        return min(self.samples, self.batches * self.batch_size)

    def digest_at(self, epoch: int, position: int) -> str:
        """Returns the plan digest of a state."""
        return _digest_of(_digests(self.description), epoch * self.samples + position)

    def share(self, batch: int, skip: int = 0) -> Optional[range]:
        """Returns the positions of this rank's share of a batch, without the first `skip` samples of the batch; None if they depend on the
        samples' lengths or homes.
        """
        p = self.parameters
        if p.get("balance", "samples") != "samples" or p.get("share", "contiguous") != "contiguous":
            return None
        first, size = batch * self.batch_size, self.batch_size
        n = (size if p.get("tail") == "pad" else min(size, self.samples - first)) - skip
        return range(first + skip + self.rank * n // self.world_size, first + skip + (self.rank + 1) * n // self.world_size)


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
    if size % ranks and plan.parameters.get("balance", "samples") == "samples":
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
    chosen = "share" in given or given.get("balance", "samples") != "samples" or about.get("cluster") is True
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
    """The next position: all ranks together have read the positions of the epoch before it."""

    epoch: int
    position: int = 0


def brief(generation: str) -> str:
    """Returns the 32 digits of a generation in states and ledgers. Those of a mixture's list of generations are of its SHA-256."""
    return hashlib.sha256(generation.encode()).hexdigest()[:32] if "," in generation else generation[:32]


class State(NamedTuple):
    """A place, and the data and order to which it belongs. It is the same for all readers: see docs/spec/state.md."""

    generation: str
    plan: str
    epoch: int
    position: int

    @classmethod
    def of(cls, place: Place, plan: Plan) -> State:
        """Returns the state of a reader with this plan. The end of an epoch is the beginning of the next one."""
        epoch, position = place if place.position < plan.delivered else (place.epoch + 1, 0)
        return cls(brief(plan.generation), plan.digest_at(epoch, position), epoch, position)

    @classmethod
    def parse(cls, given: object) -> State:
        """Parses the output of to_dict."""
        if not given or not isinstance(given, Mapping):
            raise StateError(f"load state: {short(given)} is not a state", cure=_NO_STATE)
        version = given.get("state", {})
        if not isinstance(version, Mapping) and (type(version) is not int or version != _FORM):
            raise StateError(f"load state: its form is {short(version)}, want {_FORM}", cure="load it by the release that saved it")
        if given.keys() != {"state", *cls._fields}:
            raise StateError(f"load state: it holds {short(list(given))}, want state, {', '.join(cls._fields)}", cure=_NO_STATE)
        for name in cls._fields:
            value, most = given[name], _LIMITS.get(name)
            fits = re.fullmatch("[0-9a-f]{32}", str(value)) if most is None else type(value) is int and 0 <= value <= most
            if not fits:
                raise StateError(f"load state: {name} {short(value)}: not what state_dict returned", cure=_NO_STATE)
        return cls(*(given[name] for name in cls._fields))

    def to_dict(self) -> dict[str, Any]:
        """Returns the state as a dict for JSON."""
        return {"state": _FORM, **self._asdict()}

    def resume(self, present: str, opened: Callable[[], Plan], core: Optional[Gateways] = None) -> Place:
        """Returns the place to resume from. The function opened returns the plan of the state's epoch in its generation.

        present is the current generation, which may be newer: files added or removed later are then not read.
        """
        try:
            plan = opened()
        except GenerationGone as e:
            other = "the data were indexed again since the state was saved, or it is of other data"
            e.message = f"load state: {other}: its generation {self.generation[:12]} is not here, but {present[:12]}: {e.message}"
            if e.cure == GenerationGone.cure:
                e.cure = "restore that index and its data, or begin a new run"
            raise
        self.check(plan, core)
        if self.position > plan.samples:
            raise StateError(f"load state: position {self.position} of epoch {self.epoch}, which has {plan.samples} positions", cure=_NO_STATE)
        if plan.rank == 0:
            self.tell_age(present)
        return Place(self.epoch, self.position) if self.position < plan.delivered else Place(self.epoch + 1)

    def tell_age(self, present: str) -> None:
        """Warns if the generation is not the current one, since files added or removed later are not read."""
        if self.generation != brief(present):
            log.warning(
                "load state: the state is of generation %s; the data were indexed again since (generation %s): reading goes on with the files as "
                "they were then", self.generation[:12], present[:12],
            )  # fmt: skip

    def check(self, plan: Plan, core: Optional[Gateways] = None) -> None:
        """Raises StateError if the data or the order differ. core serves to name the first change of a mixture's schedule."""
        if (now := brief(plan.generation)) != self.generation:
            raise StateError(f"load state: its generation is {self.generation[:12]}, and this reader has {now[:12]}")
        if plan.digest_at(self.epoch, self.position) == self.plan:
            return
        has = "".join(f", {name} {value:.80}" for name, value in plan.order.items() if name != "quarantine")
        cure = None
        if "samples:" in plan.order.get("subset", ""):
            cure = "exclude(...) is for a new run: to go on from this checkpoint, use quarantine(...) with the same samples"
        raise StateError(f"load state: it was saved in another order than that of {plan.dataset:.200}{has}; {self._change(plan, core)}", cure=cure)

    def _change(self, plan: Plan, core: Optional[Gateways]) -> str:
        """Names the first position from which the weights of a mixture differ, if its gateway knows the state's schedule."""
        reached, now = self.epoch * plan.samples + self.position, _digests(plan.description)
        for digests in _schedules(plan, core, now):
            if _digest_of(digests, reached) == self.plan:
                at = min(begin for begin, _ in {*digests} ^ {*now})
                return f"its weights differ from position {at % plan.samples} of epoch {at // plan.samples} on"
        return _ORDER


def _digests(description: Mapping[str, Any]) -> list[tuple[int, str]]:
    return [(int(one["position"]), str(one["digest"])) for one in description["plan_digests"]]


def _digest_of(digests: list[tuple[int, str]], reached: int) -> str:
    """Returns the plan digest of a run that has read the positions before `reached`."""
    return [digest for begin, digest in digests if begin < max(reached, 1)][-1]


def _schedules(plan: Plan, core: Optional[Gateways], now: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yields the plan digests of a mixture with fewer segments, and of its recently stored schedules."""
    yield from (now[:n] for n in range(1, len(now)))
    bare = _SCHEDULE.sub("", plan.dataset)
    if core is None or not bare.startswith("mix:"):
        return
    stored: list[str] = []
    with contextlib.suppress(MillraceError):
        stored = core.json("GET", f"/v1/datasets/{re.split('[:(]', bare)[1]}/schedules")["schedules"][:_COMPARED]
    for name in (quote(f"{bare},schedule={digest}", safe="") for digest in stored):
        with contextlib.suppress(MillraceError):  # a schedule of other sources
            yield _digests(core.json("GET", f"/v1/datasets/{name}/epochs/{plan.epoch}", {**plan.parameters, "batch_size": "1"}))


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
