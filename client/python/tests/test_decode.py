"""Automatic decoding of parts, and samples that cannot be decoded."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import pickle
import random
import struct
import subprocess
import sys
import types
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest
import safetensors.numpy
from PIL import Image

import millrace
from millrace import Reading, Share
from millrace.values import Automatic

SAMPLES = 23
BAD = 7  # the sample with an invalid image


def picture(i: int) -> Image.Image:
    return Image.new("RGB", (8, 6), (10 * i, 255 - 10 * i, 7))


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def content(i: int) -> dict[str, bytes]:
    """The parts of sample i."""
    return {
        "png": b"no image" if i == BAD else saved(picture(i), "PNG"),
        "cls": b" %d\n" % i,
        "txt": f"é {i}".encode(),
        "json": json.dumps({"i": i}).encode(),
        "npy": npy(np.arange(3) + i),
        "pkl": pickle.dumps([i]),
        "xyz": b"%d" % i,
    }


def key(i: int) -> str:
    return f"it's {i:02d}"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Gateway]:
    made = tmp_path_factory.mktemp("mixed")
    (made / "source").mkdir()
    for i in range(SAMPLES):
        for suffix, data in content(i).items():
            (made / "source" / f"{key(i)}.{suffix}").write_bytes(data)
    harness.run("pack", str(made / "source"), str(made / "packed"), "--batch-size", "5")
    g = harness.Gateway(f"mixed={made / 'packed'}")
    yield g
    g.close()


@pytest.fixture
def client(mixed: harness.Gateway) -> Iterator[millrace.Client]:
    with millrace.Client(mixed.url) as c:
        yield c


def test_parts_by_their_suffix(client: millrace.Client) -> None:
    seen = []
    for batch in client.epoch(0, decode=True, reading=Reading(on_error="skip", keys=True)):
        for sample in batch:
            i = int(bytes(sample["xyz"]))
            assert isinstance(sample["xyz"], memoryview)
            assert sample.key == key(i)
            assert (sample["cls"], sample["txt"], sample["json"]) == (i, f"é {i}", {"i": i})
            assert np.array_equal(sample["npy"], np.arange(3) + i)
            assert np.array_equal(np.array(sample["png"]), np.array(picture(i)))
            with pytest.raises(millrace.errors.CannotDecode, match=r"'pkl'.*allow_pickle=True"):
                sample["pkl"]
            seen.append(i)
    assert sorted(seen) == [i for i in range(SAMPLES) if i != BAD]
    epoch = client.epoch(0, decode=True, fields="pkl,cls", reading=Reading(allow_pickle=True))
    assert all(batch["pkl"] == [[i] for i in batch["cls"]] for batch in epoch)
    assert isinstance(client.epoch(0, decode=False).batch(0)["cls"][0], memoryview)
    assert isinstance(client.epoch(0, decode={"cls": int}).batch(0)["txt"][0], memoryview)
    with pytest.raises(millrace.InvalidArgument, match="decode"):
        client.epoch(0, decode=int)  # type: ignore[arg-type]


def test_a_transform_decodes_what_it_asks_for(client: millrace.Client) -> None:
    """The invalid image is not decoded."""
    epoch = client.epoch(0, decode=True, reading=Reading(batch_transform=lambda batch: sum(batch["cls"])))
    assert sum(batch.value for batch in epoch) == sum(range(SAMPLES))


def test_which_sample_cannot_be_decoded(client: millrace.Client) -> None:
    order = [(b.number, i, s.position) for b in client.epoch(2, reading=Reading(keys=True)) for i, s in enumerate(b) if s.key == key(BAD)]
    for keys in (False, True):
        with pytest.raises(millrace.errors.DecodeError, match="UnidentifiedImageError") as raised:
            list(client.epoch(2, decode=True, reading=Reading(keys=keys)))
        for e in (raised.value, pickle.loads(pickle.dumps(raised.value)), millrace.errors.DecodeError(f"Caught in a worker: {raised.value}")):
            assert (e.part, e.key, e.epoch) == ("png", key(BAD), 2)
            assert [(e.batch, e.sample, e.position)] == order
            assert e.report("s3://a b/c") == ("""millrace quarantine 's3://a b/c' --key 'it'"'"'s 07' --reason 'part png does not decode'""")
    bare = millrace.errors.DecodeError("something else")
    assert (bare.key, bare.part, bare.position) == (None, None, None)
    with pytest.raises(millrace.InvalidArgument, match="keys=True"):
        bare.report()


@pytest.mark.parametrize("decode", [True, {"cls": int, "png": lambda view: Image.open(io.BytesIO(view)).size}])
def test_samples_are_left_out(client: millrace.Client, caplog: pytest.LogCaptureFixture, decode: Any) -> None:
    whole = {b.number: (list(b.keys), list(b.positions)) for b in client.epoch(1, reading=Reading(keys=True))}
    epoch = client.epoch(1, decode=decode, reading=Reading(on_error="skip"))
    ledger, short = millrace.Ledger(), 0
    with caplog.at_level(logging.WARNING, "millrace"), epoch.read(ledger=ledger) as reader:
        for batch in reader:
            keys, positions = whole[batch.number]
            kept = [i for i, k in enumerate(keys) if k != key(BAD)]
            short += len(kept) < len(keys)
            assert len(batch) == len(kept) == len(list(batch)) == len(batch["cls"]) == len(batch["png"]) == len(batch.views())
            assert list(batch.keys) == [keys[i] for i in kept]
            assert list(batch.positions) == [positions[i] for i in kept]
            assert [int(bytes(v)) for v in batch.raw("xyz")] == batch["cls"] == [s["cls"] for s in batch]
            assert [int(bytes(s.parts["xyz"])) for s in batch] == batch["cls"]
            assert all(bytes(batch.sample(i)) == bytes(v) for i, v in enumerate(batch.views()))
    assert short == 1
    ledger.check()
    (at,) = [at for keys, positions in whole.values() for k, at in zip(keys, positions) if k == key(BAD)]
    assert json.loads(str(ledger))["failed"] == [[1, at, at + 1]]
    assert len(caplog.records) == 1
    assert caplog.records[0].name == "millrace"
    assert "'png'" in caplog.text
    assert key(BAD) in caplog.text


def test_another_value_stands_in(client: millrace.Client) -> None:
    errors = []

    def grey(e: millrace.errors.DecodeError) -> Any:
        errors.append(e.key)
        return "grey"

    with client.epoch(0, decode=True, reading=Reading(on_error=grey)).read(ledger=(ledger := millrace.Ledger())) as reader:
        got = [value for batch in reader for value in batch["png"]]
    ((_, first, end),) = json.loads(str(ledger))["replaced"]
    assert (first, end) == (got.index("grey"), got.index("grey") + 1)
    assert (len(got), got.count("grey"), errors) == (SAMPLES, 1, [key(BAD)])
    with pytest.raises(millrace.InvalidArgument, match="on_error='ignore'"):
        client.epoch(0, reading=Reading(on_error="ignore"))


def test_padding_that_is_left_out(client: millrace.Client) -> None:
    """The last batch repeats samples of the epoch. A sample that is left out of that batch does not count as padding."""

    def one_class(at: int) -> Any:
        return lambda view: 1 // (int(bytes(view)) != at)

    for i in range(SAMPLES):
        epoch = client.epoch(0, decode={"cls": one_class(i)}, share=Share(tail="pad"), reading=Reading(on_error="skip"))
        ledger = millrace.Ledger()
        with epoch.read(ledger=ledger) as reader:
            left = sum(map(len, reader))
        ledger.check()
        ((_, first, end),) = json.loads(str(ledger))["failed"]
        assert end == first + 1 <= SAMPLES
        assert 25 - left in (1, 2)


def test_without_libraries(mixed: harness.Gateway) -> None:
    program = f"""
