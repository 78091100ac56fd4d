"""Batches of tensors with values that are null or differ in shape, folders of pictures, torch's own draws, and errors in workers."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import harness
import pytest
import torch
import torchvision
from PIL import Image
from test_contents import EMPTY, ROWS, folders, rows  # noqa: F401
from test_torch_transform import dataset_of

import millrace
import millrace.torch
from millrace import Reading


@pytest.fixture(autouse=True)
def _few_cores() -> Iterator[None]:
    """Ignores torch's warning about more workers than cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


def test_nulls_in_batches(rows: millrace.Client) -> None:  # noqa: F811
    batches = list(millrace.torch.Dataset(rows, fields="caption,label"))
    assert all(isinstance(batch["label"], torch.Tensor) for batch in batches)
    assert sum(batch["caption"].count(None) for batch in batches) == ROWS // 4
    with pytest.raises(millrace.InvalidArgument, match=r"stack part image.bytes of batch 0 .*: \d of 8 values are null.*is not None"):
        list(millrace.torch.Dataset(rows, fields="image.bytes"))
    whole = list(millrace.torch.Dataset(rows, fields="image.bytes", reading=Reading(filter=lambda sample: sample["image.bytes"] is not None)))
    assert sum(len(batch["image.bytes"]) for batch in whole) == ROWS * 4 // 5 - len(EMPTY)


def test_folders_of_pictures(folders: millrace.Client) -> None:  # noqa: F811
    batches = list(millrace.torch.DataLoader(millrace.torch.Dataset(folders, fields="jpg,cls"), num_workers=1))
    assert all(batch["jpg"].shape[1:] == (3, 6, 8) for batch in batches)
    labels = torch.cat([batch["cls"] for batch in batches])
    assert (labels.dtype, sorted(labels.tolist())) == (torch.int64, [0] * 4 + [1] * 4 + [2] * 5)
    with pytest.raises(millrace.InvalidArgument, match=r"has 'jpg', 'cls'|has 'png', 'cls'") as raised:
        list(millrace.torch.Dataset(folders, global_batch_size=13))
    assert 'fields="jpg,cls"' in str(raised.value)
    pairs = list(millrace.torch.Dataset(folders, fields="jpg,cls", transform=lambda sample: (sample["jpg"], sample["cls"])))
    assert sum(len(y) for _, y in pairs) == 13
    one = millrace.torch.MapDataset(folders)[0]
    assert one["cls"] in (0, 1, 2)


def test_pictures_of_several_sizes(tmp_path: Path, runtime: Path) -> None:  # noqa: ARG001
    for i in range(4):
        (tmp_path / "data" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8 + i, 6)).save(tmp_path / "data" / "ab"[i % 2] / f"{i}.jpg")
    with millrace.torch.Dataset(tmp_path / "data") as dataset, pytest.raises(
        millrace.InvalidArgument,
        match=r"stack part jpg of batch 0 .* 4 shapes, \(3, 6, \d+\) and \(3, 6, \d+\).*, that of sample 1 .*key '.*functional.resize\(s\['jpg'\]",
    ):
        next(iter(dataset))
    with millrace.torch.Dataset(tmp_path / "data", transform=lambda s: s["jpg"]) as dataset, pytest.raises(
        millrace.InvalidArgument, match=r"stack transformed samples: .*, that of sample 1 .*key '.*; have transform resize them"
    ):
        next(iter(dataset))


