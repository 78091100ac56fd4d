"""Hides packages from Python as if they were not installed, with this directory on PYTHONPATH and for example HIDDEN=crc32c,numpy."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder


class _Hidden:
    """A finder that runs before all others.

    For a hidden package it searches in vain, which takes as long as if the package were not installed.
    """

    names = frozenset(filter(None, os.environ.get("HIDDEN", "").split(",")))

    @classmethod
    def find_spec(cls, name: str, *_: object) -> None:
        if name.partition(".")[0] in cls.names:
            assert PathFinder.find_spec(name + " is hidden") is None
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, _Hidden)  # type: ignore[arg-type]
