"""Converts docstrings to Markdown, for mkdocstrings.

In docstrings, parameters are in two columns, for readers of help():

    source         a Client; a directory
    rank, world_size
                   found if left out

They become a list. An indented paragraph without such a name is an example, which Markdown renders as code.
The address of a page on GitHub becomes a link to the page of the site.
"""

import re

import griffe

ROW = re.compile(r"( *)(\*{0,2}[a-z_]+(?:, \*{0,2}[a-z_]+)*)(?: {2,}(\S.*))?$")
PAGE = re.compile(r"https://github\.com/millrace-data/millrace/blob/main/docs/([\w/-]+\.md)\b")


class Columns(griffe.Extension):
    """Changes every docstring after griffe has read it."""

    def on_object(self, *, obj, **_):
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(text):
    """Converts paragraphs with rows of two columns to lists."""
    return "\n\n".join(_paragraph(p) for p in text.split("\n\n"))


def _paragraph(text):
    if not text.startswith("    "):
        text = PAGE.sub(r"[\1](\1)", text)
    lines = text.split("\n")
    if not _row(lines, 0):
        return text
    items = []
    for i, line in enumerate(lines):
        found = _row(lines, i)
        if found:
            names = ", ".join(f"`{name}`" for name in found[2].split(", "))
            items.append(f"- {names}: {found[3] or ''}".rstrip())
        else:
            items.append("    " + line.strip())
    return "\n".join(items)


def _row(lines, i):
    """Finds a name and its description, in the second column or indented below."""
    found = ROW.match(lines[i])
    if found and (found[3] or (i + 1 < len(lines) and lines[i + 1].startswith(found[1] + " " * 4))):
        return found
    return None
