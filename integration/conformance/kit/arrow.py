"""Parses an Arrow IPC stream with one record batch, the form arrow of a batch, strictly by the specification.

https://arrow.apache.org/docs/format/Columnar.html and the schemas of its flatbuffers.
"""

import itertools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from .rows import bitmap

Cells = list[Optional[bytes]]  # the bytes of each value; None for a null

SCHEMA, RECORD_BATCH = 1, 3  # message types
INT, FLOAT, BINARY, UTF8, BOOL, LIST, STRUCT, FIXED_SIZE_BINARY, FIXED_SIZE_LIST, MAP = 2, 3, 4, 5, 6, 12, 13, 15, 16, 17  # data types


class Table:
    """A table of a flatbuffer. Its fields are numbered from 0 in the order of the schema."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.fields = at - struct.unpack_from("<i", data, at)[0]

    def place(self, field: int) -> int:
        """Returns the position of a field, or 0 if it is absent."""
        slot = 4 + 2 * field
        if slot >= int(struct.unpack_from("<H", self.data, self.fields)[0]):
            return 0
        offset = int(struct.unpack_from("<H", self.data, self.fields + slot)[0])
        return self.at + offset if offset else 0

    def number(self, field: int, form: str) -> int:
        at = self.place(field)
        return int(struct.unpack_from("<" + form, self.data, at)[0]) if at else 0

    def follow(self, at: int) -> int:
        return at + int(struct.unpack_from("<I", self.data, at)[0])

    def table(self, field: int) -> "Table":
        return Table(self.data, self.follow(self.place(field)))

    def vector(self, field: int) -> tuple[int, int]:
        """Returns the position of a vector's first element, and the number of elements."""
        at = self.place(field)
        if not at:
            return 0, 0
        at = self.follow(at)
        return at + 4, int(struct.unpack_from("<I", self.data, at)[0])

    def tables(self, field: int) -> list["Table"]:
        at, count = self.vector(field)
        return [Table(self.data, self.follow(at + 4 * i)) for i in range(count)]

    def text(self, field: int) -> str:
        at, count = self.vector(field)
        return self.data[at : at + count].decode()


class Column(NamedTuple):
    type: str  # as in `fields` of a dataset's description, preceded by an extension's name
    cells: Cells


def columns(body: bytes) -> dict[str, Column]:
    """The columns of a stream. An inconsistent stream raises ValueError, LookupError or struct.error."""
    schema, at, _ = message(body, 0, SCHEMA)
    batch, at, begin = message(body, at, RECORD_BATCH)
    if body[at:] != struct.pack("<Ii", 0xFFFFFFFF, 0):
        raise ValueError("a stream without its end behind one record batch")
    reading = Batch(body[begin:at], batch)
    found: dict[str, Column] = {}
    for field in schema.tables(1):
        flatten(field, field.text(0), reading.values(field), found)
    if reading.nodes or reading.buffers:
        raise ValueError("a record batch with more than its columns")
    return found


def flatten(field: Table, path: str, values: Sequence[Any], found: dict[str, Column]) -> None:
    """Adds a column, or one per field of a struct, whose cells have the bytes of parts of docs/spec/rows.md."""
    if field.number(2, "B") != STRUCT:
        found[path] = Column(name(field), [part(field, value) for value in values])
        return
    for i, inner in enumerate(field.tables(5)):
        flatten(inner, f"{path}.{inner.text(0)}", [value and value[i] for value in values], found)


def part(field: Table, value: Any) -> Optional[bytes]:
    kind = field.number(2, "B")
    if value is None or kind not in (LIST, MAP, FIXED_SIZE_LIST):
        return value  # type: ignore[no-any-return]
    element = field.tables(5)[0]
    if element.number(2, "B") not in (BINARY, UTF8, LIST, STRUCT, MAP):
        return b"".join(value)
    out = [struct.pack("<I", len(value)), bitmap([v is None for v in value])]
    for v in value:
        if v is not None:
            data = row(element, v) if element.number(2, "B") == STRUCT else part(element, v) or b""
            out += [data] if element.number(2, "B") == STRUCT else [struct.pack("<I", len(data)), data]
    return b"".join(out)


def row(field: Table, value: Sequence[Any]) -> bytes:
    """An entry of a map, whose fields are no structs."""
    fields = [(f, part(f, v)) for f, v in zip(field.tables(5), value)]
    bits = [v is None for f, v in fields if f.number(1, "?")]
    sized = (BINARY, UTF8, LIST, MAP)
    lengths = [struct.pack("<I", len(v)) for f, v in fields if v is not None and f.number(2, "B") in sized]
    return b"".join([bitmap(bits) or b"\0", *lengths, *(v for _, v in fields if v is not None)])


