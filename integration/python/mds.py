"""Writes and reads MDS datasets with MosaicML Streaming itself: mds.py write DIR | mds.py read DIR...

Both print a JSON object with a digest of all columns of each sample as the library decodes them, by directory and then by sample ID.
"""

import hashlib
import json
import os
import sys
from decimal import Decimal
from io import BytesIO
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from PIL import Image
from streaming import MDSWriter, StreamingDataset
from streaming.base.format.mds.encodings import get_mds_encodings
from streaming.base.util import merge_index

SAMPLES = 60

COLUMNS = {
    "id": "int",
    "bytes": "bytes",
    "str": "str",
    "ndarray": "ndarray",
    "ndarray of a type": "ndarray:int16",
    "ndarray of a shape": "ndarray:float32:2,3",
    "str_int": "str_int",
    "str_float": "str_float",
    "str_decimal": "str_decimal",
    "pil": "pil",
    "jpeg": "jpeg",
    "jpeg_array": "jpeg_array",
    "jpegarray": "jpegarray",
    "png": "png",
    "list[pil]": "list[pil]",
    "list[jpeg]": "list[jpeg]",
    "list[png]": "list[png]",
    "pkl": "pkl",
    'json "é\\': "json",
}
COLUMNS.update({f"{kind}{bits}": f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)})
COLUMNS.update({f"float{bits}": f"float{bits}" for bits in (16, 32, 64)})


def image(i: int) -> Image.Image:
    return Image.fromarray(np.full((4 + i % 3, 5, 3), i, np.uint8))


def jpeg(i: int) -> bytes:
    out = BytesIO()
    image(i).save(out, format="JPEG")
    return out.getvalue()


def value(name: str, encoding: str, i: int) -> Any:
    if encoding.startswith(("uint", "int", "float")) and name != "id":
        return i % 100
    return {
        "id": i,
        "bytes": bytes([i]) * i,
        "str": "é" * (i % 5),
        "ndarray": np.arange(i + 1, dtype=np.int32).reshape(1, i + 1),
        "ndarray of a type": np.arange(i + 1, dtype=np.int16),
        "ndarray of a shape": np.full((2, 3), i, np.float32),
        "str_int": 10**40 + i,
        "str_float": i / 7,
        "str_decimal": Decimal(i) / 7,
        "pil": image(i),
        "jpeg": image(i),
        "jpeg_array": [jpeg(i), jpeg(i + 1)],
        "jpegarray": [jpeg(i)],
        "png": image(i),
        "list[pil]": [image(i)] * (i % 3),
        "list[jpeg]": [image(i)],
        "list[png]": [image(i), image(i + 1)],
        "pkl": {"i": i, "of": (1, 2)},
        'json "é\\': {"i": i, "of": [None, 1.5]},
    }[name]


def canonical(x: Any) -> Any:
    """Converts a decoded value to one whose repr shows everything."""
    if isinstance(x, Image.Image):
        return x.mode, x.size, x.tobytes()
    if isinstance(x, (np.ndarray, np.generic)):
        return str(x.dtype), x.shape, x.tobytes()
    if isinstance(x, list):
        return [canonical(y) for y in x]
    return type(x).__name__, repr(x)


def read(*directories: str) -> None:
    all_found = {}
    for directory in directories:
        found: dict[str, str] = {}
        for sample in StreamingDataset(
            local=directory, batch_size=1, shuffle=False, allow_unsafe_types=True, keep_zip=True
        ):
            key = str(sample["id"])
            if key in found:
                raise SystemExit(f"sample {key} comes twice")
            found[key] = hashlib.sha256(
                repr([(k, canonical(v)) for k, v in sorted(sample.items())]).encode()
            ).hexdigest()
        all_found[os.path.basename(directory)] = found
    json.dump(all_found, sys.stdout)


def write(directory: str) -> None:
    left = get_mds_encodings() - {e.split(":")[0] for e in COLUMNS.values()}
    if left:
        raise SystemExit(f"encodings that no column has: {left}")
    for compression, hashes in (None, ["sha1", "xxh3_64", "xxh64"]), ("zstd", ["md5", "xxh128"]), ("gz:1", []):
        out = os.path.join(directory, (compression or "plain").split(":")[0])
        with MDSWriter(columns=COLUMNS, out=out, compression=compression, hashes=hashes, size_limit=1 << 15) as writer:
            for i in range(SAMPLES):
                writer.write({name: value(name, encoding, i) for name, encoding in COLUMNS.items()})
    merged = os.path.join(directory, "merged")
    for half in range(2):
        with MDSWriter(columns=COLUMNS, out=os.path.join(merged, f"half {half}"), size_limit=1 << 16) as writer:
            for i in range(half, SAMPLES, 2):
                writer.write({name: value(name, encoding, i) for name, encoding in COLUMNS.items()})
    merge_index(merged)
    with MDSWriter(columns=COLUMNS, out=os.path.join(directory, "br"), compression="br:1") as writer:
        writer.write({name: value(name, encoding, 0) for name, encoding in COLUMNS.items()})
    read(os.path.join(directory, "plain"))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        read(*sys.argv[2:])
