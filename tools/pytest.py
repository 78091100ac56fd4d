#!/usr/bin/env python3
"""Runs the tests of client/python in the environment of tools/python.sh, against bin/millrace.

usage: pytest.py [--short | --plain | --frameworks | --newest | --ray] [ARGS of pytest...]

Without ARGS it runs all tests, then the tests of torch and of forks again without the optional package crc32c, which most users do not
have. mypy and ruff are among the tests. With --frameworks it runs the tests of torch, of trainers and of the pages in the root directory of
tools/frameworks.sh: with torch 2 and current frameworks, and with the short counts. With --ray it runs the tests of JAX and Ray there,
and with --newest all of these in the root directory with torch's newest release.
With --plain it runs the tests that require no other package under the oldest and the newest CPython (tools/plain.sh), and with long
counts also under the versions between them. The totals name missing interpreters. With --short it runs these tests, and others whose
packages are installed, under the machine's own python3.
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
RAY = [f"tests/debian13/test_{name}.py" for name in ("jax", "ray", "ray_index")]
FRAMEWORKS = ["tests/torch", "tests/frameworks", "tests/debian13/test_frameworks_docs.py", "tests/debian13/test_chain.py", "tests/test_docs.py"]
ROOTS = {  # root of frameworks.sh and tests, by option
    "--frameworks": ("frameworks-test", "stable", FRAMEWORKS),
    "--ray": ("ray-test", "stable", RAY),
    "--newest": ("newest-test", "newest", FRAMEWORKS + RAY),
}
PLAIN = [
    *(f"tests/test_{name}.py" for name in ("agree", "gateways", "parts", "pool", "problems", "read", "selections", "shared", "tokens", "values")),
    "tests/test_forks.py::test_a_fork_at_every_line[plain-no-crc32c-numpy-torch]",
    "--deselect=tests/test_read.py::test_forms_that_others_read",  # requires pyarrow
]
ALSO_PLAIN = (
    "answers", "decoders", "ends", "faults", "hostile", "importance", "ledger", "local", "loopback", "proof", "tiers", "transfer",
    "transform", "waits",
)  # fmt: skip
SHORT = [
    *PLAIN,
    *(f"tests/test_{name}.py" for name in ALSO_PLAIN),
    "--deselect=tests/test_local.py::test_class_folders_stay_as_they_are",  # requires torchvision
    "--deselect=tests/test_transform.py::test_random_draws_repeat_whatever_reads",  # requires numpy
    "--deselect=tests/test_ledger.py::test_the_recipe_to_sign_a_head",  # requires ssh-keygen
]
VERSIONS = ["3.10", "3.14", *(["3.12", "3.13"] if LONG else [])]  # python.sh provides 3.11
ABSENT = 3  # exit code of plain.sh
HIDDEN = os.path.join(CLIENT, "tests", "hidden")
ONLY_LONG = "only with long counts: "  # written by client/python/tests/conftest.py
WITHOUT_CRC32C = ["tests/torch", "--ignore=tests/torch/test_torch_forks.py", "tests/test_ends.py"]  # test_torch_forks.py hides the package itself


def run(name, arguments, python=("python.sh",), notes=(), **environment):
    """Runs pytest by a script of tools, writes its totals, and reports whether all passed."""
    start = time.monotonic()
    notes = list(notes)
    with tempfile.TemporaryDirectory() as out:
        report = os.path.join(out, "report.xml")
        command = [os.path.join(ROOT, "tools", python[0]), *python[1:], "--", "-m", "pytest", "--durations=5", f"--junitxml={report}", *arguments]
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
    write("\n".join([total, *(f"      {note}" for note in notes)]))
    return not failed


def write(text):
    """Prints a text and appends it to the summary."""
    print(text)
    os.makedirs(os.path.join(ROOT, "bin"), exist_ok=True)
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as summary:
        summary.write(text + "\n")


def hiding(*packages):
    """Returns the environment of a Python that lacks packages."""
    return {"HIDDEN": ",".join(packages), "PYTHONPATH": os.pathsep.join(filter(None, [HIDDEN, os.environ.get("PYTHONPATH")]))}


def run_plain(name, versions, tests):
    good, absent = True, []
    for version in versions:
        if subprocess.run([os.path.join(ROOT, "tools", "plain.sh"), version]).returncode == ABSENT:
            absent.append(version)
            continue
        # Without torch, `import torch` would find the folder tests/torch.
        good = run(f"{name} {version}", tests, python=("plain.sh", version), MILLRACE_LONG="", **hiding("torch")) and good
    if absent:
        write(f"      {name}: this machine has no CPython {', '.join(absent)}")
    return good and len(absent) < len(versions)


def main():
    kind, rest = sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]
    if kind == "--short":
        return 0 if run_plain("python-short", ["3"], rest or SHORT) else 1
    if kind == "--plain":
        return 0 if run_plain("plain-test", VERSIONS, rest or PLAIN) else 1
    if kind in ROOTS:
        name, root, tests = ROOTS[kind]
        return 0 if run(name, rest or tests, python=("frameworks.sh", root), MILLRACE_LONG="") else 1
    good = run("python-test", sys.argv[1:])
    if not kind:
        good = run("python-test without crc32c", WITHOUT_CRC32C, **hiding("crc32c")) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
