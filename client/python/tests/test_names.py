"""Patterns and SRV records: the order of the gateways, and the homes in it."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import pickle
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.rdatatype
import dns.resolver
import dns.rrset
import harness
import pytest

import millrace
from millrace import Reading, Routing
from millrace._http.fleet import Fleet, endpoints_of, home_by_rank, in_order
from millrace._local import is_gateway, served

HOMED = 4
SERVICE = "_http._tcp.gateways.test"


def names(address: str, rank: int = 0, world_size: int = 1) -> list[str]:
    home = home_by_rank
    return [g.name for g in Fleet(endpoints_of([address], home), home, lambda *_: True, lambda _: []).order(rank, world_size)]


def test_patterns_stand_for_gateways_in_order() -> None:
    eight = "http://gateways-{0..7}.gateways:8080"
    assert [names(eight, r, 16)[0] for r in (0, 1, 2, 15)] == [f"http://gateways-{i}.gateways:8080" for i in (0, 0, 1, 7)]
    assert len(set(names(eight, 5, 16))) == 8
    assert names("node{08..10}:80") == [f"http://node{n}:80" for n in ("08", "09", "10")]
    assert names("https://gw-{3..3}.gw") == ["https://gw-3.gw:443"]
    assert names("http://gw:{8080..8081}/proxy") == ["http://gw:8080/proxy", "http://gw:8081/proxy"]
    with millrace.Client(eight, "photos") as client:
        assert repr(client) == f"<Client of photos at {eight}>"


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("gw-{7..0}:80", "as in {0..7}"),
        ("gw-{a..b}:80", "want one {FIRST..LAST} of whole numbers"),
        ("gw-{0..1}.{0..1}:80", "want one {FIRST..LAST}"),
        ("gw-{0..1:80", "want one {FIRST..LAST}"),
        ("gw-{0..4096}:80", "stands for 4097 gateways, want at most 4096"),
        ("dns:gw:80", "give a pattern such as http://gateways-{0..7}.gw:80, or srv:_http._tcp.gw"),
        ("srv:gw", "want srv:_http._tcp.NAME"),
        ("srv:_http._tcp.gw:80", "want srv:_http._tcp.NAME"),
        (f"http://mr_{'a' * 43}" + "-{1..0}", "no user, password or token"),
    ],
)
def test_addresses_that_are_refused(address: str, told: str) -> None:
    with pytest.raises(millrace.InvalidArgument) as caught:
        millrace.Client(address, routing=Routing(home="rank"))
    assert told in str(caught.value)
    assert "a" * 43 not in str(caught.value)


def test_srv_without_dnspython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(millrace.InvalidArgument, match=r"install dnspython .*or give a pattern"):
        millrace.Client(f"srv:{SERVICE}")


def test_open_takes_patterns_and_services() -> None:
    assert is_gateway(f"srv:{SERVICE}")
    assert served(f"srv:{SERVICE}", None) == (f"srv:{SERVICE}", None)
    assert served("http://gw-{0..3}.gw:8080/photos", None) == ("http://gw-{0..3}.gw:8080", "photos")
    assert served("gw-{0..3}.gw:8080/v1/datasets/photos", None) == ("gw-{0..3}.gw:8080", "photos")
    assert served("gw-{0..3}.gw:8080", None) == ("gw-{0..3}.gw:8080", None)


def test_records_are_ordered_by_number() -> None:
    some = [(f"gw-{i}.gw", 80) for i in (10, 2, 0)]
    assert in_order(some, fill=False) == some[::-1]
    assert in_order(some, fill=True) == [(f"gw-{i}.gw", 80) for i in range(11)]
    unlike = [("b-0.gw", 80), ("a-2.gw", 80)]
    assert in_order(unlike, fill=True) == unlike
    addresses = [("10-0-0-9.gw", 80), ("10-0-0-4.gw", 80)]
    assert in_order(addresses, fill=True) == addresses[::-1]
    assert in_order([("gw-99999.gw", 80)], fill=True) == [("gw-99999.gw", 80)]


class NameServer:
    """A name server on a loopback port that has SRV records."""

    def __init__(self) -> None:
        self.records: list[str] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                asked, where = self._socket.recvfrom(4096)
                if not asked:
                    return
                question = dns.message.from_wire(asked)
                answer = dns.message.make_response(question)
                answer.flags |= dns.flags.AA
                if question.question[0].rdtype == dns.rdatatype.SRV and self.records:
                    answer.answer.append(dns.rrset.from_text(question.question[0].name, 0, "IN", "SRV", *self.records))
                else:
                    answer.set_rcode(3)
                self._socket.sendto(answer.to_wire(), where)

    def close(self) -> None:
        self._socket.sendto(b"", ("127.0.0.1", self.port))


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    """The name server for this process's SRV lookups. Names of gateways with a record resolve to loopback."""
    server, resolver, system = NameServer(), dns.resolver.Resolver(configure=False), socket.getaddrinfo
    resolver.nameservers, resolver.port = ["127.0.0.1"], server.port

    def lookup(host: Any, *args: Any, **named: Any) -> Any:
        if str(host).endswith(".gateways.test"):
            if not any(f" {host}." in record for record in server.records):
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            host = "127.0.0.1"
        return system(host, *args, **named)

    monkeypatch.setattr(dns.resolver, "default_resolver", resolver)
    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    yield server
    server.close()


