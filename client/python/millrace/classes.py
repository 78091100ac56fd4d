"""Names of classes: those that the values of a column stand for, and those that folders of pictures stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, Protocol, Union

from .errors import InvalidArgument


class Described(Protocol):
    """A Client."""

    def describe(self) -> dict[str, Any]:
        """Returns what is known of its dataset."""


class Named(Protocol):
    """A Sample."""

    @property
    def key(self) -> str:
        """Its name."""


def class_names(of: Union[Described, Mapping[str, Any]], part: Optional[str] = None) -> list[str]:
    """Returns the names of the classes 0, 1, 2... that a part's numbers stand for, or without a part those of class folders.

        names = millrace.class_names(client, "label")

    of is a client of the dataset, or what Client.describe says of the dataset.
    """
    description = of if isinstance(of, Mapping) else of.describe()
    if part is None:
        names, what = description.get("class_folders"), "its folders are no classes"
    else:
        of_part = [f for f in description.get("fields", ()) if f.get("name") == part]
        names, what = of_part[0].get("classes") if of_part else None, f"the values of part {part!r} have no names"
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"dataset {description.get('name')}: {what}")
    return names


class ClassFolders:
    """The classes of pictures in class folders, each a number from 0: the place of the folder's name in `classes`.

        classes = millrace.ClassFolders(client)
        for batch in client.epoch(0, decode=True):
            names = [classes.classes[number] for number in batch["cls"]]

    Every sample has the number as its part cls.
    """

    def __init__(self, of: Union[Described, Mapping[str, Any]]) -> None:
        """Takes a client of the dataset, or what Client.describe says of the dataset."""
        self.classes: list[str] = class_names(of)
        self._numbers = {name: i for i, name in enumerate(self.classes)}

    def __repr__(self) -> str:
        return f"<ClassFolders {', '.join(self.classes)}>"

    def __call__(self, sample: Union[Named, str]) -> int:
        """Returns the number of the class of a sample, which may be given by its key."""
        key = sample if isinstance(sample, str) else sample.key
        folder = key.split("/")[-2:-1]
        if not folder or folder[0] not in self._numbers:
            raise InvalidArgument(f"sample {key!r} lies in no folder of a class")
        return self._numbers[folder[0]]
