"""Rows of Parquet files, as pyarrow reads them and as a gateway answers them: parquet.py write DIR | parquet.py read CONSTANTS DATASET=BATCH...

write makes data sets of files by several writers in DIR. read takes the constants of a data set and its batches, Arrow streams or tars, and
reads them by docs/rows.md alone. Both print a JSON object: of every data set, and of every row there by its key, its values by
their paths, each as hexadecimal, or for lists as JSON.
"""

import json
import pathlib
import shutil
import struct
import sys
import tarfile

import physical
import pyarrow as pa
import pyarrow.parquet as pq

FILES = pathlib.Path(__file__).resolve().parents[2] / "chunkindex" / "codec" / "rowgroup" / "testdata"


def flat(row: dict, fields: list, above: str = "") -> dict[str, str]:
    """The values of a row that are not null, by their paths."""
    values = {}
    for field in fields:
        value, path = row[field["name"]], above + field["name"]
        if value is None:
            continue
        if field["type"] == "struct":
            values.update(flat(value, field["children"], path + "."))
        else:
            values[path] = json.dumps(value, sort_keys=True)
    return values


def leaves(fields: list, above: str = ""):
    """The columns of a schema by their paths, and how many nullable nodes it has."""
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
    """Reads the nested form."""

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
    """A part: hexadecimal, or a list of such."""
    if field["type"] not in ("list", "map"):
        return data.hex()
    element = field["children"][0]
    if size := element.get("size"):
        return [data[i : i + size].hex() for i in range(0, len(data), size)]
    reader = Reader(data)
    values = reader.list(element)
    assert reader.at == len(data)
    return values


def raw(array: pa.Array, field: dict, i: int) -> bytes:
    """The bytes of a value of an Arrow column: those that its buffers have."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    buffers = array.buffers()
    if size := field.get("size"):
        return buffers[1][i * size : (i + 1) * size].to_pybytes()
    begin, end = struct.unpack_from("<ii", buffers[1], 4 * i)
    if field["type"] in ("list", "map") and pa.types.is_list(array.type):
        size = field["children"][0]["size"]
        return array.values.buffers()[1][begin * size : end * size].to_pybytes() if end > begin else b""
    return buffers[2][begin:end].to_pybytes() if end > begin else b""


def of_arrow(path: str, columns: dict):
    for batch in pa.ipc.open_stream(path):
        assert set(batch.schema.names) == {"__key__", *columns}, batch.schema.names
        for i, key in enumerate(batch.column("__key__").to_pylist()):
            yield (
                key,
                {
                    name: json.dumps(value(field, raw(batch.column(name), field, i)), sort_keys=True)
                    for name, field in columns.items()
                    if batch.column(name)[i].is_valid
                },
            )


def of_tar(path: str, columns: dict):
    rows: dict[str, dict] = {}
    with tarfile.open(path) as tar:
        for member in tar:
            base = member.name.rindex("/")
            key, _, name = member.name[base:].partition(".")
            row = rows.setdefault(member.name[:base] + key, {})
            if name in columns:  # and not a struct of nulls
                row[name] = json.dumps(value(columns[name], tar.extractfile(member).read()), sort_keys=True)
    yield from rows.items()


def write(directory: str) -> dict:
    told = {}
    for name, files in {
        "pyarrow": ["nested-pages-v1", "nested-pages-v2", "nested"],
        "types": ["types"],
        "duckdb": ["by-duckdb", "by-duckdb-v2"],
        "polars": ["by-polars"],
        "datasets": ["by-datasets"],
        "fastparquet": ["by-fastparquet"],
        "encoded": ["encoded-delta-v1", "compressed-brotli-v1", "checksums"],
    }.items():
        told[name] = {}
        (pathlib.Path(directory) / name).mkdir()
        for file in files:
            path = pathlib.Path(directory) / name / f"{file}.parquet"
            shutil.copy(FILES / path.name, path)
            kinds = schema(pq.read_schema(path))
            for i, row in enumerate(physical.rows(str(path))):
                told[name][f"{file}/{i:09d}"] = flat(row, kinds)
    return told


def schema(kind) -> list:
    """As much of a schema as flat looks at."""
    return [
        {
            "name": field.name,
            "type": "struct" if pa.types.is_struct(field.type) else "",
            "children": schema(field.type) if pa.types.is_struct(field.type) else [],
        }
        for field in kind
    ]


def read(constants: str, *batches: str) -> dict:
    columns, _ = leaves(json.loads(constants)["fields"])
    told: dict = {}
    for batch in batches:
        name, _, path = batch.partition("=")
        with open(path, "rb") as file:
            arrow = file.read(4) == b"\xff\xff\xff\xff"
        for key, row in (of_arrow if arrow else of_tar)(path, columns):
            assert key not in told.setdefault(name, {}), key
            told[name][key] = row
    return told


result = write(sys.argv[2]) if sys.argv[1] == "write" else read(*sys.argv[2:])
print(json.dumps({name: {key: json.dumps(row, sort_keys=True) for key, row in rows.items()} for name, rows in result.items()}))