import millrace
with millrace.Client({mixed.url!r}) as client:
    for batch in client.epoch(0, decode=True, reading=millrace.Reading(on_error="skip")):
        print(sum(batch["cls"]), batch["json"][0]["i"] == batch["cls"][0])
        for part in ("png", "npy"):
            try: batch[part]
            except millrace.errors.CannotDecode as e: print(e)
        break
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=harness.without("PIL", "numpy", "crc32c"), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stdout
    assert lines[0].endswith(" True")
    assert lines[1].startswith("decode part 'png': pillow is not installed; pip install pillow, or give this part a decoder of your own")
    assert lines[2].startswith("decode part 'npy': numpy is not installed; pip install numpy, or ")


def test_sounds_and_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(file: Any, dtype: str, always_2d: bool) -> Any:
        assert always_2d
        return np.frombuffer(file.read(), "i1").reshape(-1, 2).astype(dtype), 8000

    monkeypatch.setitem(sys.modules, "soundfile", types.SimpleNamespace(read=read))
    samples, rate = decoded("a.WAV", b"\1\2\3\4\5\6")
    assert (samples.tolist(), samples.dtype, rate) == ([[1, 3, 5], [2, 4, 6]], np.float32, 8000)
    for part in ("pt", "x.pth", "pkl", "pyd"):
        with pytest.raises(millrace.errors.CannotDecode, match="a pickle runs"):
            decoded(part, pickle.dumps(1))
    torch = pytest.importorskip("torch")
    out = io.BytesIO()
    torch.save(torch.arange(3), out)
    assert decoded("pth", out.getvalue(), allow_pickle=True).tolist() == [0, 1, 2]


