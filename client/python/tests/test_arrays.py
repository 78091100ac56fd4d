"""Arrays and images from handwritten bytes, decoded by numpy and Pillow without a gateway."""

from __future__ import annotations

import io
import random
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image

from millrace import values
from millrace.errors import CannotDecode
from millrace.values import Automatic

ELEMENTS = bytes(range(1, 49))  # bytes for three elements of the widest type


def decoded(data: bytes, allow_pickle: bool = False, finish: Any = None, **field: Any) -> Any:
    """Returns the decoded part of a field, or of a part named npy."""
    decoder = Automatic(finish=finish).of({"fields": [{"name": "x", **field}] if field else ()}, allow_pickle)("x" if field else "npy")
    assert decoder is not None
    buffer = bytearray(data)
    got = decoder(memoryview(buffer))
    buffer[:] = bytes(len(data))  # the array must not refer to this memory
    return got


def check(got: Any, dtype: str, shape: tuple[int, ...], data: bytes = ELEMENTS) -> None:
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape, got.tobytes()) == (np.dtype(dtype), shape, data)


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


ARROW = [
    ("bool", "?"), ("int8", "i1"), ("int16", "<i2"), ("int32", "<i4"), ("int64", "<i8"), ("uint8", "u1"), ("uint16", "<u2"),
    ("uint32", "<u4"), ("uint64", "<u8"), ("float16", "<f2"), ("float", "<f4"), ("double", "<f8"),
]  # fmt: skip
NUMPY = [*ARROW[:-2], ("float32", "<f4"), ("float64", "<f8")]


