#!/usr/bin/env python3
"""Writes the kit's table as Parquet and Arrow files with pyarrow, or checks the existing files.

usage: write.py            write part-0.parquet, part-1.parquet, part-0.arrow (file format) and
part-1.arrow (stream)
       write.py --check    report whether pyarrow reads the content of kit/tables.py from them

The kit itself does not use pyarrow. Files of another release of pyarrow have other bytes, and so other
generations: after writing them again, run `check.py vectors`.
"""

import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from kit import tables  # noqa: E402
from kit.rows import Node  # noqa: E402

SIMPLE = {
    "bool": pa.bool_(), "int32": pa.int32(), "int64": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "binary": pa.binary(), "string": pa.string(),
}  # fmt: skip


def field(node: Node) -> pa.Field:
    return pa.field(node.name, kind(node), nullable=node.nullable)


def kind(node: Node) -> pa.DataType:
    if node.kind == "struct":
        return pa.struct([field(f) for f in node.inner])
    if node.kind == "list":
        return pa.list_(field(node.inner[0]))
    if node.kind == "map":
        return pa.map_(kind(node.inner[0]), kind(node.inner[1]))
    return SIMPLE[node.kind]


def plain(node: Node, value: object) -> object:
    """Converts a value to the form that pyarrow accepts and returns."""
    if value is not None and node.kind == "struct":
        return {f.name: plain(f, v) for f, v in zip(node.inner, value)}
    return value


def expected() -> list[pa.Table]:
    out, first = [], 0
    schema = pa.schema([field(node) for node in tables.SCHEMA])
    for count in tables.PER_FILE:
        rows = [tables.values(i) for i in range(first, first + count)]
        columns = [
            pa.array([plain(node, row[c]) for row in rows], kind(node)) for c, node in enumerate(tables.SCHEMA)
        ]
        out.append(pa.Table.from_arrays(columns, schema=schema))
        first += count
    return out


def write() -> None:
    for part, table in enumerate(expected()):
        settings = {"compression": ("snappy", "none")[part], "data_page_version": ("1.0", "2.0")[part]}
        pq.write_table(
            table, os.path.join(HERE, f"part-{part}.parquet"), row_group_size=tables.GROUP, store_schema=False,
            write_statistics=False, use_dictionary=["text"] if part == 0 else False, **settings,
        )  # fmt: skip
        start = (pa.ipc.new_file, pa.ipc.new_stream)[part]
        options = pa.ipc.IpcWriteOptions(compression=("lz4", None)[part])
        with start(os.path.join(HERE, f"part-{part}.arrow"), table.schema, options=options) as out:
            out.write_table(table, max_chunksize=tables.GROUP)


def check() -> int:
    wrong = 0
    for part, table in enumerate(expected()):
        arrow = os.path.join(HERE, f"part-{part}.arrow")
        read = {"parquet": pq.read_table(os.path.join(HERE, f"part-{part}.parquet"))}
        read["arrow"] = (pa.ipc.open_file, pa.ipc.open_stream)[part](arrow).read_all()
        for suffix, got in read.items():
            if got.to_pylist() != table.to_pylist():
                print(f"FAIL  part-{part}.{suffix}: pyarrow reads other rows than kit/tables.py has")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    if sys.argv[1:]:
        sys.exit(check())
    write()
