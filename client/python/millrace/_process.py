"""Resources of one process: locks that a fork waits for, reusable memory, and cleanup at exit.

A fork copies locks that other threads of the parent hold, but not these threads: in the child such a lock would stay locked forever.
Connections, buffers and readers therefore belong to one process, and a child creates its own. This module has the parts that both share.

A new buffer costs a pass over its memory (zeros, page faults): a quarter of the processor time of receiving a body on the same machine.
Buffers are therefore reused when no view of them is left. A bytearray, or a mapping, cannot be resized while a memoryview or an array over
it exists, which is how views are detected.
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
"""A fork waits for this lock. Hold it only for short operations, never during network access or a caller's function."""

before_fork: list[Callable[[], None]] = []
"""Functions to call before a fork, with no_fork held."""


def _begin_fork() -> None:
    no_fork.acquire()
    for do in before_fork:
        do()


def import_whole(module: str) -> Any:
    """Imports a library for a reader's thread. A fork waits for it, because a child cannot complete its parent's import."""
    with no_fork:
        found = importlib.import_module(module)
        finish_imports()
        return found


def finish_imports() -> None:
    """Makes Pillow, if imported, load its formats before readers' threads start; otherwise a thread would do so later."""
    pillow: Any = sys.modules.get("PIL.Image")
    if hasattr(pillow, "init"):
        with no_fork:
            pillow.preinit()  # loads the usual formats first, because formats are tried in this order
            pillow.init()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_begin_fork, after_in_parent=no_fork.release, after_in_child=no_fork._at_fork_reinit)  # type: ignore[attr-defined]

parsing: AbstractContextManager[Any] = no_fork if sys.version_info[:2] == (3, 11) else nullcontext()
"""Hold it while parsing a literal. CPython 3.11 counts the depth of trees globally, and raises SystemError if two threads parse."""


def literal(text: str) -> Any:
    """Returns the value of a Python literal, such as a NumPy header."""
    with parsing:
        return ast.literal_eval(text)


# minimum bytes of a column whose memory is reused: the C library mixes large and small blocks, and does not return them
LARGE = 1 << 20
# a new buffer is larger than requested by 1/SPARE, since the next batch may be slightly longer
SPARE = 32

Take = Callable[[int], memoryview]
"""Returns the requested number of bytes of memory."""


def new(size: int) -> memoryview:
    """Returns a buffer that readers do not reuse."""
    return memoryview(bytearray(size))


class Buffers:
    """The latest buffers of one reader, which the next reader reuses."""

    def __init__(self) -> None:
        self.most = 1
        """Maximum buffers to reuse: as many as the reader uses at once. Others belong to the caller, who keeps batches."""
        self._lock = threading.Lock()  # guards the fields below
        self._known: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """Returns `size` bytes with arbitrary content, in use while a view of them exists."""
        with self._lock:
            free = [b for b in self._known if is_free(b)]
            b = min((b for b in free if size <= len(b) <= size + size // 4 + 4096), key=len, default=None)
            if b is None:
                # Free buffers of other lengths are dropped.
                self._known = [other for other in self._known if not any(other is f for f in free)][1 - self.most :]
                free.clear()  # frees these before allocating a new one
                b = bytearray(size + size // SPARE)
                self._known.append(b)
            return memoryview(b)[:size]

    @property
    def held(self) -> int:
        """Total bytes of the buffers."""
        return sum(map(len, self._known))


def is_free(memory: Union[bytearray, mmap.mmap]) -> bool:
    """Reports whether no view of a buffer, or of a read-only mapping, is left."""
    try:
        if isinstance(memory, bytearray):
            memory.append(memory.pop())
        else:
            memory.resize(len(memory))
    except (BufferError, IndexError):
        return False
    # a read-only mapping, or one without descriptor: views are checked first
    except (TypeError, ValueError):
        return True
    return isinstance(memory, bytearray)


def own(value: Any) -> Any:
    """Returns a value that does not keep the bytes of a batch in memory: a view is copied to bytes."""
    return bytes(value) if isinstance(value, memoryview) else value


def size_of(value: Any) -> int:
    """Estimates the bytes of a value: exact for tensors, arrays and bytes, including all elements of a list, tuple or dict."""
    n = getattr(value, "nbytes", None)
    if isinstance(n, int):
        return n
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(size_of, value))
    if hasattr(value, "element_size"):  # a tensor, before torch 2
        return int(value.element_size() * value.nelement())
    if hasattr(value, "getbands"):  # an image of Pillow
        return int(value.width * value.height * len(value.getbands()))
    return sys.getsizeof(value, 0)


def filled(out: Any, first: Any, values: Iterator[Any], alike: Callable[[Any], bool]) -> Any:
    """Writes the first value and the following ones into the rows of out. Returns a list of all values if one differs from the first."""
    out[0] = first
    for i, value in enumerate(values, 1):
        if not alike(value):
            return [*out[:i], value, *values]
        out[i] = value
    return out


class Closing:
    """A context manager that calls close when it is left."""

    def close(self) -> None:
        """Stops running work and releases resources."""
        raise NotImplementedError

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


S = TypeVar("S", bound=Closing)
