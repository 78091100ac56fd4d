"""The table whose files in integration/conformance/tables pyarrow has written: its columns and rows.

Parquet and Arrow files have the same rows, so their samples have the same bytes. integration/conformance/tables/write.py writes the files.
"""

import os
from collections.abc import Sequence
from typing import Any

from .pseudorandom import number, stream
from .rows import Node, choose, of

DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tables")

SCHEMA = (
    Node("id", "int32", False),
    Node("label", "int64"),
    Node("score", "double"),
    Node("flag", "bool"),
    Node("text", "string"),
    Node("image", "struct", True, (Node("bytes", "binary"), Node("path", "string"))),
    Node("embedding", "list", True, (Node("element", "float"),)),
    Node("tags", "list", True, (Node("element", "string"),)),
    Node("counts", "map", True, (Node("key", "string", False), Node("value", "int32"))),
)

# The columns in the dataset's description: name, encoding, type, whether the part may be missing.
FIELDS = (
    ("id", "raw", "int32", False),
    ("label", "raw", "int64", True),
    ("score", "raw", "double", True),
    ("flag", "raw", "bool", True),
    ("text", "raw", "utf8", True),
    ("image.bytes", "raw", "binary", True),
    ("image.path", "raw", "utf8", True),
    ("embedding", "raw", "list<float>", True),
    ("tags", "nested", "list<utf8>", True),
    ("counts", "nested", "map<utf8, int32>", True),
)

# The columns of an Arrow stream, with the fields of structs.
ARROW = {"__key__": "utf8", **{name: kind for name, _, kind, _ in FIELDS}}

CHOSEN = ("id", "image.path", "tags")  # columns of the index with only some columns

PER_FILE = (36, 20)  # rows, in groups of GROUP
GROUP = 12


def values(i: int) -> tuple[Any, ...]:
    """Row i. Each column is null in different rows, and rows 10 and 30 are mostly null."""

    def unless(every: int, value: Any) -> Any:
        return None if i % every == 3 or i % 20 == 10 else value

    label = f"table/{i}"
    picture = unless(6, stream(f"{label}/image", 20 + number(label, 60)))
    tags = [None if number(f"{label}/{t}", 4) == 0 else "äöü"[: number(f"{label}/{t}", 3)] for t in range(i % 4)]
    return (
        i,
        unless(5, i % 10 - 4),
        unless(7, number(label, 4096) / 64),
        unless(4, i % 3 == 0),
        unless(9, " ".join(["word", *(stream(f"{label}/{w}", 3).hex() for w in range(i % 6))])),
        None if i % 11 == 5 else (picture, unless(3, f"{i:04d}.png")),
        unless(8, [number(f"{label}/{e}", 256) / 16 for e in range(i % 5)]),
        unless(13, tags),
        unless(17, [(f"k{k}", None if k == 2 else i * k) for k in range(i % 4)]),
    )


def table(chosen: Sequence[str]) -> tuple[tuple[Node, ...], list[tuple[Any, ...]]]:
    """The schema and the rows, with the chosen columns or, by default, all."""
    schema = choose(SCHEMA, chosen) if chosen else SCHEMA
    return schema, [of(SCHEMA, schema, values(i)) for i in range(sum(PER_FILE))]


def files(suffix: str) -> dict[str, bytes]:
    """The files of one format."""
    out = {}
    for name in sorted(os.listdir(DIRECTORY)):
        if name.endswith(suffix):
            with open(os.path.join(DIRECTORY, name), "rb") as f:
                out[name] = f.read()
    return out
