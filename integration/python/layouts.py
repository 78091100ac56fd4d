"""Layouts of data sets as their writers store them, and as a gateway answers them.

layouts.py write DIR           writes data sets, each a directory in DIR
layouts.py read URL NAME...    reads the data sets NAME from a gateway

Both print a JSON object: for each data set its rows, each as JSON, in a canonical order. write reads them with the writer's own reader.
"""

import hashlib
import importlib
import io
import json
import os
import pathlib
import sys
import tarfile
import urllib.request
from collections.abc import Callable
from typing import Any

os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"

import datasets
import deltalake
import duckdb
import numpy
import pandas
import PIL.Image
import polars
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog

Rows = list[dict[str, Any]]
RECORDS = [
    {"instruction": f'Say é "{i}" ]}},', "input": "", "output": "x" * (i % 5), "turns": [{"from": "human", "n": i / 4}, None]} for i in range(23)
]
TABLE = {
    "id": list(range(20)),
    "text": [None if i % 7 == 3 else f"t{i}" for i in range(20)],
    "label": ["cat", "dog/1", "a b%", ""] * 5,
    "year": [2020, 2021] * 10,
}


def canonical(rows: Rows) -> dict[str, str]:
    """The rows as JSON, in an order that depends on their content only."""
    return {f"row {i}": text for i, text in enumerate(sorted(json.dumps(row, sort_keys=True) for row in rows))}


def alpaca(to: pathlib.Path) -> Rows:
    """An array, as json.dump writes it: with and without indentation."""
    (to / "a.json").write_text(json.dumps(RECORDS[:12], indent=2))
    (to / "b.json").write_text(json.dumps(RECORDS[12:], ensure_ascii=False))
    return [row for name in ("a.json", "b.json") for row in json.loads((to / name).read_text())]


def pandas_json(to: pathlib.Path) -> Rows:
    """An array by pandas.DataFrame.to_json."""
    frame = pandas.DataFrame({"id": range(9), "text": [f"é/{i}" for i in range(9)]})
    frame.to_json(to / "a.json", orient="records", indent=1)
    return json.loads(pandas.read_json(to / "a.json").to_json(orient="records"))


def pretty(to: pathlib.Path) -> Rows:
    """Objects one after another, each on several lines, as jq prints them."""
    (to / "a.json").write_text("\n".join(json.dumps(row, indent=4) for row in RECORDS) + "\n")
    rows, text, decoder = [], (to / "a.json").read_text(), json.JSONDecoder()
    while text.strip():
        row, end = decoder.raw_decode(text.lstrip())
        rows, text = [*rows, row], text.lstrip()[end:]
    return rows


def read(to: pathlib.Path, **options: Any) -> Rows:
    """Reads a directory with pyarrow.dataset, with the schema of all files."""
    found = pyarrow.dataset.dataset(to, format="parquet", **options)
    schema = pa.unify_schemas([found.schema, *(pq.read_schema(path) for path in found.files)])
    return pyarrow.dataset.dataset(to, format="parquet", schema=schema, **options).to_table().to_pylist()


def hive_pyarrow(to: pathlib.Path) -> Rows:
    pq.write_to_dataset(pa.table(TABLE | {"label": ["cat", "dog/1", "a b%", None] * 5}), to, partition_cols=["label", "year"])
    return read(to, partitioning="hive")


def hive_polars(to: pathlib.Path) -> Rows:
    polars.DataFrame(TABLE | {"label": ["cat", "dog", "a b", "7"] * 5}).write_parquet(to, partition_by=["year", "label"])
    return polars.scan_parquet(to, hive_partitioning=True).collect().to_dicts()


def hive_duckdb(to: pathlib.Path) -> Rows:
    made = pa.table(TABLE | {"label": ["cat", "dog", "a b", "x=y"] * 5})  # noqa: F841  DuckDB reads the variable
    duckdb.sql(f"COPY (FROM made) TO '{to}' (FORMAT parquet, PARTITION_BY (label, year), OVERWRITE_OR_IGNORE)")
    return duckdb.sql(f"FROM read_parquet('{to}/**/*.parquet', hive_partitioning = true)").to_arrow_table().to_pylist()


