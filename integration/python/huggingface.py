"""Prints rows of a Hugging Face repository, as the library datasets reads them and as a gateway sends them.

huggingface.py write DIR               makes a repository with nulls and nested columns, whose classes only its README.md names
huggingface.py datasets DIR SPLIT...   reads splits with datasets
huggingface.py millrace GATEWAY SPLIT...  reads datasets of these names from a gateway, with millrace.decoders

datasets and millrace print a JSON object with, for every split, each row by its number, and the description of the columns under the name
"columns". A value includes its type, so that 1 differs from 1.0, and no float is rounded.
"""

import json
import sys
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent / "moving"))

from from_huggingface import offline, write_card
from photos import CLASSES, photos


def write(root: str) -> None:
    import pyarrow.parquet as pq
    from datasets import ClassLabel, Dataset, Features, Image, List, Value

    label = ClassLabel(names=list(CLASSES))
    features = Features(
        {
            "image": Image(), "captions": List(Value("string")), "label": label, "ok": Value("bool"), "score": Value("float64"),
            "when": Value("timestamp[ms]"), "raw": Value("binary"), "small": Value("int8"), "price": Value("decimal128(20, 2)"),
             "embedding": List(Value("float32")), "tags": List(label),
            "box": {"left": Value("int32"), "top": Value("int32"), "note": {"text": Value("large_string"), "by": List(Value("string"))}},
            "objects": List({"kind": label, "text": Value("string"), "sides": List(Value("int64"))}), "deep": List(List(Value("string"))),
        }
    )  # fmt: skip
    rows = []
    for i, name, jpeg, number in photos():
        box = {"left": i, "top": None, "note": {"text": None if i % 2 else "é" * i, "by": ["x", None]} if i % 3 else None}
        objects = [{"kind": number, "text": None if k else name, "sides": [k, i]} if k != 2 else None for k in range(i % 5)]
        row = {
            "image": {"bytes": jpeg, "path": None}, "captions": [name, None, ""][: i % 4], "label": number, "ok": i % 2 == 0, "score": i / 7,
            "when": datetime(2026, 1, 1, 0, 0, i % 60, 5000), "raw": jpeg[:i], "small": -i, "price": Decimal(i) / 4 - 9,
            "embedding": [i / 3, -1.5], "tags": [number, 0], "box": box,
            "objects": objects, "deep": [[name], None, [], [None, "b"]],
        }  # fmt: skip
        missing = list(row)[i % 18 : i % 18 + 1]  # 4 of 18 rows have no missing value
        rows.append({column: None if column in missing else v for column, v in row.items()})
    rows[5] = dict.fromkeys(features)
    rows[6]["box"] = {"left": None, "top": None, "note": {"text": None, "by": None}}
    write_card(root, features, ("test",))
    (Path(root) / "data").mkdir()
    for n in range(2):
        table = Dataset.from_list(rows[n::2], features=features).data.table
        pq.write_table(table.replace_schema_metadata(None), f"{root}/data/test-{n}.parquet", row_group_size=20)


def show(value: Any) -> Any:
    """Converts a value to JSON that includes its type."""
    if isinstance(value, dict):
        return {name: show(v) for name, v in value.items()}
    if isinstance(value, list):
        return list(map(show, value))
    if isinstance(value, datetime):  # a gateway delivers it as the stored number
        return f"int {round(value.replace(tzinfo=timezone.utc).timestamp() * 1000)}"
    if isinstance(value, bytes):
        return f"bytes {value.hex()}"
    return None if value is None else f"{type(value).__name__} {value.hex() if isinstance(value, float) else value}"


def of_datasets(root: str, split: str) -> tuple[Any, list[Any]]:
    from datasets import Image, load_dataset

    table = load_dataset(root, split=split)
    about = {name: words(field.type) for name, field in zip(table.features, table.features.arrow_schema)}
    return [about, classes_of(table.features)], table.cast_column("image", Image(decode=False)).to_list()


def words(kind: Any) -> Any:
    """The name of a pyarrow type in docs/api.md."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return {field.name: words(field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [words(kind.value_type)]
    return {"string": "utf8", "large_string": "utf8"}.get(str(kind), str(kind))


def classes_of(feature: Any, path: str = "") -> dict[str, list[str]]:
    from datasets import ClassLabel, List

    if isinstance(feature, ClassLabel):
        return {path: feature.names}
    if isinstance(feature, List):
        return classes_of(feature.feature, path)
    found = {}
    for name, inside in feature.items() if isinstance(feature, dict) else ():
        found.update(classes_of(inside, f"{path}.{name}" if path else name))
    return found


def of_millrace(client: Any, split: str) -> tuple[Any, list[Any]]:
    import millrace

    description = client.describe(split)
    fields = description["fields"]
    about: dict[str, Any] = {}
    classes: dict[str, list[str]] = {}
    for field in fields:
        put(about, field["name"], told(field))
        named(field, field["name"], classes)
    rows = []
    with client.epoch(0, dataset=split, shuffle="none", global_batch_size=7, decode=millrace.decoders(description)).read() as reader:
        for sample in (s for batch in reader for s in batch):
            row: dict[str, Any] = {}
            for field in fields:
                put(row, field["name"], sample.get(field["name"]))
            rows.append({name: prune(v, name, sample) for name, v in row.items()})
    return [about, classes], rows


def put(into: dict[str, Any], path: str, value: Any) -> None:
    *above, name = path.split(".")
    for part in above:
        into = into.setdefault(part, {})
    into[name] = value


def prune(value: Any, path: str, sample: Any) -> Any:
    """A struct without any value is null, unless one of its parts marks it as a struct of nulls."""
    if not isinstance(value, dict):
        return value
    value = {name: prune(v, f"{path}.{name}", sample) for name, v in value.items()}
    stored = [name for name, *_ in sample.batch.table.parts(sample.index)]
    return value if path in stored or any(v is not None for v in value.values()) else None


def told(field: dict[str, Any]) -> Any:
    """The type of a field, in the notation of the function words."""
    if field["type"] == "struct":
        return {child["name"]: told(child) for child in field["children"]}
    if field["encoding"] == "nested":
        return [told(field["children"][0])]
    kind = field.get("logical", field["type"])
    return [kind[len("list<") : -1]] if kind.startswith("list<") else kind


def named(field: dict[str, Any], path: str, classes: dict[str, list[str]]) -> None:
    if "classes" in field:
        classes[path] = field["classes"]
    for child in field.get("children", ()):
        named(child, f"{path}.{child['name']}" if child["name"] else path, classes)


def main(what: str, where: str, *splits: str) -> None:
    result = {}
    if what == "write":
        offline(where + "-cache")
        Path(where).mkdir()
        write(where)
    elif what == "datasets":
        offline(where + "-cache")
        result = {split: of_datasets(where, split) for split in splits}
    else:
        import millrace

        with millrace.Client(where) as client:
            result = {split: of_millrace(client, split) for split in splits}
    print(
        json.dumps(
            {
                split: {"columns": json.dumps(about), **{f"row {i}": json.dumps(show(row)) for i, row in enumerate(rows)}}
                for split, (about, rows) in result.items()
            }
        )
    )


main(*sys.argv[1:])
