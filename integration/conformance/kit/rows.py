"""Encodes rows of tables strictly by docs/spec/rows.md."""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

FIXED = {"bool": "<?", "int32": "<i", "int64": "<q", "float": "<f", "double": "<d"}


class Node(NamedTuple):
    """A column, a field of a struct, or the element of a list."""

    name: str
    kind: str  # one of FIXED, or binary, string, struct, list, map
    nullable: bool = True
    inner: tuple["Node", ...] = ()  # fields of a struct; the element of a list; the key and the value of a map


class Present(NamedTuple):
    path: str
    sized: bool  # the value's length is fixed by its kind
    content: bytes


def choose(nodes: Sequence[Node], names: Sequence[str], path: str = "") -> tuple[Node, ...]:
    """The nodes in an index of some columns."""
    out = []
    for node in nodes:
        inner = choose(node.inner, names, f"{path}{node.name}.") if node.kind == "struct" else ()
        if path + node.name in names:
            out.append(node)
        elif inner:
            out.append(node._replace(inner=inner))
    return tuple(out)


def of(nodes: Sequence[Node], chosen: Sequence[Node], values: Sequence[Any]) -> tuple[Any, ...]:
    """The values of the chosen nodes, given the values of all nodes."""
    out = []
    for node in chosen:
        at = [n.name for n in nodes].index(node.name)
        value = values[at]
        if node.kind == "struct" and value is not None:
            value = of(nodes[at].inner, node.inner, value)
        out.append(value)
    return tuple(out)


def walk(nodes: Sequence[Node], values: Sequence[Any], path: str, bits: list[bool]) -> list[Present]:
    """The values that are present, in pre-order. Appends one bit per nullable node to bits: 1 for null."""
    out = []
    for node, value in zip(nodes, values):
        if node.nullable:
            bits.append(value is None)
        if node.kind == "struct":
            out += walk(node.inner, value or [None] * len(node.inner), f"{path}{node.name}.", bits)
        elif value is not None:
            out.append(Present(path + node.name, node.kind in FIXED, content(node, value)))
    return out


def bitmap(bits: Sequence[bool]) -> bytes:
    return sum(bit << i for i, bit in enumerate(bits)).to_bytes((len(bits) + 7) // 8, "little")


def row(nodes: Sequence[Node], values: Sequence[Any]) -> bytes:
    bits: list[bool] = []
    present = walk(nodes, values, "", bits)
    lengths = b"".join(struct.pack("<I", len(p.content)) for p in present if not p.sized)
    return (bitmap(bits) or b"\0") + lengths + b"".join(p.content for p in present)


def content(node: Node, value: Any) -> bytes:
    if node.kind in FIXED:
        return struct.pack(FIXED[node.kind], value)
    if node.kind == "map":
        return nested(Node("entries", "struct", False, node.inner), value)
    if node.kind == "list":
        return listed(node.inner[0], value)
    return value.encode() if isinstance(value, str) else bytes(value)


def listed(element: Node, values: Sequence[Any]) -> bytes:
    if element.kind in FIXED:
        return b"".join(content(element, value) for value in values)
    return nested(element, values)


def nested(element: Node, values: Sequence[Any]) -> bytes:
    out = [struct.pack("<I", len(values)), bitmap([value is None for value in values])]
    for value in values:
        if value is None:
            continue
        if element.kind == "struct":
            out.append(row(element.inner, value))
        else:
            data = content(element, value)
            out += [struct.pack("<I", len(data)), data]
    return b"".join(out)


def parts(nodes: Sequence[Node], values: Sequence[Any]) -> dict[str, bytes]:
    """Returns the parts of a row: its present values, and markers for empty structs and an empty row."""
    out: dict[str, bytes] = {}
    collect(nodes, values, "", out)
    return out or {"__null__": b""}


def collect(nodes: Sequence[Node], values: Sequence[Any], path: str, out: dict[str, bytes]) -> None:
    for node, value in zip(nodes, values):
        if value is None:
            continue
        if node.kind != "struct":
            out[path + node.name] = content(node, value)
            continue
        before = len(out)
        collect(node.inner, value, f"{path}{node.name}.", out)
        if len(out) == before and node.nullable:
            out[path + node.name] = b""
