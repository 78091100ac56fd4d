"""Runs the notebooks of docs/notebooks like their readers: in Jupyter's kernel, beginning with `pip install` of the wheel.

train.ipynb runs with data in three locations.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import nbformat
import pytest
from bucket import MinIO
from nbclient import NotebookClient

NOTEBOOKS = {name: harness.ROOT / f"docs/notebooks/{name}.ipynb" for name in ("train", "costs")}
PLACES = ("folder", "bucket", "gateway")
AGAIN = slice(2, 6)  # the cells that the notebook asks its reader to run again after the restart
PICTURES, EPOCHS, CLASSES = 1000, 4, 4
SEEN = 2 * PICTURES - 8 * 50  # samples after the checkpoint, which follows eight batches of the third epoch
MARKER = "STARTED_BY_THE_NOTEBOOK_OF"
LINGER = "import millrace._local; millrace._local.LINGER = '1s'"  # a short linger of the gateway, so that no test waits for a minute


@pytest.fixture
def kernel(fresh: Path, dist: Path, runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: ARG001
    """A kernel with torch, as on a trainer's machine, but without Millrace. pip installs the output of `make wheel`."""
    site = subprocess.run(
        [str(fresh / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, capture_output=True, text=True
    )
    Path(site.stdout.strip(), "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    # The version of Debian's torch 1.13.1 names a prerelease of 1.13, which pip considers too old.
    metadata = Path(site.stdout.strip(), "torch-1.13.1.dist-info/METADATA")
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.13.1\n")
    described = tmp_path / "jupyter/kernels/fresh"
    described.mkdir(parents=True)
    argv = [str(fresh / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (described / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "fresh", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter/run"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for variable in ("PYTHONPATH", "MILLRACE_PROGRAM"):  # they refer to the checkout
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "dist").mkdir()
    shutil.copy(harness.wheel_with_program(dist), tmp_path / "dist")
    (tmp_path / "docs/notebooks").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "docs/notebooks")
    return "fresh"


class Notebook:
    """The code cells of a notebook, in a kernel that can be restarted."""

    def __init__(self, name: str, kernel: str, marker: str) -> None:
        self._marker = marker
        self._book = nbformat.read(NOTEBOOKS[name], as_version=4)
        nbformat.validate(self._book)
        self.code = [i for i, cell in enumerate(self._book.cells) if cell.cell_type == "code"]
        self._client = NotebookClient(self._book, kernel_name=kernel, timeout=240)

    @contextlib.contextmanager
    def process(self) -> Iterator[None]:
        """Runs cells in a new kernel. All processes that the kernel starts inherit the marker."""
        with self._client.setup_kernel(env={**os.environ, MARKER: self._marker}):
            yield

    def cell(self, number: int) -> Any:
        """The code cell with this number, from 0."""
        return self._book.cells[self.code[number]]

    def run(self, number: int) -> str:
        """Runs a code cell and returns its value, or its output if it has no value."""
        cell = self._client.execute_cell(self.cell(number), self.code[number])
        texts = [str(o["data"]["text/plain"]) for o in cell.outputs if o.output_type == "execute_result"]
        return "".join(texts or [o["text"] for o in cell.outputs if o.output_type == "stream"])

    def hidden(self, text: str) -> str:
        """Runs code of the test that is not in the notebook."""
        cell = self._client.execute_cell(nbformat.v4.new_code_cell(text), 0)
        return "".join(o["text"] for o in cell.outputs if o.output_type == "stream")

    def choose(self, number: int, line: str, address: str) -> None:
        """Reduces a cell to one of its commented lines, with the given address."""
        cell = self.cell(number)
        chosen = [text for text in cell.source.splitlines() if line in text]
        assert len(chosen) == 1, chosen
        cell.source = "import millrace\n" + chosen[0].removeprefix("# ").replace(line, address)


def started(runtime: Path) -> list[str]:
    """The kernel and all of its descendants that are still running."""
    marker, found = f"{MARKER}={runtime}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker in (process / "environ").read_bytes().split(b"\0"):
                found.append(f"{process.name}: {(process / 'cmdline').read_text()[:200]!r}")
    return found


def sockets(runtime: Path) -> list[str]:
    """The Unix sockets in this test's directory."""
    return [line for line in Path("/proc/net/unix").read_text().splitlines() if str(runtime) in line]


@pytest.mark.parametrize("place", PLACES)
def test_train(place: str, kernel: str, runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as servers:
        notebook = Notebook("train", kernel, str(runtime))
        assert len(notebook.code) == 10
        move = PREPARE[place](notebook, servers, tmp_path, monkeypatch)
        with notebook.process():
            notebook.run(0)
            assert str(tmp_path / "venv") in notebook.hidden(LINGER + "; print(millrace.__file__)")
            notebook.run(1)
            move()
            for number in range(2, 7):
                notebook.run(number)
            assert float(notebook.run(7)) > 0.9, f"chance is {1 / CLASSES}"
            assert len(started(runtime)) == (1 if place == "gateway" else 2), "the kernel, and the gateway that it has started"
        with notebook.process():
            notebook.hidden(LINGER)
            for number in range(10)[AGAIN]:
                notebook.run(number)
            assert notebook.run(8) == str(SEEN)
            assert notebook.run(9) == str((SEEN, PICTURES))
    end = time.monotonic() + 30
    while left := started(runtime) + sockets(runtime):
        assert time.monotonic() < end, f"left running: {left}"
        time.sleep(0.05)


def test_costs(kernel: str, runtime: Path) -> None:
    """Balance and buckets shorten the steps and the padding, and the weighted gradient is that of one process."""
    notebook = Notebook("costs", kernel, str(runtime))
    assert len(notebook.code) == 5
    with notebook.process():
        notebook.run(0)
        notebook.hidden(LINGER)
        for number in (1, 2):
            notebook.run(number)
        printed = re.findall(r"(\w+) +spread ([\d.]+), padding (\d+)%", notebook.run(3))
        spread, padding = ({name: float(row[i]) for name, *row in printed} for i in (0, 1))
        assert list(spread) == ["neither", "balance", "bucket", "both"]
        assert spread["neither"] > 1.2 > 1.02 > max(spread["balance"], spread["both"])
        assert min(padding["neither"], padding["balance"]) > 1.5 * max(padding["bucket"], padding["both"])
        assert notebook.run(4) == "True"


def in_folder(*_: Any) -> Callable[[], None]:
    """Nothing to do for a folder."""
    return lambda: None


def in_bucket(notebook: Notebook, servers: contextlib.ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Uploads the pictures to a bucket, and removes the folder."""
    (tmp_path / "objects").mkdir()
    server = MinIO(tmp_path / "objects")
    servers.callback(server.close)
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    notebook.choose(2, "s3://bucket/photos", "s3://bucket/photos")

    def move() -> None:
        server.upload(Path("photos"), "photos")
        Path("photos").rename(tmp_path / "elsewhere")

    return move


def at_gateway(notebook: Notebook, servers: contextlib.ExitStack, tmp_path: Path, _: pytest.MonkeyPatch) -> Callable[[], None]:
    """Serves the pictures with a gateway, and moves them out of the notebook's folder."""

    def move() -> None:
        Path("photos").rename(tmp_path / "elsewhere")
        for part in ("train", "test"):
            harness.run("index", str(tmp_path / "elsewhere" / part))
        gateway = harness.Gateway(*(f"{part}={tmp_path / 'elsewhere' / part}" for part in ("train", "test")))
        servers.callback(gateway.close)
        notebook.choose(2, "http://gateway:8080", gateway.url)

    return move


PREPARE: dict[str, Callable[..., Callable[[], None]]] = dict(zip(PLACES, (in_folder, in_bucket, at_gateway)))


@pytest.mark.parametrize("at", NOTEBOOKS.values(), ids=NOTEBOOKS)
def test_notebooks_are_kept_without_outputs(at: Path) -> None:
    book = json.loads(at.read_text())
    assert at.read_text() == json.dumps(book, indent=1, ensure_ascii=False) + "\n"
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in book["cells"] if cell["cell_type"] == "code")
