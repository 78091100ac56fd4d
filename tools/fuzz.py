#!/usr/bin/env python3
"""Runs every fuzz target of the repository for FUZZTIME (5s). One target per core runs in parallel.

Each target has one worker, so that its share of the machine does not depend on the others. PIECE=2/6 runs the second sixth of the targets.
Every target runs to its end, even if others have failed. The results are written to bin/fuzz.json, and a line of totals
is appended to bin/test-summary.
"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FUZZTIME = os.environ.get("FUZZTIME", "5s")
JOBS = int(os.environ.get("FUZZJOBS") or os.cpu_count() or 1)
PIECE, PIECES = (int(n) for n in os.environ.get("PIECE", "1/1").split("/"))
PROGRESS = re.compile(r"^fuzz: elapsed: .*, execs: (\d+) .*new interesting: (\d+) \(total: (\d+)\)", re.M)


def targets():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*_test.go"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in listed.splitlines():
        path = os.path.join(ROOT, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as f:
                for target in re.findall(r"^func (Fuzz\w*)\(", f.read(), re.M):
                    yield "./" + os.path.dirname(name), target


def fuzz(package, target):
    result, output = run(package, target, FUZZTIME)
    # The corpus of earlier long runs is read first, which on a busy machine may already take FUZZTIME.
    if result["executions"] == 0 and "gathering baseline coverage" in output and "Failing input" not in output:
        result, output = run(package, target, "60s")
    return result, output


def run(package, target, span):
    start = time.monotonic()
    # By default each input that reaches new code is minimized for up to a minute, which would use up the 5 s.
    done = subprocess.run(
        ["go", "test", "-vet=off", "-run", "^$", "-fuzz", f"^{target}$", "-fuzztime", span, "-fuzzminimizetime", "10x", "-parallel", "1",
         "-timeout", "4h", package],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    ok = done.returncode == 0
    # go test reports the end of -fuzztime itself as a failure when it falls at a bad
    # moment (https://go.dev/issue/75804): no input has failed then, and none was written.
    if not ok and "context deadline exceeded" in done.stdout and "Failing input" not in done.stdout:
        ok = True
    progress = PROGRESS.findall(done.stdout)
    executions, new, corpus = (int(n) for n in progress[-1]) if progress else (0, 0, 0)
    result = {
        "package": package, "target": target, "ok": ok and executions > 0, "executions": executions,
        "new": new, "corpus": corpus, "seconds": round(time.monotonic() - start),
    }  # fmt: skip
    return result, done.stdout


def main():
    results = []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for running in concurrent.futures.as_completed([pool.submit(fuzz, *t) for t in list(targets())[PIECE - 1 :: PIECES]]):
            result, output = running.result()
            results.append(result)
            print(f"{'ok  ' if result['ok'] else 'FAIL'}  {result['package']} {result['target']}: {result['executions']:,} executions", flush=True)
            if not result["ok"]:
                print(output, flush=True)
    results.sort(key=lambda r: (r["package"], r["target"]))
    bad = not results or not all(r["ok"] for r in results)
    executions = sum(r["executions"] for r in results)
    total = f"{'FAIL' if bad else 'ok  '}  fuzz: {len(results)} targets, {FUZZTIME} each, {executions:,} executions"
    print(total)
    os.makedirs(os.path.join(ROOT, "bin"), exist_ok=True)
    with open(os.path.join(ROOT, "bin", "fuzz.json"), "w", encoding="utf-8") as out:
        json.dump(results, out, indent=1)
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as out:
        out.write(total + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
