#!/usr/bin/env python3
"""Builds the Python package: wheels with the program inside, a wheel without it, and an sdist.

usage: tools/python.sh -- tools/wheels.py [--out DIR] [PART...]

PART is a platform (linux/amd64, linux/arm64, darwin/amd64, darwin/arm64), `host` for this machine's, `pure` or `sdist`; without
one, all are built. `make wheel` (tools/wheel.py) builds `host` without the environment of the tests.
They go to DIR (dist), and their paths are printed. The version is the program's: Go takes it from the repository's tags.
Two builds of one commit give the same bytes; SOURCE_DATE_EPOCH sets the time of the files inside.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
UNRELEASED = "0.0.0.dev0"  # version in _version.py of a checkout

# The program is static, so that it runs with any C library and, on Linux, with kernel 3.2 or later. Go 1.26 requires macOS 12.
PLATFORMS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
}

# The `millrace` command of a wheel. It does not import the package, because that takes longer than most commands.
COMMAND = """#!python
import importlib.util
import os
import sys

package = importlib.util.find_spec("millrace")
if package is None:
    sys.exit("millrace: Python does not find the package millrace: after pip install --target DIR, set PYTHONPATH=DIR")
program = os.path.join(os.path.dirname(package.origin), "bin", "millrace")
os.execv(program, [program, *sys.argv[1:]])
"""


class ProgramWheelBuilder(WheelBuilder):
    """Builds a wheel with the program and its command inside."""

    def __init__(self, root, platform, program, command):
        super().__init__(root)
        self.inside = {
            "tag": f"py3-none-{PLATFORMS[platform]}",
            "pure_python": False,
            "force_include": {program: "millrace/bin/millrace"},
            "shared_scripts": {command: "millrace"},
        }

    def get_default_build_data(self):
        return {**super().get_default_build_data(), **self.inside}


def host():
    """Returns the platform of this machine."""
    system, machine = os.uname().sysname.lower(), os.uname().machine
    found = f"{system}/{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(machine, machine)}"
    if found not in PLATFORMS:
        raise SystemExit(f"wheels: no wheel with the program for {found}, only for {', '.join(PLATFORMS)}; build the part pure")
    return found


def build_program(platform, path):
    system, architecture = platform.split("/")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOOS": system, "GOARCH": architecture}
    # -buildvcs=auto, Go's default, gives the program its version. GOFLAGS may override it.
    command = ["go", "build", "-trimpath", "-buildvcs=auto", "-ldflags", "-s -w", "-o", path, "./cmd/millrace"]
    if subprocess.run(command, cwd=ROOT, env=environment).returncode != 0:
        raise SystemExit(f"wheels: cannot build the program for {platform}: see go's error above; the first build downloads Go modules")


def program_version(path):
    """Returns the version that `millrace version` would print, for a program of any platform."""
    said = subprocess.run(["go", "version", "-m", "-json", path], check=True, capture_output=True, text=True).stdout
    version = json.loads(said)["Main"].get("Version", "")
    return "devel" if version in ("", "(devel)") else version


def python_version(program):
    """Converts a version of Go to one of Python (PEP 440).

    After a release, Go increments the version and adds the time of the commit, which becomes a development release in Python. Go's +dirty
    remains, because package indexes refuse such versions.
    """
    if program == "devel":
        return UNRELEASED
    found = re.fullmatch(r"v(\d+\.\d+\.\d+)(?:-rc\.(\d+))?(?:[-.](?:0\.)?(\d{14})-[0-9a-f]{12})?(\+dirty)?", program)
    if found is None:
        raise SystemExit(f"wheels: the program's version {program} has no counterpart in Python")
    core, candidate, time, dirty = found.groups()
    if candidate and time:
        candidate = int(candidate) + 1  # Go's versions after rc.1 are newer than rc.1, but Python's rc1.dev versions are older
    return core + (f"rc{candidate}" if candidate else "") + (f".dev{time}" if time else "") + (dirty or "")


def copy_sources(target, version):
    """Copies the package's sources, and sets their version."""
    shutil.copytree(os.path.join(ROOT, "client", "python"), target, ignore=shutil.ignore_patterns("__pycache__", "dist", ".*_cache"))
    path = os.path.join(target, "millrace", "_version.py")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    assert text.count(f'"{UNRELEASED}"') == 1, path
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(f'"{UNRELEASED}"', f'"{version}"'))


def build(parts, out):
    """Builds the parts and yields the paths of the results."""
    with tempfile.TemporaryDirectory() as work:
        programs = {}
        for platform in [p for p in parts if p in PLATFORMS] or ["linux/amd64"]:  # at least one is needed for the version
            programs[platform] = os.path.join(work, platform.replace("/", "-"))
            build_program(platform, programs[platform])
        sources, command = os.path.join(work, "python"), os.path.join(work, "command")
        copy_sources(sources, python_version(program_version(next(iter(programs.values())))))
        with open(command, "w", encoding="utf-8") as f:
            f.write(COMMAND)
        os.chmod(command, 0o755)
        for part in parts:
            if part == "sdist":
                builder = SdistBuilder(sources)
            elif part == "pure":
                builder = WheelBuilder(sources)
            else:
                builder = ProgramWheelBuilder(sources, part, programs[part], command)
            yield from builder.build(directory=out, versions=["standard"])


def main():
    every = ["sdist", "pure", *PLATFORMS]
    choices = [*every, "host"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(ROOT, "dist"))
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(choices))
    given = parser.parse_args()
    for part in given.parts:
        if part not in choices:
            parser.error(f"{part}: not one of {', '.join(choices)}")
    for path in build([host() if part == "host" else part for part in given.parts or every], os.path.abspath(given.out)):
        print(os.path.relpath(path))


if __name__ == "__main__":
    main()
