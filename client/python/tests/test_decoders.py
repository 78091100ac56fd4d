"""Decoders of parts, without a gateway and without the libraries that they use: the choice of a decoder, and its results for valid and
invalid bytes.
"""

from __future__ import annotations

import io
import pickle
import struct
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from millrace import values
from millrace.errors import CannotDecode, InvalidArgument, ProtocolError
from millrace.values import Automatic

SAID = "check that the field is that of this part, of the same generation"
YOURS = r'give this part a decoder of your own \(decode=\{"name": function\}\), or leave it out with fields='


def of(*fields: dict[str, Any], allow_pickle: bool = False, finish: Any = None) -> Automatic:
    return Automatic(finish=finish).of({"fields": fields}, allow_pickle)


def decoded(data: bytes, allow_pickle: bool = False, finish: Any = None, **field: Any) -> Any:
    """Returns the decoded part of a field. The bytes are read-only, like those of a reader."""
    name = field.setdefault("name", "part")
    decoder = of(field, allow_pickle=allow_pickle, finish=finish)(name)
    assert decoder is not None
    return decoder(memoryview(data))


def finish(value: Any) -> Any:
    return "finished", value


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


class Picture(io.BytesIO):
    """Replaces an open image of Pillow."""

    def load(self) -> None:
        self.content = self.read()

    def __eq__(self, other: object) -> bool:
        return self.content == other and self.closed

    __hash__ = None  # type: ignore[assignment]


class Libraries:
    """Replacements for Pillow, soundfile and torch, which return their arguments."""

    @staticmethod
    def library(module: str, install: str) -> Any:
        return {("PIL.Image", "pillow"): Libraries, ("soundfile", "soundfile"): Sounds, ("torch", "torch"): Tensors}[module, install]

    @staticmethod
    def open(file: io.BytesIO) -> Picture:
        return Picture(file.getvalue())

    @staticmethod
    def frombytes(mode: str, size: tuple[int, int], data: bytes) -> Any:
        assert isinstance(data, bytes)
        return mode, size, data


class Sounds:
    @staticmethod
    def read(file: io.BytesIO, *, dtype: str, always_2d: bool) -> Any:
        assert (dtype, always_2d) == ("float32", True)
        return SimpleNamespace(T=file.getvalue()[::-1]), 8000


class Tensors:
    @staticmethod
    def load(file: io.BytesIO, *, map_location: str, weights_only: bool) -> Any:
        assert (map_location, weights_only) == ("cpu", False)
        return file.getvalue()


@pytest.fixture(autouse=True)
def _libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "library", Libraries.library)


# The choice of a decoder for a part.


@pytest.mark.parametrize(
    ("name", "data", "want"),
    [
        ("cls", b" -3\n", -3), ("a.b.CLS", b"4", 4), ("txt", "é\n".encode(), "é\n"), ("x.text", b"t", "t"), ("transcript", b"", ""),
        ("json", b'{"a": [1, null]}', {"a": [1, None]}),
    ],
)  # fmt: skip
def test_texts_by_their_suffix(name: str, data: bytes, want: Any) -> None:
    for automatic in (Automatic(), of({"name": "other", "encoding": "raw", "type": "utf8"})):
        decoder = automatic(name)
        assert decoder is not None
        assert decoder(memoryview(data)) == want
        for wrong in (b"\xff", b"\xc3"):
            with pytest.raises(ValueError, match="utf-8"):
                decoder(memoryview(wrong))
    if name.lower().endswith(("cls", "json")):
        with pytest.raises(ValueError, match=r"invalid literal|Expecting value"):
            decoder(memoryview(b""))


@pytest.mark.parametrize("name", ["jpg", "jpeg", "a.PNG", "webp"])
def test_images_by_their_suffix(name: str) -> None:
    for automatic in (Automatic(), of({"name": "other", "encoding": "png"})):
        decoder = automatic(name)
        assert decoder is not None
        assert decoder(memoryview(b"pixels")) == b"pixels"
    decoder = of({"name": "other", "encoding": "png"}, finish=finish)(name)
    assert decoder is not None
    assert decoder(memoryview(b"pixels")) == finish(b"pixels")
    bare = pickle.dumps(Automatic(finish=finish)(name))
    assert pickle.dumps(decoder) == bare, "the decoder of a part carries those of all others"