def message(body: bytes, at: int, kind: int) -> tuple[Table, int, int]:
    """Returns the header of a message of this kind, the position of the next message, and that of its body."""
    mark, length = struct.unpack_from("<Ii", body, at)
    head = Table(body, at + 8 + struct.unpack_from("<I", body, at + 8)[0])
    if mark != 0xFFFFFFFF or length % 8 or head.number(1, "B") != kind:
        raise ValueError(f"no message of kind {kind} at {at}")
    begin = at + 8 + length
    return head.table(2), begin + head.number(3, "q"), begin


def name(field: Table) -> str:
    """The name of a field's type in docs/api.md."""
    plain = bare(field)
    for pair in field.tables(6):
        if pair.text(0) == "ARROW:extension:name":
            return f"{pair.text(1)} {plain}"
    return plain


def bare(field: Table) -> str:
    kind, detail = field.number(2, "B"), field.table(3)
    if kind == INT:
        return f"{'' if detail.number(1, '?') else 'u'}int{detail.number(0, 'i')}"
    if kind == FLOAT:
        return ("float16", "float", "double")[detail.number(0, "h")]
    if kind == FIXED_SIZE_BINARY:
        return f"fixed_size_binary[{detail.number(0, 'i')}]"
    if kind == LIST:
        return f"list<{bare(field.tables(5)[0])}>"
    if kind == FIXED_SIZE_LIST:
        return f"fixed_size_list<{bare(field.tables(5)[0])}>[{detail.number(0, 'i')}]"
    if kind == MAP:
        return f"map<{', '.join(bare(f) for f in field.tables(5)[0].tables(5))}>"
    return {BINARY: "binary", UTF8: "utf8", BOOL: "bool"}[kind]


def width(field: Table) -> int:
    """The bytes of a value of a fixed-size type."""
    kind, detail = field.number(2, "B"), field.table(3)
    if kind == INT:
        return detail.number(0, "i") // 8
    return 2 << detail.number(0, "h") if kind == FLOAT else detail.number(0, "i")


class Batch:
    """Consumes the nodes and buffers of a record batch, one column after another."""

    def __init__(self, body: bytes, header: Table) -> None:
        at, count = header.vector(1)
        self.nodes = [struct.unpack_from("<qq", header.data, at + 16 * i) for i in range(count)]
        at, count = header.vector(2)
        places = [struct.unpack_from("<qq", header.data, at + 16 * i) for i in range(count)]
        if any(begin % 8 or begin + length > len(body) for begin, length in places):
            raise ValueError("a buffer that is not in its body, or not at a multiple of 8")
        self.buffers = [body[begin : begin + length] for begin, length in places]

    def values(self, field: Table) -> list[Any]:
        """The values: bytes, a list of values, or a tuple of a struct's fields; None for a null."""
        kind = field.number(2, "B")
        rows, nulls = self.nodes.pop(0)
        valid = self.buffers.pop(0)
        present = [not valid or bool(valid[i >> 3] >> (i & 7) & 1) for i in range(rows)]
        if present.count(False) != nulls:
            raise ValueError(f"{present.count(False)} nulls in a column that promises {nulls}")
        values: list[Any]
        if kind in (BINARY, UTF8, LIST, MAP):
            offsets = struct.unpack_from(f"<{rows + 1}i", self.buffers.pop(0)) if rows else (0,)
            data: Any = self.values(field.tables(5)[0]) if kind in (LIST, MAP) else self.buffers.pop(0)
            values = [data[a:b] for a, b in itertools.pairwise(offsets)]
        elif kind == STRUCT:
            values = list(zip(*[self.values(f) for f in field.tables(5)]))
        elif kind == FIXED_SIZE_LIST:
            size = field.table(3).number(0, "i")
            inner = self.values(field.tables(5)[0])
            values = [inner[size * i : size * i + size] for i in range(rows)]
        elif kind == BOOL:
            bits = self.buffers.pop(0)
            values = [bytes([bits[i >> 3] >> (i & 7) & 1]) for i in range(rows)]
        else:
            data, size = self.buffers.pop(0), width(field)
            values = [data[size * i : size * i + size] for i in range(rows)]
        return [value if there else None for value, there in zip(values, present)]
