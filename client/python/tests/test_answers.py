"""Responses to requests without connections: JSON, batches, the rest of an incomplete body, and refusals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Optional, Union

import pytest
from scripted import A, Clock, Script

from millrace import errors
from millrace._http import gateways
from millrace._http.gateways import Expected, Gateways, Transfer, target_of
from millrace._http.wire import ShortBody
from millrace.crc import checksum
from millrace.errors import MillraceError


class Answer:
    """A response of a fake wire, whose body arrives in pieces. An exception among the pieces is raised."""

    sock = None
    reason = "Odd"

    def __init__(self, status: int, headers: Mapping[str, str], *pieces: Union[bytes, Exception], length: Optional[int] = -1) -> None:
        self.status, self.headers, self.pieces = status, {k.lower(): v for k, v in headers.items()}, list(pieces)
        self.length = sum(len(p) for p in pieces if isinstance(p, bytes)) if length == -1 else length

    def readinto(self, into: memoryview) -> int:
        if not self.pieces:
            return 0
        piece = self.pieces.pop(0)
        if isinstance(piece, Exception):
            raise piece
        into[: len(piece)] = piece
        return len(piece)

    def read(self, most: int) -> bytes:
        return b"".join(p for p in self.pieces if isinstance(p, bytes))[: most + 1]


class FakeWire:
    transport = ""
    closed = False

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.sent = list(answers), []  # type: ignore[var-annotated]

    @contextlib.contextmanager
    def send(self, a: Any, method: str, target: str, headers: dict[str, str], body: Optional[bytes] = None) -> Iterator[Answer]:
        assert a is not None
        self.sent.append((method, target, headers, body))
        yield self.answers.pop(0)


def through(core: Gateways, *answers: Answer) -> FakeWire:
    wire = FakeWire(*answers)
    core.here().wire = wire  # type: ignore[assignment]
    return wire


def test_json(clock: Clock) -> None:
    core = Script(clock).core
    wire = through(core, Answer(200, {}, b'{"a": 1}'), Answer(201, {}, b"[]"))
    assert core.json("GET", "/x", {"b": "2", "a": "1 2"}) == {"a": 1}
    assert core.json("POST", "/x", body={"é": None}) == []
    accept = {"Accept": "application/json"}
    assert wire.sent == [("GET", "/x?a=1%202&b=2", accept, None), ("POST", "/x", accept, b'{"\\u00e9": null}')]
    with pytest.raises(ValueError, match="not JSON compliant"):
        core.json("POST", "/x", body=float("nan"))
    wire = through(core, *(Answer(200, {}, b"<html>") for _ in range(4)))
    with pytest.raises(errors.ProtocolError, match=rf"^read /x: {A}: /x: no JSON: "):
        core.json("GET", "/x")
    wire = through(core, Answer(404, {}, b""))
    with pytest.raises(errors.NotFound, match=rf"^send /x: {A}: 404 Odd"):
        core.json("POST", "/x")


def test_json_that_is_too_long(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "MAX_JSON", 4)
    core = Script(clock).core
    through(core, Answer(200, {}, b"1234"))
    assert core.json("GET", "/x") == 1234
    through(core, *(Answer(200, {}, b"12345") for _ in range(4)))
    with pytest.raises(errors.ProtocolError, match="more than 4 bytes of JSON"):
        core.json("GET", "/x")


def test_parts_of_a_resource(clock: Clock) -> None:
    core = Script(clock).core
    wire = through(core, Answer(206, {}, b"abc"))
    assert core.json("GET", "/x", span=range(4, 7)) == b"abc"
    assert wire.sent == [("GET", "/x", {"Range": "bytes=4-6"}, None)]
    for answer, text in (
        (Answer(200, {}, b"abc"), "/x: no parts"),
        (Answer(206, {}, b"abcd"), "/x: 4 bytes, want 3"),
    ):
        through(core, *[answer] * 4)
        with pytest.raises(errors.ProtocolError, match=text):
            core.json("GET", "/x", span=range(4, 7))
    through(core, Answer(201, {}, b"abc"))
    with pytest.raises(errors.ProtocolError, match="201 Odd"):
        core.json("GET", "/x", span=range(4, 7))


BODY = b"0123456789"
WANT = Expected("/v1/datasets/d/epochs/1/batches/2", {"batch_size": "4", "world_size": "2"}, "d", 1, 2, 5, 0, 2)
TARGET = "/v1/datasets/d/epochs/1/batches/2?batch_size=4&world_size=2"


def head(**more: str) -> dict[str, str]:
    found = {
        "Millrace-Epoch": "1", "Millrace-Batch": "2", "Millrace-Batches": "5", "Millrace-Samples": "2", "Millrace-Generation": "0f",
        "Millrace-Crc32c": f"{checksum('always')(memoryview(BODY), 0):08x}", "Content-Location": TARGET, "ETag": '"strong"',
    }  # fmt: skip
    return {name: value for name, value in {**found, **{k.replace("_", "-"): v for k, v in more.items()}}.items() if value}


def batch(core: Gateways, *answers: Answer, want: Expected = WANT, announced: Any = None, writable: bool = False) -> tuple[Any, FakeWire]:
    wire = through(core, *answers)
    return core.batch(want, gateways.Task(), announced=announced, writable=writable), wire


@pytest.fixture
def core(clock: Clock) -> Gateways:
    return Script(clock, check="always").core


def test_a_batch(core: Gateways) -> None:
    lengths: list[int] = []
    (found, data, table), wire = batch(core, Answer(200, head(), b"0123", b"456789"), announced=lengths.append)
    assert (bytes(data), table, lengths) == (BODY, None, [10])
    assert wire.sent == [("GET", TARGET, {}, None)]
    assert (found.epoch, found.number, found.batches, found.samples, found.padded) == (1, 2, 5, 2, 0)
    assert (found.generation, found.dataset, found.location, found.content_type, found.etag) == ("0f", "d", TARGET, "", '"strong"')
    assert wire.transport == ""
    (found, _, _), wire = batch(core, Answer(200, head(Millrace_Padded="1"), BODY), writable=True)
    assert (found.padded, wire.transport[:33]) == (1, "bytes: functions of yours may wri")


def test_the_rest_of_a_body(core: Gateways) -> None:
    rest = head(Content_Range="bytes 4-9/10", Content_Location=TARGET + "&seed=1")
    (found, data, _), wire = batch(core, Answer(200, head(), b"0123", OSError("cut"), length=10), Answer(206, rest, b"456789"))
    assert (bytes(data), found.location) == (BODY, TARGET + "&seed=1")
    assert wire.sent[1][2] == {"Range": "bytes=4-", "If-Range": '"strong"'}
    # Only another gateway may have the whole batch. A response that is too short, but ends without a fault, counts as incomplete too.
    (_, data, _), wire = batch(core, Answer(200, head(), b"0123", length=10), Answer(200, head(), BODY))
    assert bytes(data) == BODY


@pytest.mark.parametrize(
    ("rest", "body"),
    [
        (head(Content_Range="bytes 3-9/10"), b"456789"), (head(), b"456789"), (head(Content_Range="bytes 4-9/10"), b"45678"),
        (head(Content_Range="bytes 4-9/10", ETag='"other"'), b"456789"), (head(Content_Range="bytes 4-9/10", Millrace_Samples="1"), b"456789"),
    ],
)  # fmt: skip
def test_what_is_not_the_rest(core: Gateways, rest: dict[str, str], body: bytes) -> None:
    broken = Answer(200, head(), b"0123", OSError("cut"), length=10)
    (_, data, _), wire = batch(core, broken, Answer(206, rest, body), Answer(200, head(), BODY))
    assert bytes(data) == BODY
    assert wire.sent[2][2] == {}


def test_a_weak_etag_stands_for_no_bytes(core: Gateways) -> None:
    (_, data, _), wire = batch(core, Answer(200, head(ETag='W/"w"'), b"01", OSError("cut"), length=10), Answer(200, head(), BODY))
    assert bytes(data) == BODY
    assert wire.sent[1][2] == {}


def test_a_broken_body_is_told(core: Gateways) -> None:
    want = Transfer(core.settings, WANT, gateways.new, None, writable=False)
    g = core.here().fleet.order(0, 1)[0]
    a: Any = type("A", (), {"gateway": g})
    for fault, code in ((OSError("cut"), "short_body"), (TimeoutError("slow"), ShortBody.code)):
        wire: Any = FakeWire(Answer(200, head(), b"0123", fault, length=10))
        with pytest.raises(ShortBody) as raised:
            want.ask(wire, a)
        assert raised.value.message == f"{A}: body ends after 4 of 10 bytes: {fault}"
        assert (raised.value.code, raised.value.retryable, raised.value.gateway) == (code, True, A)
        assert raised.value.__cause__ is fault


def test_damaged_bytes(core: Gateways, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, data, _), _ = batch(core, Answer(200, head(), b"0123456780"), Answer(200, head(), BODY))
    assert bytes(data) == BODY
    careless = Script(clock, check="never").core
    assert bytes(batch(careless, Answer(200, head(), b"0123456780"))[0][1]) == b"0123456780"
    monkeypatch.setattr(gateways, "checksum", lambda _: lambda _part, got: got + 1)
    with pytest.raises(errors.IntegrityError, match="the body does not match its CRC-32C: got 00000001, want") as raised:
        batch(core, *(Answer(200, head(), BODY) for _ in range(4)))
    assert raised.value.gateway == A


def test_a_batch_that_is_too_large(clock: Clock) -> None:
    core = Script(clock, max_batch_bytes=10).core
    assert bytes(batch(core, Answer(200, head(), BODY))[0][1]) == BODY
    text = rf"{A}: a batch of 11 bytes, more than the client's Routing\(max_batch_bytes=10\)"
    with pytest.raises(errors.BatchTooLarge, match=text) as raised:
        batch(core, Answer(200, head(), BODY + b"0"))
    assert raised.value.gateway == A


def test_answers_of_no_batch(core: Gateways) -> None:
    for answer, text in (
        (Answer(200, head(), BODY, length=None), "no Content-Length"),
        (Answer(206, head(), BODY), "206 Odd"),
        (Answer(416, {}), "416 Odd"),
        (Answer(200, head(Millrace_Epoch="7"), BODY), "got epoch 7, want epoch 1"),
        (Answer(200, head(Millrace_Batch="1"), BODY), "got batch 1, want batch 2"),
        (Answer(200, head(Millrace_Batches="6"), BODY), "got a batch of 6 batches, want a batch of 5 batches"),
        (Answer(200, head(Content_Location=TARGET.replace("/d/", "/e%20/")), BODY), "got dataset 'e ', want dataset 'd'"),
        (Answer(200, head(Content_Location=TARGET.replace("=4", "=5")), BODY), "got a plan with batch_size '5', want '4'"),
        (Answer(200, head(Millrace_Samples="3"), BODY), "got 3 samples in a share of 4 by 2 ranks"),
        (Answer(200, head(Millrace_Padded="3"), BODY), "3 of 2 samples are padding"),
        (Answer(200, head(Millrace_Epoch=""), BODY), "header Millrace-Epoch: ''"),
        (Answer(200, head(Millrace_Samples="+1"), BODY), "header Millrace-Samples: '[+]1'"),
        (Answer(200, head(Millrace_Samples="1" * 21), BODY), "header Millrace-Samples: '1{21}'"),
        (Answer(200, head(Millrace_Crc32c="x" * 200), BODY), "header Millrace-Crc32c: 'x{20}'|'x{100}'"),
    ):
        with pytest.raises(errors.ProtocolError, match=text):
            batch(core, *[answer] * 4)


def test_another_generation(core: Gateways) -> None:
    want = Expected(**{**vars(WANT), "query": {**WANT.query, "generation": "0e"}})
    with pytest.raises(errors.ProtocolError, match="got generation '0f', want generation '0e'"):
        batch(core, *[Answer(200, head(), BODY)] * 4, want=want)
    with pytest.raises(errors.ProtocolError, match="got generation '', want generation 'one'"):
        batch(core, *[Answer(200, head(Millrace_Generation=""), BODY)] * 4)
    last = Expected(**{**vars(WANT), "number": 5})
    with pytest.raises(errors.ProtocolError, match="got batch 5 of 5 batches"):
        batch(core, *[Answer(200, head(Millrace_Batch="5"), BODY)] * 4, want=last)


@pytest.mark.parametrize(("number", "batches", "final"), [(5, 5, True), (4, 5, False), (6, 5, True), (5, 6, False), (4, 4, False)])
def test_the_end_of_an_epoch(core: Gateways, number: int, batches: int, final: bool) -> None:
    """For a batch that must exist, the gateway's end_of_epoch is a protocol error."""
    problem = {"Content-Type": "application/problem+json"}
    body = b'{"code": "end_of_epoch", "detail": "past the end", "batches": %d}' % batches
    want = Expected(**{**vars(WANT), "number": number})
    with pytest.raises(MillraceError) as raised:
        batch(core, *(Answer(404, problem, body) for _ in range(4)), want=want)
    if final:
        assert type(raised.value) is errors.EndOfEpoch
    else:
        assert type(raised.value) is errors.ProtocolError
        assert f"batch {number} of {max(batches, 5)}: " in raised.value.message


def test_memory_is_asked_for(clock: Clock) -> None:
    if not gateways.shm.SUPPORTED:
        pytest.skip("this system cannot be given memory")
    framed = Expected(**{**vars(WANT), "query": {**WANT.query, "format": "framed"}})
    for want, url, options, asks in (
        (framed, "unix:/nowhere/socket", {}, True), (WANT, "unix:/nowhere/socket", {}, False), (framed, A, {}, False),
        (framed, "unix:/nowhere/socket", {"shared_memory": False}, False),
    ):  # fmt: skip
        for writable in (False, True):
            _, wire = batch(Script(clock, urls=(url,), **options).core, Answer(200, head(), BODY), want=want, writable=writable)
            asked = asks and not writable
            assert wire.sent[0][2] == ({"Accept": gateways.shm.MEDIA_TYPE} if asked else {})
            assert (wire.transport == gateways._NONE_TO_GIVE) == asked


def test_targets() -> None:
    assert target_of("/x") == target_of("/x", {}) == "/x"
    assert target_of("/x", {"key": "a/b,c:%+", "b": "a,b:c%20+d e"}) == "/x?b=a,b:c%20+d%20e&key=a%2Fb%2Cc%3A%25%2B"
