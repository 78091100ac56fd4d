"""Properties of parts that are known before they are read: nulls and names. Also suggestions for misspelled names."""

from __future__ import annotations

import contextlib
import io
import logging
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import millrace
from millrace import Reading
from millrace._selection import parts_are

ROWS = 40
EMPTY = (1, 11, 21)  # rows without any image bytes


def picture(kind: str = "JPEG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 6), (200, 30, 7)).save(out, kind)
    return out.getvalue()


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[millrace.Client]:
    """Rows with captions and images. Every fourth caption and every fifth image is null."""
    made = tmp_path_factory.mktemp("rows")
    table = pa.table({
        "caption": [None if i % 4 == 0 else f"picture {i}" for i in range(ROWS)],
        "label": pa.array(range(ROWS), pa.int64()),
        "image": [None if i % 5 == 0 else {"bytes": None if i in EMPTY else picture(), "path": None if i % 2 else f"{i}.jpg"} for i in range(ROWS)],
    })  # fmt: skip
    pq.write_table(table, made / "rows.parquet", row_group_size=10)
    harness.run("index", str(made), "--batch-size", "8")
    with harness.closing(g := harness.Gateway(f"rows={made}")), millrace.Client(g.url) as client:
        yield client


def test_a_null_is_none(rows: millrace.Client) -> None:
    columns = ["caption", "label", "image.bytes", "image.path"]
    for decode in (True, None):
        seen = []
        for batch in rows.epoch(0, decode=decode):
            assert batch.names() == columns
            assert [sample["caption"] for sample in batch] == batch["caption"] == batch.get("caption")
            for sample in batch:
                assert set(sample) == set(columns)
                seen.append((int(sample["label"]) if decode else int.from_bytes(sample["label"], "little"), sample["caption"] is None))
                assert (sample["image.bytes"] is None) == (seen[-1][0] % 5 == 0 or seen[-1][0] in EMPTY)
        assert sorted(seen) == [(i, i % 4 == 0) for i in range(ROWS)]
    captioned = Reading(filter=lambda sample: sample["caption"] is not None)
    kept = [b["caption"] for b in rows.epoch(0, decode=True, fields="caption,label", reading=captioned)]
    assert sum(map(len, kept)) == ROWS * 3 // 4
    alone = [sample["caption"] for batch in rows.epoch(0, decode=True, fields="caption") for sample in batch]
    assert alone.count(None) == ROWS // 4
    decoded = [v for b in rows.epoch(0, decode={"caption": lambda view: bytes(view).decode()}, global_batch_size=2) for v in b["caption"]]
    assert decoded.count(None) == ROWS // 4


def test_the_name_of_a_struct_stands_for_its_columns(rows: millrace.Client) -> None:
    batch = rows.epoch(0, decode=True, fields="image").batch(0)
    assert batch.names() == ["image.bytes", "image.path"]
    assert {type(value).__name__ for value in batch["image.bytes"]} == {"JpegImageFile", "NoneType"}
    with pytest.raises(KeyError, match=r"no part 'image' .*; did you mean 'image.bytes' or 'image.path'\?"):
        batch[0]["image"]


def test_names_that_no_sample_has(rows: millrace.Client, tmp_path: Path) -> None:
    left_out = pytest.raises(millrace.InvalidArgument, match=r"left out all 40 samples.*; no part 'captoin': did you mean 'caption'\?")
    with pytest.warns(UserWarning, match="the answer is the same for every sample"), left_out:
        list(rows.epoch(0, decode=True, reading=Reading(filter=lambda sample: sample.get("captoin") is not None)))
    with pytest.warns(UserWarning, match="left out all 40 samples"):
        assert not list(rows.epoch(0, reading=Reading(filter=lambda _: False)))
    assert rows.epoch(0, fields="caption, label").batch(0).names() == ["caption", "label"]
    assert parts_are(["json"]) == "the part is 'json'"
    for wrong, cure in (("captoin", r"did you mean 'caption'\?; the parts are 'caption', 'label'"), ("image", "did you mean 'image.bytes' or")):
        with pytest.raises(millrace.InvalidArgument, match=f"decode part '{wrong}': {cure}"):
            rows.epoch(0, decode={"label": int, wrong: str}, fields="label")
    assert rows.epoch(0, decode={"label": bytes, "caption": str}, fields="label").batch(0).names() == ["label"]
    with pytest.warns(UserWarning, match="no part 'image.path': fields= leaves it out"):
        assert all(sample.get("image.path", 1) == 1 for sample in rows.epoch(0, fields="label").batch(0))
    with pytest.raises(millrace.InvalidArgument, match=r"the parts are 'caption', 'label', 'image.bytes', 'image.path'"):
        rows.epoch(0, fields="captoin").batch(0)
    (tmp_path / "source").mkdir()
    (tmp_path / "source/7.jpg").write_bytes(picture())
    (tmp_path / "source/7.txt").write_text("seven")
    harness.run("pack", str(tmp_path / "source"), str(tmp_path / "packed"))
    with harness.closing(g := harness.Gateway(f"d={tmp_path / 'packed'}")), millrace.Client(g.url) as client:
        with pytest.raises(millrace.InvalidArgument, match=r"no sample has a part image .*; the parts are 'jpg', 'txt'"):
            client.epoch(0, fields="image").batch(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert "png" not in client.epoch(0).batch(0)[0]  # another sample may have one


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[millrace.Client]:
    made = tmp_path_factory.mktemp("folders")
    for n, name in enumerate(("dog", "cat", "emu")):
        (made / name).mkdir()
        for i, suffix in enumerate(("jpg", "JPG", "jpeg", "Jpg") + (("png",) if n == 2 else ())):
            (made / name / f"{i}.{suffix}").write_bytes(picture("PNG" if suffix == "png" else "JPEG"))
    harness.run("index", str(made), "--batch-size", "4")
    with harness.closing(g := harness.Gateway(f"folders={made}")), millrace.Client(g.url) as client:
        yield client


def test_folders_are_the_part_cls(folders: millrace.Client) -> None:
    classes = millrace.class_names(folders)
    assert classes == ["cat", "dog", "emu"]
    for fields, name in ((None, ""), ("jpg,cls", "jpg"), (["png", "cls"], "png")):
        labels = []
        for batch in folders.epoch(0, decode=True, fields=fields):
            kinds = [type(sample[name or next(iter(sample))]).__name__ for sample in batch]
            assert set(kinds) <= {"JpegImageFile", "PngImageFile"}
            assert all(sample.key.startswith(classes[sample["cls"]]) and "cls" in sample for sample in batch)
            labels += batch["cls"]
        assert sorted(labels) == [0] * 4 + [1] * 4 + [2] * 5
    assert all(batch.names() == ["jpg", "cls"] for batch in folders.epoch(0, fields="jpg,cls"))
    sized = {"jpg": lambda view: Image.open(io.BytesIO(view)).size, "cls": int}
    assert all(set(batch["jpg"]) == {(8, 6)} and max(batch["cls"]) < 3 for batch in folders.epoch(0, decode=sized, fields="jpg,cls"))
    assert [bytes(v) in (b"0", b"1", b"2") for v in folders.epoch(0).batch(0)["cls"]] == [True] * 4
    for batch in folders.epoch(0, reading=Reading(filter=lambda sample: sample.position % 2)):
        assert all(sample.key.startswith(classes[int(bytes(v))]) for v, sample in zip(batch["cls"], batch))
    left = [s["cls"] for b in folders.epoch(0, decode=True, reading=Reading(filter=lambda sample: sample["cls"] == 2)) for s in b]
    assert left == [2] * 5
    assert all(batch.names() == ["jpg"] for batch in folders.epoch(0, fields="jpg"))


def test_classes_of_folders_alone(folders: millrace.Client) -> None:
    batches = list(folders.epoch(0, fields="cls", decode=True))
    assert sorted(label for batch in batches for label in batch["cls"]) == [0] * 4 + [1] * 4 + [2] * 5
    assert all(batch.names() == list(batch[0]) == ["cls"] for batch in batches)
    with pytest.raises(KeyError, match="no part 'jpg' in this sample, which has 'cls'; fields= leaves it out"):
        batches[0]["jpg"]


@pytest.mark.parametrize("wrong", ["label", "clss", "image"])
def test_no_part_of_class_folders(folders: millrace.Client, wrong: str) -> None:
    for fields in (f"jpg,{wrong}", wrong, [wrong, "cls"]):
        with pytest.raises(millrace.InvalidArgument, match=f"no sample has a part {wrong} .*; the parts are '[a-zA-Z]+', 'cls'"):
            folders.epoch(0, fields=fields).batch(0)


def test_fields_names_all_pictures_alike(folders: millrace.Client) -> None:
    whole = [sample for batch in folders.epoch(0) for sample in batch]
    assert [sum(name in sample for sample in whole) for name in ("png", "JPEG", "webp")] == [1, 12, 0]
    with pytest.raises(KeyError, match="no part 'jpg' in this sample, which has 'png', 'cls'; fields='jpg,cls' gives this name to all pictures"):
        [sample["jpg"] for sample in whole]
    for sample in folders.epoch(0, fields="png,cls").batch(0):
        assert "png" in sample
        with pytest.warns(UserWarning, match="no part 'jpg': did you mean 'png'"):
            assert "jpg" not in sample


def test_capitals_of_suffixes_do_not_count(folders: millrace.Client, tmp_path: Path) -> None:
    whole = [sample for batch in folders.epoch(0) for sample in batch]
    assert sorted(name for sample in whole for name in sample) == ["cls"] * 13 + ["jpg"] * 12 + ["png"]
    (tmp_path / "source").mkdir()
    for name in ("both", "one"):
        (tmp_path / f"source/{name}.JPEG").write_bytes(b"large")
    (tmp_path / "source/both.jpg").write_bytes(b"small")
    harness.run("pack", str(tmp_path / "source"), str(tmp_path / "packed"))
    with harness.closing(g := harness.Gateway(f"d={tmp_path / 'packed'}")), millrace.Client(g.url) as client:
        both, one = sorted(client.epoch(0, reading=Reading(keys=True)).batch(0), key=lambda sample: sample.key)
        assert {name: bytes(part) for name, part in both.items()} == {"JPEG": b"large", "jpg": b"small"}
        assert bytes(one["jpg"] if "jpg" in one else one["JPEG"]) == b"large"
        alone = client.epoch(0, fields="JPEG").batch(0)
        assert [bytes(part) for part in alone["jpg"]] == [bytes(part) for part in alone["JPEG"]] == [b"large"] * 2
        sample = alone[0]
        sample["JPEG"] = b"changed"
        assert dict(sample) == {"jpg": b"changed"}


def test_a_batch_is_no_dict(folders: millrace.Client) -> None:
    batch = folders.epoch(0).batch(0)
    with pytest.raises(millrace.InvalidArgument, match=r"names of the samples, without \(\): the names of their parts are batch.names\(\)"):
        batch.keys()  # type: ignore[operator]
    assert batch.get("txt", 7) == 7


def misspelt(sample: millrace.Sample) -> Any:
    return sample["captoin"]


def test_a_slip_is_not_a_matter_of_samples(rows: millrace.Client, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(millrace.errors.TransformError, match=r"did you mean 'caption'\?.*; look at the transform function") as raised:
        list(rows.epoch(0, transform=misspelt))
    assert "skip" not in str(raised.value)
    bad: list[millrace.SampleError] = []
    for on_error in ("skip", bad.append):
        with pytest.raises(millrace.errors.TransformError, match="the first 8 samples all fail so: on_error is for single samples"):
            list(rows.epoch(0, reading=Reading(filter=misspelt, on_error=on_error)))
        with pytest.raises(millrace.errors.TransformError, match="the first 9 samples all fail so"):
            list(rows.epoch(0, global_batch_size=3, reading=Reading(filter=misspelt, on_error=on_error, threads=1)))
    with pytest.raises(millrace.errors.DecodeError, match="the first 8 samples all fail so"):
        list(rows.epoch(0, decode={"label": lambda _: 1 // 0}, reading=Reading(on_error="skip")))
    worker = str(type(raised.value)(f"Caught TransformError in DataLoader worker process 0.\n{raised.value}"))
    assert worker.endswith(str(raised.value))
    caplog.clear()
    with caplog.at_level(logging.WARNING, "millrace"):
        epoch = rows.epoch(0, decode=True, transform=lambda sample: 1 // (sample["label"] // 30), reading=Reading(on_error="skip"))
        kept = [v for b in epoch for v in b.value]
    assert len(kept) == 10
    assert len(caplog.records) == 10  # 10 of 30 are logged


def test_samples_that_fail_side_by_side_are_left_out(rows: millrace.Client) -> None:
    """A pass may begin with many failing samples, and so may the part that a resume or a worker reads."""
    for start in range(2):
        epoch = rows.epoch(0, transform=lambda sample: 1 // (sample.position // 20), reading=Reading(on_error="skip", start=start))
        assert sum(len(b) for b in epoch) == ROWS - 20


def test_a_filter_that_returns_nothing(rows: millrace.Client) -> None:
    with pytest.raises(millrace.InvalidArgument, match=r"filter returned None for all 8 samples of the first batch; is a return missing\?"):
        list(rows.epoch(0, reading=Reading(filter=lambda _: None)))


def test_a_batch_of_which_nothing_is_left_comes_empty_to_several_ranks(rows: millrace.Client) -> None:
    few = Reading(filter=lambda sample: sample.position < 2)
    assert [len(b) for b in rows.epoch(0, reading=few)] == [2]
    shares = [rows.epoch(0, share=millrace.Share(rank=r, world_size=2), reading=few) for r in range(2)]
    with pytest.warns(UserWarning, match="left out all"):
        lengths = [[len(b) for b in share] for share in shares]
    assert lengths == [[2] + [0] * (len(shares[0]) - 1), [0] * len(shares[1])]


def test_a_transform_that_returns_nothing(rows: millrace.Client) -> None:
    with pytest.raises(millrace.InvalidArgument, match=r"transform returned None for all 8 samples of the first batch; is a return missing\?"):
        list(rows.epoch(0, transform=lambda _: None))
    some = [v for b in rows.epoch(0, transform=lambda sample: 1 if sample.position == 3 else None) for v in b.value]
    assert some.count(None) == ROWS - 1


def test_on_error_may_refuse_a_whole_batch(rows: millrace.Client) -> None:
    """Only `on_error` decides about a sample for which a function fails."""
    with pytest.warns(UserWarning, match="left out all"):
        assert not list(rows.epoch(0, reading=Reading(filter=misspelt, on_error=lambda _: None)))


def test_what_fails_in_a_mixture_names_its_source(rows: millrace.Client) -> None:
    parts = rows.split(a=0.5, b=0.5)
    mixed = millrace.mix({parts["a"]: 0.5, parts["b"]: 0.5})
    assert {sample.source for batch in mixed.epoch(0) for sample in batch} == {"rows"}
    assert rows.epoch(0).batch(0)[0].source is None
    with pytest.raises(millrace.SampleError, match="its attributes are key, source, position"):
        list(mixed.epoch(0, transform=lambda sample: sample.sources))
    for keys in (True, False):
        with pytest.raises(millrace.errors.DecodeError, match=r", source 'rows.*quarantine") as raised:
            list(mixed.epoch(0, decode={"label": lambda _: 1 // 0}, reading=Reading(keys=keys)))
        assert raised.value.source is not None
        assert raised.value.source.startswith("rows")
        assert raised.value.key is not None


def test_sources_of_other_columns(tmp_path: Path) -> None:
    """Samples of a mixture have the values, nulls and names of their sources."""
    n, word = range(30), ["one" if i % 3 else None for i in range(30)]
    tables = {
        "wide": {"n": pa.array(n, pa.int64()), "word": word},
        "turned": {"word": word, "n": pa.array(n, pa.int64())},
        "narrow": {"n": pa.array(n, pa.int32()), "word": word},
        "named": {"number": pa.array(n, pa.int16()), "s": [{"word": w} for w in word]},
    }
    for name, columns in tables.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns), tmp_path / name / "rows.parquet")
        harness.run("index", str(tmp_path / name), "--batch-size", "8")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_text("file")
    harness.run("index", str(tmp_path / "files"))
    where = [f"{name}={tmp_path / name}" for name in (*tables, "files")]
    with harness.closing(g := harness.Gateway(*where)), contextlib.ExitStack() as stack:
        each = {name: stack.enter_context(millrace.Client(g.url, name)) for name in (*tables, "files")}

        def samples(client: millrace.Client, **options: Any) -> list[str]:
            epoch = client.epoch(0, **harness.grouped(**{"decode": True, **options}))
            by_column = [[b.column(part) for part in ("n", "word") if all(part in s.parts for s in b)] for b in epoch]
            assert all(not isinstance(v, memoryview) for b in by_column for column in b for v in column)
            return sorted(repr(sorted(s.items())) for batch in epoch for s in batch)

        alone = {name: samples(each[name]) for name in tables}
        assert "[('n', 3), ('word', None)]" in alone["narrow"]
        for other in tables:
            mixed = millrace.mix({each["wide"]: 1, each[other].take(30): 1}, samples=60)
            assert samples(mixed) == samples(mixed, keys=True, balance="bytes") == sorted(alone["wide"] + alone[other])
            kept = mixed.epoch(0, decode=True, reading=Reading(filter=lambda s: None not in s.values()))
            assert sum(map(len, kept)) == 40
        both = millrace.mix({each["wide"]: 1, each["named"]: 1})
        assert len(samples(both, fields="word,s")) == 60
        batch = pickle.loads(pickle.dumps(both.epoch(0, decode=True))).batch(0)
        one = next(s for s in batch if "number" in s.parts)
        assert batch.names() == [*dict.fromkeys(name for s in batch for name in s)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert "word" not in one
        with pytest.raises(KeyError, match=r"no part 'numbr'.*did you mean 'number'"):
            next(s for s in batch if "n" in s.parts)["numbr"]
        with pytest.warns(UserWarning, match="numbr"), pytest.raises(millrace.InvalidArgument, match="no part 'numbr'"):
            list(both.epoch(0, reading=Reading(filter=lambda s: s.get("numbr"))))
        apart = millrace.mix({each["wide"]: 1, each["files"]: 1})
        # no warning about txt, which only files have
        batch = apart.epoch(0, decode={"n": lambda view: view[0], "txt": str}).batch(0)
        assert {type(s.get("n")) for s in batch} == {int, type(None)}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert all("cls" not in s for s in batch)  # a file may have any suffix
