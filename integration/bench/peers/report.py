"""Generates sections of the page from measurements: one for the libraries' own formats, one for Parquet."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sets

NAMES = {
    "millrace": "Millrace, tar", "millrace-mds": "Millrace, MDS", "webdataset": "WebDataset", "webdataset-cache": "WebDataset, `cache_dir`",
    "streaming": "MosaicML Streaming", "litdata": "LitData",
    "millrace-parquet": "Millrace", "datasets": "`datasets`", "litdata-parquet": "LitData", "pyarrow": "pyarrow",
}

GATEWAY = """The gateway that Millrace starts for its user has its
defaults, a quarter of the machine's memory at most and no disk, and is a new one in each measurement: its start, its memory and its
processor time are counted with the reader's."""


def sections(results: dict[str, Any]) -> dict[str, str]:
    """The sections for which sets were read, by name."""
    parquet = {name for name in results["sets"] if sets.SETS[name][3] is not None}
    found = {}
    for name, write, of in (("peers", shards, set(results["sets"]) - parquet), ("parquet", in_parquet, parquet)):
        if of:
            found[name] = write({part: [r for r in rows if r["set"] in of] if part in PARTS else rows for part, rows in results.items()})
    return found


PARTS = ("same", "speed", "resume", "cut", "resize")


LOAD = os.getloadavg()[0]  # before the measurements


def put(bench: str, name: str, text: str, commits: list[str]) -> None:
    """Stores a section with its provenance, in place of the previous one. The page is generated from stored sections."""
    if len(commits) > 1:
        raise SystemExit(f"{name} was measured at several commits, and is not stored: {', '.join(commits)}")
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    subprocess.run([bench, "-section", name, "-command", command, "-load", str(LOAD)], input=text, text=True, check=True)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows]) + "\n"


def best(rows: list[dict[str, Any]], key: str, most: bool) -> Any:
    values = [r[key] for r in rows if not r["error"] and r[key] is not None]
    return (max if most else min)(values, default=None)


def failed(row: dict[str, Any]) -> str:
    """Returns a library's error, shortened for a table cell."""
    text = " ".join((row["error"] or "").replace("|", "/").split())
    return f"failed: {text[:160]}" if text else "none"


def mark(value: str, is_best: bool) -> str:
    return f"**{value}**" if value and is_best else value


# A figure: its key, whether more is better, its format, and its column head.
Column = tuple[str, bool, Callable[[Any], str], str]
RATES: list[Column] = [
    ("cold", True, lambda v: f"{v:,.0f}", "cold, samples/s"), ("warm", True, lambda v: f"{v:,.0f}", "warm, samples/s"),
    ("cold_bytes", True, lambda v: f"{v / 1e6:.0f}", "cold, MB/s"),
]
COSTS: list[Column] = [
    ("first", False, lambda v: f"{v:.2f}", "first batch, s"), ("memory", False, lambda v: f"{v / (1 << 20):.0f}", "memory, MiB"),
    ("whole", False, lambda v: f"{v / (1 << 20):.0f}", "with its files in memory, MiB"),
    ("gateway", False, lambda v: f"{v / (1 << 20):.0f}" if v else "", "the gateway's part, MiB"),
    ("cpu", False, lambda v: f"{v * 1e6:.0f}", "processor, us/sample"),
    ("requests", False, lambda v: f"{v:.0f}", "store requests"), ("read", False, lambda v: f"{v / (1 << 20):.0f}", "store, MiB"),
    ("warm_requests", False, lambda v: f"{v:.0f}", "requests, warm"), ("unevenness", False, lambda v: "" if v is None else f"{v:.2f}", "unevenness"),
]


