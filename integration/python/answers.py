"""Compares batches in the form arrow with what pyarrow reads from the files.

answers.py write DIR COUNT            writes data sets in DIR: those of columnar_writers.py and schemas.py, committed ones, COUNT with random schemas
answers.py check DIR NAME=ANSWER...   compares the answers of each data set, in any order, with the files in DIR/NAME
answers.py others LIBRARY ANSWER      reads one answer with polars, duckdb or datasets, and compares the rows with pyarrow's

All print a JSON object by the name of the data set or library; check and others print the differences. `expected` applies those that
docs/spec/rows.md permits to the file.
"""

import datetime
import decimal
import json
import os
import pathlib
import random
import shutil
import sys
from typing import Any

os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"

import pyarrow as pa
import pyarrow.parquet as pq
import schemas
from columnar import COMMITTED, FILES, canonical
from columnar_writers import WRITERS, listed, stream

LEAVES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    (pa.int8(), [-128, 7]),
    (pa.uint16(), [0, 65535]),
    (pa.int32(), [-5, 2**31 - 1]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.float32(), [0.5, -2.0]),
    (pa.float64(), [1e300, float("nan")]),
    (pa.string(), ["", "é", "words " * 9]),
    (pa.large_string(), ["long", ""]),
    (pa.binary(), [b"", b"\x00\xff"]),
    (pa.binary(3), [b"abc", b"\x00\x00\x01"]),
    (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2026, 11, 30)]),
    (pa.time32("ms"), [datetime.time(1, 2, 3)]),
    (pa.time64("us"), [datetime.time(1, 2, 3, 4)]),
    (pa.timestamp("us"), [datetime.datetime(1969, 1, 1), datetime.datetime(2026, 11, 30, 1, 2, 3, 4)]),
    (pa.timestamp("ms", "Europe/Berlin"), [datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)]),
    (pa.duration("us"), [datetime.timedelta(-1, 5), datetime.timedelta(0)]),
    (pa.decimal128(7, 2), [decimal.Decimal("-123.45"), decimal.Decimal("0.01")]),
    (pa.decimal128(18, 3), [decimal.Decimal("-123.456"), decimal.Decimal("99999999999.999")]),
    (pa.decimal128(38, 2), [decimal.Decimal("-1.23"), decimal.Decimal("123456789012345678901234567890.12")]),
    (pa.decimal256(60, 2), [decimal.Decimal("-1.23"), decimal.Decimal("1e40")]),
    (pa.dictionary(pa.int16(), pa.string()), ["cat", "dog"]),
]  # fmt: skip


def kind(r: random.Random, depth: int) -> pa.DataType:
    """A random type."""
    n = r.randrange(10) if depth < 3 else 0
    if n < 6:
        return r.choice(LEAVES)[0]
    if n < 8:
        return pa.struct([pa.field(f"f{i}", kind(r, depth + 1), r.random() < 0.8) for i in range(r.randrange(1, 4))])
    inner = kind(r, depth + 1)
    while pa.types.is_dictionary(inner):
        inner = kind(r, depth + 1)
    return pa.list_(pa.field("item", inner, r.random() < 0.8)) if n == 8 else pa.map_(pa.string(), inner)


def value(r: random.Random, t: pa.DataType, nullable: bool) -> Any:
    """A random value of a type."""
    if nullable and r.random() < 0.25:
        return None
    if pa.types.is_struct(t):
        return {f.name: value(r, f.type, f.nullable) for f in t}
    if pa.types.is_map(t):
        return [(f"k{i}", value(r, t.item_type, True)) for i in range(r.randrange(4))]
    if pa.types.is_list(t):
        fixed = not (pa.types.is_nested(t.value_type) or t.value_type in (pa.string(), pa.binary(), pa.large_string()))
        return [value(r, t.value_type, t.value_field.nullable and not fixed) for _ in range(r.randrange(4))]
    return r.choice(next(values for leaf, values in LEAVES if leaf == t))


def write_random(path: pathlib.Path, seed: int) -> None:
    r = random.Random(seed)
    schema = pa.schema([pa.field(f"c{i}", kind(r, 0), r.random() < 0.8) for i in range(r.randrange(1, 6))])
    rows = [{f.name: value(r, f.type, f.nullable) for f in schema} for _ in range(r.randrange(1, 40))]
    table = pa.table([pa.array([row[f.name] for row in rows], f.type) for f in schema], schema)
    if seed % 2:
        (stream if r.random() < 0.5 else listed)(path / "a.arrow", table.to_batches(max_chunksize=17), r.choice([None, "zstd", "lz4"]))
    else:
        pq.write_table(table, path / "a.parquet", row_group_size=17, store_schema=r.random() < 0.5, store_decimal_as_integer=r.random() < 0.5)


def write(directory: str, count: str) -> dict[str, Any]:
    root = pathlib.Path(directory)
    names = {name: {} for name in schemas.write(root)}
    for name, (writer, _) in WRITERS.items():
        (root / name).mkdir()
        writer(root / name)
        names[name] = {}
    for name, files in COMMITTED.items():
        (root / name).mkdir()
        for file in files:
            shutil.copy(FILES / f"{file}.parquet", root / name / f"{file}.parquet")
        names[name] = {}
    for seed in range(int(count)):
        path = root / f"random-{seed}"
        path.mkdir()
        write_random(path, seed)
        names[path.name] = {}
    return names


