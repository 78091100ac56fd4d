"""The output of `make wheel` and `make wheels`, read without other tools: wheels with the program inside, versions, tags, equal bytes."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import harness
import pytest
from packaging.utils import parse_wheel_filename

TOOL = harness.ROOT / "tools" / "wheels.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """The tool as a module."""
    spec = importlib.util.spec_from_file_location("wheels", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_versions(tool: ModuleType) -> None:
    """Python's versions sort like Go's."""
    again = {
        "devel": "0.0.0.dev0",
        "v0.0.0-20261123150405-0123456789ab": "0.0.0.dev20261123150405",
        "v0.0.0-20261123150405-0123456789ab+dirty": "0.0.0.dev20261123150405+dirty",
        "v1.2.3": "1.2.3",
        "v1.2.3+dirty": "1.2.3+dirty",
        "v1.2.4-0.20261123150405-0123456789ab": "1.2.4.dev20261123150405",
        "v2.0.0-rc.1": "2.0.0rc1",
        "v2.0.0-rc.1.0.20261123150405-0123456789ab": "2.0.0rc2.dev20261123150405",
    }
    assert {v: tool.python_version(v) for v in again} == again
    with pytest.raises(SystemExit):
        tool.python_version("v1.2.3-beta")


def test_the_wheel_has_the_program(dist: Path, tool: ModuleType) -> None:
    wheel = harness.wheel_with_program(dist)
    name, _, _, tags = parse_wheel_filename(wheel.name)
    assert name == "millrace-data"
    assert {f"py3-none-{p}" for p in tool.PLATFORMS[harness.PLATFORM].split(".")} == {str(t) for t in tags}
    with zipfile.ZipFile(wheel) as inside:
        program = inside.getinfo("millrace/bin/millrace")
        assert program.external_attr >> 16 & 0o777 == 0o755
        described = inside.read(next(n for n in inside.namelist() if n.endswith(".dist-info/WHEEL"))).decode()
        if sys.platform == "linux":
            assert not needs_libraries(inside.read(program))
    assert "Root-Is-Purelib: false\n" in described
    with zipfile.ZipFile(next(dist.glob("*-none-any.whl"))) as pure:
        assert not [n for n in pure.namelist() if "/bin/" in n or "/scripts/" in n]


def test_the_command_without_its_package(tool: ModuleType) -> None:
    """As after `pip install --target` without PYTHONPATH."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", tool.COMMAND], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("millrace: Python does not find the package millrace: ")


def needs_libraries(program: bytes) -> bool:
    """Reports whether a 64-bit ELF file has an interpreter or dynamic linking."""
    assert program[:5] == b"\x7fELF\x02"
    (start,), (size, count) = struct.unpack_from("<Q", program, 32), struct.unpack_from("<HH", program, 54)
    return any(struct.unpack_from("<I", program, start + i * size)[0] in (2, 3) for i in range(count))


def test_builds_are_equal(dist: Path, tmp_path: Path) -> None:
    def digests(folder: Path) -> dict[str, str]:
        return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}

    assert len(digests(dist)) == 3
    assert digests(harness.build_wheels(tmp_path / "again")) == digests(dist)


READ = """
import sys, millrace, millrace._local
millrace._local.LINGER = "1s"
with millrace.open(sys.argv[1]) as data:
    print(sum(len(batch) for batch in data.epoch(0, global_batch_size=8)))
print(millrace.__version__, millrace._local._program())
"""


def copy_checkout(target: Path) -> Path:
    """Copies the repository's files in their current state."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=harness.ROOT, check=True, capture_output=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (harness.ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(harness.ROOT / name, target / name)
    return target


@pytest.mark.usefixtures("runtime")
def test_make_wheel_installs_a_package_that_reads_without_anything_else(tmp_path: Path, tool: ModuleType) -> None:
    """Runs the commands of docs/python.md outside the tests' environment, and opens a folder where no other program is installed."""
    block = re.search(r"^## Install\n.*?^```console\n(.*?)^```", (harness.ROOT / "docs/python.md").read_text(), re.M | re.S)
    assert block is not None
    fresh = tmp_path / "venv/bin"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    environment = {k: v for k, v in os.environ.items() if k not in ("MILLRACE_PROGRAM", "PYTHONPATH")}
    cache = subprocess.run(["go", "env", "GOCACHE"], check=True, capture_output=True, text=True).stdout.strip()
    building = {"GOCACHE": cache, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{fresh}:{environment['PATH']}"}
    done = subprocess.run(
        ["bash", "-euc", block[1].replace("$ ", "")],
        cwd=copy_checkout(tmp_path / "checkout"), env={**environment, **building}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "cache/millrace").exists(), "the environment of the tests was made"
    (tmp_path / "texts").mkdir()
    for i in range(100):
        (tmp_path / "texts" / f"{i:02d}.txt").write_text(f"text {i}")
    environment["PATH"] = str(tmp_path / "empty")
    command = [str(fresh / "python"), "-c", READ, str(tmp_path / "texts")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    read, (version, program) = done.stdout.splitlines()[0], done.stdout.splitlines()[1].split()
    assert read == "100"
    assert Path(program).is_relative_to(fresh.parent.resolve())
    for command in (program, str(fresh / "millrace")):
        said = json.loads(subprocess.run([command, "version", "--json"], check=True, capture_output=True, env=environment).stdout)
        assert tool.python_version(said["version"]) == version


@pytest.mark.parametrize(
    ("tool", "missing", "cure"),
    [
        ("wheel.py", {"PATH": "/nonexistent"}, "install Go, "),
        ("wheel.py", {"PIP_INDEX_URL": "http://127.0.0.1:1", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0"}, "check that pip reaches PyPI"),
        ("wheels.py", {"GOPROXY": "off", "GOMODCACHE": "/nonexistent"}, "the first build downloads Go modules"),
    ],
)
def test_make_wheel_names_culprit_and_cure(tool: str, missing: dict[str, str], cure: str, tmp_path: Path) -> None:
    command = [sys.executable, str(TOOL.with_name(tool)), *(["--out", str(tmp_path), "host"] if tool == "wheels.py" else [str(tmp_path)])]
    done = subprocess.run(command, env={**os.environ, **missing}, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(("make wheel: ", "wheels: ")), done.stderr
    assert cure in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