def decoded(name: str, data: bytes, allow_pickle: bool = False, **of: Any) -> Any:
    """Returns a decoded part, with its field if one is given."""
    automatic = Automatic().of({"fields": [{"name": name, **of}]} if of else {}, allow_pickle)
    decoder = pickle.loads(pickle.dumps(automatic))(name)
    return data if decoder is None else decoder(memoryview(data))


def same(got: Any, want: Any) -> bool:
    if isinstance(want, list):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, (np.ndarray, Image.Image)):
        got, want = np.asarray(got), np.asarray(want)
        return bool(got.shape == want.shape and got.dtype == want.dtype and np.array_equal(got, want))
    return bool(got == want and type(got) is type(want))


MDS = {
    "ndarray": np.arange(6, dtype="float32").reshape(2, 3),
    "ndarray:int16": np.arange(700, dtype="int16").reshape(700, 1),
    "ndarray:uint64:2,3": np.arange(6, dtype="uint64").reshape(2, 3),
    "str_int": 10**30, "str_float": 0.1, "str_decimal": Decimal("1.10"),
    "pil": picture(1), "list[pil]": [picture(2), Image.new("1", (9, 3), 1)], "list[png]": [picture(3), picture(4)],
}  # fmt: skip


@pytest.mark.parametrize("encoding", list(MDS))
def test_as_streaming_decodes(encoding: str) -> None:
    from streaming.base.format.mds.encodings import mds_decode, mds_encode

    data = mds_encode(encoding, MDS[encoding])
    got = decoded("column", data, encoding=f"mds:{encoding}")
    assert same(got, mds_decode(encoding, data))
    assert same(got, MDS[encoding])
    cut_anywhere("column", data, encoding=f"mds:{encoding}")


def cut_anywhere(name: str, data: bytes, **of: Any) -> None:
    """Damaged bytes raise an exception or yield another value. They neither crash the process nor exhaust its memory."""
    r = random.Random(1)
    for _ in range(300):
        some = bytearray(data[: r.randrange(len(data) + 1)])
        for _ in range(r.randrange(3)):
            if some:
                some[r.randrange(min(len(some), 16))] = r.randrange(256)
        with contextlib.suppress(ValueError, IndexError, struct.error, ArithmeticError, OSError, millrace.MillraceError):
            decoded(name, bytes(some), **of)


def test_as_litdata_decodes() -> None:
    torch = pytest.importorskip("torch")
    from litdata.streaming import serializers

    array, tensor = np.arange(6, dtype="int16").reshape(1, 2, 3), torch.arange(4, dtype=torch.float64).reshape(2, 2)
    for value, serializer in ((array, serializers.NumpySerializer()), (picture(3), serializers.PILSerializer())):
        data, _ = serializer.serialize(value)
        name = "numpy" if value is array else "pil"
        assert same(decoded("0", data, encoding=f"litdata:{name}"), serializer.deserialize(data))
        cut_anywhere("0", data, encoding=f"litdata:{name}")
    data, _ = serializers.TensorSerializer().serialize(tensor)
    assert same(decoded("0", data, encoding="litdata:tensor"), tensor.numpy())
    waves = np.array([1 + 2j, 3])
    data, name = serializers.NoHeaderNumpySerializer().serialize(waves)
    assert same(decoded("0", data, encoding=f"litdata:{name}"), waves)
    with pytest.raises(ValueError, match="type number 14"):
        decoded("0", serializers.NumpySerializer().serialize(np.array([[{}]]))[0], encoding="litdata:numpy")


