"""The package as it is installed: version, wheel, sdist, types, style, the oldest Python."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import harness
import pytest

import millrace

HERE = Path(millrace.__file__).parent
CLIENT = HERE.parent


def python_version(gateway: str) -> str:
    """What the Python package is called when the gateway calls itself this: PEP 440 for Go's versions.

    A build between releases is `devel`, or has a pseudo-version that ends in a time and a commit: 0.0.0.dev0 for both, since a
    package's files cannot know the commit that they are in.
    """
    core = re.fullmatch(r"v(\d+\.\d+\.\d+)(?:-rc\.(\d+))?(?:\+dirty)?", gateway)
    if core is None:
        assert gateway == "devel" or re.fullmatch(r"v.*\d{14}-[0-9a-f]{12}(\+dirty)?", gateway), gateway
        return "0.0.0.dev0"
    return core[1] + (f"rc{core[2]}" if core[2] else "")


def test_the_version_is_the_gateways(gateway: harness.Gateway) -> None:
    said = json.loads(harness.run("version", "--json"))["version"]
    with millrace.Client(gateway.url) as client:
        assert client.version() == said
    assert python_version(said) == millrace.__version__
    assert [python_version(v) for v in ("v1.2.3", "v1.2.3+dirty", "v2.0.0-rc.1", "devel")] == ["1.2.3", "1.2.3", "2.0.0rc1", "0.0.0.dev0"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sources, to build in."""
    shutil.copytree(CLIENT, tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__", "dist", ".*_cache"))
    return tmp_path / "python"


def test_wheel_and_sdist(copy: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", str(tmp_path), str(copy)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    wheel, sdist = next(tmp_path.glob("*.whl")), next(tmp_path.glob("*.tar.gz"))
    sources = {str(p.relative_to(CLIENT)) for p in HERE.rglob("*.py")} | {"millrace/py.typed"}
    inside = zipfile.ZipFile(wheel)
    assert {n for n in inside.namelist() if n.startswith("millrace/")} == sources
    meta = inside.read(next(n for n in inside.namelist() if n.endswith("METADATA"))).decode()
    assert f"Version: {millrace.__version__}\n" in meta
    assert "Requires-Python: >=3.9\n" in meta
    assert all("extra ==" in line for line in meta.splitlines() if line.startswith("Requires-Dist:"))
    with tarfile.open(sdist) as t:
        assert sources <= {n.split("/", 1)[1] for n in t.getnames()}


def test_installing_pulls_nothing_else(copy: Path, gateway: harness.Gateway, tmp_path: Path) -> None:
    """Installs the sources as `pip install ./client/python` does, without an index to pull anything from."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=120)
    fresh = tmp_path / "venv/bin"
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"  # Debian's pip is not of a venv
    pip = [str(base), "-m", "pip", "--disable-pip-version-check", "--isolated", "--python", str(fresh / "python")]
    hatchling = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}  # which pip else downloads for the time of the build
    install = [*pip, "install", "-q", "--no-index", "--no-build-isolation", str(copy)]
    subprocess.run(install, check=True, timeout=120, env=hatchling, capture_output=True)
    site = subprocess.run(
        [str(fresh / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, capture_output=True, text=True
    ).stdout.strip()
    installed = sorted(p.name for p in Path(site).iterdir())
    assert installed == ["millrace", f"millrace-{millrace.__version__}.dist-info"]
    out = subprocess.run([str(fresh / "millrace-read"), gateway.url], check=True, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert "500 samples in 16 batches" in out.stdout


def test_types_and_style() -> None:
    for command in (["mypy", "--strict"], ["ruff", "check", "--no-cache", "."]):
        done = subprocess.run([sys.executable, "-m", *command], cwd=CLIENT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_files_are_of_the_oldest_python() -> None:
    for path in HERE.rglob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 9))
        assert len(path.read_text().splitlines()) < 600, path


def test_everything_public_says_what_it_is() -> None:
    bare = []
    for path in HERE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        if not ast.get_docstring(tree):
            bare.append(str(path))
        if path.name.startswith("_") and path.name != "__init__.py":
            continue
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_") and not ast.get_docstring(node):
                bare.append(f"{path.name}: {node.name}")
    assert not bare
