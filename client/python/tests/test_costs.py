"""Batches that are divided among ranks and micro-batches by cost, compared with millrace.proof."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import pytest

import millrace
from millrace import Reading, Share, proof

SIZE, SAMPLES = 30, 200


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of texts with log-normal lengths."""
    at, lengths = tmp_path_factory.mktemp("texts"), random.Random(1)
    (at / "a.jsonl").write_text("".join(f'{{"n": {i}, "text": "{"x" * int(lengths.lognormvariate(4, 1))}"}}\n' for i in range(SAMPLES)))
    harness.run("index", str(at), "--batch-size", str(SIZE), "--chunk-size", "1KiB", "--window", "8")
    return at


@pytest.fixture(scope="module")
def client(texts: Path) -> Iterator[millrace.Client]:
    with harness.closing(g := harness.Gateway(f"texts={texts}")), millrace.Client(g.url) as c:
        yield c


@pytest.fixture(scope="module")
def lengths(client: millrace.Client) -> list[int]:
    """The length of each sample, in stored order."""
    return [len(s.data) for b in client.epoch(0, shuffle=False) for s in b]


def number(sample: millrace.Sample) -> int:
    return int(json.loads(bytes(sample.data))["n"])


def shares(costs: list[int], positions: list[int], ranks: int, micro: int) -> list[list[list[int]]]:
    """The positions of each rank's micro-batches, by the definition."""
    out = []
    for share in proof.divide([costs[t] for t in positions], ranks):
        of = proof.divide([costs[positions[place]] for place in share], micro)
        out.append([[positions[share[i]] for i in part] for part in of])
    return out


@pytest.mark.parametrize(("ranks", "micro", "tail"), [(1, 1, "short"), (3, 1, "pad"), (2, 4, "drop"), (3, 4, "pad"), (7, 9, "short")])
def test_shares_are_those_of_the_definition(client: millrace.Client, lengths: list[int], ranks: int, micro: int, tail: str) -> None:
    order = client.epoch(5).order()
    costs = [lengths[order.at(t)] for t in range(SAMPLES)]
    cost_of = {t: costs[t % SAMPLES] for t in range(SAMPLES + SIZE)}
    for rank in range(ranks):
        share = Share(balance="bytes", micro=micro, rank=rank, world_size=ranks, tail=tail)
        epoch = client.epoch(5, share=share, reading=Reading(keys=True))
        for batch in epoch:
            begin = batch.number * SIZE
            positions = list(range(begin, begin + SIZE if tail == "pad" else min(SAMPLES, begin + SIZE)))
            want = shares(cost_of, positions, ranks, micro)[rank]  # type: ignore[arg-type]
            assert [list(batch.positions[part]) for part in batch.micro_batches()] == want
            assert batch.micro == list(map(len, want))
            assert batch.padded == sum(t >= SAMPLES for part in want for t in part)
            assert (batch.batch_samples, batch.batch_cost) == (len(positions), sum(cost_of[t] for t in positions))
            assert [number(s) for s in batch] == [order.at(t % SAMPLES) for part in want for t in part]
    assert proof.batches(SAMPLES, SIZE, tail) == len(epoch)


def test_totals_without_balance(client: millrace.Client) -> None:
    epoch = client.epoch(0, share=Share(rank=1, world_size=4))
    for batch in epoch:
        assert (batch.micro, batch.batch_samples, batch.batch_cost) == ([len(batch)], min(SIZE, SAMPLES - SIZE * batch.number), None)
    assert epoch.samples([3, 4]).batch_samples == 2


def test_shared_memory_has_the_same_totals(gateway: harness.Gateway, neighbour: harness.Gateway) -> None:
    share = Share(balance="bytes", micro=3, rank=1, world_size=2)
    with millrace.Client(gateway.url) as far, millrace.Client(neighbour.url) as near:
        for a, b in zip(near.epoch(0, global_batch_size=100, share=share), far.epoch(0, global_batch_size=100, share=share)):
            assert (a.micro, a.batch_samples, a.batch_cost, bytes(a.data)) == (b.micro, b.batch_samples, b.batch_cost, bytes(b.data))
            a.close()
        assert len(a.micro) == 3
        assert near.describe()["transport"] == "shared memory"


