"""Rows of Parquet and Arrow files, as their libraries read them and as a gateway delivers them.

columnar.py write DIR           writes data sets with several writers, each into a separate directory in DIR
columnar.py judge DIR NAME...   reads those directories in DIR with pyarrow
columnar.py read FILE           parses batches only by docs/spec/rows.md: tars, or an epoch as a directory of MDS. FILE is a JSON
                                object with the description and the files of the batches of each data set, by name

All print a JSON object with the values of each row, by data set, by key of the row and by path. A value is hexadecimal, or JSON for a list.
The key "types" has the types of the columns. write and judge also print, as "NAME as mds", the rows without empty values. For a file that
pyarrow refuses, judge prints only the reason.
"""

import datetime
import json
import os
import pathlib
import shutil
import struct
import sys
import tarfile
import uuid
from collections.abc import Iterator

os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"

import physical
import pyarrow as pa

FILES = pathlib.Path(__file__).resolve().parents[2] / "chunkindex" / "codec" / "rowgroup" / "testdata"

# Committed files, by releases of their writers that are not in the tests' environment.
COMMITTED = {
    "parquet-committed": ["nested-pages-v1", "nested-pages-v2", "nested"],
    "parquet-types": ["types"],
    "parquet-by-duckdb": ["by-duckdb", "by-duckdb-v2"],
    "parquet-by-polars": ["by-polars"],
    "parquet-by-datasets": ["by-datasets"],
    "parquet-by-fastparquet": ["by-fastparquet"],
    "parquet-by-spark": ["by-spark"],
    "parquet-by-spark-legacy": ["by-spark-legacy"],
    "parquet-encoded": ["encoded-delta-v1", "compressed-brotli-v1", "checksums"],
}


def flat(row: dict, fields: pa.Schema | pa.StructType, above: str = "") -> dict[str, str]:
    """The non-null values of a row, by their paths."""
    values = {}
    for field in fields:
        value, path = row[field.name], above + field.name
        if value is None:
            continue
        if pa.types.is_struct(field.type):
            values.update(flat(value, field.type, path + "."))
        else:
            values[path] = json.dumps(value, sort_keys=True)
    return values


def leaves(fields: list, above: str = ""):
    """The columns of a schema by their paths, and the number of nullable nodes."""
    columns, nullable = {}, 0
    for field in fields:
        nullable += field.get("nullable", False)
        if field["type"] == "struct":
            inside, more = leaves(field["children"], above + field["name"] + ".")
            columns.update(inside)
            nullable += more
        else:
            columns[above + field["name"]] = field
    return columns, nullable