def test_pictures_of_several_bands(tmp_path: Path, runtime: Path) -> None:  # noqa: ARG001
    for i, mode in enumerate(("RGB", "L", "RGB", "RGB")):
        (tmp_path / "data" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.new(mode, (8, 6)).save(tmp_path / "data" / "ab"[i % 2] / f"{i}.jpg")
    for transform in (None, lambda s: {"image": s["jpg"]}, lambda s: (s["jpg"], s["cls"])):
        with millrace.torch.Dataset(tmp_path / "data", shuffle=False, transform=transform) as dataset, pytest.raises(
            millrace.InvalidArgument, match=r"2 shapes, .*that of sample .*key .*gray or have alpha.*image.expand\(3, -1, -1\)"
        ):
            next(iter(dataset))


def test_torchvision_on_a_sample(folders: millrace.Client) -> None:  # noqa: F811
    whole = torchvision.transforms.Compose([torchvision.transforms.RandomCrop(4)])
    for transform in (whole, torchvision.transforms.ToTensor(), lambda sample: sample.size):
        with pytest.raises(millrace.errors.TransformError, match=r"is a mapping of parts: give it s\['(jpg|png)'\], as in transform=lambda s"):
            list(millrace.torch.Dataset(folders, transform=transform))
    with pytest.raises(millrace.errors.TransformError, match=r"uint8 tensors already: write s\['(jpg|png)'\] / 255 in place of ToTensor"):
        list(millrace.torch.Dataset(folders, transform=lambda sample: torchvision.transforms.ToTensor()(sample["jpg"])))


DRAWS = torchvision.transforms.Compose([torchvision.transforms.RandomCrop(8), torchvision.transforms.RandomHorizontalFlip()])


def drawn(sample: millrace.Sample) -> dict[str, Any]:
    """Applies torchvision's transforms, and every kind of draw with and without a generator."""
    noise = torch.rand_like(torch.empty(3)) + torch.randn(3) + torch.empty(3).uniform_() + torch.randperm(3) + torch.randn_like(torch.empty(3))
    return {"image": DRAWS(sample["jpg"]), "noise": noise, "position": sample.position}


def draws_of(loader: Any) -> dict[int, tuple[bytes, bytes]]:
    return {
        position: (image.numpy().tobytes(), noise.numpy().tobytes())
        for batch in loader
        for position, image, noise in zip(batch["position"].tolist(), batch["image"], batch["noise"])
    }


def test_torchs_own_draws_repeat(gateway: harness.Gateway) -> None:
    want = None
    for workers, ranks, threads in ((0, 1, 1), (0, 1, 8), (2, 1, 4), (1, 2, 4)):
        torch.manual_seed(ranks + threads)
        before = torch.get_rng_state()
        got: dict[int, tuple[bytes, bytes]] = {}
        for rank in range(ranks):
            dataset = dataset_of(gateway, transform=drawn, rank=rank, world_size=ranks, threads=threads)
            got.update(draws_of(millrace.torch.DataLoader(dataset, num_workers=workers) if workers else dataset))
        assert want in (None, got)
        want = got
        if not workers:  # torch's loader draws a seed for its workers
            assert torch.equal(before, torch.get_rng_state())
    assert want is not None
    assert len(want) == len({noise for _, noise in want.values()}) == 500
    assert draws_of(dataset_of(gateway, transform=drawn, epoch=1)) != want


def mixed_up(samples: list[Any]) -> Any:
    return torch.randperm(len(samples))


def test_draws_of_collate_repeat(gateway: harness.Gateway) -> None:
    first, again = ([batch.tolist() for batch in dataset_of(gateway, transform=None, collate=mixed_up)] for _ in range(2))
    assert first == again
    assert first[0] != first[1]


def test_a_generator_that_is_given_stays(gateway: harness.Gateway) -> None:
    def own(sample: millrace.Sample) -> torch.Tensor:
        return torch.rand(1, generator=torch.Generator().manual_seed(sample.position))

    batch = next(iter(dataset_of(gateway, transform=own, shuffle=False)))
    assert batch[3] == torch.rand(1, generator=torch.Generator().manual_seed(3))


def _fails(sample: millrace.Sample) -> Any:
    if sample["cls"] == 7:
        raise ArithmeticError("seven")
    return sample["cls"]


@pytest.mark.parametrize(("workers", "method"), [(0, None), (2, "fork"), (1, "spawn")])
def test_errors_of_workers_reach_the_list(gateway: harness.Gateway, workers: int, method: Optional[str]) -> None:
    bad: list[millrace.SampleError] = []
    loader = millrace.torch.DataLoader(
        dataset_of(gateway, transform=_fails, on_error=bad.append), num_workers=workers, multiprocessing_context=method, collate_fn=_plus_one
    )
    assert sorted({int(label) for batch in loader for label in batch}) == [1, 2, 3, 4, 5, 6, 7, 9, 10]
    assert len(bad) == len({error.key for error in bad}) == 50
    assert all(isinstance(error, millrace.errors.TransformError) and error.key for error in bad)


def _plus_one(labels: torch.Tensor) -> torch.Tensor:
    return labels + 1


def test_a_list_that_errors_do_not_reach(gateway: harness.Gateway) -> None:
    program = f"""
import millrace.torch
from torch.utils.data import DataLoader
bad = []
def inverse(sample): return 1 / (sample["cls"] - 7)
def data(kind): return kind({gateway.url!r}, fields="cls", transform=inverse, reading=millrace.Reading(on_error=bad.append))
for samples in (data(millrace.torch.Dataset).samples(), data(millrace.torch.MapDataset)):
    loader = DataLoader(samples, batch_size=10, num_workers=1, multiprocessing_context="fork")
    print(sum(len(batch) for batch in loader), bad)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "450 []\n" * 2, done.stderr
    assert done.stderr.count("fills a copy of your list") == 2
    assert 20 <= done.stderr.count("a sample is left out") < 50


def test_keys_beside_a_transform(gateway: harness.Gateway) -> None:
    batch = next(iter(dataset_of(gateway, keys=True, transform=lambda sample: {"x": sample["cls"]})))
    assert len(batch["__key__"]) == len(batch["x"])
    with pytest.raises(millrace.InvalidArgument, match=r"add __key__: .* a Tensor, want a dict; return a dict, with sample.key"):
        next(iter(dataset_of(gateway, keys=True, transform=lambda sample: sample["cls"])))


def test_an_image_is_one_part(tmp_path: Path) -> None:
    """Also in tars: capitals and jpeg do not name other parts."""
    (tmp_path / "source").mkdir()
    for i, suffix in enumerate(("jpg", "JPEG", "jpeg", "JPG")):
        out = io.BytesIO()
        Image.new("RGB", (8, 6)).save(out, "JPEG")
        (tmp_path / f"source/{i}.{suffix}").write_bytes(out.getvalue())
    harness.run("pack", str(tmp_path / "source"), str(tmp_path / "packed"))
    with harness.closing(g := harness.Gateway(f"d={tmp_path / 'packed'}")):
        assert next(iter(millrace.torch.Dataset(g.url)))["jpg"].shape == (4, 3, 6, 8)
