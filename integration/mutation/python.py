#!/usr/bin/env python3
"""Judges the tests of the Python client by mutants, and stores the scores next to those of the Go packages.

usage: tools/python.sh -- integration/mutation/python.py [--write] [PART...]

Without PART it judges all: order, proof, transfer, decode. The operators are those of mutmut. One process imports the client, runs
the tests once, and forks for each mutant: the child replaces the code of one function and runs the tests that reach the changed
statement, the fastest first. A session's gateway is shared. A stopped run resumes: bin/mutation-python-PART.json has the results
as long as modules and tests are the same. Exit code: 0, or 1 if a score is below the committed one.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import gc
import hashlib
import importlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import types
from dataclasses import dataclass, field
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT = os.path.join(ROOT, "client", "python")
PINS = os.path.join(ROOT, "tools", "requirements-mutation.txt")
MEMORY = 4 << 30
NOT_REACHED = "lives: no test of the package reaches it"
# For each part: the module, the fraction of judged mutants (1/n), and pytest's arguments for the tests that judge them. These tests start
# no process.
PARTS = {
    "order": ("proof/_orders.py", 4, ["tests/test_proof.py", "-k", "not gateway and not large"]),
    "proof": ("proof/__init__.py", 4, ["tests/test_proof.py", "-k", "not gateway and not large"]),
    "transfer": ("_http/gateways.py", 6, ["tests/test_transfer.py", "tests/test_answers.py"]),
    "decode": ("values.py", 6, ["tests/test_values.py", "tests/test_decoders.py", "tests/test_arrays.py", "-k", "not damaged"]),
}


def install() -> None:
    """Adds mutmut to the path, after the packages of the Python tests. It is installed once."""
    with open(PINS, "rb") as f:
        packages = os.path.expanduser(f"~/.cache/millrace/mutmut-{hashlib.sha256(f.read()).hexdigest()[:12]}")
    if not os.path.exists(packages):
        making = f"{packages}.{os.getpid()}"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--root-user-action", "ignore", "--no-deps"]
        subprocess.run([*pip, "--target", making, "-r", PINS], check=True)
        with contextlib.suppress(OSError):  # another process was faster
            os.rename(making, packages)
        shutil.rmtree(making, ignore_errors=True)
    sys.path.append(packages)
    sys.path.insert(0, CLIENT)


@dataclass
class Mutant:
    name: str
    function: str
    lines: range
    """Those of the changed statement, without the statements inside it."""
    change: Any


@dataclass
class Module:
    """A module of the client, and its mutants."""

    path: str
    mutants: list[Mutant] = field(default_factory=list)

    def __post_init__(self) -> None:
        import libcst
        from libcst.metadata import MetadataWrapper, PositionProvider
        from mutmut.mutation.file_mutation import MutationVisitor
        from mutmut.mutation.mutators import mutation_operators
        from mutmut.mutation.pragma_handling import IgnoredCode

        with open(self.path, encoding="utf-8") as f:
            text = f.read()
        wrapper = MetadataWrapper(libcst.parse_module(text))
        self._tree = wrapper.module
        found = MutationVisitor(mutation_operators, IgnoredCode(set(), set(), set()))
        wrapper.visit(found)
        positions = wrapper.resolve(PositionProvider)
        self._alone = {f: libcst.Module([f]) for f in self._tree.body if isinstance(f, libcst.FunctionDef)}  # each function in a separate tree
        for c in self._tree.body:
            if isinstance(c, libcst.ClassDef):
                methods = (f for f in c.body.body if isinstance(f, libcst.FunctionDef))
                self._alone |= {f: libcst.Module([c.with_changes(body=libcst.IndentedBlock([f]), decorators=())]) for f in methods}
        owners = {f: c.name.value + "." for c in self._tree.body if isinstance(c, libcst.ClassDef) for f in c.body.body}
        nodes = [s for s in ast.walk(ast.parse(text)) if isinstance(s, (ast.stmt, ast.ExceptHandler))]
        statements = {_own_lines(s): isinstance(s, ast.FunctionDef) for s in nodes}
        self._functions = [f for f in gc.get_objects() if isinstance(f, types.FunctionType) and f.__code__.co_filename == self.path]
        seen = collections.Counter[str]()
        for change in found.mutations:
            of, line = change.contained_by_top_level_function, positions[change.original_node].start.line
            lines = min((s for s in statements if line in s), key=len)
            if of not in self._alone or statements[lines]:  # a default value
                continue
            function = owners.get(of, "") + of.name.value
            was, becomes = (" ".join(self._tree.code_for_node(n).split()) for n in (change.original_node, change.mutated_node))
            name = f"{os.path.basename(self.path)} {function}: {was} -> {becomes}"
            seen[name] += 1
            self.mutants.append(Mutant(name + f" ({seen[name]})" * (seen[name] > 1), function, lines, change))

    def insert(self, mutant: Mutant) -> bool:
        """Replaces the code of the mutant's function.

        Returns False if the code is the same, for example because only a default value differs.
        """
        from mutmut.mutation.file_mutation import deep_replace

        tree = self._alone[mutant.change.contained_by_top_level_function]
        mutated = deep_replace(tree, mutant.change.original_node, mutant.change.mutated_node)
        was, becomes = (self._code(t.code, mutant.function) for t in (tree, mutated))  # type: ignore[union-attr]
        functions = [f for f in self._functions if f.__code__.co_qualname == mutant.function]
        assert functions, mutant.name
        for f in functions:
            f.__code__ = becomes
        return was != becomes

    def _code(self, text: str, function: str) -> types.CodeType:
        codes = [compile("from __future__ import annotations\n" + text, self.path, "exec", dont_inherit=True)]
        for name in function.split("."):
            codes = [c for code in codes for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name]
        (code,) = codes
        return code


def _own_lines(s: Any) -> range:
    body = getattr(s, "body", None)
    return range(s.lineno, max(body[0].lineno, s.lineno + 1) if body else s.end_lineno + 1)


def clear_caches() -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "millrace":
            for clear in [getattr(value, "cache_clear", None) for value in vars(module).values()]:
                if clear:
                    clear()


class Judge:
    """A pytest plugin that runs the tests once, and then, in a child process for each mutant, the tests that reach it."""

    def __init__(self, part: str) -> None:
        self.part = part
        name, self.sample, _ = PARTS[part]
        self.imported = importlib.import_module("millrace." + re.sub(r"(/__init__)?\.py$", "", name).replace("/", "."))
        self.module = Module(str(self.imported.__file__))
        self.mutants = [m for m in self.module.mutants if int(hashlib.sha256(m.name.encode()).hexdigest(), 16) % self.sample == 0]
        self.path = os.path.join(ROOT, "bin", f"mutation-python-{part}.json")
        self.verdicts: dict[str, str] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        files = {os.path.join(CLIENT, "tests", n) for n in ("scripted.py", "order_vectors.py")} | {str(i.path) for i in session.items}
        self.key = hashlib.sha256(b"".join(_read(f) for f in [PINS, self.module.path, *sorted(files)])).hexdigest()
        stored = json.loads(_read(self.path) or b"{}")
        if stored.get("key") == self.key:
            self.verdicts = stored["verdicts"]
        self._baseline(session)
        waiting = [m for m in self.mutants if m.name not in self.verdicts]
        found = f"{len(self.mutants)} of {len(self.module.mutants)} mutants, {len(waiting)} to judge"
        print(f"python/{self.part}: {found}, {len(self.took)} tests of {sum(self.took.values()):.1f} s", flush=True)
        gc.freeze()
        late = self._judge(session, waiting, os.cpu_count() or 1)
        self._judge(session, late, 1, patience=2)  # because the machine may have been busy
        return True

    def _judge(self, session: Any, waiting: list[Mutant], jobs: int, patience: int = 1) -> list[Mutant]:
        """Judges several mutants in parallel. Returns those that took too long; with patience these count as killed."""
        running: dict[int, Mutant] = {}
        late: list[Mutant] = []
        while waiting or running:
            if waiting and len(running) < jobs:
                mutant = waiting.pop(0)
                names = set().union(*(self.reach.get(line, ()) for line in mutant.lines))
                tests = sorted((i for i in session.items if i.nodeid in names), key=lambda i: self.took[i.nodeid])
                if not tests:
                    self.verdicts[mutant.name] = "uncovered"
                elif pid := os.fork():
                    running[pid] = mutant
                else:
                    self._child(session, mutant, tests, patience * (10 + round(5 * sum(self.took[i.nodeid] for i in tests))))
                continue
            pid, status = os.wait()
            if pid not in running:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # with all its children
            mutant, code = running.pop(pid), os.waitstatus_to_exitcode(status)
            assert code != 4, f"{mutant.name} was not judged"
            if code == -signal.SIGALRM and patience == 1:
                late.append(mutant)
                continue
            self.verdicts[mutant.name] = {0: "lived", 3: "same"}.get(code, "killed")
            if len(self.verdicts) % 20 == 0:
                self._save()
        self._save()
        return late

    def _baseline(self, session: Any) -> None:
        """Runs each test, and records its duration and the lines of the module that it reaches."""
        import coverage
        from _pytest.runner import runtestprotocol

        traced = coverage.Coverage(data_file=None, config_file=False, include=[self.module.path])
        traced.start()
        self.took: dict[str, float] = {}
        for item in session.items:
            clear_caches()
            traced.switch_context(item.nodeid)
            begun = time.monotonic()
            bad = [r for r in runtestprotocol(item, log=False, nextitem=session) if r.failed]
            assert not bad, f"{item.nodeid} fails without a mutant: {bad[0].longreprtext}"
            self.took[item.nodeid] = time.monotonic() - begun
        traced.stop()
        self.reach = {line: set(names) for line, names in traced.get_data().contexts_by_lineno(self.module.path).items()}

    def _child(self, session: Any, mutant: Mutant, tests: list[Any], limit: int) -> None:
        from _pytest.runner import runtestprotocol

        code = 4
        try:
            os.setpgid(0, 0)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            signal.alarm(limit)
            if not self.module.insert(mutant):
                os._exit(3)
            os.dup2(null, 2)
            code = 0
            for item in tests:
                clear_caches()
                if any(r.failed for r in runtestprotocol(item, log=False, nextitem=session)):
                    code = 1
                    break
        except BaseException:
            code = code or 1
            if code == 4:
                sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _save(self) -> None:
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            json.dump({"key": self.key, "verdicts": self.verdicts}, f)
        os.replace(self.path + ".new", self.path)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return b""


def report(part: str, judge: Judge, write: bool) -> bool:
    """Prints the score of a part; write also stores it. Returns False if the score has fallen."""
    path = os.path.join(ROOT, "integration", "mutation", "scores", f"python-{part}.json")
    committed = json.loads(_read(path) or b'{"survivors": [], "operators": {}}')
    reasons = {s["mutant"]: s["reason"] for s in committed["survivors"]}
    counts = dict.fromkeys(("killed", "lived", "uncovered", "equivalent"), 0)
    none, survivors = dict(counts), []
    for mutant in judge.mutants:
        result = judge.verdicts[mutant.name]
        if result in ("lived", "uncovered"):
            reason = reasons.get(mutant.name) or ("lives: not examined" if result == "lived" else NOT_REACHED)
            if mutant.name not in reasons:
                print(f"{result:9} {mutant.lines[0]}: {mutant.name}")
            survivors.append({"mutant": mutant.name, "reason": reason})
            counts["equivalent" if reason.startswith("equivalent: ") else result] += 1
        elif result == "killed":
            counts["killed"] += 1
    now, before = percent(counts), percent(committed["operators"])
    total = f"operators {', '.join(f'{n} {what}' for what, n in counts.items())}: {now:.1f} %"
    print(f"python/{part}: {total}; committed: {before:.1f} %")
    with open(os.path.join(ROOT, "bin", "test-summary"), "a", encoding="utf-8") as f:
        f.write(f"{'mutation':18} python/{part}: {total}\n")
    if write:
        commit = subprocess.check_output(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, text=True).strip()
        score = {"package": f"python/{part}", "commit": commit, "sample": judge.sample}
        score |= {"operators": counts, "dropped_statements": none, "survivors": survivors}
        with open(path, "w", encoding="utf-8") as f:
            f.write(json.dumps(score, indent=2, ensure_ascii=False) + "\n")
    return write or now >= before


def percent(counts: dict[str, int]) -> float:
    judged = sum(counts.get(key, 0) for key in ("killed", "lived", "uncovered"))
    return 100 * counts["killed"] / judged if judged else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="replace the committed scores")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}: choose of {', '.join(PARTS)}")
    if len(args.parts) != 1:  # each part in a separate process
        command = [sys.executable, __file__, *["--write"] * args.write]
        return max(subprocess.run([*command, part]).returncode for part in args.parts or PARTS)
    install()
    import pytest

    (part,) = args.parts
    judge = Judge(part)
    os.chdir(CLIENT)
    if code := pytest.main(["-q", "-s", "-p", "no:cacheprovider", *PARTS[part][2]], plugins=[judge]):
        return int(code)
    return 0 if report(part, judge, args.write) else 1


if __name__ == "__main__":
    sys.exit(main())