def one_partition(to: pathlib.Path) -> Rows:
    """A single partition has its column too."""
    pq.write_to_dataset(pa.table(TABLE | {"year": [2020] * 20}), to, partition_cols=["year"])
    return read(to, partitioning="hive")


def nullability(to: pathlib.Path) -> Rows:
    """Files that differ in nullability."""
    for i, nullable in enumerate((False, True)):
        schema = pa.schema(
            [
                pa.field("id", pa.int64(), nullable),
                pa.field("s", pa.string(), nullable),
                pa.field("v", pa.list_(pa.field("element", pa.float32(), nullable))),
            ]
        )
        rows = [{"id": 2 * i + k, "s": "x" * k, "v": [k / 2, 1]} for k in range(2)] + (
            [{"id": None, "s": None, "v": None}, {"id": 9, "s": "", "v": []}] if nullable else []
        )
        pq.write_table(pa.Table.from_pylist(rows, schema), to / f"{i}.parquet")
    return pa.concat_tables([pq.read_table(path) for path in sorted(to.iterdir())], promote_options="permissive").to_pylist()


def pandas_null(to: pathlib.Path) -> Rows:
    """Files by pandas in which columns are empty, missing, or in another order."""
    pandas.DataFrame({"id": [1, 2], "text": [None, None], "x": [0.5, None]}).to_parquet(to / "0.parquet")
    pandas.DataFrame({"text": ["a", None], "id": [3, 4]}).to_parquet(to / "1.parquet")
    pandas.DataFrame({"id": [5], "x": [2.5], "extra": ["p"]}).to_parquet(to / "2.parquet")
    return pa.concat_tables(
        [pq.read_table(path).replace_schema_metadata() for path in sorted(to.iterdir())], promote_options="permissive"
    ).to_pylist()


def arrow_added(to: pathlib.Path) -> Rows:
    """Arrow files to which a column was added."""
    tables = [pa.table({"id": [1, 2]}), pa.table({"note": ["me"], "id": [3]}), pa.table({"id": [4], "note": pa.nulls(1)})]
    for i, table in enumerate(tables):
        with pa.ipc.new_file(to / f"{i}.arrow", table.schema) as out:
            out.write_table(table)
    return pa.concat_tables(tables, promote_options="permissive").to_pylist()


def mapped(to: pathlib.Path, **options: Any) -> Rows:
    """A cache of Hugging Face after map: the table that map derived."""
    source = to.parent / f"{to.name}.jsonl"
    source.write_text("\n".join(json.dumps({"id": i, "text": f"é{i}"}) for i in range(40)))
    found = datasets.load_dataset("json", data_files=str(source), split="train", cache_dir=str(to))
    return found.map(lambda row: {"text": row["text"] * 2, "length": len(row["text"])}, **options).to_list()


def mapped_by_two(to: pathlib.Path) -> Rows:
    return mapped(to, num_proc=2)


def saved_and_mapped(to: pathlib.Path) -> Rows:
    """A directory of save_to_disk in which map and filter stored tables: load_from_disk ignores those."""
    datasets.Dataset.from_list([{"id": i} for i in range(30)]).save_to_disk(to, num_shards=2)
    datasets.load_from_disk(str(to)).map(lambda row: {"id": -row["id"]}).filter(lambda row: row["id"] < -9)
    return datasets.load_from_disk(str(to)).to_list()


def newest_litdata() -> Any:
    """LitData's newest release (tools/requirements-litdata.txt), which names types of newer releases of torch."""
    import torch

    sys.path.insert(0, str(next(pathlib.Path(sys.prefix).glob("newest-*"))))
    for name in ("uint16", "uint32", "uint64"):
        setattr(torch, name, getattr(torch, name, name))
    return importlib.import_module("litdata.streaming")


def litdata(to: pathlib.Path, items: list[Any], **options: Any) -> list[Any]:
    """Chunks of LitData, as optimize writes them."""
    streaming = newest_litdata()
    cache = streaming.Cache(str(to), chunk_size=100, **options)
    for i, item in enumerate(items):
        cache[i] = item
    cache.done()
    cache.merge()
    found = streaming.StreamingDataset(str(to))
    return [found[i] for i in range(len(found))]


