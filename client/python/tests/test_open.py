"""Arguments of millrace.open: forms of an address, options of the index, and files that changed after indexing."""

from __future__ import annotations

import json
import logging
import os
import shutil
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import harness
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_local import KEYS, WHOLE, folder, read

import millrace
from millrace import _indexing
from millrace._indexing import Failure, Wanted
from millrace._local import Local, is_gateway, served

pytestmark = pytest.mark.usefixtures("runtime")

BUCKET = "s3://pics/shapes"
HTTP = "http://gw:8080"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return folder(tmp_path / "texts")


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Pictures and a note: a folder that requires a choice before indexing."""
    at = tmp_path / "mixed"
    at.mkdir()
    for name in ("a.jpg", "b.jpg", "notes.txt"):
        (at / name).write_text(f"content of {name}")
    return at


def parts_of(c: millrace.Client) -> list[str]:
    return sorted(bytes(v).decode() for b in c.epoch(0) for s in b for v in s.values())


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (f"{BUCKET}/", BUCKET), ("S3://pics/shapes//", BUCKET), (f"{BUCKET}/#train", f"{BUCKET}#train"),
        (f"{BUCKET}/?endpoint=http://h:1/", f"{BUCKET}?endpoint=http://h:1/"), (f"{BUCKET}/,index=S3://mine/idx/", f"{BUCKET},index=s3://mine/idx"),
        ("HF://x/y", "hf://x/y"),
    ],
)
def test_one_spelling_of_a_bucket(given: str, address: str) -> None:
    assert Wanted(given).address == address


def test_one_spelling_of_a_directory(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(texts.parent)
    (texts.parent / "a b").mkdir()
    for given in (str(texts), "texts", "./texts/", f"file://{texts}/", f"FILE://{texts}"):
        assert Wanted(given).address == str(texts)
    assert Wanted(f"file://{texts.parent}/a%20b#train").address == f"{texts.parent}/a b#train"
    for one in (Wanted("texts", place="idx"), Wanted(f"file://{texts},index=file://{texts.parent}/idx"), Wanted("texts,index=./idx/")):
        assert one.address == f"{texts},index={texts.parent}/idx"


def files(at: Path, **contents: bytes) -> Path:
    at.mkdir()
    for name, body in contents.items():
        (at / name.replace("_", ".")).write_bytes(body)
    return at


MEGATRON = b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, 8, 0, 0, 1)
NPY = b"\x93NUMPY\1\0\x76\0" + b"{'descr': '<u2', 'fortran_order': False, 'shape': (8,), }".ljust(117) + b"\n" + bytes(16)
TEXT = {"a_txt": b"a"}


@pytest.mark.parametrize(
    ("contents", "where", "options", "said"),
    [
        (TEXT, None, {}, "open None: this is no address; give a directory"),
        (TEXT, ["data"], {}, r"open \['data'\]: this is no address; several folders are millrace.mix"),
        (TEXT, "", {}, "open '': no place is given; give a directory"),
        (TEXT, "{}/a.txt", {}, r"this is a file; give the directory: millrace.open\('{}', match='a.txt'\)$"),
        (TEXT, "{}/*.jpg", {}, r"this is a pattern; give the directory: millrace.open\('{}', match='\*.jpg'\)$"),
        (TEXT, "{}/s-{{0000..0004}}.tar", {}, r"this is a pattern; give the directory: millrace.open\('{}', match='s-\*.tar'\)$"),
        (TEXT, "{}/{{train,val}}/*.tar", {}, r"give the directory: millrace.open\('{}', match='{{train,val}}/\*.tar'\)$"),
        (TEXT, "s3://pics/p/*.parquet", {}, r"give the prefix: millrace.open\('s3://pics/p', match='\*.parquet'\)$"),
        (TEXT, "s3://pics/p/s-{{00..04}}.tar?profile=a", {}, r"give the prefix: millrace.open\('s3://pics/p', match='s-\*.tar'\)$"),
        (TEXT, "s3:/pics/shapes", {}, "a URL has two slashes; write s3://pics/shapes$"),
        (TEXT, "http:/gw:8080", {}, "a URL has two slashes; write http://gw:8080$"),
        (TEXT, "{}", {"index": "s3:/b"}, "open s3:/b: a URL has two slashes; write s3://b$"),
        (TEXT, "{}", {"format": "jpeg"}, '^format "jpeg": must be one of [^;-]*$'),
        (TEXT, "{}", {"index": 3}, "open 3: this is no address"),
        (TEXT, "{}", {"cache": "4GBs"}, "^cache='4GBs': want bytes, or a text such as '512MiB' or '2GB'$"),
        (TEXT, "{}", {"cache": True}, "^cache=True: want bytes"), (TEXT, "{}", {"cache": 1.5}, r"^cache=1.5: want bytes"),
        (TEXT, "{}", {"disk_cache": ("/d", "lots")}, r"^disk_cache=\('/d', 'lots'\): want a directory and its size.*; write disk_cache=\('/nvme"),
        (TEXT, "{}", {"disk_cache": "/d"}, "^disk_cache='/d': want a directory and its size"),
        ({"a_txt": bytes(3 << 20)}, "{}", {"cache": "1MiB"}, r"^open {}: cache: 1.0 MiB is too small: must be at least 10 MiB: the largest"),
        (TEXT, "{}", {"cache": 1000}, "^open {}: cache must be at least 1MiB, not 1000 B$"),
        (TEXT, "{}", {"disk_cache": ("/d", 7)}, "^open {}: disk_cache must be at least 1MiB, not 7 B$"),
        (TEXT, "{}", {"match": 3}, "^match=3: want a text$"), (TEXT, "{}", {"format": b"tar"}, "^format=b'tar': want a text$"),
        (TEXT, "{}", {"split": 3}, "^split=3: want a text$"), (TEXT, "{}", {"reindex": "maybe"}, "^reindex='maybe': want True or False$"),
        (TEXT, "{}", {"sequence_length": "x"}, "^sequence_length='x': want a whole number, 1 or more$"),
        (TEXT, "{}", {"dtype": 3}, "^dtype=3: want a type's name such as 'uint16', or a type of NumPy's or torch's$"),
        (TEXT, "{}", {"fields": 3}, "^fields=3: want names of parts"), (TEXT, "s3:///p", {}, "no bucket: must be s3://bucket/prefix$"),
        ({"a_parquet": b""}, "{}", {}, "object a.parquet has no bytes: remove it, or upload it again$"),
        ({"a_jpg": b""}, "{}", {}, r"object a.jpg has no bytes; millrace.open\('{}', match='!a.jpg'\)$"),
        ({"a_bin": bytes(16), "a_idx": MEGATRON}, "{}", {}, r"a.idx, an index of Megatron, .*; millrace.open\('{}', sequence_length=1024\)$"),
        ({"a_npy": NPY}, "{}", {}, r"a.npy is an array of one dimension.*; millrace.open\('{}', sequence_length=1024\), or format='records'$"),
        ({"a_bin": bytes(16)}, "{}", {}, r"format of a.bin cannot be.*; millrace.open\('{}', dtype='uint16', sequence_length=1024\); otherwise set"),
        ({"a_bin": bytes(16)}, "{}", {"sequence_length": 4}, r"does not define .*; millrace.open\('{}', dtype='uint16', sequence_length=4\), or"),
        ({"a_bin": bytes(16)}, "{}", {"sequence_length": 4, "dtype": "foo"}, 'dtype "foo": must be a type in NumPy\'s notation, such as "uint16"'),
        ({"a_bin": bytes(16)}, "{}", {"sequence_length": 4, "dtype": "<f9"}, 'object a.bin: dtype "<f9": must be a type in NumPy'),
    ],
)
def test_a_mistake_in_open_names_the_culprit_and_the_cure(
    contents: dict[str, bytes], where: Any, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    at = files(tmp_path / "data", **contents)
    given = where.format(at) if isinstance(where, str) else where
    with pytest.raises(millrace.InvalidArgument, match=said.format(at)) as e:
        millrace.open(given, **options)
    assert "\n" not in str(e.value)


def test_an_index_that_can_be_put_nowhere_wants_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of class folders is stored in the user's cache directory."""
    for name in ("cat", "dog"):
        files(tmp_path / name, a_jpg=b"x")
    place = tmp_path / "file"
    place.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for name in ("cat", "dog"):
        (tmp_path / name).rename(pictures / name)
    with pytest.raises(millrace.errors.ReadOnly, match=rf"; millrace.open\('{pictures}', index=DIRECTORY\) puts the index where you may write$"):
        millrace.open(pictures)
    with millrace.open(pictures, index=tmp_path / "index") as c:
        assert c.describe()["samples"] == 2


