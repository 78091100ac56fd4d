"""Writes Parquet and Arrow files with common libraries, each into a separate directory, and reads them with the library that wrote them."""

import datetime
import decimal
import pathlib

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq

ROWS = 45
NOW = datetime.datetime(2026, 11, 23, 10, 30, 1, 234567)


def some(values: list, kind: pa.DataType) -> pa.Array:
    """A column that repeats the values for ROWS rows. Every fifth is null."""
    return pa.array([None if i % 5 == 2 else values[i % len(values)] for i in range(ROWS)], kind)


def flat() -> dict[str, pa.Array]:
    """A column of each Arrow type except nested types and dictionaries."""
    whole = NOW.replace(microsecond=234000)
    days = [NOW.date(), datetime.date(1969, 12, 31)]
    amounts = [decimal.Decimal("-12.34"), decimal.Decimal("56.78"), decimal.Decimal(0)]
    columns = {
        "bool": some([True, False, False], pa.bool_()),
        "float16": some([1.5, -2.0], pa.float16()),
        "float": some([1.25, -0.0, float("inf")], pa.float32()),
        "double": some([1e300, -0.5, float("nan")], pa.float64()),
        "utf8": some(["é", "", "word " * 20], pa.string()),
        "large_utf8": some(["a" * 300, "b"], pa.large_string()),
        "binary": some([b"\x00\xff", b""], pa.binary()),
        "large_binary": some([b"\x00" * 20, b"c"], pa.large_binary()),
        "fixed": some([b"abc", b"\x00\x01\x02"], pa.binary(3)),
        "date32": some(days, pa.date32()),
        "date64": some(days, pa.date64()),
        "interval": some([pa.MonthDayNano([1, -2, 3]), pa.MonthDayNano([-1, 2, 10**12])], pa.month_day_nano_interval()),
        "nothing": pa.nulls(ROWS),
        "whole": pa.array(range(ROWS), pa.int64()),
    }
    for unit in ("s", "ms", "us", "ns"):
        time = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        columns[f"time_{unit}"] = some([NOW.time().replace(microsecond=0), datetime.time()], time)
        columns[f"timestamp_{unit}"] = some([whole.replace(microsecond=0), datetime.datetime(1969, 1, 1)], pa.timestamp(unit))
        columns[f"timestamp_{unit}_tz"] = some([whole.replace(microsecond=0)], pa.timestamp(unit, tz="Europe/Berlin"))
        columns[f"duration_{unit}"] = some([datetime.timedelta(days=-1, seconds=1), datetime.timedelta(0)], pa.duration(unit))
    for bits, digits in {32: 9, 64: 18, 128: 38, 256: 76}.items():
        columns[f"decimal{bits}"] = some(amounts, getattr(pa, f"decimal{bits}")(digits, 2))
    for bits in (8, 16, 32, 64):
        columns[f"int{bits}"] = some([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 3], getattr(pa, f"int{bits}")())
        columns[f"uint{bits}"] = some([0, 2**bits - 1], getattr(pa, f"uint{bits}")())
    return columns


