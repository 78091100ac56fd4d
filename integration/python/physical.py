"""Prints the rows of a Parquet or Arrow file as pyarrow reads them, in the representation of docs/spec/rows.md.

Each value is its physical bytes in hexadecimal. A null is None, a struct a dict, a list a list, and a map a list of dicts with key and
value. The output includes the type of each column in the notation of docs/api.md.
"""

import json
import struct

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq


def integer(value: int, size: int) -> bytes:
    return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def int96(microseconds: int) -> bytes:
    days, rest = divmod(microseconds, 86_400_000_000)
    return struct.pack("<qi", 1000 * rest, days + 2_440_588)


def decimal(scalar, column) -> bytes:
    unscaled = int(scalar.as_py().scaleb(scalar.type.scale))
    if column.physical_type in ("INT32", "INT64"):
        return integer(unscaled, int(column.physical_type[3:]) // 8)
    size = column.length or (unscaled.bit_length() // 8 + 1)
    return unscaled.to_bytes(size, "big", signed=True)


def natural(scalar) -> bytes:
    """A value in Arrow's own layout. A boolean takes a byte."""
    kind = scalar.type
    if pa.types.is_boolean(kind):
        return bytes([scalar.as_py()])
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.repeat(scalar, 1).buffers()[1].to_pybytes()[: kind.bit_width // 8]
    value = scalar.as_py()
    return value.encode() if isinstance(value, str) else bytes(value)


def leaf(scalar, column) -> bytes:
    """A value of a column that is neither struct nor list. For an Arrow file column is None."""
    kind = scalar.type
    if pa.types.is_dictionary(kind):
        return leaf(scalar.value, column)
    if column is None:
        return natural(scalar)
    physical = column.physical_type
    if pa.types.is_decimal(kind):
        return decimal(scalar, column)
    if physical == "INT96":
        return int96(scalar.value)
    if physical == "BOOLEAN":
        return bytes([scalar.as_py()])
    if physical == "FLOAT":
        return struct.pack("<f", scalar.as_py())
    if physical == "DOUBLE":
        return struct.pack("<d", scalar.as_py())
    if physical in ("INT32", "INT64"):
        value = scalar.value if hasattr(scalar, "value") else scalar.as_py()
        return integer(value, int(physical[3:]) // 8)
    if pa.types.is_float16(kind):
        return natural(scalar)  # as_py would lose the payload of a NaN
    value = scalar.as_py()
    if isinstance(value, str):
        return value.encode()
    return value.bytes if hasattr(value, "bytes") else bytes(value)


def tree(scalar, columns) -> object:
    """A value as nested lists and dicts. columns yields the leaves in their order."""
    kind = scalar.type
    if isinstance(kind, pa.BaseExtensionType):
        return tree(scalar.value, columns) if scalar.is_valid else None
    if pa.types.is_map(kind):
        results = []
        entries = scalar.values if scalar.is_valid else []
        first, rest = columns[: leaves(kind.key_type)], columns[leaves(kind.key_type) :]
        for entry in entries:
            results.append({"key": tree(entry[0], first), "value": tree(entry[1], rest)})
        return results if scalar.is_valid else None
    if is_list(kind):
        return [tree(element, columns) for element in scalar.values] if scalar.is_valid else None
    if pa.types.is_struct(kind):
        if not scalar.is_valid:
            return None
        result, at = {}, 0
        for i, field in enumerate(kind):
            n = leaves(field.type)
            result[field.name] = tree(scalar[i], columns[at : at + n])
            at += n
        return result
    return leaf(scalar, columns[0]).hex() if scalar.is_valid else None


def is_list(kind) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def leaves(kind) -> int:
    """The number of a file's columns that a type spans."""
    if isinstance(kind, pa.BaseExtensionType):
        return leaves(kind.storage_type)
    if pa.types.is_map(kind):
        return leaves(kind.key_type) + leaves(kind.item_type)
    if pa.types.is_struct(kind):
        return sum(leaves(field.type) for field in kind)
    if is_list(kind):
        return leaves(kind.value_type)
    return 1


def leaf_type(kind, column) -> str:
    """The type of a column that is neither struct nor list, in the notation of docs/api.md."""
    if column is None:
        return arrow_type(kind)
    about = json.loads(column.logical_type.to_json())
    logical, unit = about["Type"], {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}.get(about.get("timeUnit"))
    physical = column.physical_type
    if logical == "Decimal" and physical.startswith("INT"):
        return f"decimal{physical[3:]}({about['precision']}, {about['scale']})"
    if logical == "Int" and physical.startswith("INT"):
        return ("" if about["isSigned"] else "u") + physical.lower()
    if logical == "Timestamp" and physical == "INT64":
        return f"timestamp[{unit}, tz=UTC]" if about["isAdjustedToUTC"] else f"timestamp[{unit}]"
    if logical == "Time":
        return f"time{physical[3:]}[{unit}]"
    if logical in ("Date", "Float16"):
        return {"Date": "date32", "Float16": "float16"}[logical]
    if physical == "BYTE_ARRAY":
        return "utf8" if logical in ("String", "Enum", "JSON") else "binary"
    if physical in ("FIXED_LEN_BYTE_ARRAY", "INT96"):
        return f"fixed_size_binary[{column.length if physical != 'INT96' else 12}]"
    return {"BOOLEAN": "bool", "INT32": "int32", "INT64": "int64", "FLOAT": "float", "DOUBLE": "double"}[physical]


def arrow_type(kind) -> str:
    """The name of an Arrow type that is neither struct nor list."""
    if pa.types.is_dictionary(kind):
        return arrow_type(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "utf8"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "binary"
    names = {"halffloat": "float16", "date32[day]": "date32", "date64[ms]": "date64", "month_day_nano_interval": "interval[month_day_nano]"}
    return names.get(str(kind), str(kind))


def type_of(kind, columns) -> str:
    """A type in the notation of docs/api.md. columns yields the leaves in their order."""
    if isinstance(kind, pa.BaseExtensionType):
        return "bool" if isinstance(kind, pa.Bool8Type) else type_of(kind.storage_type, columns)
    if pa.types.is_map(kind):
        first, rest = columns[: leaves(kind.key_type)], columns[leaves(kind.key_type) :]
        return f"map<{type_of(kind.key_type, first)}, {type_of(kind.item_type, rest)}>"
    if is_list(kind):
        return f"list<{type_of(kind.value_type, columns)}>"
    if pa.types.is_struct(kind):
        inside, at = [], 0
        for field in kind:
            n = leaves(field.type)
            inside.append(f"{field.name}: {type_of(field.type, columns[at : at + n])}")
            at += n
        return f"struct<{', '.join(inside)}>"
    return leaf_type(kind, columns[0])


def columns_of(fields, columns, above: str = "", nullable: bool = False):
    """The types of the columns by their paths. The path of a column in a struct has both names."""
    at = 0
    for field in fields:
        n = leaves(field.type)
        inside, null = columns[at : at + n], nullable or field.nullable
        if pa.types.is_struct(field.type):
            yield from columns_of(field.type, inside, above + field.name + ".", null)
        else:
            yield above + field.name, type_of(field.type, inside) + ("" if null else " not null")
        at += n


class Source:
    """A file: its schema, its Parquet columns, and its rows."""

    def __init__(self, path: str):
        self.path = path
        if path.endswith((".parquet", ".parq")):
            # In nanoseconds, INT96 would lose times after the year 2262.
            self.file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
            self.schema = self.file.schema_arrow
            self.columns = [self.file.schema.column(i) for i in range(len(self.file.schema))]
            return
        with open(path, "rb") as file:
            listed = file.read(6) == b"ARROW1"
        self.file = None
        self.table = (pa.ipc.open_file if listed else pa.ipc.open_stream)(path).read_all()
        self.schema = self.table.schema
        self.columns = [None] * sum(leaves(field.type) for field in self.schema)

    def types(self) -> dict[str, str]:
        return dict(columns_of(self.schema, self.columns))

    def read(self) -> pa.Table:
        return self.file.read() if self.file else self.table

    def rows(self):
        batches = self.file.iter_batches(batch_size=1024) if self.file else self.table.to_batches()
        for batch in batches:
            for i in range(batch.num_rows):
                row, at = {}, 0
                for field, array in zip(batch.schema, batch.columns):
                    n = leaves(field.type)
                    row[field.name] = tree(array[i], self.columns[at : at + n])
                    at += n
                yield row


def rows(path: str):
    """Each row of a file as a dict."""
    return Source(path).rows()
