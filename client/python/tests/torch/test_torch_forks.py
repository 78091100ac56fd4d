"""Workers that are forked while the process reads, and the memory of a slow trainer's batches."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import harness
import pytest
from harness import LONG, without

from millrace._job import Place
from millrace.torch._places import _BEGUN, Places

HERE = Path(__file__).parent


@pytest.mark.parametrize("how", ["iterator", "client", "break", "dropped"])
def test_workers_start_while_the_process_reads(gateway: harness.Gateway, how: str) -> None:
    """crc32c is not installed here. A reader's thread that searches for it must not make forked workers hang."""
    done = subprocess.run(
        [sys.executable, str(HERE / "alive.py"), gateway.url, how, "100" if LONG else "5"],
        capture_output=True, text=True, timeout=3600 if LONG else 600, env=without("crc32c"), check=False,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_process_ends_while_threads_are_in_torch(gateway: harness.Gateway) -> None:
    """A thread that returned from C++ during interpreter exit would abort the process: exit code -6 after a successful run."""
    for _ in range(5):
        done = subprocess.run([sys.executable, str(HERE / "ends.py"), gateway.url], capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr


def test_a_forked_child_chooses_its_epoch_while_its_parent_reads() -> None:
    """The parent records its first batch just after the child has read the position that both share."""
    places = Places()
    child = os.fork()
    if child == 0:
        of_parent = places._cells

        class Late(Places):
            @property
            def begun(self) -> bool:
                found = bool(self._cells[_BEGUN])
                of_parent[_BEGUN] = 1
                return found

        places.__class__ = Late
        with contextlib.suppress(BaseException):
            places.fix(0)
            os._exit(0 if places.next == Place(0) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def slow_trainer(tmp_path: Path, workers: int) -> None:
    """14 MB of JPEG become 1.2 GB of tensors. The waiting tensors take at most 1.5 times the memory of ImageFolder's batches."""
    from PIL import Image

    r = random.Random(1)
    for i in range(2000):
        image = Image.frombytes("RGB", (32, 32), r.randbytes(3 * 32 * 32)).resize((128, 128))
        for at in (tmp_path / "folder" / str(i % 10), tmp_path / "flat"):
            at.mkdir(parents=True, exist_ok=True)
            image.save(at / f"{i:05d}.jpg", quality=85)
        (tmp_path / "flat" / f"{i:05d}.cls").write_text(str(i % 10))
    harness.run("pack", str(tmp_path / "flat"), str(tmp_path / "packed"))
    gateway = harness.Gateway(f"images={tmp_path / 'packed'}")
    with harness.closing(gateway):
        ours, theirs = (_most_memory(source, workers) for source in (gateway.url, str(tmp_path / "folder")))
    print(f"{workers} workers: {ours} KiB, ImageFolder {theirs} KiB")
    assert ours <= 1.5 * theirs


if sys.platform == "linux":  # only /proc has the sizes

    @pytest.mark.long
    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_slow_trainer(tmp_path: Path, workers: int) -> None:
        slow_trainer(tmp_path, workers)


def _most_memory(source: str, workers: int) -> int:
    """Returns the maximum KiB that a trainer and its workers use together. Shared pages count once."""
    trainer = subprocess.Popen([sys.executable, "-W", "ignore", str(HERE / "memory.py"), source, str(workers)], env=without())
    most = 0
    while trainer.poll() is None:
        most = max(most, sum(map(_memory, _tree(trainer.pid))))
        time.sleep(0.05)
    assert trainer.returncode == 0
    return most


def _tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has exited
        children = []
    return [pid, *(p for c in children for p in _tree(int(c)))]


def _memory(pid: int) -> int:
    try:
        found = re.search(r"^Pss: +(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0
