"""The installed package: version, wheel, sdist, types, style, the oldest Python."""

from __future__ import annotations

import ast
import builtins
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import harness
import pytest
from packaging.metadata import Metadata

import millrace

HERE = Path(millrace.__file__).parent
CLIENT = HERE.parent


def test_the_version_is_the_gateways(gateway: harness.Gateway) -> None:
    said = json.loads(harness.run("version", "--json"))["version"]
    with millrace.Client(gateway.url) as client:
        assert client.version() == said
    assert millrace.__version__ == "0.0.0.dev0"  # the version of a checkout at every release


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sources to build in."""
    shutil.copytree(CLIENT, tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__", "dist", ".*_cache"))
    return tmp_path / "python"


def test_wheel_and_sdist(copy: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", str(tmp_path), str(copy)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    wheel, sdist = next(tmp_path.glob("*.whl")), next(tmp_path.glob("*.tar.gz"))
    sources = {str(p.relative_to(CLIENT)) for p in HERE.rglob("*.py")} | {"millrace/py.typed"}
    inside = zipfile.ZipFile(wheel)
    assert {n for n in inside.namelist() if n.startswith("millrace/")} == sources
    meta = inside.read(next(n for n in inside.namelist() if n.endswith("METADATA"))).decode()
    assert Metadata.from_email(meta, validate=True).metadata_version == "2.4"  # the version that package indexes and their tools accept
    assert "Name: millrace-data\n" in meta
    assert f"Version: {millrace.__version__}\n" in meta
    assert "Requires-Python: >=3.10\n" in meta
    assert all("extra ==" in line for line in meta.splitlines() if line.startswith("Requires-Dist:"))
    licence = (harness.ROOT / "LICENSE").read_bytes()
    assert inside.read(next(n for n in inside.namelist() if n.endswith("licenses/LICENSE"))) == licence
    with tarfile.open(sdist) as t:
        names = {n.split("/", 1)[1]: n for n in t.getnames()}
        assert names.keys() - sources == {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
        assert sources <= names.keys()
        packed = t.extractfile(names["LICENSE"])
        assert packed is not None
        assert packed.read() == licence


def test_the_readme_needs_no_checkout() -> None:
    """PyPI shows only the README, so its links must be complete addresses of existing pages."""
    links = re.findall(r"\]\((.*?)\)", (CLIENT / "README.md").read_text())
    links += re.findall(r'"(https://github.com/millrace-data/.*?)"', (CLIENT / "pyproject.toml").read_text())
    pages = [link.partition("/millrace-data/millrace/blob/main/")[2] for link in links if not link.endswith("/millrace-data/millrace")]
    assert len(pages) > 4
    for page in pages:
        assert (harness.ROOT / page).is_file(), links


def test_users_are_told_the_right_name() -> None:
    """On PyPI the name millrace belongs to another project."""
    told = set()
    for path in (*HERE.rglob("*.py"), CLIENT / "README.md", harness.ROOT / "README.md", *(harness.ROOT / "docs").rglob("*.md")):
        text = path.read_text()
        names = re.findall(r"\bmillrace[\w-]*\[[a-z]\w*\]", text)
        for command in re.findall(r"pip install ([^`\n]*)", text):
            names += re.findall(r"(?<![\w./-])millrace[\w-]*(?:\[\w+\])?", command)
        assert not [n for n in names if n.partition("[")[0] != "millrace-data"], path
        told |= set(names)
    assert told >= {"millrace-data[torch]", "millrace-data[numpy]", "millrace-data[crc]"}


def test_installing_pulls_nothing_else(copy: Path, gateway: harness.Gateway, fresh: Path, tmp_path: Path) -> None:
    """Installs the sources like `pip install ./client/python`."""
    harness.pip_install(fresh, "--no-build-isolation", str(copy))
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([str(fresh / "python"), "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    assert sorted(p.name for p in Path(site).iterdir()) == ["millrace", f"millrace_data-{millrace.__version__}.dist-info"]
    code = "import millrace, sys; print(sum(map(len, millrace.Client(sys.argv[1]).epoch(0))))"
    out = subprocess.run([str(fresh / "python"), "-c", code, gateway.url], check=True, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert out.stdout == "500\n"


def test_types_and_style() -> None:
    for command in (["mypy", "--strict"], ["ruff", "check", "--no-cache", "."]):
        done = subprocess.run([sys.executable, "-m", *command], cwd=CLIENT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_files_are_of_the_oldest_python() -> None:
    for path in HERE.rglob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 10))
        assert len(path.read_text().splitlines()) < 600, path


def private(path: Path) -> bool:
    return any(part.startswith("_") for part in path.relative_to(HERE).parts if part != "__init__.py")


def test_everything_public_says_what_it_is() -> None:
    bare = []
    for path in HERE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        if not ast.get_docstring(tree):
            bare.append(str(path))
        if private(path):
            continue
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_") and not ast.get_docstring(node):
                bare.append(f"{path.name}: {node.name}")
    assert not bare


def imported(path: Path) -> set[str]:
    """Returns the package's modules that a module imports, including imports in functions and for type checking."""
    folder, found = path.relative_to(CLIENT).parent.parts, set[str]()
    for n in ast.walk(ast.parse(path.read_text())):
        if isinstance(n, ast.ImportFrom) and n.level:
            base = ".".join([*folder[: len(folder) - n.level + 1], *([n.module] if n.module else [])])
            found |= {name if name in MODULES else base for name in (f"{base}.{a.name}" for a in n.names)}
    return found