def litdata_rows(to: pathlib.Path, **options: Any) -> Rows:
    items = [{"id": i, "text": f"é{i}", "tags": ["a", "é"] * (i % 3), "score": i / 4, "turn": {"n": i}} for i in range(700)]
    return litdata(to, items, **options)


def litdata_rows_zstd(to: pathlib.Path) -> Rows:
    return litdata_rows(to, compression="zstd")


def litdata_frames(to: pathlib.Path, **options: Any) -> Rows:
    items = [(i, f"é{i}" * 30, numpy.arange(i % 7)) for i in range(700)]
    return [{"0": i, "1": text, "2": array.tolist()} for i, text, array in litdata(to, items, compression="zstd", **options)]


def litdata_samples(to: pathlib.Path) -> Rows:
    return litdata_frames(to, compression_level="sample")


def images(to: pathlib.Path, names: list[str]) -> dict[str, str]:
    """Writes images and returns the digest of each."""
    for i, name in enumerate(names):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.new("RGB", (4, 4), (i, 2 * i, 3)).save(to / name)
    return {name: hashlib.sha256((to / name).read_bytes()).hexdigest() for name in names}


def imagefolder(to: pathlib.Path, table: str) -> Rows:
    """ImageFolder of Hugging Face, with a table of captions, as its library reads it."""
    names = [f"{kind}/{i}.png" for kind in ("cat", "dog") for i in range(4)]
    images(to, names)
    frame = pandas.DataFrame(
        {"file_name": names, "text": [f'"{name}", é' for name in names], "score": [i / 2 for i in range(8)], "code": ["007"] * 8}
    )
    if table == "metadata.csv":
        frame.to_csv(to / table, index=False)
    else:
        frame.to_json(to / table, orient="records", lines=True)
    found = datasets.load_dataset("imagefolder", data_dir=str(to), split="train", cache_dir=str(to.parent / f"cache-{table}")).cast_column(
        "image", datasets.Image(decode=False)
    )
    return [{**row, "image": hashlib.sha256(row["image"]["bytes"] or pathlib.Path(row["image"]["path"]).read_bytes()).hexdigest()} for row in found]


def imagefolder_lines(to: pathlib.Path) -> Rows:
    return imagefolder(to, "metadata.jsonl")


def imagefolder_csv(to: pathlib.Path) -> Rows:
    # pandas reads a column of digits as numbers, in whatever form, so the codes would become 7.
    return [{**row, "code": "007"} for row in imagefolder(to, "metadata.csv")]


def llava(to: pathlib.Path) -> Rows:
    """Conversations about images, as LLaVA's training code reads them: a list with a path below the directory of images."""
    digests = images(to, [f"coco/{i}.png" for i in range(5)])
    rows = [
        {"id": name, "image": name, "conversations": [{"from": "human", "value": f"<image>\n{name}?"}, {"from": "gpt", "value": "é"}]}
        for name in digests
    ]
    (to / "table.json").write_text(json.dumps(rows, indent=2))
    return [{**row, "image": digests[row["image"]]} for row in json.loads((to / "table.json").read_text())]


def coco(to: pathlib.Path) -> Rows:
    """Instances of COCO: the annotations of each image, as pycocotools finds them."""
    digests = images(to, [f"{i:012}.png" for i in range(5)])
    found = [{"id": i, "file_name": name, "width": 4, "height": 4} for i, name in enumerate(digests)]
    annotations = [{"id": k, "image_id": k % 3, "bbox": [k, 1.5, 2, 2], "category_id": k % 2} for k in range(7)]
    (to / "table.json").write_text(
        json.dumps({"info": {}, "licenses": [], "images": found, "annotations": annotations, "categories": [{"id": 0, "name": "cat"}]})
    )
    read = json.loads((to / "table.json").read_text())
    return [
        {**row, "image": digests[row["file_name"]], "annotations": [a for a in read["annotations"] if a["image_id"] == row["id"]]}
        for row in read["images"]
    ]


