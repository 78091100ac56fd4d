"""Writes and reads tar shards with WebDataset itself: wds.py write DIR | wds.py read DIR... | wds.py group.

The first two print a JSON object with a digest of all members of each sample, by directory and then by key. The last one reads lists of
member names from stdin, as JSON. For each list it prints the samples that WebDataset reads from such a shard, with key and extensions, or
the reason why it reads none.
"""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from typing import Any

import webdataset
from webdataset.tariterators import group_by_keys, tar_file_expander

SAMPLES = 90
SHARDS = 3


def write(directory: str) -> None:
    """Writes the same shards plain, in one gzip member, in many, and in zstd, and with common tar programs."""
    plain = os.path.join(directory, "plain")
    for kind in ("plain", "tar.gz", "tgz", "members", "zst", "tools"):
        os.makedirs(os.path.join(directory, kind))
    for s in range(SHARDS):
        name = os.path.join(plain, f"photos-{s:03d}.tar")
        with webdataset.TarWriter(name, encoder=True) as out:
            for i in range(s * SAMPLES // SHARDS, (s + 1) * SAMPLES // SHARDS):
                out.write({"__key__": f"dir.{s}/photo{i:04d}", "jpg": bytes([i]) * (100 + 37 * i), "cls": i % 10, "caption.txt": f"photo {i}"})
        with open(name, "rb") as f:
            body = f.read()
        for kind, packed in {"tar.gz": gzip.compress(body), "tgz": gzip.compress(body), "members": in_members(body)}.items():
            suffix = ".tgz" if kind == "tgz" else ".tar.gz"
            with open(os.path.join(directory, kind, f"photos-{s:03d}{suffix}"), "wb") as f:
                f.write(packed)
        target = os.path.join(directory, "zst", f"photos-{s:03d}.tar.zst")
        subprocess.run([sys.executable, "-c", ZSTD, name, target], check=True)
        with tarfile.open(name) as shard, tempfile.TemporaryDirectory() as files:
            shard.extractall(files)
            target = os.path.join(directory, "tools", f"photos-{s:03d}.tar")
            subprocess.run([*TOOLS[s], "-cf", target, "-C", files, "-T", "-"], input="\n".join(shard.getnames()).encode(), check=True)


# GNU tar with its own headers and with POSIX headers, and libarchive's tar.
TOOLS = (["tar", "--format=gnu"], ["tar", "--format=posix"], ["bsdtar"])

# zstd comes with pyarrow. A separate process imports it, because it starts threads.
ZSTD = """
import sys, pyarrow
with open(sys.argv[1], "rb") as f, pyarrow.CompressedOutputStream(sys.argv[2], "zstd") as out:
    out.write(f.read())
"""


def in_members(body: bytes) -> bytes:
    return b"".join(gzip.compress(body[at : at + 10_000]) for at in range(0, len(body), 10_000))


def read(directory: str) -> dict[str, str]:
    found = {}
    shards = [os.path.join(directory, name) for name in sorted(os.listdir(directory)) if ".tar" in name]
    for sample in webdataset.WebDataset(shards, shardshuffle=False):
        digest = hashlib.sha256()
        for extension in sorted(k for k in sample if not k.startswith("__")):
            digest.update(f"{extension} {len(sample[extension])}\n".encode())
            digest.update(sample[extension])
        if sample["__key__"] in found:
            raise SystemExit(f"{sample['__key__']} comes twice")
        found[sample["__key__"]] = digest.hexdigest()
    return found


def group(names: list[str]) -> Any:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            if name.endswith("/"):
                member.type = tarfile.DIRTYPE
            else:
                member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
    out.seek(0)
    try:
        files = tar_file_expander([{"url": "shard.tar", "stream": out}])
        return [[s["__key__"], *(k for k in s if not k.startswith("__"))] for s in group_by_keys(files)]
    except ValueError as e:
        return str(e)


def main(command: str, *args: str) -> None:
    if command == "write":
        write(args[0])
        print(json.dumps({"plain": read(os.path.join(args[0], "plain"))}))
    elif command == "read":
        print(json.dumps({os.path.basename(d): read(d) for d in args}))
    else:
        print(json.dumps([group(names) for names in json.load(sys.stdin)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
