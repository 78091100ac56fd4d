"""Messages to a caller that waits for a gateway."""

from __future__ import annotations

import logging
import socket
import threading
import time

import harness
import pytest

import millrace
from millrace import Routing


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "millrace" and r.levelno == logging.WARNING]


def test_a_refused_connection_is_told_at_once_and_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    began = time.monotonic()
    heard: list[float] = []

    class _Listen(logging.Handler):
        def emit(self, _: logging.LogRecord) -> None:
            heard.append(time.monotonic() - began)

    listen = _Listen()
    logging.getLogger("millrace").addHandler(listen)
    try:
        with millrace.Client(f"http://127.0.0.1:{port}", routing=Routing(first_answer=3)) as client, pytest.raises(millrace.GatewayUnavailable):
            client.datasets()
    finally:
        logging.getLogger("millrace").removeHandler(listen)
    (said,) = _warnings(caplog)
    assert said.startswith("read /v1/datasets: waiting for a gateway, asked once, for at most 3 s more: ")
    assert f"http://127.0.0.1:{port}" in said
    assert "refused" in said
    assert heard[0] < 1


def test_a_gateway_that_is_lost_is_told_after_two_seconds(
    gateway: harness.Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    down = threading.Event()
    proxy = harness.Proxy(gateway.port, lambda _n, _head, answer: b"" if down.is_set() else answer)
    try:
        with millrace.Client(proxy.url, "photos", deadline=30) as client:
            epoch = client.epoch(0, global_batch_size=32)
            down.set()
            raiser = threading.Timer(4, down.clear)
            raiser.start()
            epoch.batch(0)
            raiser.join()
            (said,) = _warnings(caplog)
            assert "waiting for a gateway, asked " in said
            assert " times in " in said
            caplog.clear()
            epoch.batch(1)  # without a wait there is no message
            assert not _warnings(caplog)
    finally:
        proxy.close()


def test_a_gateway_that_says_nothing_is_told_after_two_seconds(gateway: harness.Gateway, caplog: pytest.LogCaptureFixture) -> None:
    told: list[float] = []

    def silent(_number: int, head: bytes, answer: bytes) -> bytes:
        if harness.is_batch(head):
            began = time.monotonic()
            while not _warnings(caplog) and time.monotonic() - began < 20:
                time.sleep(0.05)
            told.append(time.monotonic() - began)
        return answer

    proxy = harness.Proxy(gateway.port, silent)
    with harness.closing(proxy), millrace.Client(proxy.url, "photos") as client:
        epoch = client.epoch(0)
        assert len(epoch.batch(0)) == 32
        assert 1.5 < told[0] < 5
        (said,) = _warnings(caplog)
        assert said.startswith("read epoch 0 batch 0: waiting for a gateway, asked once, for at most 1")
        assert said.endswith(f"{proxy.url} says nothing")
