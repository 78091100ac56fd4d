#!/usr/bin/env python3
"""Plants the bugs of plants/ one at a time in copies of the tree; the test that each one names must notice it.

usage: sabotage.py [--afresh] [WORD...]   try all planted bugs, or those whose names contain one of the words
       sabotage.py --check                check without running: every edit fits, every test exists, the page lists the same bugs
       sabotage.py --page                 write docs/dev/planted-bugs.md from the verdicts

Each named test runs once without a bug and must pass; then it runs with the bug and must fail. A bug that does not fit the source or does
not compile, and a test that does not exist or fails by itself, are failures by name.

bin/sabotage.json stores the verdicts. A run at the same commit, in a tree without changes, reuses them, so that an interrupted run
resumes; --afresh discards them. SABOTAGEJOBS (default: the number of cores) bugs are tried at once, each in its own copy.
"""

import argparse
import concurrent.futures
import glob
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from plants import CONTRACTS, PLANTS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STATE = os.path.join(ROOT, "bin", "sabotage.json")
JOBS = int(os.environ.get("SABOTAGEJOBS") or os.cpu_count() or 1)
PAGE = os.path.join(ROOT, "docs", "dev", "planted-bugs.md")
# seconds for one test, many times the slowest test's time on a busy machine: a slower test counts
# as hanging
LIMIT = 600
MOST = 150  # maximum number of planted bugs: contracts and several processes; mutation tests cover the rest
NOTICED = ("noticed", "noticed: hangs")
HEAD = """# Planted bugs

This page lists for maintainers the mistakes that the tests provably notice. Each bug breaks a contract that users depend on, and was planted in the
source at the commit of its row, where only the test in its row ran. [testing.md](testing.md#planted-bugs) describes how.
`integration/sabotage/run.sh --page` writes this page.

| contract | planted | noticed | not tried |
|---|---|---|---|
"""


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def commit():
    """Names the commit of a tree without changes. Verdicts of another tree are neither reused nor published."""
    return "" if git("status", "--porcelain") else git("rev-parse", "--short=12", "HEAD").strip()


def copy_tree(target):
    for name in set(git("ls-files", "-z", "-co", "--exclude-standard").split("\0")):
        if name and os.path.isfile(os.path.join(ROOT, name)):
            os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, name), os.path.join(target, name))


def run(cwd, *command):
    # Always the short counts: `make test` and `make test-ci` must notice every planted bug.
    env = {k: v for k, v in os.environ.items() if k not in ("MILLRACE_LONG", "FUZZTIME")}
    done = subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    return done.returncode, done.stdout


def run_with_program(tree, cwd, *command):
    """Builds the program of this tree and runs a command that uses it."""
    code, output = run(tree, "go", "build", "-o", "bin/millrace", "./cmd/millrace")
    if code != 0:
        return code, f"build millrace: {output}"
    return run(cwd, *command)


def go(tree, where, *args, tests=1):
    """Runs tests of one package. Tests of other modules build the program themselves."""
    module, _, package = where.removeprefix("./").partition("/")
    if not os.path.exists(os.path.join(tree, module, "go.mod")):
        module, package = ".", where
    return run(tree, "go", "test", "-C", module, "-vet=off", "-count=1", "-v", f"-timeout={LIMIT * tests}s", *args, "./" + package.removeprefix("./"))


def test(tree, named):
    """Runs only the test that a planted bug names."""
    where, name = named.split(" ", 1)
    if where == "conformance":
        return run_with_program(tree, tree, sys.executable, "tools/conformance.py", name)
    if where.endswith(".py"):
        python = os.path.join(tree, "tools", "frameworks.sh" if "/debian13/" in where else "python.sh")
        folder = os.path.join(tree, "client", "python")
        return run_with_program(tree, folder, python, "--", "-m", "pytest", os.path.relpath(where, "client/python") + "::" + name)
    return go(tree, where, "-run", "/".join(f"^{re.escape(part)}$" for part in name.split("/")))


def is_there(named):
    where, _, name = named.partition(" ")
    if where == "conformance":
        return True
    paths = glob.glob(os.path.join(ROOT, where, "*_test.go")) or glob.glob(os.path.join(ROOT, where))
    says = re.compile(r"^\s*(?:func|def) %s\(" % re.escape(re.split(r"[/\[]", name)[0]), re.M)
    for path in filter(os.path.isfile, paths):
        with open(path, encoding="utf-8") as f:
            if says.search(f.read()):
                return True
    return False


