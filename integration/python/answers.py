"""Compares batches in the form arrow with what pyarrow reads from the files.

answers.py write DIR COUNT            writes data sets in DIR: those of columnar_writers.py and schemas.py, committed ones, COUNT with random schemas
answers.py check DIR NAME=ANSWER...   compares the answers of each data set, in any order, with the files in DIR/NAME

Both print a JSON object by the name of the data set; check prints the differences. `source` applies those that docs/spec/rows.md permits.
"""

import datetime
import decimal
import functools
import json
import pathlib
import random
import shutil
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import schemas
from columnar import COMMITTED, FILES
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
    (pa.string_view(), ["", "short", "a text longer than a view"]),
    (pa.binary(), [b"", b"\x00\xff"]),
    (pa.large_binary(), [b"", b"\x00\xff"]),
    (pa.binary_view(), [b"twelve bytes", b"\xff" * 13]),
    (pa.float16(), [0.5, -2.0]),
    (pa.binary(3), [b"abc", b"\x00\x00\x01"]),
    (pa.date64(), [datetime.date(1969, 12, 31), datetime.date(2026, 11, 30)]),
    (pa.time32("s"), [datetime.time(1, 2, 3)]),
    (pa.time64("ns"), [datetime.time(1, 2, 3, 4)]),
    (pa.timestamp("s", "UTC"), [datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)]),
    (pa.timestamp("us", "+02:00"), [datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)]),
    (pa.timestamp("ns", "America/New_York"), [datetime.datetime(1969, 1, 1, tzinfo=datetime.timezone.utc)]),
    (pa.duration("s"), [datetime.timedelta(-1), datetime.timedelta(5)]),
    (pa.duration("ns"), [datetime.timedelta(0, 1, 5)]),
    (pa.decimal32(7, 2), [decimal.Decimal("-123.45"), decimal.Decimal("0.01")]),
    (pa.decimal64(18, 3), [decimal.Decimal("-123.456"), decimal.Decimal("99999999999.999")]),
    (pa.decimal256(8, 2), [decimal.Decimal("-123.45"), decimal.Decimal("0.01")]),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([1, -2, 3])]),
    (pa.null(), [None]),
    (pa.uuid(), [b"0123456789abcdef"]),
    (pa.json_(pa.large_string()), ["{}", "[1, 2]"]),
    (pa.bool8(), [0, 1]),
    (pa.opaque(pa.binary(), "shape", "maker"), [b"", b"x"]),
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
    (pa.dictionary(pa.int8(), pa.binary()), [b"cat", b""]),
    (pa.dictionary(pa.uint32(), pa.large_string()), ["cat", "a text longer than a view"]),
    (pa.dictionary(pa.int64(), pa.int64()), [-1, 2**40]),
    (pa.dictionary(pa.uint8(), pa.timestamp("us", "Europe/Berlin")), [datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)]),
]  # fmt: skip


def field(r: random.Random, name: str, depth: int) -> pa.Field:
    t = kind(r, depth)
    return pa.field(name, t, pa.types.is_null(t) or r.random() < 0.8)


def kind(r: random.Random, depth: int) -> pa.DataType:
    """A random type."""
    n = r.randrange(12) if depth < 3 else 0
    if n < 7:
        return r.choice(LEAVES)[0]
    if n < 9:
        return pa.struct([field(r, f"f{i}", depth + 1) for i in range(r.randrange(1, 4))])
    inner = kind(r, depth + 1)
    while pa.types.is_null(inner):
        inner = kind(r, depth + 1)
    item = pa.field("item", inner, r.random() < 0.8)
    if n < 11:
        return r.choice([pa.list_(item), pa.large_list(item), pa.list_(item, r.randrange(1, 4))])
    return pa.map_(pa.string(), inner, r.random() < 0.3)


def value(r: random.Random, t: pa.DataType, nullable: bool) -> Any:
    """A random value of a type."""
    if nullable and r.random() < 0.25:
        return None
    if pa.types.is_struct(t):
        return {f.name: value(r, f.type, f.nullable) for f in t}
    if pa.types.is_map(t):
        return [(f"k{i}", value(r, t.item_type, True)) for i in range(r.randrange(4))]
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        n = t.list_size if pa.types.is_fixed_size_list(t) else r.randrange(4)
        return [value(r, t.value_type, t.value_field.nullable and not of_fixed_size(t.value_type)) for _ in range(n)]
    return r.choice(next(values for leaf, values in LEAVES if leaf == t))


def of_fixed_size(t: pa.DataType) -> bool:
    """Whether values have one size. Rows have no place for nulls in lists of them."""
    if pa.types.is_dictionary(t):
        return of_fixed_size(t.value_type)
    if isinstance(t, pa.ExtensionType):
        return of_fixed_size(t.storage_type)
    return not (pa.types.is_nested(t) or str(t) in ("string", "binary", "large_string", "large_binary", "string_view", "binary_view"))


