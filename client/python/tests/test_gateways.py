"""The choice of a gateway: addresses, names, the nearest gateway, and gateways that rest after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

import millrace
from millrace import Routing
from millrace._http import fleet
from millrace._http.fleet import Fleet, Gateway, endpoints_of, home_by_rank


def a_fleet(*addresses: str, home: Any = None, lookup: Callable[[str], list[str]] = lambda _: [], probe: Any = None) -> Fleet:
    return Fleet(endpoints_of(addresses, home), home, probe or (lambda *_: True), lookup)


def names(gateways: list[Gateway]) -> list[str]:
    return [g.name for g in gateways]


def test_addresses() -> None:
    assert names(a_fleet("10.0.0.1:80", "https://gw/x/", "http://[::1]:8080", home=home_by_rank).order(0, 1)) == [
        "http://10.0.0.1:80",
        "https://gw:443/x",
        "http://[::1]:8080",
    ]


def test_home_by_rank() -> None:
    assert [home_by_rank(r, 4, 2) for r in range(4)] == [0, 0, 1, 1]
    assert home_by_rank(9, 4, 2) == 0
    f = a_fleet("a:1", "b:1", "c:1", "d:1", home=home_by_rank)
    assert [names(f.order(r, 4))[0] for r in range(4)] == ["http://a:1", "http://b:1", "http://c:1", "http://d:1"]
    # Ranks that lose their home go to different gateways.
    assert len({names(f.order(r, 4))[1] for r in range(4)}) > 1


def test_a_name_stands_for_its_addresses() -> None:
    found = ["10.0.0.1", "10.0.0.2"]
    f = a_fleet("dns:gw:8080", lookup=lambda _: found)
    assert sorted(names(f.order(0, 1))) == ["http://10.0.0.1:8080", "http://10.0.0.2:8080"]
    assert {g.address.named for g in f.gateways} == {"gw:8080"}
    first = f.gateways[0]
    found[:] = [first.address.host, "10.0.0.3"]
    f.all_failed()  # names are looked up again
    assert sorted(names(f.order(0, 1))) == sorted([first.name, "http://10.0.0.3:8080"])
    assert first in f.gateways  # it keeps its observations
    found.clear()
    f.all_failed()
    assert len(f.order(0, 1)) == 2  # if the name server fails, the known addresses stay
    with pytest.raises(millrace.GatewayUnavailable, match="look up gateways"):
        a_fleet("dns:gw:8080").order(0, 1)
    assert names(a_fleet("http://gw:8080").order(0, 1)) == ["http://gw:8080"]
    assert names(a_fleet("http://gw:8080", lookup=lambda _: ["127.0.0.1", "::1"]).order(0, 1)) == ["http://gw:8080"]


def test_the_near_one_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    took = {"10.0.0.1": 0.04, "10.0.0.2": 0.001}

    def probe(g: Gateway, _: float) -> bool:
        time.sleep(took[g.address.host])
        return True

    f = a_fleet("10.0.0.1:1", "10.0.0.2:1", probe=probe)
    assert names(f.order(0, 1))[0] == "http://10.0.0.2:1"
    took.update({"10.0.0.1": 0.001, "10.0.0.2": 0.04})
    assert names(f.order(0, 1))[0] == "http://10.0.0.2:1"  # not measured again so soon
    monkeypatch.setattr(fleet, "PROBE_EVERY", 0.0)
    for _ in range(8):
        f.order(0, 1)
    assert names(f.order(0, 1))[0] == "http://10.0.0.1:1"


def test_who_failed_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = {"b"}

    def probe(g: Gateway, _: float) -> bool:
        return g.address.host not in dead

    f = a_fleet("a:1", "b:1", "c:1", home=lambda *_: 1, probe=probe)
    b = f.order(0, 1)[0]
    assert b.name == "http://b:1"
    f.failed(b, 0.0, 0.0)
    assert names(f.order(0, 1)) == ["http://a:1", "http://c:1", "http://b:1"]
    clock = time.monotonic() + 100
    monkeypatch.setattr(fleet.time, "monotonic", lambda: clock)
    assert names(f.order(0, 1))[-1] == "http://b:1"  # probed, and still unreachable
    assert b.faults == 2
    dead.clear()
    clock += 100
    assert f.order(0, 1)[0] is b
    f.answered(b)
    assert (b.faults, b.until) == (0, None)


def test_one_that_starts_is_asked_last(
    through: Callable[[harness.Fault], harness.Proxy], gateway: harness.Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "NEAR_GAIN", 60.0)  # if two gateways are ready, the first one is used, however far away it is
    starting = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
    comes = through(lambda _, head, answer: starting if b" /readyz " in head else answer)
    with millrace.Client([comes.url, gateway.url]) as client:
        for b in range(4):
            client.epoch(0).batch(b)
    assert comes.asked(b" /readyz ")
    assert not comes.asked(b"/batch")
    # the other address has no listener
    with millrace.Client([comes.url, f"http://127.0.0.1:{harness.free_port()}"]) as client:
        assert len(client.epoch(0).batch(0)) == 32
    assert comes.asked(b"/batch")


def test_cooldown_grows() -> None:
    f = a_fleet("a:1", "b:1", home=lambda *_: 0)
    a = f.order(0, 1)[0]
    waits = []
    for _ in range(7):
        f.failed(a, 0.0, 0.0)
        assert a.until is not None
        waits.append(a.until - time.monotonic())
        a.until = time.monotonic() - 1
    assert all(w <= 1.3 * fleet.MOST_COOLDOWN for w in waits)
    assert waits[0] < 1.3 < waits[1] < waits[3]


def test_a_list_out_of_step(gateway: harness.Gateway, dataset: Any) -> None:
    # One of two gateways does not know the dataset. During an update the other one may serve it.
    other = harness.Gateway(f"others={dataset}")
    with harness.closing(other), millrace.Client([other.url, gateway.url], "photos", routing=Routing(home=lambda *_: 0)) as client:
        assert len(client.epoch(0).batch(3)) == 32
        with pytest.raises(millrace.NotFound):
            client.epoch(0, dataset="nowhere")


def test_every_name_is_asked_under_its_own(gateway: harness.Gateway) -> None:
    seen: list[bytes] = []
    proxy = harness.Proxy(gateway.port, lambda _, head, answer: (seen.append(head), answer)[1])
    name = f"dns:gateways.example:{proxy.port}"
    with harness.closing(proxy), millrace.Client(name, routing=Routing(lookup=lambda _: ["127.0.0.1"])) as client:
        client.epoch(0).batch(0)
    assert all(f"Host: gateways.example:{proxy.port}\r\n".encode() in h for h in seen)
    assert seen


@pytest.mark.parametrize("half", [b"", b"\n", b"\xff", b"8080", b"127.0.0.1:0", b"127.0.0.1:123456"])
def test_a_port_that_is_not_written_yet(gateway: harness.Gateway, tmp_path: Path, half: bytes) -> None:
    """A gateway that is starting may have written only a part of its port file. The client retries."""
    at = tmp_path / "port"
    at.write_bytes(half)
    unavailable = pytest.raises(millrace.GatewayUnavailable, match="holds no port")
    with millrace.Client(f"port:{at}", routing=Routing(first_answer=0.2)) as c, unavailable as caught:
        c.version()
    assert caught.value.retryable
    with millrace.Client(f"port:{at}", routing=Routing(first_answer=30)) as c:
        written = threading.Timer(0.2, at.write_text, [f"127.0.0.1:{gateway.port}\n"])
        written.start()
        assert c.version()
        written.join()
