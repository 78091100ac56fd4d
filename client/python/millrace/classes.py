"""The names of the classes that the numbers of a part stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

from .client import ClientOwner, source_of
from .errors import InvalidArgument
from .view import Source


def class_names(of: Union[Source, ClientOwner, Mapping[str, Any]], part: str = "cls") -> list[str]:
    """Returns the names of the classes 0, 1, 2... that the numbers of a part stand for: of class folders the names of the folders.

        names = millrace.class_names(client)
        labels = millrace.class_names(client, "label")

    of is a Client or View of the dataset, a dataset that was made of one, or what Client.describe says. InvalidArgument: the values have no
    names, or the sources of a mixture number their classes differently.
    """
    description = of if isinstance(of, Mapping) else source_of("class_names", of).describe()
    names = next((f.get("classes") for f in description.get("fields", ()) if f.get("name") == part), None)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        why = f"the values of part {part!r} have no names"
        if description.get("sources"):
            why = f"not all sources of the mixture have the same names for the values of part {part!r}"
        raise InvalidArgument(f"dataset {description.get('name')}: {why}")
    return names
