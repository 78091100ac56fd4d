"""Samples by number, as torch's samplers request them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import harness
import pytest
import torch
from torch.utils import data as torch_data

import millrace
import millrace.torch
from millrace import Reading


def photos(gateway: harness.Gateway, **options: Any) -> millrace.torch.MapDataset:
    return millrace.torch.MapDataset(gateway.url, "photos", **harness.grouped(**{"decode": {"cls": int}, "keys": True, **options}))


def keys_of(items: Sequence[dict[str, Any]]) -> list[str]:
    return [item["__key__"] for item in items]


def test_map_style(gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]]) -> None:
    dataset = millrace.torch.MapDataset(gateway.url, "photos", decode={"cls": int}, reading=Reading(keys=True))
    assert len(dataset) == 500
    assert [s["__key__"] for s in dataset.__getitems__([3, 499, 0])] == [dataset[i]["__key__"] for i in (3, -1, 0)]
    with pytest.raises(IndexError):
        dataset[500]
    seen = []
    for rank in range(2):
        sampler = torch_data.DistributedSampler(dataset, num_replicas=2, rank=rank, seed=1)
        for batch in torch_data.DataLoader(dataset, batch_size=64, sampler=sampler, num_workers=rank):
            assert batch["cls"].tolist() == [int(files[k][1]) for k in batch["__key__"]]
            seen += batch["__key__"]
    assert sorted(seen) == sorted(files)


@pytest.mark.parametrize("threads", [1, 3])
def test_samples_come_together(dataset: Any, files: dict[str, tuple[bytes, bytes]], threads: int) -> None:
    """The samples arrive in the order of the numbers, some of which repeat, with one request per thread.

    Long lists are divided, because a URL is limited.
    """
    own = harness.Gateway(f"photos={dataset}")
    with harness.closing(own):
        samples = photos(own, threads=threads)
        stored = [samples[i]["__key__"] for i in range(5)]
        assert len(own.requests("/samples", 5)) == 5
        at = [4, 0, -500, *range(100, 160), 4]
        items = samples.__getitems__(at)
        assert len(own.requests("/samples", 5 + threads)) == 5 + threads
        assert [keys_of(items)[i] for i in (0, 1, 2, -1)] == [stored[4], stored[0], stored[0], stored[4]]
        assert [(bytes(i["jpg"]), i["cls"]) for i in items] == [(files[k][0], int(files[k][1])) for k in keys_of(items)]
        assert samples.__getitems__([]) == []
        assert keys_of(samples.__getitems__(list(range(500)))) == keys_of([samples[i] for i in range(500)])
        pieces = max(threads, 2)  # at most 256 samples per request
        whole = [r for r in own.requests("/samples", 5 + threads + pieces + 500) if r["bytes"] and int(str(r["bytes"])) > 100_000]
        assert whole
        assert not own.requests("/batches/{batch}")


def test_none_is_the_order_of_the_dataset_and_no_decoders(gateway: harness.Gateway) -> None:
    """As a value None selects the dataset's own order and no decoders. The parameter's default is stored order here."""
    samples = photos(gateway, shuffle=None, decode=None)
    assert keys_of([samples[0]]) != keys_of([photos(gateway)[0]])
    assert isinstance(samples[0]["jpg"], bytes)


def test_numbers_out_of_reach(gateway: harness.Gateway) -> None:
    samples = photos(gateway)
    for at in ([0, 500], [-501]):
        with pytest.raises(IndexError):
            samples.__getitems__(at)
    assert keys_of(samples.__getitems__(torch.tensor([3, 1]).tolist())) == keys_of([samples[torch.tensor(3)], samples[1]])
    with pytest.raises(millrace.InvalidArgument, match="threads=0"):
        photos(gateway, threads=0)


@pytest.mark.parametrize("position", [slice(0, 2), "3", None, 1.5])
def test_a_position_that_is_no_whole_number_is_refused_with_the_cure(gateway: harness.Gateway, position: Any) -> None:
    with pytest.raises(millrace.InvalidArgument, match=r"a position is a whole number; read several by torch.utils.data.Subset\("):
        photos(gateway)[position]


def test_numbers_are_positions_of_an_order(gateway: harness.Gateway) -> None:
    """For every plan of a Dataset the samples and their generators are the same."""

    def drawn(sample: millrace.Sample) -> tuple[str, int, float]:
        return sample.key, sample.position, sample.rng.random()

    with millrace.Client(gateway.url, "photos") as c:
        for plan in ({"shuffle": "full", "seed": 3}, {"shuffle": "window", "window": 2}, {"shuffle": True}):
            epoch = c.epoch(4, transform=drawn, **harness.grouped(global_batch_size=50, keys=True, **plan))
            want = [value for batch in epoch for value in batch.value]
            samples = photos(gateway, epoch=4, transform=drawn, **plan)
            at = [417, 3, 3, 499, 0]
            assert samples.__getitems__(at) == [want[i] for i in at]
            assert samples[417] == want[417]
            assert [s.position for s in epoch.samples(at)] == at


def odd(view: memoryview) -> int:
    number = int(bytes(view))
    if number % 2 == 0:
        raise ValueError(f"{number} is even")
    return number


def test_samples_that_cannot_be_decoded(gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]]) -> None:
    samples = photos(gateway, decode={"cls": odd}, keys=False)
    with pytest.raises(millrace.errors.DecodeError) as caught:
        samples.__getitems__([1, 3, 7, 8])
    good = photos(gateway)
    bad = next(i for i in (1, 3, 7, 8) if good[i]["cls"] % 2 == 0)
    assert (caught.value.key, caught.value.position) == (good[bad]["__key__"], bad)
    at = list(range(40))
    left = photos(gateway, decode={"cls": odd}, on_error="skip").__getitems__(at)
    assert keys_of(left) == [k for k in keys_of(good.__getitems__(at)) if int(files[k][1]) % 2]
    with pytest.raises(millrace.InvalidArgument, match="no batch that could be shorter"):
        photos(gateway, decode={"cls": odd}, on_error="skip")[bad]
    assert photos(gateway, decode={"cls": odd}, on_error=lambda _: -1)[bad]["cls"] == -1


class Together(torch_data.Dataset):  # type: ignore[misc,type-arg,unused-ignore]
    """Makes a loader without its own batch_size request samples together."""

    def __init__(self, samples: millrace.torch.MapDataset) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, positions: list[int]) -> Any:
        return torch_data.default_collate(self.samples.__getitems__(positions))


@pytest.mark.parametrize(("workers", "start"), [(0, None), (2, "fork"), (2, "spawn")])
def test_samplers_of_others(gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]], workers: int, start: Any) -> None:
    samples = photos(gateway, fields="cls")
    weighted = torch_data.WeightedRandomSampler([1.0] * 250 + [0.0] * 250, 300, generator=torch.Generator().manual_seed(1))
    batches = torch_data.BatchSampler(weighted, 64, drop_last=False)
    loader = torch_data.DataLoader(Together(samples), sampler=batches, batch_size=None, num_workers=workers, multiprocessing_context=start)
    seen = 0
    for batch in loader:
        assert batch["cls"].tolist() == [int(files[k][1]) for k in batch["__key__"]]
        seen += len(batch["cls"])
    assert seen == 300
    assert keys_of(pickle.loads(pickle.dumps(samples)).__getitems__([5, 4])) == keys_of([samples[5], samples[4]])


def test_a_loader_asks_for_a_batch_at_a_time(dataset: Any) -> None:
    """torch does so since 1.13, with any sampler."""
    own = harness.Gateway(f"photos={dataset}")
    with harness.closing(own):
        samples = photos(own)
        sampler = torch_data.RandomSampler(samples, generator=torch.Generator().manual_seed(1))
        seen = [key for batch in torch_data.DataLoader(samples, batch_size=64, sampler=sampler) for key in batch["__key__"]]
        assert len(set(seen)) == len(seen) == 500
        assert len(own.requests("/samples", 8)) == 8
