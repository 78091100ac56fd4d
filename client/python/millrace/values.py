"""Python values of parts. The dataset's description of a part (`fields`) determines the value, otherwise the part's suffix.

    for batch in client.epoch(0, decode=True):
        images, labels = batch["jpg"], batch["cls"]

jpg, png, webp     PIL.Image.Image, in the file's own mode and size. millrace.numpy: uint8 array, height x width x bands.
                   millrace.torch: uint8 tensor, bands x height x width
npy, arrays        numpy.ndarray of the stored type and shape. millrace.torch: tensor
npz, safetensors   dict of such arrays
wav, flac          float32 array in [-1, 1], channels x frames, and the frames per second (int)
cls, txt, json     int, str, parsed JSON
pt, pkl            rejected unless allow_pickle=True

The page Python: values and decoding has the whole table: https://github.com/millrace-data/millrace/blob/main/docs/python-decoding.md. A
library, such as Pillow, is imported when the first part requires it. Numbers and texts require none:

    decode = millrace.decoders(client.describe("pairs"))
    for batch in client.epoch(0, decode=decode):
        captions, labels = batch["captions"], batch["label"]
"""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, lru_cache, partial
from typing import Any, Literal, Optional, Union

from ._process import import_whole, parsing
from .batch import Decoder
from .errors import CannotDecode, InvalidArgument, ProtocolError

Field = Mapping[str, Any]
"""The description of a part, or of an element in one: name, encoding, type, logical, nullable, classes, children."""

_NUMBERS = {  # format characters of the module struct
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float16": "e", "float": "f", "double": "d",
    "date32": "i", "date64": "q", "time32": "i", "time64": "q", "timestamp": "q", "duration": "q",
}  # fmt: skip
_DECIMALS = {"decimal32": 4, "decimal64": 8, "decimal128": 16, "decimal256": 32}
_INTERVALS = {"year_month": 4, "day_time": 8, "month_day_nano": 16}


def value(field: Field, data: Union[bytes, memoryview]) -> Any:
    """Returns the value of a part's bytes.

    Numbers are int, float and bool, decimals are Decimal, text is str, and all other types are bytes. A list is a list, a struct a dict, a
    map a list of pairs, and a null in one of these None. Dates, times and durations are the stored integers, in the unit of the type.
    Decimal digits are int, and JSON is parsed. Other encodings, and arrays with a shape, raise InvalidArgument.
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
    """Returns a decoder for each part that value supports, from a dataset's description (Client.describe). They can be pickled."""
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
    """Returns the size of a type's values (0 if variable) and the function that decodes one value."""
    found = re.fullmatch(r"(\w+)(?:\[(.*)\]|\((.*)\)|<(.*)>)?", text, re.DOTALL)
    kind, bracket, of, element = found.groups("") if found else ("", "", "", "")
    decimal = re.fullmatch(r"decimal\d+\([0-9]{1,3}, (-?[0-9]{1,3})\)", logical)
    # Parquet stores decimals that are not integers in this form
    make_bytes = partial(_decimal, int(decimal[1]), "big") if decimal else bytes
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
    """Decodes a list of contiguous values."""
    if not size or len(view) % size:
        raise _malformed(f"a list of {len(view)} bytes, with values of {size} each")
    return [make(view[i : i + size]) for i in range(0, len(view), size)]


class _Nested:
    """Parses the nested form of docs/spec/rows.md."""

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
        """Parses a list or a map."""
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
        """Parses a struct in a list: a bitmap of null fields, the lengths of values without a fixed size, and the values."""
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
    """Returns the number of bits for nulls of the fields, including those in structs."""
    return sum(bool(f.get("nullable")) + (_nullable(f["children"]) if f["type"] == "struct" else 0) for f in fields)


def _shape(fields: Sequence[Field], nulls: Iterator[bool], gone: bool, present: list[tuple[dict[str, Any], Field]]) -> dict[str, Any]:
    """Returns a row without values, and lists the present fields. gone means that an enclosing struct is null."""
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


# Automatic decoders.

_YOURS = 'give this part a decoder of your own (decode={"name": function}), or leave it out with fields='