def test_ranks_find_their_gateways_by_srv_records(name_server: NameServer, dataset: Path) -> None:
    """If a gateway has no record, like a pod that is starting, only its own ranks lose their home."""
    with contextlib.ExitStack() as ended:
        gateways = [harness.Gateway(f"photos={dataset}", args=("--host", f"gw-{i}.gateways.test")) for i in range(HOMED)]
        ended.enter_context(harness.closing(*gateways))
        records = [f"0 10 {g.port} gw-{i}.gateways.test." for i, g in enumerate(gateways)]
        name_server.records = records[::-1]
        alone = millrace.Client(gateways[0].url, "photos")
        want = [s.key for batch in ended.enter_context(alone).epoch(0, reading=Reading(keys=True)) for s in batch]

        def read(epoch: int) -> list[set[object]]:
            """Reads an epoch with 8 ranks, and returns the ranks that sent requests to each gateway."""
            got: list[list[str]] = []
            with millrace.Client(f"srv:{SERVICE}", "photos", routing=Routing(home="rank")) as client:
                for rank in range(2 * HOMED):
                    shared = {"rank": rank, "world_size": 2 * HOMED, "by": "locality", "homes": HOMED}
                    got += [[s.key for s in batch] for batch in client.epoch(epoch, **harness.grouped(keys=True, **shared))]
            assert sorted(k for keys in got for k in keys) == sorted(want)
            asked = [[r for r in g.requests("/batches/{batch}") if r["epoch"] == epoch] for g in gateways]
            return [{r["rank"] for r in requests} for requests in asked]

        assert read(1) == [{0, 1}, {2, 3}, {4, 5}, {6, 7}]
        name_server.records = records[1:]
        lost, *others = read(2)
        assert lost == set()
        assert [ranks - {0, 1} for ranks in others] == [{2, 3}, {4, 5}, {6, 7}]


def test_a_service_without_records(name_server: NameServer) -> None:
    assert name_server.records == []
    client = millrace.Client(f"srv:{SERVICE}", routing=Routing(first_answer=0.5))
    with client, pytest.raises(millrace.GatewayUnavailable, match=f"srv:{SERVICE}"):
        client.version()


def test_advice_about_homes_comes_once(gateway: harness.Gateway, dataset: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A job that reads from several gateways is advised once about homes, unless it has chosen."""
    caplog.set_level(logging.WARNING, "millrace")
    two = [gateway.url, gateway.url.replace("127.0.0.1", "localhost")]

    def told(where: Any = two, home: Any = None, **options: Any) -> int:
        caplog.clear()
        plan = harness.grouped(**{"rank": 0, "world_size": 4, "shuffle": "slot", **options})
        with millrace.Client(where, "photos", routing=Routing(home=home)) as client:
            for number in range(2):
                client.epoch(number, **plan)
            pickle.loads(pickle.dumps(client)).epoch(0, **plan)
        return sum("reads the whole dataset" in r.getMessage() for r in caplog.records)

    assert told() == 1
    assert "each of the 2 gateways" in caplog.text
    assert "millrace.Share(by='locality', homes=2)" in caplog.text
    assert told(gateway.url) == 0
    assert told(home="rank") == 0
    assert told(rank=1) == 0
    assert told(rank=0, world_size=1) == 0
    assert told(by="locality", homes=2) == 0
    assert told(shuffle="full") == 0
    port, peer = harness.free_port(), harness.free_port()
    cluster = ("--cluster", "alone", "--member", "a", "--join", "127.0.0.1:1", "--peer-listen", f"127.0.0.1:{peer}", "--peer-insecure")
    with harness.closing(harness.Gateway(f"photos={dataset}", port=port, args=cluster)):
        assert told([f"http://127.0.0.1:{port}", f"http://localhost:{port}"]) == 0
