"""Python values of parts, by what a dataset's description says of them (`fields`).

    decode = millrace.decoders(client.describe("pairs"))
    for batch in client.epoch(0, decode=decode):
        captions, labels = batch["captions"], batch["label"]
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Literal, Union

from .batch import Decoder
from .errors import InvalidArgument, ProtocolError

Field = Mapping[str, Any]
"""What a description says of a part, or of what lies in one: name, encoding, type, logical, nullable, classes, children."""

_NUMBERS = {  # as the module struct has them
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float16": "e", "float": "f", "double": "d",
    "date32": "i", "date64": "q", "time32": "i", "time64": "q", "timestamp": "q", "duration": "q",
}  # fmt: skip
_DECIMALS = {"decimal32": 4, "decimal64": 8, "decimal128": 16, "decimal256": 32}
_INTERVALS = {"year_month": 4, "day_time": 8, "month_day_nano": 16}


def value(field: Field, data: Union[bytes, memoryview]) -> Any:
    """Returns the value that the bytes of a part stand for.

    Numbers are int, float and bool, decimals Decimal, text is str, all else bytes. A list is a list, a struct a dict, a map a list of
    pairs, and a null in one of these None. Dates, times and durations are the integers that are stored, in the unit that the type
    names. Decimal digits are int, and JSON is parsed. Of any other encoding, and of arrays with a shape, nothing is decoded: InvalidArgument.
    """
    view, encoding = memoryview(data), field.get("encoding")
    if encoding == "json":
        return _json(view)
    if encoding == "decimal":
        return _integer(view)
    if encoding == "nested" and field.get("children"):
        nested = _Nested(view)
        out = nested.list(field)
        nested.end()
        return out
    if encoding != "raw" or field.get("shape"):
        raise InvalidArgument(f"part {field.get('name')!r}: its encoding {encoding!r} is not decoded here: give a decoder of your own")
    size, make = _type(str(field.get("type")), str(field.get("logical", "")))
    if size and len(view) != size:
        raise _malformed(f"{len(view)} bytes for a value of type {field['type']}, want {size}")
    return make(view)


def decoders(description: Mapping[str, Any]) -> dict[str, Decoder]:
    """Returns a decoder for each part that value decodes, by what Client.describe says of a dataset. They can be pickled."""
    return {f["name"]: partial(value, f) for f in description.get("fields", ()) if f.get("name") and _known(f)}


def _known(field: Field) -> bool:
    encoding = field.get("encoding")
    if encoding == "nested":
        return bool(field.get("children")) and all(map(_known, field["children"]))
    if encoding != "raw" or field.get("shape"):
        return encoding in ("json", "decimal")
    try:
        _type(str(field.get("type")))
    except InvalidArgument:
        return False
    return True


def _malformed(what: str) -> ProtocolError:
    return ProtocolError(f"decode a value: {what}", cure="check that the field is that of this part, of the same generation")


@lru_cache(maxsize=1024)
def _type(text: str, logical: str = "") -> tuple[int, Callable[[memoryview], Any]]:
    """Returns how many bytes each value of a type has, 0 if that differs, and what makes a value of them."""
    found = re.fullmatch(r"(\w+)(?:\[(.*)\]|\((.*)\)|<(.*)>)?", text, re.DOTALL)
    kind, bracket, of, element = found.groups("") if found else ("", "", "", "")
    decimal = re.fullmatch(r"decimal\d+\([0-9]{1,3}, (-?[0-9]{1,3})\)", logical)
    make_bytes = partial(_decimal, int(decimal[1]), "big") if decimal else bytes  # as Parquet has decimals that are no integers
    if kind == "utf8":
        return 0, _text
    if kind in ("binary", "null"):
        return 0, make_bytes
    if kind == "list" and element:
        return 0, partial(_flat, *_type(element, logical.removeprefix("list<")[:-1]))
    if kind in _NUMBERS:
        code = struct.Struct("<" + _NUMBERS[kind])
        return code.size, lambda view: code.unpack(view)[0]
    if kind in _DECIMALS and (scale := of.rpartition(",")[2].strip()).lstrip("-").isdecimal():
        return _DECIMALS[kind], partial(_decimal, int(scale), "little")
    if kind == "interval" and bracket in _INTERVALS:
        return _INTERVALS[bracket], bytes
    if kind == "fixed_size_binary" and re.fullmatch("[1-9][0-9]{0,8}", bracket):
        return int(bracket), make_bytes
    raise InvalidArgument(f"type {text!r} is not known: give a decoder of your own")


def _json(view: memoryview) -> Any:
    try:
        return json.loads(bytes(view))
    except (ValueError, RecursionError) as e:
        raise _malformed(f"no JSON: {e}") from None


def _integer(view: memoryview) -> int:
    try:
        return int(bytes(view))
    except ValueError:
        raise _malformed(f"no integer in decimal digits: {bytes(view[:20])!r}") from None


def _text(view: memoryview) -> str:
    try:
        return str(view, "utf-8")
    except UnicodeDecodeError as e:
        raise _malformed(f"a text is not UTF-8: {e}") from None


def _decimal(scale: int, order: Literal["little", "big"], view: memoryview) -> Decimal:
    return Decimal(f"{int.from_bytes(view, order, signed=True)}E{-scale}")


def _flat(size: int, make: Callable[[memoryview], Any], view: memoryview) -> list[Any]:
    """A list whose values follow each other."""
    if not size or len(view) % size:
        raise _malformed(f"a list of {len(view)} bytes, with values of {size} each")
    return [make(view[i : i + size]) for i in range(0, len(view), size)]


class _Nested:
    """Reads the nested form of docs/rows.md."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def take(self, n: int) -> memoryview:
        if n > len(self._data) - self._at:
            raise _malformed(f"{n} bytes from byte {self._at} on, of a list of {len(self._data)}")
        self._at += n
        return self._data[self._at - n : self._at]

    def number(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def end(self) -> None:
        if self._at != len(self._data):
            raise _malformed(f"{len(self._data) - self._at} bytes follow a list")

    def list(self, field: Field) -> list[Any]:
        """A list or a map."""
        element = field["children"][0]
        count = self.number()
        nulls = self.take((count + 7) // 8)
        values = [None if nulls[i >> 3] >> (i & 7) & 1 else self.element(element) for i in range(count)]
        if re.match("map(<|$)", field["type"]):
            return [None if entry is None else tuple(entry.values()) for entry in values]
        return values

    def element(self, field: Field) -> Any:
        if field["type"] == "struct":
            return self.row(field["children"])
        return value(field, self.take(self.number()))

    def row(self, fields: Sequence[Field]) -> dict[str, Any]:
        """A struct in a list: which of its fields are null, the lengths of those without a size, and their values."""
        nullable = _nullable(fields)
        bitmap = self.take(max(1, (nullable + 7) // 8))
        nulls = (bool(bitmap[i >> 3] >> (i & 7) & 1) for i in range(8 * len(bitmap)))
        present: list[tuple[dict[str, Any], Field]] = []
        row = _shape(fields, nulls, False, present)
        if any(nulls):
            raise _malformed(f"more nulls than the {nullable} fields that may be one")
        lengths = [(_type(f["type"])[0] if f["encoding"] == "raw" else 0) or self.number() for _, f in present]
        for (into, field), length in zip(present, lengths):
            into[field["name"]] = value(field, self.take(length))
        return row


def _nullable(fields: Sequence[Field]) -> int:
    """How many bits say which of the fields, and of those in structs, are null."""
    return sum(bool(f.get("nullable")) + (_nullable(f["children"]) if f["type"] == "struct" else 0) for f in fields)


def _shape(fields: Sequence[Field], nulls: Iterator[bool], gone: bool, present: list[tuple[dict[str, Any], Field]]) -> dict[str, Any]:
    """Returns a row whose values are still missing, and lists those that are present. gone says that a struct around it is null."""
    row: dict[str, Any] = {}
    for field in fields:
        null = (next(nulls) if field.get("nullable") else False) or gone
        row[field["name"]] = None
        if field["type"] == "struct":
            inside = _shape(field["children"], nulls, null, present)
            row[field["name"]] = None if null else inside
        elif not null:
            present.append((row, field))
    return row
