"""Batches in shared memory according to docs/spec/shared-memory.md, from a gateway on a Unix socket."""

import array
import errno
import fcntl
import http.client
import mmap
import os
import re
import socket
from collections.abc import Callable
from io import BytesIO
from typing import Optional

from .http import TIMEOUT, Answer

TYPE = "application/vnd.millrace.shared"
SEALS = 2 | 4 | 16  # F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE
GET_SEALS = 1034


class Lent(Answer):
    """A response. If `said` is set, its samples are in `memory`."""

    def __init__(self, status: int, headers: "http.client.HTTPMessage", body: bytes) -> None:
        super().__init__(status, headers, body)
        self.said: dict[str, str] = {}
        self.memory: Optional[memoryview] = None

    @property
    def whole(self) -> bytes:
        return self.body + (self.memory or b"")


class Connection:
    """One connection to a Unix socket, with the descriptors that arrive over it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(TIMEOUT)
        self._socket.connect(path)
        self._read = b""
        self._came: list[int] = []
        self.descriptors: dict[int, int] = {}  # by segment
        self.segments: dict[int, mmap.mmap] = {}
        self.numbers: list[int] = []  # of leases to release
        self.faults: list[str] = []  # violations of the protocol

    def close(self) -> None:
        self._socket.close()

    def forget(self) -> None:
        """Closes descriptors. Mapped memory is released with its last view."""
        self.close()
        for d in [*self.descriptors.values(), *self._came]:
            os.close(d)
        self.descriptors.clear()
        self.segments.clear()

    def _more(self) -> bytes:
        data, control, flags, _ = self._socket.recvmsg(1 << 16, socket.CMSG_SPACE(64))
        for level, kind, content in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._came += array.array("i", content[: len(content) // 4 * 4])
        if flags & socket.MSG_CTRUNC:
            self.faults.append("more descriptors came than there is room for")
        if not data:
            raise http.client.IncompleteRead(self._read)
        return data

    def ask(
        self, path: str, method: str = "GET", release: Optional[list[str]] = None, headers: Optional[dict[str, str]] = None
    ) -> Lent:
        lines = {"Host": "localhost", **(headers or {})}
        if release:
            lines["Millrace-Release"] = ", ".join(release)
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._socket.sendall(head.encode() + b"\r\n")
        while b"\r\n\r\n" not in self._read:
            self._read += self._more()
        text, _, self._read = self._read.partition(b"\r\n\r\n")
        first, _, rest = text.partition(b"\r\n")
        status = int(first.split()[1])
        answer = Lent(status, http.client.parse_headers(BytesIO(rest + b"\r\n\r\n")), b"")
        length = 0 if method == "HEAD" or status == 304 else int(answer.header("Content-Length"))
        while len(self._read) < length:
            self._read += self._more()
        answer.body, self._read = self._read[:length], self._read[length:]
        self._take(answer)
        return answer

    def lend(self, path: str, release: Optional[list[str]] = None) -> Lent:
        return self.ask(path, release=release, headers={"Accept": TYPE})

    def _take(self, answer: Lent) -> None:
        text = answer.header("Millrace-Shared")
        came, self._came = self._came, []
        if (answer.header("Content-Type") == TYPE) != bool(text):
            self.faults.append(f"Content-Type {answer.header('Content-Type')!r} with Millrace-Shared: {text!r}")
        answer.said = dict(re.findall(r"([a-z]+)(?:=(\([\d ]*\)|\d+))?(?:, |$)", text))
        fresh = "descriptor" in answer.said
        if len(came) != (1 if fresh else 0):
            self.faults.append(f"{len(came)} descriptors came with Millrace-Shared: {text!r}")
        if not text:
            return
        lease, number, size, length = (int(answer.said[name]) for name in ("lease", "segment", "size", "length"))
        if lease in self.numbers:
            self.faults.append(f"lease {lease} came twice")
        self.numbers.append(lease)
        if fresh:
            if number in self.descriptors:
                self.faults.append(f"segment {number} came twice")
            self._check(came[0], size)
            self.descriptors[number] = came[0]
            self.segments[number] = mmap.mmap(came[0], size, mmap.MAP_SHARED, mmap.PROT_READ)
        answer.memory = memoryview(self.segments[number])[:length]
        for gone in re.findall(r"\d+", answer.said.get("gone", "")):
            self.segments.pop(int(gone), None)  # its descriptor stays, because its number is not reused

    def _check(self, descriptor: int, size: int) -> None:
        """The memory must have a fixed length, and only the gateway can write to it."""
        seals = fcntl.fcntl(descriptor, GET_SEALS)
        if os.fstat(descriptor).st_size != size or seals & SEALS != SEALS:
            self.faults.append(f"memory of {os.fstat(descriptor).st_size} bytes with the seals {seals}, want {size} and {SEALS}")
        tries: dict[str, Callable[[int], object]] = {
            "written": lambda d: os.pwrite(d, b"x", 0),
            "shortened": lambda d: os.ftruncate(d, 0),
            "lengthened": lambda d: os.ftruncate(d, 2 * size),
            "mapped for writing": lambda d: mmap.mmap(d, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE),
        }
        for name, attempt in tries.items():
            for how, d in (("", descriptor), (" once it is opened again", _open(descriptor))):
                if d is None:
                    continue
                try:
                    attempt(d)
                except OSError as e:
                    if e.errno not in (errno.EPERM, errno.EACCES, errno.EBADF, errno.EINVAL):
                        self.faults.append(f"memory that is {name}{how}: {e}")
                else:
                    self.faults.append(f"memory can be {name}{how}")
                if d != descriptor:
                    os.close(d)


def _open(descriptor: int) -> Optional[int]:
    """Opens the same memory for writing, or returns None."""
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
    except OSError:
        return None
