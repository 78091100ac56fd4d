"""The names of the classes that the numbers of a part stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Union

from .errors import InvalidArgument


class Described(Protocol):
    """A Client or View."""

    def describe(self) -> dict[str, Any]:
        """Returns what is known of its dataset."""


def class_names(of: Union[Described, Mapping[str, Any]], part: str = "cls") -> list[str]:
    """Returns the names of the classes 0, 1, 2... that the numbers of a part stand for: of class folders the names of the folders.

        names = millrace.class_names(client)
        labels = millrace.class_names(client, "label")

    of is a Client or View of the dataset, or what Client.describe says of the dataset. InvalidArgument: the values have no names, as in a mixture
    whose sources number their classes differently.
    """
    description = of if isinstance(of, Mapping) else of.describe()
    names = next((f.get("classes") for f in description.get("fields", ()) if f.get("name") == part), None)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"dataset {description.get('name')}: the values of part {part!r} have no names")
    return names
