#!/usr/bin/env python3
"""Runs the parts of `make test-nightly`, each of at most an hour, and resumes where the last run stopped.

usage: nightly.py [WORD...]    all parts, or those whose names contain one of the words
       nightly.py --list       print the names

Each part runs even if others have failed. bin/nightly.json stores the results: a part that passed at the same commit, in a tree
without changes, is not run again. bin/nightly.md is the report, rewritten after each part. FUZZTIME (10m) is the duration of each fuzz
target. Exit code: 0, or 1 when a part failed.
"""

import datetime
import glob
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
STATE = os.path.join(BIN, "nightly.json")
PAGE = os.path.join(BIN, "nightly.md")
STEPS = """unit race python-test plain-test ray-test newest-test browser-test cluster-test slurm-test kubernetes-test release-test
experiments-short mutation-python"""
LOADS = "TestAccessChangesUnderLoad", "TestJobsWhileAllChanges"  # 50 minutes each
HISTORIES, HISTORY_PARTS = 200_000, 8
PIECES = 6  # number of pieces of the fuzz targets, and of the packages with mutants


def parts():
    """Returns the parts by name: arguments of make."""
    found = {step: [step] for step in STEPS.split()}
    found["integration"] = ["integration", f"SKIP={'|'.join(LOADS)}", "PACKAGES=. ./harness"]
    for test in LOADS:
        found[f"integration {test}"] = ["integration", f"ONLY={test}", "PACKAGES=."]
    found["integration sharedmemory"] = ["integration", "PACKAGES=./sharedmemory"]
    size = HISTORIES // HISTORY_PARTS
    for i in range(HISTORY_PARTS):
        found[f"histories {i + 1}/{HISTORY_PARTS}"] = ["histories", f"SEEDS={i * size}:{(i + 1) * size}"]
    for i in range(PIECES):
        for step in "fuzz", "mutation":
            found[f"{step} {i + 1}/{PIECES}"] = [step, f"PIECE={i + 1}/{PIECES}"]
    found["sabotage"] = ["sabotage"]
    return found


def output(*command):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit():
    """Returns the commit, and whether the tree differs from it."""
    changed = output("git", "status", "--porcelain", "--untracked-files=no")
    return output("git", "rev-parse", "--short=12", "HEAD") + (" and changes that are not committed" if changed else ""), bool(changed)


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


def stored(path):
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (FileNotFoundError, ValueError):
        return []


def lines_of_summary():
    try:
        with open(SUMMARY, encoding="utf-8") as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return []


def run(arguments):
    """Runs one part. Returns its row: result, duration, totals, and measurements."""
    before = len(lines_of_summary())
    start, began = time.monotonic(), time.time()
    env = dict(os.environ, MILLRACE_LONG="1", FUZZTIME=os.environ.get("FUZZTIME") or "10m")
    code = subprocess.run(["make", "--no-print-directory", *arguments], cwd=ROOT, env=env, stdin=subprocess.DEVNULL).returncode
    written = [path for path in glob.glob(os.path.join(BIN, "*.json")) if os.path.getmtime(path) >= began]
    return {
        "passed": code == 0,
        "seconds": time.monotonic() - start,
        "counts": [re.sub(r"^\S+ +[^:]+: ", "", line).strip() for line in lines_of_summary()[before:]],
        "figures": [figure for path in written if os.path.basename(path).startswith("figures-") for figure in stored(path)],
        "fuzz": stored(os.path.join(BIN, "fuzz.json")) if arguments[0] == "fuzz" else [],
    }


def table(header, rows):
    text = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in rows:
        text.append("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |")
    return "\n".join(text) + "\n"


def result(passed):
    return "ok" if passed else "FAILED"


def page(state):
    """Returns the report of all parts that were run at this commit."""
    rows = state["rows"]
    failed, missing = [name for name in rows if not rows[name]["passed"]], [name for name in parts() if name not in rows]
    verdict = [f"{what}: {', '.join(names)}" for what, names in (("failed", failed), ("not run", missing)) if names]
    about = {
        "machine": machine(),
        "commit": state["commit"],
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "duration": duration(sum(row["seconds"] for row in rows.values())),
        "result": "; ".join(verdict) or "all parts passed",
    }
    text = ["# The nightly tests\n", "".join(f"- {name}: {value}\n" for name, value in about.items())]
    text.append(table(
        ["part", "result", "duration", "what it counted"],
        [(name, result(row["passed"]), duration(row["seconds"]), "; ".join(row["counts"])) for name, row in rows.items()],
    ))  # fmt: skip
    figures = [(f"`{package.split('/')[-1]}` {test}", figure) for row in rows.values() for package, test, figure in row["figures"]]
    if figures:
        text += ["## What the tests measured\n", table(["test", "figure"], figures)]
    fuzzed = [f for row in rows.values() for f in row["fuzz"]]
    if fuzzed:
        text += ["## Fuzz targets\n", table(
            ["package", "target", "result", "duration", "executions", "inputs that reach new code"],
            [(f["package"], f["target"], result(f["ok"]), duration(f["seconds"]), f"{f['executions']:,}", f["new"]) for f in fuzzed],
        )]  # fmt: skip
    if "sabotage" in rows:
        text += ["## Planted bugs\n", table(
            ["planted", "result", "duration", "first test that noticed"],
            [(p["name"], p["verdict"], duration(p["seconds"]), p["by"]) for p in stored(os.path.join(BIN, "sabotage.json"))],
        )]  # fmt: skip
    return "\n".join(text)


def save(state):
    with open(STATE + ".new", "w", encoding="utf-8") as out:
        json.dump(state, out, indent=1)
    os.replace(STATE + ".new", STATE)
    with open(PAGE, "w", encoding="utf-8") as out:
        out.write(page(state))


def load():
    """Returns the results of this commit, or none if the tree has changed."""
    name, changed = commit()
    state = stored(STATE)
    return state if state and state["commit"] == name and not changed else {"commit": name, "rows": {}}


def main():
    words = sys.argv[1:]
    chosen = {name: arguments for name, arguments in parts().items() if not words or words == ["--list"] or any(word in name for word in words)}
    if words == ["--list"]:
        print("\n".join(chosen))
        return 0
    if not chosen:
        sys.exit(f"nightly.py: no part's name contains {' or '.join(words)}; there are {', '.join(parts())}")
    os.makedirs(BIN, exist_ok=True)
    state = load()
    for name, arguments in chosen.items():
        if state["rows"].get(name, {}).get("passed"):
            print(f"== {name}: passed at this commit", flush=True)
            continue
        print(f"== {name}", flush=True)
        state["rows"][name] = run(arguments)
        save(state)
    print()
    for name in chosen:
        row = state["rows"][name]
        print(f"{'ok  ' if row['passed'] else 'FAIL'}  {name:40} {duration(row['seconds']):>14}  {'; '.join(row['counts'])}")
    return 0 if all(state["rows"][name]["passed"] for name in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
