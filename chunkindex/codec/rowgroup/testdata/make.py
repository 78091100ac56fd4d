"""Creates the Parquet files in this directory and, next to each, its rows as pyarrow reads them (integration/python/physical.py).

Run it with tools/python.sh -- chunkindex/codec/rowgroup/testdata/make.py. The files are committed, because another version of pyarrow
writes different bytes.
"""

import datetime
import decimal
import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "integration" / "python"))
import physical  # noqa: E402


def types() -> pa.Table:
    """Returns a column for each type that pyarrow writes. Each column has a null."""
    day = datetime.datetime(2026, 11, 23, 10, 30, 1, 234567)
    clock = datetime.time(10, 30, 1, 234567)
    amounts = [decimal.Decimal("-12.34"), None, decimal.Decimal("56.78")]
    columns = {
        "bool": ([True, None, False], pa.bool_()),
        "float16": ([1.5, None, -2.0], pa.float16()),
        "float": ([1.25, None, -0.0], pa.float32()),
        "double": ([1e300, None, -0.5], pa.float64()),
        "utf8": (["é", None, ""], pa.string()),
        "binary": ([b"\x00\xff", None, b""], pa.binary()),
        "large_utf8": (["a" * 300, None, "b"], pa.large_string()),
        "fixed": ([b"abc", None, b"\x00\x01\x02"], pa.binary(3)),
        "date32": ([day.date(), None, datetime.date(1969, 12, 31)], pa.date32()),
        "time32": ([clock.replace(microsecond=234000), None, datetime.time()], pa.time32("ms")),
        "time64_us": ([clock, None, datetime.time()], pa.time64("us")),
        "time64_ns": ([clock, None, datetime.time()], pa.time64("ns")),
        "decimal128": (amounts, pa.decimal128(30, 2)),
        "decimal256": (amounts, pa.decimal256(60, 2)),
        "dictionary": (["x", None, "y"], pa.dictionary(pa.int8(), pa.string())),
        "nothing": ([None, None, None], pa.null()),
        "duration": ([datetime.timedelta(seconds=1), None, datetime.timedelta(0)], pa.duration("us")),
        "uuid": ([b"0123456789abcdef", None, b"\x00" * 16], pa.binary(16)),
    }
    for bits in (8, 16, 32, 64):
        columns[f"int{bits}"] = ([-(2 ** (bits - 1)), None, 2 ** (bits - 1) - 1], getattr(pa, f"int{bits}")())
        columns[f"uint{bits}"] = ([0, None, 2**bits - 1], getattr(pa, f"uint{bits}")())
    for unit in ("ms", "us", "ns"):
        whole = day.replace(microsecond=234000)
        columns[f"timestamp_{unit}"] = ([whole, None, datetime.datetime(1969, 1, 1)], pa.timestamp(unit))
        columns[f"timestamp_{unit}_utc"] = ([whole, None, datetime.datetime(1969, 1, 1)], pa.timestamp(unit, tz="UTC"))
    return pa.table({name: pa.array(values, kind) for name, (values, kind) in columns.items()})