@dataclass(frozen=True)
class Automatic:
    """Returns the decoder of any part. It can be pickled.

    allow_pickle  read pickles, which can execute arbitrary code of their writer
    finish        converts an image (PIL.Image.Image) or array (numpy.ndarray) for a framework. With it lists of numbers are
                  arrays too; without it they are Python's lists
    known         the decoders of the parts that the dataset's description names; None for parts that stay bytes
    sources       of a mixture whose sources differ in their columns: the same for each source, by its name
    """

    allow_pickle: bool = False
    finish: Optional[Callable[[Any], Any]] = None
    known: Mapping[str, Optional[Decoder]] = dataclasses.field(default_factory=dict)
    sources: Mapping[str, Automatic] = dataclasses.field(default_factory=dict)

    def of(self, description: Mapping[str, Any], allow_pickle: bool) -> Automatic:
        """Returns the same decoders for a dataset, from its description (Client.describe)."""
        bare = replace(self, allow_pickle=allow_pickle, known={}, sources={})
        if described := description.get("described"):
            return replace(bare, sources={name: bare.of(one, allow_pickle) for name, one in described.items()})
        fields: dict[str, Field] = {f["name"]: f for f in description.get("fields", ()) if f.get("name")}
        known = {name: _by_field(bare, f) for name, f in fields.items()}
        # Hugging Face's Image and Audio are structs with the columns bytes and path
        for name, f in fields.items():
            column, dot, last = name.rpartition(".")
            if dot and last == "bytes" and f.get("type") == "binary" and f"{column}.path" in fields:
                known[name] = partial(_by_content, bare)
        return replace(bare, known=known)

    def __call__(self, name: str, source: str = "") -> Optional[Decoder]:
        """Returns the decoder of a part, or None if it stays bytes. source is the sample's dataset in a mixture."""
        if source in self.sources:
            return self.sources[source](name)
        if name in self.known:
            return self.known[name]
        suffix = name.rpartition(".")[2].lower()
        how = _SUFFIXES.get(suffix)
        return _PLAIN.get(suffix) if how is None else partial(how, replace(self, known={}) if self.known else self)

    def finished(self, value: Any) -> Any:
        """Returns the framework's value for an image or array."""
        return value if self.finish is None else self.finish(value)


@cache
def library(module: str, install: str) -> Any:
    """Imports a module outside the standard library; CannotDecode explains how to install it."""
    try:
        return import_whole(module)
    except ImportError as e:
        raise CannotDecode(f"{install} is not installed", cure=f"pip install {install}, or {_YOURS}") from e


# Images, audio, and other values that libraries decode.


def _image(how: Automatic, view: memoryview) -> Any:
    with library("PIL.Image", "pillow").open(io.BytesIO(view)) as image:
        image.load()
        return how.finished(image)


def _bare_image(how: Automatic, view: memoryview) -> Any:
    """Decodes pixels preceded by width, height and mode, as MosaicML Streaming and LitData store a Pillow image."""
    width, height, letters = struct.unpack_from("<3I", view)
    pixels = view[12 + letters :]
    # Pillow allocates memory for all pixels first; one byte holds at most 8 pixels
    if width * height > 8 * len(pixels):
        raise ValueError(f"{len(pixels)} bytes for an image of {width} x {height}")
    mode = str(view[12 : 12 + letters], "ascii")
    return how.finished(library("PIL.Image", "pillow").frombytes(mode, (width, height), bytes(pixels)))


def _images(start: int, one: Callable[[Automatic, memoryview], Any], how: Automatic, view: memoryview) -> list[Any]:
    """Decodes a list: its length, at `start`, the sizes of its elements, and the elements."""
    (count,) = struct.unpack_from("<I", view, start)
    if 4 * count > len(view):
        raise ValueError(f"{len(view)} bytes for a list of {count}")
    sizes = struct.unpack_from(f"<{count}I", view, start + 4)
    at = start + 4 + 4 * count
    if at + sum(sizes) != len(view):
        raise ValueError(f"{len(view) - at} bytes for elements of {sum(sizes)}")
    out = []
    for size in sizes:
        out.append(one(how, view[at : at + size]))
        at += size
    return out


def _sound(how: Automatic, view: memoryview) -> tuple[Any, int]:
    samples, rate = library("soundfile", "soundfile").read(io.BytesIO(view), dtype="float32", always_2d=True)
    return how.finished(samples.T), rate


_IMAGE = re.compile(rb"\xff\xd8\xff|\x89PNG|RIFF....WEBP|GIF8|BM|II\*\0|MM\0\*", re.DOTALL)
_SOUND = re.compile(rb"RIFF....WAVE|fLaC|OggS|ID3|\xff[\xe2-\xfb]", re.DOTALL)


