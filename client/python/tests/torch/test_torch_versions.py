"""The table in docs/frameworks.md names the versions with which the tests run."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version

import harness

FILES = {
    "with Debian 12": ("requirements-test.txt", "requirements-peers.txt"),
    "with Debian 13": ("requirements-frameworks.txt",),
    "with PyPI's torch": ("requirements-frameworks.txt", "requirements-newest.txt"),
}
HERE = {(3, 13): "with Debian 13", (3, 14): "with PyPI's torch"}.get(sys.version_info[:2], "with Debian 12")


def pins(column: str) -> dict[str, str]:
    """The pinned versions of an environment. In Debian's own environment the version of torch is Debian's.

    Debian 12's torch 1.13.1 reports the version 1.13.0a0.
    """
    text = "\n".join((harness.ROOT / "tools" / name).read_text() for name in FILES[column])
    found = dict(re.findall(r"^([\w-]+)==([\w.]+)", text, re.M))
    return {**found, "torch": version("torch").partition("+")[0].replace("1.13.0a0", "1.13.1")} if column == HERE else found


def test_the_table_names_what_is_run() -> None:
    page = (harness.ROOT / "docs/frameworks.md").read_text()
    table = re.search(r"^\| framework \|.*\n(?:\|.*\n)+", page, re.M)
    assert table is not None
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines())
    assert header[2:] == list(FILES)
    named = set()
    for row in rows:
        package = row[1].strip("`")
        named.add(package)
        for column, said in zip(header[2:], row[2:]):
            found = pins(column)
            if package != "torch" or "torch" in found:
                assert said == found.get(package, ""), (package, column)
    assert named >= {"torch", "torchdata", "transformers", "lightning", "accelerate", "jax", "ray"}


def test_the_page_names_the_oldest_jax() -> None:
    oldest = re.search(r'"jax>=([\d.]+)"', (harness.ROOT / "client/python/pyproject.toml").read_text())
    assert oldest is not None
    assert f"requires JAX {oldest[1]} or later. The tests of JAX passed with {oldest[1]}.0 too" in (harness.ROOT / "docs/frameworks.md").read_text()
