"""Creates the files in this directory that DuckDB, Polars, fastparquet and Hugging Face's datasets write.

It requires these packages; the tests do not. make.py describes the file of rows next to each file.
"""

import datetime
import io
import json
import pathlib
import sys

import datasets
import duckdb
import fastparquet
import pandas
import polars
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "integration" / "python"))
import physical  # noqa: E402

QUERY = """
SELECT i::INTEGER AS id, CASE WHEN i % 5 = 2 THEN NULL ELSE 'text ' || (i % 7) END AS text, (i * 1.5)::DOUBLE AS score,
  (i % 3 = 0) AS ok, DATE '2026-11-23' + i::INTEGER AS day, TIMESTAMP '2026-11-23 10:30:00' + INTERVAL (i) SECOND AS at,
  (i * 1.01)::DECIMAL(9, 2) AS price,
  CASE WHEN i % 4 = 1 THEN NULL ELSE [j FOR j IN range(i % 4)] END AS numbers, CASE WHEN i % 6 = 1 THEN NULL ELSE ['w' || i, NULL] END AS words,
  {'bytes': encode('b' || i), 'path': CASE WHEN i % 2 = 0 THEN NULL ELSE 'p' || i END} AS image, MAP {'k' || i: i} AS counts, i::HUGEINT AS huge,
  uuid '00000000-0000-0000-0000-000000000001' AS uuid, ('b' || i)::BLOB AS blob, i::UTINYINT AS tiny
FROM range(50) t(i)
"""


def frame(n: int) -> polars.DataFrame:
    return polars.DataFrame(
        {
            "id": range(n),
            "text": [None if i % 5 == 2 else f"text {i % 7}" for i in range(n)],
            "vector": [[i / 2, i / 4] if i % 3 else None for i in range(n)],
            "words": [[f"w{i}", None][: i % 3] for i in range(n)],
            "image": [None if i % 7 == 3 else {"bytes": bytes([i]), "path": f"p{i}" if i % 2 else None} for i in range(n)],
            "chat": [[{"role": "user", "content": f"c{j}"} for j in range(i % 3)] for i in range(n)],
            "day": [datetime.date(2026, 11, 23) + datetime.timedelta(i) for i in range(n)],
            "small": polars.Series([i - 20 for i in range(n)], dtype=polars.Int8),
            "kind": polars.Series([f"k{i % 3}" for i in range(n)], dtype=polars.Categorical),
        },
        schema_overrides={"vector": polars.List(polars.Float32)},
    )


def hugging_face(n: int) -> datasets.Dataset:
    def image(i: int) -> dict:
        out = io.BytesIO()
        Image.new("RGB", (2, 2), (i, 0, 0)).save(out, format="PNG")
        return {"bytes": out.getvalue(), "path": f"{i}.png" if i % 2 else None}

    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "caption": datasets.Value("string"),
            "messages": datasets.List({"role": datasets.Value("string"), "content": datasets.Value("string")}),
            "embedding": datasets.List(datasets.Value("float32"), length=3),
        }
    )
    rows = [
        {
            "image": image(i) if i % 6 else None,
            "label": i % 2,
            "caption": f"caption {i}" if i % 4 else None,
            "messages": [{"role": "user", "content": f"m{j}"} for j in range(i % 4)],
            "embedding": [i, i / 2, -i],
        }
        for i in range(n)
    ]
    return datasets.Dataset.from_list(rows, features=features)


def main() -> None:
    duckdb.sql(f"COPY ({QUERY}) TO '{HERE}/by-duckdb.parquet' (FORMAT parquet, COMPRESSION zstd)")
    duckdb.sql(f"COPY ({QUERY}) TO '{HERE}/by-duckdb-v2.parquet' (FORMAT parquet, PARQUET_VERSION V2)")
    frame(40).write_parquet(HERE / "by-polars.parquet", row_group_size=15)
    table = pandas.DataFrame(
        {
            "id": range(30),
            "text": [None if i % 5 == 2 else f"t{i}" for i in range(30)],
            "x": [i / 3 for i in range(30)],
            "ok": [i % 2 == 0 for i in range(30)],
        }
    )
    fastparquet.write(str(HERE / "by-fastparquet.parquet"), table, compression="GZIP", row_group_offsets=[0, 12])
    hugging_face(20).to_parquet(HERE / "by-datasets.parquet")
    for path in sorted(HERE.glob("by-*.parquet")):
        with open(path.with_suffix(".jsonl"), "w", encoding="utf-8") as out:
            for row in physical.rows(str(path)):
                out.write(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n")


main()