def _by_content(how: Automatic, view: memoryview) -> Any:
    """Decodes an image or audio by its first bytes; other bytes are returned unchanged."""
    begin = bytes(view[:12])
    decoder = _image if _IMAGE.match(begin) else _sound if _SOUND.match(begin) else None
    return bytes(view) if decoder is None else decoder(how, view)


def _pickle(how: Automatic, view: memoryview) -> Any:
    _refuse(how)
    return pickle.loads(view)


def _of_torch(how: Automatic, view: memoryview) -> Any:
    _refuse(how)
    return library("torch", "torch").load(io.BytesIO(view), map_location="cpu", weights_only=False)


def _refuse(how: Automatic) -> None:
    if not how.allow_pickle:
        cure = f"say reading=millrace.Reading(allow_pickle=True) if you trust the data, or {_YOURS}"
        raise CannotDecode("a pickle runs whatever code its writer put into it", cure=cure)


# Arrays are copies, because a view would keep the bytes of the whole batch in memory.


def _array(dtype: str, shape: Sequence[int], how: Automatic, view: memoryview) -> Any:
    np = library("numpy", "numpy")
    return how.finished(np.frombuffer(view, np.dtype(dtype)).reshape(shape).copy())


def _npy(how: Automatic, view: memoryview) -> Any:
    load = library("numpy", "numpy").load
    with parsing:
        array = load(io.BytesIO(view), allow_pickle=how.allow_pickle)
    return how.finished(array)


def _npz(how: Automatic, view: memoryview) -> dict[str, Any]:
    load = library("numpy", "numpy").load
    with parsing, load(io.BytesIO(view), allow_pickle=how.allow_pickle) as arrays:
        return {name: how.finished(array) for name, array in arrays.items()}


def _safetensors(how: Automatic, view: memoryview) -> dict[str, Any]:
    data = view[8 + int.from_bytes(view[:8], "little") :]
    head = json.loads(bytes(view[8 : len(view) - len(data)]))
    head.pop("__metadata__", None)
    for name, tensor in head.items():
        if tensor["dtype"] not in _SAFETENSORS:
            cure = f"say decode={{'safetensors': safetensors.torch.load}}, or {_YOURS}"
            raise CannotDecode(f"tensor {name!r} has the type {tensor['dtype']}, which NumPy lacks", cure=cure)
    return {name: _array(_SAFETENSORS[t["dtype"]], t["shape"], how, data[slice(*t["data_offsets"])]) for name, t in head.items()}