def speed(results: dict[str, Any]) -> str:
    columns, text = RATES + COSTS, ""
    for line in dict.fromkeys(r["line"] for r in results["speed"]):
        for name in dict.fromkeys(r["set"] for r in results["speed"]):
            text += f"\n### {name}, {'MinIO on this machine' if line == 'plain' else 'behind a shaped line'}\n\n"
            rows = []
            of = [r for r in results["speed"] if r["line"] == line and r["set"] == name]
            for workers in dict.fromkeys(r["workers"] for r in of):
                group = [r for r in of if r["workers"] == workers]
                for r in group:
                    cells = [
                        mark(show(r[key]), key != "gateway" and r[key] == best(group, key, most)) for key, most, show, _ in columns
                    ] if not r["error"] else [failed(r)] + [""] * (len(columns) - 1)
                    rows.append([str(workers), NAMES[r["library"]], *cells])
            text += table(["workers", "", *(c[3] for c in columns)], rows)
    return text


def versions(results: dict[str, Any], *libraries: str) -> str:
    return ", ".join(f"{NAMES[name]} {results['versions'][name]}" for name in libraries)


def shards(results: dict[str, Any]) -> str:
    """The section about the libraries' own formats."""
    of = {r["set"] for r in results["speed"]}
    shards = [n for prefix, n in results["shards"].items() if prefix.partition("-")[2] in of]
    torch = f"{results['torch'] / (1 << 20):.0f} MiB"
    shaped = ", ".join(map(str, results["shaped_workers"]))
    fewer = f"; read there with {shaped} workers only" if results["shaped_workers"] != results["workers"] else ""
    text = f"""## Against the libraries that people use now

Written by `make bench-peers`. {versions(results, "webdataset", "streaming", "litdata")}; Millrace at commit
{' and '.join(results['commits'])}, opened without a server. {GATEWAY} Sets of {size(results, of)} MiB,
stored class by class, packed by each library's own writer into shards of one size, {min(shards)} to {max(shards)} a set (Millrace reads
WebDataset's and MosaicML Streaming's), into one MinIO; requests and bytes are counted before the store. Readers take turns,
{results['rounds']} rounds, every other one backwards, medians. All make the same batches of 256: a tensor of bytes and one of classes.
How each is set up:
`integration/bench/peers/libraries.py`. Cold: nothing of the set on the machine. Warm: the second epoch of the same reader. First batch: from
making the reader to its first batch. Memory: the most that all processes of a reader hold together, shared pages counted once;
torch alone, imported by one process, is {torch} of it. With its files: also what the system keeps in memory, after the second epoch, of the
files that a library has put into local directories; the system can take that back, and then they are read from the disk.
Processor time: that of all these processes, from making the reader on, the store's not.
Unevenness: chi-square of the classes of a batch over its degrees of freedom, 1 for a perfect shuffle. The best of
each group is bold. The shaped line: 20 ms to the first byte, 80 MB/s a stream, 500 MB/s in all{fewer}.

MosaicML Streaming is given what it lacks: its S3 client is dropped before workers are forked, which otherwise read each other's
answers from one connection and wait a minute for bytes that another one took.
"""
    text += speed(results)
    rows = []
    for r in results["resume"]:
        cells = [failed(r), "", ""]
        if not r["error"]:
            cells = [f"{r['first']:.2f}", f"{r['bytes'] / (1 << 20):.0f}", f"{r['samples']:,} of {r['of']:,}"]
        rows.append([r["set"], NAMES[r["library"]], *cells])
    text += "\n### Resume at 60 % of an epoch, on a machine that holds nothing\n\n"
    text += table(["set", "", "first batch, s", "store, MiB, for the rest", "samples in all"], rows)
    rows = [[r["set"], NAMES[r["library"]], failed(r), f"{r['samples']:,} of {r['of']:,}", f"{r['distinct']:,}"] for r in results["cut"]]
    text += "\n### Three answers of the store cut in the middle\n\n" + table(["set", "", "error", "samples", "distinct"], rows)
    rows = [[NAMES[r["library"]], failed(r), f"{r['twice']:,}", f"{r['never']:,}"] for r in results["resize"]]
    text += "\n### Two ranks until half of the epoch, then four\n\n" + table(["", "error", "samples twice", "samples never"], rows)
    return text


