"""The sets that all libraries read. Samples are stored class by class, which exposes a weak shuffle.

A set of bytes (photos, text; images in Parquet) is read as batches of a tensor of bytes [samples, length] and a tensor of classes. A set of
texts is read as batches of columns: tensors of numbers, lists of strings.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

CLASSES = 32
_NOISE = random.Random(1).randbytes(1 << 22)  # incompressible, like JPEG
_WORDS = ["".join(random.Random(i).choices("etaoinshrdlu", k=2 + i % 9)) for i in range(4096)]
_LANGUAGES = ("en", "de", "fr", "es", "zh", "ja", "pt", "it")


@dataclass(frozen=True)
class Layout:
    """How the Parquet files of a set are written: by `datasets`, with images uncompressed and texts compressed by snappy, or by pyarrow
    with zstd.
    """

    writer: str = "datasets"
    group: int | None = None  # rows of a row group; None: the writer's own limit, 100 MB or 2^20 rows


@dataclass(frozen=True)
class Set:
    name: str
    length: int  # bytes per sample
    samples: int
    parquet: Layout | None = None  # None: the set is packed in each library's own format

    def content(self, i: int) -> bytes:
        """The bytes of sample i: its number, and noise."""
        at = (i * 7919) % (len(_NOISE) - self.length)
        return struct.pack("<q", i) + _NOISE[at : at + self.length - 8]

    def label(self, i: int) -> int:
        return i * CLASSES // self.samples

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        """All samples: number, class, bytes."""
        for i in range(self.samples):
            yield i, self.label(i), self.content(i)

    def rows(self) -> Iterator[dict[str, Any]]:
        """All samples as rows of a table, with images as Hugging Face's `datasets` library encodes them."""
        for i, label, content in self:
            yield {"image": {"bytes": content, "path": f"{i:08d}.jpg"}, "label": label}

    def digest(self) -> int:
        """The digest of a whole epoch: see the function digest."""
        return digest((label, content) for _, label, content in self)


class Texts(Set):
    """Rows of a web crawl: a text and four more columns."""

    def rows(self) -> Iterator[dict[str, Any]]:
        for i in range(self.samples):
            draw = random.Random(i)
            text = " ".join(draw.choices(_WORDS, k=draw.randint(30, 90)))
            url = f"https://{text[:4].strip()}{i % 977}.example/{i:x}"
            yield {"id": i, "text": text, "url": url, "language": _LANGUAGES[i % 8], "score": i % 1024 / 1024}

    def digest(self) -> int:
        return digest(tuple(row.values()) for row in self.rows())


# Kind, bytes of a sample, total MiB, and layout in Parquet.
SETS: dict[str, tuple[type[Set], int, int, Layout | None]] = {
    "photos": (Set, 110_000, 256, None),
    "text": (Set, 4_000, 256, None),
    "images": (Set, 100_000, 380, Layout()),
    "images-small-groups": (Set, 100_000, 380, Layout(group=100)),
    "texts-snappy": (Texts, 500, 64, Layout()),
    "texts-zstd": (Texts, 500, 64, Layout(writer="pyarrow")),
}


def make(name: str, mebibytes: int = 0) -> Set:
    """A set of about the given size in MiB; 0 is its default size."""
    kind, length, size, layout = SETS[name]
    return kind(name, length, max(((mebibytes or size) << 20) // length, 4 * CLASSES), layout)


# The content of a batch, of either kind.


def ids(batch: Any) -> list[int]:
    """The numbers of a batch's samples."""
    import torch

    if isinstance(batch, dict):
        numbers = batch["id"]
    else:
        numbers = batch[0][:, :8].contiguous().view(torch.int64).flatten()
    return list(numbers.tolist())


def size(batch: Any) -> int:
    """The bytes of a batch's samples."""
    if isinstance(batch, dict):
        return sum(sum(map(len, column)) if isinstance(column, list) else 8 * len(column) for column in batch.values())
    return int(batch[0].numel())


def rows(batch: Any) -> Iterator[tuple[Any, ...]]:
    """The values of a batch's samples, sample by sample."""
    if isinstance(batch, dict):
        columns = [column if isinstance(column, list) else column.tolist() for column in batch.values()]
        return zip(*columns)
    content, label = batch
    return ((number, bytes(row.numpy())) for number, row in zip(label.tolist(), content))


def digest(values: Iterable[tuple[Any, ...]]) -> int:
    """A digest of samples that does not depend on their order, and that counts each occurrence."""
    total = 0
    for sample in values:
        one = hashlib.blake2b(digest_size=8)
        for value in sample:
            one.update(value if isinstance(value, bytes) else repr(value).encode() + b"\0")
        total += int.from_bytes(one.digest(), "little")
    return total % (1 << 64)
