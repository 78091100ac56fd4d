"""The checks and their findings."""

import contextlib
import http.client
import sys
from collections.abc import Iterator
from typing import Any

SHOWN = 300  # maximum characters of a printed value


class Report:
    """Prints a line for each failed check, and with `verbose` also for the others."""

    def __init__(self, verbose: bool) -> None:
        self.passed = self.failed = 0
        self._verbose = verbose
        self._wrong: list[str] = []

    @contextlib.contextmanager
    def check(self, name: str) -> Iterator[None]:
        self._wrong = []
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as e:
            # An unforeseen response is a finding, and the other checks continue.
            self.wrong(f"{type(e).__name__}: {e}")
        if self._wrong:
            self.failed += 1
            print(f"FAIL  {name}")
            for line in self._wrong[:10]:
                print(f"      {line}")
        else:
            self.passed += 1
            if self._verbose:
                print(f"ok    {name}")
        sys.stdout.flush()

    def wrong(self, text: str) -> None:
        self._wrong.append(text)

    def want(self, name: str, got: Any, want: Any) -> None:
        if got != want:
            self.wrong(f"{name}: got {repr(got)[:SHOWN]}, want {repr(want)[:SHOWN]}")

    def end(self, what: str) -> int:
        print(f"{'FAIL' if self.failed else 'ok  '}  {what}: {self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0
