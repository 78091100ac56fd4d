"""Turns what was measured into the section of the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- peers -->", "<!-- /peers -->"
NAMES = {
    "millrace": "Millrace, tar", "millrace-mds": "Millrace, MDS", "webdataset": "WebDataset", "webdataset-cache": "WebDataset, `cache_dir`",
    "streaming": "MosaicML Streaming", "litdata": "LitData",
}


def put(page: Path, text: str) -> None:
    """Replaces the section of a page."""
    whole = page.read_text()
    before, _, rest = whole.partition(BEGIN)
    _, _, after = rest.partition(END)
    rest = "\n\n".join(part for part in (f"{BEGIN}\n{text.strip()}\n{END}", after.strip()) if part)
    page.write_text(f"{before.rstrip()}\n\n{rest}\n")


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows]) + "\n"


def best(rows: list[dict[str, Any]], key: str, most: bool) -> Any:
    values = [r[key] for r in rows if not r["error"]]
    return (max if most else min)(values, default=None)


def failed(row: dict[str, Any]) -> str:
    """What a library said when it failed, fit for a cell."""
    text = " ".join((row["error"] or "").replace("|", "/").split())
    return f"failed: {text[:160]}" if text else "none"


def mark(value: str, is_best: bool) -> str:
    return f"**{value}**" if is_best else value


def speed(results: dict[str, Any]) -> str:
    columns: list[tuple[str, bool, Callable[[float], str], str]] = [
        ("cold", True, lambda v: f"{v:,.0f}", "cold, samples/s"), ("warm", True, lambda v: f"{v:,.0f}", "warm, samples/s"),
        ("cold_bytes", True, lambda v: f"{v / 1e6:.0f}", "cold, MB/s"), ("first", False, lambda v: f"{v:.2f}", "first batch, s"),
        ("memory", False, lambda v: f"{v / (1 << 20):.0f}", "memory, MiB"),
        ("gateway", False, lambda v: f"{v / (1 << 20):.0f}" if v else "", "the gateway's part, MiB"),
        ("cpu", False, lambda v: f"{v * 1e6:.0f}", "processor, us/sample"),
        ("requests", False, lambda v: f"{v:.0f}", "store requests"), ("read", False, lambda v: f"{v / (1 << 20):.0f}", "store, MiB"),
        ("warm_requests", False, lambda v: f"{v:.0f}", "requests, warm"), ("unevenness", False, lambda v: f"{v:.2f}", "unevenness"),
    ]
    text = ""
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


def page(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{NAMES[k]} {v}" for k, v in results["versions"].items())
    shards = list(results["shards"].values())
    torch = f"{results['torch'] / (1 << 20):.0f} MiB"
    shaped = ", ".join(map(str, results["shaped_workers"]))
    fewer = f"; read there with {shaped} workers only" if results["shaped_workers"] != results["workers"] else ""
    text = f"""## Against the libraries that people use now

Written by `make bench-peers`. {versions}; Millrace at commit {' and '.join(results['commits'])} with a gateway on the same machine,
{results['cache_size']} of memory and a disk cache, its memory and processor time counted with the reader's. Two sets of {results['size']} MiB,
stored class by class, packed by each library's own writer into shards of one size, {min(shards)} to {max(shards)} a set (Millrace reads
WebDataset's and MosaicML Streaming's), into one MinIO; requests and bytes are counted before the store. Readers take turns,
{results['rounds']} rounds, medians. All make the same batches of 256: a tensor of bytes and one of classes. How each is set up:
`bench/peers/libraries.py`. Cold: nothing of the set on the machine. Warm: the second epoch of the same reader. First batch: from
making the reader to its first batch. Memory: the most that all processes of a reader hold together, shared pages counted once;
torch alone, imported by one process, is {torch} of it; files in local directories and what the system keeps of them in memory
are not counted. Unevenness: chi-square of the classes of a batch over its degrees of freedom, 1 for a perfect shuffle. The best of
each group is bold. The shaped line: 20 ms to the first byte, 80 MB/s a stream, 500 MB/s in all{fewer}.

MosaicML Streaming is given what it lacks: its S3 client is dropped before workers are forked, which otherwise read each other's
answers from one connection and wait a minute for bytes that another one took.

Why Millrace is not first everywhere. First batch: the default order draws each batch from 128 chunks, which here is the whole set, so the
first one waits for all of it, and is as mixed as the last; a smaller window is quicker and mixes less ([tuning](tuning.md#how-large-a-window)).
Memory: the gateway's part is there once for all readers of all jobs, and is counted with this one; the reader holds batches that have come,
their copies and the next ones. Store requests: a chunk is the unit of caching, and neighbours are one read of 16 MiB at most, where WebDataset asks
once for a whole shard.
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
