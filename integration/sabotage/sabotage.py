#!/usr/bin/env python3
"""Plants known bugs, one at a time, in copies of the tree; the test that each plant names must notice it.

usage: sabotage.py [--check] [--afresh] [WORD...]    all plants, or those whose names hold one of the words

Each named test is run once without any plant, and must pass. Then each plant is applied, and its
test alone is run, and must fail. A plant that does not fit the source, does not compile, or names
a test that is not there or that fails by itself, is a failure of this script, by name.

--check applies nothing and runs nothing: it says which plants do not fit and which tests are not there.

Verdicts are kept in bin/sabotage.json. A run on the same tree takes them from there, so that an
interrupted run goes on where it stopped; --afresh forgets them. SABOTAGEJOBS plants are tried at
once, each in a copy of its own; as many as there are cores. PIECE=2/6 tries the second sixth of the plants.
"""

import concurrent.futures
import glob
import hashlib
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
from plants import PLANTS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STATE = os.path.join(ROOT, "bin", "sabotage.json")
JOBS = int(os.environ.get("SABOTAGEJOBS") or os.cpu_count() or 1)
PIECE, PIECES = (int(n) for n in os.environ.get("PIECE", "1/1").split("/"))
LIMIT = 120  # seconds for one test, many times what the slowest takes
NOTICED = ("noticed", "noticed: hangs")


def files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    for name in sorted(set(listed.decode().split("\0"))):
        if name and os.path.isfile(os.path.join(ROOT, name)):
            yield name


def copy_tree(target):
    for name in files():
        os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, name), os.path.join(target, name))


def digest():
    """Names all that a verdict rests on: every file that is built, or read by a test."""
    sum_ = hashlib.sha256()
    for name in files():
        if name.endswith((".go", ".mod", ".sum", ".py", ".js", ".c", ".h")) or "testdata" in name or name.startswith("integration/"):
            with open(os.path.join(ROOT, name), "rb") as f:
                sum_.update(name.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    return sum_.hexdigest()


def run(cwd, *command):
    # The short counts, whoever calls: a bug that only the long ones notice is a hole in `make test` and `make test-ci`.
    env = {k: v for k, v in os.environ.items() if k not in ("MILLRACE_LONG", "FUZZTIME")}
    done = subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    return done.returncode, done.stdout


def run_with_program(tree, cwd, *command):
    """Runs what asks the program of this tree."""
    code, output = run(tree, "go", "build", "-o", "bin/millrace", "./cmd/millrace")
    if code != 0:
        return code, f"build millrace: {output}"
    return run(cwd, *command)


def go(tree, where, *args, tests=1):
    """Runs tests of one package. The tests of the other modules build the program themselves."""
    module, _, package = where.removeprefix("./").partition("/")
    if not os.path.exists(os.path.join(tree, module, "go.mod")):
        module, package = ".", where
    return run(tree, "go", "test", "-C", module, "-vet=off", "-count=1", "-v", f"-timeout={LIMIT * tests}s", *args, "./" + package.removeprefix("./"))


def test(tree, named):
    """Runs the test that a plant names, and nothing else."""
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
    """Runs each of the tests once, without any plant, and returns what those say that do not pass."""
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
    """Says which edits have no place, or more than one."""
    for path, old, _ in edits:
        try:
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                places = f.read().count(old)
        except FileNotFoundError:
            places = 0
        if places != 1:
            yield f"{path}: {places} places read {old!r}, want 1"


def faults(chosen):
    """What is wrong with the plants themselves, by name."""
    found = {}
    for name, named, edits in chosen:
        wrong = list(misfits(edits))
        if not is_there(named):
            wrong.append(f"there is no test {named!r}")
        if wrong:
            found[name] = "; ".join(wrong)
    return found


def plant(tree, edits):
    """Applies the edits and returns what has to be written back."""
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
    """Tries one plant in the next copy of the tree that is free."""
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


def known(tree):
    """What an earlier run has found out about the same tree, by name."""
    try:
        with open(STATE, encoding="utf-8") as f:
            return {p["name"]: p for p in json.load(f) if p.get("tree") == tree and p["verdict"] in NOTICED}
    except (FileNotFoundError, ValueError):
        return {}


def store(found):
    os.makedirs(os.path.dirname(STATE), exist_ok=True)
    with open(STATE + ".new", "w", encoding="utf-8") as out:
        json.dump([found[p[0]] for p in PLANTS if p[0] in found], out, indent=1)
    os.replace(STATE + ".new", STATE)


def try_all(chosen, found, tree_digest):
    with tempfile.TemporaryDirectory(prefix="millrace-sabotage-") as scratch:
        trees = queue.Queue()
        for n in range(min(JOBS, len(chosen))):
            tree = os.path.join(scratch, str(n))
            copy_tree(tree)
            trees.put(tree)
        unsound = failing(trees.queue[0], sorted({named for _, named, _ in chosen}))
        for named, output in unsound.items():
            print(f"FAIL  {named} fails without any planted bug\n{output[-4000:]}", flush=True)
        for name, named, _ in chosen:
            if named in unsound:
                found[name] = {"name": name, "verdict": "fails by itself", "seconds": 0, "by": named}
        sound = [p for p in chosen if p[1] not in unsound]
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for done in concurrent.futures.as_completed([pool.submit(one, trees, *p) for p in sound]):
                found[done.result()["name"]] = dict(done.result(), tree=tree_digest)
                store(found)


def main():
    unknown = [w for w in sys.argv[1:] if w.startswith("-") and w not in ("--check", "--afresh")]
    if unknown:
        print(__doc__, file=sys.stdout if unknown[0] in ("-h", "--help") else sys.stderr)
        return 0 if unknown[0] in ("-h", "--help") else 2
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    chosen = [p for p in PLANTS if not words or any(w in p[0] for w in words)][PIECE - 1 :: PIECES]
    if not chosen:
        sys.exit(f"sabotage.py: no plant's name holds {' or '.join(map(repr, words))}")
    start, wrong = time.monotonic(), faults(chosen)
    for name, what in wrong.items():
        print(f"FAIL  {name}: {what}", flush=True)
    if "--check" in sys.argv:
        print(f"{'FAIL' if wrong else 'ok  '}  sabotage: {len(chosen) - len(wrong)} of {len(chosen)} plants fit, and their tests are there")
        return 1 if wrong else 0
    tree_digest = digest()
    found = {} if "--afresh" in sys.argv else known(tree_digest)
    todo = [p for p in chosen if p[0] not in found and p[0] not in wrong]
    if todo:
        try_all(todo, found, tree_digest)
    found.update({p[0]: {"name": p[0], "verdict": "does not fit", "seconds": 0, "by": p[1]} for p in chosen if p[0] in wrong})
    store(found)
    print()
    for p in (found[name] for name, *_ in chosen):
        print(f"{p['verdict']:16} {p['seconds']:>4} s  {p['name']:64} {p['by']}")
    good = sum(found[name]["verdict"] in NOTICED for name, *_ in chosen)
    earlier = len(chosen) - len(todo) - len(wrong)
    before = f", {earlier} of them by an earlier run" if earlier else ""
    total = f"{'ok  ' if good == len(chosen) else 'FAIL'}  sabotage: {good} of {len(chosen)} planted bugs noticed{before}, {time.monotonic() - start:.0f} s"
    print(total)
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as out:
        out.write(total + "\n")
    return 0 if good == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
