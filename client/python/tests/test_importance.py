"""Losses reported from Python: the accepted batches and losses, and the error texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import harness
import pytest

import millrace
from millrace import Order, Reading, Share, importance


@pytest.fixture
def client(gateway: harness.Gateway) -> Iterator[millrace.Client]:
    with millrace.Client(gateway.url) as c:
        yield c


def test_later_epochs_are_drawn_by_reported_losses(client: millrace.Client) -> None:
    batch = client.epoch(0, seed=99).batch(3)
    importance.report(client, batch, [0.0] * 31 + [100.0])
    importance.report(client, batch, [0.0] * 31 + [100.0])
    snapshot = importance.freeze(client, batch, hot_share=0.002, repeat=40)
    drawn = [key for b in client.epoch(1, seed=99, order=Order(importance=snapshot), reading=Reading(keys=True)) for key in b.keys]
    assert len(drawn) == 500
    assert drawn.count(batch.keys[31]) > 10
    with pytest.raises(millrace.InvalidArgument, match=r"millrace\.proof"):
        client.epoch(1, order=Order(importance=snapshot)).order()


def test_only_the_order_of_losses_counts(client: millrace.Client) -> None:
    """Negative losses are therefore valid too."""
    snapshots = set[str]()
    for seed, shift in enumerate((0, -1000)):
        batch = client.epoch(0, seed=100 + seed, shuffle=False).batch(0)
        importance.report(client, batch, [i / 7 + shift for i in range(32)])
        order = Order(importance=importance.freeze(client, batch))
        snapshots.add(str(sorted(key for b in client.epoch(1, seed=7, order=order, reading=Reading(keys=True)) for key in b.keys)))
    assert len(snapshots) == 1


def test_a_location_stands_for_its_batch(client: millrace.Client) -> None:
    batch = client.epoch(0, seed=98).batch(3)
    importance.report(client, batch.location, range(32))
    assert importance.freeze(client, batch.location) == importance.freeze(client, batch)
    with pytest.raises(millrace.InvalidArgument, match=r"losses: got 31 losses for the 32 samples .*; give one loss for each sample") as raised:
        importance.report(client, batch.location, range(31))
    assert "filter or on_error" in str(raised.value)


def test_a_batch_that_lost_samples_is_not_reported(client: millrace.Client) -> None:
    """Samples that the filter refuses would have the weight of samples without a loss, which is more than most others.

    An empty batch reports nothing.
    """
    kept = Reading(filter=lambda sample: sample.position % 3 and sample.position // 32 != 2)
    refused = 0
    for batch in client.epoch(0, seed=93, share=Share(rank=0, world_size=2), reading=kept):
        if not len(batch):
            importance.report(client, batch, [])
            continue
        with pytest.raises(millrace.InvalidArgument, match=r"losses: .*; a batch of which filter or on_error has left out samples"):
            importance.report(client, batch, [0.5] * len(batch))
        refused += 1
    assert refused == len(client.epoch(0, seed=93)) - 1


def test_only_whole_datasets_keep_losses(client: millrace.Client) -> None:
    for part in (client.split(train=0.9, val=0.1)["train"], millrace.mix({client: 1.0}, samples=64)):
        batch = part.epoch(0, global_batch_size=32).batch(0)
        with pytest.raises(millrace.MillraceError, match=r"(has a subset|does not support importance).*; losses are kept of a whole dataset only"):
            importance.report(part, batch, range(32))


def test_an_empty_share_has_no_losses_to_report(gateway: harness.Gateway, client: millrace.Client) -> None:
    share = client.epoch(0, global_batch_size=499, share=Share(rank=0, world_size=2)).batch(1)
    assert len(share) == 0
    before = len(gateway.requests("/importance"))
    importance.report(client, share, [])
    importance.report(client, share.location, [])
    assert len(gateway.requests("/importance")) == before


@pytest.mark.parametrize("taken", [{"jpg": [b""] * 32}, ["img-1"] * 32, "img-1", None])
def test_what_is_no_batch_is_refused(client: millrace.Client, taken: Any) -> None:
    for call in (lambda: importance.report(client, taken, [0.0] * 32), lambda: importance.freeze(client, taken)):
        with pytest.raises(millrace.InvalidArgument, match=r"want a Batch or its `location`; .*batch_transform.*collate_columns"):
            call()


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ([1, 2, 3], "3 losses for a batch of 32 samples"),
        ([0.0] * 5 + [float("nan")] * 27, "loss 5 is nan, want a finite number; .*without a loss keeps its weight"),
        ([0.0] * 31 + [float("-inf")], "loss 31 is -inf, want a finite number"),
        (2.5, r"got one loss, want one for each sample; .*reduction=\"none\""),
        ([[1.0, 2.0]] * 32, r"loss 0 is \[1.0, 2.0\], want a finite number"),
        ("a" * 32, "loss 0 is 'a', want a finite number"),
        (None, "got NoneType, want one for each sample"),
    ],
)
def test_losses_that_cannot_be_are_refused(client: millrace.Client, losses: Any, message: str) -> None:
    with pytest.raises(millrace.InvalidArgument, match=f"^report: {message}"):
        importance.report(client, client.epoch(0, seed=97).batch(3), losses)


def test_a_conflict_says_what_to_do(client: millrace.Client) -> None:
    batch = client.epoch(0, seed=96).batch(3)
    importance.report(client, batch, range(32))
    with pytest.raises(millrace.errors.Conflict, match=r"the first report of a batch stands: .* another seed"):
        importance.report(client, batch, [1.0] * 32)


def test_freezing_an_epoch_without_reports_says_what_to_do(client: millrace.Client) -> None:
    with pytest.raises(millrace.NotFound, match=r"no losses were reported for this plan and epoch.*; losses belong to their dataset, order, epoch"):
        importance.freeze(client, client.epoch(0, seed=94).batch(0))


def test_a_client_of_another_dataset_is_refused(gateway: harness.Gateway, client: millrace.Client) -> None:
    batch = client.epoch(0, seed=95).batch(0)
    with (
        millrace.Client(gateway.url, "other") as other,
        pytest.raises(millrace.InvalidArgument, match=r"report: the batch is of dataset '\w+', and <Client of other .*> of 'other'; give what"),
    ):
        importance.report(other, batch, range(32))


def test_a_wrong_source_is_refused(client: millrace.Client) -> None:
    batch = client.epoch(0, seed=95).batch(0)
    source: Any = "http://gateway:8080"
    with pytest.raises(millrace.InvalidArgument, match="report: got str, want a client"):
        importance.report(source, batch, range(32))
