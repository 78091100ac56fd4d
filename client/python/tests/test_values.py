"""Values of parts: each type, nested values written by this test's encoder, and invalid bytes."""

from __future__ import annotations

import pickle
import random
import struct
from decimal import Decimal
from typing import Any

import pytest

import millrace
from millrace.errors import InvalidArgument, MillraceError, ProtocolError
from millrace.values import value

Field = dict[str, Any]


def raw(type: str, name: str = "", nullable: bool = False, **more: Any) -> Field:
    return {"name": name, "encoding": "raw", "type": type, "nullable": nullable, **more}


def nested(type: str, *children: Field, name: str = "", nullable: bool = False) -> Field:
    return {"name": name, "encoding": "nested", "type": type, "nullable": nullable, "children": list(children)}


@pytest.mark.parametrize(
    ("type", "data", "want"),
    [
        ("bool", "01", True), ("int8", "ff", -1), ("uint8", "ff", 255), ("int16", "feff", -2), ("uint16", "feff", 65534),
        ("int32", "0000ff7f", 0x7FFF0000), ("uint64", "ff" * 8, 2**64 - 1), ("int64", "fe" + "ff" * 7, -2),
        ("float16", "003c", 1.0), ("float", "000080bf", -1.0), ("double", "000000000000f03f", 1.0),
        ("date32", "01000000", 1), ("time32[ms]", "02000000", 2), ("time64[us]", "0300000000000000", 3),
        ("timestamp[ms, tz=Europe/Paris]", "0400000000000000", 4), ("duration[ns]", "ffffffffffffffff", -1),
        ("decimal32(9, 2)", "39300000", Decimal("123.45")), ("decimal64(18, -2)", "ffffffffffffffff", Decimal("-1E+2")),
        ("decimal128(38, 10)", "ff" * 15 + "7f", Decimal("17014118346046923173168730371.5884105727")),
        ("interval[day_time]", "0100000002000000", bytes.fromhex("0100000002000000")), ("fixed_size_binary[3]", "010203", b"\1\2\3"),
        ("utf8", "c3a9", "é"), ("utf8", "", ""), ("binary", "00ff", b"\0\xff"),
        ("list<float>", "0000803f00000040", [1.0, 2.0]), ("list<int64>", "", []), ("list<decimal32(9, 2)>", "39300000", [Decimal("123.45")]),
        ("list<fixed_size_binary[2]>", "01020304", [b"\1\2", b"\3\4"]),
    ],
)  # fmt: skip
def test_types(type: str, data: str, want: Any) -> None:
    got = value(raw(type), bytes.fromhex(data))
    assert got == want
    assert got.__class__ is want.__class__
    if data and type not in ("utf8", "binary"):
        with pytest.raises(ProtocolError):
            value(raw(type), bytes.fromhex(data)[:-1])


def test_decimals_of_parquet() -> None:
    """Parquet stores decimals of many digits as bytes, most significant first."""
    assert value(raw("fixed_size_binary[9]", logical="decimal128(20, 2)"), b"\0" * 7 + b"\x30\x39") == Decimal("123.45")
    assert value(raw("binary", logical="decimal256(60, 0)"), b"\xff") == Decimal(-1)
    assert value(raw("list<fixed_size_binary[2]>", logical="list<decimal128(4, 1)>"), b"\0\1\xff\xfe") == [Decimal("0.1"), Decimal("-0.2")]
    assert value(raw("fixed_size_binary[2]", logical="uuid"), b"ab") == b"ab"
    assert value(raw("int32", logical="int8"), b"\xff" * 4) == -1


def test_the_example_of_the_page() -> None:
    """Decodes the tags of docs/spec/rows.md."""
    tags = nested("list<utf8>", raw("utf8", nullable=True), name="tags")
    assert value(tags, bytes.fromhex("03000000 02 01000000 61 00000000")) == ["a", None, ""]
    assert value(tags, bytes.fromhex("00000000")) == []