@pytest.mark.parametrize("name", ["wav", "x.FLAC"])
def test_sounds_by_their_suffix(name: str) -> None:
    for automatic, want in ((Automatic(), b"321"), (Automatic(finish=finish), finish(b"321"))):
        decoder = automatic(name)
        assert decoder is not None
        assert decoder(memoryview(b"123")) == (want, 8000)


def test_other_suffixes_stay_bytes() -> None:
    for name in ("", "xyz", "jpg.bak", "txt.gz"):
        assert Automatic()(name) is None


def test_pickles_are_read_where_that_is_allowed() -> None:
    data = pickle.dumps([1])
    for name, want in (("pkl", [1]), ("pickle", [1]), ("a.pyd", [1]), ("pt", data), ("x.pth", data)):
        decoder = of(allow_pickle=True)(name)
        assert decoder is not None
        assert decoder(memoryview(data)) == want
        refused = of()(name)
        assert refused is not None
        with pytest.raises(CannotDecode, match=r"^a pickle runs whatever code its writer put into it") as raised:
            refused(memoryview(data))
        assert raised.match(rf"say reading=millrace.Reading\(allow_pickle=True\) if you trust the data, or {YOURS}$")
    assert decoded(data, allow_pickle=True, encoding="pickle") == [1]
    with pytest.raises(CannotDecode):
        decoded(data, encoding="pickle")


def test_the_description_goes_before_the_suffix() -> None:
    automatic = of({"name": "jpg", "encoding": "raw", "type": "utf8"}, {"name": "txt", "encoding": "csv"}, {"encoding": "json"}, {"name": ""})
    decoder = automatic("jpg")
    assert decoder is not None
    assert decoder(memoryview(b"text")) == "text"
    assert automatic("txt") is None
    assert sorted(automatic.known) == ["jpg", "txt"]
    assert Automatic().of({}, False).known == {}
    assert Automatic(known=automatic.known).of({}, False).known == {}


def test_sources_of_a_mixture() -> None:
    described = {"a": {"fields": [{"name": "x", "encoding": "raw", "type": "int8"}]}, "b": {"fields": [{"name": "x", "encoding": "json"}]}}
    for allow_pickle in (False, True):
        automatic = of({"name": "x", "encoding": "pickle"}, finish=finish).of({"described": described}, allow_pickle)
        assert (automatic.known, automatic.allow_pickle, automatic.finish) == ({}, allow_pickle, finish)
        assert {name: (one.allow_pickle, one.finish) for name, one in automatic.sources.items()} == dict.fromkeys("ab", (allow_pickle, finish))
        for source, want in (("a", 49), ("b", 1)):
            decoder = automatic("x", source)
            assert decoder is not None
            assert decoder(memoryview(b"1")) == want
        assert automatic("x") is automatic("x", "c") is None


def test_the_finish_of_a_framework() -> None:
    assert Automatic().finished(1) == 1
    assert Automatic(finish=finish).finished(1) == finish(1)


@pytest.mark.parametrize(
    ("data", "want"),
    [(data, data) for data in (b"\xff\xd8\xff\xe0", b"\x89PNG\r\n", b"RIFF\1\2\n\4WEBP", b"GIF89a", b"BM6", b"II*\0", b"MM\0*")]
    + [(data, (data[::-1], 8000)) for data in (b"RIFF\1\2\n\4WAVEfmt ", b"fLaC", b"OggS", b"ID3\4", b"\xff\xfb\x90", b"\xff\xe2")],
)
def test_images_and_sounds_of_hugging_face(data: bytes, want: Any) -> None:
    fields = [{"name": f"a.{name}", "encoding": "raw", "type": type} for name, type in (("bytes", "binary"), ("path", "utf8"))]
    decoder = of(*fields)("a.bytes")
    assert decoder is not None
    got = decoder(memoryview(data))
    assert got == want
    assert isinstance(got, (Picture, tuple)), "it was left as it is"
    for other in (b" " + data, data[:1], b"", b"RIFF" + data):
        got = decoder(memoryview(other))
        assert (got, type(got)) == (other, bytes)