def delta(to: pathlib.Path) -> Rows:
    """A snapshot of Delta Lake, after rows were deleted, by its list of files. The directory has files of older snapshots too."""
    table = pa.table(TABLE | {"label": ["cat", "dog", "a b", "c"] * 5})
    for rows in (table.slice(0, 12), table.slice(12)):
        deltalake.write_deltalake(to, rows, partition_by=["label"], mode="append")
    deltalake.DeltaTable(to).delete("id = 2 OR id = 13")
    snapshot = deltalake.DeltaTable(to)
    (to.parent / f"{to.name}.files").write_text("\n".join(snapshot.file_uris()))
    return snapshot.to_pyarrow_table().to_pylist()


def iceberg(to: pathlib.Path) -> Rows:
    """A snapshot of Iceberg, by its list of files. The directory has a newer file too."""
    catalog = InMemoryCatalog("test", warehouse=f"file://{to}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=pa.table(TABLE).schema)
    table.append(pa.table(TABLE))
    rows = table.scan().to_arrow().to_pylist()
    files = [task.file.file_path for task in table.scan().plan_files()]
    table.append(pa.table(TABLE))
    (to.parent / f"{to.name}.files").write_text("\n".join(files))
    return rows


# Tables with snapshots, of which millrace index reads one by its list of files.
SNAPSHOTS: dict[str, Callable[[pathlib.Path], Rows]] = {"snapshot-delta": delta, "snapshot-iceberg": iceberg}

# Layouts of loose files with a table, which millrace pack joins.
PACKED: dict[str, Callable[[pathlib.Path], Rows]] = {
    "packed-imagefolder": imagefolder_lines,
    "packed-imagefolder-csv": imagefolder_csv,
    "packed-llava": llava,
    "packed-coco": coco,
}

LAYOUTS: dict[str, Callable[[pathlib.Path], Rows]] = {
    "json-array": alpaca,
    "json-pandas": pandas_json,
    "json-pretty": pretty,
    "hive-pyarrow": hive_pyarrow,
    "hive-polars": hive_polars,
    "hive-duckdb": hive_duckdb,
    "hive-single": one_partition,
    "nullability": nullability,
    "pandas-null": pandas_null,
    "arrow-added": arrow_added,
    "hf-map": mapped,
    "hf-map-processes": mapped_by_two,
    "hf-saved": saved_and_mapped,
    "litdata-rows": litdata_rows,
    "litdata-rows-zstd": litdata_rows_zstd,
    "litdata-batch": litdata_frames,
    "litdata-sample": litdata_samples,
}


def write(to: pathlib.Path) -> dict[str, dict[str, str]]:
    rows = {}
    for name, layout in (LAYOUTS | PACKED | SNAPSHOTS).items():
        (to / name).mkdir(parents=True)
        rows[name] = canonical(layout(to / name))
    return rows


def members(archive: bytes) -> Rows:
    """The rows in a tar, each with the digest of its image."""
    samples: dict[str, Any] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            key, _, kind = member.name.rpartition(".")
            content = tar.extractfile(member).read()  # type: ignore[union-attr]
            samples.setdefault(key, {})[kind] = json.loads(content) if kind == "json" else hashlib.sha256(content).hexdigest()
    rows = [{**sample["json"], "image": sample["png"]} for sample in samples.values()]
    return [{k: v for k, v in row.items() if k != "file_name" or "annotations" in row} for row in rows]


def answered(url: str, name: str) -> Rows:
    """All rows of one data set, from a gateway."""
    description = json.load(urllib.request.urlopen(f"{url}/v1/datasets/{name}"))
    address = f"{url}/v1/datasets/{name}/epochs/0/batches/0?batch_size=1000&tail=short"
    if description["format"] == "jsonl":
        return [json.loads(line) for line in urllib.request.urlopen(address).read().splitlines()]
    if description["format"] == "tar":
        return members(urllib.request.urlopen(address).read())
    body = urllib.request.urlopen(address + "&format=arrow").read()
    return [{k: v for k, v in row.items() if k != "__key__"} for row in pa.ipc.open_stream(io.BytesIO(body)).read_all().to_pylist()]


if __name__ == "__main__":
    if sys.argv[1] == "write":
        result = write(pathlib.Path(sys.argv[2]))
    else:
        result = {name: canonical(answered(sys.argv[2], name)) for name in sys.argv[3:]}
    json.dump(result, sys.stdout)
