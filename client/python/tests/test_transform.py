"""Functions of single samples: what they are given, what draws repeat, who is left out, and what their faults say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import harness
import pytest
from conftest import SAMPLES

import millrace

Drawn = dict[int, tuple[Any, ...]]


@pytest.fixture
def client(gateway: harness.Gateway) -> Iterator[millrace.Client]:
    with millrace.Client(gateway.url) as c:
        yield c


def crop_with_noise(sample: millrace.Sample) -> tuple[Any, ...]:
    """A random crop of 16 bytes, with noise, and how it was drawn."""
    at = sample.rng.randrange(len(sample["jpg"]) - 16)
    noise = sample.numpy_rng.integers(0, 256, 16, dtype="u1")
    return sample.position, at, bytes(a ^ int(b) for a, b in zip(sample["jpg"][at : at + 16], noise)), sample.rng.random()


def drawn(client: millrace.Client, epoch: int = 0, **options: Any) -> Drawn:
    out: Drawn = {}
    for batch in client.epoch(epoch, batch_size=24, seed=5, transform=crop_with_noise, **options):
        assert isinstance(batch.value, list)
        out.update({position: rest for position, *rest in batch.value})
    return out


def test_random_draws_repeat_whatever_reads(client: millrace.Client) -> None:
    want = drawn(client)
    assert len(want) == SAMPLES == len({tuple(rest) for rest in want.values()})
    for threads in (1, 8):
        assert drawn(client, threads=threads) == want
    for ranks in (2, 3):
        shares = [drawn(client, rank=r, world_size=ranks, threads=8) for r in range(ranks)]
        assert sum(map(len, shares)) == SAMPLES
        assert {k: v for share in shares for k, v in share.items()} == want
    resumed = drawn(client, start=7, rank=1, world_size=2)
    assert 0 < len(resumed) < SAMPLES / 2
    assert all(want[position] == rest for position, rest in resumed.items())
    by_size = [drawn(client, rank=r, world_size=3, balance="bytes") for r in range(3)]
    assert {k: v for share in by_size for k, v in share.items()} == want
    single = client.epoch(0, batch_size=24, seed=5, transform=crop_with_noise).batch(3).value
    assert {position: rest for position, *rest in single}.items() <= want.items()
    assert drawn(client, 1) != want
    assert drawn(client, shuffle="none") != want