def test_addresses_of_gateways() -> None:
    for given in (HTTP, "HTTPS://gw", "gw:8080", "gw:8080/photos", "unix:/run/s", "dns:gw:8080"):
        assert is_gateway(given)
    for given in (BUCKET, "./data", "/a:1/b", "c4#train"):
        assert not is_gateway(given)
    for given in (f"{HTTP}/photos", f"{HTTP}/photos/", "gw:8080/photos", f"{HTTP}/v1/datasets/photos"):
        assert served(given, None) == (HTTP, "photos")
    assert served(HTTP, None) == (HTTP, None)
    assert served(f"{HTTP}/proxy", "photos") == (f"{HTTP}/proxy", "photos")


def test_a_dataset_of_a_gateway_by_its_address(gateway: harness.Gateway, texts: Path) -> None:
    with millrace.open(f"{gateway.url}/photos") as c:
        assert c.describe()["name"] == "photos"
    with pytest.raises(millrace.NotFound, match="nothing"):
        millrace.open(f"{gateway.url}/nothing").describe()
    with pytest.raises(millrace.InvalidArgument, match="'mine' is a name at a gateway"):
        millrace.open(texts, dataset="mine")
    with pytest.raises(millrace.InvalidArgument, match="its own indexes"):
        millrace.open(gateway.url, match="*.jpg")


