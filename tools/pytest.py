#!/usr/bin/env python3
"""Runs the tests of client/python in the environment of tools/python.sh, against bin/millrace.

usage: pytest.py [ARGS of pytest...]

mypy and ruff are among the tests. The totals are appended to bin/test-summary of the repository. A skipped test is a
failure when CI=true. Exit code: 0, or 1 when anything failed.
"""

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        report = os.path.join(out, "report.xml")
        command = [os.path.join(ROOT, "tools", "python.sh"), "--", "-m", "pytest", "--durations=5", f"--junitxml={report}", *sys.argv[1:]]
        failed = subprocess.call(command, cwd=os.path.join(ROOT, "client", "python")) != 0
        counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
        if os.path.exists(report):
            for suite in xml.etree.ElementTree.parse(report).getroot():
                for name in counts:
                    counts[name] += int(suite.get(name, 0))
    bad = counts["failures"] + counts["errors"]
    passed = counts["tests"] - bad - counts["skipped"]
    failed = failed or bad > 0 or passed == 0 or (os.environ.get("CI") == "true" and counts["skipped"] > 0)
    total = (
        f"{'FAIL' if failed else 'ok  '}  python-test: {passed} passed, {bad} failed, {counts['skipped']} skipped, "
        f"{time.monotonic() - start:.0f} s"
    )
    print(total)
    os.makedirs(os.path.join(ROOT, "bin"), exist_ok=True)
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as summary:
        summary.write(total + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
