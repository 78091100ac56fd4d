"""Datasets that are opened without a server: processes start gateways and share them."""

from __future__ import annotations

import importlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import harness
import pytest

import millrace
from millrace import Reading

KEYS = [f"{i:03d}" for i in range(200)]


pytestmark = pytest.mark.usefixtures("runtime")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder of small files without an index."""
    return folder(tmp_path / "texts")


def folder(at: Path) -> Path:
    at.mkdir()
    for key in KEYS:
        (at / f"{key}.txt").write_text(f"text {key}")
    return at


def read(c: millrace.Client, epoch: int = 0) -> list[str]:
    return [bytes(v).decode() for b in c.epoch(epoch, global_batch_size=16) for v in b["txt"]]


WHOLE = sorted(f"text {key}" for key in KEYS)


def wait_longer_than_gateways_linger(texts: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits until a gateway has exited that lost its last user after this call began.

    Gateways that lost their last user earlier have then exited too.
    """
    before = set(harness.gateways_at(runtime))
    with monkeypatch.context() as m:
        m.setenv("AWS_PROFILE", "another")  # requires a separate gateway
        with millrace.open(texts):
            other = set(harness.gateways_at(runtime)) - before
    assert len(other) == 1
    end = time.monotonic() + 60
    while other & set(harness.gateways_at(runtime)):
        assert time.monotonic() < end
        time.sleep(0.05)


READ = """
import sys, time, millrace, millrace._local
millrace._local.LINGER = "1s"
with millrace.open(sys.argv[1]) as c:
    n = sum(len(b) for b in c.epoch(0, global_batch_size=16))
    print(n, c.core.settings.local.directory, flush=True)
    sys.stdin.read()
"""