def nested() -> dict[str, pa.Array]:
    """Returns typical columns of image, embedding and chat data sets, with nulls everywhere except in lists of numbers."""
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    turn = {"role": "user", "content": "hi", "tokens": [1, 2]}
    outer = pa.struct([("inner", pa.struct([("leaf", pa.int32())]))])
    chat = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()), ("tokens", pa.list_(pa.int32()))]))
    return {
        "image": some([{"bytes": b"\xff\xd8", "path": "a.jpg"}, {"bytes": None, "path": None}, {"bytes": b"", "path": None}], image),
        "outer": some([{"inner": None}, {"inner": {"leaf": None}}, {"inner": {"leaf": 7}}], outer),
        "embedding": some([[], [1.0], [0.5, -2.0, 3.25]], pa.list_(pa.float32())),
        "large": some([[], [1], [2, 3]], pa.large_list(pa.int64())),
        "vector": some([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
        "words": some([[], ["a", None, ""], ["long " * 9]], pa.list_(pa.string())),
        "flags": some([[True, False, True], []], pa.list_(pa.bool_())),
        "messages": some([[], [turn, None], [{"role": None, "content": "x", "tokens": None}, turn]], chat),
        "counts": some([[], [("k", 1)], [("k", None), ("l", 2)]], pa.map_(pa.string(), pa.int32())),
        "deep": some([[], [None, []], [[None, []], [["x"], ["y", None]]]], pa.list_(pa.list_(pa.list_(pa.string())))),
        "matrix": some([[[1], [], [1, 2]], []], pa.list_(pa.list_(pa.int16()))),
        "whole": pa.array(range(ROWS), pa.int64()),
    }


def batches(columns: dict[str, pa.Array]) -> list[pa.RecordBatch]:
    """The rows in batches that begin in the middle of a bitmap's byte. One batch is empty."""
    whole = pa.RecordBatch.from_pydict(columns)
    return [whole.slice(0, 3), whole.slice(3, 0), whole.slice(3, 18), whole.slice(21)]


def stream(path: pathlib.Path, all_batches: list[pa.RecordBatch], compression: str | None = None) -> None:
    with pa.ipc.new_stream(path, all_batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        for batch in all_batches:
            out.write_batch(batch)


def listed(path: pathlib.Path, all_batches: list[pa.RecordBatch], compression: str | None = None) -> None:
    with pa.ipc.new_file(path, all_batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        for batch in all_batches:
            out.write_batch(batch)


def arrow_flat(root: pathlib.Path) -> None:
    stream(root / "a.arrows", batches(flat()))
    listed(root / "b.arrow", batches(flat()), "lz4")
    listed(root / "c.ipc", batches(flat()), "zstd")


def arrow_nested(root: pathlib.Path) -> None:
    stream(root / "a.arrow", batches(nested()), "zstd")
    listed(root / "b.arrow", batches(nested()))


def arrow_views(root: pathlib.Path) -> None:
    """Writes texts and bytes as views: short values are inline, and long values in several buffers."""
    texts = [None if i % 5 == 2 else "é" * (i % 9) for i in range(ROWS)]
    columns = {"text": pa.array(texts, pa.string_view()), "bytes": pa.array(texts, pa.string()).cast(pa.binary()).cast(pa.binary_view())}
    stream(root / "a.arrow", batches(columns))
    listed(root / "b.arrow", batches(columns), "lz4")


def feather(root: pathlib.Path) -> None:
    for compression in ("lz4", "zstd", "uncompressed"):
        pa.feather.write_feather(pa.table(flat()), root / f"{compression}.feather", compression=compression, chunksize=17)


def frame(columns: dict[str, pa.Array]):  # type: ignore[no-untyped-def]
    """A Polars frame of the columns whose types Polars supports."""
    import polars

    lacks = ("interval", "decimal256", "fixed", "date64", "time_s", "time_ms", "timestamp_s", "timestamp_s_tz", "duration_s", "counts")
    return polars.from_arrow(pa.table({name: column for name, column in columns.items() if name not in lacks}))


def polars_files(root: pathlib.Path) -> None:
    """Writes with the layouts of Polars itself, such as views of texts, and with the layouts that all readers support."""
    for i, compression in enumerate(("uncompressed", "lz4", "zstd")):
        level = None if i else polars_oldest()
        frame(flat() | nested()).write_ipc(root / f"{compression}.arrow", compression=compression, compat_level=level, record_batch_size=20)


def polars_streams(root: pathlib.Path) -> None:
    frame(flat() | nested()).write_ipc_stream(root / "a.arrows", compression="uncompressed")
    frame(flat() | nested()).write_ipc_stream(root / "b.arrows", compression="lz4", compat_level=polars_oldest())


def polars_oldest():  # type: ignore[no-untyped-def]
    import polars

    return polars.CompatLevel.oldest()


def hugging_face():  # type: ignore[no-untyped-def]
    """A dataset of pictures with labels, captions, chats and embeddings."""
    import datasets

    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "caption": datasets.Value("string"),
            "messages": datasets.List({"role": datasets.Value("string"), "content": datasets.Value("string")}),
            "embedding": datasets.List(datasets.Value("float32"), length=3),
            "score": datasets.Value("float16"),
            "pixels": datasets.Array2D((2, 3), "uint8"),
        }
    )
    rows = [
        {
            "image": {"bytes": bytes([137, i]), "path": f"{i}.png" if i % 2 else None} if i % 6 else None,
            "label": i % 2,
            "caption": f"caption {i}" if i % 4 else None,
            "messages": [{"role": "user", "content": f"m{j}"} for j in range(i % 4)],
            "embedding": [i, i / 2, -i],
            "score": i / 4,
            "pixels": [[i, 1, 2], [3, 4, i]],
        }
        for i in range(ROWS)
    ]
    return datasets.Dataset.from_list(rows, features=features)


def saved(root: pathlib.Path) -> None:
    hugging_face().save_to_disk(root, num_shards=2)


def datasets_parquet(root: pathlib.Path) -> None:
    hugging_face().to_parquet(root / "train-00000-of-00001.parquet")


def for_parquet() -> dict[str, pa.Array]:
    """The columns that pyarrow can write to Parquet and read back: without nulls among lists of a fixed length."""
    columns = flat() | nested() | {"vector": pa.array([[i, -i] for i in range(ROWS)], pa.list_(pa.int64(), 2))}
    return {name: column for name, column in columns.items() if name != "interval"}


def pyarrow_parquet(root: pathlib.Path) -> None:
    """Writes with each of pyarrow's compressions and encodings, and both versions of data pages."""
    plain = dict.fromkeys(("float", "double", "int32", "int64", "fixed"), "BYTE_STREAM_SPLIT")
    for i, compression in enumerate(("none", "snappy", "gzip", "zstd", "brotli", "lz4")):
        options = {"use_dictionary": False, "column_encoding": plain} if i % 2 else {}
        pq.write_table(
            pa.table(for_parquet()), root / f"{compression}.parquet", compression=compression, row_group_size=20, data_page_size=100,
            data_page_version=["1.0", "2.0"][i // 3], write_page_checksum=i % 3 == 0, **options,
        )  # fmt: skip


def polars_parquet(root: pathlib.Path) -> None:
    for compression in ("uncompressed", "zstd", "snappy", "gzip", "brotli", "lz4"):
        frame(for_parquet()).write_parquet(root / f"{compression}.parquet", compression=compression, row_group_size=15, data_page_size=200)


QUERY = """
SELECT i::INTEGER AS id, CASE WHEN i % 5 = 2 THEN NULL ELSE 'text ' || (i % 7) END AS text, (i * 1.5)::DOUBLE AS score, (i / 3)::FLOAT AS f,
  (i % 3 = 0) AS ok, DATE '2026-11-23' + i::INTEGER AS day, TIMESTAMP '2026-11-23 10:30:00' + INTERVAL (i) SECOND AS at,
  TIMESTAMP_NS '2026-11-23 10:30:00.123456789' AS exact, TIMESTAMPTZ '2026-11-23 10:30:00+01' AS zoned, TIME '10:30:01.25' AS clock,
  (i * 1.01)::DECIMAL(4, 2) AS small_price, (i * 1.01)::DECIMAL(9, 2) AS price, (i * 1.01)::DECIMAL(18, 2) AS wide,
  (i * 1.01)::DECIMAL(38, 2) AS widest,
  CASE WHEN i % 4 = 1 THEN NULL ELSE [j FOR j IN range(i % 4)] END AS numbers, CASE WHEN i % 6 = 1 THEN NULL ELSE ['w' || i, NULL] END AS words,
  {'bytes': encode('b' || i), 'path': CASE WHEN i % 2 = 0 THEN NULL ELSE 'p' || i END} AS image, MAP {'k' || i: i} AS counts,
  [i, i + 1]::INTEGER[2] AS pair, [{'role': 'user', 'content': 'c' || i}] AS chat,
  uuid '00000000-0000-0000-0000-000000000001' AS uuid, ('b' || i)::BLOB AS blob, i::UTINYINT AS u8, i::TINYINT AS i8, i::USMALLINT AS u16,
  i::SMALLINT AS i16, i::UINTEGER AS u32, i::UBIGINT AS u64, ('e' || (i % 2))::ENUM ('e0', 'e1') AS choice
FROM range(45) t(i)
"""


def duckdb_parquet(root: pathlib.Path) -> None:
    import duckdb

    for version in ("V1", "V2"):
        for compression in ("zstd", "snappy", "uncompressed", "gzip", "brotli", "lz4_raw"):
            how = f"FORMAT parquet, COMPRESSION {compression}, PARQUET_VERSION {version}"
            duckdb.sql(f"COPY ({QUERY}) TO '{root}/{version}-{compression}.parquet' ({how})")


def fastparquet_parquet(root: pathlib.Path) -> None:
    import fastparquet
    import pandas

    table = pandas.DataFrame(
        {
            "id": range(ROWS),
            "text": [None if i % 5 == 2 else f"t{i}" for i in range(ROWS)],
            "x": [i / 3 for i in range(ROWS)],
            "ok": [i % 2 == 0 for i in range(ROWS)],
            "at": pandas.date_range("2026-11-23", periods=ROWS, freq="h"),
            "kind": pandas.Categorical([f"k{i % 3}" for i in range(ROWS)]),
        }
    )
    for compression in ("UNCOMPRESSED", "GZIP", "SNAPPY", "ZSTD", "BROTLI", "LZ4_RAW"):
        fastparquet.write(str(root / f"{compression}.parquet"), table, compression=compression, row_group_offsets=[0, 12])


def by_polars(path: pathlib.Path) -> pa.Table:
    import polars

    if path.suffix == ".parquet":
        return polars.read_parquet(path).to_arrow()
    return (polars.read_ipc_stream if path.suffix == ".arrows" else polars.read_ipc)(path).to_arrow()


def by_datasets(path: pathlib.Path) -> pa.Table:
    import datasets

    if path.suffix == ".parquet":
        return datasets.Dataset.from_parquet(str(path), cache_dir=str(path.parent.parent / "cache")).data.table
    return datasets.Dataset.from_file(str(path)).data.table


def by_duckdb(path: pathlib.Path) -> pa.Table:
    import duckdb

    return duckdb.sql(f"FROM '{path}'").to_arrow_table()


def by_fastparquet(path: pathlib.Path) -> pa.Table:
    import fastparquet

    return pa.Table.from_pandas(fastparquet.ParquetFile(str(path)).to_pandas(), preserve_index=False)


# For each directory the writer and, if it is not pyarrow, the reader.
WRITERS = {
    "arrow-flat": (arrow_flat, None),
    "arrow-nested": (arrow_nested, None),
    "arrow-views": (arrow_views, None),
    "arrow-feather": (feather, None),
    "arrow-polars": (polars_files, by_polars),
    "arrow-polars-streams": (polars_streams, by_polars),
    "arrow-datasets": (saved, by_datasets),
    "parquet-pyarrow": (pyarrow_parquet, None),
    "parquet-polars": (polars_parquet, by_polars),
    "parquet-duckdb": (duckdb_parquet, by_duckdb),
    "parquet-fastparquet": (fastparquet_parquet, by_fastparquet),
    "parquet-datasets": (datasets_parquet, by_datasets),
}
