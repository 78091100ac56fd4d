"""What is closed at the end of a with statement."""

from __future__ import annotations

from typing import TypeVar


class Closing:
    """A context manager whose end calls close."""

    def close(self) -> None:
        """Ends what runs and lets go of what is held."""
        raise NotImplementedError

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


S = TypeVar("S", bound=Closing)
