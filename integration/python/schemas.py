"""Writes data sets for answers.py: Parquet files with every logical type, and Arrow files and streams with dictionaries."""

import decimal
import json
import pathlib
import shutil
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

FILES = pathlib.Path(__file__).resolve().parents[2] / "chunkindex" / "codec" / "rowgroup" / "testdata"


def write(directory: pathlib.Path) -> list[str]:
    """Writes the data sets, each in a separate directory, and returns their names."""
    made = {"types": parquet_types, "int96": parquet_int96, "ducks": parquet_duckdb, "extensions": parquet_extensions}
    files = {"feather": feather, "replaced": replaced, "continued": continued, "polars": polars_file}
    files |= {"enums": polars_stream, "moods": duckdb_stream, "kinds": kinds}
    for name, make in (made | files).items():
        (directory / name).mkdir()
        make(directory / name / ("rows.parquet" if name in made else "rows.arrow"))
    return [*made, *files]


def parquet_types(path: pathlib.Path) -> None:
    shutil.copy(FILES / "types.parquet", path)


def parquet_int96(path: pathlib.Path) -> None:
    shutil.copy(FILES / "types-int96.parquet", path)


def parquet_duckdb(path: pathlib.Path) -> None:
    import duckdb

    duckdb.sql(
        "copy (select i::utinyint as tiny, i::smallint - 200 as small, i::usmallint as medium, (i / 8)::decimal(9, 2) as price,"
        " (i / 8)::decimal(30, 2) as dear,"
        " uuid() as id, i % 2 = 0 as even, case when i % 3 = 0 then null else i::tinyint - 100 end as holes from range(100) t(i))"
        f" to '{path}' (format parquet, row_group_size 50)"
    )


def parquet_extensions(path: pathlib.Path) -> None:
    table = pa.table(
        {
            "id": pa.array([uuid.UUID(int=i).bytes for i in range(20)], pa.uuid()),
            "note": pa.array([json.dumps({"n": i}) if i % 4 else None for i in range(20)], pa.json_()),
            "narrow": pa.array([i - 10 if i % 5 else None for i in range(20)], pa.int8()),
        }
    )
    pq.write_table(table, path, store_schema=False)


def feather(path: pathlib.Path) -> None:
    import pandas
    import pyarrow.feather

    n = 100
    frame = pandas.DataFrame(
        {
            "id": range(n),
            "animal": pandas.Categorical(
                [None if i % 7 == 0 else ("cat", "dog", "eel")[i % 3] for i in range(n)], categories=["fox", "eel", "dog", "cat"]
            ),
            "year": pandas.Categorical([2000 + i % 5 for i in range(n)]),
            "void": pandas.Categorical([None] * n),
        }
    )
    pyarrow.feather.write_feather(frame, path, chunksize=30)


def batches(dictionaries: list[list[str]]) -> list[pa.RecordBatch]:
    made = []
    for i, words in enumerate(dictionaries):
        numbers = pa.array([None if k % 4 == 3 else (k * 7 + i) % len(words) for k in range(30)], pa.int16())
        made.append(pa.record_batch({"word": pa.DictionaryArray.from_arrays(numbers, words), "n": pa.array(range(30), pa.uint8())}))
    return made


def replaced(path: pathlib.Path) -> None:
    made = batches([["a", "b"], ["", "a longer word", "b"], ["z"]])
    with pa.ipc.new_stream(path, made[0].schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for batch in made:
            writer.write(batch)


def continued(path: pathlib.Path) -> None:
    made = batches([["a", "b"], ["a", "b", "c"], ["a", "b", "c", "dd", "e"]])
    with pa.ipc.new_file(path, made[0].schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        for batch in made:
            writer.write(batch)


def polars_file(path: pathlib.Path) -> None:
    import polars

    frame = polars.DataFrame({"kind": ["cat", None, "a text longer than a view", "cat"] * 20, "size": ["S", "M", None, "L"] * 20})
    frame = frame.with_columns(polars.col("kind").cast(polars.Categorical), polars.col("size").cast(polars.Enum(["S", "M", "L", "XL"])))
    frame.write_ipc(path, compression="lz4")


def polars_stream(path: pathlib.Path) -> None:
    import polars

    polars.DataFrame({"size": ["S", None, "L"] * 20}, schema={"size": polars.Enum(["S", "M", "L"])}).write_ipc_stream(path)


def duckdb_stream(path: pathlib.Path) -> None:
    import duckdb

    query = "select (case i % 3 when 0 then 'sad' when 1 then 'ok' end)::enum('sad', 'ok', 'happy') as mood, i::utinyint as n from range(90) t(i)"
    batches = duckdb.sql(query).arrow(40)
    with pa.ipc.new_stream(path, batches.schema) as writer:
        for batch in batches:
            writer.write(batch)


def kinds(path: pathlib.Path) -> None:
    """Values in every layout of a dictionary, with indices of every width."""
    numbers = [0, 1, None, 1, 0] * 8
    table = {}
    for i, (kind, values) in enumerate(
        (
            (pa.bool_(), [True, False]),
            (pa.large_string(), ["x", "a text longer than a view"]),
            (pa.string_view(), ["x", "a text longer than a view"]),
            (pa.binary_view(), [b"", b"\x00" * 20]),
            (pa.large_binary(), [b"", b"\xff"]),
            (pa.decimal128(20, 2), [decimal.Decimal("1.25"), decimal.Decimal("-7.50")]),
            (pa.timestamp("us", "Europe/Berlin"), [0, 10**15]),
            (pa.float16(), [0.5, 2.0]),
            (pa.string(), ["not null", None]),
            (pa.binary(3), [b"abc", b"def"]),
        )
    ):
        index = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())[i % 8]
        table[f"c{i}"] = pa.DictionaryArray.from_arrays(pa.array(numbers, index), pa.array(values, kind))
    table["inside"] = pa.StructArray.from_arrays([table["c1"], table["c6"]], ["word", "at"])
    for kind in (
        pa.int8(),
        pa.uint16(),
        pa.date64(),
        pa.time32("s"),
        pa.duration("ms"),
        pa.timestamp("ns", "+02:00"),
        pa.decimal256(60, 2),
        pa.decimal32(5, 1),
    ):
        one = decimal.Decimal(1) if pa.types.is_decimal(kind) else 86_400_000 if pa.types.is_date(kind) else 1
        table[str(kind)] = pa.array([None if n is None else n * one for n in numbers], kind)
    with pa.ipc.new_stream(path, pa.table(table).schema) as writer:
        writer.write_table(pa.table(table), max_chunksize=15)
