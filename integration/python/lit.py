"""Writes and reads LitData's chunks with LitData itself: lit.py write DIR | lit.py read DIR...

Both print a JSON object with a digest of each sample as the library decodes it, by directory and then by sample ID.
"""

import hashlib
import json
import os
import sys
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import litdata.helpers
import numpy as np
import torch
from litdata import StreamingDataset
from litdata.streaming.cache import Cache
from litdata.streaming.item_loader import TokensLoader
from PIL import Image

SAMPLES = 60
BLOCK = 8  # tokens per sample in the dataset "tokens"

litdata.helpers._get_newer_version = lambda _: None  # otherwise it sends a request to PyPI


def sample(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "name": "é" * (i % 5),
        "raw": bytes([i]) * i,
        "score": i / 7,
        "flag": i % 2 == 0,
        "image": Image.fromarray(np.full((4 + i % 3, 5, 3), i, np.uint8)),
        "of": [np.arange(i + 1, dtype=np.int32).reshape(1, i + 1), (torch.full((2, i + 1), i), torch.arange(i + 1))],
        "any": {"nested": None},
    }


def canonical(x: Any) -> Any:
    """Converts a decoded value to one whose repr shows everything."""
    if isinstance(x, torch.Tensor):
        x = x.numpy()
    if isinstance(x, Image.Image):
        return x.mode, x.size, x.tobytes()
    if isinstance(x, (np.ndarray, np.generic)):
        return str(x.dtype), x.shape, x.tobytes()
    if isinstance(x, dict):
        return [(k, canonical(v)) for k, v in sorted(x.items())]
    if isinstance(x, (list, tuple)):
        return type(x).__name__, [canonical(y) for y in x]
    return type(x).__name__, repr(x)


def read(*directories: str) -> None:
    all_found = {}
    for directory in directories:
        found: dict[str, str] = {}
        of_tokens = os.path.basename(directory) == "tokens"
        loader = TokensLoader(block_size=BLOCK) if of_tokens else None
        for s in StreamingDataset(directory, shuffle=False, item_loader=loader):
            key = str(int(s[0]) if of_tokens else s["id"])
            if key in found:
                raise SystemExit(f"sample {key} comes twice")
            found[key] = hashlib.sha256(repr(canonical(s)).encode()).hexdigest()
        all_found[os.path.basename(directory)] = found
    json.dump(all_found, sys.stdout)


def write(directory: str) -> None:
    for name, compression in ("plain", None), ("zstd", "zstd"), ("level", "zstd:7"):
        cache = Cache(os.path.join(directory, name), chunk_bytes=1 << 12, compression=compression)
        for i in range(SAMPLES):
            cache[i] = sample(i)
        cache.done()
        cache.merge()
    tokens = Cache(os.path.join(directory, "tokens"), chunk_bytes=1 << 12, item_loader=TokensLoader(block_size=BLOCK))
    for i in range(SAMPLES):
        tokens[i] = np.arange(100 * i, 100 * i + 1 + i % 30, dtype=np.int32)
    tokens.done()
    tokens.merge()
    read(os.path.join(directory, "plain"), os.path.join(directory, "tokens"))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        read(*sys.argv[2:])
