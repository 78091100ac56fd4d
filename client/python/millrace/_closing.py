"""Datasets and loaders that may own their client."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Optional, TypeVar, Union

from .client import Client, client_of


class Closing:
    """Lets go of the client that a dataset or loader has opened; one that it was given stays open."""

    client: Client
    _given: object

    def _read_from(self, source: Union[Client, str, os.PathLike[str], Sequence[str]], dataset: Optional[str]) -> dict[str, Any]:
        """Takes a client, or opens one, and returns what the gateway says of the dataset."""
        self._given, self.client = source, client_of(source)
        return self.client.describe(dataset)

    def close(self) -> None:
        """Ends what reads, closes connections, and lets go of the gateway that millrace.open has started; garbage collection does so too."""
        if self.client is not self._given:
            self.client.close()

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


S = TypeVar("S", bound=Closing)
