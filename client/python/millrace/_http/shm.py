"""Batches in shared memory of a gateway on this machine, with the protocol of docs/spec/shared-memory.md.

Memory is mapped once and reused for later batches. The gateway may overwrite a batch when no view of it is left, which a mapping detects
like a bytearray. Such memory is released with the next request on its connection.
"""

from __future__ import annotations

import array
import contextlib
import importlib.util
import mmap
import os
import re
import socket
import sys
import weakref
from collections.abc import Mapping
from typing import Any, Optional

from .._process import before_fork, is_free, no_fork
from ..errors import ProtocolError

MEDIA_TYPE = "application/vnd.millrace.shared"
MOST_BYTES = 1 << 40  # maximum size of a segment: more is an error

_GET_SEALS, _SEALS = 1034, 0x2 | 0x4 | 0x10  # F_GET_SEALS; F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE
_ROOM = socket.CMSG_SPACE(4 * 16) if hasattr(socket, "CMSG_SPACE") else 0
_TEXT = r'"(?:[^"\\]|\\.)*"'
_MEMBER = re.compile(rf'[ \t]*([a-z*][a-z0-9_.*-]*)(?:=(\((?:{_TEXT}|[^"()])*\)|{_TEXT}|[^",; \t()]+))?(?:;(?:{_TEXT}|[^",])*)?[ \t]*(?:,|$)')
_NUMBERS = re.compile(r"\(([0-9 ]*)\)")
# otherwise each mapping keeps a descriptor
_UNTRACKED: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
_MAYMOVE, _FIXED = 1, 2  # flags of mremap


def _works() -> bool:
    """Reports whether this interpreter can detect views of a mapping."""
    try:
        with contextlib.closing(mmap.mmap(-1, mmap.PAGESIZE, access=mmap.ACCESS_READ, **_UNTRACKED)) as memory:
            if not is_free(memory):
                return False
            with memoryview(memory)[1:]:
                return not is_free(memory)
    except (OSError, ValueError, AttributeError, SystemError):
        return False


SUPPORTED = sys.platform == "linux" and _ROOM > 0 and importlib.util.find_spec("_ctypes") is not None and _works()
"""Whether this process supports shared memory."""


