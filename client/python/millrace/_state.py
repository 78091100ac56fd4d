"""What a checkpoint holds of a loader, of torch's or of JAX: where to go on, and in which order."""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Any, NamedTuple, Optional

from .epoch import Plan
from .errors import GenerationGone, StateError

log = logging.getLogger("millrace")

_FORM = 2  # of what State.to_dict returns
_NAMES = "state", "epoch", "batch", "dataset", "order"
_NO_STATE = "load what state_dict of a dataset or loader returned, or do not load a state to begin at the beginning"
_CURES = {
    "batch_size": "read this epoch to its end with the batch size that it was begun with; set_epoch begins another one with any; "
    "on another number of ranks, give global_batch_size= instead of batch_size_per_rank=",
}
_BAD = re.compile(r"quarantine=[^&)]*&?")  # in the definition of a mixture


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

    @contextmanager
    def told(self, dataset: str) -> Iterator[None]:
        """Has the absence of the generation say what it means to who resumes. dataset is what is read now."""
        try:
            yield
        except GenerationGone as e:
            same = dataset == self.dataset
            why = "the data were indexed again since the state was saved" if same else "it is of other data, or the data were indexed again since"
            e.message = f"load state: {why}: generation {self.generation[:12]} of {self.dataset!r} is not here: {e.message}"
            e.cure = "restore that index and its data, or begin a new run"
            raise

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

    def check_end(self, plan: Plan) -> None:
        """Raises StateError if the place is beyond the end of its epoch. That of one of several workers may be, by less than their number."""
        if self.place.batch > plan.batches:
            raise StateError(f"load state: batch {self.place.batch} of epoch {self.place.epoch}, which has {plan.batches}")

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
