"""Turns what was measured into the section of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BEGIN, END = "<!-- peers -->", "<!-- /peers -->"
NAMES = {
    "millrace": "Millrace, tar", "millrace-mds": "Millrace, MDS", "webdataset": "WebDataset", "streaming": "MosaicML Streaming", "litdata": "LitData",
}


def put(page: Path, text: str) -> None:
    """Replaces the section of a page."""
    whole = page.read_text()
    before, _, rest = whole.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before.rstrip()}\n\n{BEGIN}\n{text.strip()}\n{END}\n{after}")


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
    columns = [
        ("cold", True, lambda v: f"{v:,.0f}", "cold, samples/s"), ("warm", True, lambda v: f"{v:,.0f}", "warm, samples/s"),
        ("cold_bytes", True, lambda v: f"{v / 1e6:.0f}", "cold, MB/s"), ("first", False, lambda v: f"{v:.2f}", "first batch, s"),
        ("memory", False, lambda v: f"{v / (1 << 20):.0f}", "memory, MiB"), ("cpu", False, lambda v: f"{v * 1e6:.0f}", "processor, us/sample"),
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
                        mark(show(r[key]), r[key] == best(group, key, most)) for key, most, show, _ in columns
                    ] if not r["error"] else [failed(r)] + [""] * (len(columns) - 1)
                    rows.append([str(workers), NAMES[r["library"]], *cells])
            text += table(["workers", "", *(c[3] for c in columns)], rows)
    return text


def page(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{NAMES[k]} {v}" for k, v in results["versions"].items())
    text = f"""## Against the libraries that people use now

Written by `make bench-peers`. {versions}; Millrace at commit {results['commit']} with a gateway on the same machine,
{results['cache_size']} of memory and a disk cache, its memory and processor time counted with the reader's. Two sets of {results['size']} MiB,
stored class by class, packed by each library's own writer (Millrace reads WebDataset's shards) into one MinIO; requests and bytes
are counted before the store. Readers take turns, {results['rounds']} rounds, medians. All make the same batches of 256: a tensor of
bytes and one of classes. How each is set up: `bench/peers/libraries.py`. Cold: nothing of the set on the machine. Warm: the second
epoch of the same reader. First batch: from making the reader to its first batch. Unevenness: chi-square of the classes of a batch
over its degrees of freedom, 1 for a perfect shuffle. The best of each group is bold. The shaped line: 20 ms to the first byte,
80 MB/s a stream, 500 MB/s in all.
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