@pytest.mark.parametrize(
    "fields",
    [{"a.bytes": "binary"}, {"a.bytes": "binary", "path": "utf8"}, {"a.data": "binary", "a.path": "utf8"}, {"bytes": "binary", ".path": "utf8"}],
)
def test_other_columns_of_bytes(fields: dict[str, str]) -> None:
    (name, *_) = fields
    decoder = of(*({"name": n, "encoding": "raw", "type": type} for n, type in fields.items()))(name)
    assert decoder is not None
    assert decoder(memoryview(b"GIF89a")) == b"GIF89a"
    assert type(decoder(memoryview(b"GIF89a"))) is bytes


def test_texts_of_hugging_face() -> None:
    decoder = of(*({"name": f"a.{name}", "encoding": "raw", "type": "utf8"} for name in ("bytes", "path")))("a.bytes")
    assert decoder is not None
    assert decoder(memoryview(b"GIF89a")) == "GIF89a"


def test_fields_that_describe_values() -> None:
    assert decoded(b"\3\0", encoding="raw", type="uint16") == 3
    assert decoded(b"\3\0\4\0", encoding="raw", type="list<uint16>") == [3, 4]
    assert decoded(b"[1]", encoding="json") == [1]
    assert decoded(b"text", encoding="raw", type="utf8", finish=finish) == "text"
    for encoding in ("png", "jpeg"):
        assert decoded(b"pixels", encoding=encoding, finish=finish) == finish(b"pixels")
    for field in ({"encoding": "csv"}, {}, {"encoding": "raw", "type": "utf8", "shape": [2]}, {"encoding": "raw", "type": "list<int128>"}):
        assert of({"name": "part", **field}, finish=finish)("part") is None


# Invalid values: the error names the part, its encoding, and the remedy.


def test_what_is_not_decoded() -> None:
    with pytest.raises(InvalidArgument, match=r"^part 'x': its encoding 'pickle' is not decoded here: give a decoder of your own"):
        values.value({"name": "x", "encoding": "pickle"}, b"")
    with pytest.raises(InvalidArgument, match=r"^type 'int128' is not known: give a decoder of your own"):
        values.value({"encoding": "raw", "type": "int128"}, b"")


@pytest.mark.parametrize(
    ("field", "data", "said"),
    [
        ({"encoding": "raw", "type": "int32"}, "010203", "3 bytes for a value of type int32, want 4"),
        ({"encoding": "raw", "type": "list<int16>"}, "010203", "a list of 3 bytes, with values of 2 each"),
        ({"encoding": "raw", "type": "list<utf8>"}, "01", "a list of 1 bytes, with values of 0 each"),
        ({"encoding": "raw", "type": "utf8"}, "61c3", "a text is not UTF-8: 'utf-8' codec can't decode byte 0xc3 in position 1"),
        ({"encoding": "json"}, "7b", "no JSON: Expecting property name"),
        ({"encoding": "decimal"}, "61" * 30, "no integer in decimal digits: b'aaaaaaaaaaaaaaaaaaaa'"),
        ("list", "00000000 00", "1 bytes follow a list"),
        ("list", "01000000 00 03000000 6161", "3 bytes from byte 9 on, of a list of 11"),
        ("list", "010000", "4 bytes from byte 0 on, of a list of 3"),
    ],
)  # fmt: skip
def test_wrong_values(field: Any, data: str, said: str) -> None:
    if field == "list":
        field = {"encoding": "nested", "type": "list<utf8>", "children": [{"encoding": "raw", "type": "utf8"}]}
    with pytest.raises(ProtocolError) as raised:
        values.value({"name": "x", **field}, bytes.fromhex(data))
    assert raised.value.message.startswith(f"decode a value: {said}")
    assert raised.value.cure == SAID


# Numbers as MosaicML Streaming and LitData store them.


