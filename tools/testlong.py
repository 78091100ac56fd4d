#!/usr/bin/env python3
"""Runs the steps of `make test-long`, each to its end whatever became of those before it,
and writes what they found to docs/testing-long.md, anew after each step.

usage: testlong.py [STEP...]    all steps, or those named

FUZZTIME (10m) is what each fuzz target gets. Exit code: 0, or 1 when a step failed.
"""

import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(ROOT, "bin")
SUMMARY = os.path.join(BIN, "test-summary")
PAGE = os.path.join(ROOT, "docs", "testing-long.md")
STEPS = [
    "deps", "vet", "unit", "cross", "python-test", "plain-test", "frameworks-test", "newest-test", "conformance", "integration", "browser-test",
    "cluster-test", "kubernetes-test", "slurm-test", "release-test", "experiments-short", "histories", "fuzz", "sabotage",
]

# What tests have measured lies in bin/figures-NAME.json: each name with the step that writes it.
FIGURES = {
    "unit": "unit", "plain": "unit", "integration": "integration", "browser-test": "browser-test", "cluster-test": "cluster-test",
    "kubernetes-test": "kubernetes-test", "slurm-test": "slurm-test", "histories": "histories",
}  # fmt: skip


def output(*command):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def machine():
    model = platform.processor() or platform.machine()
    memory = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            model = next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
        with open("/proc/meminfo", encoding="utf-8") as f:
            memory = f", {int(f.readline().split()[1]) >> 20} GiB of memory"
    except (OSError, StopIteration, ValueError):
        pass
    return f"{os.cpu_count()} x {model}{memory}, {platform.system()} {platform.machine()}, {output('go', 'env', 'GOVERSION')}"


def duration(seconds):
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def lines_of(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return []


def stored(name):
    try:
        with open(os.path.join(BIN, name), encoding="utf-8") as f:
            return json.load(f)
    except (FileNotFoundError, ValueError):
        return []


def table(header, rows):
    text = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in rows:
        text.append("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |")
    return "\n".join(text) + "\n"


def run(step):
    """Runs one step and returns its row: name, result, duration, what it says of itself."""
    before = len(lines_of(SUMMARY))
    print(f"== {step}", flush=True)
    start = time.monotonic()
    env = dict(os.environ, MILLRACE_LONG="1", FUZZTIME=os.environ.get("FUZZTIME") or "10m")
    code = subprocess.run(["make", "--no-print-directory", step], cwd=ROOT, env=env, stdin=subprocess.DEVNULL).returncode
    said = [re.sub(r"^\S+ +[^:]+: ", "", line).strip() for line in lines_of(SUMMARY)[before:]]
    return step, "ok" if code == 0 else "FAILED", time.monotonic() - start, "; ".join(said)


def page(about, rows):
    """The whole page, from what the steps done so far have left in bin."""
    done = {row[0] for row in rows}
    seconds = sum(row[2] for row in rows)
    failed = [row[0] for row in rows if row[1] != "ok"]
    missing = [step for step in STEPS if step not in done]
    verdict = "all steps passed" if not failed and not missing else "; ".join(
        ([f"failed: {', '.join(failed)}"] if failed else []) + ([f"not run: {', '.join(missing)}"] if missing else [])
    )  # fmt: skip
    text = ["# The long tests\n", "Written by `make test-long`; not edited by hand. What the steps are: [testing.md](testing.md).\n"]
    text.append("".join(f"- {name}: {value}\n" for name, value in [*about, ("duration", duration(seconds)), ("result", verdict)]))
    text.append(table(["step", "result", "duration", "what it counted"], [(r[0], r[1], duration(r[2]), r[3]) for r in rows]))
    figures = [f for name, step in FIGURES.items() if step in done for f in stored(f"figures-{name}.json")]
    if figures:
        text.append("## What the tests measured\n")
        text.append(table(["test", "figure"], [(f"`{package.split('/')[-1]}` {test}", figure) for package, test, figure in figures]))
    if "fuzz" in done:
        text.append("## Fuzz targets\n")
        text.append(table(
            ["package", "target", "result", "duration", "executions", "inputs that reach new code"],
            [(f["package"], f["target"], "ok" if f["ok"] else "FAILED", duration(f["seconds"]), f"{f['executions']:,}", f["new"])
             for f in stored("fuzz.json")],
        ))  # fmt: skip
    if "sabotage" in done:
        text.append("## Planted bugs\n")
        text.append(table(
            ["planted", "result", "duration", "first test that noticed"],
            [(p["name"], p["verdict"], duration(p["seconds"]), p["by"]) for p in stored("sabotage.json")],
        ))  # fmt: skip
    return "\n".join(text)


def main():
    chosen = sys.argv[1:] or STEPS
    unknown = [step for step in chosen if step not in STEPS]
    if unknown:
        sys.exit(f"testlong.py: unknown step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    os.makedirs(BIN, exist_ok=True)
    dirty = " and changes that are not committed" if output("git", "status", "--porcelain", "--untracked-files=no") else ""
    about = [
        ("machine", machine()),
        ("commit", output("git", "rev-parse", "--short=12", "HEAD") + dirty),
        ("date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
    ]
    rows = []
    for step in chosen:
        rows.append(run(step))
        with open(PAGE, "w", encoding="utf-8") as out:
            out.write(page(about, rows))
    print()
    for step, result, seconds, said in rows:
        print(f"{'ok  ' if result == 'ok' else 'FAIL'}  {step:12} {duration(seconds):>14}  {said}")
    return 1 if any(row[1] != "ok" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
