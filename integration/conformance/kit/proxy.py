"""A proxy in front of a gateway that simulates faults of networks and busy gateways, for one client."""

import email.message
import http.server
import re
import socket
import socketserver
import struct
import threading
import time
from typing import NamedTuple, Optional

from .http import ask

RETRY_AFTER = 1  # seconds


class Seen(NamedTuple):
    """One request, as received by the proxy."""

    when: float
    path: str
    batch: Optional[int]
    range_from: int
    if_range: str


class Fault(NamedTuple):
    name: str
    text: str  # description of the fault


FAULTS: tuple[Fault, ...] = (
    Fault("busy", "503 with Retry-After comes first"),
    Fault("cut", "the body ends in the middle: the connection is closed"),
    Fault("reset", "the body ends in the middle: the connection is reset"),
    Fault("closed", "the connection is closed without an answer"),
    Fault("damaged", "one byte of the body is another"),
    Fault("whole", "the body is cut, and the answer to the Range is 200 and the whole body"),
    Fault("cut twice", "the body is cut, and the rest of it too"),
)


class Proxy(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Forwards requests, but applies fault number b to the first requests for batch b of an epoch.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, gateway: str, faults: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gateway, self.faults = gateway, faults
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.seen: list[Seen] = []
        self._times: dict[int, int] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self._thread.start()

    def note(self, path: str, headers: email.message.Message) -> tuple[str, int]:
        """Records a request. Returns the fault for it, and the number of earlier requests for its batch."""
        found = re.search(r"/batch(?:es)?/(\d+)(\?|$)", path)
        batch = int(found[1]) if found else None
        from_ = re.match(r"bytes=(\d+)-$", headers.get("Range") or "")
        with self._lock:
            start = int(from_[1]) if from_ else 0
            self.seen.append(Seen(time.monotonic(), path, batch, start, headers.get("If-Range") or ""))
            if batch is None:
                return "", 0
            before = self._times.get(batch, 0)
            self._times[batch] = before + 1
        if not self.faults or batch >= len(FAULTS):
            return "", before
        return FAULTS[batch].name, before

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores errors of connections: a client may close one at any time."""

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    server: Proxy

    def log_message(self, *_: object) -> None:
        """Logs nothing: the report lists the requests."""

    def do_HEAD(self) -> None:
        self._pass_on("", 1)

    def do_GET(self) -> None:
        self._pass_on(*self.server.note(self.path, self.headers))

    def _pass_on(self, fault: str, before: int) -> None:
        first = before == 0
        if fault == "busy" and first:
            self._busy()
            return
        if fault == "closed" and first:
            self._hang_up(reset=False)
            return
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "accept-encoding")}
        if fault == "whole":
            headers = {k: v for k, v in headers.items() if k.lower() not in ("range", "if-range")}
        answer = ask(self.server.gateway, self.path, self.command, headers)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("date", "server", "connection", "transfer-encoding"):
                self.send_header(name, value)
        self.end_headers()
        body = answer.body
        if fault == "damaged" and first:
            middle = len(body) // 2
            body = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
        cut = (fault in ("cut", "reset", "whole", "cut twice") and first) or (fault == "cut twice" and before == 1)
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self._hang_up(reset=fault == "reset")

    def _busy(self) -> None:
        body = b'{"title":"Service Unavailable","status":503,"code":"overloaded","retryable":true,"retry_after_ms":1000}'
        self.send_response(503)
        self.send_header("Retry-After", str(RETRY_AFTER))
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _hang_up(self, reset: bool) -> None:
        self.close_connection = True
        self.wfile.flush()
        if reset:
            # The data must be sent before the reset, because a reset discards unsent data.
            time.sleep(0.1)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


def closed_port() -> int:
    """Returns a port without a listener."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
