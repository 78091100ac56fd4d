"""What a checkpoint holds of a loader, of torch's or of JAX: where to go on, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .epoch import Plan
from .errors import StateError

_FORM = 1  # of what State.to_dict returns


class Place(NamedTuple):
    """What comes next: a batch of an epoch, or, where samples are yielded one by one, a sample of this rank's share of that batch."""

    epoch: int
    batch: int = 0
    sample: int = 0

    @property
    def fixes(self) -> tuple[str, ...]:
        """What of a plan must not change: also the world size where the samples of a rank's share are counted."""
        return "dataset", "generation", "batch_size", "order_digest", *(("world_size",) if self.sample else ())

    def refuse_samples(self) -> None:
        """Raises StateError for a place within a batch, where no reader of batches can begin."""
        if self.sample:
            raise StateError(
                f"begin at batch {self.batch} of epoch {self.epoch}: the state was saved after {self.sample} of its samples",
                cure="read on by a loader of torch's with a batch_size, as the one that saved the state",
            )


@dataclass(frozen=True)
class State:
    """A place, and what must not have changed when a reader goes on there."""

    place: Place
    identity: Mapping[str, Any]

    @classmethod
    def of(cls, place: Place, plan: Plan) -> State:
        """Returns the state of a reader of this plan."""
        return cls(place, {name: getattr(plan, name) for name in place.fixes})

    @classmethod
    def parse(cls, state: Mapping[str, Any]) -> State:
        """Reads what to_dict has returned."""
        try:
            if state["state"] != _FORM:
                raise StateError(f"load state: its form is {state['state']!r}, want {_FORM}")
            place = Place(int(state["epoch"]), int(state["batch"]), int(state.get("sample", 0)))
            found = cls(place, {name: state[name] for name in place.fixes})
        except (KeyError, TypeError, ValueError) as e:
            raise StateError(f"load state: not what state_dict returned: {type(e).__name__}: {e}") from None
        if min(place) < 0:
            raise StateError(f"load state: epoch {place.epoch}, batch {place.batch}, sample {place.sample}: want 0 or more")
        return found

    @property
    def generation(self) -> str:
        """The generation that was read."""
        return str(self.identity["generation"])

    def check(self, plan: Plan) -> None:
        """Raises StateError if another dataset, order or batch size is read now."""
        for name, value in self.identity.items():
            if (now := getattr(plan, name)) != value:
                raise StateError(f"load state: {name} is {now!r}, and was {value!r} when the state was saved")

    def to_dict(self) -> dict[str, Any]:
        """Returns integers and texts."""
        sample = {"sample": self.place.sample} if self.place.sample else {}
        return {"state": _FORM, "epoch": self.place.epoch, "batch": self.place.batch, **self.identity, **sample}
