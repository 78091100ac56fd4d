#!/usr/bin/env python3
"""Runs `go test -json -vet=off ARGS` (`make vet` vets), prints failures in full and one line per package, and counts tests.

usage: gotest.py NAME [--concurrent | --others] [--plain] ARGS...
       gotest.py --summary

--concurrent runs the packages of this module that start goroutines or have mutexes or atomics outside their tests, except those that
take long under the race detector (SLOW). --others runs the remaining packages. --plain runs tests of files that race builds exclude
(//go:build !race): they have one thread, so the detector only makes them ten times slower. It also runs random tests, for which race
builds use a fourth of the seeds (internal/testing/seeds).

A skipped test is a failure when CI=true, because a skip there would go unnoticed. The totals are appended to bin/test-summary of the
repository, so that they can be shown again at the end. Lines that a test logs as "figure: ..." are written to bin/figures-NAME.json.
Exit code: 0, or 1 when anything failed.

A test that compares a measurement with a bound logs "judged", or "not judged: REASON" if the machine paused meanwhile
(integration/harness, Judge). Tests with either line can be judged. The summary lists those that were not, and the lines
"only with long counts: NAME" that tests log.

pgregory.net/rapid starts from RAPID_SEED: a constant by default, a new one with MILLRACE_LONG. The seed is printed.

--summary prints bin/test-summary. When CI=true it fails if more than a tenth of the tests that can be judged, over all steps, were not.

A package in which the race detector itself fails ("ThreadSanitizer: CHECK failed", a bug of the detector and not a race) is run
again, twice at most, and the output says so.
"""

import json
import os
import random
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BROKEN = "ThreadSanitizer: CHECK failed"
LOGGED = re.compile(r" +\S+\.go:\d+: (.*)")
CONCURRENT = re.compile(r"^\s*go (?:func\b|[\w.]+\()|\.Go\(|\bsync\.(?:RW)?Mutex\b|\bsync\.Cond\b|\batomic\.[A-Z]", re.M)
# Concurrent packages that `make race` runs under the detector.
SLOW = {"./chunkindex", "./chunkindex/build", "./chunkindex/format/webdataset", "./cmd/millrace", "./datapath/lookahead", "./gateway"}
AGAIN = 2
SEED = 1
MOST_NOT_JUDGED = 0.1  # fraction of the tests that can be judged


class Run:
    def __init__(self):
        self.output = {}  # (package, test) -> lines, until the test ends
        self.build = {}  # import path -> lines of the compiler
        self.passed = self.skipped = self.failed = self.packages = 0
        self.skips = []
        self.figures = []  # measurements of tests: package, test, text
        self.judged = {}  # package and test -> whether the test compared all measurements with its bounds
        self.long = []  # tests that run only with long counts
        self.detector = set()  # packages in which the race detector failed
        self.passes = {}  # package -> tests passed, until the package ends

    def line(self, text):
        try:
            event = json.loads(text)
        except ValueError:
            print(text, end="")
            return
        action = event.get("Action")
        if action == "build-output":
            self.build.setdefault(event.get("ImportPath"), []).append(event["Output"])
        elif action == "build-fail":
            print("".join(self.build.pop(event.get("ImportPath"), [])), end="")
        elif action == "output":
            key = (event.get("Package"), event.get("Test"))
            if BROKEN in event["Output"]:
                self.detector.add(key[0])
            self.logged(*key, event["Output"])
            self.output.setdefault(key, []).append(event["Output"])
        elif action in ("pass", "fail", "skip"):
            self.ended(event, action)

    def logged(self, package, test, line):
        """Records the lines that a test logs for the summary."""
        logged = LOGGED.match(line)
        text = logged[1] if logged else ""
        if text == "judged":
            self.judged.setdefault((package, test), True)
        elif text.startswith("not judged: "):
            self.judged[package, test] = False
        elif text.startswith("figure: "):
            self.figures.append([package, test, text.removeprefix("figure: ")])
        elif text.startswith("only with long counts: "):
            self.long.append(f"{package} {test}: {text.removeprefix('only with long counts: ')}")

    def not_judged(self):
        return [f"{package} {test}" for (package, test), judged in self.judged.items() if not judged]

    def ended(self, event, action):
        package, test = event.get("Package", "?"), event.get("Test")
        lines = self.output.pop((package, test), [])
        if test is None:
            passes = self.passes.pop(package, 0)
            if package in self.detector and action == "fail":
                for key in [k for k in self.output if k[0] == package]:
                    del self.output[key]
                print(f"again {package}: {BROKEN}", flush=True)
                return
            self.passed += passes
            self.packages += action != "skip"
            if action == "fail":
                self.failed += 1
                self.dump(package)
                print("".join(lines), end="")
            if action != "skip":
                print(f"{action:4}  {package}  {event.get('Elapsed', 0):.1f} s", flush=True)
            return
        if action == "pass":
            self.passes[package] = self.passes.get(package, 0) + 1
        elif action == "skip":
            self.skipped += 1
            self.skips.append(f"{package} {test}")
        elif package not in self.detector:
            self.failed += 1
            print("".join(lines), end="", flush=True)

    def dump(self, package):
        """Prints the output of tests that did not end because of a panic or a time-out."""
        for key in [k for k in self.output if k[0] == package]:
            lines = self.output.pop(key)
            print("".join(lines[-2000:]), end="")


