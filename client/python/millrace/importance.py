"""Losses go to the gateway, and come back as weights by which later epochs are drawn.

    for batch in client.epoch(3):
        losses = train(batch)
        millrace.importance.report(client, batch, losses)
    snapshot = millrace.importance.freeze(client, batch)        # one rank, when all have reported
    epoch = client.epoch(4, order=millrace.Order(importance=snapshot))

The page Importance says how weights follow from losses: https://github.com/millrace-data/millrace/blob/main/docs/importance.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional
from urllib.parse import quote

from .batch import Batch
from .errors import InvalidArgument, ProtocolError
from .view import Source


def report(client: Source, batch: Batch, losses: Iterable[Any]) -> None:
    """Tells the gateways the losses of a batch's samples, in the order of the batch: numbers, an array or a tensor.

    The same losses may be reported again, by whoever and to whichever gateway; another loss for the same place of the same epoch is
    a Conflict. A bucket that takes no writes is ReadOnly.
    """
    plain = [float(x) for x in losses]
    if len(plain) != len(batch):
        raise InvalidArgument(f"report: {len(plain)} losses for a batch of {len(batch)} samples")
    if any(x != x or x in (float("inf"), float("-inf")) for x in plain):
        raise InvalidArgument("report: a loss is not finite")
    client.core.json("POST", _path(batch), None, {"url": batch.location, "losses": plain})


def freeze(client: Source, batch: Batch, *, hot_share: Optional[float] = None, repeat: Optional[int] = None) -> str:
    """Makes a snapshot of the losses that were reported of the epoch that a batch belongs to, and returns its name.

    hot_share is the share of the samples that are hot, repeat how often their weight counts: .1 and 3 if left out. The same
    losses make the same snapshot, whichever gateway is asked.
    """
    body: dict[str, Any] = {"url": batch.location}
    if hot_share is not None:
        body["hot_share"] = hot_share
    if repeat is not None:
        body["repeat"] = repeat
    answer = client.core.json("POST", _path(batch) + "/snapshots", None, body)
    if not isinstance(answer, dict) or not answer.get("snapshot"):
        raise ProtocolError("freeze: no snapshot is named")
    return str(answer["snapshot"])


def _path(batch: Batch) -> str:
    return f"/v1/datasets/{quote(batch.dataset, safe='')}/importance"