@pytest.mark.parametrize(("type", "dtype"), ARROW)
def test_raw(type: str, dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    check(decoded(ELEMENTS, encoding="raw", type=type, shape=[2, 24 // size]), dtype, (2, 24 // size))
    check(decoded(ELEMENTS, encoding="raw", type=f"list<{type}>", finish=lambda a: a[:1]), dtype, (1,), ELEMENTS[:size])
    assert decoded(ELEMENTS[:size], encoding="raw", type=f"list<{type}>") == [np.frombuffer(ELEMENTS[:size], dtype)[0]]
    with pytest.raises(ValueError, match="reshape"):
        decoded(ELEMENTS[size:], encoding="raw", type=type, shape=[2, 24 // size])


def test_one_value_is_no_array() -> None:
    assert decoded(b"\3", encoding="raw", type="int8", finish=list) == 3


def test_numpy() -> None:
    check(decoded(ELEMENTS, encoding="numpy:>u2", shape=[4, 6]), ">u2", (4, 6))
    check(decoded(b"\1\2", encoding="numpy:<i2"), "<i2", (), b"\1\2")
    assert decoded(b"\1\2", encoding="numpy:<i2", shape=[1], finish=lambda a: a.tolist()) == [513]


def test_npy() -> None:
    check(decoded(npy(np.frombuffer(ELEMENTS, "<i4").reshape(3, 4))), "<i4", (3, 4))
    assert decoded(npy(np.arange(3)), finish=lambda a: a.tolist()) == [0, 1, 2]
    pickled = npy(np.array([{"a": 1}]))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        decoded(pickled)
    assert decoded(pickled, allow_pickle=True)[0] == {"a": 1}
    for wrong in (b"", b"no array", npy(np.arange(3))[:-1]):
        with pytest.raises((ValueError, EOFError)):
            decoded(wrong)


MDS = {
    "uint8": 8, "int8": 9, "uint16": 16, "int16": 17, "uint32": 32, "int32": 33, "uint64": 64, "int64": 65,
    "float16": 18, "float32": 34, "float64": 66,
}  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), [n for n in NUMPY if n[0] in MDS])
def test_types_of_streaming(name: str, dtype: str) -> None:
    columns = 24 // np.dtype(dtype).itemsize
    number, shape = bytes([MDS[name]]), bytes([2 << 2, 2, columns])
    check(decoded(number + shape + ELEMENTS, encoding="mds:ndarray"), dtype, (2, columns))
    check(decoded(shape + ELEMENTS, encoding=f"mds:ndarray:{name}"), dtype, (2, columns))
    check(decoded(ELEMENTS, encoding=f"mds:ndarray:{name}:2,{columns}"), dtype, (2, columns))


@pytest.mark.parametrize("width", [0, 1, 2, 3])
def test_shapes_of_streaming(width: int) -> None:
    axes = b"".join(n.to_bytes(1 << width, "little") for n in (6, 1, 8))
    check(decoded(bytes([3 << 2 | width]) + axes + ELEMENTS, encoding="mds:ndarray:int8"), "i1", (6, 1, 8))
    check(decoded(bytes([width]) + b"\5", encoding="mds:ndarray:int8"), "i1", (), b"\5")
    long = 300 if width else 48
    data = bytes([1 << 2 | width]) + long.to_bytes(1 << width, "little") + bytes(long)
    check(decoded(data, encoding="mds:ndarray:int8"), "i1", (long,), bytes(long))
    with pytest.raises(ValueError, match="reshape"):
        decoded(bytes([3 << 2 | width]) + axes + ELEMENTS[1:], encoding="mds:ndarray:int8")


def test_fixed_shapes_of_streaming() -> None:
    check(decoded(ELEMENTS, encoding="mds:ndarray:int8:48"), "i1", (48,))
    check(decoded(ELEMENTS, encoding="mds:ndarray:int8:12,2,2"), "i1", (12, 2, 2))
    assert decoded(b"\1\2", encoding="mds:ndarray:int8:2", finish=lambda a: a.tolist()) == [1, 2]
    assert decoded(b"\1\2", encoding="mds:ndarray:bool:2").tolist() == [True, True]


def test_unknown_types() -> None:
    for number in (0, 7, 67, 255):
        with pytest.raises(ValueError, match=rf"^an array whose elements are of type number {number}, which is not decoded here$"):
            decoded(bytes([number, 0]) + ELEMENTS, encoding="mds:ndarray")
    for kind, number in (("numpy", 14), ("tensor", 10), ("tensor", 20)):
        with pytest.raises(ValueError, match=f"type number {number}, "):
            decoded(struct.pack("<3I", number, 1, 48) + ELEMENTS, encoding=f"litdata:{kind}")


def test_cut_arrays_of_streaming() -> None:
    for n in range(2):
        with pytest.raises(IndexError):
            decoded(b"\x08\x08"[:n], encoding="mds:ndarray")
    for n in range(2, 6):  # numbers in the shape: no array is empty
        with pytest.raises((ValueError, struct.error)):
            decoded(b"\x08\x09\2\0\1\0"[:n], encoding="mds:ndarray")


LITDATA = {
    "numpy": ["i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", "?"],
    "tensor": ["<f4", "<f4", "<f8", "<f8", "<c8", "<c8", "<c16", "<c16", "<f2", "<f2", "", "u1", "i1", "<i2", "<i2", "<i4", "<i4", "<i8", "<i8", "?"],
}


@pytest.mark.parametrize(("kind", "number", "dtype"), [(kind, n, dtype) for kind, of in LITDATA.items() for n, dtype in enumerate(of) if dtype])
def test_litdata(kind: str, number: int, dtype: str) -> None:
    columns = 48 // np.dtype(dtype).itemsize
    head = struct.pack("<5I", number, 3, 1, 1, columns)
    check(decoded(head + ELEMENTS, encoding=f"litdata:{kind}"), dtype, (1, 1, columns))
    check(decoded(ELEMENTS, encoding=f"litdata:no_header_{kind}:{number}"), dtype, (columns,))
    assert decoded(head + ELEMENTS, finish=lambda a: a.shape, encoding=f"litdata:{kind}") == (1, 1, columns)
    assert decoded(ELEMENTS, finish=lambda a: a.shape, encoding=f"litdata:no_header_{kind}:{number}") == (columns,)
    for n in range(8):
        with pytest.raises(struct.error):
            decoded(head[:n], encoding=f"litdata:{kind}")
    for n in (8, 19):
        with pytest.raises(ValueError, match=f"^{n} bytes for an array of 3 axes$"):
            decoded(head[:n], encoding=f"litdata:{kind}")
    check(decoded(struct.pack("<3I", number, 1, 0), encoding=f"litdata:{kind}"), dtype, (0,), b"")


def test_images() -> None:
    pixels, out = random.Random(1).randbytes(3 * 40 * 20), io.BytesIO()
    Image.frombytes("RGB", (40, 20), pixels).save(out, "PNG")
    for data, encoding in ((out.getvalue(), "png"), (struct.pack("<3I", 40, 20, 3) + b"RGB" + pixels, "mds:pil")):
        got = decoded(data, encoding=encoding)
        assert (got.mode, got.size, got.tobytes()) == ("RGB", (40, 20), pixels)
    for cut, said in ((0, "cannot identify image"), (8, "cannot identify image"), (1200, "truncated")):
        with pytest.raises(OSError, match=said):
            decoded(out.getvalue()[:cut], encoding="png")


def test_libraries() -> None:
    assert values.library("PIL.Image", "pillow") is Image
    with pytest.raises(CannotDecode, match=r"^a package is not installed; pip install a package, or give this part a decoder of your own"):
        values.library("millrace.nothing", "a package")
