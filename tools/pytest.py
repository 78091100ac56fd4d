#!/usr/bin/env python3
"""Runs the tests of client/python in the environment of tools/python.sh, against bin/millrace.

usage: pytest.py [--frameworks] [ARGS of pytest...]

Without ARGS it runs all of them, then those of torch and of forks again without the optional package crc32c, which most users
do not have. mypy and ruff are among the tests. With --frameworks it runs those of torch, of trainers and of the pages, and that of JAX, which is run
nowhere else, in the root of tools/frameworks.sh: with torch 2 and current frameworks, and with the short counts. That of Ray Train,
which takes a minute or two, belongs to the long tests.
The totals are appended to bin/test-summary of the repository, with the names of the tests that run only with long counts
(MILLRACE_LONG=1): those with pytest's mark "long". A skipped test is a failure when CI=true.
Exit code: 0, or 1 when anything failed.
"""

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLIENT = os.path.join(ROOT, "client", "python")
LONG = os.environ.get("MILLRACE_LONG") == "1"
RAY = "tests/debian13/test_ray.py"
FRAMEWORKS = ["tests/torch", "tests/frameworks", "tests/debian13", "tests/test_docs.py", *([] if LONG else [f"--ignore={RAY}"])]
ONLY_LONG = "only with long counts: "  # written by client/python/tests/conftest.py
WITHOUT_CRC32C = ["tests/torch", "--ignore=tests/torch/test_torch_forks.py", "tests/test_ends.py"]  # test_torch_forks.py hides it itself


def run(name, arguments, python="python.sh", notes=(), **environment):
    start = time.monotonic()
    notes = list(notes)
    with tempfile.TemporaryDirectory() as out:
        report = os.path.join(out, "report.xml")
        command = [os.path.join(ROOT, "tools", python), "--", "-m", "pytest", "--durations=5", f"--junitxml={report}", *arguments]
        process = subprocess.Popen(command, cwd=CLIENT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, errors="replace")
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith(ONLY_LONG):
                notes.append(line.rstrip())
        failed = process.wait() != 0
        counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
        if os.path.exists(report):
            for suite in xml.etree.ElementTree.parse(report).getroot():
                for kind in counts:
                    counts[kind] += int(suite.get(kind, 0))
    bad = counts["failures"] + counts["errors"]
    passed = counts["tests"] - bad - counts["skipped"]
    failed = failed or bad > 0 or passed == 0 or (os.environ.get("CI") == "true" and counts["skipped"] > 0)
    total = (
        f"{'FAIL' if failed else 'ok  '}  {name}: {passed} passed, {bad} failed, {counts['skipped']} skipped, "
        f"{time.monotonic() - start:.0f} s"
    )
    total = "\n".join([total, *(f"      {note}" for note in notes)])
    print(total)
    os.makedirs(os.path.join(ROOT, "bin"), exist_ok=True)
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as summary:
        summary.write(total + "\n")
    return not failed


def main():
    if sys.argv[1:2] == ["--frameworks"]:
        notes = [] if LONG or sys.argv[2:] else [ONLY_LONG + RAY]
        return 0 if run("frameworks-test", sys.argv[2:] or FRAMEWORKS, python="frameworks.sh", notes=notes, MILLRACE_LONG="") else 1
    good = run("python-test", sys.argv[1:])
    if not sys.argv[1:]:
        path = os.pathsep.join(filter(None, [os.path.join(CLIENT, "tests", "hidden"), os.environ.get("PYTHONPATH")]))
        good = run("python-test without crc32c", WITHOUT_CRC32C, HIDDEN="crc32c", PYTHONPATH=path) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
