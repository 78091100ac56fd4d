"""Writes Parquet files for tests that read some columns: columns.py DIR NAME COLUMN...

Writes two data sets in DIR: NAME, and NAME-some with the columns that ParquetFile.read(columns=) reads from it. Prints a JSON object with
"files": for every file its size, and the positions of the column chunks of these columns, as the first and last byte of each run.
"""

import json
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def table(rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    words = ["mill", "race", "wheel", "", None]
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "image": pa.array(
                [None if i % 11 == 3 else {"bytes": random.bytes(20_000), "path": None if i % 7 == 2 else f"{seed}/{i}.jpg"} for i in range(rows)],
                pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
            ),
            "caption": [words[n] for n in random.integers(0, len(words), rows)],
            "embedding": pa.array([random.random(64, np.float32) for _ in range(rows)], pa.list_(pa.float32())),
            "label": pa.array(random.integers(0, 10, rows), pa.int32()),
            "noise": [random.bytes(5_000) for _ in range(rows)],
            "tags": pa.array([[words[n] for n in random.integers(0, 5, i % 4)] for i in range(rows)], pa.list_(pa.string())),
        }
    )


def runs(path: pathlib.Path, names: list[str]) -> list[list[int]]:
    """Returns the positions of the column chunks of some columns in a file."""
    meta, all = pq.read_metadata(path), []
    for group in (meta.row_group(i) for i in range(meta.num_row_groups)):
        for column in (group.column(i) for i in range(group.num_columns)):
            if any(column.path_in_schema == name or column.path_in_schema.startswith(name + ".") for name in names):
                begin = column.dictionary_page_offset or column.data_page_offset
                end = begin + column.total_compressed_size
                if all and all[-1][1] == begin - 1:
                    all[-1][1] = end - 1
                else:
                    all.append([begin, end - 1])
    return all


directory, name, columns = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
files = {}
for data_set in (name, name + "-some"):
    (directory / data_set).mkdir()
for seed, compression in enumerate(["snappy", "none"]):
    path = directory / name / f"part-{seed}.parquet"
    pq.write_table(table(90, seed), path, row_group_size=30, compression=compression)
    pq.write_table(pq.ParquetFile(path).read(columns=columns), directory / f"{name}-some" / path.name)
    files[path.name] = json.dumps({"size": path.stat().st_size, "runs": runs(path, columns)})
print(json.dumps({"files": files}))