def column(values: list[Any], t: pa.DataType) -> pa.Array:
    """An array of a type. pyarrow makes no dictionaries and extension types inside lists."""
    if pa.types.is_dictionary(t):
        distinct = sorted({v for v in values if v is not None}, key=repr)
        numbers = pa.array([None if v is None else distinct.index(v) for v in values], t.index_type)
        return pa.DictionaryArray.from_arrays(numbers, pa.array(distinct, t.value_type))
    if isinstance(t, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(t, column(values, t.storage_type))
    null = pa.array([v is None for v in values], pa.bool_())
    if pa.types.is_struct(t):
        inside = [column([None if v is None else v[f.name] for v in values], f.type) for f in t]
        return pa.StructArray.from_arrays(inside, fields=list(t), mask=null)
    if pa.types.is_map(t):
        entries = [entry for v in values if v for entry in v]
        keys, items = column([k for k, _ in entries], t.key_type), column([item for _, item in entries], t.item_type)
        return pa.MapArray.from_arrays(offsets(values, pa.int32()), keys, items, t)
    if pa.types.is_fixed_size_list(t):
        flat = [item for v in values for item in ([None] * t.list_size if v is None else v)]
        return pa.FixedSizeListArray.from_arrays(column(flat, t.value_type), type=t, mask=null)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        made, kind = (pa.LargeListArray, pa.int64()) if pa.types.is_large_list(t) else (pa.ListArray, pa.int32())
        return made.from_arrays(offsets(values, kind), column([item for v in values if v for item in v], t.value_type), type=t)
    return pa.array(values, t)


def offsets(values: list[Any], t: pa.DataType) -> pa.Array:
    at, all_offsets = 0, []
    for v in values:
        all_offsets.append(None if v is None else at)
        at += len(v or [])
    return pa.array([*all_offsets, at], t)


def write_random(path: pathlib.Path, seed: int) -> None:
    r = random.Random(seed)
    schema = pa.schema([field(r, f"c{i}", 0) for i in range(r.randrange(1, 6))])
    rows = [{f.name: value(r, f.type, f.nullable) for f in schema} for _ in range(r.randrange(1, 40))]
    table = pa.table([column([row[f.name] for row in rows], f.type) for f in schema], schema)
    if seed % 2:
        (stream if r.random() < 0.5 else listed)(path / "a.arrow", table.to_batches(max_chunksize=17), r.choice([None, "zstd", "lz4"]))
        return
    try:
        pq.write_table(table, path / "a.parquet", row_group_size=17, store_schema=r.random() < 0.8, store_decimal_as_integer=r.random() < 0.5)
        pq.read_table(path / "a.parquet")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # Parquet cannot store intervals and null lists of a fixed size
        (path / "a.parquet").unlink(missing_ok=True)
        write_random(path, seed + 1000)


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


def unordered(t: pa.DataType) -> pa.DataType:
    """A type that pyarrow reads from a file. Dictionaries of answers are not ordered."""
    return pa.dictionary(t.index_type, t.value_type) if pa.types.is_dictionary(t) else t


def common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type of a column in an answer if it has these types in two files. Where files differ in the layout of values, it is the plain one."""
    if a == b:
        return a
    if pa.types.is_struct(a):
        return pa.struct([f.with_type(common(f.type, g.type)) for f, g in zip(a, b)])
    if getattr(a, "value_field", None) and not pa.types.is_map(a):
        inner = a.value_field.with_type(common(a.value_type, b.value_type))
        if pa.types.is_fixed_size_list(a) and a.id == b.id:
            return pa.list_(inner, a.list_size)
        return (pa.large_list if pa.types.is_large_list(a) and a.id == b.id else pa.list_)(inner)
    return {"large_string": pa.string(), "string_view": pa.string(), "large_binary": pa.binary(), "binary_view": pa.binary()}.get(str(a), a)


def source(directory: pathlib.Path) -> pa.Table:
    """The rows of all files."""
    tables = []
    for path in sorted(directory.iterdir()):
        if path.suffix not in (".parquet", ".arrow", ".arrows", ".ipc", ".feather"):
            continue
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            groups = [file.read_row_group(i) for i in range(file.num_row_groups)]  # pyarrow cannot join nested dictionaries
            table = pa.concat_tables(groups) if groups else file.read()
        else:
            with open(path, "rb") as head:
                opened = pa.ipc.open_file if head.read(6) == b"ARROW1" else pa.ipc.open_stream
            table = opened(path).read_all()
        keys = pa.array([f"{path.stem}/{i:09d}" for i in range(table.num_rows)])
        tables.append(pa.table([keys, *table.columns], pa.schema([pa.field("__key__", pa.string(), False), *table.schema])))
    fields = []
    for name in tables[0].column_names:
        f = tables[0].schema.field(name)
        kind = functools.reduce(common, (table.schema.field(name).type for table in tables))
        notes = {k: v for k, v in (f.metadata or {}).items() if k.startswith(b"ARROW:extension:")}
        fields.append(f.with_type(unordered(kind)).with_metadata(notes))
    return pa.concat_tables(pa.table([plain(c, f.type) for c, f in zip(table.columns, fields)], pa.schema(fields)) for table in tables)


def plain(column: pa.ChunkedArray, t: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(t) and column.type != t:
        return pa.chunked_array([pa.DictionaryArray.from_arrays(c.indices, c.dictionary) for c in column.chunks], t)
    return column if column.type == t else pa.chunked_array([pa.array(column.to_pylist(), t)])


def answers(files: list[str]) -> pa.Table:
    tables = [pa.ipc.open_stream(file).read_all() for file in files]
    for table in tables:
        table.validate(full=True)
    return by_key(pa.concat_tables(tables))


def by_key(table: pa.Table) -> pa.Table:
    """The rows in the order of their keys. pyarrow can sort no views."""
    keys = table.column("__key__").to_pylist()
    return pa.concat_tables(table.slice(i, 1) for i in sorted(range(len(keys)), key=keys.__getitem__))


def differences(got: pa.Table, want: pa.Table) -> dict[str, str]:
    wrong = {}
    for a, b in zip(got.schema, want.schema):
        if not a.remove_metadata().equals(b.remove_metadata()) or (a.metadata or {}) != (b.metadata or {}):
            wrong[f"type of {b.name}"] = f"got {a} {a.metadata}, want {b} {b.metadata}"
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
    return {name: differences(answers(paths), by_key(source(pathlib.Path(directory) / name))) for name, paths in files.items()}


if __name__ == "__main__":
    print(json.dumps({"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])))