class LocalSocket(socket.socket):
    """A connection to a gateway on this machine, with the shared memory that it has received."""

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self.descriptors: list[int] = []  # received descriptors that are not used yet
        self.segments = Segments()

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receives bytes, and stores accompanying descriptors."""
        n, ancillary, _, _ = self.recvmsg_into([memoryview(buffer)[: nbytes or None]], _ROOM, flags | socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                came = array.array("i")
                came.frombytes(data[: len(data) - len(data) % came.itemsize])
                self.descriptors += came
        while len(self.descriptors) > 2:  # one extra descriptor is enough to reject a response
            os.close(self.descriptors.pop())
        return n

    @property
    def refuses(self) -> bool:
        """Whether no request may follow, because unexpected data has arrived or the two sides may disagree about mappings."""
        return bool(self.descriptors) or self.segments.spoiled

    def take(self, text: Optional[str], table: Optional[int]) -> memoryview:
        """Returns the bytes that a response's header Millrace-Shared describes. table is their length according to a table, if there is one."""
        came, self.descriptors = self.descriptors, []
        try:
            if self.segments.spoiled:
                raise InterruptedError("this process was forked meanwhile")
            return self.segments.take(_members(text or ""), came, table)
        except InterruptedError:
            raise  # retried over another connection
        except (ValueError, KeyError, OSError, OverflowError) as e:
            self.segments.spoiled = True
            raise ProtocolError(f"no memory: Millrace-Shared: {(text or '')[:200]!r}: {type(e).__name__} {e}") from None
        finally:
            for descriptor in came:
                os.close(descriptor)

    def close(self) -> None:
        """Closes the connection. Memory with views stays mapped."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []
        self.segments.drop()
        super().close()


def _members(text: str) -> dict[str, str]:
    """Parses a dictionary of structured fields, as far as the protocol uses them. Raises ValueError if it is malformed."""
    found, at = {}, 0
    while at < len(text):
        member = _MEMBER.match(text, at)
        if member is None:
            raise ValueError(f"{text[at : at + 100]!r}")
        found[member[1]] = member[2] or ""
        at = member.end()
    return found


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 15:
        raise ValueError(f"{text!r} is no number")
    return int(text)


# All mappings of this process, including those of closed connections.
_segments: weakref.WeakSet[Segments] = weakref.WeakSet()
_mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


class Segments:
    """The shared memory of one connection."""

    def __init__(self) -> None:
        self._mapped: dict[int, mmap.mmap] = {}  # mappings by segment number
        self._lent: dict[int, int] = {}  # segments by lease
        self.spoiled = False
        """Whether the gateway and this process may disagree about mappings."""
        with no_fork:
            _segments.add(self)

    @property
    def held(self) -> int:
        """Total mapped bytes."""
        return sum(map(len, self._mapped.values()))

    @property
    def ready(self) -> bool:
        """Whether a segment has no views."""
        with no_fork:
            return any(is_free(memory) for memory in self._mapped.values())

    def let_go(self) -> str:
        """Returns the leases without views, for the header Millrace-Release, or "" if there are none."""
        with no_fork:
            over = [lease for lease, segment in self._lent.items() if is_free(self._mapped[segment])]
            for lease in over:
                del self._lent[lease]
        return ", ".join(map(str, over))

    def take(self, said: Mapping[str, str], came: list[int], table: Optional[int]) -> memoryview:
        """Returns the bytes of a lease. Raises ValueError, KeyError or OSError if the protocol is violated."""
        lease, segment, size, length = (_number(said[name]) for name in ("lease", "segment", "size", "length"))
        if not 0 < length <= size <= MOST_BYTES or table not in (None, length):
            raise ValueError(f"{length} bytes of {size}, where the table says {table}")
        if len(came) != ("descriptor" in said) or (segment in self._mapped) == bool(came) or lease in self._lent or segment in self._lent.values():
            raise ValueError(f"{len(came)} descriptors came, and segment {segment} is {'known' if segment in self._mapped else 'not known'}")
        gone = _NUMBERS.fullmatch(said.get("gone", "()"))
        if gone is None:
            raise ValueError("gone is no list of numbers")
        with no_fork:
            if came:
                self._mapped[segment] = _map(came[0], size)
            memory = self._mapped[segment]
            if len(memory) != size:
                raise ValueError(f"segment {segment} has {len(memory)} bytes")
            self._lent[lease] = segment
            for number in map(int, gone[1].split()):  # segments with views stay mapped
                _close(self._mapped.pop(number, None))
            self._lent = {one: at for one, at in self._lent.items() if at in self._mapped}
            return memoryview(memory)[:length]

    def drop(self) -> None:
        """Unmaps the segments without views. A segment with views is unmapped with its last view."""
        with no_fork:
            self._lent.clear()
            while self._mapped:
                _close(self._mapped.popitem()[1])


def _close(memory: Optional[mmap.mmap]) -> None:
    if memory is not None:
        with contextlib.suppress(BufferError):  # it still has views
            memory.close()


def _map(descriptor: int, size: int) -> mmap.mmap:
    """Maps memory that a gateway has sealed. Unsealed memory could shrink, and accessing it would kill this process."""
    import fcntl

    is_ = os.fstat(descriptor)
    if is_.st_size != size:
        raise ValueError(f"the descriptor has {is_.st_size} bytes")
    if fcntl.fcntl(descriptor, _GET_SEALS) & _SEALS != _SEALS:
        raise ValueError("the descriptor is not sealed")
    memory = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ, **_UNTRACKED)
    memory.madvise(mmap.MADV_DONTFORK)  # for forks that Python does not detect
    _mappings.add(memory)
    return memory


def _copy_in_place(memory: mmap.mmap) -> None:
    """Replaces memory by a private copy at the same address. Its views stay valid."""
    import ctypes

    view = (ctypes.c_void_p * 16)()  # a Py_buffer, which begins with the address
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memory), ctypes.byref(view), 0)
    address = ctypes.c_void_p(view[0])
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    size = ctypes.c_size_t(-(-len(memory) // mmap.PAGESIZE) * mmap.PAGESIZE)
    c = ctypes.CDLL(None)
    c.mmap.restype = ctypes.c_void_p
    copy = ctypes.c_void_p(c.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, ctypes.c_long(0)))
    if copy.value == ctypes.c_void_p(-1).value:
        return  # if no memory is left for a copy, the child has no mapping
    ctypes.memmove(copy, address, len(memory))
    c.mprotect(copy, size, mmap.PROT_READ)
    c.mremap(copy, size, size, _MAYMOVE | _FIXED, address)


def _keep_apart() -> None:
    """Before a fork, copies memory with views to private memory, and unmaps the rest.

    Both processes then keep their data when the gateway reuses the segments.
    """
    for segments in _segments:
        segments.spoiled = segments.spoiled or segments.held > 0
        segments.drop()
    while _mappings:
        memory = _mappings.pop()
        if not memory.closed:
            _copy_in_place(memory)


if SUPPORTED:
    before_fork.append(_keep_apart)
