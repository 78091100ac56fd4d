"""Columns of batches in the form "arrow", compared with pyarrow's own reading of the files."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import pytest

import millrace
from millrace import Reading, Routing, Share
from millrace._layout import Stream

pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

ROWS = 100
DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc)
KINDS: dict[str, tuple[Any, Any]] = {  # type, and the value of row i
    **{f"i{bits}": (f"int{bits}", lambda i: i - 50) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (f"uint{bits}", lambda i: i) for bits in (8, 16, 32, 64)},
    "single": ("float32", lambda i: i / 3),
    "double": ("float64", lambda i: i / 3),
    "flag": ("bool", lambda i: i % 3 == 0),
    "text": ("string", lambda i: "é" * (i % 5)),
    "bytes": ("binary", lambda i: bytes([i]) * (i % 4)),
    "digest": (pa.binary(4), lambda i: i.to_bytes(4, "big")),
    "day": ("date32", lambda i: DAY + datetime.timedelta(i)),
    "time": (pa.time64("us"), lambda i: datetime.time(1, 2, 3, i)),
    "at": (pa.timestamp("us", "UTC"), lambda i: NOON + datetime.timedelta(seconds=i)),
    "price": (pa.decimal128(30, 2), lambda i: decimal.Decimal(i - 50) / 100),
    "word": (pa.dictionary("int32", "string"), lambda i: f"w{i % 4}"),
    "numbers": (pa.list_(pa.int16()), lambda i: list(range(i % 4))),
    "tags": (pa.list_(pa.string()), lambda i: ["", None, "x" * i][: i % 4]),
    "pair": (pa.struct({"a": pa.int32(), "b": pa.string()}), lambda i: {"a": i, "b": None if i % 2 else ""}),
    "counts": (pa.map_("string", "int64"), lambda i: [("a", i), ("b", None)][: i % 3]),
    "nothing": (pa.null(), lambda _: None),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A directory of Parquet, and pyarrow's reading of it. Every seventh value is null, at another row in each column."""
    columns = {"id": pa.array(range(ROWS), "int32")}
    for shift, (name, (kind, make)) in enumerate(KINDS.items()):
        columns[name] = pa.array([None if (i + shift) % 7 == 0 else make(i) for i in range(ROWS)], kind)
    data = tmp_path_factory.mktemp("columns")
    schema = pa.schema([pa.field(name, column.type, nullable=name != "id") for name, column in columns.items()])
    parquet.write_table(pa.table(columns, schema), data / "a.parquet", store_schema=False, row_group_size=30)
    harness.run("index", str(data), "--batch-size", "7")
    return data, parquet.read_table(data / "a.parquet")


