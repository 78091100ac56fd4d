"""The header of a batch."""

from __future__ import annotations

from typing import NamedTuple


class Head(NamedTuple):
    """What the header of an answer says about a batch."""

    epoch: int
    number: int
    batches: int
    samples: int
    padded: int
    generation: str
    dataset: str
    location: str  # canonical path and query of the batch
    content_type: str
    etag: str
    crc32c: int