def test(run, args):
    """Runs go test, and returns whether anything failed that is not a bug of the race detector."""
    failed = run.failed
    process = subprocess.Popen(
        ["go", "test", "-json", "-vet=off", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
    )
    for text in process.stdout:
        run.line(text)
    return process.wait() != 0 and (run.failed > failed or not run.detector)


def packages():
    """Yields the folders of this module that have tests, each with the texts of its files by name."""
    for folder, below, names in os.walk("."):
        below[:] = [name for name in below if name != "testdata" and not os.path.exists(os.path.join(folder, name, "go.mod"))]
        texts = {}
        for name in (name for name in names if name.endswith(".go")):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                texts[name] = f.read()
        if any(name.endswith("_test.go") for name in texts):
            yield folder, texts


def concurrent():
    """Returns the folders of --concurrent."""
    found = {folder for folder, texts in packages() if any(CONCURRENT.search(text) for name, text in texts.items() if not name.endswith("_test.go"))}
    if gone := SLOW - found:
        sys.exit(f"gotest.py: {', '.join(gone)} of SLOW: not a concurrent package")
    return found - SLOW


def unraced(texts):
    """Yields the tests of a package that race builds exclude or shorten."""
    for text in (text for name, text in texts.items() if name.endswith("_test.go")):
        whole = text.startswith("//go:build !race\n")
        for function in text.split("\nfunc ")[1:]:
            test = re.match(r"Test\w+", function)
            if test and (whole or "seeds.Range(" in function):
                yield test[0]


def choose(args):
    """Returns args with --concurrent, --others and --plain replaced by arguments of go test."""
    options = {"--concurrent", "--others", "--plain"} & set(args)
    if not options:
        return args
    folders, tests = [], set()
    raced = set() if options == {"--plain"} else concurrent()
    for folder, texts in packages():
        if ("--others" if folder in raced else "--concurrent") in options:
            continue
        chosen = set(unraced(texts))
        if chosen or "--plain" not in options:
            folders.append(folder)
            tests |= chosen
    run = ["-run", f"^({'|'.join(sorted(tests))})$"] if "--plain" in options else []
    return [*(arg for arg in args if arg not in options), *run, *sorted(folders)]


def summary():
    """Prints bin/test-summary. Returns 1 if too few tests of all steps were judged, when CI=true."""
    with open(os.path.join(ROOT, "bin", "test-summary"), encoding="utf-8") as f:
        text = f.read()
    print(text, end="")
    counts = [(int(left), int(of)) for left, of in re.findall(r" (\d+) of (\d+) not judged", text)]
    left, of = (sum(column) for column in zip(*counts)) if counts else (0, 0)
    few = left > MOST_NOT_JUDGED * of
    print(f"{'FAIL' if few else 'ok  '}  judged: {of - left} of {of} tests that compare what they measured with a bound")
    return 1 if few and os.environ.get("CI") == "true" else 0


def main():
    if sys.argv[1:] == ["--summary"]:
        return summary()
    name, args = sys.argv[1], choose(sys.argv[2:])
    run, start = Run(), time.monotonic()
    long = os.environ.get("MILLRACE_LONG")
    seed = os.environ.setdefault("RAPID_SEED", str(random.randrange(1, 1 << 63) if long else SEED))
    print(f"{name}: RAPID_SEED={seed}", flush=True)
    bad = test(run, args)
    for _ in range(AGAIN):
        if not run.detector:
            break
        packages, run.detector = sorted(run.detector), set()
        bad = test(run, [a for a in args if not a.startswith("./")] + packages) or bad
    bad = bad or bool(run.detector)
    strict = os.environ.get("CI") == "true"
    not_judged = run.not_judged()
    notes = [
        *(f"skipped: {skip}" for skip in run.skips),
        *(f"not judged: {test}" for test in not_judged),
        *(f"only with long counts: {test}" for test in run.long),
    ]
    bad = bad or run.failed or run.passed == 0 or (strict and run.skipped)
    total = (
        f"{'FAIL' if bad else 'ok  '}  {name}: {run.passed} passed, {run.failed} failed, {run.skipped} skipped, "
        + (f"{len(not_judged)} of {len(run.judged)} not judged, " if run.judged else "")
        + f"{run.packages} packages, RAPID_SEED={seed}, {time.monotonic() - start:.0f} s"
    )
    total = "\n".join([total, *(f"      {note}" for note in notes)])
    print(total)
    os.makedirs(os.path.join(ROOT, "bin"), exist_ok=True)
    with open(os.path.join(ROOT, "bin", f"figures-{name}.json"), "w", encoding="utf-8") as out:
        json.dump(run.figures, out, indent=1)
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as out:
        out.write(total + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
