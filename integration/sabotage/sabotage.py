"""Plants known bugs, one at a time, in copies of the tree; the tests must notice each.

usage: sabotage.py [WORD...]    all plants, or those whose names hold one of the words

A plant that no longer fits the source, or that does not compile, is a failure of this
script and not a bug that was noticed: a test that fails for want of a build proves nothing.

What was noticed is kept in bin/sabotage.json. A run on the same tree takes it from there,
so that an interrupted run goes on where it stopped; --afresh forgets it. SABOTAGEJOBS
plants are tried at once, each in a copy of its own; as many as there are cores.
"""

import concurrent.futures
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
LIMIT = 120  # seconds for one package's tests, several times what they take
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
        if name.endswith((".go", ".mod", ".sum", ".py")) or "testdata" in name or name.startswith(("integration/", "conformance/")):
            with open(os.path.join(ROOT, name), "rb") as f:
                sum_.update(name.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    return sum_.hexdigest()


def go(tree, *args):
    # The short counts, whoever calls: a bug that only they miss is a hole in `make test`.
    env = {k: v for k, v in os.environ.items() if k not in ("MILLRACE_LONG", "FUZZTIME")}
    done = subprocess.run(
        ["go", *args], cwd=tree, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    return done.returncode, done.stdout + done.stderr


def python(tree, name):
    """Runs one file of the Python client's tests, against the program of this tree."""
    code, output = go(tree, "build", "-o", "bin/millrace", "./cmd/millrace")
    if code != 0:
        return code, f"build millrace: {output}"
    command = [os.path.join(tree, "tools", "python.sh"), "--", "-m", "pytest", "-x", os.path.join("tests", name)]
    done = subprocess.run(
        command, cwd=os.path.join(tree, "client", "python"), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    return done.returncode, done.stdout + done.stderr


def conformance(tree, word):
    """Runs one part of the conformance kit, against the program of this tree."""
    code, output = go(tree, "build", "-o", "bin/millrace", "./cmd/millrace")
    if code != 0:
        return code, f"build millrace: {output}"
    done = subprocess.run(
        [sys.executable, os.path.join(tree, "tools", "conformance.py"), word],
        cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test(tree, packages):
    """Runs the tests of some packages until one fails. "integration:NAME" is a test of the
    other module, which builds the program itself: go test does not know what it rests on.
    "python:FILE" is a file of client/python/tests, "conformance:WORD" what tools/conformance.py has of that name."""
    flags = ["-failfast", f"-timeout={LIMIT}s"]
    ours = [p for p in packages if not p.startswith(("integration:", "python:", "conformance:"))]
    code, output = go(tree, "test", *flags, *ours) if ours else (0, "")
    for package in packages:
        if code == 0 and package.startswith("python:"):
            code, output = python(tree, package.split(":")[1])
        elif code == 0 and package.startswith("conformance:"):
            code, output = conformance(tree, package.split(":")[1])
        elif code == 0 and package not in ours:
            code, output = go(tree, "test", "-C", "integration", "-count=1", *flags, "-run", package.split(":")[1], ".")
    return code, output


def plant(tree, edits):
    """Applies the edits and returns what has to be written back."""
    before = {}
    for path, old, new in edits:
        full = os.path.join(tree, path)
        with open(full, encoding="utf-8") as f:
            text = f.read()
        before.setdefault(full, text)
        if text.count(old) != 1:
            raise ValueError(f"{path}: {text.count(old)} places read {old!r}, want 1", before)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))
    return before


def verdict(code, output):
    if code == 0:
        return "NOT NOTICED", ""
    if re.search(r"\[(build|setup) failed\]|^build millrace: |^ERROR |^there is no |^the Python environment", output, re.M):
        return "does not compile", ""
    failed = re.findall(r"^(?:\s*--- FAIL:|FAILED|FAIL ) (\S+)", output, re.M)
    if "panic: test timed out" in output:
        running = re.findall(r"^\s+(Test\S+) \(", output, re.M)
        return "noticed: hangs", (failed + running + ["?"])[0]
    panicked = re.findall(r"^(?:panic|fatal error): .*$", output, re.M)
    return "noticed", (failed + panicked + ["?"])[0]


def one(trees, name, packages, edits):
    """Tries one plant in the next copy of the tree that is free."""
    tree, before, start = trees.get(), {}, time.monotonic()
    output = by = ""
    try:
        before = plant(tree, edits)
        code, output = test(tree, packages)
        said, by = verdict(code, output)
    except ValueError as err:
        said, output = "does not fit", err.args[0]
        before = err.args[1]
    finally:
        for full, text in before.items():
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
        trees.put(tree)
    print(f"{said:16} {name}  ({time.monotonic() - start:.0f} s) {by}", flush=True)
    if said not in NOTICED:
        print(output[-2000:], flush=True)
    return {"name": name, "verdict": said, "seconds": round(time.monotonic() - start), "by": by}


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
        tree = trees.get()
        code, output = test(tree, sorted({package for p in chosen for package in p[1]}))
        trees.put(tree)
        if code != 0:
            print(output[-8000:])
            print("FAIL  sabotage: the tests fail without any planted bug")
            return False
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for done in concurrent.futures.as_completed([pool.submit(one, trees, *p) for p in chosen]):
                found[done.result()["name"]] = dict(done.result(), tree=tree_digest)
                store(found)
    return True


def main():
    words = [w for w in sys.argv[1:] if w != "--afresh"]
    chosen = [p for p in PLANTS if not words or any(w in p[0] for w in words)]
    tree_digest = digest()
    found = {} if "--afresh" in sys.argv else known(tree_digest)
    start = time.monotonic()
    todo = [p for p in chosen if p[0] not in found]
    sound = not todo or try_all(todo, found, tree_digest)
    print()
    for p in (found[name] for name, *_ in chosen if name in found):
        print(f"{p['verdict']:16} {p['seconds']:>4} s  {p['name']:64} {p['by']}")
    good = sum(name in found and found[name]["verdict"] in NOTICED for name, *_ in chosen)
    bad = not sound or not chosen or good < len(chosen)
    before = f", {len(chosen) - len(todo)} of them by an earlier run" if len(todo) < len(chosen) else ""
    total = f"{'FAIL' if bad else 'ok  '}  sabotage: {good} of {len(chosen)} planted bugs noticed{before}, {time.monotonic() - start:.0f} s"
    print(total)
    os.makedirs(os.path.dirname(STATE), exist_ok=True)
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as out:
        out.write(total + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
