"""Attempts, waits and faults of a request to several gateways, on a simulated clock and without connections."""

from __future__ import annotations

import logging
import pickle
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from scripted import A, B, C, Clock, Script, busy, refused

import millrace
from millrace import Routing, errors
from millrace._http import gateways
from millrace._http.gateways import Gateways
from millrace._http.wire import UNTRUSTED, ShortBody
from millrace.errors import MillraceError


def test_the_next_gateway_is_asked_at_once(clock: Clock) -> None:
    script = Script(clock, refused(), "done", urls=(A, B))
    assert not script.core.answered
    assert script.run() == "done"
    assert (script.names, clock.slept, script.core.answered) == ([A, B], [], True)
    a, b = script.core.here().fleet.gateways
    assert (a.faults, b.faults) == (1, 0)
    script.steps = ["again"]
    assert script.run() == "again"
    assert script.names[2:] == [B]


def test_waits_between_rounds_grow(clock: Clock) -> None:
    script = Script(clock, *(refused() for _ in range(9)), "done", deadline=1000)
    assert script.run() == "done"
    for gap, least in zip(script.gaps, (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5)):
        assert least + 0.001 <= gap + 1e-9 < least + 0.102, script.gaps
    assert max(clock.slept) == 0.1


def test_a_short_wait_is_one_step(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways.random, "uniform", lambda low, _: low + 0.02)
    Script(clock, refused(), "done").run()
    assert clock.slept == [pytest.approx(0.021)]


def test_gateways_say_how_long_to_wait(clock: Clock) -> None:
    script = Script(clock, busy(9), busy(4), "done", urls=(A, B), deadline=300)
    script.run()
    assert script.gaps[0] == 0
    assert 4 <= script.gaps[1] < 4.2
    script = Script(clock, busy(90), "done", deadline=300)
    script.run()
    assert 30 <= script.gaps[0] + 1e-6 < 30.2
    script = Script(clock, busy(90), errors.NotFound("none", status=404), "done", urls=(A, B), deadline=300)
    script.run()
    assert 30 <= script.gaps[1] + 1e-6 < 30.2  # a gateway without the dataset has no influence


def test_time_is_over(clock: Clock) -> None:
    script = Script(clock, 0.5, refused(), 3.0, refused(), deadline=3)
    e = script.fails(errors.GatewayUnavailable)
    assert e.message == f"read it: given up after 3.7 s: {A}: refused"
    assert (e.retryable, e.gateway, len(script.asked)) == (True, A, 2)
    e = Script(clock, TimeoutError("too long"), deadline=clock.now + 0.05).fails(errors.DeadlineExceeded)
    assert (e.retryable, e.gateway) == (True, A)
    e = Script(clock, ShortBody("half", code="short_body", retryable=True, gateway=B), deadline=clock.now + 0.05).fails(errors.IntegrityError)
    assert (e.message, e.retryable, e.gateway) == ("read it: given up after 3.7 s: half", True, B)
    e = Script(clock, busy(5), deadline=clock.now + 4).fails(errors.GatewayUnavailable)
    assert e.message.endswith(" s: busy for 5")
    assert e.status == 503


def test_nothing_came_at_all(clock: Clock) -> None:
    clock.now = 7.6
    script = Script(clock, deadline=5)
    e = script.fails(errors.DeadlineExceeded)
    assert (e.message, e.retryable, script.asked) == ("read it: nothing came in 8 s", True, [])


def test_a_fault_is_not_hidden_by_the_end_of_time(clock: Clock) -> None:
    e = Script(clock, busy(0), 5.0, TimeoutError("late"), deadline=4).fails(errors.GatewayUnavailable)
    assert "busy for 0" in e.message
    e = Script(clock, refused(), busy(0), deadline=clock.now + 0.25).fails(errors.GatewayUnavailable)
    assert "busy for 0" in e.message  # a later fault says more than an earlier one


