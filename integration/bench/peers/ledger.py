"""Records each measurement as soon as it is made, so that none is lost, and lists the remaining ones."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report

FIRST = "millrace-parquet"  # the reader with which the others are compared, round by round


@dataclass(frozen=True)
class Task:
    """One measurement."""

    part: str  # part of the report: same, speed, resume, cut, resize
    about: dict[str, Any]  # values that distinguish the task from others of its part
    make: Callable[[], dict[str, Any]]

    @property
    def name(self) -> str:
        return " ".join([self.part, *(str(v) for v in self.about.values())])


class Ledger:
    """The measurements of a run, in a JSON file that is complete at any time."""

    def __init__(self, path: Path, about: dict[str, Any], commit: str, go_on: bool) -> None:
        self.path = path
        self.book: dict[str, Any] = {"about": about, "commits": [], "notes": {}, "rows": {}}
        if go_on:
            self.book = json.loads(path.read_text())
            for name, value in about.items():
                if self.book["about"].get(name) != value:
                    before = self.book["about"].get(name)
                    raise SystemExit(f"go on with {path}: its {name} was {before}, and is {value} now: give the same, or leave --resume out")
        if commit not in self.book["commits"]:
            self.book["commits"].append(commit)
        self.tasks: list[Task] = []
        self.tell(f"measurements are written to {path}; to go on if this ends early: --resume {path}")

    def plan(self, tasks: list[Task]) -> None:
        self.tasks = tasks
        self.write()

    @property
    def left(self) -> list[Task]:
        return [t for t in self.tasks if t.name not in self.book["rows"]]

    def note(self, name: str, value: Any) -> None:
        self.book["notes"][name] = value
        self.write()

    def make(self, task: Task) -> None:
        """Makes one measurement, records it and prints it."""
        begun = time.monotonic()
        row = task.make()
        self.book["rows"][task.name] = {"part": task.part, **task.about, **row, "took": time.monotonic() - begun}
        self.write()
        self.tell(f"{task.name}: {outcome(row)}")
        left = self.left
        if left:
            minutes = sum(self.guess(t) for t in left) / 60
            self.tell(f"  {len(self.tasks) - len(left)} of {len(self.tasks)} measurements, about {minutes:.0f} min left")

    def guess(self, task: Task) -> float:
        """The expected seconds of a measurement, from the most similar ones."""
        rows = self.book["rows"].values()
        like: list[float] = [r["took"] for r in rows]
        for keys in (["part"], ["part", "library"], ["part", "library", "set"], ["part", "library", "set", "line"]):
            want = {"part": task.part, **task.about}
            like = [r["took"] for r in rows if all(r.get(k) == want.get(k) for k in keys)] or like
        return statistics.mean(like)

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(self.path.name + ".new")
        new.write_text(json.dumps(self.book, indent=1))
        os.replace(new, self.path)

    def tell(self, what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    def tell_times(self) -> None:
        """Prints the time of each part."""
        took: dict[str, float] = {}
        for row in self.book["rows"].values():
            part = " ".join(str(row[k]) for k in ("part", "line", "set") if k in row)
            took[part] = took.get(part, 0) + row["took"]
        for part, seconds in took.items():
            self.tell(f"{seconds / 60:6.1f} min  {part}")
        self.tell(f"{sum(took.values()) / 60:6.1f} min  in all")

    def results(self) -> dict[str, Any]:
        """Returns the data of the report: rows by part, with speeds as medians over rounds."""
        rows = [self.book["rows"][t.name] for t in self.tasks]
        found: dict[str, Any] = {part: [r for r in rows if r["part"] == part] for part in ("same", "resume", "cut", "resize")}
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for r in rows:
            if r["part"] == "speed":
                groups.setdefault((r["line"], r["set"], r["workers"], r["library"]), []).append(r)
        found["speed"] = []
        for of_what, turns in groups.items():
            about = dict(zip(("line", "set", "workers", "library"), of_what))
            found["speed"].append(about | summary(turns) | ratios(groups.get((*of_what[:3], FIRST), []), turns))
        return {**self.book["about"], **self.book["notes"], "commits": self.book["commits"], **found}


def outcome(row: dict[str, Any]) -> str:
    """Returns the result of a measurement in one line."""
    if row["error"]:
        return str(row["error"]).splitlines()[0]
    if "epochs" not in row:
        return ", ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items() if k != "error")
    rates = ", then ".join(f"{e['samples'] / e['seconds']:.0f} samples/s" for e in row["epochs"])
    forced = ", ended by force" if row["code"] else ""
    return f"first after {row['epochs'][0]['first']:.2f} s, {rates}, {row['memory'] >> 20} MiB{forced}"


def summary(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over rounds."""
    error = next((saw["error"] for saw in turns if saw["error"]), None)
    if error:
        return {"error": error}

    def median(of: Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], float]) -> float:
        return statistics.median(of(saw, *saw["epochs"]) for saw in turns)

    return {
        "error": None,
        "cold": median(lambda _, cold, __: rate(cold)), "warm": median(lambda _, __, warm: rate(warm)),
        "cold_bytes": median(lambda _, cold, __: cold["bytes"] / cold["seconds"]), "first": median(lambda _, cold, __: cold["first"]),
        "memory": median(lambda saw, _, __: saw["memory"]), "whole": median(lambda saw, _, __: saw["memory"] + saw["files"]),
        "gateway": median(lambda saw, _, __: saw["gateway"]),
        "cpu": median(lambda saw, cold, warm: saw["cpu"] / (cold["samples"] + warm["samples"])),
        "requests": median(lambda _, cold, __: cold["store"]["requests"]), "read": median(lambda _, cold, __: cold["store"]["bytes"]),
        "warm_requests": median(lambda _, cold, warm: warm["store"]["requests"] - cold["store"]["requests"]),
        "unevenness": None if any(saw["epochs"][0]["unevenness"] is None for saw in turns) else median(lambda _, cold, __: cold["unevenness"]),
    }


def rate(epoch: dict[str, Any]) -> float:
    return float(epoch["samples"] / epoch["seconds"])


def ratios(firsts: list[dict[str, Any]], turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The ratio of FIRST's rate to a library's rate, round by round: median and quartiles, for the cold and the warm epoch."""
    pairs = [(a["epochs"], b["epochs"]) for a, b in zip(firsts, turns) if not (a["error"] or b["error"])]
    found = {}
    for at, name in enumerate(("cold_ratio", "warm_ratio")):
        values = [rate(a[at]) / rate(b[at]) for a, b in pairs]
        if values:
            found[name] = report.quartiles(values)
    return found
