"""Classes that the folders of pictures stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

from .batch import Sample
from .errors import InvalidArgument


class ClassFolders:
    """The classes of pictures in class folders, each a number from 0: the place of the folder's name in `classes`.

        classes = millrace.ClassFolders(client.describe("photos"))
        for batch in client.epoch(0, keys=True):
            labels = [classes(sample) for sample in batch]

    Shards that `millrace pack --label-from-directory` wrote have the number as their part cls too.
    """

    def __init__(self, description: Mapping[str, Any]) -> None:
        """Takes what Client.describe says of a dataset."""
        names = description.get("class_folders")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise InvalidArgument(f"dataset {description.get('name')}: its folders are no classes")
        self.classes: list[str] = names
        self._numbers = {name: i for i, name in enumerate(names)}

    def __call__(self, sample: Union[Sample, str]) -> int:
        """Returns the number of the class of a sample, which may be given by its key."""
        key = sample if isinstance(sample, str) else sample.key
        folder = key.split("/")[-2:-1]
        if not folder or folder[0] not in self._numbers:
            raise InvalidArgument(f"sample {key!r} lies in no folder of a class")
        return self._numbers[folder[0]]
