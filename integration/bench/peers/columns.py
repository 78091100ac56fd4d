"""Measures columns of Parquet: batches that Millrace shuffles, read as Arrow, against pyarrow's batches in stored order.

usage: tools/python.sh -- integration/bench/peers/columns.py [--mebibytes N] [--rounds N] [--bench bin/bench]

Both arms read the same local files in one process, without workers, into Arrow arrays. The gateway has decoded all rows before the first
round that counts; the files are in the page cache. Arms take turns, and every other round is in reverse order. Processor time is that of
the process and the gateway together.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import report
import world
from pyarrow import parquet

BATCHES = [256, 1024, 8192]
SETS = {"texts of 2 KB": 2000, "texts of 100 B": 100, "five numbers": 0}
Count = tuple[int, int]  # rows and bytes
Cost = tuple[float, float]  # seconds, and seconds of processor time


def columns(length: int, size: int) -> Any:
    """Returns a table of about size bytes: words of Zipf's frequencies, or numbers."""
    draw = np.random.default_rng(7)
    if not length:
        n = size // 32
        whole = {name: draw.integers(0, 1 << 40, n) for name in ("a", "b")}
        return pyarrow.table({**whole, "c": draw.random(n), "d": draw.random(n, dtype="f4"), "e": draw.integers(0, 1000, n, dtype="i4")})
    words = np.array(["".join(draw.choice(list("abcdefghijklmnopqrstuvwxyz"), n)) for n in draw.integers(2, 11, 5000)])
    frequency = 1 / np.arange(1, len(words) + 1)
    blob = " ".join(draw.choice(words, 2_000_000, p=frequency / frequency.sum()))
    n = size // length
    starts, lengths = draw.integers(0, len(blob) - 2 * length, n), draw.integers(length // 2, length * 3 // 2, n)
    return pyarrow.table({"text": [blob[a : a + k] for a, k in zip(starts, lengths)]})


def write(directory: Path, length: int, size: int) -> None:
    table = columns(length, size)
    n = table.num_rows // 4
    for i in range(4):
        parquet.write_table(table.slice(i * n, n), directory / f"{i}.parquet", row_group_size=n // 8)


class Comparison:
    """The arms over one directory."""

    def __init__(self, directory: Path, gateway: world.Gateway) -> None:
        import millrace

        self.files, self.gateway, self.epochs = sorted(directory.glob("*.parquet")), gateway, itertools.count()
        self.names = parquet.read_schema(self.files[0]).names
        self.data = millrace.open(str(directory))
        self.form = millrace.Reading(form="arrow")

    def pyarrow(self, size: int) -> Count:
        rows = nbytes = 0
        for file in self.files:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=size):
                rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        return rows, nbytes

    def millrace(self, size: int) -> Count:
        rows = nbytes = 0
        for batch in self.data.epoch(next(self.epochs), global_batch_size=size, reading=self.form):
            rows, nbytes = rows + len(batch), nbytes + sum(batch[name].nbytes for name in self.names)
        return rows, nbytes

    def cost(self, arm: Callable[[int], Count], size: int) -> tuple[Cost, Count]:
        def used() -> float:
            return time.process_time() + sum(map(world._cpu, self.gateway.processes()))

        begun, before = time.monotonic(), used()
        read = arm(size)
        return (time.monotonic() - begun, used() - before), read

    def rows(self, name: str, rounds: int) -> list[list[str]]:
        out = []
        for size in BATCHES:
            theirs: list[Cost] = []
            ours: list[Cost] = []
            for turn in range(rounds + 1):
                arms = [(theirs, self.pyarrow), (ours, self.millrace)]
                for costs, arm in arms[:: -1 if turn % 2 else 1]:
                    cost, read = self.cost(arm, size)
                    if turn:  # the first round warms the gateway
                        costs.append(cost)
            for arm_name, costs in ("pyarrow", theirs), ("Millrace", ours):
                seconds, cpu = (report.quartiles([c[i] for c in costs])[1] for i in range(2))
                ratios = [report.spread(report.quartiles([t[i] / o[i] for t, o in zip(theirs, ours)])) if costs is ours else "" for i in range(2)]
                rate = [f"{read[0] / seconds / 1e3:,.0f}", f"{read[1] / seconds / 1e6:,.0f}", ratios[0], f"{read[1] / cpu / 1e6:,.0f}", ratios[1]]
                out.append([name, f"{size:,}", arm_name, *rate])
                print(out[-1], file=sys.stderr, flush=True)
        return out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mebibytes", type=int, default=128)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--bench", help="the binary of integration/bench, which stores the section")
    options = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        gateway = world.Gateway(str(world.ROOT / "bin" / "millrace"), "", Path(work, "run"))
        os.environ.update(gateway.env)
        try:
            for name, length in SETS.items():
                directory = world.empty(Path(work, f"set{length}"))
                write(directory, length, options.mebibytes << 20)
                rows += Comparison(directory, gateway).rows(name, options.rounds)
        finally:
            gateway.close()
    head = ["set", "batch", "", "1,000 rows/s", "MB/s", "times pyarrow's", "MB per CPU s", "times pyarrow's"]
    text = f"""## Columns of Parquet

Rows of local Parquet files as Arrow columns, in one process without workers. pyarrow {pyarrow.__version__} reads in stored order, by
`ParquetFile.iter_batches`. Millrace shuffles by its default order, and reads by `Reading(form="arrow")` from a gateway that has decoded all
rows before. Sets of {options.mebibytes} MiB in four files of eight row groups. Processor time is that of the process and the gateway
together. Medians of {options.rounds} rounds with quartiles of the ratios, Python {platform.python_version()}.
`make build && tools/python.sh -- integration/bench/peers/columns.py` measures again.

{report.table(head, rows)}"""
    if options.bench:
        report.put(options.bench, "columns", text, [])
    print(text)


if __name__ == "__main__":
    main()
