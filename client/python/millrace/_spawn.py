"""Datasets on their way to workers that are spawned: what cannot be sent is named before a worker starts."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from multiprocessing.reduction import ForkingPickler
from typing import Any

from .errors import InvalidArgument


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
