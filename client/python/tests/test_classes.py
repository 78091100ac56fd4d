"""Class folders and labels, from the commands that find them to integers in batches."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from PIL import Image

import millrace
from millrace.client import ClientOwner


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("dog", "cat", "emu"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(4):
            (tmp_path / "photos" / name / f"{i}.jpg").write_bytes(f"{name} {i}".encode())
    return tmp_path / "photos"


def test_folders_are_classes(photos: Path) -> None:
    harness.run("index", str(photos), "--batch-size", "5")
    with harness.closing(g := harness.Gateway(f"d={photos}")), millrace.Client(g.url) as client:
        names = millrace.class_names(client.describe("d"))
        assert names == ["cat", "dog", "emu"]
        with client.epoch(0, decode={"cls": int}).read() as reader:
            found = [(s["cls"], bytes(s["jpg"]).decode().split()[0]) for batch in reader for s in batch]
    assert sorted(found) == [(i, name) for i, name in enumerate(names) for _ in range(4)]


def test_packed_labels(photos: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    harness.run("pack", str(photos), str(packed), "--label-from-directory", "--batch-size", "5")
    with harness.closing(g := harness.Gateway(f"d={packed}")), millrace.Client(g.url) as client:
        names = millrace.class_names(client)
        with client.epoch(0, decode={"cls": int}).read() as reader:
            labels = [(s["cls"], bytes(s["jpg"]).decode().split()[0]) for batch in reader for s in batch]
    assert len(labels) == 12
    assert all(names[cls] == name for cls, name in labels)


def test_class_names_takes_a_dataset_and_refuses_a_path(sources: dict[str, millrace.Client]) -> None:
    dataset = ClientOwner()
    dataset.client = sources["one"]
    assert millrace.class_names(dataset) == ["cat", "dog"]
    with pytest.raises(millrace.InvalidArgument, match=r"class_names: got str.*; write class_names\(millrace.open\('./photos'\), ...\)"):
        millrace.class_names("./photos")  # type: ignore[arg-type]


def test_a_dataset_without_classes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n')
    harness.run("index", str(tmp_path))
    with (
        harness.closing(g := harness.Gateway(f"d={tmp_path}")),
        millrace.Client(g.url) as client,
        pytest.raises(millrace.InvalidArgument, match="dataset d: the values of part 'cls' have no names"),
    ):
        millrace.class_names(client.describe("d"))


def picture(name: str, kind: str) -> bytes:
    """A picture whose size encodes its source and class."""
    out = io.BytesIO()
    Image.new("RGB", (len(name), ord(name[0]) - ord("a") + 1)).save(out, kind)
    return out.getvalue()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, millrace.Client]]:
    """Class folders, two with equal classes and one with others, and a tar with labels."""
    made = tmp_path_factory.mktemp("sources")
    for source, names, suffix in (("one", ("cat", "dog"), "jpg"), ("two", ("cat", "dog"), "JPEG"), ("far", ("ant", "bee", "cat"), "png")):
        for name in names:
            (made / source / name).mkdir(parents=True)
            for i in range(10):
                (made / source / name / f"{i}.{suffix}").write_bytes(picture(name, "PNG" if suffix == "png" else "JPEG"))
        harness.run("index", str(made / source), "--batch-size", "8")
    (made / "loose").mkdir()
    for i in range(20):
        (made / "loose" / f"{i}.jpg").write_bytes(picture("tar", "JPEG"))
        (made / "loose" / f"{i}.cls").write_text("7")
    harness.run("pack", str(made / "loose"), str(made / "tars"), "--batch-size", "8")
    names = ("one", "two", "far", "tars")
    with harness.closing(g := harness.Gateway(*(f"{name}={made / name}" for name in names))), contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(millrace.Client(g.url, name)) for name in names}


def seen(client: millrace.Client, **options: Any) -> list[tuple[int, int]]:
    """The height and the label of each picture in an epoch."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batches = list(client.epoch(0, decode=True, **harness.grouped(**options)))
    return sorted((next(s[name] for name in ("jpg", "JPEG", "png") if name in s.parts).height, s["cls"]) for b in batches for s in b)


def test_mixture_of_class_folders_has_labels(
    sources: dict[str, millrace.Client], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alike = millrace.mix({sources["one"]: 1, sources["two"]: 1})
    assert not caplog.records  # every sample has jpg and cls
    assert millrace.class_names(alike) == ["cat", "dog"]
    monkeypatch.setattr(millrace.epoch, "read_manifest", lambda *_: pytest.fail("a batch asks for its manifest"))
    for fields in (None, "jpg,cls"):
        assert seen(alike, fields=fields) == [(3, 0)] * 20 + [(4, 1)] * 20
    assert all(batch.names() == ["jpg", "cls"] for batch in alike.epoch(0, fields="jpg,cls"))


def test_mixture_keeps_the_numbers_of_each_source(sources: dict[str, millrace.Client]) -> None:
    differing = millrace.mix({sources["one"]: 1, sources["far"]: 1}, samples=60)
    labels = seen(differing, fields="jpg,cls")
    assert set(labels) == {(3, 0), (4, 1), (1, 0), (2, 1), (3, 2)}
    with pytest.raises(millrace.InvalidArgument, match="not all sources of the mixture have the same names for the values of part 'cls'"):
        millrace.class_names(differing)


def test_labels_of_a_mixture_need_no_pictures(sources: dict[str, millrace.Client]) -> None:
    mixed = millrace.mix({sources["one"]: 1, sources["two"]: 1})
    batches = list(mixed.epoch(0, fields="cls", decode=True))
    assert sorted(label for batch in batches for label in batch["cls"]) == [0] * 20 + [1] * 20
    assert sum(batch.nbytes for batch in batches) == 40


def test_mixture_of_class_folders_and_tars_has_labels(sources: dict[str, millrace.Client]) -> None:
    mixed = millrace.mix({sources["far"]: 3, sources["tars"]: 2}, samples=50)
    labels = [s.get("cls", -1) for batch in mixed.epoch(0, decode=True) for s in batch]
    assert sorted(labels) == [0] * 10 + [1] * 10 + [2] * 10 + [7] * 20
    for fields in (None, "jpg,cls"):
        assert seen(mixed, fields=fields) == sorted([(1, 0), (2, 1), (3, 2)] * 10 + [(20, 7)] * 20)
    assert all(batch.names() == ["jpg", "cls"] for batch in mixed.epoch(0, fields="jpg,cls"))