def test_files_of_several_arrays() -> None:
    arrays = {
        "x": np.arange(6, dtype="f4").reshape(2, 3),
        "é": np.array([True, False]),
        "scalar": np.array(7),
        **{f"{kind}{n}": np.ones(2, f"{kind}{n}") for kind in "iu" for n in (1, 2, 4, 8)},
    }
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    for part, stored in {"npz": out.getvalue(), "safetensors": safetensors.numpy.save(arrays, {"format": "np"})}.items():
        got = decoded(part, stored)
        assert got.keys() == arrays.keys(), part
        assert all(same(got[name], array) for name, array in arrays.items()), part
    half = struct.pack("<Q", 60) + b'{"x":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'.ljust(60) + b"\0\0"
    with pytest.raises(millrace.errors.CannotDecode, match="tensor 'x' has the type BF16"):
        decoded("safetensors", half)


def test_other_fields() -> None:
    assert same(decoded("bin", bytes(range(12)), encoding="raw", type="uint16", shape=[2, 3]), np.frombuffer(bytes(range(12)), "<u2").reshape(2, 3))
    assert same(decoded("bin", b"\0\1\0\2", encoding="numpy:>u2", shape=[2]), np.array([1, 2], ">u2"))
    assert decoded("label", b"\3" + b"\0" * 7, encoding="raw", type="int64", classes=["a", "b", "c", "d"]) == 3
    assert decoded("jpg", "é".encode(), encoding="raw", type="utf8") == "é"  # the description takes precedence over the suffix
    assert decoded("weights", b"\0\0\x80\x3f", encoding="raw", type="list<float>") == [1.0]
    assert decoded("row", b"1", encoding="csv") == b"1"
    assert same(decoded("image", saved(picture(1), "PNG"), encoding="png"), picture(1))
    with pytest.raises(ValueError, match="3 bytes for an image of 4096 x 4096"):
        decoded("image", struct.pack("<3I", 4096, 4096, 3) + b"RGBabc", encoding="mds:pil")
    with pytest.raises(millrace.errors.CannotDecode):
        decoded("0", pickle.dumps(1), encoding="pickle")
    assert decoded("0", pickle.dumps(1), allow_pickle=True, encoding="pickle") == 1
    with pytest.raises(ValueError, match="allow_pickle"):
        decoded("npy", npy(np.array([{}])))


def test_the_page_names_every_suffix() -> None:
    from millrace.values import _PLAIN, _SUFFIXES

    page = (Path(harness.ROOT) / "docs/python-decoding.md").read_text()
    table = page[page.index("## Values by themselves") :].split("\n## ")[0]
    assert all(f"`{suffix}`" in table for suffix in (*_PLAIN, *_SUFFIXES))


def test_threads_read_literals_at_the_same_time() -> None:
    """CPython 3.11 may raise SystemError if two threads parse literals: 38 of 24,000 with garbage collection in between."""
    program = """
import gc, sys, threading
from functools import partial
from millrace import errors
from millrace.values import Automatic, _npy
fails = []
class Garbage:  # its end, in whichever code memory is collected, lets another thread run
    def __init__(self):
        self.me = self
    def __del__(self):
        pass
def attempt(work):
    for _ in range(2000):
        Garbage()
        try:
            work()
        except SystemError as e:
            fails.append(e)
sys.setswitchinterval(1e-6)
gc.set_threshold(5)
array = memoryview(bytes.fromhex(sys.argv[1]))
works = [partial(errors.DecodeError, "decode part 'jpg' of sample 0 of batch 0 in epoch 0, key 'k': x"), partial(_npy, Automatic(), array)] * 4
threads = [threading.Thread(target=attempt, args=(work,)) for work in works]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(fails))
"""
    done = subprocess.run([sys.executable, "-c", program, npy(np.zeros((2, 3))).hex()], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "0\n", done.stderr