MODULES = {".".join(p.relative_to(CLIENT).with_suffix("").parts).removesuffix(".__init__"): p for p in HERE.rglob("*.py")}


def test_modules_import_each_other_in_one_direction() -> None:
    imports = {name: imported(path) for name, path in MODULES.items()}

    def reached(module: str) -> set[str]:
        seen, new = set[str](), {module}
        while new := {other for m in new for other in imports[m]} - seen:
            seen |= new
        return seen

    assert not [module for module in imports if module in reached(module)]


def test_only_http_knows_its_modules() -> None:
    for name, path in MODULES.items():
        if not name.startswith("millrace._http"):
            assert not [other for other in imported(path) if other.startswith("millrace._http.")], name


def test_five_exceptions_are_at_the_top_and_all_are_in_errors() -> None:
    from millrace import errors

    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, millrace.MillraceError)}
    assert len(kinds) > 25
    assert kinds & vars(millrace).keys() == {"MillraceError", "InvalidArgument", "NotFound", "GatewayUnavailable", "SampleError"}


def test_import_of_everything_shadows_no_builtin() -> None:
    assert not set(millrace.__all__) & vars(builtins).keys()
    assert callable(millrace.open)


def test_help_names_what_a_user_has() -> None:
    """An installed package has no docs folder, so help() must contain complete addresses of existing pages."""
    for path in HERE.rglob("*.py"):
        if private(path):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and not getattr(node, "name", "").startswith("_"):
                for before, page in re.findall(r"(\S*)docs/([\w/-]+\.md)", ast.get_docstring(node) or ""):
                    assert before.endswith("https://github.com/millrace-data/millrace/blob/main/"), (path, page)
                    assert (harness.ROOT / "docs" / page).is_file(), (path, page)


def test_cures_name_what_a_user_has() -> None:
    """Error texts must refer to no file that exists only in a checkout, and to existing pages."""
    text = "".join(path.read_text() for path in HERE.rglob("*.py"))
    assert not re.findall(r'cure=f?"[^"\n]*(?<!/)docs/[^"\n]*"', text)
    pages = re.findall(r"\{_PAGES\}/([\w-]+\.md)", text)
    assert len(pages) > 1
    for page in pages:
        title = (harness.ROOT / "docs" / page).read_text().splitlines()[0]
        assert title in ("# Forms of an answer", "# Tuning"), "the cure names the page by its title"


def test_the_page_for_maintainers_names_what_is_there() -> None:
    page = (harness.ROOT / "docs" / "dev" / "python-batch.md").read_text()
    defined = set[str]()
    for path in HERE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            defined |= {node.name} if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else set()
            if isinstance(node, ast.ClassDef):
                defined |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    functions, classes = set(re.findall(r"`([\w.]+)\(\)`", page)), set(re.findall(r"`(_?[A-Z][a-z]\w*)`", page))
    assert len(functions) > 50
    assert not (functions | classes) - defined
    for file in re.findall(r"[\w/]+\.py\b", page):
        assert (HERE / file).is_file(), file
