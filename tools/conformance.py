#!/usr/bin/env python3
"""Runs integration/conformance/: a gateway against the vectors, and every client whose language is on this machine.

usage: conformance.py [WORD...]    all clients, or those whose names contain one of the words

Clients are compiled into bin/conformance. With CI=true those of Go, Python, curl and Node must run. Those of Rust and
Java run if rustc and javac are installed. Nothing is downloaded. The totals are appended to bin/test-summary. Exit code: 0, or 1 when
anything failed.
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KIT = os.path.join(ROOT, "integration", "conformance")
BUILT = os.path.join(ROOT, "bin", "conformance")
CHECK = os.path.join(KIT, "check.py")
READERS = os.path.join(ROOT, "examples", "readers")

# Name, required programs, command to compile, command to run. The slowest ones to start come first.
CLIENTS = (
    ("java", ["javac", "java"], ["javac", "-Xlint:all", "-Werror", "-d", BUILT, f"{READERS}/Reader.java"], ["java", "-cp", BUILT, "Reader"]),
    ("rust", ["rustc"], ["rustc", "--edition", "2021", "-D", "warnings", "-O", "-o", f"{BUILT}/reader-rust", f"{READERS}/reader.rs"],
     [f"{BUILT}/reader-rust"]),
    ("curl", ["curl", "bash", "od"], [], ["bash", f"{READERS}/reader.sh"]),
    ("node", ["node"], [], ["node", f"{READERS}/reader.mjs"]),
    ("go", ["go"], ["go", "build", "-o", f"{BUILT}/reader-go", "./clients/go"], [f"{BUILT}/reader-go"]),
    ("python", [], [], [sys.executable, f"{READERS}/reader.py"]),
    ("python with millrace", [], [], [sys.executable, "clients/with_millrace.py"]),
)  # fmt: skip
OPTIONAL = ("java", "rust")


def run(command):
    env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "client", "python"), PYTHONDONTWRITEBYTECODE="1")
    try:
        done = subprocess.run(command, cwd=KIT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as e:
        return 1, f"{command[0]}: {e}\n"
    return done.returncode, done.stdout


def check_client(compiling, command):
    if compiling:
        code, output = run(compiling)
        if code != 0:
            return code, output
    return run([sys.executable, CHECK, "client", *command])


def works(program):
    """Returns whether a program is installed and runs: the javac of macOS only says where to get one."""
    if not shutil.which(program):
        return False
    flag = {"go": "version", "javac": "-version", "java": "-version"}.get(program, "--version")
    return program == "od" or run([program, flag])[0] == 0


def types():
    """Checks the kit with mypy and ruff, and its tables with pyarrow, if the Python environment of the tests is installed."""
    found = subprocess.run([os.path.join(ROOT, "tools", "python.sh"), "--path"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if found.returncode != 0:
        return None
    python = found.stdout.strip()
    ruff = [python, "-m", "ruff", "check", "-q", "--no-cache", ".", os.path.join(ROOT, "examples")]
    mypy = [python, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "check.py", "kit"]
    tables = [python, os.path.join(KIT, "tables", "write.py"), "--check"]
    codes, outputs = zip(*(run(command) for command in (mypy, ruff, tables)))
    return max(codes), "".join(outputs)


def main():
    words = sys.argv[1:]
    if {"-h", "--help"} & set(words):
        print(__doc__.strip())
        return 0
    start = time.monotonic()
    os.makedirs(BUILT, exist_ok=True)
    work, results, missing = [], [], []
    for name, programs, compiling, command in CLIENTS:
        absent = [p for p in programs if not works(p)]
        if absent:
            missing.append((name, ", ".join(absent)))
        else:
            work.append((f"client {name}", check_client, (compiling, command)))
    work += [("gateway", run, ([sys.executable, CHECK, "gateway"],)), ("types and style", types, ())]
    if sys.platform == "linux":
        work.append(("shared memory", run, ([sys.executable, CHECK, "shared"],)))
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 1)) as pool:
        jobs = [(name, pool.submit(do, *args)) for name, do, args in work if not words or any(w in name for w in words)]
    for name, job in jobs:
        if job.result() is None:
            missing.append((name, "the Python environment of the tests (make deps)"))
        else:
            results.append((name, *job.result()))
    failed = 0
    for name, code, output in results:
        failed += code != 0
        print(output if code != 0 else f"ok    {name}", flush=True)
    for name, absent in missing:
        needed = os.environ.get("CI") == "true" and name not in OPTIONAL
        failed += needed
        print(f"{'FAIL ' if needed else 'not run:'} {name}: not on this machine: {absent}")
    ran = ", ".join(name.replace("client ", "") for name, _, _ in results)
    total = f"{'FAIL' if failed else 'ok  '}  conformance: {len(results)} ran ({ran}), {failed} failed, {time.monotonic() - start:.0f} s"
    print(total)
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as summary:
        summary.write(total + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
