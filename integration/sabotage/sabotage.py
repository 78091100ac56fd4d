"""Plants known bugs, one at a time, in a copy of the tree; the tests must notice each.

usage: sabotage.py [NAME...]    all plants, or those whose names hold one of the words

A plant that no longer fits the source, or that does not compile, is a failure of this
script and not a bug that was noticed: a test that fails for want of a build proves nothing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from plants import PLANTS  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 600  # seconds for one package's tests


def copy_tree(target):
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    for name in listed.decode().split("\0"):
        source = os.path.join(ROOT, name)
        if name and os.path.isfile(source):
            os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
            shutil.copy2(source, os.path.join(target, name))


def go(tree, *args):
    try:
        done = subprocess.run(
            ["go", *args], cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT
        )
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return 1, "the tests hang"


def test(tree, packages, *flags):
    """Runs the tests of some packages. "integration:NAME" is a test of the other module,
    which builds the program itself, so that go test does not know what its result rests on."""
    ours = [p for p in packages if not p.startswith("integration:")]
    code, output = go(tree, "test", *flags, *ours) if ours else (0, "")
    for package in packages:
        if code == 0 and package not in ours and not flags:
            code, output = go(tree, "test", "-C", "integration", "-count=1", "-run", package.split(":")[1], ".")
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
            raise ValueError(f"{path}: {text.count(old)} places read {old!r}, want 1")
        with open(full, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))
    return before


def one(tree, name, packages, edits):
    before = {}
    try:
        before = plant(tree, edits)
        code, output = go(tree, "build", "./...")
        if code == 0:
            code, output = test(tree, packages, "-run", "^$")
        if code != 0:
            return "does not compile", output
        code, output = test(tree, packages)
        return ("noticed", "") if code != 0 else ("NOT NOTICED", "")
    except ValueError as err:
        return "does not fit", str(err)
    finally:
        for full, text in before.items():
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)


def main():
    words = sys.argv[1:]
    chosen = [p for p in PLANTS if not words or any(w in p[0] for w in words)]
    bad = 0
    with tempfile.TemporaryDirectory(prefix="millrace-sabotage-") as tree:
        copy_tree(tree)
        clean = sorted({package for p in chosen for package in p[1]})
        code, output = test(tree, clean)
        if code != 0:
            print(output)
            print("FAIL  sabotage: the tests fail without any planted bug")
            return 1
        for name, packages, edits in chosen:
            start = time.monotonic()
            verdict, output = one(tree, name, packages, edits)
            print(f"{verdict:16} {name}  ({time.monotonic() - start:.0f} s)", flush=True)
            if verdict != "noticed":
                bad += 1
                print(output[-2000:])
    total = f"{'FAIL' if bad else 'ok  '}  sabotage: {len(chosen) - bad} of {len(chosen)} planted bugs noticed"
    print(total)
    os.makedirs(os.path.join(ROOT, "bin"), exist_ok=True)
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as out:
        out.write(total + "\n")
    return 1 if bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
