"""The framed form of a batch: a table of lengths before the samples (docs/answers.md)."""

from __future__ import annotations

from .batch import Head, Table
from .errors import ProtocolError

MEDIA_TYPE = "application/vnd.millrace.framed"


def is_framed(content_type: str) -> bool:
    """Reports whether an answer is in the framed form."""
    return content_type.split(";", maxsplit=1)[0].strip() == MEDIA_TYPE


def open_framed(head: Head, body: memoryview) -> tuple[Table, memoryview]:
    """Returns the table of a framed batch and the bytes of its samples."""
    raise ProtocolError(f"batch {head.number}: {len(body)} bytes in a form that this client does not know")
