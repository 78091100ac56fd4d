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


def import_whole(module: str) -> Any:
    """Imports a library for a reader's thread. A fork waits: a child would wait for ever for a module that its parent has half imported."""
    with no_fork:
        found = importlib.import_module(module)
        finish_imports()
        return found


def finish_imports() -> None:
    """Has Pillow, if it was imported, import its formats before readers' threads begin: else it does so with the first image that one opens."""
    pillow: Any = sys.modules.get("PIL.Image")
    if hasattr(pillow, "init"):
        with no_fork:
            pillow.preinit()  # the usual ones first: formats are tried in the order in which they came
            pillow.init()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_begin_fork, after_in_parent=no_fork.release, after_in_child=no_fork._at_fork_reinit)  # type: ignore[attr-defined]

parsing: AbstractContextManager[Any] = no_fork if sys.version_info[:2] == (3, 11) else nullcontext()
"""Hold it where a literal is parsed. CPython 3.11 counts the depth of trees for all threads together, and raises SystemError when two parse."""


def literal(text: str) -> Any:
    """Returns the value of one of Python's literals, as messages and the headers of NumPy's files have them."""
    with parsing:
        return ast.literal_eval(text)
