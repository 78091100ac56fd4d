"""Functions of single samples: their arguments, reproducible draws, excluded samples, and errors."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import harness
import pytest
from conftest import SAMPLES

import millrace
from millrace import Reading, Share

Drawn = dict[int, tuple[Any, ...]]


@pytest.fixture
def client(gateway: harness.Gateway) -> Iterator[millrace.Client]:
    with millrace.Client(gateway.url) as c:
        yield c


def crop_with_noise(sample: millrace.Sample) -> tuple[Any, ...]:
    """A random crop of 16 bytes, noise, and the parameters of the draw."""
    at = sample.rng.randrange(len(sample["jpg"]) - 16)
    noise = sample.numpy_rng.integers(0, 256, 16, dtype="u1")
    return sample.position, at, bytes(a ^ int(b) for a, b in zip(sample["jpg"][at : at + 16], noise)), sample.rng.random()


def drawn(client: millrace.Client, epoch: int = 0, **options: Any) -> Drawn:
    out: Drawn = {}
    for batch in client.epoch(epoch, seed=5, transform=crop_with_noise, **harness.grouped(global_batch_size=24, **options)):
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
    single = client.epoch(0, global_batch_size=24, seed=5, transform=crop_with_noise).batch(3).value
    assert {position: rest for position, *rest in single}.items() <= want.items()
    another = drawn(client, 1)
    assert all(another[position][-1] != rest[-1] for position, rest in want.items())
    assert drawn(client, shuffle="none") != want


def test_filter(client: millrace.Client, files: dict[str, tuple[bytes, bytes]]) -> None:
    """A refused sample is not decoded further. No batch is empty, and a ledger counts refused samples as read."""
    decoded = []

    def size(view: memoryview) -> int:
        decoded.append(len(view))
        return len(view)

    wanted = {key for key, (_, cls) in files.items() if cls == b"3"}
    options: dict[str, Any] = {"global_batch_size": 8, "decode": {"cls": int, "jpg": size}, "keys": True, "filter": lambda sample: sample["cls"] == 3}
    epoch = client.epoch(0, **harness.grouped(**options))
    ledger, got, numbers = millrace.Ledger(), [], []
    with epoch.read(ledger=ledger) as reader:
        for batch in reader:
            assert len(batch) == len(batch["jpg"]) == len(batch.positions) > 0
            assert batch["cls"] == [3] * len(batch)
            got += batch.keys
            numbers.append(batch.number)
            assert reader.position == batch.number + 1
    assert set(got) == wanted
    assert len(got) == len(decoded) == len(wanted)
    assert len(numbers) < len(epoch)
    ledger.check()
    part = json.loads(str(ledger))
    assert sum(end - first for _, first, end in part["filtered"]) == 500 - len(wanted)
    middle = numbers[len(numbers) // 2]
    assert [b.number for b in client.epoch(0, **harness.grouped(**options, start=middle + 1))] == numbers[len(numbers) // 2 + 1 :]
    with epoch.read() as reader:
        assert [next(reader).number for _ in range(3)] == numbers[:3]
    with epoch.read() as reader:
        emptied = [reader.advance().emptied for _ in range(len(epoch))]
    assert [m for m in range(len(epoch)) if not emptied[m]] == numbers
    with pytest.warns(UserWarning, match="have left out all 500 samples"):
        assert not list(client.epoch(0, reading=Reading(filter=lambda _: False, collate=lambda samples: samples[0])))


def test_a_filter_asks_for_no_positions(gateway: harness.Gateway, client: millrace.Client) -> None:
    """If only a manifest contains positions, the client requests them for a ledger, but not for a filter."""
    before = len(gateway.requests("/manifest"))
    share, reading = Share(balance="bytes", rank=0, world_size=2), Reading(filter=lambda sample: sample["cls"] > 4)
    epoch = client.epoch(0, decode={"cls": int}, share=share, reading=reading)
    assert 100 < sum(len(batch) for batch in epoch) < 150
    assert len(gateway.requests("/manifest")) == before
    with epoch.read(ledger=millrace.Ledger()) as reader:
        lengths = [(len(batch), batch.came, len(batch.omitted[0])) for batch in reader]
    assert all(kept + filtered == came and filtered for kept, came, filtered in lengths)
    assert len(gateway.requests("/manifest", before + 1)) > before


def test_without_numpy(gateway: harness.Gateway) -> None:
    program = f"""
