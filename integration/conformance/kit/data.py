"""Writes a small dataset in each format, with the same bytes on every machine, using only Python's standard library.

The files of tables were written by pyarrow, and are in integration/conformance/tables.
"""

import io
import json
import os
import struct
import tarfile
from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

from . import rows, tables
from .containers import gzip_stored, xz_stored, zip_archive, zip_member, zstd_stored
from .crc32c import crc32c
from .pseudorandom import number, stream

TREE = dict[str, bytes]  # contents by file name


class Dataset(NamedTuple):
    name: str
    native: str  # the dataset's own form, in the notation of format=
    options: tuple[str, ...]  # options of `millrace index`
    write: Callable[[], tuple[TREE, list[bytes]]]  # returns the files, and the stored bytes of every sample
    fields: str  # a list of fields for fields=
    # bytes before and after the samples in the dataset's own form; None: the form has more than these
    around: Optional[tuple[bytes, bytes]] = (b"", b"")


def tar_sample(members: list[tuple[str, bytes]]) -> bytes:
    """The members as in a tar, without its end blocks."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        length = tar.offset
    return out.getvalue()[:length]


def photos(label: str, samples: int) -> list[bytes]:
    out = []
    for i in range(samples):
        key = f"{label}/img-{i:04d}"
        out.append(tar_sample([(f"{key}.cls", b"%d" % (i % 10)), (f"{key}.jpg", stream(key, 100 + number(key, 900)))]))
    return out


def tar() -> tuple[TREE, list[bytes]]:
    samples = photos("photos", 60)
    return {f"shard-{s}.tar": b"".join(samples[20 * s : 20 * s + 20]) + bytes(1024) for s in range(3)}, samples


def targz() -> tuple[TREE, list[bytes]]:
    samples = photos("packed", 45)
    files = {}
    for s in range(3):
        mine = samples[15 * s : 15 * s + 15]
        parts = [b"".join(mine[:8]), b"".join(mine[8:]) + bytes(1024)]
        files[f"shard-{s}.tar.gz"] = b"".join(gzip_stored(p) for p in parts)
    return files, samples


def mds() -> tuple[TREE, list[bytes]]:
    files, samples, shards = {}, [], []
    columns = {"column_encodings": ["bytes", "int"], "column_names": ["image", "label"], "column_sizes": [None, 8]}
    header = {**columns, "compression": None, "format": "mds", "hashes": [], "size_limit": None, "version": 2}
    config = json.dumps(header, sort_keys=True).encode()
    for s in range(3):
        mine = []
        for i in range(18):
            image = stream(f"mds/{s}/{i}", 50 + number(f"mds/{s}/{i}", 600))
            mine.append(struct.pack("<I", len(image)) + image + struct.pack("<q", i % 7))
        offsets = [4 + 4 * (len(mine) + 1) + len(config)]
        for sample in mine:
            offsets.append(offsets[-1] + len(sample))
        name = f"shard.{s:05d}.mds"
        files[name] = struct.pack(f"<I{len(offsets)}I", len(mine), *offsets) + config + b"".join(mine)
        raw = {"basename": name, "bytes": len(files[name]), "hashes": {}}
        shards.append({**header, "raw_data": raw, "samples": len(mine), "zip_data": None})
        samples += mine
    files["index.json"] = json.dumps({"shards": shards, "version": 2}, sort_keys=True).encode()
    return files, samples


def litdata() -> tuple[TREE, list[bytes]]:
    files, samples, chunks = {}, [], []
    for c in range(3):
        mine = []
        for i in range(16):
            image = stream(f"litdata/{c}/{i}", 40 + number(f"litdata/{c}/{i}", 500))
            mine.append(struct.pack("<II", len(image), 8) + image + struct.pack("<q", i))
        offsets = [4 + 4 * (len(mine) + 1)]
        for sample in mine:
            offsets.append(offsets[-1] + len(sample))
        name = f"chunk-0-{c}.bin"
        files[name] = struct.pack(f"<I{len(offsets)}I", len(mine), *offsets) + b"".join(mine)
        chunks.append({"chunk_bytes": len(files[name]), "chunk_size": len(mine), "dim": None, "filename": name})
        samples += mine
    leaf: dict[str, object] = {"type": None, "context": None, "children_spec": []}
    spec = [1, {"type": "builtins.tuple", "context": "null", "children_spec": [leaf, leaf]}]
    config = {
        "chunk_bytes": None, "chunk_size": 16, "compression": None, "data_format": ["bytes", "int"],
        "data_spec": json.dumps(spec), "encryption": None, "item_loader": "PyTreeLoader",
    }  # fmt: skip
    files["index.json"] = json.dumps({"chunks": chunks, "config": config}, sort_keys=True).encode()
    return files, samples


def tfrecord() -> tuple[TREE, list[bytes]]:
    def masked(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    files, samples = {}, []
    for s in range(2):
        mine = []
        for i in range(25):
            data = stream(f"tfrecord/{s}/{i}", 30 + number(f"tfrecord/{s}/{i}", 300))
            length = struct.pack("<Q", len(data))
            mine.append(length + masked(length) + data + masked(data))
        files[f"train-{s:05d}-of-00002.tfrecord"] = b"".join(mine)
        samples += mine
    return files, samples


def lines(label: str, count: int) -> list[bytes]:
    out = []
    for i in range(count):
        words = [stream(f"{label}/{i}/{w}", 4).hex() for w in range(number(f"{label}/{i}", 30))]
        out.append(json.dumps({"id": i, "text": " ".join(words) + " äöü"}, ensure_ascii=False).encode() + b"\n")
    return out


def jsonl() -> tuple[TREE, list[bytes]]:
    samples = lines("jsonl", 120)
    return {f"part-{s}.jsonl": b"".join(samples[40 * s : 40 * s + 40]) for s in range(3)}, samples


def jsonlzst() -> tuple[TREE, list[bytes]]:
    samples = lines("jsonlzst", 80)
    return {f"part-{s}.jsonl.zst": zstd_stored(b"".join(samples[40 * s : 40 * s + 40])) for s in range(2)}, samples


def jsonlxz() -> tuple[TREE, list[bytes]]:
    """Shards of xz with three blocks, whose borders are in the middle of lines."""
    samples = lines("jsonlxz", 80)
    files = {}
    for s in range(2):
        text = b"".join(samples[40 * s : 40 * s + 40])
        files[f"part-{s}.jsonl.xz"] = xz_stored([text[:3001], text[3001:6005], text[6005:]])
    return files, samples


CSV_HEADER = b"id,text,note\n"


def csv() -> tuple[TREE, list[bytes]]:
    """Fields that contain delimiters, quotes and line ends. The second shard has carriage returns before its line feeds."""
    files, samples = {}, []
    for s in range(2):
        end = (b"\n", b"\r\n")[s]
        mine = []
        for i in range(40):
            words = " ".join(stream(f"csv/{s}/{i}/{w}", 3).hex() for w in range(number(f"csv/{s}/{i}", 20)))
            note = ("", '"a ""quoted"" word"', '"two\nlines, äöü"', "plain")[i % 4]
            mine.append(f"{40 * s + i},{words},{note}".encode() + end)
        files[f"part-{s}.csv"] = CSV_HEADER[:-1] + end + b"".join(mine)
        samples += mine
    return files, samples


def csvbare() -> tuple[TREE, list[bytes]]:
    """Shards without a header."""
    samples = [b"%d,%s\n" % (i, stream(f"csvbare/{i}", 40).hex().encode()) for i in range(60)]
    return {f"part-{s}.csv": b"".join(samples[30 * s : 30 * s + 30]) for s in range(2)}, samples


TSV_HEADER = b"id\ttext\n"


def tsv() -> tuple[TREE, list[bytes]]:
    files, samples = {}, []
    for s in range(2):
        mine = [b"%d\t%s\n" % (30 * s + i, stream(f"tsv/{s}/{i}", 60).hex().encode()) for i in range(30)]
        files[f"part-{s}.tsv"] = TSV_HEADER + b"".join(mine)
        samples += mine
    return files, samples


def archives(label: str, deflated: bool) -> tuple[TREE, list[bytes]]:
    """Zip archives. Two of three samples have two members with the same key; the third sample has one.

    A sample of stored members is the range of the archive that contains them, with the header between them. A sample of deflated members
    consists of their contents.
    """
    files, samples = {}, []
    for s in range(2):
        members = []
        for i in range(24):
            key, data = f"d{i % 3}/f{s}-{i:03d}", stream(f"{label}/{s}/{i}", 20 + number(f"{label}/{s}/{i}", 500))
            members.append((f"{key}.jpg", data))
            if i % 3 > 0:
                members.append((f"{key}.cls", b"%d" % (i % 10)))
                data += members[-1][1] if deflated else zip_member(*members[-1], deflated)
            samples.append(data)
        files[f"part-{s}.zip"] = zip_archive(members, deflated)
    return files, samples


def table(suffix: str, chosen: Sequence[str] = ()) -> tuple[TREE, list[bytes]]:
    schema, values = tables.table(chosen)
    return tables.files(suffix), [rows.row(schema, row) for row in values]


def records() -> tuple[TREE, list[bytes]]:
    """Arrays of 12 by 8 little-endian float32 in the format of numpy.save."""
    files, samples, size = {}, [], 12 * 8 * 4
    for s in range(2):
        mine = [stream(f"records/{s}/{i}", size) for i in range(30)]
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 12, 8), }" % len(mine)
        header += " " * (-(10 + len(header) + 1) % 64) + "\n"
        files[f"part-{s}.npy"] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"".join(mine)
        samples += mine
    return files, samples


def tokens() -> tuple[TREE, list[bytes]]:
    """Flat files of uint16. A window has 33 tokens, and the next window begins with its last token."""
    files, samples = {}, []
    for s in range(2):
        data = stream(f"tokens/{s}", 2 * (32 * 120 + 1 + 9))
        files[f"part-{s}.bin"] = data
        samples += [data[64 * i : 64 * i + 66] for i in range(120)]
    return files, samples


def loose() -> tuple[TREE, list[bytes]]:
    files = {f"d{i % 3}/f{i:03d}.bin": stream(f"files/{i}", 20 + number(f"files/{i}", 400)) for i in range(40)}
    return files, [files[name] for name in sorted(files)]


def folders() -> tuple[TREE, list[bytes]]:
    """Pictures in class folders. The class is in the part cls, which no file stores."""
    files = {f"{('ant', 'bee', 'cat')[i % 3]}/f{i:03d}.jpg": stream(f"folders/{i}", 20 + number(f"folders/{i}", 400)) for i in range(40)}
    return files, [files[name] for name in sorted(files)]


TAR_END = bytes(1024)

DATASETS = (
    Dataset("tar", "tar", (), tar, "jpg", (b"", TAR_END)),
    Dataset("targz", "tar", (), targz, "cls,jpg", (b"", TAR_END)),
    Dataset("mds", "mds", (), mds, "image", None),
    Dataset("litdata", "litdata", (), litdata, "1,0", None),
    Dataset("tfrecord", "tfrecord", (), tfrecord, "tfrecord"),
    Dataset("jsonl", "jsonl", (), jsonl, "json"),
    Dataset("jsonlzst", "jsonl", (), jsonlzst, "json"),
    Dataset("jsonlxz", "jsonl", (), jsonlxz, "json"),
    Dataset("csv", "csv", (), csv, "csv", (CSV_HEADER, b"")),
    Dataset("csvbare", "csv", ("--header", "absent"), csvbare, "csv"),
    Dataset("tsv", "csv", (), tsv, "tsv", (TSV_HEADER, b"")),
    Dataset("parquet", "rows", (), lambda: table(".parquet"), "embedding,image.bytes,id,tags"),
    Dataset("arrow", "rows", (), lambda: table(".arrow"), "counts,text"),
    Dataset("columns", "rows", ("--fields", ",".join(tables.CHOSEN)), lambda: table(".parquet", tables.CHOSEN), "tags,id"),
    Dataset("records", "records", (), records, "bin"),
    Dataset("tokens", "tokens", ("--format", "tokens", "--sequence-length", "32", "--dtype", "uint16"), tokens, "bin"),
    Dataset("zip", "tar", (), lambda: archives("zip", False), "jpg,cls", None),
    Dataset("zipdeflated", "tar", (), lambda: archives("zipdeflated", True), "cls", None),
    Dataset("files", "tar", ("--format", "files"), loose, "bin", None),
    Dataset("folders", "tar", (), folders, "cls,jpg", None),
)

# Small chunks, so that a window has several. Batches have 8 samples, in the order `slot` with four lanes.
INDEX = ("--chunk-size", "4KiB", "--shuffle", "slot", "--window", "4", "--seed", "7", "--batch-size", "8", "--tail", "short")


def find(name: str) -> Optional[Dataset]:
    return next((d for d in DATASETS if d.name == name), None)


def write(directory: str) -> int:
    """Writes all datasets into separate directories below a directory, and returns their total size in bytes."""
    total = 0
    for d in DATASETS:
        for name, content in d.write()[0].items():
            path = os.path.join(directory, d.name, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(content)
            total += len(content)
    return total