class Reader:
    """Parses the nested form."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        assert n <= len(self.data) - self.at
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self) -> int:
        return struct.unpack("<I", self.take(4))[0]

    def row(self, fields: list) -> dict:
        bits = int.from_bytes(self.take(max(1, (leaves(fields)[1] + 7) // 8)), "little")
        present, at = [], 0

        def shape(fields: list, gone: bool) -> dict:
            nonlocal at
            row: dict = {}
            for field in fields:
                null = gone
                if field.get("nullable"):
                    null = bool(bits >> at & 1) or gone
                    at += 1
                row[field["name"]] = None
                if field["type"] == "struct":
                    inside = shape(field["children"], null)
                    row[field["name"]] = None if null else inside
                elif not null:
                    present.append((row, field))
            return row

        whole = shape(fields, False)
        lengths = [field.get("size") or self.number() for _, field in present]
        for (row, field), n in zip(present, lengths):
            row[field["name"]] = value(field, self.take(n))
        return whole

    def list(self, element: dict) -> list:
        count = self.number()
        nulls = int.from_bytes(self.take((count + 7) // 8), "little")
        values: list = []
        for i in range(count):
            if nulls >> i & 1:
                values.append(None)
            elif element["type"] == "struct":
                values.append(self.row(element["children"]))
            else:
                values.append(value(element, self.take(self.number())))
        return values


def value(field: dict, data: bytes):
    """Decodes a part to hexadecimal, or to a list of hexadecimal values."""
    if field["type"] not in ("list", "map"):
        return data.hex()
    element = field["children"][0]
    if size := element.get("size"):
        return [data[i : i + size].hex() for i in range(0, len(data), size)]
    reader = Reader(data)
    values = reader.list(element)
    assert reader.at == len(data)
    return values


def of_tar(path: str, columns: dict) -> Iterator[tuple[str, dict]]:
    rows: dict[str, dict] = {}
    with tarfile.open(path) as tar:
        for member in tar:
            base = member.name.rindex("/")
            key, _, name = member.name[base:].partition(".")
            row = rows.setdefault(member.name[:base] + key, {})
            if name in columns:  # and not a marker of an empty struct
                row[name] = json.dumps(value(columns[name], tar.extractfile(member).read()), sort_keys=True)
    yield from rows.items()


def some(row: dict) -> dict:
    """A row without its empty values, which MDS cannot distinguish from nulls."""
    return {name: v for name, v in row.items() if v not in ('""', "[]")}


def of_mds(path: str, columns: dict) -> Iterator[tuple[str, dict]]:
    """The rows as MosaicML Streaming reads them."""
    from streaming import StreamingDataset

    for sample in StreamingDataset(local=path, batch_size=1, shuffle=False):
        row = {name: json.dumps(value(columns[name], sample[name]), sort_keys=True) for name in columns if sample.get(name)}
        yield sample["__key__"], some(row)


def canonical(value: object) -> object:
    """Converts a value to one whose repr is unique and independent of the library, for example a map, a time with a zone, or a UUID."""
    if isinstance(value, dict) and set(value) == {"key", "value"}:
        return canonical((value["key"], value["value"]))
    if isinstance(value, dict):
        return [(k, canonical(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [canonical(v) for v in value]
    if isinstance(value, datetime.datetime) and value.tzinfo:
        return value.astimezone(datetime.timezone.utc).isoformat()
    return str(value) if isinstance(value, uuid.UUID) else value


def agree(name: str, file: pathlib.Path, source: physical.Source, own) -> None:
    """Reads a file also with the library that wrote it, which must find the same rows as pyarrow."""
    want, got = ([repr(canonical(row)) for row in table.to_pylist()] for table in (own(file), source.read()))
    if want != got:
        row = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), -1)
        raise SystemExit(f"{name}, {file.name}, row {row}: its own library reads other values than pyarrow\n{want[row]}\n{got[row]}")


def rows_of(name: str, directory: pathlib.Path, own=None) -> dict[str, object]:
    """The rows of all files of a directory by their keys, and the types of their columns."""
    rows: dict[str, object] = {}
    for file in sorted(directory.iterdir()):
        if file.suffix == ".json":
            continue
        source = physical.Source(str(file))
        if own:
            agree(name, file, source, own)
        if rows.setdefault("types", source.types()) != source.types():
            raise SystemExit(f"{name}: {file.name} has other columns than the files before")
        for i, row in enumerate(source.rows()):
            rows[f"{file.stem}/{i:09d}"] = flat(row, source.schema)
    return rows


def write(directory: str) -> dict:
    from columnar_writers import WRITERS

    told, root = {}, pathlib.Path(directory)
    for name, files in COMMITTED.items():
        (root / name).mkdir()
        for file in files:
            shutil.copy(FILES / f"{file}.parquet", root / name / f"{file}.parquet")
        told[name] = rows_of(name, root / name)
    for name, (writer, own) in WRITERS.items():
        (root / name).mkdir()
        writer(root / name)
        told[name] = rows_of(name, root / name, own)
    return told


def judge(directory: str, *names: str) -> dict:
    told = {}
    for name in names:
        try:
            told[name] = rows_of(name, pathlib.Path(directory) / name)
        except Exception as e:
            told[name] = {"refused": str(e)}
    return told


def read(file: str) -> dict:
    with open(file, encoding="utf-8") as f:
        asked = json.load(f)
    told: dict = {}
    for name, one in asked.items():
        about = one["description"]
        columns, _ = leaves(about["constants"]["fields"])
        rows = told[name] = {"types": {f["name"]: f["type"] + ("" if f.get("nullable") else " not null") for f in about["fields"]}}
        for path in one["batches"]:
            for key, row in rows_in(path, columns):
                if key in rows:
                    raise SystemExit(f"{name}: row {key} comes twice")
                rows[key] = row
    return told


def rows_in(path: str, columns: dict) -> Iterator[tuple[str, dict]]:
    return of_mds(path, columns) if os.path.isdir(path) else of_tar(path, columns)


def main(command: str, *args: str) -> None:
    result = {"write": write, "judge": judge, "read": read}[command](*args)
    if command != "read":
        result |= {name + " as mds": {key: some(row) for key, row in rows.items()} for name, rows in result.items() if "refused" not in rows}
    print(json.dumps({name: {key: json.dumps(row, sort_keys=True) for key, row in rows.items()} for name, rows in result.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
