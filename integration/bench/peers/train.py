"""Measures a training step with decoding, with Millrace and other current libraries: train.py --help. Takes minutes, not hours.

Readers take turns. Each measurement is recorded as soon as it is made, so that an interrupted run can be resumed: --resume.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import report
import run
import training
import world
from ledger import Ledger, Task

MODES = {"decode": "decoding alone", "train": "decoding and a step of the model"}
NAMES = {**report.NAMES, "millrace": "Millrace"}


class Bench(run.Bench):
    """One run: a store with both sets in all formats."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        super().__init__(argparse.Namespace(**{**vars(options), "sets": [], "size": 0}), directory)
        self.names: list[str] = options.sets
        self.digests: dict[str, int] = {}

    def fill(self) -> None:
        """Draws the images, and packs them with each library's own writer."""
        self.store = world.Store(self.options.minio, self.options.wire, world.empty(self.directory / "minio"))
        images = world.empty(self.directory / "images")
        training.draw(images, self.options.samples)
        for name in self.names:
            self.digests[name] = training.expected(name, images)
            for kind in dict.fromkeys(training.LIBRARIES[library][0] for library in self.options.libraries):
                out, prefix = world.empty(self.directory / "packed"), f"{kind}-{name}"
                code = f"import training, pathlib; training.pack({kind!r}, {name!r}, pathlib.Path({str(images)!r}), {str(out)!r})"
                env = {**self.env(), "PYTHONPATH": str(Path(__file__).parent)}
                subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
                self.store.upload(out, prefix)
                self.shards[prefix] = len(list(out.glob("*.tar")))
                if kind == "tar":
                    self.index(prefix, kind)

    def tasks(self) -> Iterator[Task]:
        """All measurements in order. Every other round is in reverse order, as in run.py."""
        for name in self.names:
            for library in self.options.libraries:
                yield Task("same", {"set": name, "library": library}, partial(self.check, library, name))
        for name in self.names:
            for how in MODES:
                for turn in range(self.options.rounds):
                    for library in self.options.libraries[:: -1 if turn % 2 else 1]:
                        about = {"set": name, "how": how, "library": library, "turn": turn}
                        yield Task("speed", about, partial(self.epoch, library, name, how, turn))

    def epoch(self, library: str, name: str, how: str, turn: int) -> dict[str, Any]:
        """Reads one epoch from a cold start."""
        store = self.stand("plain")
        gateway = self.gateway(library, store)
        job = {
            "set": name, "samples": self.options.samples, "shards": self.shards[f"{training.LIBRARIES[library][0]}-{name}"],
            "endpoint": store.endpoint, "local": str(self.directory / "local"), "workers": self.options.workers, "seed": turn + 1,
            "batch": training.BATCH, "how": how, "counts": store.control + "/counts",
        }
        child = None
        try:
            child = world.Run(job, library, gateway, self.env(), script="training.py")
            saw = child.finish()
        finally:
            if child:
                child.kill()
            if gateway:
                gateway.close()
            self.clean()
        return {**(saw["epochs"] or [{}])[0], "error": saw["error"], "memory": saw["memory"], "cpu": saw["cpu"]}

    def check(self, library: str, name: str) -> dict[str, Any]:
        """Reads an epoch, and compares its values with the images."""
        saw = self.epoch(library, name, "check", 0)
        return {"error": saw["error"], "samples": saw.get("samples", 0), "of": self.options.samples, "same": saw.get("digest") == self.digests[name]}


def medians(book: dict[str, Any], of: Callable[[dict[str, Any]], float], **about: Any) -> tuple[float, str] | None:
    """The median of a figure of a library, and the ratio of Millrace's figure to it in the same round, with quartiles.

    None if the library failed.
    """

    def turns(library: str) -> list[dict[str, Any]]:
        want = {"part": "speed", **about, "library": library}
        return [r for r in book["rows"].values() if all(r.get(k) == v for k, v in want.items())]

    rows, ours = turns(about["library"]), {r["turn"]: r for r in turns("millrace")}
    if not rows or any(r["error"] for r in rows):
        return None
    ratios = [of(ours[r["turn"]]) / of(r) for r in rows if r["turn"] in ours and not ours[r["turn"]]["error"]]
    return statistics.median(map(of, rows)), report.spread(report.quartiles(ratios)) if ratios and about["library"] != "millrace" else ""


def rate(row: dict[str, Any]) -> float:
    """Full steps per second. Workers may end an epoch with partial batches, which count only by their samples."""
    return float(row["samples"] / training.BATCH / row["seconds"])


def cost(row: dict[str, Any]) -> float:
    return float(row["cpu"] / row["samples"])


