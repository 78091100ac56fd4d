#!/usr/bin/env python3
"""Counts the words of the documentation and breaches of the style in tools/prose, and compares them with their limits.

usage: prose.py            print the counts; exit 1 if one exceeds its limit, or tools/prose/counts.json
       prose.py --update   store lower counts in tools/prose/counts.json
       prose.py --list     print each breach, as FILE:LINE
"""

import collections
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNTS = ROOT / "tools/prose/counts.json"
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "examples"]
CODE = ["shuffle", "datapath", "chunkindex", "s3backend", "cluster", "gateway", "client", "internal", "cmd", "integration", "tools"]
GENERATED = {"benchmarks.md", "errors.md", "python-api.md", "dev/experiments.md", "dev/planted-bugs.md", "dev/mutation.md"}
MARK = "<!-- generated"  # the rest of the page is generated


def words(paths):
    return sum(len(path.read_text().partition(MARK)[0].split()) for path in paths)


def pages(*folders):
    docs = ROOT / "docs"
    return [p for folder in folders for p in sorted((docs / folder).glob("*.md")) if str(p.relative_to(docs)) not in GENERATED]


def help_of(*args):
    return subprocess.run(["go", "run", "./cmd/millrace", *args], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def breaches():
    """Yields (file, line, rule, text) of every breach, once."""
    command = ["go", "tool", "-modfile=tools/vale/go.mod", "vale", "--no-exit", "--output", "JSON", *PAGES, *CODE]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    for file, alerts in sorted(json.loads(done.stdout).items()):
        for alert in sorted({(a["Line"], a["Span"][0], a["Check"].rpartition(".")[2], a["Match"]) for a in alerts}):
            yield file, alert[0], alert[2], alert[3]


def limits(found):
    """Yields (what, count, limit)."""
    yield "words of README.md", words([ROOT / "README.md"]), 650
    yield "words of user pages", words(pages(".")), 39_600
    yield "words of specifications and developer pages", words(pages("spec", "dev")), 45_650
    yield "terms of the glossary", len(re.findall(r"(?m)^\| \w", (ROOT / "docs/terminology.md").read_text())) - 1, 40
    yield "lines of serve --help", len(help_of("serve", "--help").splitlines()), 40
    yield "flags of serve", len(set(re.findall(r"(?m)^ +(?:-\w, )?(--[\w-]+)", help_of("serve", "--help-all")))), 42
    user = {str(p.relative_to(ROOT)) for p in pages(".")}
    yield "sentences over 30 words in user pages", sum(b[2] == "Sentences" and b[0] in user for b in found), 20


def main(args):
    found = list(breaches())
    if "--list" in args:
        for file, line, rule, text in found:
            print(f"{file}:{line}: {rule}: {text}")
        return 0
    failed = False
    for what, count, limit in limits(found):
        over = count > limit
        failed |= over
        print(f"{count:7,} of {limit:6,} {what}{': too many' if over else ''}")
    comments = collections.Counter(b[2] for b in found if not b[0].endswith(".md"))
    print(f"{comments['Headless']} headless comments, {comments['Actors']} without an actor, {comments['Verbs']} avoided verbs: these may only fall")
    now = collections.Counter(f"{file if file.endswith('.md') else os.path.dirname(file)} {rule}" for file, _, rule, _ in found)
    stored = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    for key, count in sorted(now.items()):
        if count > stored.get(key, 0):
            print(f"{key}: {count} breaches, {stored.get(key, 0)} allowed: see tools/prose.py --list")
            failed |= COUNTS.exists()
    if "--update" in args:
        COUNTS.write_text(json.dumps(dict(sorted(now.items())), indent=1) + "\n")
        return 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
