"""What belongs to one process: locks that a fork waits for, memory that is used again, and what is closed at the end.

A fork copies the locks that other threads of the parent hold, but not these threads: in the child such a lock stays
closed for ever. The client's connections, buffers and readers belong to one process, and a child makes its own. Here is
what both share.

A new buffer costs a pass over its memory (zeros, page faults): a quarter of the processor time that it takes to receive a body from the
same machine. So buffers are used again when nothing looks at them any more. A bytearray refuses to be resized while a memoryview, or an
array over one, is left, and so does a mapping: that is asked here.
"""

from __future__ import annotations

import ast
import importlib
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, Union

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


LARGE = 1 << 20  # bytes of a column from which on its memory is worth using again. The C library mixes up large and small ones, and keeps them
SPARE = 32  # a new buffer is larger than asked for by one part in so many, since the next batch may be a little longer

Take = Callable[[int], memoryview]
"""Gives so many bytes of memory."""


def new(size: int) -> memoryview:
    """A buffer that no reader lends again."""
    return memoryview(bytearray(size))


class Buffers:
    """The latest buffers of one reader, which the next reader takes over."""

    def __init__(self) -> None:
        self.most = 1
        """Knows as many buffers as the reader may have in use at once. Those beyond belong to the caller, who keeps batches."""
        self._lock = threading.Lock()  # guards what follows
        self._known: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """Returns `size` bytes with anything in them, lent for as long as there is a view of them."""
        with self._lock:
            free = [b for b in self._known if is_free(b)]
            b = min((b for b in free if size <= len(b) <= size + size // 4 + 4096), key=len, default=None)
            if b is None:
                # Those of other lengths go: they would be held in vain.
                self._known = [other for other in self._known if not any(other is f for f in free)][1 - self.most :]
                free.clear()  # before there is a new one
                b = bytearray(size + size // SPARE)
                self._known.append(b)
            return memoryview(b)[:size]

    @property
    def held(self) -> int:
        """Bytes."""
        return sum(map(len, self._known))


def is_free(memory: Union[bytearray, mmap.mmap]) -> bool:
    """Reports whether nothing looks at a buffer, or at memory that is mapped for reading."""
    try:
        if isinstance(memory, bytearray):
            memory.append(memory.pop())
        else:
            memory.resize(len(memory))
    except (BufferError, IndexError):
        return False
    except (TypeError, ValueError):  # it is only for reading, or has no descriptor: what is asked after the views
        return True
    return isinstance(memory, bytearray)


def own(value: Any) -> Any:
    """Returns a value that does not keep the bytes of a batch in memory: of a view its bytes."""
    return bytes(value) if isinstance(value, memoryview) else value


def size_of(value: Any) -> int:
    """About how many bytes a value takes: of tensors, arrays and bytes exactly, with all that a list, tuple or dict holds."""
    n = getattr(value, "nbytes", None)
    if isinstance(n, int):
        return n
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(size_of, value))
    if hasattr(value, "element_size"):  # a tensor, before torch 2
        return int(value.element_size() * value.nelement())
    if hasattr(value, "getbands"):  # an image of Pillow's
        return int(value.width * value.height * len(value.getbands()))
    return sys.getsizeof(value, 0)


def filled(out: Any, first: Any, values: Iterator[Any], alike: Callable[[Any], bool]) -> Any:
    """Writes the first value and those that follow into the rows of out, as they come. A list of all where one is not like the first."""
    out[0] = first
    for i, value in enumerate(values, 1):
        if not alike(value):
            return [*out[:i], value, *values]
        out[i] = value
    return out


class Closing:
    """A context manager whose end calls close."""

    def close(self) -> None:
        """Ends what runs and lets go of what is held."""
        raise NotImplementedError

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


S = TypeVar("S", bound=Closing)