_DTYPES = {  # by Arrow's and NumPy's names
    "bool": "?", "float16": "<f2", "float": "<f4", "float32": "<f4", "double": "<f8", "float64": "<f8",
    **{f"{sign}int{8 * n}": f"<{sign or 'i'}{n}" for sign in ("", "u") for n in (1, 2, 4, 8)},
}  # fmt: skip
_SAFETENSORS = {
    "BOOL": "?",
    "C64": "<c8",
    **{f"{k.upper()}{8 * n}": f"<{k}{n}" for k, sizes in {"i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8)}.items() for n in sizes},
}
_MDS = {8: "u1", 9: "i1", 16: "<u2", 17: "<i2", 18: "<f2", 32: "<u4", 33: "<i4", 34: "<f4", 64: "<u8", 65: "<i8", 66: "<f8"}
# LitData's type numbers; some types have two, and bfloat16 and Python objects are not supported
_LITDATA = {
    "numpy": dict(enumerate(("i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", "?"))),
    "tensor": {
        0: "<f4", 1: "<f4", 2: "<f8", 3: "<f8", 4: "<c8", 5: "<c8", 6: "<c16", 7: "<c16", 8: "<f2", 9: "<f2",
        11: "u1", 12: "i1", 13: "<i2", 14: "<i2", 15: "<i4", 16: "<i4", 17: "<i8", 18: "<i8", 19: "?",
    },
}  # fmt: skip


def _mds_array(dtype: Optional[str], shape: Optional[Sequence[int]], how: Automatic, view: memoryview) -> Any:
    """Decodes an array of MosaicML Streaming. Type and shape precede the elements if the column does not fix them."""
    if dtype is None:
        dtype, view = _numbered(_MDS, view[0]), view[1:]
    if shape is None:
        axes = f"<{view[0] >> 2}{'BHIQ'[view[0] & 3]}"
        shape, view = struct.unpack_from(axes, view, 1), view[1 + struct.calcsize(axes) :]
    return _array(dtype, shape, how, view)


def _litdata_array(dtypes: Mapping[int, str], how: Automatic, view: memoryview) -> Any:
    """Decodes an array or tensor of LitData, which follows its type and shape."""
    number, axes = struct.unpack_from("<2I", view)
    dtype = _numbered(dtypes, number)
    end = 8 + 4 * axes
    if end > len(view):
        raise ValueError(f"{len(view)} bytes for an array of {axes} axes")
    return _array(dtype, struct.unpack_from(f"<{axes}I", view, 8), how, view[end:])


def _numbered(dtypes: Mapping[int, str], number: int) -> str:
    if number not in dtypes:
        raise ValueError(f"an array whose elements are of type number {number}, which is not decoded here")
    return dtypes[number]


# Text.


def load_json(view: memoryview) -> Any:
    """Decoder for JSON: `decode={"json": millrace.load_json}`."""
    return json.loads(bytes(view))


def _written(kind: Callable[[str], Any], view: memoryview) -> Any:
    return kind(str(view, "utf-8"))


_PLAIN: Mapping[str, Decoder] = {
    "cls": partial(_written, int),
    **dict.fromkeys(("txt", "text", "transcript"), partial(_written, str)),
    "json": load_json,
}
_SUFFIXES: Mapping[str, Callable[[Automatic, memoryview], Any]] = {
    "npy": _npy,
    "npz": _npz,
    "safetensors": _safetensors,
    **dict.fromkeys(("jpg", "jpeg", "png", "webp"), _image),
    **dict.fromkeys(("wav", "flac"), _sound),
    **dict.fromkeys(("pt", "pth"), _of_torch),
    **dict.fromkeys(("pkl", "pickle", "pyd"), _pickle),
}
_WHOLE = {"jpeg": _image, "png": _image, "pickle": _pickle}


def _by_field(how: Automatic, of: Field) -> Optional[Decoder]:
    """Returns the decoder of a part in the description, or None if it stays bytes."""
    encoding = str(of.get("encoding"))
    kind, _, detail = encoding.partition(":")
    shape: Optional[Sequence[int]] = of.get("shape")
    if encoding in _WHOLE:
        return partial(_WHOLE[encoding], how)
    if kind in ("mds", "litdata"):
        return (_by_mds if kind == "mds" else _by_litdata)(how, detail)
    if kind == "numpy":
        return partial(_array, detail, shape or (), how)
    element = re.fullmatch("list<(.*)>", str(of.get("type")))
    if encoding == "raw" and shape and of.get("type") in _DTYPES:
        return partial(_array, _DTYPES[of["type"]], shape, how)
    if encoding == "raw" and how.finish is not None and element and element[1] in _DTYPES:
        return partial(_array, _DTYPES[element[1]], (-1,), how)
    return decoders({"fields": [of]}).get(of["name"])


def _by_mds(how: Automatic, encoding: str) -> Optional[Decoder]:
    name, _, detail = encoding.partition(":")
    if name == "ndarray":
        number, _, axes = detail.partition(":")
        if (number and number not in _DTYPES) or not re.fullmatch(r"([0-9]+(,[0-9]+)*)?", axes):
            return None
        return partial(_mds_array, _DTYPES.get(number), [int(n) for n in axes.split(",")] if axes else None, how)
    plain: dict[str, Decoder] = {
        "str_int": partial(_written, int), "str_float": partial(_written, float), "str_decimal": partial(_written, Decimal),
        "pil": partial(_bare_image, how), "list[pil]": partial(_images, 4, _bare_image, how),
        **dict.fromkeys(("list[jpeg]", "list[png]"), partial(_images, 4, _image, how)),
        **dict.fromkeys(("jpeg_array", "jpegarray"), partial(_images, 0, _image, how)),
    }  # fmt: skip
    return plain.get(encoding)


def _by_litdata(how: Automatic, serializer: str) -> Optional[Decoder]:
    name, _, number = serializer.partition(":")
    bare = name.removeprefix("no_header_")
    if bare in _LITDATA and bare != name:
        dtype = _LITDATA[bare].get(int(number)) if number.isdecimal() else None
        return None if dtype is None else partial(_array, dtype, (-1,), how)
    plain: dict[str, Decoder] = {
        "pil": partial(_bare_image, how), "jpeg_array": partial(_images, 0, _image, how),
        **{kind: partial(_litdata_array, dtypes, how) for kind, dtypes in _LITDATA.items()},
    }  # fmt: skip
    return plain.get(serializer)
