"""Writes and reads datasets of formats that other libraries support: plain.py write DIR | plain.py read KIND DIR...

docs/dev/testing.md lists the libraries. Both print a JSON object with a digest of each sample as the library decodes it, by directory and
then by sample ID.
"""

import csv
import gzip
import hashlib
import importlib.util
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
import types
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

SAMPLES = 60
WINDOW = 16
FEATURES = {"id": "int", "image": "byte", "scores": "float"}


def megatron() -> Any:
    """Imports only Megatron's module of token files: the whole package would import everything for training."""
    spec = importlib.util.find_spec("megatron")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("megatron-core is not installed")
    core = Path(next(iter(spec.submodule_search_locations))) / "core"
    for name, path in ("megatron.core", core), ("megatron.core.datasets", core / "datasets"):
        package = types.ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules[name] = package
    logs = types.ModuleType("megatron.core.utils")
    logs.log_single_rank = lambda *_, **__: None  # type: ignore[attr-defined]
    sys.modules["megatron.core.utils"] = logs
    import megatron.core.datasets.indexed_dataset as module

    return module


def record(i: int) -> dict[str, Any]:
    """A sample of the text formats."""
    return {"id": i, "text": 'é"\\\n\u2028' * (i % 4), "of": [i / 7, None, True, {"deep": "x" * i}]}


def array(i: int) -> np.ndarray[Any, Any]:
    a = np.random.default_rng(i).standard_normal((2, 3)).astype(np.float32)
    a[0, 0] = i
    return a


def write_tfrecord(directory: Path) -> None:
    import tfrecord

    for shard in range(3):
        out = tfrecord.TFRecordWriter(str(directory / f"train.tfrecord-{shard:05d}-of-00003"))
        for i in range(shard, SAMPLES, 3):
            values = {"id": (i, "int"), "image": (bytes([i]) * i, "byte"), "scores": ([i / 3, i / 7], "float")}
            out.write(values)
        out.close()


def write_tensorboardx(directory: Path) -> None:
    import tfrecord
    from tensorboardX.record_writer import RecordWriter

    for shard in range(2):
        out = RecordWriter(str(directory / f"train-{shard}.tfrecords"))
        for i in range(shard, SAMPLES, 2):
            values = {"id": (i, "int"), "image": (bytes([i]) * i, "byte"), "scores": ([i / 3, i / 7], "float")}
            out.write(tfrecord.TFRecordWriter.serialize_tf_example(values))
        out.close()


def write_jsonl(directory: Path) -> None:
    for shard in range(2):
        with (directory / f"part-{shard}.jsonl").open("w", encoding="utf-8", newline="") as out:
            for i in range(shard, SAMPLES, 2):
                out.write(json.dumps(record(i), ensure_ascii=i % 4 < 2) + ("\r\n" if i % 5 == 0 else "\n") + "\n" * (i % 3))


def write_jq(directory: Path) -> None:
    text = "\n".join(json.dumps(record(i), indent=1) for i in range(SAMPLES))
    with (directory / "all.ndjson").open("wb") as out:
        subprocess.run(["jq", "--compact-output", "."], input=text.encode(), stdout=out, check=True)


def write_polars_lines(directory: Path) -> None:
    import polars

    lines = [{"id": i, "text": 'é"\\\n' * (i % 4), "of": [i / 7, None], "deep": {"x": "y" * i}} for i in range(SAMPLES)]
    polars.DataFrame(lines).write_ndjson(directory / "all.ndjson")


def row(i: int) -> dict[str, str]:
    """A sample of a table."""
    return {"id": str(i), "te,xt": ("é\n", '"', "\r\n,", " ", "")[i % 5] * (i % 4), "last": "\t" * (i % 3)}


def write_csv(directory: Path) -> None:
    """Writes like a spreadsheet: with a byte order mark and carriage returns. The second file has no final line end."""
    for shard, encoding in enumerate(["utf-8-sig", "utf-8"]):
        out = io.StringIO(newline="")
        table = csv.DictWriter(out, list(row(0)))
        table.writeheader()
        table.writerows(row(i) for i in range(shard, SAMPLES, 2))
        (directory / f"part-{shard}.csv").write_bytes(out.getvalue()[: None if shard == 0 else -2].encode(encoding))


def write_tsv(directory: Path) -> None:
    with (directory / "all.tsv").open("w", encoding="utf-8", newline="") as out:
        table = csv.DictWriter(out, list(row(0)), dialect="excel-tab", quoting=csv.QUOTE_ALL, lineterminator="\n")
        table.writeheader()
        table.writerows(row(i) for i in range(SAMPLES))


