"""Runs the examples of the READMEs and of the documentation pages about Python."""

from __future__ import annotations

import contextlib
import gc
import io
import re
from pathlib import Path

import harness
import pytest

URL = "http://127.0.0.1:8080"
NO_EXAMPLES = {"docs/python-api.md", "docs/dev/python-batch.md"}  # the first is generated from docstrings, the second is for maintainers
PAGES = sorted({str(p.relative_to(harness.ROOT)) for p in (harness.ROOT / "docs").glob("python-*.md")} - NO_EXAMPLES)
FIRST = "docs/python.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


@pytest.mark.parametrize("name", ["docs/quickstart.md", "docs/importance.md", "docs/mixtures.md", *PAGES])
def test_python(
    name: str, gateway: harness.Gateway, dataset: Path, tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch  # noqa: ARG001
) -> None:
    for place in ("photos", "shards"):
        (tmp_path / place).symlink_to(dataset)
    monkeypatch.chdir(tmp_path)
    found = blocks(harness.ROOT / name, "python")
    space: dict[str, object] = {"__name__": "__main__"}
    assert found
    for text in found:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(text.replace(URL, gateway.url), name, "exec"), space)
    space.clear()
    gc.collect()  # frees the datasets, and with them this process's leases of gateways


@pytest.mark.parametrize("name", ["README.md", "client/python/README.md", FIRST])
def test_training(name: str, images: Path, tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """Runs the training loops and other examples of the pages for newcomers, over images."""
    (tmp_path / "photos").symlink_to(images)
    monkeypatch.chdir(tmp_path)
    page = harness.ROOT / name
    space: dict[str, object] = {"__name__": "__main__"}
    for text in blocks(page, "python"):
        exec(compile(text.replace("s3://train/photos", str(tmp_path / "photos")), str(page), "exec"), space)
    assert (tmp_path / "checkpoint.pt").is_file()
    space.clear()
    gc.collect()


def test_nothing_else_is_a_command() -> None:
    for name in (FIRST, *PAGES, "client/python/README.md"):
        text = (harness.ROOT / name).read_text()
        assert set(re.findall(r"^```(\w+)$", text, re.M)) <= ({"python"} if name in PAGES else {"python", "console"})
    for name in (FIRST, "client/python/README.md"):
        lines = [line for block in blocks(harness.ROOT / name, "console") for line in block.splitlines()]
        assert all(line.startswith(("$ make wheel", "$ pip install ")) for line in lines)
