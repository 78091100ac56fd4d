"""Random switches between all readers that can run in one process: the samples are those of a run without a stop.

Each part of the run reads with another reader, number of ranks, batch size and number of workers, from the state of the part before. It ends
after a step, or is killed: the samples after its last state are then read again.
"""

from __future__ import annotations

import binascii
import itertools
import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any, Optional
from urllib.parse import quote

import harness
import pytest
from torch.utils import data as torch_data
from torchdata.stateful_dataloader import StatefulDataLoader

import millrace
import millrace.torch
from millrace import Reading, Share

SWITCHES = int(os.environ.get("TEST_SWITCHES", "400" if harness.LONG else "60"))
EPOCHS, SEED = 1000, 3

Drawn = tuple[int, Optional[int]]
"""The digest of a sample's name, and a draw of its generator, which curl does not have."""
Steps = Iterator[tuple[list[Drawn], dict[str, Any]]]


def digest(key: str) -> int:
    return binascii.crc32(key.encode()) & 0x3FFFFFFF


def drawn(sample: millrace.Sample) -> dict[str, int]:
    return {"id": digest(sample.key), "draw": sample.rng.randrange(1 << 30)}


def third(sample: millrace.Sample) -> bool:
    return digest(sample.key) % 3 == 0


def columns(batch: Any) -> list[Drawn]:
    return list(zip(batch["id"].tolist(), batch["draw"].tolist())) if batch else []


def items(values: Any) -> list[Drawn]:
    return [(value["id"], value["draw"]) for value in values or ()]


