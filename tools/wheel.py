#!/usr/bin/env python3
"""Builds the Python package's wheel for this machine, with the program inside.

usage: tools/wheel.py [DIR]

Requires Go and Python 3.10 or later. hatchling, which builds, comes from PyPI into a virtual environment that lasts as long
as the build; tools/wheels.py does the rest. The wheel goes to DIR (dist), and its path is printed.
"""

import os
import shutil
import subprocess
import sys
import tempfile

TOOLS = os.path.dirname(os.path.abspath(__file__))
PINS = os.path.join(TOOLS, "requirements-test.txt")


def run(failed, *command):
    """Runs a command. If it fails, prints its output and one line, and exits."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout.rstrip()}\nmake wheel: {failed}")


def main():
    if sys.version_info < (3, 10):  # noqa: UP036  users may have an older python3
        sys.exit(f"make wheel: {sys.executable} is Python {sys.version.split()[0]}; make a python3 of 3.10 or later the first in PATH")
    if shutil.which("go") is None:
        sys.exit("make wheel: go is not in PATH; install Go, which builds the program inside the wheel, from https://go.dev/dl")
    with tempfile.TemporaryDirectory() as work:
        python = os.path.join(work, "bin", "python")
        run("cannot make a virtual environment; on Debian and Ubuntu, install python3-venv", sys.executable, "-m", "venv", work)
        run("cannot install hatchling; check that pip reaches PyPI", python, "-m", "pip", "install", "-q", "-c", PINS, "hatchling")
        sys.exit(subprocess.run([python, os.path.join(TOOLS, "wheels.py"), "--out", *(sys.argv[1:] or ["dist"]), "host"]).returncode)


if __name__ == "__main__":
    main()
