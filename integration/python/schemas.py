"""Checks the types of columns: schemas.py write DIR | schemas.py read DATASET=BATCH...

write creates data sets in DIR: Parquet files with every logical type, and Arrow files and streams with dictionaries. read parses batches in
the form arrow. Both print a JSON object with the rows of every data set by their keys, and its columns as "schema", as pyarrow reads them.
Some types differ in a batch, as docs/spec/rows.md describes: read converts the values back, and write converts the schema.
"""

import decimal
import json
import pathlib
import shutil
import sys
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FILES = pathlib.Path(__file__).resolve().parents[2] / "chunkindex" / "codec" / "rowgroup" / "testdata"


def flattened(table: pa.Table) -> pa.Table:
    """A table in which columns replace structs."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


def logical(kind: pa.DataType) -> str:
    """A type without its Arrow layout, which no batch preserves."""
    if pa.types.is_dictionary(kind):
        return logical(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list<{logical(kind.value_type)}>"
    return str(kind).removeprefix("large_").removesuffix("_view")


def declared(kind: pa.DataType, column: Any) -> str:
    """The type in a batch for a Parquet column. docs/spec/rows.md lists where it differs from pyarrow's."""
    if column is not None and pa.types.is_decimal(kind):
        if column.physical_type in ("INT32", "INT64"):
            return f"decimal{column.physical_type[3:]}({kind.precision}, {kind.scale})"
        return f"fixed_size_binary[{column.length}]" if column.length else "binary"
    if column is not None and column.physical_type == "INT96":
        return "fixed_size_binary[12]"
    if column is not None and pa.types.is_null(kind):
        return "int32"
    return {"bool": "extension<arrow.bool8>"}.get(logical(kind), logical(kind))


def plain(value: Any) -> str:
    return repr(bytes(value) if isinstance(value, (bytearray, memoryview)) else value)


def decoded(field: pa.Field, scalar: pa.Scalar) -> Any:
    """A value, converted to the logical type in its metadata."""
    value, name = scalar.as_py(), (field.metadata or {}).get(b"millrace:logical", b"").decode()
    if name.startswith("decimal") and value is not None:
        scale = int(name[name.index(",") + 1 : -1])
        return decimal.Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale)
    if name == "timestamp[ns]" and value is not None:
        days = int.from_bytes(value[8:], "little") - 2_440_588
        return pa.scalar(days * 86_400_000_000_000 + int.from_bytes(value[:8], "little"), pa.timestamp("ns")).as_py()
    return value


def told(table: pa.Table, columns: dict[str, Any], stem: str) -> dict[str, str]:
    """The rows of a file and its schema. columns are the Parquet columns."""
    table = flattened(table)
    kinds = [declared(field.type, columns.get(field.name)) for field in table.schema]
    rows = {"schema": repr(list(zip(table.column_names, kinds)))}
    for i in range(table.num_rows):
        rows[f"{stem}/{i:09d}"] = repr([plain(column[i].as_py()) for column in table.columns])
    return rows


def write(directory: str) -> dict[str, dict[str, str]]:
    all_told = {}
    base = pathlib.Path(directory)
    for name, make in (("types", parquet_types), ("int96", parquet_int96), ("duckdb", parquet_duckdb), ("extensions", parquet_extensions)):
        path = base / name / "rows.parquet"
        path.parent.mkdir()
        make(path)
        file = pq.ParquetFile(path)
        table = file.read()
        table = table.select([f.name for f in table.schema if not pa.types.is_nested(f.type)])
        columns = {file.schema.column(i).path: file.schema.column(i) for i in range(len(file.schema))}
        all_told[name] = told(table, columns, "rows")
    for name, make in (
        ("feather", feather),
        ("replaced", replaced),
        ("continued", continued),
        ("polars", polars_file),
        ("enums", polars_stream),
        ("moods", duckdb_stream),
        ("kinds", kinds),
    ):
        path = base / name / "rows.arrow"
        path.parent.mkdir()
        make(path)
        with open(path, "rb") as file:
            reader = pa.ipc.open_file(file) if file.read(6) == b"ARROW1" else pa.ipc.open_stream(path)
            table = reader.read_all()
        all_told[name] = told(table, {}, "rows")
    return all_told


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


def read(*named: str) -> dict[str, dict[str, str]]:
    all_told: dict[str, dict[str, str]] = {}
    for arg in named:
        name, _, path = arg.partition("=")
        rows = all_told.setdefault(name, {})
        table = pa.ipc.open_stream(path).read_all()
        table.validate(full=True)
        fields = [(n, f) for n, f in enumerate(table.schema) if f.name != "__key__"]
        schema = repr([(f.name, str(f.type)) for _, f in fields])
        assert rows.setdefault("schema", schema) == schema, "two schemas"
        for i, key in enumerate(table.column("__key__").to_pylist()):
            rows[key] = repr([plain(decoded(f, table.column(n)[i])) for n, f in fields])
    return all_told


if __name__ == "__main__":
    json.dump(write(*sys.argv[2:]) if sys.argv[1] == "write" else read(*sys.argv[2:]), sys.stdout)
