"""Reads batches in the form arrow with pyarrow, and decodes each column by its type: typed.py mds|lit CONSTANTS NAME=FILE...

Prints a JSON object with a digest of each sample, by name and then by sample ID. The digest is the one that mds.py and lit.py compute from
the sample as the format's library reads it from the dataset itself. CONSTANTS are those of the dataset's description.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.ipc


def number(t: pa.DataType) -> Any:
    """NumPy's equivalent of a number type."""
    return np.dtype({"halffloat": "float16", "float": "float32", "double": "float64"}.get(str(t), str(t))).type


def value(field: pa.Field, scalar: pa.Scalar, other: Callable[[str, bytes], Any]) -> Any:
    """A value of a typed column. The library of the format decodes columns of other encodings."""
    metadata = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
    if "millrace:encoding" in metadata:
        stored = scalar.as_py()
        return other(metadata["millrace:encoding"], stored.encode() if isinstance(stored, str) else stored)
    t = field.type
    if isinstance(t, pa.FixedShapeTensorType):
        return scalar.to_numpy()
    if pa.types.is_boolean(t) or pa.types.is_string(t) or pa.types.is_binary(t):
        return scalar.as_py()
    if pa.types.is_list(t):
        return np.array(scalar.as_py(), number(t.value_type))
    return number(t)(scalar.as_py())


def rows(file: str, other: Callable[[str, bytes], Any]) -> Iterator[dict[str, Any]]:
    with open(file, "rb") as stream:
        table = pa.ipc.open_stream(stream).read_all()
    table.validate(full=True)
    for i in range(table.num_rows):
        yield {f.name: value(f, table.column(n)[i], other) for n, f in enumerate(table.schema) if f.name != "__key__"}


def of_mds(_: dict[str, Any]) -> tuple[Callable[[str, bytes], Any], Callable[[dict[str, Any]], tuple[str, Any]]]:
    from mds import canonical
    from streaming.base.format.mds.encodings import mds_decode

    def other(encoding: str, stored: bytes) -> Any:
        return mds_decode({"pickle": "pkl"}.get(encoding, encoding.removeprefix("mds:")), stored)

    def sample(row: dict[str, Any]) -> tuple[str, Any]:
        row["id"] = int(row["id"])  # Streaming returns a Python integer for an "int"
        return str(row["id"]), [(k, canonical(v)) for k, v in sorted(row.items())]

    return other, sample


def of_lit(constants: dict[str, Any]) -> tuple[Callable[[str, bytes], Any], Callable[[dict[str, Any]], tuple[str, Any]]]:
    from lit import canonical
    from litdata.streaming.serializers import _SERIALIZERS
    from litdata.utilities._pytree import tree_unflatten, treespec_loads

    spec = treespec_loads(constants["data_spec"])

    def other(encoding: str, stored: bytes) -> Any:
        return _SERIALIZERS[encoding.removeprefix("litdata:").split(":")[0]].deserialize(stored)

    def sample(row: dict[str, Any]) -> tuple[str, Any]:
        tree = tree_unflatten([row[str(i)] for i in range(len(row))], spec)
        return str(tree["id"]), canonical(tree)

    return other, sample


def main(kind: str, constants: str, *named: str) -> None:
    other, sample = {"mds": of_mds, "lit": of_lit}[kind](json.loads(constants))
    all_found: dict[str, dict[str, str]] = {}
    for name, _, file in (arg.partition("=") for arg in named):
        found = all_found.setdefault(name, {})
        for row in rows(file, other):
            key, content = sample(row)
            if key in found:
                raise SystemExit(f"sample {key} comes twice")
            found[key] = hashlib.sha256(repr(content).encode()).hexdigest()
    json.dump(all_found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