def test_a_gateway_that_never_answered_has_less_time(clock: Clock) -> None:
    script = Script(clock, *(refused() for _ in range(9)), deadline=50, first_answer=1)
    script.fails(errors.GatewayUnavailable)
    assert 0.5 < clock.now < 1.1
    clock.now = 0
    script.steps = [busy(0), *(refused() for _ in range(20))]
    script.fails(errors.GatewayUnavailable)
    assert 40 < clock.now < 50
    clock.now = 0
    script = Script(clock, *(refused() for _ in range(20)), deadline=1, first_answer=50)
    script.fails(errors.GatewayUnavailable)
    assert clock.now < 1.1


def test_the_end_of_an_attempt(clock: Clock) -> None:
    script = Script(clock, 1.0, refused(), 95.0, busy(), "done", urls=(A, B, C), attempt_timeout=10)
    script.run()
    assert script.ends == [10, 11, 100]
    clock.now = 0
    script = Script(clock, 50.0, refused(), 50.0, refused(), "done", urls=(A, B, C), deadline=100)
    script.fails(errors.GatewayUnavailable)
    assert script.names == [A, B]


def missing(text: str = "none", kind: type[MillraceError] = errors.NotFound, status: int = 404) -> MillraceError:
    return kind(text, status=status, gateway=text)


@pytest.mark.parametrize(
    "lacks",
    [missing(), missing("token", errors.Unauthenticated, 401), missing("away", errors.ProtocolError, 302)],
    ids=["dataset", "token", "redirect"],
)
def test_another_gateway_may_have_it(clock: Clock, lacks: MillraceError) -> None:
    script = Script(clock, lacks, "done", urls=(A, B))
    assert script.run() == "done"
    assert script.names == [A, B]
    kind = type(lacks)
    e = Script(clock, lacks, kind("last", status=lacks.status, gateway="b"), urls=(A, B)).fails(kind)
    assert e.message == "read it: last"
    assert clock.slept == []


def test_who_looked_in_the_store_says_more(clock: Clock) -> None:
    e = Script(clock, missing("gone", errors.GenerationGone), missing(), urls=(A, B)).fails(errors.GenerationGone)
    assert e.message == "read it: gone"
    e = Script(clock, missing(), missing("gone", errors.GenerationGone), urls=(A, B)).fails(errors.GenerationGone)
    assert e.message == "read it: gone"


def test_absence_beside_a_fault(clock: Clock) -> None:
    script = Script(clock, *[missing("absent"), busy(0)] * 3, urls=(A, B), deadline=0.35)
    e = script.fails(errors.GatewayUnavailable)
    assert e.message.endswith(": busy for 0; another gateway: absent")
    script = Script(clock, missing("absent"), refused(), urls=(A, B), deadline=clock.now + 0.05)
    e = script.fails(errors.GatewayUnavailable)
    assert e.message.endswith(f"{B}: refused; another gateway: absent")


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        (lambda: errors.EndOfEpoch("end", status=404), 1),
        (lambda: errors.InvalidArgument("bad", status=400), 1),
        (lambda: errors.InternalError("bug", status=500, retryable=True), 2),
        (lambda: errors.IntegrityError("damaged", retryable=True), 4),
        (lambda: errors.ProtocolError("odd"), 4),
        (lambda: errors.ProtocolError("odd", status=421), 1),
    ],
)
def test_what_is_final(clock: Clock, fault: Callable[[], MillraceError], times: int) -> None:
    script = Script(clock, *(fault() for _ in range(9)), urls=(A, B))
    e = script.fails(type(fault()))
    assert (len(script.asked), e.message) == (times, f"read it: {fault().message}")
    script = Script(clock, *(fault() for _ in range(9)), urls=tuple(f"http://127.0.0.{i}:1" for i in range(1, 7)))
    script.fails(type(fault()))
    assert len(script.asked) == {4: 6}.get(times, times)