def test_an_index_elsewhere(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the address that `millrace index` prints, and the same as two arguments.

    The error for the index's own directory suggests the right call.
    """
    monkeypatch.chdir(tmp_path)
    harness.run("index", "texts", "--index-url", "idx")
    names = set()
    for where, index in ((f"file://{texts},index=file://{tmp_path}/idx", ""), ("texts", "idx")):
        with millrace.open(where, index=index) as c:
            assert sorted(read(c)) == WHOLE
            names.add(c.core.settings.local and c.core.settings.local.name)
    assert len(names) == 1
    with pytest.raises(millrace.MillraceError, match=f"this is the index of file://{texts}: open file://{texts},index=file://{tmp_path}/idx"):
        millrace.open("./idx")
    with millrace.open("texts", index="fresh") as c:
        assert sorted(read(c)) == WHOLE
    assert (tmp_path / "fresh/.millrace/current").is_file()
    assert not (texts / ".millrace").exists()


def test_options_of_the_index(mixed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each set of options has a separate index, so no index replaces another."""
    with pytest.raises(millrace.InvalidArgument, match=r"several kinds") as e:
        millrace.open(mixed)
    assert str(e.value).endswith(f"`, or millrace.open('{mixed}', match='*.jpg'), or match='*.txt', or format='files'")
    assert "has no index yet" not in capfd.readouterr().err  # nothing was read
    pictures = ["content of a.jpg", "content of b.jpg"]
    with millrace.open(mixed, match="*.jpg") as a, millrace.open(mixed, match="*.txt") as b:
        assert parts_of(a) == pictures
        assert parts_of(b) == ["content of notes.txt"]
    assert capfd.readouterr().err.count("has no index yet") == 2
    with millrace.open(mixed, match="*.jpg") as a:
        assert parts_of(a) == pictures
    assert "has no index yet" not in capfd.readouterr().err
    with pytest.raises(millrace.InvalidArgument, match=r"several kinds"):  # as if there were no index: that index would be the default one
        millrace.open(mixed)
    with pytest.raises(millrace.InvalidArgument, match="the address names an index"):
        millrace.open(f"{mixed}#train", match="*.jpg")


def test_the_default_index_is_made_beside_those_of_options(texts: Path) -> None:
    """If users have named indexes, one of them may be meant."""
    with millrace.open(texts, match="0*.txt") as few, millrace.open(texts) as c:
        assert len(read(few)) == 100
        assert sorted(read(c)) == WHOLE
    (texts / ".millrace/current").unlink()
    harness.run("index", f"{texts}#mine-12345678")
    with pytest.raises(millrace.NotFound, match=rf"millrace.open\('{texts}#"):
        millrace.open(texts)
    assert not (texts / ".millrace/current").exists()


def test_a_slip_is_refused_before_data_are_read(texts: Path) -> None:
    for slip, said in ({"mach": "*.jpg"}, r"mach is no parameter here; did you mean match\?"), ({"dedline": 3}, r"did you mean deadline\?"):
        with pytest.raises(millrace.InvalidArgument, match=said):
            millrace.open(texts, **slip)
    with pytest.raises(millrace.InvalidArgument, match=r"no parameter here; say fields="):
        millrace.open(HTTP, columns="jpg")
    assert not (texts / ".millrace").exists()
    with millrace.open(texts, deadline=30, headers={"x": "y"}) as c:
        assert c.core.settings.deadline == 30


def test_tokens(tmp_path: Path) -> None:
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens/train.bin").write_bytes(struct.pack("<65H", *range(65)))
    with pytest.raises(millrace.MillraceError, match=r"millrace\.open\(") as refused:  # the suggested call names no option twice
        millrace.open(tmp_path / "tokens", dtype="uint16")
    assert str(refused.value).partition("millrace.open(")[2].count("dtype=") == 1
    for length, samples in ((16, 4), (32, 2)):
        with millrace.open(tmp_path / "tokens", sequence_length=length, dtype="uint16") as c:
            assert c.describe()["samples"] == samples


def test_the_type_of_tokens_may_be_one_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens/train.bin").write_bytes(struct.pack("<65i", *range(65)))
    with millrace.open(tmp_path / "tokens", sequence_length=16, dtype=torch.int32) as c:
        assert c.describe()["samples"] == 4


def changes(caplog: pytest.LogCaptureFixture) -> str:
    said = " ".join(r.getMessage() for r in caplog.records if "files have changed" in r.getMessage())
    caplog.clear()
    return said


def test_files_that_come_and_go(texts: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next open reports the changes, and reindexes if asked to."""
    (texts / "README.md").write_text("no sample")
    caplog.set_level(logging.WARNING, "millrace")
    with millrace.open(texts, match="*.txt") as first:
        with millrace.open(texts, match="*.txt") as c:
            assert sorted(read(c)) == WHOLE
        assert not changes(caplog)
        time.sleep(0.05)
        (texts / "new.txt").write_text("text new")
        os.utime(texts / "new.txt", (1e9, 1e9))  # like a copy that preserves the file's time
        (texts / "new.md").write_text("no sample either")
        (texts / "000.txt").unlink()
        with millrace.open(texts, match="*.txt"):
            said = changes(caplog)
            assert f"{texts}: " in said
            assert ": 1 new (such as new.txt), 1 gone (such as 000.txt). " in said
            assert "reindex=True" in said
        with millrace.open(texts, match="*.txt", reindex=True) as c:
            assert not changes(caplog)
            assert sorted(read(c)) == sorted([*WHOLE[1:], "text new"])
        assert len(first.epoch(0)) > 0
    with millrace.open(texts, match="*.txt"):
        assert not changes(caplog)


def test_class_folders_that_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The index is stored in the user's cache, and a text file among the images is no sample."""
    for i in range(30):
        at = tmp_path / "pictures" / ("cat" if i % 3 else "dog")
        at.mkdir(parents=True, exist_ok=True)
        (at / f"{i}.jpg").write_text(f"picture {i}")
    (at / "notes.txt").write_text("no picture")
    with millrace.open(tmp_path / "pictures") as c:
        assert sum(len(b) for b in c.epoch(0)) == 30
    with millrace.open(tmp_path / "pictures"):
        assert not changes(caplog)
    time.sleep(0.05)
    (at / "new.jpg").write_text("picture new")
    with millrace.open(tmp_path / "pictures"):
        assert ": 1 new (such as cat/new.jpg). " in changes(caplog)


def test_a_copy_is_told(texts: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    harness.run("index", str(texts))
    shutil.copytree(texts, tmp_path / "copy")
    with millrace.open(tmp_path / "copy"):
        assert f"{len(KEYS)} rewritten or copied (such as 000.txt)" in changes(caplog)
    with millrace.open(tmp_path / "copy", reindex=True) as c:
        assert not changes(caplog)
        assert sorted(read(c)) == WHOLE


def test_files_that_the_index_left_out_are_not_new(texts: Path, caplog: pytest.LogCaptureFixture) -> None:
    harness.run("index", str(texts), "--match", "0*.txt")
    with millrace.open(texts) as c:
        assert len(read(c)) == 100
    assert not changes(caplog)


def test_errors_say_where_to_look(texts: Path) -> None:
    with millrace.open(texts) as c:
        (texts / "007.txt").unlink()
        with pytest.raises(millrace.MillraceError) as e:
            read(c)
        assert c.core.settings.local
        assert c.describe()["gateway"] == c.core.settings.local.gateway
        assert "Readers" in harness.run("top", c.describe()["gateway"], "--once")
        log = Path(c.core.settings.local.directory, "log")
        assert f"the gateway's log is {log}" in str(e.value)
        assert log.is_file()
        assert f"`millrace verify {texts}`" in str(e.value)
        assert f"`millrace quarantine {texts} --verify` finds the samples that cannot be read: client.quarantine(DIGEST) replaces" in str(e.value)
        found = json.loads(harness.run("quarantine", str(texts), "--verify", "--json"))
        assert [one["key"] for one in found["samples"]] == ["007"]
        assert len(read(c.quarantine(found["quarantine"]))) == len(read(c.exclude("007"))) + 1 == len(KEYS)


def test_a_quarantine_in_little_memory(texts: Path) -> None:
    with millrace.open(texts, cache="1MiB") as c:
        assert len(read(c.quarantine(KEYS[3]))) == len(KEYS)
        with pytest.raises(millrace.errors.BatchTooLarge, match=r"takes 12582912 bytes of memory: --cache-size, .*; millrace.open\(..., cache="):
            c.quarantine("7" * 64).epoch(0)


def test_a_refusal_names_no_file_that_no_user_has_written(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with millrace.open(texts) as c:
        local = c.core.settings.local
    assert local
    detail = f"{local.directory}/datasets.yaml:3: dataset {local.name}: no index here yet"
    monkeypatch.setattr(Local, "_ask", lambda *_: (409, json.dumps({"detail": detail}).encode()))
    with pytest.raises(millrace.errors.ReloadRefused) as e:
        local._reload()
    assert str(e.value) == f"open {texts}: no index here yet; the gateway's log is {local.directory}/log"


def test_what_the_program_refuses_is_said_in_names_of_python(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"caption": ["a"] * 9, "label": [1] * 9}), tmp_path / "rows" / "a.parquet")
    with pytest.raises(millrace.InvalidArgument, match=r": no column has the name \"captoin\".*; did you mean 'caption'\?"):
        millrace.open(tmp_path / "rows", fields="captoin")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("x")
    with pytest.raises(millrace.InvalidArgument, match=r": fields does not apply to files shards"):
        millrace.open(tmp_path / "texts", fields="caption")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid_argument", "InvalidArgument"), ("not_found", "NotFound"), ("corrupt", "IntegrityError"), ("store_denied", "StoreError"),
        ("store_unavailable", "StoreError"), ("read_only", "ReadOnly"), ("gateway_unavailable", "GatewayUnavailable"), ("internal", "InternalError"),
        ("failed", "MillraceError"), ("interrupted", "MillraceError"),
    ],
)
def test_a_code_of_the_program_has_one_class(code: str, kind: str) -> None:
    e = Failure(code, "index /d: why", cure="do this").error("/d")
    cure = "millrace.open('/d', index=DIRECTORY) puts the index where you may write" if code == "read_only" else "do this"
    assert (type(e).__name__, e.code, str(e)) == (kind, code, f"index /d: why; {cure}")