def size(results: dict[str, Any], of: set[str]) -> str:
    """The distinct sizes of sets in MiB."""
    return ", ".join(dict.fromkeys(str(mebibytes) for name, mebibytes in results["sizes"].items() if name in of))


def quartiles(values: list[float]) -> list[float]:
    """The lower quartile, the median and the upper quartile; for a single value only that value."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def spread(quartiles: list[float]) -> str:
    """A median with its quartiles."""
    low, middle, high = (f"{q:.{2 if q < 10 else 1}f}" for q in quartiles)
    return f"{middle} x ({low} - {high})"


def in_parquet(results: dict[str, Any]) -> str:
    """The section about Parquet."""
    of = list(dict.fromkeys(r["set"] for r in results["speed"]))
    lengths = ", ".join(f"`{name}` {results['sizes'][name]} MiB ({results['indexed'][f'parquet-{name}']:.1f} s)" for name in of)
    text = f"""## Parquet, against the libraries that read it from a store

Written by `make bench-peers SETS="{' '.join(of)}"`.
{versions(results, "datasets", "litdata", "pyarrow")}; Millrace at commit {' and '.join(results['commits'])}, opened without a server. {GATEWAY}
What is measured is as [above](#against-the-libraries-that-people-use-now): readers take turns, {results['rounds']} rounds, every other
one backwards, medians; how each is set up: `integration/bench/peers/columnar.py`. *Millrace against it* is Millrace's rate over the
library's in the same round, with quartiles: above 1 Millrace is faster.

The sets are {lengths}, each of four files. In brackets is how long
`millrace index` took, which reads every row once; LitData's index is of footers alone, `datasets` and pyarrow need none. Images are
100 KB that no codec makes smaller, with a label, and no reader decodes them; `images` has the row groups of 100 MB that `datasets`
writes, `images-small-groups` row groups of 100 rows. Texts are of some 500 bytes in five columns, one row group a file: `texts-zstd`
under zstd by pyarrow, `texts-snappy`, a set of its own, under snappy by `datasets`. Batches are of 256: a tensor of the images' bytes
and one of labels; tensors of numbers and lists of strings. Each reader reads all columns.

Each library shuffles as its documentation has it for training: `datasets` files and a buffer of 1,000 rows in each worker, LitData
files and the rows of a file, Millrace by its default order. pyarrow has no shuffle: its batches come in stored order, and end where
row groups do; it reads in one process, by threads of its own. `datasets` and pyarrow keep nothing, and read the store again in each
epoch; LitData keeps the files on the local disk; the gateway keeps decoded rows in memory.
"""
    values = []
    for r in results["same"]:
        equal = "equal" if r["same"] else "**different**"
        values.append([r["set"], NAMES[r["library"]], failed(r), f"{r['samples']:,} of {r['of']:,}", equal])
    text += parquet_speed(results) + "\n### The values read, against those written\n\n"
    return text + table(["set", "", "error", "rows", "digest of all values"], values)


def parquet_speed(results: dict[str, Any]) -> str:
    text = ""
    head = ["workers", "", "cold, samples/s", "Millrace against it", "warm, samples/s", "Millrace against it", *(c[3] for c in COSTS)]
    for name in dict.fromkeys(r["set"] for r in results["speed"]):
        rows = []
        of = [r for r in results["speed"] if r["set"] == name]
        for r in of:
            group = [x for x in of if x["workers"] == r["workers"]]
            cells = [failed(r)] + [""] * (len(head) - 3)
            if not r["error"]:
                cells = []
                for epoch in ("cold", "warm"):
                    against = spread(r[f"{epoch}_ratio"]) if f"{epoch}_ratio" in r and not r["library"].startswith("millrace") else ""
                    cells += [mark(f"{r[epoch]:,.0f}", r[epoch] == best(group, epoch, True)), against]
                cells += [mark(show(r[key]), key != "gateway" and r[key] == best(group, key, False)) for key, _, show, _ in COSTS]
            rows.append([str(r["workers"]), NAMES[r["library"]], *cells])
        text += f"\n### {name}\n\n" + table(head, rows)
    return text