def test_faults_of_parameters_are_listed(clock: Clock) -> None:
    refusal = errors.InvalidArgument("400", status=400, gateway="gw", faults=(("seed", "too large"), ("rank", "none")))
    e = Script(clock, refusal).fails(errors.InvalidArgument)
    assert e.message == str(e.args[0]) == "seed: too large; rank: none (read it: gw)"


def test_a_fault_of_the_store_rests_no_gateway(clock: Clock) -> None:
    store = errors.StoreError("down", status=502, retryable=True)
    script = Script(clock, store, errors.InternalError("bug", status=500), "done", urls=(A, B, C))
    script.run()
    assert [g.faults for g in script.core.here().fleet.gateways] == [0, 0, 0]


def test_a_gateway_rests_as_long_as_it_asks_for(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(clock, 2.0, busy(7), "done", urls=(A, B))
    noted: list[Any] = []
    monkeypatch.setattr(script.core.here().fleet, "failed", lambda g, took, wait: noted.append((g.name, took, wait)))
    script.run()
    assert noted == [(A, 2, 7)]
    ended: list[int] = []
    script = Script(clock, refused(), refused(), "done")
    monkeypatch.setattr(script.core.here().fleet, "all_failed", lambda: ended.append(1))
    script.run()
    assert ended == [1, 1]


def test_certificates_are_not_tried_again(clock: Clock) -> None:
    script = Script(clock, *(ssl.SSLCertVerificationError("self-signed") for _ in range(5)))
    e = script.fails(errors.ProtocolError)
    assert (e.gateway, e.cure, len(script.asked)) == (A, UNTRUSTED, 4)
    assert "self-signed" in e.message


def test_requests_are_called_off(clock: Clock) -> None:
    clock.set()
    script = Script(clock, "done")
    assert script.fails(errors.Closed).message == "read it: closed"
    assert script.asked == []
    clock.clear()
    script.steps = [refused()]
    script.ask = lambda *_: clock.set() or (_ for _ in ()).throw(refused())  # type: ignore[method-assign, func-returns-value]
    script.fails(errors.Closed)
    clock.clear()
    script.core.close()
    script.fails(errors.Closed)


def test_who_waits_is_told(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    script = Script(clock, *(refused() for _ in range(4)), "done", first_answer=50)
    script.run()
    text = f"read it: waiting for a gateway, asked once, for at most 50 s more: {A}: refused"
    assert [r.getMessage() for r in caplog.records] == [text]
    assert script.core.here().told is False
    caplog.clear()
    clock.now = 0
    script.steps = [*(refused() for _ in range(9)), "done"]  # the gateway has responded before, so the message comes later
    script.run()
    assert [r.getMessage() for r in caplog.records] == [
        f"read it: waiting for a gateway, asked 5 times in 2 s, for at most 98 s more: {A}: refused"
    ]
    assert caplog.records[0].levelno == logging.WARNING
    assert caplog.records[0].name == "millrace"
    assert script.core.here().told is True  # until a response arrives in time
    clock.now = 0
    script.steps = ["done"]
    script.run()
    assert script.core.here().told is False


def test_a_silent_gateway_is_asked_for_a_sign(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    limits: list[float] = []
    alive = [True, False, False]

    def lives(_gateway: Any, limit: float, over: Callable[[], bool]) -> bool:
        limits.append(limit)
        assert over() is False
        if not alive.pop(0):
            raise OSError
        return True

    script = Script(clock, urls=(A, B))
    script.core.here().wire.lives = lives  # type: ignore[method-assign]

    def ask(_wire: Any, a: Any) -> str:
        script.asked.append((a.gateway.name, clock.now))
        if a.gateway.name == B:
            return "done"
        for _ in range(9):
            clock.now += 2
            a.go_on()
        return "unreachable"

    script.ask = ask  # type: ignore[method-assign]
    assert script.run() == "done"
    assert script.names == [A, B]
    assert limits == [1, 1, 1]
    assert [r.getMessage() for r in caplog.records] == [
        f"read it: waiting for a gateway, asked once, for at most 98 s more: {A} says nothing"
    ]


class Local:
    """A gateway that this user has started."""

    name = address = ""
    opened: Mapping[str, str] = {}

    def __init__(self, revives: int) -> None:
        self.revives, self.explained, self.closed = revives, [], 0  # type: ignore[var-annotated]

    def hold(self) -> Local:
        return self

    def close(self) -> None:
        self.closed += 1

    def revive(self) -> bool:
        self.revives -= 1
        return self.revives >= 0

    def explain(self, e: MillraceError) -> None:
        self.explained.append(e)


def test_a_gateway_of_ones_own_is_started_again(clock: Clock) -> None:
    local = Local(1)
    script = Script(clock, missing(), "done")
    core = script.core = Gateways(gateways.Settings(**{**vars(script.core.settings), "local": local}))
    assert script.run() == "done"
    assert (local.revives, local.explained, len(script.asked)) == (0, [], 2)
    script.steps = [missing("gone")]
    e = script.fails(errors.NotFound)
    assert local.explained == [e]
    script.steps = [busy(), "done"]
    script.run()
    assert local.revives == -1  # a gateway that responds needs no restart
    core.close()
    assert local.closed == 1


# Pickled and restored gateways.


def test_what_a_pickle_keeps(clock: Clock) -> None:
    core = Script(clock, "done").core
    core.settings = gateways.Settings(**{**vars(core.settings), "routing": Routing()})
    core.answered, core.advised = True, True
    copy = pickle.loads(pickle.dumps(core))
    assert (copy.settings, copy.answered, copy.advised) == (core.settings, True, True)
    core.answered = False
    assert pickle.loads(pickle.dumps(core)).answered is False
    client = millrace.Client("https://gw", tls=millrace.TLS(context=ssl.create_default_context()))
    with pytest.raises(errors.InvalidArgument, match=r"TLS\(context=...\) cannot be pickled; give ca_file, client_cert and client_key"):
        pickle.dumps(client.core)


def test_processes_and_the_end(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    core = Script(clock).core
    here = core.here()
    assert core.here() is here
    monkeypatch.setattr(gateways.os, "getpid", lambda: -1)
    assert core.here() is not here
    core.close()
    assert core.here().wire.closed
    assert not here.wire.closed
    monkeypatch.setattr(gateways.os, "getpid", lambda: -2)
    core.close()
    with pytest.raises(errors.Closed, match=r"^the client is closed$"):
        core.here()


def test_what_gateways_are_called() -> None:
    def core(*urls: str, home: Any = None, **routing: Any) -> Gateways:
        return millrace.Client(list(urls), routing=Routing(home=home, lookup=lambda _: ["127.0.0.1"], **routing)).core

    assert str(core(A, B, A)) == f"{A}, {B}"
    assert (core(A, B).listed, core(A, B, home=lambda *_: 0).listed, core(A, "dns:gw:1").listed) == (2, 0, 0)
    assert core(A).transport == "bytes: the gateway is not at a Unix socket"
    assert core(A, shared_memory=False).transport == "bytes: Routing(shared_memory=False)"
    if gateways.shm.SUPPORTED:
        near = core("unix:/nowhere/socket")
        near.here().fleet.order(0, 1)
        assert near.transport == "shared memory, if the gateway gives it: no batch was read yet"
        near.here().wire.transport = "bytes"
        assert near.transport == "bytes"


def test_homes_of_ranks(clock: Clock) -> None:
    script = Script(clock, "done", urls=(A, B), home="rank")
    script.core._retry("read it", script.ask, 1, 2, clock)
    assert script.names == [B]


def test_buffers_go_round() -> None:
    core = millrace.Client(A).core
    buffers = core.lend(3)
    assert buffers.most == 3
    buffers.take(1 << 20)
    core.give_back(buffers)
    assert core.lend(5) is buffers
    assert buffers.most == 5
    other = core.lend(1)
    assert other is not buffers
    other.take(gateways.IDLE_BUFFERS + 1)
    core.give_back(other)
    assert core.lend(1) is not other
