"""Measures memory and processor time of an epoch over class folders, Millrace's Dataset against torchvision's ImageFolder.

usage: tools/python.sh -- integration/bench/peers/workers.py [--pictures N] [--rounds N] [--bench bin/bench]

Each measurement runs in a separate process, as an arm with 0 or 4 workers; arms take turns, and every other round is in reverse order.
Memory is the maximum of the process and its workers together (PSS: pages that processes share count once). Processor time is that of
both, from the first line after the imports to the end of the epoch. The gateway has separate columns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import report
import torch
import training
import world
from PIL import Image
from torchvision.transforms.functional import pil_to_tensor, resize

CLASSES, BATCH, SIDE = 10, 64, 192
ARMS = [(library, workers) for workers in (0, 4) for library in ("ImageFolder", "Millrace")]


def of_picture(picture: Image.Image) -> Any:
    return resize(pil_to_tensor(picture), [SIDE, SIDE], antialias=True)


def of_sample(sample: Any) -> tuple[Any, int]:
    return resize(sample["jpg"], [SIDE, SIDE], antialias=True), sample["cls"]


def loader(library: str, pictures: str, workers: int) -> Any:
    if library == "Millrace":
        import millrace.torch

        dataset = millrace.torch.Dataset(pictures, global_batch_size=BATCH, transform=of_sample)
        return millrace.torch.DataLoader(dataset, num_workers=workers)
    from torchvision.datasets import ImageFolder

    return torch.utils.data.DataLoader(ImageFolder(pictures, of_picture), batch_size=BATCH, shuffle=True, num_workers=workers)


def used() -> float:
    """Processor seconds of this process and of its workers that have exited."""
    return sum(os.times()[:4])


def read(library: str, pictures: str, workers: int) -> None:
    """Runs in the process of a measurement: reads an epoch, and prints the number of samples and the processor time."""
    torch.set_num_threads(1)
    before = used()
    samples = sum(len(labels) for _, labels in loader(library, pictures, workers))
    print(json.dumps({"samples": samples, "cpu": used() - before}), flush=True)


def measure(library: str, pictures: Path, workers: int, directory: Path) -> dict[str, float]:
    gateway = world.Gateway(str(world.ROOT / "bin" / "millrace"), "", world.empty(directory))
    env = {**os.environ, "PYTHONPATH": str(world.ROOT / "client" / "python"), **gateway.env, "XDG_CACHE_HOME": str(directory.parent)}
    command = [sys.executable, __file__, "--read", library, str(workers), str(pictures)]
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    watch = world.Watch(child.pid, gateway if library == "Millrace" else None)
    try:
        said = json.loads(child.communicate(timeout=world.LIMIT)[0])
        cpu = sum(map(world._cpu, gateway.processes()))
    finally:
        watch.close()
        for pid in world.tree(child.pid) if child.poll() is None else []:
            os.kill(pid, 9)
        gateway.close()
    return {**said, "memory": watch.most_of_reader, "gateway": watch.most_of_gateway, "gateway cpu": cpu}


def middle(values: list[float], digits: int = 0) -> str:
    """A median with its quartiles."""
    low, median, high = report.quartiles(values)
    return f"{median:,.{digits}f} ({low:,.{digits}f} - {high:,.{digits}f})"


def section(options: argparse.Namespace, size: float, rounds: list[dict[tuple[str, int], dict[str, float]]]) -> str:
    rows = []
    for arm in ARMS:
        of = [r[arm] for r in rounds]
        beside = [r[arm]["memory"] / r["ImageFolder", arm[1]]["memory"] for r in rounds]
        gateway = [middle([r["gateway"] / 2**20 for r in of]), middle([r["gateway cpu"] for r in of], 1)] if arm[0] == "Millrace" else ["", ""]
        rows.append([
            arm[0], str(arm[1]), middle([r["memory"] / 2**20 for r in of]), middle(beside, 2) if arm[0] == "Millrace" else "",
            middle([r["cpu"] for r in of], 1), *gateway,
        ])  # fmt: skip
    head = ["dataset", "workers", "PSS, MiB", "times ImageFolder's", "CPU, s", "gateway: PSS, MiB", "CPU, s"]
    return f"""## Memory of workers

An epoch of {options.pictures:,} JPEGs in class folders, {training.SIDE} x {training.SIDE} pixels and {size / 1024:.0f} KiB on average, resized to
{SIDE} x {SIDE}, in batches of {BATCH}, with torch {torch.__version__.partition("+")[0]}: `millrace.torch.Dataset` against torchvision's `ImageFolder`
in torch's `DataLoader`. Medians of {options.rounds} rounds with quartiles. PSS is the peak of the process and its workers together, torch's
own memory included; the gateway that Millrace starts is counted apart.
`make build && tools/python.sh -- integration/bench/peers/workers.py --pictures {options.pictures} --bench bin/bench` measures again.

{report.table(head, rows)}"""


def draw(pictures: Path, count: int) -> float:
    """Draws the class folders, and returns the mean size of a picture."""
    drawn = world.empty(pictures.with_name("drawn"))
    training.draw(drawn, count)
    size = statistics.mean(path.stat().st_size for path in drawn.iterdir())
    for i, path in enumerate(sorted(drawn.iterdir())):
        (pictures / f"class{i % CLASSES}").mkdir(parents=True, exist_ok=True)
        path.rename(pictures / f"class{i % CLASSES}" / path.name)
    return size


def compare(options: argparse.Namespace, work: Path) -> str:
    """Makes all measurements, and returns the section of the page."""
    pictures, run, rounds = work / "pictures", work / "run", []
    size = draw(pictures, options.pictures)
    measure("Millrace", pictures, 0, run)  # creates the index
    for turn in range(options.rounds):
        row = {arm: measure(arm[0], pictures, arm[1], run) for arm in ARMS[:: -1 if turn % 2 else 1]}
        assert all(r["samples"] == options.pictures for r in row.values()), row
        rounds.append(row)
        print(turn, {f"{a} {w}": {k: round(v) for k, v in r.items()} for (a, w), r in row.items()}, file=sys.stderr, flush=True)
    return section(options, size, rounds)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pictures", type=int, default=4000)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--bench", help="the binary of integration/bench, which stores the section")
    p.add_argument("--read", nargs=3, metavar=("ARM", "WORKERS", "DIR"), help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.read:
        read(options.read[0], options.read[2], int(options.read[1]))
        return
    with tempfile.TemporaryDirectory() as work:
        text = compare(options, Path(work))
    if options.bench:
        report.put(options.bench, "workers", text, [])
    print(text)


if __name__ == "__main__":
    main()