def test_samples_that_are_left_out_shorten_micro_batches(client: millrace.Client) -> None:
    """The totals count them, and neither filtered samples nor padding are counted twice by a ledger."""
    share = Share(balance="bytes", micro=4, rank=0, world_size=2, tail="pad")
    reading = Reading(filter=lambda s: number(s) % 3 > 0, keys=True)
    whole, some = client.epoch(0, share=share, reading=Reading(keys=True)), client.epoch(0, share=share, reading=reading)
    with some.read(ledger=millrace.Ledger()) as reader:
        for batch, every in zip(reader, whole):
            kept = [[s.key for s in every[part] if number(s) % 3] for part in every.micro_batches()]
            assert [[s.key for s in batch[part]] for part in batch.micro_batches()] == kept
            assert batch.micro == list(map(len, kept))
            assert (batch.batch_samples, batch.batch_cost) == (every.batch_samples, every.batch_cost)
            assert batch.padded == sum(t >= SAMPLES for t in batch.positions)
            refused = {t for s, t in zip(every, every.positions) if not number(s) % 3 and t < SAMPLES}
            assert set(batch.omitted[0]) == refused
    assert batch.number == 6
    assert every.padded > batch.padded > 0


@pytest.mark.parametrize("more", [{"balance": "bytes"}, {"balance": "bytes", "micro": 3}])
def test_a_run_resumes_on_other_ranks(client: millrace.Client, more: dict[str, Any]) -> None:
    """It changes the ranks within an epoch, and within a batch."""
    read: list[int] = []
    first = [client.epoch(1, **harness.grouped(rank=r, world_size=3, **more)).read() for r in range(3)]
    for reader in first:
        with reader:
            read += [number(s) for _ in range(3) for s in next(reader)]
            state = reader.state_dict()
    order = client.epoch(1).order()
    assert Counter(read) == Counter(order.at(t) for t in range(3 * SIZE))
    for rank in range(5):
        epoch = client.epoch(state, **harness.grouped(rank=rank, world_size=5, global_batch_size=4 * SIZE, **more))
        batches = list(epoch)
        assert batches[0].batch_samples == SIZE  # the rest of a larger batch
        read += [number(s) for batch in batches for s in batch]
    assert Counter(read) == Counter(range(SAMPLES))


def bucketed(client: millrace.Client, lengths: list[int], batches: int, number: int) -> list[int]:
    """The samples of an epoch with bucket, by the definition."""
    epoch = client.epoch(number)
    order = epoch.order()
    bucket = proof.Bucket(
        batches, SIZE, SAMPLES, lambda t: lengths[order.at(t)], seed=int(epoch.plan.parameters["seed"]), epoch=number
    )
    return [order.at(bucket.at(t)) for t in range(SAMPLES)]


@pytest.mark.parametrize(("batches", "micro"), [(1, 1), (4, 1), (6, 3), (30, 2)])
def test_buckets_are_those_of_the_definition(client: millrace.Client, lengths: list[int], batches: int, micro: int) -> None:
    want = bucketed(client, lengths, batches, 5)
    plain = client.epoch(5)
    assert [number(s) for b in client.epoch(5, share=Share(bucket=batches)) for s in b] == want
    for rank in range(3):
        share = Share(bucket=batches, balance="bytes", micro=micro, rank=rank, world_size=3)
        epoch = client.epoch(5, share=share, reading=Reading(keys=True))
        assert epoch.plan.order_digest == proof.bucket_digest(plain.plan.order_digest, batches, SIZE, "bytes")
        for batch in epoch:
            positions = list(range(batch.number * SIZE, min(SAMPLES, batch.number * SIZE + SIZE)))
            parts = shares([lengths[x] for x in want], positions, 3, micro)[rank]
            assert [list(batch.positions[part]) for part in batch.micro_batches()] == parts
            assert [number(s) for s in batch] == [want[t] for part in parts for t in part]
    spread = [max(costs) - min(costs) for costs in ([lengths[x] for x in want[i : i + SIZE]] for i in range(0, 180, SIZE))]
    stored = plain.order()
    unsorted = [max(costs) - min(costs) for costs in ([lengths[stored.at(t)] for t in range(i, i + SIZE)] for i in range(0, 180, SIZE))]
    assert sum(spread) < sum(unsorted) or batches == 1


