"""Python's literals, as messages and the headers of NumPy's files have them."""

from __future__ import annotations

import ast
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ._fork import no_fork

parsing: AbstractContextManager[Any] = no_fork if sys.version_info[:2] == (3, 11) else nullcontext()
"""Hold it where a literal is parsed. CPython 3.11 counts the depth of trees for all threads together, and raises SystemError when two parse."""


def literal(text: str) -> Any:
    """Returns the value of a literal."""
    with parsing:
        return ast.literal_eval(text)
