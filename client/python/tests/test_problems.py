"""The table of docs/dev/user-problems.md."""

from __future__ import annotations

import re

import harness
import pytest

import millrace

PAGE = harness.ROOT / "docs" / "dev" / "user-problems.md"


def test_every_test_of_the_table_is_there() -> None:
    rows = re.findall(r"^\| \d+ \|.*$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 12
    for row in rows:
        named = re.findall(r"`([\w./]+)::(\w+)`", row)
        assert named, row
        for name, test in named:
            text = (harness.ROOT / name).read_text()
            assert re.search(rf"^ *(def|func) {test}\(", text, re.MULTILINE), f"{name} has no {test}"


def test_decode_is_no_function(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as c, pytest.raises(millrace.InvalidArgument, match="want True, False, or a mapping from names of parts"):
        c.epoch(0, decode=len)  # type: ignore[arg-type]
