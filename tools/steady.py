#!/usr/bin/env python3
"""Repeats tests on a busy machine, to find failures that occur once in a hundred runs.

usage: steady.py packages [PACKAGE...]    packages with goroutines or clocks, RUNS (300) times each under -race
       steady.py suite                    `.ci/run`, SUITES (20) times
       steady.py page                     only write the results so far to docs/dev/testing.md

A run of a package is one process under the race detector, with GOMAXPROCS 1, 2 and 8 in turn, while two busy loops run. Packages
take turns, so an interrupted call has run all of them equally often. bin/steady.json stores the results, and the next call continues
there. A package that failed starts again from 0 when its test program has changed. Outputs of failed runs are in bin/steady/.
Random tests use other seeds in each run (MILLRACE_TEST_STEADY, internal/testing/seeds).
Exit code: 0, or 1 when something failed or has failed since it last changed.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(ROOT, "bin")
DIR = os.path.join(BIN, "steady")
STATE = os.path.join(BIN, "steady.json")
PAGE = os.path.join(ROOT, "docs", "dev", "testing.md")
PROCS = (1, 2, 8)
LIMIT = 30 * 60  # seconds that one run may take while busy loops run
HEADING = "## How steady the suite is\n"
MODULE = "github.com/millrace-data/millrace/"
WAITS = re.compile(r"\bgo func\b|\.Go\(|\bsynctest\.|\btime\.(Now|After|AfterFunc|Sleep|NewTimer|NewTicker|Since)\(|\bhttptest\.")
LOOP = "while True: pass"


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def load():
    try:
        with open(STATE, encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return {"packages": {}, "suite": []}


def save(state):
    with open(STATE + ".new", "w", encoding="utf-8") as f:
        json.dump(state, f, indent=1)
    os.replace(STATE + ".new", STATE)


def packages():
    """Returns the packages whose sources or tests start goroutines or read a clock, with their directories."""
    found = {}
    for line in output("go", "list", "-f", "{{.ImportPath}}\t{{.Dir}}\t{{len .TestGoFiles}}\t{{len .XTestGoFiles}}", "./...").splitlines():
        path, folder, inside, outside = line.split("\t")
        sources = [name for name in os.listdir(folder) if name.endswith(".go")]
        if int(inside) + int(outside) and any(waits(os.path.join(folder, name)) for name in sources):
            found[path.removeprefix(MODULE)] = folder
    return found


def waits(path):
    with open(path, encoding="utf-8") as f:
        return WAITS.search(f.read()) is not None


def build(package):
    """Compiles a package's tests under the race detector. Returns the program and its digest."""
    program = os.path.join(DIR, package.replace("/", "-") + ".test")
    subprocess.run(["go", "test", "-race", "-trimpath", "-c", "-o", program, "./" + package], cwd=ROOT, check=True)
    with open(program, "rb") as f:
        return program, hashlib.file_digest(f, "sha256").hexdigest()[:12]


