"""Runs the examples of docs/frameworks.md that require packages of this environment."""

from __future__ import annotations

import re

import harness


def test_frameworks_page(gateway: harness.Gateway) -> None:
    found = re.findall(r"^```python\n(.*?)^```$", (harness.ROOT / "docs/frameworks.md").read_text(), re.M | re.S)
    assert found
    space: dict[str, object] = {"__name__": "__main__"}
    for text in found:
        exec(compile(text.replace("http://127.0.0.1:8080", gateway.url), "docs/frameworks.md", "exec"), space)
