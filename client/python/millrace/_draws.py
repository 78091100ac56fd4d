"""Reports random numbers that do not repeat: what functions of samples draw from generators that all threads share.

_rng.Draws gives torch's random functions a generator of the sample's own. Draws from Python's random and numpy.random cannot be
redirected in one thread alone, so they are reported, and so is whatever torch draws past Draws.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, Optional

_WATCHED = 32  # samples: what draws from a shared generator mostly does so for each
_SURE = 3  # so many draws at one line are the function's own, and not another thread's
_INSTEAD = {"random": "sample.rng", "numpy.random": "sample.numpy_rng", "torch": "sample.rng"}


class Watch:
    """Warns once for each shared generator that the functions of one epoch draw from, and names the line that draws."""

    def __init__(self) -> None:
        self._left = _WATCHED
        self._suspects = False
        self._seen: Counter[tuple[str, str]] = Counter()
        self._reported: set[str] = set()

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Watches a call in this thread: the first calls of an epoch. Once a generator has moved, calls are traced to find the line."""
        self._left -= 1
        if self._left < 0 or _in_later_worker():
            yield
            return
        lines, traced = _Lines(), self._suspects and sys.gettrace() is None  # a debugger traces by itself
        if traced:
            sys.settrace(lines.trace)
        try:
            with _unseeded(lines):
                yield
        finally:
            if traced:
                sys.settrace(None)
            lines.look()
            self._suspects = self._suspects or bool(lines.moved)
            self._report(step, lines)

    def _report(self, step: str, lines: _Lines) -> None:
        self._seen.update(lines.moved)
        for name, line in lines.moved:
            if not line or name in self._reported or (name != "torch" and self._seen[name, line] < _SURE):
                continue
            self._reported.add(name)
            warnings.warn(
                f"{step} draws from the generator of {name} that all threads share ({line}): its numbers differ in every run; "
                f"draw from {_INSTEAD[name]} instead",
                stacklevel=2,
            )


class _Lines:
    """The lines of one call, and which of them has moved a shared generator."""

    def __init__(self) -> None:
        self.moved: set[tuple[str, str]] = set()
        """Names of generators, and the lines that moved them; empty: not known."""
        self._libraries = _libraries()
        self._before = _states()
        self._line = ""

    def note_torch(self) -> None:
        """Notes that torch's generator is drawn from, in this thread, now."""
        self.moved.add(("torch", self._line_of(sys._getframe(1))))

    def look(self) -> None:
        """Notes the generators that have moved since the last look."""
        before, self._before = self._before, _states()
        self.moved |= {(name, self._line) for name, state in self._before.items() if state != before.get(name, state)}

    def trace(self, frame: FrameType, event: str, _: object) -> Optional[Callable[..., Any]]:
        """Is called for each line of the traced thread."""
        if frame.f_code.co_filename.startswith(self._libraries):
            return None
        self.look()
        self._line = self._line_of(frame.f_back if event == "return" else frame)
        return self.trace

    def _line_of(self, frame: Optional[FrameType]) -> str:
        while frame is not None and frame.f_code.co_filename.startswith(self._libraries):
            frame = frame.f_back
        return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}"


def _in_later_worker() -> bool:
    """Whether this is a worker of a loader whose first worker reports the same."""
    data = sys.modules.get("torch.utils.data")
    worker = data.get_worker_info() if data else None
    return worker is not None and worker.id > 0


def _states() -> dict[str, Any]:
    """Returns the states of Python's and NumPy's shared generators. Those of torch show what they are asked: see _unseeded."""
    states: dict[str, Any] = {"random": random.getstate()}
    if numpy := sys.modules.get("numpy.random"):
        state = numpy.get_state(legacy=False)
        states["numpy.random"] = state["state"]["pos"], state["state"]["key"].tobytes(), state["has_gauss"]
    return states


def _unseeded(lines: _Lines) -> AbstractContextManager[Any]:
    """Notes what torch draws without a generator of the sample's."""
    if "torch" not in sys.modules:
        return nullcontext()
    from ._rng import Unseeded

    return Unseeded(lines.note_torch)  # type: ignore[no-untyped-call,unused-ignore]


def _libraries() -> tuple[str, ...]:
    """Returns the files and folders whose lines are not the caller's: those of the generators, and this package's."""
    modules = (sys.modules.get(name) for name in ("numpy", "torch"))
    folders = [Path(m.__file__).parent for m in modules if m is not None and m.__file__]
    return random.__file__, *(f"{folder}/" for folder in (*folders, Path(__file__).parent))
