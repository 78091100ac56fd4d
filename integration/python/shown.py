"""Writes a small dataset in each format with that format's libraries: shown.py DIR. The browser tests show these. Nothing is printed."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).parent / "moving"))

import from_imagefolder
import from_tfrecord
import from_tokens
import from_webdataset
import lit
import mds
import numpy as np
import plain
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
from columnar_writers import flat, nested
from photos import CLASSES, photos
from PIL import Image

FEW = 24


def write_zip(root: Path) -> None:
    with zipfile.ZipFile(root / "photos.zip", "w") as archive:
        for i, name, jpeg, label in photos():
            archive.writestr(f"{name}.jpg", jpeg)
            archive.writestr(f"{name}.json", json.dumps({"number": i, "class": CLASSES[label]}))


def write_mds(root: Path) -> None:
    with mds.MDSWriter(columns=mds.COLUMNS, out=str(root)) as writer:
        for i in range(FEW):
            writer.write({name: mds.value(name, encoding, i) for name, encoding in mds.COLUMNS.items()})


def write_litdata(root: Path) -> None:
    cache = lit.Cache(str(root), chunk_bytes=1 << 16)
    for i in range(FEW):
        cache[i] = lit.sample(i)
    cache.done()
    cache.merge()


def write_parquet(root: Path) -> None:
    columns = nested()
    del columns["vector"]  # pyarrow cannot write its nulls
    pq.write_table(pa.table({"flat": flat()["utf8"], **columns}), root / "rows.parquet")


def write_arrow(root: Path) -> None:
    table = pa.table({name: c for name, c in flat().items() if name != "interval"})
    with pa.ipc.new_file(str(root / "rows.arrow"), table.schema) as out:
        out.write_table(table)


def write_media(root: Path) -> None:
    """Writes sounds, pictures of every kind that browsers show, and arrays of pixels."""
    tone = np.sin(np.arange(8000) / 9).astype(np.float32) / 2
    for kind in "wav", "flac", "ogg", "mp3":
        soundfile.write(root / f"tone.{kind}", tone, 8000)
    x, y = np.meshgrid(np.arange(64), np.arange(48))
    picture = Image.fromarray(np.stack([x * 4, y * 5, (x ^ y) * 4], -1).astype(np.uint8))
    for kind in "png", "jpg", "gif", "webp", "avif", "bmp", "tif":
        picture.save(root / f"picture.{kind}")
    picture.convert("L").save(root / "grey.png")
    np.save(root / "pixels.npy", np.asarray(picture))
    np.save(root / "planes.npy", np.asarray(picture).transpose(2, 0, 1))
    np.save(root / "numbers.npy", np.arange(12, dtype=">f4").reshape(3, 4))
    (root / "drawing.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="64" height="48"><circle cx="32" cy="24" r="20" fill="teal"/></svg>'
    )


def write(root: Path) -> None:
    here = Path(__file__).parent
    subprocess.run(
        [sys.executable, "-W", "ignore", str(here / "huggingface.py"), "write", str(root / "huggingface")], check=True, stdout=subprocess.DEVNULL
    )
    of_paths = {
        "zip": write_zip, "mds": write_mds, "litdata": write_litdata, "parquet": write_parquet,
        "arrow": write_arrow, "media": write_media, "jsonl": plain.write_jsonl, "csv": plain.write_csv, "tsv": plain.write_tsv,
        "records": plain.write_cifar, "npy": plain.write_npy, "megatron": plain.write_megatron,
    }  # fmt: skip
    of_texts = {"tar": from_webdataset, "tfrecord": from_tfrecord, "tokens": from_tokens, "files": from_imagefolder}
    for name, writer in of_paths.items():
        (root / name).mkdir()
        writer(root / name)
    for name, module in of_texts.items():
        (root / name).mkdir()
        module.write(str(root / name))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