@pytest.fixture(scope="module", params=["memory", "bytes"])
def client(request: pytest.FixtureRequest, table: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[millrace.Client]:
    unix = f"unix:{tmp_path_factory.mktemp('s')}/s" if request.param == "memory" else ""
    with harness.closing(g := harness.Gateway(f"d={table[0]}", unix=unix)), millrace.Client(g.url, routing=Routing(check="always")) as client:
        yield client


def check(batch: millrace.Batch, table: Any) -> list[int]:
    """Compares all columns of a batch with those of the file, and returns the numbers of its rows."""
    rows: list[int] = batch["id"].to_pylist()
    assert len(rows) == len(batch)
    assert batch.names() == table.column_names
    for name in batch.names():
        got, want = batch[name], table[name].combine_chunks().take(pa.array(rows, "int64"))
        got.validate(full=True)
        assert (got.type, got.to_pylist()) == (want.type, want.to_pylist()), name
    return rows


def test_equal_to_pyarrow(client: millrace.Client, table: tuple[Path, Any]) -> None:
    """Two ranks have every row once, the last batch is short, and a large one comes in shared memory."""
    for size in (7, 64):
        rows: list[int] = []
        for rank in range(2):
            share = Share(rank=rank, world_size=2)
            for batch in client.epoch(0, global_batch_size=size, share=share, reading=Reading(form="arrow")):
                rows += check(batch, table[1])
        assert sorted(rows) == list(range(ROWS))


def test_keys_and_fields(client: millrace.Client) -> None:
    for batch in client.epoch(0, fields="word,pair.a", reading=Reading(form="arrow")):
        assert batch.names() == ["word", "pair.a"]
        assert batch["__key__"].to_pylist() == list(batch.keys)
        assert batch.get("text", "no") == "no"
        with pytest.raises(KeyError, match="text"):
            batch["text"]
        with pytest.raises(millrace.InvalidArgument, match="leave `form` out"):
            batch[0]


def test_substitutes(client: millrace.Client, table: tuple[Path, Any]) -> None:
    bad = client.epoch(0).batch(0).keys[:2]
    rows = [row for batch in client.quarantine(bad).epoch(0, reading=Reading(form="arrow")) for row in check(batch, table[1])]
    assert (len(rows), len(set(rows))) == (ROWS, ROWS - 2)


def test_columns_outlive_their_batch(client: millrace.Client, table: tuple[Path, Any]) -> None:
    """Memory that an array uses is not reused for later batches."""
    kept = [(batch["id"], batch["text"]) for _ in range(3) for batch in client.epoch(0, global_batch_size=50, reading=Reading(form="arrow"))]
    for rows, texts in kept:
        assert texts.to_pylist() == table[1]["text"].combine_chunks().take(rows).to_pylist()


def test_memory_of_a_gateway_is_not_copied(tmp_path: Path, place: Path) -> None:
    parquet.write_table(pa.table({"n": range(50_000), "text": ["x"] * 50_000}), tmp_path / "a.parquet")
    harness.run("index", str(tmp_path), "--batch-size", "50000")
    with harness.closing(g := harness.Gateway(f"d={tmp_path}", unix=f"unix:{place}/s")), millrace.Client(g.url) as client:
        batch = client.epoch(0, reading=Reading(form="arrow")).batch(0)
        assert sys.platform != "linux" or client.core.transport == "shared memory"
        numbers = batch["n"].to_numpy()
        assert sorted(numbers.tolist()) == list(range(50_000))
        start = pa.py_buffer(batch.data).address
        assert start <= numbers.__array_interface__["data"][0] < start + batch.nbytes
        if sys.platform == "linux":
            with pytest.raises(BufferError, match="a view of it"):
                batch.close()
        del numbers
        batch.close()
        with pytest.raises(millrace.InvalidArgument, match="closed"):
            batch["n"]


def test_without_pyarrow(client: millrace.Client) -> None:
    program = f"""
import millrace
with millrace.Client({str(client.core)!r}) as client:
    batch = client.epoch(0, reading=millrace.Reading(form="arrow")).batch(0)
    try:
        batch["text"]
    except millrace.errors.CannotDecode as e:
        print(e)
    print(type(client.epoch(0, fields="id", decode=True).batch(0)["id"]))
"""
    done = subprocess.run([sys.executable, "-c", program], env=harness.without("pyarrow"), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    said, kind = done.stdout.splitlines()
    assert said == "pyarrow is not installed; pip install pyarrow, or leave form out: with decode=True columns are lists"
    assert kind == "<class 'list'>"


@pytest.mark.parametrize("body", [b"", b"no Arrow", b"\xff\xff\xff\xff\0\0\0\0"])
def test_damaged_streams(body: bytes) -> None:
    with pytest.raises(millrace.errors.ProtocolError, match=r"^an Arrow stream: "):
        Stream(5).read(memoryview(body))


def test_another_number_of_rows() -> None:
    records = pa.record_batch({"__key__": ["a"]})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, records.schema) as stream:
        stream.write_batch(records)
    with pytest.raises(millrace.errors.ProtocolError, match="1 rows for 5 samples"):
        Stream(5).read(memoryview(out.getvalue()))
