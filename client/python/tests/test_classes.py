"""Class folders and labels, from the commands that find them to integers in batches."""

from __future__ import annotations

from pathlib import Path

import harness
import pytest

import millrace


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
        classes = millrace.ClassFolders(client.describe("d"))
        assert classes.classes == ["cat", "dog", "emu"]
        with client.epoch(0, keys=True).read() as reader:
            found = [(classes(s), bytes(s["jpg"]).decode().split()[0]) for batch in reader for s in batch]
    assert sorted(found) == [(i, name) for i, name in enumerate(classes.classes) for _ in range(4)]
    with pytest.raises(millrace.InvalidArgument):
        classes("1")
    with pytest.raises(millrace.InvalidArgument):
        classes("cow/1")


def test_packed_labels(photos: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    harness.run("pack", str(photos), str(packed), "--label-from-directory", "--batch-size", "5")
    with harness.closing(g := harness.Gateway(f"d={packed}")), millrace.Client(g.url) as client:
        classes = millrace.ClassFolders(client.describe("d"))
        with client.epoch(0, keys=True, decode={"cls": int}).read() as reader:
            labels = [(s["cls"], classes(s), bytes(s["jpg"]).decode().split()[0]) for batch in reader for s in batch]
    assert len(labels) == 12
    assert all(cls == n and classes.classes[cls] == name for cls, n, name in labels)


def test_a_dataset_without_classes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n')
    harness.run("index", str(tmp_path))
    with (
        harness.closing(g := harness.Gateway(f"d={tmp_path}")),
        millrace.Client(g.url) as client,
        pytest.raises(millrace.InvalidArgument, match="dataset d: its folders are no classes"),
    ):
        millrace.ClassFolders(client.describe("d"))
