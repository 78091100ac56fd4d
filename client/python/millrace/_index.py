"""What the client needs of a dataset's index (docs/index-format.md): the sample counts of its chunks."""

from __future__ import annotations

import struct
from urllib.parse import quote

from ._core import Core
from .errors import ProtocolError

_HEADER = 64  # what the header of every version begins with; its list of sections follows
_SECTION = struct.Struct("<IIQQ")  # number, CRC-32C or 0, offset, length
_CHUNKS = 3  # the section with the chunks
_VERSIONS = {1: (9, 64), 2: (11, 56)}  # how many sections an index has, and the length of a chunk's entry
_SAMPLES = 36  # where a chunk's entry has its samples
MAX_CHUNKS = 1 << 25


def chunk_counts(core: Core, dataset: str, generation: str) -> list[int]:
    """Reads the header of an index and its table of chunks, and no more of it."""
    path, query = f"/v1/datasets/{quote(dataset, safe='')}/index", {"generation": generation}
    head = core.part(path, query, 0, _HEADER + _CHUNKS * _SECTION.size)
    version, sections = struct.unpack_from("<II", head, 8)
    known, entry = _VERSIONS.get(version, (0, 0))
    if head[:8] != b"MILLRACE" or known != sections:
        raise ProtocolError(f"{path}: an index of another version")
    chunks, samples = struct.unpack_from("<Q", head, 24)[0], struct.unpack_from("<Q", head, 40)[0]
    number, _, offset, length = _SECTION.unpack_from(head, _HEADER + (_CHUNKS - 1) * _SECTION.size)
    if number != _CHUNKS or chunks > MAX_CHUNKS or length != chunks * entry:
        raise ProtocolError(f"{path}: a table of {length} bytes for {chunks} chunks")
    table = core.part(path, query, offset, length) if length else b""
    counts = [n for (n,) in struct.iter_unpack(f"<{_SAMPLES}xI{entry - _SAMPLES - 4}x", table)]
    if sum(counts) != samples:
        raise ProtocolError(f"{path}: chunks of {sum(counts)} samples, where there are {samples}")
    return counts