def another(where: Path, script: str = READ, **options: Any) -> subprocess.Popen[str]:
    """Another process that reads an epoch, prints a line, and runs until its standard input ends."""
    return subprocess.Popen([sys.executable, "-c", script, str(where)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


def test_a_folder(texts: Path, runtime: Path) -> None:
    with millrace.open(texts) as c:
        assert sorted(read(c)) == WHOLE
        assert read(c, 1) != read(c, 0)
        assert (texts / ".millrace").is_dir()
        directory = next(runtime.iterdir())
        assert directory.stat().st_mode & 0o777 == 0o700
        assert (directory / "socket").stat().st_mode & 0o777 == 0o600
    c.close()


def test_processes_share_it(texts: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight processes that start together create one index and share one gateway.

    The gateway outlives the process that started it, and exits after the last one.
    """
    made = [another(texts) for _ in range(8)]
    said = {p.stdout.readline() for p in made if p.stdout}
    assert len(said) == 1
    assert said.pop().startswith("200 ")
    assert len(harness.gateways_at(runtime)) == 1
    assert len(list((texts / ".millrace").glob("**/*.idx*")) or list((texts / ".millrace").iterdir())) > 0
    before = harness.gateways_at(runtime)
    for p in made[:7]:
        p.kill()
        p.wait()
    wait_longer_than_gateways_linger(texts, runtime, monkeypatch)
    assert harness.gateways_at(runtime) == before
    with millrace.open(texts) as c:
        assert sorted(read(c)) == WHOLE
    assert harness.gateways_at(runtime) == before
    made[7].communicate("")


def test_ctrl_c_is_not_its_matter(texts: Path, runtime: Path) -> None:
    first = another(texts, start_new_session=True)
    assert first.stdout
    assert first.stdout.readline()
    with millrace.open(texts) as c:
        before = harness.gateways_at(runtime)
        os.killpg(first.pid, signal.SIGINT)
        first.communicate()
        assert sorted(read(c)) == WHOLE
        assert harness.gateways_at(runtime) == before


@pytest.mark.usefixtures("runtime")
def test_what_cannot_be_opened_is_said_in_full(tmp_path: Path) -> None:
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for name in ("a.jpg", "b.jpg", "notes.txt"):
        (mixed / name).write_text(name)
    with pytest.raises(millrace.InvalidArgument) as e:
        millrace.open(mixed)
    assert str(e.value).startswith(f"index file://{mixed}: several kinds of objects found")
    assert f"millrace.open('{mixed}', match='*.jpg'), or match='*.txt'" in str(e.value)
    for where, said in [("", "no place is given"), (mixed / "a.jpg", "this is a file"), ("hf://x/y", 'scheme "hf": must be s3:// or file://')]:
        with pytest.raises(millrace.MillraceError, match=said) as e:
            millrace.open(where)
        assert "--help" not in str(e.value)


def test_a_killed_gateway_is_started_again(texts: Path, tmp_path: Path, runtime: Path) -> None:
    """The gateway is killed in mid-epoch, with two datasets of two clients.

    The client that first restarts it registers only its own dataset.
    """
    more = folder(tmp_path / "more")
    with millrace.open(texts, deadline=10) as a, millrace.open(more, deadline=10) as b:
        whole = read(a)
        epochs = [c.epoch(0, global_batch_size=8, reading=Reading(prefetch_bytes=0)) for c in (a, b)]
        got: list[list[str]] = []
        with epochs[0].read() as one, epochs[1].read() as two:
            for reader in (one, two):
                got.append([bytes(v).decode() for v in next(reader)["txt"]])
            for pid in harness.gateways_at(runtime):
                os.kill(pid, signal.SIGKILL)
            for some, reader in zip(got, (one, two)):
                some += [bytes(v).decode() for batch in reader for v in batch["txt"]]
        assert sorted(got[0]) == sorted(got[1]) == WHOLE
        assert read(a) == whole
        assert len(harness.gateways_at(runtime)) == 1


def test_threads_and_forks_find_a_killed_gateway(texts: Path, runtime: Path) -> None:
    with millrace.open(texts) as c:
        whole = read(c)
        for pid in harness.gateways_at(runtime):
            os.kill(pid, signal.SIGKILL)
        with ThreadPoolExecutor(8) as pool:
            assert all(got == whole for got in pool.map(lambda _: read(c), range(8)))
        pid = os.fork()
        if pid == 0:
            os._exit(0 if read(c) == whole else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(harness.gateways_at(runtime)) == 1


def test_a_forked_child_keeps_it(texts: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c = millrace.open(texts)
    whole = read(c)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(w)
        os.read(r, 1)
        os._exit(0 if read(c) == whole else 1)
    before = harness.gateways_at(runtime)
    c.close()
    wait_longer_than_gateways_linger(texts, runtime, monkeypatch)
    assert harness.gateways_at(runtime) == before
    os.close(w)
    assert os.waitpid(pid, 0)[1] == 0
    os.close(r)


def test_a_client_travels(texts: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickled client, as spawned workers receive it, also holds a lease of the gateway.

    It restarts the gateway if it has exited meanwhile.
    """
    with millrace.open(texts) as c:
        whole, packed = read(c), pickle.dumps(c)
    end = time.monotonic() + 30
    while harness.gateways_at(runtime):
        assert time.monotonic() < end
        time.sleep(0.05)
    with pickle.loads(packed) as c:
        assert read(c) == whole
        wait_longer_than_gateways_linger(texts, runtime, monkeypatch)
        assert len(harness.gateways_at(runtime)) == 1


def test_two_versions(texts: Path, tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with millrace.open(texts) as old:
        other = shutil.copy(harness.binary(), tmp_path / "other")
        monkeypatch.setenv("MILLRACE_PROGRAM", str(other))
        with millrace.open(texts) as new:
            assert read(old) == read(new)
            assert len(harness.gateways_at(runtime)) == 2


def test_other_credentials(texts: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with other credentials uses a separate gateway. Settings for other gateways have no effect."""
    with millrace.open(texts) as a:
        monkeypatch.setenv("MILLRACE_LISTEN", "0.0.0.0:80")
        with millrace.open(texts) as b:
            assert read(a) == read(b)
            assert len(harness.gateways_at(runtime)) == 1
        monkeypatch.setenv("AWS_PROFILE", "team-b")
        with millrace.open(texts) as b:
            assert read(a) == read(b)
            assert len(harness.gateways_at(runtime)) == 2


def test_a_new_index_is_found(texts: Path) -> None:
    with millrace.open(texts) as old:
        epoch = old.epoch(0, global_batch_size=16)
        (texts / "new.txt").write_text("text new")
        harness.run("index", str(texts))
        with millrace.open(texts) as new:
            assert sorted(read(new)) == sorted([*WHOLE, "text new"])
        assert sorted(bytes(v).decode() for b in epoch for v in b["txt"]) == WHOLE


def test_a_dataset_that_cannot_be_opened_is_in_nobodys_way(texts: Path, tmp_path: Path) -> None:
    with millrace.open(texts, cache="16MiB") as c:
        empty, wide = tmp_path / "empty", tmp_path / "wide"
        empty.mkdir()
        with pytest.raises(millrace.MillraceError, match="empty"):
            millrace.open(empty, cache="16MiB")
        wide.mkdir()
        (wide / "wide.jpg").write_bytes(bytes(40 << 20))
        with pytest.raises(millrace.errors.ReloadRefused, match="16 MiB is too small"):
            millrace.open(wide, cache="16MiB")
        broken = folder(tmp_path / "broken")
        harness.run("index", str(broken))
        with millrace.open(broken, cache="16MiB"):
            shutil.rmtree(broken)
        with millrace.open(folder(tmp_path / "more"), cache="16MiB") as more:
            assert sorted(read(more)) == sorted(read(c)) == WHOLE


def test_a_place_that_cannot_be_written(texts: Path, tmp_path: Path) -> None:
    """The index is stored in the user's cache directory, and found there by the next open."""
    unwritable(texts)
    try:
        # The imports come first, because the other user may lack access to this Python's library.
        nobody = "\nimport encodings.idna, os, fcntl\nif os.getuid() == 0: os.setgroups([]); os.setuid(65534)\n"
        script = READ.replace("\nmillrace._local.LINGER", nobody + "millrace._local.LINGER", 1)
        for made in (tmp_path, tmp_path / "cache", Path(os.environ["XDG_RUNTIME_DIR"])):
            made.mkdir(exist_ok=True)
            made.chmod(0o777)
        for parent in tmp_path.parents:
            if parent.stat().st_uid == os.getuid() and parent != Path("/tmp"):
                parent.chmod(0o755)
        for _ in range(2):
            p = another(texts, script)
            out, _ = p.communicate("", timeout=60)
            assert out.startswith("200 ")
        assert not (texts / ".millrace").exists()
        assert len(list((tmp_path / "cache" / "millrace" / "indexes").iterdir())) == 1
        (tmp_path / "cache").chmod(0o777)
        shutil.rmtree(tmp_path / "cache")
        (tmp_path / "cache").mkdir(0o555)
        p = another(texts, script, stderr=subprocess.PIPE)
        _, err = p.communicate("", timeout=60)
        assert "cache/millrace" in err
        assert "index=DIRECTORY) puts the index where you may write" in err
    finally:
        texts.chmod(0o755)


def unwritable(at: Path) -> None:
    at.chmod(0o555)


def test_class_folders_stay_as_they_are(tmp_path: Path, runtime: Path) -> None:
    """torchvision's ImageFolder still reads them: Millrace adds no folder."""
    for i in range(40):
        at = tmp_path / "pictures" / ("cat" if i % 4 else "dog")
        at.mkdir(parents=True, exist_ok=True)
        (at / f"{i:02d}.JPG").write_bytes(b"picture %d" % i)
    for _ in range(2):
        with millrace.open(tmp_path / "pictures") as c:
            assert sum(len(b) for b in c.epoch(0)) == 40
            assert millrace.class_names(c) == ["cat", "dog"]
    assert sorted(at.name for at in (tmp_path / "pictures").iterdir()) == ["cat", "dog"]
    assert len(list((tmp_path / "cache" / "millrace" / "indexes").iterdir())) == 1
    assert harness.gateways_at(runtime)
    folders = importlib.import_module("torchvision.datasets")
    assert folders.ImageFolder(tmp_path / "pictures").classes == ["cat", "dog"]


def test_no_space(texts: Path) -> None:
    """Without disk space the error is clear, and no process is left running."""
    script = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n" + READ
    harness.run("index", str(texts))
    p = another(texts, script, stderr=subprocess.PIPE)
    _, err = p.communicate("", timeout=60)
    assert "millrace.errors" in err
    assert "file too large" in err
    (texts / ".millrace").rename(texts.parent / "index")
    p = another(texts, script, stderr=subprocess.PIPE)
    _, err = p.communicate("", timeout=60)
    assert "millrace.errors" in err
    assert "file too large" in err


@pytest.mark.parametrize("trap", ["open to others", "a link", "a file"])
def test_a_directory_of_others_is_refused(texts: Path, runtime: Path, tmp_path: Path, trap: str) -> None:
    with millrace.open(texts):
        at = next(runtime.iterdir())
    end = time.monotonic() + 30
    while harness.gateways_at(runtime):
        assert time.monotonic() < end
        time.sleep(0.05)
    shutil.rmtree(at)
    if trap == "a file":
        at.touch()
    elif trap == "a link":
        (tmp_path / "there").mkdir(0o700)
        at.symlink_to(tmp_path / "there")
    else:
        at.mkdir()
        at.chmod(0o755)
    with pytest.raises(millrace.InvalidArgument, match="of this user only"):
        millrace.open(texts)
    assert not harness.gateways_at(runtime)


def test_a_stale_socket(texts: Path, runtime: Path) -> None:
    for _ in range(3):
        with millrace.open(texts) as c:
            assert sorted(read(c)) == WHOLE
            for pid in harness.gateways_at(runtime):
                os.kill(pid, signal.SIGKILL)


def test_faults_of_the_caller(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(millrace.NotFound, match="no such directory"):
        millrace.open(tmp_path / "nowhere")
    (tmp_path / "a,b").mkdir()
    with pytest.raises(millrace.InvalidArgument, match="comma"):
        millrace.open(tmp_path / "a,b")
    with pytest.raises(millrace.InvalidArgument, match="has its own cache"):
        millrace.open("http://localhost:1", cache="1GiB")
    with pytest.raises(millrace.InvalidArgument, match="want bytes, or a text"):
        millrace.open(texts, cache="much")
    with pytest.raises(millrace.MillraceError):
        millrace.open("gopher://x/y")
    monkeypatch.setenv("MILLRACE_PROGRAM", "/nowhere/millrace")
    with pytest.raises(millrace.InvalidArgument, match="/nowhere/millrace is not there"):
        millrace.open(texts)
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(millrace.InvalidArgument, match="WSL"):
        millrace.open(texts)


def test_caches_are_settings(texts: Path, tmp_path: Path) -> None:
    with millrace.open(texts, cache="64MiB", disk_cache=(tmp_path / "disk", 1 << 28)) as c:
        assert sorted(read(c)) == WHOLE
        stats = c.json("GET", "/v1/stats")
        assert 64 << 20 in numbers(stats)
        assert any((tmp_path / "disk").iterdir())


def numbers(value: Any) -> Iterator[int]:
    """All numbers in JSON."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for v in value:
            yield from numbers(v)
    elif isinstance(value, (int, float)):
        yield int(value)


def test_an_address_of_a_gateway_is_taken_as_it_is(gateway: harness.Gateway, runtime: Path) -> None:
    with millrace.open(gateway.url) as c:
        assert len(c.epoch(0)) > 0
    assert not list(runtime.iterdir())