@pytest.mark.parametrize(
    ("of", "cure"),
    [
        ({"choices": [{"match": "*.jpg"}]}, "millrace.open('/d', match='*.jpg')"),
        ({"choices": [{"dtype": "uint16", "sequence_length": 1024}]}, "millrace.open('/d', dtype='uint16', sequence_length=1024)"),
        ({"choices": [{"split": "a"}, {"split": "b"}]}, "millrace.open('/d', split='a'), or split='b'"),
        ({"choices": [{"hidden": True, "header": "absent"}]}, "`millrace index /d --hidden --header absent`"),
        ({"commands": ["jq . x"], "choices": [{"format": "files"}]}, "`jq . x`, or millrace.open('/d', format='files')"),
        ({"indexes": ["#a", "#b"]}, "give the options that it was opened with, or its name: millrace.open('/d#a')"),
        ({"fields": ["caption", "label"]}, "did you mean 'caption'?"),
        ({"fields": ["label"]}, "fields= takes label"),
        ({}, ""),
    ],
)
def test_choices_of_the_program_are_written_in_python(of: dict[str, Any], cure: str) -> None:
    assert Failure("invalid_argument", "why", **of).error("/d#x,index=/i", "captoin").cure == cure


def test_a_program_that_prints_no_failure_is_quoted(tmp_path: Path) -> None:
    program = tmp_path / "millrace"
    program.write_text("#!/bin/sh\necho no such library >&2\nexit 127\n")
    program.chmod(0o755)
    with pytest.raises(millrace.MillraceError, match=r"info /.*: exit code 127: no such library$"):
        Wanted(str(tmp_path)).found(str(program))


