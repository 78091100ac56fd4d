"""Compares two readings by common libraries: of an answer in the form arrow, and of the file.

readers.py write DIR                 writes a data set for each library, with a column of each type that the library reads from Parquet and Arrow
readers.py check LIBRARY DIR ANSWER  compares both readings, column by column

Both print a JSON object by the name of the library. write prints its version, the number of columns, and those that it does not read.
"""

import importlib.metadata
import json
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"

import answers
import datasets
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

Columns = dict[str, list[Any]]


def columns(rows: list[dict[str, Any]]) -> Columns:
    return {name: [row[name] for row in rows] for name in rows[0]}


def from_parquet(path: str) -> Columns:
    with tempfile.TemporaryDirectory() as cache:
        return columns(datasets.Dataset.from_parquet(path, cache_dir=cache).to_list())


# For each library, functions that read a Parquet file and an answer.
READERS: dict[str, tuple[Callable[[str], Columns], Callable[[str], Columns]]] = {
    "pyarrow": (lambda path: pq.read_table(path).to_pydict(), lambda path: pa.ipc.open_stream(path).read_all().to_pydict()),
    "polars": (lambda path: polars.read_parquet(path).to_dict(as_series=False), lambda path: polars.read_ipc_stream(path).to_dict(as_series=False)),
    "duckdb": (
        lambda path: duckdb.read_parquet(path).to_arrow_table().to_pydict(),
        lambda path: duckdb.from_arrow(pa.ipc.open_stream(path)).to_arrow_table().to_pydict(),
    ),
    "datasets": (from_parquet, lambda path: columns(datasets.Dataset.from_file(path).to_list())),
}

# Types that a library does not read from Parquet as pyarrow does. It must read pyarrow's values from an answer. DuckDB ignores the
# schema of Arrow in Parquet; Polars also applies it to types that pyarrow leaves as Parquet has them.
OTHER_TYPES = {"duckdb": ("duration", "bool8"), "polars": ("date64", "dictionary_values_timestamp")}

NESTED = [
    (pa.struct([("a", pa.int8()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": None, "b": None}]),
    (pa.list_(pa.string()), [["a", None, ""], []]),
    (pa.list_(pa.float32()), [[0.5, 1.0], []]),
    (pa.large_list(pa.int16()), [[1, 2], []]),
    (pa.list_(pa.int32(), 2), [[1, 2], [3, 4]]),
    (pa.list_(pa.struct([("role", pa.string()), ("tokens", pa.list_(pa.int32()))])), [[{"role": "user", "tokens": [1]}], []]),
    (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], []]),
]


def every_type() -> dict[str, pa.Array]:
    """A column of each type. Every third value is null, except in lists of a fixed size: Parquet cannot store that."""
    made = {}
    for i, (t, values) in enumerate([*answers.LEAVES, *NESTED]):
        nulls = not pa.types.is_fixed_size_list(t)
        column = [None if nulls and n % 3 == 2 else values[n % len(values)] for n in range(40)]
        made[f"c{i}_" + re.sub(r"\W+", "_", str(t))] = answers.column(column, t)
    return made


def reads(library: str, table: pa.Table, path: pathlib.Path) -> bool:
    """Whether a library reads a table from Parquet, and from a stream of pyarrow."""
    stream = path.with_suffix(".arrows")
    try:
        pq.write_table(table, path)
        with pa.ipc.new_stream(stream, table.schema) as out:
            out.write_table(table)
        of_file, of_stream = READERS[library]
        of_file(str(path)), of_stream(str(stream))
    except BaseException:  # each library has errors of its own, and Polars panics
        return False
    finally:
        stream.unlink(missing_ok=True)
    return True


def write(directory: str) -> dict[str, Any]:
    made = {}
    for library in READERS:
        path = pathlib.Path(directory) / library / "a.parquet"
        path.parent.mkdir()
        columns = {name: column for name, column in every_type().items() if reads(library, pa.table({name: column}), path)}
        table = pa.table({"row": pa.array(range(40), pa.int32()), **columns})
        pq.write_table(table, path, row_group_size=15)
        unread = sorted(set(every_type()) - set(columns))
        made[library] = {"version": importlib.metadata.version(library), "columns": str(len(columns)), "unread": " ".join(unread)}
    return made


def check(library: str, directory: str, answer: str) -> dict[str, Any]:
    of_file, of_stream = READERS[library]
    path = pathlib.Path(directory) / library / "a.parquet"
    stream = path.with_suffix(".arrows")
    table = pq.read_table(path)
    with pa.ipc.new_stream(stream, table.schema) as out:
        out.write_table(table)
    want, of_pyarrow, got = of_file(str(path)), of_stream(str(stream)), of_stream(answer)
    order = sorted(range(len(got["row"])), key=got["row"].__getitem__)
    wrong = {}
    for name, values in want.items():
        if any(t in name for t in OTHER_TYPES.get(library, ())):
            values = of_pyarrow[name]
        mine = [got[name][i] for i in order]
        if repr(mine) != repr(values):
            row = next(i for i, (a, b) in enumerate(zip(mine, values)) if repr(a) != repr(b))
            wrong[name] = f"row {row}: got {mine[row]!r}, want {values[row]!r}"
    return {library: wrong}


if __name__ == "__main__":
    print(json.dumps({"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])))
