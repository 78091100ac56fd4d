"""Importance sampling: losses are reported to the gateway, and weights from them select the samples of later epochs.

    for batch in client.epoch(3):
        losses = train(batch)
        millrace.importance.report(client, batch, losses)
    snapshot = millrace.importance.freeze(client, batch)        # one rank, when all have reported
    epoch = client.epoch(4, order=millrace.Order(importance=snapshot))

Losses are stored only for whole datasets, not for a split, subset, quarantine or mixture. The page Importance shows the same for
millrace.torch, and explains how weights follow from losses: https://github.com/millrace-data/millrace/blob/main/docs/importance.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from reprlib import repr as short
from typing import Any, Optional, Union
from urllib.parse import unquote

from .batch import Batch
from .client import ClientOwner, source_of
from .errors import InvalidArgument, NotFound, ProtocolError
from .source import Source

_BATCH = re.compile(r"(/v1/datasets/[^/?]+)/epochs/\d+/batches/\d+\?")


def report(client: Union[Source, ClientOwner], batch: Union[Batch, str], losses: Iterable[Any]) -> None:
    """Reports the losses of a batch's samples to the gateways.

    client  the reader of the batch: a client, a view, or a dataset that uses one
    batch   the Batch, or its `location`, which a batch_transform of millrace.torch can return
    losses  a finite number for each sample, in the order of the batch: numbers, an array or a tensor. Only their order counts, so they
            may be negative

    The first report of a batch counts. Reports are idempotent, from any process to any gateway; another loss for the same position of the
    same epoch is a Conflict, and that whole report is rejected. A resumed run may ignore it; a new run should use another seed. A
    read-only bucket causes ReadOnly.
    """
    source, path, location = _target("report", client, batch)
    plain = _numbers(losses)
    if isinstance(batch, Batch) and len(plain) != len(batch):
        raise InvalidArgument(f"report: {len(plain)} losses for a batch of {len(batch)} samples")
    if not plain:  # for an empty share
        return
    try:
        source.core.json("POST", path, None, {"url": location, "losses": plain})
    except (InvalidArgument, NotFound) as e:
        faults = {name for name, _ in e.faults}
        if "losses" in faults:
            e.cure = (
                "give one loss for each sample; a batch of which filter or on_error has left out samples cannot be reported: samples without a "
                "loss would be drawn more often than those with one"
            )
        elif "url" in faults or type(e) is NotFound:
            e.cure = "losses are kept of a whole dataset only, not of a split, subset, quarantine or mixture"
        raise


def freeze(client: Union[Source, ClientOwner], batch: Union[Batch, str], *, hot_share: Optional[float] = None, repeat: Optional[int] = None) -> str:
    """Creates a snapshot of the losses reported for the epoch of a batch, and returns its name.

    hot_share is the fraction of hot samples (default 0.1), and repeat is the factor of their weight (default 3). The same losses make the
    same snapshot, on any gateway. client and batch are as for report.
    """
    source, path, location = _target("freeze", client, batch)
    body: dict[str, Any] = {"url": location}
    if hot_share is not None:
        body["hot_share"] = hot_share
    if repeat is not None:
        body["repeat"] = repeat
    try:
        answer = source.core.json("POST", path + "/snapshots", None, body)
    except NotFound as e:
        e.cure = "losses belong to their dataset, order, epoch and reporter: freeze with a batch and a client that losses were reported with"
        raise
    if not isinstance(answer, dict) or not answer.get("snapshot"):
        raise ProtocolError("freeze: no snapshot is named")
    return str(answer["snapshot"])


def _target(act: str, client: object, batch: object) -> tuple[Source, str, str]:
    """Returns the source that sends losses, the path for them, and the batch's location."""
    source = source_of(act, client)
    location = batch.location if isinstance(batch, Batch) else batch
    found = _BATCH.match(location) if isinstance(location, str) else None
    if found is None:
        raise InvalidArgument(
            f"{act}: got {type(batch).__name__}, want a Batch or its `location`",
            cure="have datasets of millrace.torch yield it: reading=millrace.Reading(batch_transform=f), where f returns (batch.location, "
            "millrace.torch.collate_columns(batch))",
        )
    if source.dataset not in ("", dataset := unquote(found[1].rpartition("/")[2])):
        raise InvalidArgument(f"{act}: the batch is of dataset {dataset!r}, and {source!r} of {source.dataset!r}", cure="give what read it")
    return source, f"{found[1]}/importance", str(location)


def _numbers(losses: Any) -> list[float]:
    values = losses.tolist() if hasattr(losses, "tolist") else losses
    if not isinstance(values, Iterable):
        got = "one loss" if isinstance(values, (int, float)) else type(values).__name__
        raise InvalidArgument(f"report: got {got}, want one for each sample", cure='loss functions of torch return these with reduction="none"')
    plain: list[float] = []
    for i, value in enumerate(values):
        try:
            plain.append(float(value))
        except (TypeError, ValueError) as e:
            raise InvalidArgument(f"report: loss {i} is {short(value)}, want a finite number", cure="of several numbers report their mean") from e
        if not math.isfinite(plain[-1]):
            cure = "report none of this batch: a sample without a loss keeps its weight"
            raise InvalidArgument(f"report: loss {i} is {plain[-1]}, want a finite number", cure=cure)
    return plain
