"""Runs the examples of docs/python.md and of the READMEs."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import harness
import pytest

URL = "http://127.0.0.1:8080"
INSTALL = "pip install ./client/python"  # test_package.py installs it


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


@pytest.mark.parametrize("name", ["README.md", "docs/python.md", "client/python/README.md"])
def test_python(
    name: str, gateway: harness.Gateway, dataset: Path, tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch  # noqa: ARG001
) -> None:
    (tmp_path / "photos").symlink_to(dataset)
    monkeypatch.chdir(tmp_path)
    found = blocks(harness.ROOT / name, "python")
    space: dict[str, object] = {}
    assert found
    for text in found:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(text.replace(URL, gateway.url), name, "exec"), space)


def test_commands(gateway: harness.Gateway) -> None:
    ran = 0
    for block in blocks(harness.ROOT / "docs/python.md", "console"):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            if command == INSTALL:
                continue
            words = command.replace(URL, gateway.url).split()
            assert words[0] == "python"
            here = harness.ROOT / "client/python"
            done = subprocess.run([sys.executable, *words[1:]], cwd=here, capture_output=True, text=True, timeout=60, check=True)
            assert re.fullmatch(re.escape(shown).replace(r"\.\.\.", ".*"), done.stdout), done.stdout
            ran += 1
    assert ran == 1


def test_nothing_else_is_a_command() -> None:
    for name in ("docs/python.md", "client/python/README.md"):
        languages = re.findall(r"^```(\w+)$", (harness.ROOT / name).read_text(), re.M)
        assert set(languages) <= {"python", "console"}
