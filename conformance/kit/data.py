"""Writes a small dataset of each format, the same bytes on every machine, with nothing but Python's standard library.

The compressed ones are whole, valid gzip and zstd files whose blocks are stored as they are: what a compressor makes of
bytes differs from one release to the next, and the kit is about what is served.
"""

import hashlib
import io
import json
import os
import struct
import tarfile
import zlib
from typing import Callable, NamedTuple, Optional

TREE = dict[str, bytes]  # name of a file -> what is in it


class Dataset(NamedTuple):
    name: str
    native: str  # the dataset's own form, as format= names it
    options: tuple[str, ...]  # of `millrace index`
    write: Callable[[], tuple[TREE, list[bytes]]]  # the files, and the stored bytes of every sample
    fields: str  # a list for fields=, of parts that every sample has; empty: the kit asks for none


def stream(label: str, n: int) -> bytes:
    """n bytes that look random, and are those of the label."""
    blocks = (n + 31) // 32
    return b"".join(hashlib.sha256(f"{label}/{i}".encode()).digest() for i in range(blocks))[:n]


def number(label: str, below: int) -> int:
    return int.from_bytes(stream(label, 8), "little") % below


_TABLE = []
for _n in range(256):
    for _ in range(8):
        _n = _n >> 1 ^ (0x82F63B78 if _n & 1 else 0)
    _TABLE.append(_n)


def crc32c(data: bytes, crc: int = 0) -> int:
    """The CRC-32C (Castagnoli) of data; crc is that of what comes before."""
    crc ^= 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def gzip_stored(data: bytes) -> bytes:
    """A gzip member whose blocks are stored."""
    out = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
    for at in range(0, len(data), 0xFFFF):
        block = data[at : at + 0xFFFF]
        out.append(struct.pack("<BHH", at + 0xFFFF >= len(data), len(block), len(block) ^ 0xFFFF) + block)
    return b"".join(out) + struct.pack("<II", zlib.crc32(data), len(data))


def zstd_stored(data: bytes) -> bytes:
    """A zstd frame whose blocks are stored. Its header says how long it is, in four bytes."""
    out = [b"\x28\xb5\x2f\xfd\xa0", struct.pack("<I", len(data))]
    for at in range(0, len(data), 1 << 16):
        block = data[at : at + (1 << 16)]
        last = at + (1 << 16) >= len(data)
        out.append((len(block) << 3 | last).to_bytes(3, "little") + block)
    return b"".join(out)


def tar_sample(members: list[tuple[str, bytes]]) -> bytes:
    """The members as a tar has them, without its end."""
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


def records() -> tuple[TREE, list[bytes]]:
    """Arrays of 12 by 8 little-endian float32, as numpy.save writes them."""
    files, samples, size = {}, [], 12 * 8 * 4
    for s in range(2):
        mine = [stream(f"records/{s}/{i}", size) for i in range(30)]
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 12, 8), }" % len(mine)
        header += " " * (-(10 + len(header) + 1) % 64) + "\n"
        files[f"part-{s}.npy"] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"".join(mine)
        samples += mine
    return files, samples


def tokens() -> tuple[TREE, list[bytes]]:
    """Flat files of uint16. A window has 33 tokens, and the next one begins with its last."""
    files, samples = {}, []
    for s in range(2):
        data = stream(f"tokens/{s}", 2 * (32 * 120 + 1 + 9))
        files[f"part-{s}.bin"] = data
        samples += [data[64 * i : 64 * i + 66] for i in range(120)]
    return files, samples


def loose() -> tuple[TREE, list[bytes]]:
    files = {f"d{i % 3}/f{i:03d}.bin": stream(f"files/{i}", 20 + number(f"files/{i}", 400)) for i in range(40)}
    return files, [files[name] for name in sorted(files)]


DATASETS = (
    Dataset("tar", "tar", (), tar, "jpg"),
    Dataset("targz", "tar", (), targz, "cls,jpg"),
    Dataset("mds", "mds", (), mds, "image"),
    Dataset("litdata", "litdata", (), litdata, "1,0"),
    Dataset("tfrecord", "tfrecord", (), tfrecord, "tfrecord"),
    Dataset("jsonl", "jsonl", (), jsonl, "json"),
    Dataset("jsonlzst", "jsonl", (), jsonlzst, "json"),
    Dataset("records", "records", (), records, "bin"),
    Dataset("tokens", "tokens", ("--format", "tokens", "--sequence-length", "32", "--dtype", "uint16"), tokens, "bin"),
    Dataset("files", "tar", ("--format", "files"), loose, "bin"),
)

# Small chunks, so that a window has several; batches of 8, in the order `slot` over four lanes.
INDEX = ("--chunk-size", "4KiB", "--shuffle", "slot", "--window", "4", "--seed", "7", "--batch-size", "8", "--tail", "short")


def find(name: str) -> Optional[Dataset]:
    return next((d for d in DATASETS if d.name == name), None)


def write(directory: str) -> int:
    """Writes all datasets below a directory, one each, and returns how many bytes they have."""
    total = 0
    for d in DATASETS:
        for name, content in d.write()[0].items():
            path = os.path.join(directory, d.name, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(content)
            total += len(content)
    return total