def failing(tree, tests):
    """Runs each test once without a bug. Returns the output of those that fail."""
    said, packages = {}, {}
    for named in tests:
        where, name = named.split(" ", 1)
        if where.startswith("./"):
            packages.setdefault(where, []).append(name)
            continue
        code, output = test(tree, named)
        if code != 0:
            said[named] = output
    for where, names in packages.items():
        tops = sorted({name.split("/")[0] for name in names})
        _, output = go(tree, where, "-run", f"^({'|'.join(tops)})$", tests=len(tops))
        passed = set(re.findall(r"^\s*--- PASS: (\S+) ", output, re.M))
        said.update({f"{where} {name}": output for name in names if name not in passed})
    return said


def misfits(edits):
    """Returns a fault for each edit whose text does not occur exactly once."""
    for path, old, _ in edits:
        try:
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                places = f.read().count(old)
        except FileNotFoundError:
            places = 0
        if places != 1:
            yield f"{path}: {places} occurrences of {old!r}, want 1"


def faults(chosen):
    """Returns the problems of the list itself, by name."""
    found = {}
    for name, named, edits in chosen:
        wrong = list(misfits(edits))
        if not is_there(named):
            wrong.append(f"there is no test {named!r}")
        if wrong:
            found[name] = "; ".join(wrong)
    return found


def plant(tree, edits):
    """Applies the edits. Returns the files' texts before."""
    before = {}
    for path, old, new in edits:
        full = os.path.join(tree, path)
        with open(full, encoding="utf-8") as f:
            text = f.read()
        before.setdefault(full, text)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))
    return before


def verdict(code, output):
    if code == 0:
        return "NOT NOTICED"
    if re.search(r"\[(build|setup) failed\]|^build millrace: |^ERROR |^there is no |^the Python environment", output, re.M):
        return "does not compile"
    if "panic: test timed out" in output:
        return "noticed: hangs"
    if re.search(r"^(?:\s*--- FAIL:|FAILED|FAIL ) ?\S|^(?:panic|fatal error): ", output, re.M):
        return "noticed"
    return "did not run"


def one(trees, name, named, edits):
    """Tries one bug in the next free copy of the tree."""
    tree, before, start = trees.get(), {}, time.monotonic()
    try:
        before = plant(tree, edits)
        code, output = test(tree, named)
    finally:
        for full, text in before.items():
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
        trees.put(tree)
    said, seconds = verdict(code, output), round(time.monotonic() - start)
    print(f"{said:16} {name}  ({seconds} s) {named}", flush=True)
    if said not in NOTICED:
        print(output[-2000:], flush=True)
    return {"name": name, "verdict": said, "seconds": seconds, "by": named}


def stored():
    """Returns the verdicts of the last run by name."""
    try:
        with open(STATE, encoding="utf-8") as f:
            return {row["name"]: row for row in json.load(f)}
    except (FileNotFoundError, ValueError):
        return {}


def store(found):
    os.makedirs(os.path.dirname(STATE), exist_ok=True)
    with open(STATE + ".new", "w", encoding="utf-8") as out:
        json.dump([found[p[0]] for p in PLANTS if p[0] in found], out, indent=1)
    os.replace(STATE + ".new", STATE)


def try_all(chosen, found, at):
    with tempfile.TemporaryDirectory(prefix="millrace-sabotage-") as scratch:
        trees = queue.Queue()
        for n in range(min(JOBS, len(chosen))):
            tree = os.path.join(scratch, str(n))
            copy_tree(tree)
            trees.put(tree)
        unsound = failing(trees.queue[0], sorted({named for _, named, _ in chosen}))
        for named, output in unsound.items():
            print(f"FAIL  {named} fails without a planted bug\n{output[-4000:]}", flush=True)
        for name, named, _ in chosen:
            if named in unsound:
                found[name] = {"name": name, "verdict": "fails by itself", "seconds": 0, "by": named}
        sound = [p for p in chosen if p[1] not in unsound]
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for done in concurrent.futures.as_completed([pool.submit(one, trees, *p) for p in sound]):
                found[done.result()["name"]] = dict(done.result(), commit=at)
                store(found)