def section(book: dict[str, Any]) -> str:
    """The section of the page."""
    about, notes = book["about"], book["notes"]
    trained = [r for r in book["rows"].values() if r["part"] == "speed" and r["how"] == "train" and not r["error"]]
    step = {name: statistics.median(r["stepping"] / r["steps"] for r in trained if r["set"] == name) * 1e3 for name in {r["set"] for r in trained}}
    steps = " and ".join(f"{step[name]:.0f} ms for `{name}`" for name in about["sets"] if name in step)
    text = f"""## A training step with decoding

Written by `make bench-train`. Millrace at commit {' and '.join(book['commits'])}, WebDataset {about['versions']['webdataset']},
MosaicML Streaming {about['versions']['streaming']}, LitData {about['versions']['litdata']}, `datasets` {about['versions']['datasets']};
{os.cpu_count()} processors, {about['workers']} DataLoader workers, {about['samples']:,} images of 256 x 256 as JPEG, {notes['mebibytes']} MiB,
in the same MinIO as above, each epoch from cold. {report.GATEWAY} Each library decodes by its own defaults, crops to
224 x 224 at random, flips and batches by 64: `integration/bench/peers/training.py`. `photos` have classes, `captions` a text of 8 to 40 words.
{about['rounds']} rounds, every other one backwards, medians. *Against it*: Millrace's rate over the library's in the same round, with quartiles;
above 1 Millrace is faster. *Its processor time*: Millrace's over the library's; below 1 Millrace takes less. Processor time is that of
all processes, the gateway's with them, from making the reader on; the store's is not.

A network of use would take all of two processors, and hide what is compared. So both are shown: batches decoded and thrown away, and the
same with a step of the smallest network, of which
a step takes {steps} of processor time. Decoding a JPEG takes more than all that a library adds to it:
near 1 is what can be expected, where all decode by the same code.
"""
    for name in about["sets"]:
        rows = []
        for library in about["libraries"]:
            cells = [NAMES[library]]
            for how in MODES:
                of_what = {"set": name, "how": how, "library": library}
                for figure, scale, digits in ((rate, 1.0, 1), (cost, 1e6, 0)):
                    found = medians(book, figure, **of_what)
                    cells += ["failed", ""] if found is None else [f"{found[0] * scale:,.{digits}f}", found[1]]
            for key, scale in (("first", 1.0), ("memory", 1 / (1 << 20))):
                found = medians(book, lambda r, key=key: r[key], set=name, how="decode", library=library)  # type: ignore[misc]
                cells.append("" if found is None else f"{found[0] * scale:.{2 if key == 'first' else 0}f}")
            rows.append(cells)
        head = [""]
        for what in MODES.values():
            head += [f"{what}, steps/s", "against it", "processor, us/sample", "its processor time"]
        text += f"\n### {name}, decoded\n\n" + report.table([*head, "first batch, s", "memory, MiB"], rows)
    rows = []
    for r in (r for r in book["rows"].values() if r["part"] == "same"):
        equal = "equal" if r["same"] else "different"
        rows.append([r["set"], NAMES[r["library"]], report.failed(r), f"{r['samples']:,} of {r['of']:,}", equal])
    text += "\n### The pixels and texts read, against Pillow's\n\nCenter crops, without random steps; LitData decodes by torchvision.\n\n"
    return text + report.table(["set", "", "error", "samples", "digest of all values"], rows)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--program", required=True, help="the millrace binary")
    p.add_argument("--wire", required=True, help="the binary of integration/bench/wire")
    p.add_argument("--minio", required=True, help="MinIO's binary")
    p.add_argument("--commit", default="", help="what is measured")
    p.add_argument("--samples", type=int, default=2048, help="images of each set")
    p.add_argument("--rounds", type=int, default=3, help="times that each reader has its turn; medians are shown")
    p.add_argument("--workers", type=int, default=2, help="DataLoader workers of each reader")
    p.add_argument("--sets", nargs="+", default=list(training.SETS), choices=list(training.SETS))
    p.add_argument("--libraries", nargs="+", default=list(training.LIBRARIES), choices=list(training.LIBRARIES))
    p.add_argument("--bench", help="the binary of integration/bench, which stores the section")
    p.add_argument("--json", type=Path, help="where measurements are written down, each as it is made; by default in the user's cache directory")
    p.add_argument("--resume", type=Path, metavar="JSON", help="go on with the run that wrote this, made with the same options")
    options = p.parse_args()
    path = run.begin(options, "bench-train")
    about = {name: getattr(options, name) for name in ("samples", "rounds", "workers", "sets", "libraries")} | run.versions(options.program)
    ledger = Ledger(path, about, options.commit, go_on=options.resume is not None)
    with tempfile.TemporaryDirectory(prefix="millrace-train-") as directory:
        bench = Bench(options, Path(directory))
        try:
            ledger.plan(list(bench.tasks()))
            if ledger.left:
                begun = time.monotonic()
                bench.clean()
                bench.fill()
                ledger.note("mebibytes", sum(p.stat().st_size for p in (Path(directory) / "images").iterdir()) >> 20)
                ledger.tell(f"drawn, packed, indexed and uploaded in {time.monotonic() - begun:.0f} s")
            for task in ledger.left:
                ledger.make(task)
            ledger.tell_times()
        finally:
            bench.close()
    if options.bench:
        report.put(options.bench, "training", section(ledger.book), ledger.book["commits"])
    else:
        print(section(ledger.book))


if __name__ == "__main__":
    main()
