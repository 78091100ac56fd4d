"""The manifest of a batch: its samples' keys and positions, of JSON."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._head import Head
from .errors import ProtocolError


class Manifest(NamedTuple):
    """What the gateway says of the samples of a batch."""

    keys: list[str]
    positions: list[int]
    sources: Sequence[str] = ()  # of a mixture: the dataset that each sample is of


def read_manifest(answer: Any, head: Head) -> Manifest:
    """Checks the manifest of a batch."""
    of = Manifest([], [])
    try:
        for s in answer["samples"]:
            position, key = s["position"], s["key"]
            if not isinstance(position, int) or not isinstance(key, str):
                raise TypeError("a sample without position or key")
            of.keys.append(base64.b64decode(key).decode("utf-8", "surrogateescape") if s.get("key_base64") else key)
            of.positions.append(position)
    except (KeyError, TypeError, ValueError, binascii.Error) as e:
        raise ProtocolError(f"the manifest of batch {head.number}: {e}") from None
    if len(of.keys) != head.samples:
        raise ProtocolError(f"the manifest of batch {head.number} has {len(of.keys)} samples, the batch {head.samples}")
    return of._replace(sources=[str(s.get("source", "")) for s in answer["samples"]])
