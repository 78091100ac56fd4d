"""A gateway on a Unix socket that shares memory, correctly or not: batches of a real gateway, as docs/spec/shared-memory.md specifies."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import harness

SHRINK, GROW, FUTURE_WRITE = 0x2, 0x4, 0x10
SEALS = SHRINK | GROW | FUTURE_WRITE
NAME = "millrace-test"  # name of the memory in /proc/self/maps


def memory(data: bytes, size: int, seals: int = SEALS) -> tuple[int, mmap.mmap]:
    """Creates memory that begins with data. Returns a read-only descriptor of the memory, and the memory."""
    made = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(made, size)
        mapped = mmap.mmap(made, size)
        mapped[: len(data)] = data
        fcntl.fcntl(made, 1033, seals)  # F_ADD_SEALS
        return os.open(f"/proc/self/fd/{made}", os.O_RDONLY | os.O_CLOEXEC), mapped
    finally:
        os.close(made)


@dataclass
class Reply:
    """The next response."""

    head: bytes
    table: bytes
    said: dict[str, str]
    descriptors: list[int]
    text: str | None = None  # value of Millrace-Shared that replaces said
    ends_after: int | None = None  # number of bytes to send

    def sent(self) -> bytes:
        """The bytes of the response."""
        text = ", ".join(f"{k}={v}" if v else k for k, v in self.said.items()) if self.text is None else self.text
        head = re.sub(rb"(?i)content-type: [^\r]*", b"Content-Type: application/vnd.millrace.shared", self.head)
        head = re.sub(rb"(?i)content-length: \d+", b"Content-Length: %d" % len(self.table), head)
        more = f"\r\nMillrace-Shared: {text}".encode() if text else b""
        return (head + more + b"\r\n\r\n" + self.table)[: self.ends_after]


Lie = Callable[[int, Reply], None]
"""Receives the number of a reply and the reply, which it may change."""


class Lender:
    """Serves at `url`. It reuses memory after the release of its lease."""

    def __init__(self, port: int, at: Path, lie: Lie = lambda *_: None, spare: int = 4096) -> None:
        self.released: list[int] = []
        self.asked: list[bytes] = []  # heads of all requests
        self.connections = 0
        self.memory: list[mmap.mmap] = []
        self.url = f"unix:{at}"
        self._port, self._lie, self._spare, self._replies = port, lie, spare, 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(at))
        self._listener.listen()
        self._conns: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                conn = self._listener.accept()[0]
                self._conns.append(conn)
                self.connections += 1
                self._threads.append(threading.Thread(target=self._serve, args=(conn,), daemon=True))
                self._threads[-1].start()

    def _serve(self, conn: socket.socket) -> None:
        segments: dict[int, mmap.mmap] = {}
        lent: dict[int, int] = {}  # segment of each lease
        leases = 0
        with contextlib.suppress(OSError), conn:
            while head := harness._until(conn, b"\r\n\r\n"):
                self.asked.append(head)
                for lease in re.findall(rb"\d+", (re.search(rb"Millrace-Release: ([^\r]*)", head) or [b"", b""])[1]):
                    self.released.append(int(lease))
                    lent.pop(int(lease), None)
                answer = self._ask(head)
                if b"vnd.millrace.shared" not in head or b" 200 " not in answer.split(b"\r\n", 1)[0]:
                    conn.sendall(answer)
                    continue
                kept, _, body = answer.partition(b"\r\n\r\n")
                (begins,) = struct.unpack_from("<I", body, 28)
                data, descriptors = body[begins:], []
                free = [n for n, m in segments.items() if n not in lent.values() and len(m) >= len(data)]
                if free:
                    number = free[0]
                    segments[number][: len(data)] = data
                else:
                    number = len(segments)
                    came, segments[number] = memory(data, len(data) + self._spare)
                    self.memory.append(segments[number])
                    descriptors.append(came)
                said = {"lease": str(leases), "segment": str(number), "size": str(len(segments[number])), "length": str(len(data))}
                reply = Reply(kept, body[:begins], {**said, **({"descriptor": ""} if descriptors else {})}, descriptors)
                lent[leases] = number
                leases += 1
                try:
                    self._lie(self._replies, reply)
                    self._replies += 1
                    sent = reply.sent()
                    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(reply.descriptors)}i", *reply.descriptors))]
                    conn.sendmsg([sent[:1]], rights if reply.descriptors else [])
                    conn.sendall(sent[1:])
                finally:
                    for d in reply.descriptors:
                        os.close(d)
                if reply.ends_after is not None:
                    return

    def _ask(self, head: bytes) -> bytes:
        """Returns the complete response of the real gateway, in framed form."""
        with socket.create_connection(("127.0.0.1", self._port)) as s:
            head = re.sub(rb"Accept: application/vnd.millrace.shared\r\n", b"", head)
            head = re.sub(rb"Millrace-Release: [^\r]*\r\n", b"", head)
            s.sendall(head[:-2] + b"Connection: close\r\n\r\n")
            pieces = []
            while piece := s.recv(1 << 20):
                pieces.append(piece)
        answer = b"".join(pieces)
        return re.sub(rb"(?i)\r\nconnection: close", b"", answer, count=1)

    def close(self) -> None:
        """Stops the server, and closes all descriptors."""
        for s in (self._listener, *self._conns):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()
        for t in self._threads:
            t.join()
        self.memory.clear()
