"""What a forked child must not find locked or half done.

A fork copies the locks that other threads of the parent hold, but not these threads: in the child such a lock stays
closed for ever. The client's connections, buffers and readers belong to one process, and a child makes its own. This
module takes care of what both share.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

no_fork = threading.RLock()
"""A fork waits for this lock. Hold it for short work alone, never while you wait for the network or for a caller's function."""

before_fork: list[Callable[[], None]] = []
"""What is done before a fork, with no_fork held."""


def _begin_fork() -> None:
    no_fork.acquire()
    for do in before_fork:
        do()


def _begin_imports_anew() -> None:
    """Opens the locks of the modules that other threads of the parent were importing, and forgets their unfinished modules.

    A caller's decoder may import in a reader's thread, as Pillow does with the first image. The child imports such a module again.
    """
    bootstrap = getattr(importlib, "_bootstrap", None)  # CPython's; it repairs its own lock at a fork, but not those of modules
    me = threading.get_ident()
    for name, find in list(getattr(bootstrap, "_module_locks", {}).items()):
        lock = find()
        if getattr(lock, "owner", me) == me:
            continue
        lock.__init__(name)
        if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
            del sys.modules[name]
    getattr(bootstrap, "_blocking_on", {}).clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_begin_fork, after_in_parent=no_fork.release, after_in_child=no_fork._at_fork_reinit)  # type: ignore[attr-defined]
    os.register_at_fork(after_in_child=_begin_imports_anew)

parsing: AbstractContextManager[Any] = no_fork if sys.version_info[:2] == (3, 11) else nullcontext()
"""Hold it where a literal is parsed. CPython 3.11 counts the depth of trees for all threads together, and raises SystemError when two parse."""


def literal(text: str) -> Any:
    """Returns the value of one of Python's literals, as messages and the headers of NumPy's files have them."""
    with parsing:
        return ast.literal_eval(text)
