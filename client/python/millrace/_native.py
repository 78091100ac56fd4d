"""Samples in a dataset's own form, cut into their parts. The framed form needs none of this: it says where parts lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Callable

from . import _tar
from .errors import ProtocolError


def _tar_parts(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    members = _tar.members(data)
    # Members that programs leave beside data lie inside a sample now and then; the index calls them no parts of it.
    for name, content in [m for m in members if not _tar.hidden(m[0])] or members:
        yield _tar.split_name(name)[1], content


def _jsonl_parts(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    end = len(data)
    if end and data[end - 1] == 10:
        end -= 1
    yield "json", data[:end]


def _tfrecord_parts(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    yield "tfrecord", data[12 : len(data) - 4]


def _array_parts(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    yield "bin", data


# Formats whose batches begin with their first sample. A format that is missing here can be read in every form, but not cut in its own.
PLAIN: Mapping[str, Callable[[memoryview], Iterator[tuple[str, memoryview]]]] = {
    "tar": _tar_parts,
    "jsonl": _jsonl_parts,
    "tfrecord": _tfrecord_parts,
    "records": _array_parts,
    "tokens": _array_parts,
}


def parts_of(form: str, data: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Cuts one sample into its parts, by the dataset's format."""
    if form == "files":
        return _tar_parts(data)
    if form not in PLAIN:
        raise ProtocolError(f"parts of a sample of format {form!r} come only in the framed form: leave `form` out when you open the epoch")
    return PLAIN[form](data)
