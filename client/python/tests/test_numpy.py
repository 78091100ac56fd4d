"""Formats other than tar, and arrays."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import harness
import numpy as np
import pytest
from PIL import Image

import millrace
import millrace.numpy
from millrace import Reading, Routing


def test_json_lines(tmp_path: Path) -> None:
    rows = [{"i": i, "text": "é" * (i % 5)} for i in range(100)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
    harness.run("index", str(tmp_path), "--batch-size", "8")
    with harness.closing(g := harness.Gateway(f"d={tmp_path}")), millrace.Client(g.url) as client:
        epoch = client.epoch(0, decode={"json": millrace.load_json})
        assert epoch.plan.format == "jsonl"
        assert sorted((r for b in epoch for r in b["json"]), key=lambda r: r["i"]) == rows
        native = client.epoch(0, reading=Reading(form="jsonl")).batch(0)
        assert [json.loads(line) for line in bytes(native.data).splitlines()] == epoch.batch(0)["json"]


def test_records(tmp_path: Path) -> None:
    rows = np.arange(100 * 3 * 4, dtype="<i2").reshape(100, 3, 4)
    np.save(tmp_path / "a.npy", rows)
    harness.run("index", str(tmp_path), "--batch-size", "8")
    with harness.closing(g := harness.Gateway(f"d={tmp_path}")), millrace.Client(g.url, routing=Routing(check="always")) as client:
        got = []
        for batch in client.epoch(0, reading=Reading(form="npy")):
            a = millrace.numpy.array(batch)
            assert (a.dtype, a.shape[1:]) == (np.dtype("<i2"), (3, 4))
            assert np.shares_memory(a, np.frombuffer(batch.data, "u1"))
            got.append(a)
            with pytest.raises(millrace.InvalidArgument, match="leave `form` out"):
                batch["bin"]
        together = np.concatenate(got)
        assert np.array_equal(together[together[:, 0, 0].argsort()], rows)
        framed = client.epoch(0).batch(0)
        assert np.array_equal(millrace.numpy.array(framed, "<i2", (3, 4)), got[0])
        assert bytes(client.epoch(0, reading=Reading(form="records")).batch(0).data) == got[0].tobytes()
        assert np.array_equal(millrace.numpy.array(millrace.numpy.epoch(client, 0, reading=Reading(form="npy")).batch(0)), got[0])
        with pytest.raises(millrace.InvalidArgument, match="give a dtype"):
            millrace.numpy.array(framed)


def test_tokens(tmp_path: Path) -> None:
    tokens = np.arange(1001, dtype="<u2")
    (tmp_path / "a.bin").write_bytes(tokens.tobytes())
    harness.run("index", str(tmp_path), "--format", "tokens", "--dtype", "uint16", "--sequence-length", "10", "--batch-size", "8")
    with harness.closing(g := harness.Gateway(f"d={tmp_path}")), millrace.Client(g.url) as client:
        rows = np.concatenate([millrace.numpy.array(b) for b in client.epoch(0, reading=Reading(form="npy"))])
        assert rows.shape == (100, 11)
        rows = rows[rows[:, 0].argsort()]
        assert np.array_equal(rows[:, 0], tokens[:-1:10])
        assert np.array_equal(rows[:-1, -1], rows[1:, 0])  # adjacent rows share a token


def test_samples_that_differ(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        batch = client.epoch(0).batch(0)
        with pytest.raises(millrace.InvalidArgument, match="differ in length"):
            millrace.numpy.array(batch, "u1")


def picture(i: int, size: tuple[int, int] = (8, 6)) -> Image.Image:
    return Image.new("RGB", size, (10 * i, 255 - 10 * i, 7))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Gateway]:
    """20 samples with pictures (some of them gray), numbers, arrays and text. One picture is invalid."""
    made = tmp_path_factory.mktemp("mixed")
    for i in range(20):
        for suffix, image in (("png", picture(i)), ("grey.png", picture(i).convert("L")), ("odd.png", picture(i, (8, 6 + i % 2)))):
            image.save(made / f"{i:02d}.{suffix}")
        np.save(made / f"{i:02d}.npy", np.arange(3, dtype="f4") + i)
        (made / f"{i:02d}.cls").write_text(str(i))
        (made / f"{i:02d}.txt").write_text(f"é {i}")
    (made / "07.png").write_bytes(b"no picture")
    packed = tmp_path_factory.mktemp("packed") / "mixed"
    harness.run("pack", str(made), str(packed), "--batch-size", "5")
    with harness.closing(g := harness.Gateway(f"mixed={packed}")):
        yield g


def test_columns_are_arrays(mixed: harness.Gateway) -> None:
    with millrace.Client(mixed.url) as client:
        seen = []
        for batch in millrace.numpy.epoch(client, 0, reading=Reading(on_error="skip")):
            labels = batch["cls"]
            assert (labels.dtype, labels.shape) == (np.int64, (len(batch),))
            assert np.array_equal(batch["png"], np.stack([np.asarray(picture(i)) for i in labels]))
            assert (batch["png"].dtype, batch["png"].shape[1:], batch["grey.png"].shape[1:]) == (np.uint8, (6, 8, 3), (6, 8, 1))
            assert batch["npy"].dtype == np.float32
            assert np.array_equal(batch["npy"], labels[:, np.newaxis] + np.arange(3))
            assert batch["txt"] == [f"é {i}" for i in labels]
            assert [image.shape for image in batch["odd.png"]] == [(6 + i % 2, 8, 3) for i in labels]
            seen += labels.tolist()
        assert sorted(seen) == [i for i in range(20) if i != 7]
        sizes = millrace.numpy.epoch(client, 0, decode={"png": len}, fields="png").batch(0)["png"]
        assert isinstance(sizes, np.ndarray)
        assert isinstance(millrace.numpy.epoch(client, 0, decode=False).batch(0)["cls"][0], memoryview)
        with pytest.raises(millrace.InvalidArgument, match="batchsize"):
            millrace.numpy.epoch(client, 0, batchsize=3)  # type: ignore[call-arg]


def test_without_numpy() -> None:
    program = "import sys; sys.modules['numpy'] = None\nimport millrace\ntry:\n  import millrace.numpy\nexcept ImportError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "millrace.numpy needs numpy, which is not installed: pip install 'millrace-data[numpy]'\n"


def test_images_of_hugging_face(tmp_path: Path) -> None:
    """In Parquet a column of the feature Image is a struct of bytes and path."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = []
    for i in range(12):
        out = io.BytesIO()
        picture(i).save(out, ("PNG", "WEBP", "JPEG")[i % 3], **({"lossless": True} if i % 3 == 1 else {}))
        rows.append({"image": {"bytes": out.getvalue(), "path": f"{i}.x"}, "blob": {"bytes": b"%d" % i, "path": None}, "label": i})
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    harness.run("index", str(tmp_path), "--batch-size", "4")
    with harness.closing(g := harness.Gateway(f"hub={tmp_path}")), millrace.Client(g.url) as client:
        for batch in client.epoch(0, decode=True, fields="image.bytes,blob.bytes,label"):
            for image, blob, label in zip(batch["image.bytes"], batch["blob.bytes"], batch["label"]):
                assert image.size == (8, 6)
                assert label % 3 == 2 or np.array_equal(image.convert("RGB"), picture(label))
                assert blob == b"%d" % label
        assert millrace.numpy.epoch(client, 0, fields="image.bytes").batch(0)["image.bytes"].shape == (4, 6, 8, 3)


def test_example_trains(images: Path, tmp_path: Path, runtime: Path) -> None:  # noqa: ARG001
    losses = [float(line.split()[-1]) for line in harness.run_example("numpy_local.py", str(images), cwd=tmp_path).splitlines()]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