def write_arrow_csv(directory: Path) -> None:
    import pyarrow
    import pyarrow.csv

    for shard in range(3):
        rows = [row(i) for i in range(shard, SAMPLES, 3)]
        pyarrow.csv.write_csv(pyarrow.Table.from_pylist(rows), directory / f"part-{shard}.csv")


def texts(i: int) -> dict[str, str]:
    """A sample of a table without carriage returns, for writers that quote in their own way or leave a carriage return unquoted."""
    return {name: value.replace("\r", "") for name, value in row(i).items()}


def write_pandas(directory: Path) -> None:
    import pandas

    for shard in range(2):
        pandas.DataFrame([row(i) for i in range(shard, SAMPLES, 2)]).to_csv(directory / f"{shard}.csv", index=False, lineterminator="\r\n")


def write_polars(directory: Path) -> None:
    import polars

    polars.DataFrame([texts(i) for i in range(SAMPLES)]).write_csv(directory / "all.tsv", separator="\t")


def write_duckdb(directory: Path) -> None:
    import duckdb
    import pyarrow

    table = pyarrow.Table.from_pylist([texts(i) for i in range(SAMPLES)])
    duckdb.from_arrow(table).to_csv(str(directory / "all.csv"), header=True)


def picture(i: int) -> tuple[str, bytes]:
    """A member of an archive."""
    return f"d{i % 2}/{i:03d}.jpg", bytes([i, 255 - i]) * (i * 7 % 90 + 1) + json.dumps(record(i)).encode()


def write_bare_table(directory: Path) -> None:
    """Writes files without a header, with two writers."""
    import pyarrow
    import pyarrow.csv

    rows = [row(i) for i in range(SAMPLES)]
    pyarrow.csv.write_csv(pyarrow.Table.from_pylist(rows[::2]), directory / "0.csv", pyarrow.csv.WriteOptions(include_header=False))
    with (directory / "1.csv").open("w", encoding="utf-8", newline="") as out:
        csv.DictWriter(out, list(row(0))).writerows(rows[1::2])


def write_zipfile(directory: Path) -> None:
    """Writes archives with Python: stored members, deflated members, and both in one archive.

    Lengths are before the content or after it.
    """
    for shard, methods in enumerate([(0, 0), (8, 8), (0, 8)]):
        out = io.BytesIO()
        if shard == 1:
            out.seekable = lambda: False  # type: ignore[method-assign]
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("__MACOSX/._x", b"rubbish")
            for i in range(shard, SAMPLES, 3):
                archive.writestr(*picture(i), methods[i % 2])
        (directory / f"{shard}.zip").write_bytes(out.getvalue())


def write_zip_tools(directory: Path) -> None:
    """Writes archives with zip, which compresses a member only if that makes it smaller, and with bsdtar."""
    with tempfile.TemporaryDirectory() as root:
        for i in range(SAMPLES):
            name, content = picture(i)
            path = Path(root) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        subprocess.run(["zip", "-qr", directory / "0.zip", "d0"], cwd=root, check=True)
        subprocess.run(["bsdtar", "--format=zip", "-cf", directory / "1.zip", "d1"], cwd=root, check=True)


def write_npy(directory: Path) -> None:
    for shard, version in enumerate([(1, 0), (2, 0), (3, 0)]):
        with (directory / f"x{shard}.npy").open("wb") as out:
            np.lib.format.write_array(out, np.stack([array(i) for i in range(shard, SAMPLES, 3)]), version=version)
    np.save(directory / "empty.npy", np.zeros((0, 2, 3), np.float32))


def write_npy_append(directory: Path) -> None:
    """Appends an array in pieces. Each step rewrites the header."""
    from npy_append_array import NpyAppendArray

    with NpyAppendArray(str(directory / "x.npy")) as out:
        for i in range(0, SAMPLES, 10):
            out.append(np.stack([array(k) for k in range(i, i + 10)]))


def write_flat(directory: Path) -> None:
    np.stack([array(i) for i in range(SAMPLES)]).tofile(directory / "x.raw")


def write_cifar(directory: Path) -> None:
    """Writes files in the format that CIFAR-10's page describes: a label, then red, green and blue planes of 32 by 32."""
    for shard in range(2):
        rows = []
        for i in range(shard, SAMPLES, 2):
            pixels = np.random.default_rng(i).integers(0, 256, 3072, np.uint8)
            pixels[0] = i
            rows.append(np.concatenate([np.array([i % 10], np.uint8), pixels]))
        np.concatenate(rows).tofile(directory / f"data_batch_{shard + 1}.bin")
    (directory / "batches.meta.txt").write_text("airplane\n")


