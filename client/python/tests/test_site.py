"""The documentation site: the output of `make docs`."""

from __future__ import annotations

import html
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import harness
import pytest

import millrace
import millrace.numpy
import millrace.torch


def build(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site. Every warning is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config), "--site-dir", str(out)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=config.parent, env=quiet, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    out = tmp_path_factory.mktemp("site")
    done = build(harness.ROOT / "mkdocs.yml", out)
    assert done.returncode == 0, done.stderr
    return out


def test_every_page_is_there(site: Path) -> None:
    sources = [p.relative_to(harness.ROOT / "docs") for p in (harness.ROOT / "docs").rglob("*") if p.suffix in (".md", ".ipynb")]
    assert len(sources) > 50
    for source in sources:
        page = site / (source.parent if source.stem in ("README", "index") else source.with_suffix("")) / "index.html"
        assert page.is_file(), source


def test_no_page_names_this_machine(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert str(harness.ROOT) not in page.read_text(), page


def test_the_reference_has_every_public_name(site: Path) -> None:
    page = (site / "python-api/index.html").read_text()
    names = {name.rpartition(".")[2] for name in re.findall(r'id="(millrace\.[\w.]+)"', page)}
    assert not set(millrace.__all__) - names - {"__version__"}, "docs/python-api.md lacks them"


def test_parameters_are_lists(site: Path) -> None:
    page = (site / "python-api/index.html").read_text()
    assert re.search(r"<li>\s*<p>?<code>cache</code>: memory|<li><code>cache</code>: memory", page)


@pytest.mark.parametrize("name", ["Client.epoch", "numpy.epoch", "torch.Dataset", "torch.MapDataset", "jax.DataLoader"])
def test_the_reference_shows_every_parameter(name: str, site: Path) -> None:
    """Runs the signature on the page as Python code, and compares names, types and defaults with those of help()."""
    page = (site / "python-api/index.html").read_text()
    found = re.search(rf'id="millrace\.{name}".*?<pre>(.*?)</pre>', page, re.DOTALL)
    assert found, name
    shown: dict[str, Any] = {}
    exec(f"from __future__ import annotations\ndef {html.unescape(re.sub('(?s)<.*?>', '', found[1])).strip()}: ...", shown)
    with patch.dict(sys.modules, jax=ModuleType("jax")):  # millrace.jax imports jax, but its signatures do not use it
        importlib.import_module("millrace.jax")
    assert parameters(shown[name.rpartition(".")[2]]) == parameters(attrgetter(name)(millrace))


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(function).parameters.values() if p.name != "self"]


def test_the_reference_leads_to_pages_of_the_site(site: Path) -> None:
    page = (site / "python-api/index.html").read_text()
    assert '<a href="../spec/order/">spec/order.md</a>' in page
    assert "blob/main/docs/spec/order.md" not in page


def test_lists_and_tables_are_no_paragraphs(site: Path) -> None:
    """Python's Markdown may miss lists and tables that GitHub's Markdown recognizes."""
    for page in site.rglob("*.html"):
        for text in re.findall(r"<p>(.*?)</p>", page.read_text(), re.DOTALL):
            assert not re.search(r"\n\s*(- |\d+\. |\|)|```", text), f"{page}: {text}"


@pytest.mark.parametrize("link", ["index.md#nowhere", "nowhere.md", "../nowhere.py"])
def test_a_link_that_leads_nowhere_is_an_error(link: str, tmp_path: Path) -> None:
    """Builds a copy of the repository's pages with one additional link."""
    for path in harness.ROOT.iterdir():
        if path.name not in ("docs", "mkdocs.yml", "site"):
            (tmp_path / path.name).symlink_to(path)
    shutil.copy(harness.ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(harness.ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs/index.md").open("a") as page:
        page.write(f"\n[elsewhere]({link})\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere" in done.stderr
