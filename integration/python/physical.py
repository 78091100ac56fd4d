"""The rows of a Parquet file as pyarrow reads them, each value as its physical bytes in hexadecimal: what docs/rows.md says that a
row holds. A null is None, a struct a dict, a list a list, a map a list of dicts of key and value."""

import struct

import pyarrow as pa
import pyarrow.parquet as pq


def integer(value: int, size: int) -> bytes:
    return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def int96(nanoseconds: int) -> bytes:
    days, rest = divmod(nanoseconds, 86_400_000_000_000)
    return struct.pack("<qI", rest, days + 2_440_588)


def decimal(scalar, column) -> bytes:
    unscaled = int(scalar.as_py().scaleb(scalar.type.scale))
    if column.physical_type in ("INT32", "INT64"):
        return integer(unscaled, int(column.physical_type[3:]) // 8)
    size = column.length or (unscaled.bit_length() // 8 + 1)
    return unscaled.to_bytes(size, "big", signed=True)


def leaf(scalar, column) -> bytes:
    """A value of a column that is neither struct nor list."""
    kind, physical = scalar.type, column.physical_type
    if pa.types.is_dictionary(kind):
        return leaf(scalar.value, column)
    if pa.types.is_decimal(kind):
        return decimal(scalar, column)
    if physical == "INT96":
        return int96(scalar.cast(pa.timestamp("ns")).value)
    if physical == "BOOLEAN":
        return bytes([scalar.as_py()])
    if physical == "FLOAT":
        return struct.pack("<f", scalar.as_py())
    if physical == "DOUBLE":
        return struct.pack("<d", scalar.as_py())
    if physical in ("INT32", "INT64"):
        value = scalar.value if hasattr(scalar, "value") else scalar.as_py()
        return integer(value, int(physical[3:]) // 8)
    value = scalar.as_py()
    if pa.types.is_float16(kind):
        return struct.pack("<e", value)
    if isinstance(value, str):
        return value.encode()
    return value.bytes if hasattr(value, "bytes") else bytes(value)


def tree(scalar, columns) -> object:
    """A value as nested lists and dicts. columns gives the leaves in their order."""
    kind = scalar.type
    if pa.types.is_map(kind):
        results = []
        entries = scalar.values if scalar.is_valid else []
        first, rest = columns[: leaves(kind.key_type)], columns[leaves(kind.key_type) :]
        for entry in entries:
            results.append({"key": tree(entry[0], first), "value": tree(entry[1], rest)})
        return results if scalar.is_valid else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
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


def leaves(kind) -> int:
    """How many columns of a file a type takes."""
    if pa.types.is_map(kind):
        return leaves(kind.key_type) + leaves(kind.item_type)
    if pa.types.is_struct(kind):
        return sum(leaves(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return leaves(kind.value_type)
    return 1


def rows(path: str):
    """Each row of a file as a dict."""
    file = pq.ParquetFile(path)
    columns = [file.schema.column(i) for i in range(len(file.schema))]
    for batch in file.iter_batches(batch_size=1024):
        for i in range(batch.num_rows):
            row, at = {}, 0
            for field, array in zip(batch.schema, batch.columns):
                n = leaves(field.type)
                row[field.name] = tree(array[i], columns[at : at + n])
                at += n
            yield row