def text(shard: int) -> np.ndarray[Any, Any]:
    """Tokens that are all different, within and across shards, so that the first token identifies a window."""
    return (np.arange(SAMPLES * WINDOW // 2 + 5) * 7 % 10007 + shard * 20000).astype(np.uint16)


def write_tokens(directory: Path) -> None:
    for shard in range(2):
        text(shard).tofile(directory / f"train_{shard}.bin")


def write_llmc(directory: Path) -> None:
    """Writes like dev/data/data_common.py of llm.c for GPT-2's tokens: a header of 256 numbers."""
    for shard in range(2):
        header = np.zeros(256, np.int32)
        header[:3] = 20240520, 1, len(text(shard))
        (directory / f"train_{shard}.bin").write_bytes(header.tobytes() + text(shard).tobytes())


def read_llmc(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.iterdir()):
        yield from windows(np.memmap(path, np.uint16, mode="r", offset=1024))


def write_megatron(directory: Path) -> None:
    import torch

    module = megatron()
    for shard in range(2):
        path = str(directory / f"text_{shard}")
        out = module.IndexedDatasetBuilder(path + ".bin", dtype=np.uint16)
        tokens = torch.from_numpy(text(shard).astype(np.int64))
        for at in range(0, len(tokens), 37):
            document = tokens[at : at + 37]
            cut = len(document) // 3
            out.add_document(document, [cut, len(document) - cut])
        out.finalize(path + ".idx")


def read_tfrecord(directory: Path) -> Iterator[tuple[int, Any]]:
    import tfrecord

    for path in sorted(directory.iterdir()):
        for s in tfrecord.tfrecord_loader(str(path), None, FEATURES):
            yield int(s["id"][0]), [(k, np.asarray(v).tobytes()) for k, v in sorted(s.items())]


def read_jsonl(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.iterdir()):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    s = json.loads(line)
                    yield s["id"], s


def read_jq(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.iterdir()):
        done = subprocess.run(["jq", "--slurp", ".", str(path)], stdout=subprocess.PIPE, check=True)
        for s in json.loads(done.stdout):
            yield s["id"], s


def read_table(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.iterdir()):
        with path.open(encoding="utf-8-sig", newline="") as table:
            dialect = "excel-tab" if "\t" in table.readline() else "excel"
            table.seek(0)
            for s in csv.DictReader(table, dialect=dialect, strict=True):
                yield int(s["id"]), s


def read_bare_table(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.iterdir()):
        with path.open(encoding="utf-8", newline="") as table:
            for s in csv.reader(table, strict=True):
                yield int(s[0]), s


def read_pandas(directory: Path) -> Iterator[tuple[int, Any]]:
    import pandas

    for path in sorted(directory.iterdir()):
        for s in pandas.read_csv(path, dtype=str, keep_default_na=False).to_dict("records"):
            yield int(s["id"]), s


def read_polars(directory: Path) -> Iterator[tuple[int, Any]]:
    import polars

    for path in sorted(directory.iterdir()):
        for s in polars.read_csv(path, separator="\t", infer_schema=False).fill_null("").to_dicts():
            yield int(s["id"]), s


def read_duckdb(directory: Path) -> Iterator[tuple[int, Any]]:
    import duckdb

    for path in sorted(directory.iterdir()):
        table = duckdb.read_csv(str(path), header=True, all_varchar=True, sep=",", quotechar='"', escapechar='"', na_values="\\N")
        for s in table.to_arrow_table().to_pylist():
            yield int(s["id"]), s


def read_arrow_table(directory: Path) -> Iterator[tuple[int, Any]]:
    import pyarrow
    import pyarrow.csv

    text = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(row(0), pyarrow.string()))
    for path in sorted(directory.iterdir()):
        table = pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True), convert_options=text)
        for s in table.to_pylist():
            yield int(s["id"]), s


def read_zip(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.iterdir()):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if not name.startswith("__MACOSX") and not name.endswith("/"):
                    content = archive.read(name)
                    yield content[0], (name, content)


def read_tar(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.iterdir()):
        with tarfile.open(path) as archive:
            for member in archive:
                content = archive.extractfile(member).read()  # type: ignore[union-attr]
                yield content[0], (member.name.removeprefix("./"), content)


def read_npy(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.iterdir()):
        for row in np.load(path):
            yield int(row.flat[0]), (str(row.dtype), row.shape, row.tobytes())


def read_flat(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.iterdir()):
        for row in np.frombuffer(path.read_bytes(), np.float32).reshape(-1, 2, 3):
            yield int(row.flat[0]), (str(row.dtype), row.shape, row.tobytes())


def read_cifar(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.glob("*.bin")):
        for row in np.fromfile(path, np.uint8).reshape(-1, 3073):
            yield int(row[1]), (int(row[0]), row[1:].tobytes())


def read_windows(directory: Path) -> Iterator[tuple[int, Any]]:
    """Reads batches of windows, one per row."""
    for path in sorted(directory.iterdir()):
        for row in np.frombuffer(path.read_bytes(), np.uint16).reshape(-1, WINDOW + 1):
            yield int(row[0]), (row[:-1].tobytes(), row[1:].tobytes())


