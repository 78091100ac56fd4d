#!/usr/bin/env python3
"""Plays simulated histories of clusters (integration/clustersim) in parts, and goes on where it was stopped.

usage: histories.py

HISTORIES (200000) is how many there are to be in all, PART (5000) how many one part has. What was played, and how long it
took, is kept in bin/histories.json; delete it to begin anew. Exit code: 0, or 1 when a history failed: its part is played
again the next time.
"""

import json
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(ROOT, "bin")
STATE = os.path.join(BIN, "histories.json")
MODULE = os.path.join(ROOT, "integration")
PACKAGE = "./clustersim"
PROGRAM = os.path.join(BIN, "clustersim.test")


def output(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def load():
    try:
        with open(STATE, encoding="utf-8") as f:
            return json.load(f)
    except (FileNotFoundError, ValueError):
        return {"parts": []}


def save(state):
    with open(STATE + ".new", "w", encoding="utf-8") as f:
        json.dump(state, f, indent=1)
    os.replace(STATE + ".new", STATE)


def play(first, last):
    """Plays one part. Returns what it counted, or None if it failed."""
    env = dict(os.environ, MILLRACE_SEEDS=f"{first}:{last}")
    command = [PROGRAM, "-test.run", "TestHistories", "-test.v", "-test.timeout", "4h"]
    done = subprocess.run(
        command, cwd=os.path.join(MODULE, PACKAGE), env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if done.returncode != 0:
        print(done.stdout[-20000:] + done.stderr[-5000:])
        return None
    return re.findall(r"figure: (histories=.*)", done.stdout)


def finish(state, wanted, failed):
    """Says what all parts come to, for the page of the long tests."""
    played = sum(p["to"] - p["from"] for p in state["parts"])
    seconds = sum(p["seconds"] for p in state["parts"])
    commits = len({p["commit"] for p in state["parts"]})
    total = f"{played:,} histories of {wanted:,} without a fault, {seconds:.0f} s in all, {len(state['parts'])} parts of {commits} commits"
    total = f"{'FAIL' if failed else 'ok  '}  histories: {total}"
    print(total)
    figures = [["integration/clustersim", f"TestHistories, seeds {p['from']} to {p['to'] - 1}", text] for p in state["parts"] for text in p["said"]]
    with open(os.path.join(BIN, "figures-histories.json"), "w", encoding="utf-8") as out:
        json.dump(figures, out, indent=1)
    with open(os.path.join(BIN, "test-summary"), "a", encoding="utf-8") as out:
        out.write(total + "\n")


def main():
    wanted, part = int(os.environ.get("HISTORIES") or 200_000), int(os.environ.get("PART") or 5_000)
    os.makedirs(BIN, exist_ok=True)
    os.nice(10)  # it runs for hours, beside others
    subprocess.run(["go", "test", "-c", "-o", PROGRAM, PACKAGE], cwd=MODULE, check=True)
    state, failed = load(), False
    commit = output("git", "rev-parse", "--short=12", "HEAD")
    while not failed:
        first = state["parts"][-1]["to"] if state["parts"] else 0
        if first >= wanted:
            break
        last, start = min(first + part, wanted), time.monotonic()
        said = play(first, last)
        failed = said is None
        if not failed:
            seconds = round(time.monotonic() - start, 1)
            state["parts"].append({"from": first, "to": last, "seconds": seconds, "commit": commit, "said": said})
            save(state)
            print(f"histories {first:,} to {last - 1:,}: {seconds:.0f} s", flush=True)
    finish(state, wanted, failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
