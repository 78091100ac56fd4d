"""The manifest of a batch: its samples' positions, keys and lengths, as JSON."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from .batch import Head, Table
from .errors import ProtocolError


def read_manifest(answer: Any, head: Head) -> Table:
    """Lays the samples of a manifest one after another over a body in the native form."""
    bounds, keys, positions = [0], [], []
    try:
        for s in answer["samples"]:
            length, position, key = s["length"], s["position"], s["key"]
            if not isinstance(length, int) or not isinstance(position, int) or not isinstance(key, str) or length < 0:
                raise ValueError("a sample without length, position or key")
            if s.get("key_base64"):
                key = base64.b64decode(s["key_base64"]).decode("utf-8", "surrogateescape")
            bounds.append(bounds[-1] + length)
            keys.append(key)
            positions.append(position)
    except (KeyError, TypeError, ValueError, binascii.Error) as e:
        raise ProtocolError(f"the manifest of batch {head.number}: {e}") from None
    if len(keys) != head.samples:
        raise ProtocolError(f"the manifest of batch {head.number} has {len(keys)} samples, the batch {head.samples}")
    return Table(bounds, keys, positions)
