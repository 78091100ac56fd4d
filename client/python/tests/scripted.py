"""Requests on a simulated clock: gateways respond by a script, without connections."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any, Optional, Union

import pytest

import millrace
from millrace import Routing, errors
from millrace.errors import MillraceError

A, B, C = (f"http://127.0.0.{i}:1" for i in (1, 2, 3))


class Clock(threading.Event):
    """The clock of a request, and the task whose waits advance the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.slept: list[float] = []

    def seconds(self, _step: float = 0.1) -> float:
        return self.now

    def wait(self, timeout: Optional[float] = None) -> bool:
        assert timeout is not None
        self.now += timeout
        self.slept.append(timeout)
        return self.is_set()


Step = Union[BaseException, str, float]
"""The end of an attempt: an exception or an answer. Numbers are seconds that pass before it."""


class Script:
    """Sends requests to gateways that respond by a script, and records the time of each."""

    def __init__(self, clock: Clock, *steps: Step, urls: tuple[str, ...] = (A,), deadline: float = 100.0, **routing: Any) -> None:
        self.clock, self.steps = clock, list(steps)
        routing = {"home": lambda *_: 0, "first_answer": deadline, **routing}
        self.core = millrace.Client(list(urls), deadline=deadline, routing=Routing(**routing)).core
        self.core.here().wire.lives = lambda *_: True  # type: ignore[method-assign]
        self.asked: list[tuple[str, float]] = []
        self.ends: list[float] = []

    def ask(self, wire: Any, a: Any) -> str:
        assert wire is self.core.here().wire
        self.asked.append((a.gateway.name, self.clock.now))
        self.ends.append(a.ends)
        step = self.steps.pop(0)
        if isinstance(step, float):
            self.clock.now += step
            step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return str(step)

    def run(self) -> str:
        return self.core._retry("read it", self.ask, 0, 1, self.clock)

    def fails(self, kind: type[MillraceError]) -> MillraceError:
        """Runs the request, and returns its error, which must be exactly of this class."""
        with pytest.raises(MillraceError) as raised:
            self.run()
        assert type(raised.value) is kind, repr(raised.value)
        return raised.value

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]

    @property
    def gaps(self) -> list[float]:
        times = [at for _, at in self.asked]
        return [b - a for a, b in pairwise(times)]


def refused() -> ConnectionRefusedError:
    return ConnectionRefusedError("refused")


def busy(seconds: float = 0.0) -> MillraceError:
    return errors.GatewayUnavailable(f"busy for {seconds}", status=503, retryable=True, retry_after=seconds)