# An encoder of rows and lists according to docs/spec/rows.md.


def encode(field: Field, v: Any) -> bytes:
    kind = field["type"].partition("<")[0]
    if kind == "utf8":
        return str(v).encode()
    if field["encoding"] == "raw":
        return struct.pack(f"<{len(v)}i", *v) if kind == "list" else struct.pack("<i", v)
    element = field["children"][0]
    out = struct.pack("<I", len(v)) + bits([e is None for e in v], 0)
    for e in v:
        if e is not None and element["type"] == "struct":
            out += row(element["children"], dict(zip(("key", "value"), e)) if kind == "map" else e)
        elif e is not None:
            content = encode(element, e)
            out += struct.pack("<I", len(content)) + content
    return out


def bits(nulls: list[bool], least: int) -> bytes:
    return sum(null << i for i, null in enumerate(nulls)).to_bytes(max(least, (len(nulls) + 7) // 8), "little")


def row(fields: list[Field], v: dict[str, Any]) -> bytes:
    nulls: list[bool] = []
    contents: list[tuple[Field, bytes]] = []

    def walk(fields: list[Field], v: Any) -> None:
        for f in fields:
            at = None if v is None else v[f["name"]]
            if f["nullable"]:
                nulls.append(at is None)
            if f["type"] == "struct":
                walk(f["children"], at)
            elif at is not None:
                contents.append((f, encode(f, at)))

    walk(fields, v)
    lengths = b"".join(struct.pack("<I", len(c)) for f, c in contents if f["type"] != "int32")
    return bits(nulls, 1) + lengths + b"".join(c for _, c in contents)


def draw_field(r: random.Random, depth: int, name: str = "") -> Field:
    kind = r.choice(("int32", "utf8", "flat", *("struct", "list", "map") * (depth > 0)))
    nullable = r.random() < 0.7
    if kind == "flat":
        return raw("list<int32>", name, nullable)
    if kind in ("int32", "utf8"):
        return raw(kind, name, nullable)
    if kind == "struct":
        return nested(kind, *(draw_field(r, depth - 1, f"f{i}") for i in range(r.randint(1, 10))), name=name, nullable=nullable)
    if kind == "map":
        entry = nested("struct", raw("utf8", "key"), draw_field(r, depth - 1, "value"))
        return nested(kind, entry, name=name, nullable=nullable)
    element = draw_field(r, depth - 1)
    while element["type"] == "int32":  # a list of int32 is flat
        element = draw_field(r, depth - 1)
    return nested(kind, element, name=name, nullable=nullable)


def draw_value(r: random.Random, field: Field) -> Any:
    if field["nullable"] and r.random() < 0.3:
        return None
    kind = field["type"].partition("<")[0]
    if kind == "int32":
        return r.randint(-(2**31), 2**31 - 1)
    if kind == "utf8":
        return "é" * r.randint(0, 3)
    if kind == "struct":
        return {f["name"]: draw_value(r, f) for f in field["children"]}
    if field["encoding"] == "raw":
        return [r.randint(0, 9) for _ in range(r.randint(0, 3))]
    values = [draw_value(r, field["children"][0]) for _ in range(r.randint(0, 12))]
    return [None if e is None else (e["key"], e["value"]) for e in values] if kind == "map" else values


def whole(r: random.Random) -> Field:
    field = draw_field(r, 3)
    while field["type"] not in ("list", "map"):
        field = draw_field(r, 3)
    return {**field, "name": "part", "nullable": False, "type": field["type"] + "<...>"}  # in the form of a part's field


@pytest.mark.parametrize("seed", range(200))
def test_nested(seed: int) -> None:
    r = random.Random(seed)
    field = whole(r)
    want = draw_value(r, field)
    data = encode(field, want)
    assert value(field, data) == want
    assert value(field, memoryview(data)) == want
    for n in range(0, len(data), 1 + len(data) // 50):
        with pytest.raises(ProtocolError):
            value(field, data[:n])
    with pytest.raises(ProtocolError):
        value(field, data + b"\0")


@pytest.mark.parametrize("seed", range(100))
def test_damaged(seed: int) -> None:
    """The result is a value or a clear error, never another exception, and never takes much memory."""
    r = random.Random(seed)
    field = whole(r)
    data = bytearray(encode(field, draw_value(r, field)))
    said: list[str] = []
    for _ in range(50):
        at = r.randrange(len(data))
        kept, data[at] = data[at], r.randrange(256)
        try:
            value(field, data)
        except MillraceError as e:
            said.append(str(e))
        data[at] = kept
    assert all("decode a value: " in words for words in said)


def test_hostile() -> None:
    texts = nested("list<utf8>", raw("utf8"))
    for data in ("", "000000", "ffffffff", "01000000 00 ffffffff", "01000000 00 01000000 ff", "00000000 00"):
        with pytest.raises(ProtocolError):
            value(texts, bytes.fromhex(data))
    pairs = nested("list<struct<a: int32>>", nested("struct", raw("int32", "a", nullable=True)))
    with pytest.raises(ProtocolError, match="more nulls than the 1 fields"):
        value(pairs, bytes.fromhex("01000000 00 03"))
    with pytest.raises(ProtocolError, match="no JSON"):
        value({"name": "json", "encoding": "json"}, b"[" * 100_000)
    with pytest.raises(ProtocolError, match="not UTF-8"):
        value(raw("utf8"), b"\xff")
    wide = "fixed_size_binary[" + "9" * 5000 + "]"
    unknown = ("", "list<>", "list<utf8>x", "int128", "fixed_size_binary[0]", wide, "interval[x]", "struct<a: int32>")
    for type in (*unknown, "list<list<int32>>"):
        with pytest.raises((InvalidArgument, ProtocolError)):
            value(raw(type), b"1234")
    for field in ({"name": "a", "encoding": "pickle"}, raw("float", "a", shape=[2]), {"name": "a", "encoding": "nested", "type": "list<utf8>"}, {}):
        with pytest.raises(InvalidArgument, match="a decoder of your own"):
            value(field, b"1234")


def test_decoders() -> None:
    fields = [
        raw("int64", "label"), raw("utf8", "text"), nested("list<utf8>", raw("utf8"), name="tags"), {"name": "meta", "encoding": "json"},
        {"name": "image", "encoding": "jpeg"}, raw("float", "array", shape=[2]), raw("int128", "wide"), raw("int32"),
        {"name": "old", "encoding": "nested", "type": "list<utf8>"}, nested("list<x>", raw("int128"), name="odd"),
        {"name": "cls", "encoding": "decimal", "type": "int64"},
    ]  # fmt: skip
    found = pickle.loads(pickle.dumps(millrace.decoders({"fields": fields})))
    assert sorted(found) == ["cls", "label", "meta", "tags", "text"]
    assert found["cls"](memoryview(b"17")) == 17
    with pytest.raises(ProtocolError, match="no integer in decimal digits: b'x'"):
        found["cls"](memoryview(b"x"))
    assert found["label"](memoryview(b"\2" + b"\0" * 7)) == 2
    assert found["meta"](memoryview(b'{"a": [1]}')) == {"a": [1]}
    assert millrace.decoders({"name": "tars"}) == {}


def test_class_names() -> None:
    folders = {"name": "cls", "encoding": "decimal", "type": "int64", "classes": ["a", "b"]}
    described = {"name": "d", "fields": [raw("int64", "label", classes=["cat", "dog"]), raw("int64", "n"), folders]}
    assert millrace.class_names(described, "label") == ["cat", "dog"]
    assert millrace.class_names(described) == ["a", "b"]
    for part in ("n", "nothing"):
        with pytest.raises(InvalidArgument, match=f"dataset d: the values of part '{part}' have no names"):
            millrace.class_names(described, part)
