"""Formats other than tar, and arrays."""

from __future__ import annotations

import json
from pathlib import Path

import harness
import numpy as np
import pytest

import millrace
import millrace.numpy


def test_json_lines(tmp_path: Path) -> None:
    rows = [{"i": i, "text": "é" * (i % 5)} for i in range(100)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
    harness.run("index", str(tmp_path), "--batch-size", "8")
    with harness.closing(g := harness.Gateway(f"d={tmp_path}")), millrace.Client(g.url) as client:
        epoch = client.epoch(0, decode={"json": millrace.load_json})
        assert epoch.plan.format == "jsonl"
        assert sorted((r for b in epoch for r in b["json"]), key=lambda r: r["i"]) == rows
        native = client.epoch(0, form="jsonl").batch(0)
        assert [json.loads(bytes(v)) for v in native["json"]] == epoch.batch(0)["json"]
        assert [json.loads(line) for line in bytes(native.data).splitlines()] == epoch.batch(0)["json"]


def test_records(tmp_path: Path) -> None:
    rows = np.arange(100 * 3 * 4, dtype="<i2").reshape(100, 3, 4)
    np.save(tmp_path / "a.npy", rows)
    harness.run("index", str(tmp_path), "--batch-size", "8")
    with harness.closing(g := harness.Gateway(f"d={tmp_path}")), millrace.Client(g.url, check="always") as client:
        got = []
        for batch in client.epoch(0, form="npy"):
            a = millrace.numpy.array(batch)
            assert (a.dtype, a.shape[1:]) == (np.dtype("<i2"), (3, 4))
            assert np.shares_memory(a, np.frombuffer(batch.data, "u1"))
            got.append(a)
            assert bytes(batch[0]["bin"]) == a[0].tobytes() == bytes(batch["bin"][0])
        together = np.concatenate(got)
        assert np.array_equal(together[together[:, 0, 0].argsort()], rows)
        framed = client.epoch(0).batch(0)
        assert np.array_equal(millrace.numpy.array(framed, "<i2", (3, 4)), got[0])
        assert np.array_equal(millrace.numpy.array(framed, "<i2", (3, 4), part="bin"), got[0])
        native = client.epoch(0, form="records").batch(0)
        assert np.array_equal(millrace.numpy.array(native, "<i2", (3, 4)), got[0])
        with pytest.raises(millrace.InvalidArgument, match="give a dtype"):
            millrace.numpy.array(framed)


def test_tokens(tmp_path: Path) -> None:
    tokens = np.arange(1001, dtype="<u2")
    (tmp_path / "a.bin").write_bytes(tokens.tobytes())
    harness.run("index", str(tmp_path), "--format", "tokens", "--dtype", "uint16", "--sequence-length", "10", "--batch-size", "8")
    with harness.closing(g := harness.Gateway(f"d={tmp_path}")), millrace.Client(g.url) as client:
        rows = np.concatenate([millrace.numpy.array(b) for b in client.epoch(0, form="npy")])
        assert rows.shape == (100, 11)
        rows = rows[rows[:, 0].argsort()]
        assert np.array_equal(rows[:, 0], tokens[:-1:10])
        assert np.array_equal(rows[:-1, -1], rows[1:, 0])  # neighbours share a token


def test_samples_that_differ(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        batch = client.epoch(0).batch(0)
        with pytest.raises(millrace.InvalidArgument, match="differ in length"):
            millrace.numpy.array(batch, "u1", part="jpg")
        with pytest.raises(millrace.InvalidArgument, match="differ in length"):
            millrace.numpy.array(batch, "u1")
