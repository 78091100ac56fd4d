"""Datasets that may own their client."""

from __future__ import annotations

from typing import TypeVar

from .client import Client


class Closing:
    """Lets go of the client that a dataset has opened; one that it was given stays open."""

    client: Client
    _given: object

    def close(self) -> None:
        """Ends what reads, closes connections, and lets go of the gateway that millrace.open has started; garbage collection does so too."""
        if self.client is not self._given:
            self.client.close()

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


S = TypeVar("S", bound=Closing)