def test_numbers_in_text() -> None:
    for encoding, data, want in (("str_int", b"1" + b"0" * 30, 10**30), ("str_float", b"-1e3", -1000.0), ("str_decimal", b"1.10", Decimal("1.10"))):
        got = decoded(data, encoding=f"mds:{encoding}")
        assert (str(got), type(got)) == (str(want), type(want))
        with pytest.raises((ValueError, ArithmeticError)):
            decoded(b"1x", encoding=f"mds:{encoding}")
        with pytest.raises((ValueError, ArithmeticError)):
            decoded(b"", encoding=f"mds:{encoding}")
        with pytest.raises(ValueError, match="utf-8"):
            decoded(b"\xff", encoding=f"mds:{encoding}")


@pytest.mark.parametrize("encoding", ["mds:pil", "litdata:pil"])
def test_bare_images(encoding: str) -> None:
    assert decoded(words(2, 1, 3) + b"RGB" + b"123456", encoding=encoding) == ("RGB", (2, 1), b"123456")
    assert decoded(words(2, 1, 1) + b"L" + b"12", finish=finish, encoding=encoding) == finish(("L", (2, 1), b"12"))
    assert decoded(words(4, 4, 1) + b"1" + b"\xff\0", encoding=encoding) == ("1", (4, 4), b"\xff\0")
    for width, height, size in ((4, 4, 1), (17, 1, 2), (1, 17, 2), (4096, 4096, 3)):
        with pytest.raises(ValueError, match=f"^{size} bytes for an image of {width} x {height}$"):
            decoded(words(width, height, 3) + b"RGB" + b"x" * size, encoding=encoding)
    with pytest.raises(UnicodeDecodeError):
        decoded(words(1, 1, 1) + b"\xff" + b"1", encoding=encoding)
    for n in range(12):
        with pytest.raises(struct.error):
            decoded(words(1, 1, 1)[:n], encoding=encoding)


BARE = (words(1, 1, 1) + b"L1", words(2, 1, 3) + b"RGB123456")
LISTS = [
    *((f"mds:list[{form}]", 4, (b"first", b"", b"3"), [b"first", b"", b"3"]) for form in ("jpeg", "png")),
    *((encoding, 0, (b"first", b"", b"3"), [b"first", b"", b"3"]) for encoding in ("mds:jpeg_array", "mds:jpegarray", "litdata:jpeg_array")),
    ("mds:list[pil]", 4, BARE, [("L", (1, 1), b"1"), ("RGB", (2, 1), b"123456")]),
]


@pytest.mark.parametrize(("encoding", "start", "elements", "want"), LISTS)
def test_lists_of_images(encoding: str, start: int, elements: tuple[bytes, ...], want: list[Any]) -> None:
    head = b"\xff" * start + words(len(elements), *map(len, elements))
    data = head + b"".join(elements)
    assert decoded(data, encoding=encoding) == want
    assert decoded(data, finish=finish, encoding=encoding) == list(map(finish, want))
    assert decoded(b"\xff" * start + words(0), encoding=encoding) == []
    for n in range(len(data)):
        with pytest.raises((ValueError, struct.error)):
            decoded(data[:n], encoding=encoding)
    with pytest.raises(ValueError, match=f"^{len(data) - len(head) + 1} bytes for elements of {len(data) - len(head)}$"):
        decoded(data + b"x", encoding=encoding)
    many = len(data) // 4 + 1
    with pytest.raises(ValueError, match=f"^{len(data)} bytes for a list of {many}$"):
        decoded(data[:start] + words(many) + data[start + 4 :], encoding=encoding)


def test_encodings_that_stay_bytes() -> None:
    mds = "", "bytes", "list[pil]x", "PIL", "ndarray:complex64", "ndarray:int8:2,", "ndarray:int8:x", "ndarray:int8:,2", "jpeg_array:1"
    without_header = (f"no_header_{name}" for name in ("numpy", "numpy:x", "numpy:99", "tensor:10", "pil:1"))
    litdata = "", "bytes", "list[pil]", "numpy:1", *without_header
    for kind, names in (("mds", mds), ("litdata", litdata), ("other", ("pil",)), ("PNG", ("",))):
        for name in names:
            assert of({"name": "jpg", "encoding": f"{kind}:{name}"})("jpg") is None, name