class Part:
    """One part of a run: a source, a state, and options that differ between parts."""

    def __init__(self, source: Any, state: Optional[dict[str, Any]], r: random.Random, filtered: bool) -> None:
        self.source, self.state, self.filter = source, state, third if filtered else None
        self.ranks, self.size, self.workers = r.choice((1, 1, 2, 3, 5)), r.choice((1, 4, 7, 10, 25, 30, 64, 100)), int(r.random() < 0.04)
        self.alone, self.of_loader = {"rank": 0, "world_size": 1}, r.choice((1, 3, 8, 40))
        self.start = state["position"] if state else 0

    def options(self, rank: int, ranks: int) -> dict[str, Any]:
        reading = Reading(keys=True, threads=1, **({"filter": self.filter} if self.filter else {}))
        return {"global_batch_size": self.size, "seed": SEED, "transform": drawn, "share": Share(rank=rank, world_size=ranks), "reading": reading}

    def dataset(self, rank: int = 0, ranks: int = 1) -> millrace.torch.Dataset:
        made = millrace.torch.Dataset(self.source, decode=False, **self.options(rank, ranks))
        if self.state:
            made.load_state_dict(self.state)
        return made

    def epochs(self) -> Steps:
        readers = [self.source.epoch(self.state or 0, **self.options(rank, self.ranks)).read() for rank in range(self.ranks)]
        while None not in (batches := [next(reader, None) for reader in readers]):
            states = [reader.state_dict() for reader in readers]
            assert states == states[:1] * self.ranks
            yield [one for batch in batches for one in items(batch.value)], states[0]

    def loaders(self) -> Steps:
        loaders = [millrace.torch.DataLoader(self.dataset(rank, self.ranks), num_workers=self.workers) for rank in range(self.ranks)]
        for shares in zip(*loaders):
            yield [one for share in shares for one in columns(share)], loaders[0].state_dict()

    def batches(self) -> Steps:
        dataset = self.dataset()
        for batch in dataset:
            yield columns(batch), dataset.state_dict()

    def samples(self) -> Steps:
        dataset = self.dataset()
        loader = torch_data.DataLoader(dataset.samples(), batch_size=self.of_loader, collate_fn=items)
        for batch in loader:
            yield batch, dataset.state_dict()

    def stateful(self) -> Steps:
        dataset = self.dataset()
        for batch in StatefulDataLoader(dataset.samples(), batch_size=self.of_loader, collate_fn=items):
            yield batch, dataset.state_dict()

    def samples_of_ranks(self) -> Steps:
        datasets = [self.dataset(rank, self.ranks) for rank in range(self.ranks)]
        plans = [dataset.epoch().plan for dataset in datasets]
        passes = [iter(dataset.samples()) for dataset in datasets]
        for number in range(self.start // self.size, plans[0].batches):
            skip = max(0, self.start - number * self.size)
            counts = [len(plan.share(number, skip) or ()) for plan in plans]
            got = [items(itertools.islice(samples, count)) for samples, count in zip(passes, counts)]
            full = next((dataset for dataset, count in zip(datasets, counts) if count), datasets[0])
            yield [one for share in got for one in share], full.state_dict()

    def torch_workers(self) -> Steps:
        dataset = self.dataset()
        for n, batch in enumerate(torch_data.DataLoader(dataset.batches(), batch_size=None, num_workers=self.workers)):
            yield columns(batch), dataset.state_dict(batches=n + 1) if self.workers else dataset.state_dict()

    def curl(self) -> Steps:
        name, json_of = quote(self.source.dataset, safe=""), self.source.core.json
        state = self.state or {"state": 3, "epoch": 0, "position": 0}
        at = f"/v1/datasets/{name}/epochs/{state['epoch']}"
        query = {"seed": str(SEED), "batch_size": str(self.size)} | ({"generation": state["generation"]} if self.state else {})
        told = json_of("GET", at, query)
        [plan] = told["plan_digests"]
        generation = millrace._job.brief(told["parameters"]["generation"])
        for number in range(self.start // self.size, told["batches"]):
            skip = max(0, self.start - number * self.size)
            manifest = json_of("GET", f"{at}/batches/{number}/manifest", query | ({"skip": str(skip)} if skip else {}))
            end = (number + 1) * self.size
            place = {"epoch": state["epoch"], "position": end} if end < told["samples"] else {"epoch": state["epoch"] + 1, "position": 0}
            yield [(digest(s["key"]), None) for s in manifest["samples"]], {"state": 3, "generation": generation, "plan": plan["digest"], **place}

    def jax(self) -> Steps:
        import jax

        import millrace.jax

        sizes = [size for size in (1, 2, 5, 10, 50) if self.start % size == 0]
        sharding = jax.sharding.NamedSharding(jax.make_mesh((1,), ("data",)), jax.sharding.PartitionSpec("data"))
        options = {"global_batch_size": sizes[-1], "seed": SEED, "transform": drawn, "decode": False}
        loader = millrace.jax.DataLoader(self.source, sharding=sharding, **options)
        if self.state:
            loader.load_state_dict(self.state)
        for batch in loader:
            yield columns(batch), loader.state_dict()


KINDS: list[Callable[[Part], Steps]] = [Part.epochs, Part.loaders, Part.batches, Part.samples, Part.stateful]
UNFILTERED = [*KINDS, Part.samples_of_ranks, Part.torch_workers, Part.curl]


def whole(source: Any, filtered: bool) -> Iterator[Drawn]:
    """The samples of a run in one piece."""
    for epoch in range(EPOCHS):
        how = Reading(keys=True, **({"filter": third} if filtered else {}))
        for batch in source.epoch(epoch, global_batch_size=50, seed=SEED, transform=drawn, reading=how):
            yield from items(batch.value)


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_random_switches(gateway: harness.Gateway, mixed: bool, filtered: bool) -> None:
    seed = random.randrange(1 << 32)
    r = random.Random(seed)
    kinds = KINDS if filtered else UNFILTERED
    try:
        import jax  # noqa: F401
    except ImportError:
        pass
    else:
        kinds = kinds if filtered else [*kinds, Part.jax]
    with millrace.Client(gateway.url, "photos") as client:
        source = millrace.mix({client.take(300): 2, client.subset(range(300, 500)): 1}, samples=500) if mixed else client
        want, seen, state, log = whole(source, filtered), 0, None, list[Any]()
        for _ in range(SWITCHES // 4):
            part, kind = Part(source, state, r, filtered), r.choice(kinds)
            log = [*log[-3:], (kind.__name__, part.ranks, part.size, part.workers, part.of_loader, state)]
            steps, lost, got = r.randrange(1, 6), r.choice((0, 0, 1, 3)), list[Drawn]()
            for n, (read, after) in enumerate(kind(part)):
                if n < steps:
                    got, state = got + read, after
                elif n >= steps + lost - 1:
                    break
            expected = list(itertools.islice(want, len(got)))
            pairs = [(a, b) if b[1] is not None else (a[:1], b[:1]) for a, b in zip(expected, got)]
            assert all(a == b for a, b in pairs), f"seed {seed}, after {seen} samples: {json.dumps(log)}"
            seen += len(got)
    assert seen > SWITCHES
