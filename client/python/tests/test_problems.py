"""The tables of docs/dev/user-problems.md."""

from __future__ import annotations

import re

import harness
import pytest

import millrace

PAGE = harness.ROOT / "docs" / "dev" / "user-problems.md"


def tables() -> list[list[str]]:
    """The rows of both tables."""
    found = [re.findall(r"^\| \d+ \|.*$", part, re.MULTILINE) for part in PAGE.read_text().split("Features of other libraries")]
    assert [len(rows) for rows in found] == [12, 15]
    return found


def test_every_test_of_the_tables_is_there() -> None:
    for row in [row for rows in tables() for row in rows]:
        named = re.findall(r"`([\w./]+)::(\w+)`", row)
        assert named or "](../adr/" in row, row
        for name, test in named:
            text = (harness.ROOT / name).read_text()
            assert re.search(rf"^ *(def|func) {test}\(", text, re.MULTILINE), f"{name} has no {test}"
        for page in re.findall(r"\]\((\.\./adr/[\w.-]+)\)", row):
            assert (PAGE.parent / page).is_file()


def test_decode_is_no_function(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as c, pytest.raises(millrace.InvalidArgument, match="want True, False, or a mapping from names of parts"):
        c.epoch(0, decode=len)  # type: ignore[arg-type]
