"""Hooks of mkdocs that turn the pages of docs into a site; mkdocs calls them by their names.

- A notebook becomes a page.
- A link to a file outside docs leads to the file on GitHub.
- A list after a line of text gets the empty line that Python's Markdown requires, unlike GitHub's. The content of its items is
  indented by four spaces, rather than to the item's text.
- The section of decisions lists the files of docs/adr.
"""

import json
import os
import re

from mkdocs.structure.files import File

GITHUB = "https://github.com/millrace-data/millrace/blob/main/"
ITEM = re.compile(r"(?:- |\d+\. )")
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")


def on_config(config):
    """Fills the section of decisions."""
    folder = os.path.join(config["docs_dir"], "adr")
    pages = ["adr/" + name for name in sorted(os.listdir(folder), key=lambda name: (name != "README.md", name))]
    config["nav"] = _with_decisions(config["nav"], pages)
    return config


def _with_decisions(item, pages):
    if isinstance(item, list):
        return [_with_decisions(x, pages) for x in item]
    if isinstance(item, dict):
        return {name: pages if name == "Decisions" else _with_decisions(x, pages) for name, x in item.items()}
    return item


def on_files(files, config):
    """Replaces each notebook by a page."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            page = file.src_uri.removesuffix(".ipynb") + ".md"
            files.append(File.generated(config, page, content=notebook(file.content_string, file.src_uri)))
            files.remove(file)
    return files


def notebook(text, uri):
    """Renders a notebook as Markdown: its text cells and its code."""
    out = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        out.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    out.insert(1, f"[The notebook itself]({GITHUB}docs/{uri})")
    return "\n\n".join(out) + "\n"


def on_page_markdown(markdown, *, page, config, **_):
    """Fixes links and lists of one page."""
    folder = os.path.dirname(page.file.src_uri)

    def lead(found):
        opening, target, anchor, closing = found.groups()
        path = os.path.normpath(os.path.join("docs", folder, target))
        if target.endswith(".ipynb"):
            target = target.removesuffix(".ipynb") + ".md"
        elif not path.startswith("docs" + os.sep):
            assert os.path.exists(os.path.join(os.path.dirname(config["docs_dir"]), path)), f"{page.file.src_uri}: {target}"
            target = GITHUB + path
        elif os.path.isdir(os.path.join(config["docs_dir"], os.path.relpath(path, "docs"))):
            target += "/README.md"
        return f"{opening}{target}{anchor or ''}{closing}"

    return "\n".join(_lists(markdown.split("\n"), lambda line: LINK.sub(lead, line)))


def _lists(lines, text):
    """Converts lists to the form that Python's Markdown requires, and applies text to the lines outside code."""
    fence, before = False, ""
    margin, paragraphs = 0, False  # margin: indentation of the last list item's content, if any; an item may have paragraphs
    for line in lines:
        item = None if fence else ITEM.match(line)
        if item and before.strip() and (paragraphs or not margin):
            yield ""
        if item:
            margin, paragraphs = len(item[0]), False
        elif line and not fence and not line.startswith(" "):
            margin = 0
        elif margin and line.startswith(" " * margin):
            line = " " * (4 - margin) + line
        paragraphs |= not line
        fence ^= line.lstrip().startswith("```")
        before = line if fence else text(line)
        yield before