def test_a_name_without_an_index_is_refused(texts: Path) -> None:
    """Without the refusal a typing error would read all data."""
    for _ in range(2):
        with pytest.raises(millrace.NotFound, match=r"the dataset has no index #val; .*millrace.open\(.*, split='val'\)"):
            millrace.open(f"{texts}#val")


def test_indexing_that_takes_long_is_told_when_it_begins(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast indexing is reported after its success. Both kinds are reported once."""
    program = tmp_path / "millrace"
    program.write_text(f"#!/bin/sh\nwhile ! test -e {tmp_path}/go; do :; done\necho '{{}}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(_indexing, "_AT_ONCE", 0.05)
    said: SimpleQueue[str] = SimpleQueue()
    with ThreadPoolExecutor(1) as pool, monkeypatch.context() as patched:
        patched.setattr(_indexing, "_print", said.put)
        running = pool.submit(_indexing.run, str(program), "index", "/d", note="it has no index yet")
        try:
            assert said.get(timeout=60) == "it has no index yet"
            assert not running.done()
        finally:
            (tmp_path / "go").touch()
        assert running.result() == ({}, None)
        assert (said.get(), said.empty()) == ("", True)
    monkeypatch.setattr(_indexing, "_AT_ONCE", 60)
    assert _indexing.run(str(program), "index", "/d", note="it has no index yet") == ({}, None)
    assert capfd.readouterr().err == "it has no index yet\n"


def test_the_default_batch_size_is_the_documented_one(texts: Path) -> None:
    with millrace.open(texts) as c:
        size = c.epoch(0).plan.batch_size
    assert f"{size} unless its index has another" in str(millrace.Client.epoch.__doc__)
    assert f"Without either a batch has {size} samples" in (harness.ROOT / "docs/python.md").read_text()