def nested(n: int) -> pa.Table:
    """Returns columns like those of image, embedding and chat datasets, with nulls at every level."""
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    chat = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()), ("tokens", pa.list_(pa.int32()))]))
    images = [None, {"bytes": b"\xff\xd8", "path": "a.jpg"}, {"bytes": None, "path": None}, {"bytes": b"", "path": None}]
    floats = [None, [], [1.0], [0.5, -2.0, 3.25]]
    words = [None, [], ["a", None, ""], ["long " * 9]]
    turn = {"role": "user", "content": "hi", "tokens": [1, 2]}
    chats = [None, [], [turn, None], [{"role": None, "content": "x", "tokens": None}, turn, {"role": "a", "content": None, "tokens": []}]]
    maps = [None, [], [("k", 1)], [("k", None), ("l", 2)]]
    deep = [None, [], [None, []], [[None, []], [["x"], ["y", None]]]]
    outer = [None, {"inner": None}, {"inner": {"leaf": None}}, {"inner": {"leaf": 7}}]

    def pick(values, step):
        return [values[(i // step) % len(values)] for i in range(n)]

    return pa.table(
        {
            "image": pa.array(pick(images, 1), image),
            "embedding": pa.array(pick(floats, 2), pa.list_(pa.float32())),
            "vector": pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.int64(), 2)),
            "captions": pa.array(pick(words, 1), pa.list_(pa.string())),
            "messages": pa.array(pick(chats, 3), chat),
            "counts": pa.array(pick(maps, 1), pa.map_(pa.string(), pa.int32())),
            "deep": pa.array(pick(deep, 2), pa.list_(pa.list_(pa.list_(pa.string())))),
            "outer": pa.array(pick(outer, 1), pa.struct([("inner", pa.struct([("leaf", pa.int32())]))])),
            "matrix": pa.array([[[i], [], [1, 2]][: i % 4] for i in range(n)], pa.list_(pa.list_(pa.int16()))),
        }
    )


def encoded(n: int) -> pa.Table:
    schema = pa.schema(
        [
            pa.field("int32", pa.int32()),
            pa.field("int64", pa.int64(), nullable=False),
            pa.field("float", pa.float32()),
            pa.field("double", pa.float64(), nullable=False),
            pa.field("fixed", pa.binary(4)),
            pa.field("text", pa.string()),
            pa.field("sorted", pa.string(), nullable=False),
            pa.field("ok", pa.bool_()),
        ]
    )
    return pa.table(
        [
            pa.array([None if i % 5 == 2 else i * i % 1009 - 500 for i in range(n)], pa.int32()),
            pa.array([(i * 2654435761) % 2**40 - 2**39 for i in range(n)], pa.int64()),
            pa.array([None if i % 7 == 1 else i / 4 for i in range(n)], pa.float32()),
            pa.array([i / 3 for i in range(n)], pa.float64()),
            pa.array([None if i % 3 == 0 else i.to_bytes(4, "big") for i in range(n)], pa.binary(4)),
            pa.array([None if i % 4 == 3 else "w" * (i % 13) for i in range(n)], pa.string()),
            pa.array([f"key/{i:06d}" for i in range(n)], pa.string()),
            pa.array([None if i % 6 == 5 else i % 3 == 0 for i in range(n)], pa.bool_()),
        ],
        schema=schema,
    )


DELTA = {
    "int32": "DELTA_BINARY_PACKED",
    "int64": "DELTA_BINARY_PACKED",
    "float": "BYTE_STREAM_SPLIT",
    "double": "BYTE_STREAM_SPLIT",
    "fixed": "BYTE_STREAM_SPLIT",
    "text": "DELTA_LENGTH_BYTE_ARRAY",
    "sorted": "DELTA_BYTE_ARRAY",
    "ok": "RLE",
}
SPLIT = DELTA | {"int32": "BYTE_STREAM_SPLIT", "int64": "BYTE_STREAM_SPLIT", "fixed": "DELTA_BYTE_ARRAY", "text": "DELTA_BYTE_ARRAY"}


def write(name: str, table: pa.Table, **how) -> None:
    path = HERE / f"{name}.parquet"
    pq.write_table(table, path, store_schema=False, **how)
    with open(HERE / f"{name}.jsonl", "w", encoding="utf-8") as out:
        for row in physical.rows(str(path)):
            out.write(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n")


def main() -> None:
    small = {"data_page_size": 64, "write_batch_size": 8}
    write("types", types())
    write("types-int96", types().select(["timestamp_us", "int8"]), use_deprecated_int96_timestamps=True)
    decimals = types().select(["decimal128"]).cast(pa.schema([("decimal128", pa.decimal128(9, 2))]))
    wide = types().select(["decimal128"]).cast(pa.schema([("decimal128", pa.decimal128(18, 2))]))
    write("types-decimal32", decimals, store_decimal_as_integer=True)
    write("types-decimal64", wide, store_decimal_as_integer=True)
    write("nested", nested(24))
    write("nested-pages-v1", nested(60), row_group_size=25, use_dictionary=False, **small)
    write("nested-pages-v2", nested(60), row_group_size=25, data_page_version="2.0", **small)
    for codec in ("none", "snappy", "gzip", "zstd", "brotli", "lz4"):
        for version in ("1.0", "2.0"):
            name = f"compressed-{codec}-v{version[0]}"
            write(name, encoded(40), compression=codec, data_page_version=version)
    write("encoded-delta-v1", encoded(300), use_dictionary=False, column_encoding=DELTA, data_page_size=256, write_batch_size=64)
    write("encoded-delta-v2", encoded(300), use_dictionary=False, column_encoding=SPLIT, data_page_version="2.0", compression="zstd")
    write("encoded-fallback", encoded(300), dictionary_pagesize_limit=128, data_page_size=128, write_batch_size=16)
    write("checksums", encoded(50), write_page_checksum=True, row_group_size=20)
    write("empty", encoded(0))


main()