def test_a_bucketed_run_resumes_on_other_ranks(client: millrace.Client, lengths: list[int]) -> None:
    """It needs the batch size of the state, which is a part of its order."""
    want = bucketed(client, lengths, 4, 1)
    read: list[int] = []
    share: dict[str, Any] = {"bucket": 4, "balance": "bytes", "micro": 2}
    for rank in range(3):
        with client.epoch(1, share=Share(rank=rank, world_size=3, **share)).read() as reader:
            read += [number(s) for _ in range(2) for s in next(reader)]
            state = reader.state_dict()
    assert Counter(read) == Counter(want[: 2 * SIZE])
    for rank in range(2):
        read += [number(s) for batch in client.epoch(state, share=Share(rank=rank, world_size=2, **share)) for s in batch]
    assert Counter(read) == Counter(range(SAMPLES))
    for other, said in (
        ({"global_batch_size": 2 * SIZE, "share": Share(bucket=4, balance="bytes")}, "batch_size 60, bucket 4, balance bytes, "),
        ({"share": Share(bucket=5)}, "bucket 5, .*bucket with its batch size"),
        ({}, "bucket with its batch size"),
    ):
        with pytest.raises(millrace.errors.StateError, match=said):
            client.epoch(state, **other)
    assert client.epoch(state, share=Share(bucket=4)).start == 2  # the costs of bucket are the lengths without balance too


def test_positions_of_buckets_are_read_in_batches_only(client: millrace.Client) -> None:
    epoch = client.epoch(0, share=Share(bucket=2))
    with pytest.raises(millrace.InvalidArgument, match="only batches are read in an order with bucket"):
        epoch.samples([3])
    with pytest.raises(millrace.InvalidArgument, match="order: bucket needs more"):
        epoch.order()
    with pytest.raises(millrace.InvalidArgument, match="bucket"):
        client.epoch(0, share=Share(bucket=1 << 20))
    assert client.epoch(0, share=Share(bucket=1)).samples([3]).batch_samples == 1


def test_a_filter_that_leaves_nothing_of_a_bucketed_share(client: millrace.Client) -> None:
    share = Share(bucket=3, balance="bytes", rank=0, world_size=2)
    epoch = client.epoch(0, share=share, transform=number, reading=Reading(filter=lambda s: number(s) == 7))
    assert [value for batch in epoch for value in batch.value] in ([7], [])


def test_costs_by_name(client: millrace.Client, texts: Path) -> None:
    """The plan has the digest of the table, so that the name is looked up once."""
    harness.run("cost", "numbers", str(texts), "--from", "n")
    costs = list(range(SAMPLES))
    want = bucketed(client, costs, 3, 2)
    share: dict[str, Any] = {"bucket": 3, "balance": "cost:numbers", "micro": 2}
    for rank in range(2):
        epoch = client.epoch(2, share=Share(rank=rank, world_size=2, **share))
        digest = epoch.plan.parameters["balance"].removeprefix("cost:")
        assert len(digest) == 64
        assert epoch.plan.order_digest == proof.bucket_digest(client.epoch(2).plan.order_digest, 3, SIZE, digest)
        for batch in epoch:
            positions = list(range(batch.number * SIZE, min(SAMPLES, batch.number * SIZE + SIZE)))
            parts = shares([costs[x] for x in want], positions, 2, 2)[rank]
            assert [number(s) for s in batch] == [want[t] for part in parts for t in part]
            assert batch.batch_cost == sum(max(1, costs[want[t]]) for t in positions)
    with epoch.read(1) as reader:
        state = reader.state_dict()
    assert client.epoch(state, share=Share(bucket=3, balance=f"cost:{digest}")).start == 1
    with pytest.raises(millrace.errors.StateError, match="bucket with its batch size and costs"):
        client.epoch(state, share=Share(bucket=3))
    with pytest.raises(millrace.errors.MillraceError, match="nothing"):
        client.epoch(0, share=Share(balance="cost:nothing"))


def test_refusals(client: millrace.Client) -> None:
    for share, said in (
        (Share(micro=2), "micro: requires balance=bytes"),
        (Share(balance="bites"), "balance"),
        (Share(balance="bytes", micro=2000), "micro"),
        (Share(balance="bytes", by="locality", rank=0, world_size=2), "locality"),
    ):
        with pytest.raises(millrace.InvalidArgument, match=said):
            client.epoch(0, share=share)
    with pytest.raises(millrace.InvalidArgument, match=r"totals.*a Batch has batch_samples, batch_cost and micro"):
        client.epoch(0, reading=Reading(totals=True))