def expected(t: pa.DataType, parquet: bool) -> pa.DataType:
    """The type in an answer for a type that pyarrow reads from a file."""
    if pa.types.is_dictionary(t):
        return expected(t.value_type, parquet)
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(expected(f.type, parquet)) for f in t])
    if pa.types.is_map(t):
        return pa.map_(expected(t.key_type, parquet), t.item_field.with_type(expected(t.item_type, parquet)))
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return pa.list_(t.value_field.with_type(expected(t.value_type, parquet)))
    if isinstance(t, pa.ExtensionType) and not isinstance(t, (pa.UuidType, pa.JsonType)):
        return expected(t.storage_type, parquet)
    if parquet and pa.types.is_duration(t):
        return pa.int64()
    if parquet and pa.types.is_timestamp(t) and t.tz:
        return pa.timestamp(t.unit, "UTC")
    if parquet and (pa.types.is_decimal32(t) or pa.types.is_decimal64(t)):
        return pa.decimal128(t.precision, t.scale)
    for plain, others in ((pa.string(), ("large_string", "string_view")), (pa.binary(), ("large_binary", "binary_view"))):
        if str(t) in others:
            return plain
    return t


def source(directory: pathlib.Path) -> pa.Table:
    """The rows of all files."""
    tables = []
    for path in sorted(directory.iterdir()):
        if path.suffix == ".json":
            continue
        parquet = path.suffix == ".parquet"
        if parquet:
            file = pq.ParquetFile(path)
            groups = [file.read_row_group(i) for i in range(file.num_row_groups)]  # pyarrow cannot join nested dictionaries
            table = pa.concat_tables(groups) if groups else file.read()
        else:
            with open(path, "rb") as head:
                opened = pa.ipc.open_file if head.read(6) == b"ARROW1" else pa.ipc.open_stream
            table = opened(path).read_all()
        columns = [plain(column, expected(f.type, parquet)) for f, column in zip(table.schema, table.columns)]
        schema = pa.schema([f.with_type(expected(f.type, parquet)).remove_metadata() for f in table.schema])
        keys = pa.array([f"{path.stem}/{i:09d}" for i in range(table.num_rows)])
        tables.append(pa.table([keys, *columns], pa.schema([pa.field("__key__", pa.string(), False), *schema])))
    return pa.concat_tables(tables)


def plain(column: pa.ChunkedArray, t: pa.DataType) -> pa.ChunkedArray:
    if isinstance(column.type, pa.ExtensionType) and not isinstance(t, pa.ExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    try:
        return column if column.type == t else column.cast(t)
    except pa.ArrowNotImplementedError:  # a dictionary of views or half floats
        return pa.chunked_array([pa.array(column.to_pylist(), t)])


def answers(files: list[str]) -> pa.Table:
    tables = [pa.ipc.open_stream(file).read_all() for file in files]
    for table in tables:
        table.validate(full=True)
    return pa.concat_tables(tables).sort_by("__key__")


def texts(table: pa.Table) -> list[str]:
    return [repr(canonical(row)) for row in table.to_pylist()]


def differences(got: pa.Table, want: pa.Table) -> dict[str, str]:
    wrong = {}
    for a, b in zip(got.schema, want.schema):
        if not a.remove_metadata().equals(b.remove_metadata()) or a.metadata:
            wrong[f"type of {b.name}"] = f"got {a} {a.metadata}, want {b}"
    if got.column_names != want.column_names or got.num_rows != want.num_rows:
        wrong["shape"] = f"got {got.num_rows} of {got.column_names}, want {want.num_rows} of {want.column_names}"
    for name in want.column_names:
        a, b = got.column(name), want.column(name)
        if not wrong and not a.equals(b) and repr(a.to_pylist()) != repr(b.to_pylist()):
            row = next(i for i in range(len(a)) if repr(a[i].as_py()) != repr(b[i].as_py()))
            wrong[f"values of {name}"] = f"row {row}: got {a[row]!r}, want {b[row]!r}"
    return wrong


def check(directory: str, *named: str) -> dict[str, Any]:
    files: dict[str, list[str]] = {}
    for name, _, file in (arg.partition("=") for arg in named):
        files.setdefault(name, []).append(file)
    return {name: differences(answers(paths), source(pathlib.Path(directory) / name).sort_by("__key__")) for name, paths in files.items()}


def others(library: str, path: str) -> dict[str, Any]:
    import datasets
    import duckdb
    import polars

    read = {
        "polars": lambda: polars.read_ipc_stream(path).to_arrow(),
        "duckdb": lambda: duckdb.from_arrow(pa.ipc.open_stream(path)).to_arrow_table(),
        "datasets": lambda: datasets.Dataset.from_file(path).data.table,
    }
    got, want = texts(read[library]().sort_by("__key__")), texts(answers([path]))
    return {library: {str(i): f"got {a}, want {b}" for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b}}


if __name__ == "__main__":
    print(json.dumps({"write": write, "check": check, "others": others}[sys.argv[1]](*sys.argv[2:])))