def windows(tokens: np.ndarray[Any, Any]) -> Iterator[tuple[int, Any]]:
    """Inputs and targets, cut from flat tokens like trainers do, one block after another."""
    for at in range(0, len(tokens) - WINDOW, WINDOW):
        x, y = tokens[at : at + WINDOW], tokens[at + 1 : at + 1 + WINDOW]
        yield int(x[0]), (x.tobytes(), y.tobytes())


def read_tokens(directory: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(directory.iterdir()):
        yield from windows(np.memmap(path, np.uint16, mode="r"))


def read_megatron(directory: Path) -> Iterator[tuple[int, Any]]:
    module = megatron()
    for path in sorted(directory.glob("*.idx")):
        source = module.IndexedDataset(str(path.with_suffix("")))
        yield from windows(np.concatenate([source[i] for i in range(len(source))]))


WRITERS = {
    "tfrecord": write_tfrecord, "jsonl": write_jsonl, "jq": write_jq, "table": write_csv, "tabs": write_tsv, "arrow-table": write_arrow_csv,
    "bare-table": write_bare_table, "table-pandas": write_pandas, "tabs-polars": write_polars, "table-duckdb": write_duckdb,
    "tfrecord-tensorboardx": write_tensorboardx, "jsonl-polars": write_polars_lines, "npy-append": write_npy_append,
    "llmc": write_llmc,
    "zipfile": write_zipfile, "zip-tools": write_zip_tools, "npy": write_npy, "flat": write_flat,
    "cifar": write_cifar, "tokens": write_tokens, "megatron": write_megatron,
}  # fmt: skip
READERS = {
    "tfrecord": read_tfrecord, "jsonl": read_jsonl, "jq": read_jq, "table": read_table, "tabs": read_table, "arrow-table": read_arrow_table,
    "bare-table": read_bare_table, "table-pandas": read_pandas, "tabs-polars": read_polars, "table-duckdb": read_duckdb,
    "tfrecord-tensorboardx": read_tfrecord, "jsonl-polars": read_jsonl, "npy-append": read_npy,
    "llmc": read_llmc,
    "zipfile": read_zip, "zip-tools": read_zip, "tar": read_tar, "npy": read_npy, "flat": read_flat,
    "cifar": read_cifar, "tokens": read_tokens, "megatron": read_megatron, "windows": read_windows,
}  # fmt: skip


def digests(kind: str, directory: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, sample in READERS[kind](directory):
        if str(number) in found:
            raise SystemExit(f"sample {number} comes twice")
        found[str(number)] = hashlib.sha256(repr(sample).encode()).hexdigest()
    return found


def by_xz(data: bytes) -> bytes:
    """Compresses into blocks of a fixed length, with threads."""
    return subprocess.run(["xz", "-T2", "--block-size=999"], input=data, stdout=subprocess.PIPE, check=True).stdout


def by_lzma(data: bytes) -> bytes:
    """Writes streams with other checks, padding between them, and an empty stream."""
    checks = lzma.CHECK_SHA256, lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64
    pieces = [data[at : at + 1500] for at in range(0, len(data), 1500)] + [b""]
    return b"".join(lzma.compress(p, check=checks[i % 4], preset=i % 7) + bytes(4 * (i % 3)) for i, p in enumerate(pieces))


def compress(root: Path, suffix: str, how: dict[str, Callable[[bytes], bytes]]) -> None:
    """Compresses the JSON Lines into one dataset for each method."""
    for name, pack in how.items():
        packed = root / ("jsonl-" + name)
        packed.mkdir()
        for path in (root / "jsonl").iterdir():
            (packed / f"{path.name}.{suffix}").write_bytes(pack(path.read_bytes()))


def write(root: str) -> None:
    found = {}
    for kind, writer in WRITERS.items():
        directory = Path(root) / kind
        directory.mkdir()
        writer(directory)
        found[kind] = digests(kind, directory)
    for kind in "tfrecord", "jsonl", "table", "npy", "tokens":
        packed = Path(root) / (kind + "-gz")
        packed.mkdir()
        for path in (Path(root) / kind).iterdir():
            (packed / (path.name + ".gz")).write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        found[packed.name] = found[kind]
    compress(Path(root), "xz", {"xz": by_xz, "lzma": by_lzma})
    for packing in "xz", "lzma":
        found["jsonl-" + packing] = found["jsonl"]
    json.dump(found, sys.stdout)


def read(*pairs: str) -> None:
    json.dump(
        {Path(directory).name: digests(kind, Path(directory)) for kind, directory in zip(pairs[::2], pairs[1::2])},
        sys.stdout,
    )


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        read(*sys.argv[2:])