import millrace
with millrace.Client({gateway.url!r}) as client:
    print(len(client.epoch(0, transform=lambda sample: sample.rng.random()).batch(0).value))
    try: client.epoch(0, transform=lambda sample: sample.numpy_rng, reading=millrace.Reading(on_error="skip")).batch(0)
    except millrace.errors.CannotDecode as e: print(e)
"""
    done = subprocess.run([sys.executable, "-c", program], env=harness.without("numpy"), capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "32\nnumpy_rng: numpy is not installed; pip install 'millrace-data[numpy]', or draw from sample.rng\n", done.stderr


def test_a_filter_decodes_no_part_twice(client: millrace.Client) -> None:
    decoded = []

    def label(view: memoryview) -> int:
        decoded.append(view)
        return int(bytes(view))

    kept = [label for b in client.epoch(0, decode={"cls": label}, reading=Reading(filter=lambda sample: sample["cls"] > 4)) for label in b["cls"]]
    assert sorted(kept) == sorted(list(range(5, 10)) * (SAMPLES // 10))
    assert len(decoded) == SAMPLES


def test_a_transformed_sample_frees_its_decoded_parts(client: millrace.Client) -> None:
    """Decoded pictures are larger than the transform's results. A whole batch of them is never in memory at the same time."""

    class Picture:
        pass

    alive = weakref.WeakSet[Picture]()
    most = 0

    def decode(_: memoryview) -> Picture:
        alive.add(picture := Picture())
        return picture

    def transform(sample: millrace.Sample) -> int:
        nonlocal most
        assert isinstance(sample["jpg"], Picture)
        most = max(most, len(alive))
        return sample.position

    for batch in client.epoch(0, decode={"jpg": decode}, transform=transform, **harness.grouped(global_batch_size=24, threads=1)):
        assert len(batch.value) == len(batch)
    assert 1 <= most <= 2


def test_samples_become_dicts(client: millrace.Client, files: dict[str, tuple[bytes, bytes]]) -> None:
    """Tests `collate` without `transform`, and a `transform` that returns the sample."""

    def change(sample: millrace.Sample) -> millrace.Sample:
        sample["size"], sample["cls"] = len(sample["jpg"]), sample["cls"] + 1
        del sample["jpg"]
        assert set(sample) == {"cls", "size"}
        assert "jpg" not in sample
        with pytest.raises(KeyError, match="no part 'jpg'"):
            sample["jpg"]
        return sample

    steps: dict[str, Any] = {"decode": {"cls": int}, "keys": True}
    for batch in client.epoch(0, transform=change, **harness.grouped(**steps)):
        assert batch.value == [{"cls": int(files[k][1]) + 1, "size": len(files[k][0]), "__key__": k} for k in batch.keys]
        assert batch["cls"] == [int(files[k][1]) for k in batch.keys]
    for batch in client.epoch(0, **harness.grouped(collate=list, **steps)):
        assert batch.value == [{"jpg": files[k][0], "cls": int(files[k][1]), "__key__": k} for k in batch.keys]
    handed_on = client.epoch(0, transform=lambda sample: [sample, sample.key], **harness.grouped(filter=lambda sample: sample["cls"] > 4, **steps))
    assert all(sample.key == key for batch in handed_on for sample, key in batch.value)
    whole = client.epoch(0, transform=change, **harness.grouped(batch_transform=lambda batch: (len(batch.value), batch.number), **steps))
    assert [batch.value for batch in whole][:2] == [(32, 0), (32, 1)]


def fails_at(bad: str, step: str) -> dict[str, Any]:
    def check(sample: millrace.Sample) -> Any:
        if sample.key == bad:
            raise ArithmeticError("no crop")
        return (sample.key,)

    return {step: check} if step == "transform" else {step: check, "transform": lambda sample: (sample.key,)}


@pytest.mark.parametrize("step", ["filter", "transform"])
@pytest.mark.parametrize("keys", [False, True])
def test_a_step_that_fails_names_its_sample(client: millrace.Client, step: str, keys: bool) -> None:
    bad = "img-123"
    found = [(b.number, i, s.position) for b in client.epoch(1, reading=Reading(keys=True)) for i, s in enumerate(b) if s.key == bad]
    with pytest.raises(millrace.errors.TransformError, match="ArithmeticError: no crop") as raised:
        list(client.epoch(1, **harness.grouped(keys=keys, **fails_at(bad, step))))
    for e in (raised.value, pickle.loads(pickle.dumps(raised.value)), millrace.errors.TransformError(f"Caught in a worker: {raised.value}")):
        assert (e.step, e.part, e.key, e.epoch) == (step, None, bad, 1)
        assert [(e.batch, e.sample, e.position)] == found
        assert e.report("photos").endswith(f"--key {bad} --reason '{step} fails'")
    assert isinstance(raised.value.__cause__, ArithmeticError)
    assert isinstance(raised.value, millrace.SampleError)