def run(package, folder, program, number):
    """Runs a package's tests once. Returns the time in seconds, and the failure: "" if there was none."""
    env = dict(os.environ, GOMAXPROCS=str(PROCS[number % len(PROCS)]), MILLRACE_TEST_STEADY=str(number))
    start, log = time.monotonic(), os.path.join(DIR, f"{package.replace('/', '-')}-{number}.log")
    with open(log, "w", encoding="utf-8") as out:
        done = subprocess.run(
            [program, "-test.timeout", f"{LIMIT}s", "-test.paniconexit0"], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    seconds = time.monotonic() - start
    if done.returncode == 0:
        os.remove(log)
        return seconds, ""
    with open(log, encoding="utf-8", errors="replace") as f:
        text = f.read()
    names = re.findall(r"^\s*--- FAIL: (\S+)", text, re.M)
    why = names[0] if names else "data race" if "DATA RACE" in text else f"exit {done.returncode}"
    return seconds, f"{why} ({os.path.relpath(log, ROOT)})"


def repeat(state, chosen):
    wanted, commit = int(os.environ.get("RUNS") or 300), output("git", "rev-parse", "--short=12", "HEAD")
    every = packages()
    for name in chosen:
        if name not in every:
            sys.exit(f"steady.py: {name} is not a package with goroutines or clocks; these are: {', '.join(every)}")
    programs = {}
    for name in chosen or every:
        programs[name], digest = build(name)
        row = state["packages"].setdefault(name, {"runs": 0, "seconds": 0, "failed": [], "program": digest, "commits": []})
        if row["failed"] and row["program"] != digest:
            row.update(runs=0, seconds=0, failed=[], commits=[])
        row["program"] = digest
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(2)]
    try:
        while left := [name for name in programs if state["packages"][name]["runs"] < wanted]:
            name = min(left, key=lambda n: state["packages"][n]["runs"])
            row = state["packages"][name]
            seconds, failed = run(name, every[name], programs[name], row["runs"])
            row["runs"] += 1
            row["seconds"] = round(row["seconds"] + seconds, 1)
            if failed:
                row["failed"].append(failed)
            if commit not in row["commits"]:
                row["commits"].append(commit)
            save(state)
            print(f"{'FAIL' if failed else 'ok  '}  {name}: run {row['runs']} of {wanted}, {seconds:.1f} s {failed}", flush=True)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def suite(state):
    wanted = int(os.environ.get("SUITES") or 20)
    while len(state["suite"]) < wanted:
        number = len(state["suite"]) + 1
        log, start = os.path.join(DIR, f"suite-{number}.log"), time.monotonic()
        with open(log, "w", encoding="utf-8") as out:
            done = subprocess.run([os.path.join(ROOT, ".ci", "run")], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        minutes = round((time.monotonic() - start) / 60, 1)
        state["suite"].append({"ok": done.returncode == 0, "minutes": minutes, "commit": output("git", "rev-parse", "--short=12", "HEAD")})
        save(state)
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'}  .ci/run: run {number} of {wanted}, {minutes} min", flush=True)


def page(state):
    """Rewrites the section of docs/dev/testing.md."""
    text = [HEADING, "Written by `tools/steady.py`; not edited by hand. Each run of a package is a process of its own under the race\n"]
    text.append("detector, with GOMAXPROCS 1, 2 and 8 in turn, beside two busy loops on two cores.\n")
    text.append("Runs count since the package last failed and was mended.\n\n")
    text.append("| package | runs | minutes | failures |\n|---|---|---|---|\n")
    for name, row in sorted(state["packages"].items()):
        text.append(f"| `{name}` | {row['runs']} | {row['seconds'] / 60:.0f} | {', '.join(row['failed']) or 'none'} |\n")
    if state["suite"]:
        good, minutes = sum(r["ok"] for r in state["suite"]), [r["minutes"] for r in state["suite"]]
        text.append(f"\n`.ci/run`: {good} of {len(minutes)} runs passed, in {min(minutes)} to {max(minutes)} minutes.\n")
    with open(PAGE, encoding="utf-8") as f:
        old = f.read()
    before, _, rest = old.partition(HEADING)
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(before.rstrip("\n") + "\n\n" + "".join(text) + ("\n" + after if after else ""))


def main():
    what, chosen = (sys.argv[1] if len(sys.argv) > 1 else ""), [name.removeprefix("./") for name in sys.argv[2:]]
    if what not in ("packages", "suite", "page") or (chosen and what != "packages"):
        sys.exit(__doc__)
    os.makedirs(DIR, exist_ok=True)
    state = load()
    try:
        if what == "packages":
            repeat(state, chosen)
        elif what == "suite":
            suite(state)
    finally:
        page(state)
    bad = [n for n, row in state["packages"].items() if row["failed"]] + [str(i) for i, r in enumerate(state["suite"], 1) if not r["ok"]]
    if bad:
        print("failed: " + ", ".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
