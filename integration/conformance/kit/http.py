"""One request and its response."""

import http.client
import json
import socket
import urllib.parse
from typing import Any, Optional

TIMEOUT = 60.0


class Answer:
    def __init__(self, status: int, headers: "http.client.HTTPMessage", body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def header(self, name: str) -> str:
        return self.headers.get(name) or ""

    def json(self) -> Any:
        return json.loads(self.body)


class Local(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self._path)


def ask(base: str, path: str, method: str = "GET", headers: Optional[dict[str, str]] = None) -> Answer:
    """Sends a request to a gateway. A truncated body raises http.client.IncompleteRead."""
    url = urllib.parse.urlsplit(base)
    if url.scheme == "unix":
        connection: http.client.HTTPConnection = Local(url.path)
        url = url._replace(path="")
    elif url.scheme == "https":
        connection = http.client.HTTPSConnection(url.netloc, timeout=TIMEOUT)
    else:
        connection = http.client.HTTPConnection(url.netloc, timeout=TIMEOUT)
    try:
        connection.request(method, url.path.rstrip("/") + path, headers=headers or {})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def query(parameters: dict[str, str]) -> str:
    text = "&".join(f"{name}={urllib.parse.quote(value, safe=',:')}" for name, value in parameters.items())
    return "?" + text if text else ""


def batch_path(dataset: str, epoch: int, batch: int, parameters: dict[str, str]) -> str:
    return f"/v1/datasets/{dataset}/epochs/{epoch}/batches/{batch}{query(parameters)}"