@pytest.mark.parametrize("step", ["filter", "transform"])
def test_on_error_covers_every_step(client: millrace.Client, step: str) -> None:
    bad, told = "img-123", []

    def instead(error: millrace.SampleError) -> Any:
        told.append((error.step, error.key))
        return ("another",)

    kept = [k for b in client.epoch(1, **harness.grouped(on_error="skip", **fails_at(bad, step))) for (k,) in b.value]
    assert len(kept) == SAMPLES - 1
    assert bad not in kept
    given = [k for b in client.epoch(1, **harness.grouped(on_error=instead, **fails_at(bad, step))) for (k,) in b.value]
    assert len(given) == SAMPLES
    assert ("another" in given) == (step == "transform")  # a filter returns only yes or no
    assert told == [(step, bad)]


def test_a_decoder_that_a_step_asks_for(client: millrace.Client) -> None:
    """`on_error` is called once for a part, and the steps receive its result."""
    told = []

    def picky(view: memoryview) -> int:
        if bytes(view) == b"7":
            raise ValueError("seven")
        return int(bytes(view))

    def instead(error: millrace.SampleError) -> Any:
        told.append(error)
        return -1 if len(told) % 2 else None

    steps: dict[str, Any] = {"decode": {"cls": picky}, "filter": lambda sample: sample["cls"] < 8, "transform": lambda sample: sample["cls"]}
    got = [value for b in client.epoch(0, **harness.grouped(on_error=instead, threads=1, **steps)) for value in b.value]
    assert got.count(-1) == 25
    assert len(told) == 50
    assert set(got) == {-1, *range(7)}
    assert all(isinstance(e, millrace.errors.DecodeError) and e.part == "cls" for e in told)
    with pytest.raises(millrace.errors.DecodeError, match="seven"):
        list(client.epoch(0, **harness.grouped(**steps)))


def test_a_decoder_without_a_part(client: millrace.Client) -> None:
    for step in ({}, {"filter": bool}, {"transform": len}, {"collate": len}):
        with pytest.raises(millrace.InvalidArgument, match="no sample has a part 'gif': the first one has"):
            client.epoch(0, decode={"gif": len}, **harness.grouped(**step)).batch(0)


def test_a_decoder_that_returns_nothing(client: millrace.Client) -> None:
    with pytest.raises(millrace.errors.DecodeError, match=r"'cls' of sample 0 .* returned None") as raised:
        client.epoch(0, decode={"cls": lambda _: None}).batch(0)
    assert raised.value.part == "cls"


def _refused(client: millrace.Client, **reading: Any) -> millrace.InvalidArgument:
    with pytest.raises(millrace.InvalidArgument) as raised:
        list(client.epoch(1, reading=Reading(**reading)))
    return raised.value


@pytest.mark.parametrize("step", ["collate", "batch_transform"])
@pytest.mark.parametrize("cause", [KeyError("png"), StopIteration()])
def test_a_function_of_a_batch_that_fails_names_the_batch(client: millrace.Client, step: str, cause: Exception) -> None:
    """A StopIteration must not look like the end of the epoch."""
    calls: list[Any] = []

    def fail(given: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            raise cause
        return len(given)

    error = _refused(client, threads=1, **{step: fail})
    assert error.message == f"{step} batch 2 in epoch 1: {type(cause).__name__}: {cause}"
    assert error.__cause__ is cause
    assert ("a list of 32 values, of which the first is a dict" in error.cure) == (step == "collate")


def test_a_collate_that_returns_nothing_is_refused(client: millrace.Client) -> None:
    """As for `transform`, only the first batch is checked, because a later batch may have no value."""
    assert str(_refused(client, collate=lambda _: None)) == "collate returned None for the first batch; is a return missing?"
    values = [batch.value for batch in client.epoch(0, reading=Reading(collate=lambda samples: len(samples) == 32 or None))]
    assert values == [True] * 15 + [None]
    assert [batch.value for batch in client.epoch(0, reading=Reading(batch_transform=lambda _: None))] == [None] * 16