def published():
    """Returns the rows of the page by name: test, verdict and commit."""
    with open(PAGE, encoding="utf-8") as f:
        return {name: tuple(rest) for name, *rest in re.findall(r"^\| (.+) \| `(.+)` \| (.+) \| (.+) \|$", f.read(), re.M)}


def write_page():
    """Writes the page. A bug that was not tried since keeps its row."""
    rows = published() if os.path.exists(PAGE) else {}
    rows.update({name: (row["by"], row["verdict"], row["commit"]) for name, row in stored().items() if row.get("commit")})
    totals, tables, sums = [], [], [0, 0, 0]
    for contract in CONTRACTS:
        heading, says = contract.__doc__.split(": ", 1)
        tables.append(f"\n## {heading}\n\n{says[0].upper()}{says[1:]}\n\n| planted bug | test | result | commit |\n|---|---|---|---|\n")
        counts = [len(contract.PLANTS), 0, 0]
        for name, named, _ in contract.PLANTS:
            by, said, at = rows.get(name, ("", "", ""))
            if by != named:
                said, at = "not tried", "none"
            counts[1] += said in NOTICED
            counts[2] += said == "not tried"
            tables.append(f"| {name} | `{named}` | {said} | {at} |\n")
        sums = [sum(pair) for pair in zip(sums, counts)]
        totals.append(f"| [{heading}](#{heading.lower().replace(' ', '-')}) | {' | '.join(map(str, counts))} |\n")
    totals.append(f"| all | {' | '.join(map(str, sums))} |\n")
    with open(PAGE, "w", encoding="utf-8") as out:
        out.write(HEAD + "".join(totals + tables))


def check_page():
    """Returns how the page differs from the list."""
    rows = published()
    if list(rows) != [name for name, *_ in PLANTS] or any(rows[name][0] != named for name, named, _ in PLANTS):
        yield "docs/dev/planted-bugs.md lists other bugs: try the new ones in a tree without changes, then run sabotage.py --page"
    if len(PLANTS) > MOST:
        yield f"{len(PLANTS)} planted bugs, want at most {MOST}"


def check(wrong):
    faulty = [*(f"{name}: {what}" for name, what in wrong.items()), *check_page()]
    for fault in faulty:
        print(f"FAIL  {fault}")
    if not faulty:
        print(f"ok    sabotage: {len(PLANTS)} planted bugs fit, their tests exist, and the page lists them")
    return 1 if faulty else 0


def report(chosen, found, earlier, seconds):
    print()
    for p in (found[name] for name, *_ in chosen):
        print(f"{p['verdict']:16} {p['seconds']:>4} s  {p['name']:72} {p['by']}")
    good = sum(found[name]["verdict"] in NOTICED for name, *_ in chosen)
    before = f", {earlier} of them by an earlier run" if earlier else ""
    total = f"{'ok  ' if good == len(chosen) else 'FAIL'}  sabotage: {good} of {len(chosen)} planted bugs noticed{before}, {seconds:.0f} s"
    print(total)
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as out:
        out.write(total + "\n")
    return 0 if good == len(chosen) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    for flag in "--check", "--page", "--afresh":
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.check:
        return check(faults(PLANTS))
    if args.page:
        return write_page()
    chosen = [p for p in PLANTS if not args.words or any(w in p[0] for w in args.words)]
    if not chosen:
        return f"sabotage.py: no name contains {' or '.join(map(repr, args.words))}"
    start, at, wrong = time.monotonic(), commit(), faults(chosen)
    found = {} if args.afresh else stored()
    known = {name for name, row in found.items() if at and row.get("commit") == at and row["verdict"] in NOTICED}
    for name, what in wrong.items():
        print(f"FAIL  {name}: {what}", flush=True)
    todo = [p for p in chosen if p[0] not in known and p[0] not in wrong]
    if todo:
        try_all(todo, found, at)
    found.update({p[0]: {"name": p[0], "verdict": "does not fit", "seconds": 0, "by": p[1]} for p in chosen if p[0] in wrong})
    store(found)
    return report(chosen, found, len(chosen) - len(todo) - len(wrong), time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
