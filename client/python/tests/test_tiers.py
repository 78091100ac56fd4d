"""The tools that run the tests: in CI a skip is a failure, and nightly runs resume."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import harness
import pytest

GO_TEST = """package x
import "testing"
func TestPasses(t *testing.T) {}
func TestSkips(t *testing.T) { %s }
"""
MAKEFILE = """unit race:
	echo $@ $$MILLRACE_LONG >>ran
	test ! -e broken-$@
"""


def tool(root: Path, name: str) -> Path:
    """Copies a tool into another repository, where it writes to that repository's bin."""
    (root / "tools").mkdir(exist_ok=True)
    return Path(shutil.copy(harness.ROOT / "tools" / name, root / "tools"))


def call(program: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**{k: v for k, v in os.environ.items() if k not in ("CI", "MAKEFLAGS")}, **environment}
    command = [sys.executable, str(program), *args]
    return subprocess.run(command, cwd=program.parent.parent, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("body", "ci", "code"), [("t.Skip()", "true", 1), ("t.Skip()", "", 0), ("t.Fail()", "", 1), ("t.Fail()", "true", 1), ("", "true", 0)]
)
def test_gotest_fails_on_a_skip_in_ci(tmp_path: Path, body: str, ci: str, code: int) -> None:
    gotest = tool(tmp_path, "gotest.py")
    (tmp_path / "go.mod").write_text("module x\n")
    (tmp_path / "x_test.go").write_text(GO_TEST % body)
    done = call(gotest, "unit", ".", CI=ci)
    assert done.returncode == code, done.stdout + done.stderr
    assert (tmp_path / "bin/test-summary").read_text().startswith("FAIL" if code else "ok")


@pytest.mark.parametrize(("judged", "ci", "code"), [(9, "true", 0), (8, "true", 1), (8, "", 0)])
def test_gotest_fails_where_few_tests_were_judged(tmp_path: Path, judged: int, ci: str, code: int) -> None:
    gotest = tool(tmp_path, "gotest.py")
    (tmp_path / "go.mod").write_text("module x\n")
    said = ["judged"] * judged + ["not judged: the machine stood still"] * (10 - judged) + ["only with long counts: a load"]
    tests = (f"func Test{i}(t *testing.T) {{ t.Log({json.dumps(text)}) }}\n" for i, text in enumerate(said))
    (tmp_path / "x_test.go").write_text('package x\nimport "testing"\n' + "".join(tests))
    done = call(gotest, "unit", ".", CI=ci, RAPID_SEED="7")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = call(gotest, "--summary", CI=ci)
    assert summary.returncode == code
    for line in (f"{10 - judged} of 10 not judged", "not judged: x Test9", "only with long counts: x Test10: a load", "RAPID_SEED=7"):
        assert line in summary.stdout, summary.stdout


def test_gotest_refuses_slow_packages_that_are_not_concurrent(tmp_path: Path) -> None:
    gotest = tool(tmp_path, "gotest.py")
    (tmp_path / "go.mod").write_text("module x\n")
    (tmp_path / "x_test.go").write_text(GO_TEST % "")
    done = call(gotest, "unit", "--others")
    assert done.returncode == 1
    assert "./gateway" in done.stderr
    assert "not a concurrent package" in done.stderr


def test_nightly_resumes_at_the_same_commit(tmp_path: Path) -> None:
    nightly = tool(tmp_path, "nightly.py")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "broken-race").touch()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org"]

    def commit() -> None:
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "m"], check=True)

    def night() -> tuple[int, list[str]]:
        (tmp_path / "ran").write_text("")
        code = call(nightly, "unit", "race").returncode
        return code, (tmp_path / "ran").read_text().split("\n")[:-1]

    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "Makefile"], check=True)
    commit()
    assert night() == (1, ["unit 1", "race 1"])
    assert night() == (1, ["race 1"])
    (tmp_path / "broken-race").unlink()
    assert night() == (0, ["race 1"])
    assert night() == (0, [])
    assert "| race | ok |" in (tmp_path / "bin/nightly.md").read_text()
    (tmp_path / "Makefile").write_text(MAKEFILE + "\n")  # no commit names this tree
    for _ in range(2):
        assert night() == (0, ["unit 1", "race 1"])
    (tmp_path / "Makefile").write_text(MAKEFILE)
    commit()
    assert night() == (0, ["unit 1", "race 1"])
