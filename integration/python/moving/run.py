"""Runs the scripts of docs/moving.md: run.py before NAME DIR | run.py keep NAME GATEWAY | run.py after GATEWAY NAME...

Each module from_NAME.py has write(DIR), which creates a dataset with the library itself; before(DIR, train), which reads it with that
library; and after(GATEWAY, train), which reads the same files with Millrace. Some have keep(GATEWAY, train), which reads a gateway's
responses with the library. Regions between lines `# begin: WORD` and `# end` are the page's code blocks. This script prints a JSON object
with the number of times that train received each sample, by dataset and then by a digest of the sample's tensors.
"""

import hashlib
import importlib
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch


class Told:
    """The samples that train received."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def __call__(self, *columns: Any) -> None:
        for values in zip(*columns):
            digest = hashlib.sha256()
            for v in values:
                if isinstance(v, torch.Tensor):
                    digest.update(f"{v.dtype} {tuple(v.shape)}\n".encode() + v.numpy().tobytes())
                else:
                    digest.update(json.dumps(v).encode())  # text values
            self.count[digest.hexdigest()] += 1


def run(name: str, what: str, where: str) -> dict[str, str]:
    module, told = importlib.import_module("from_" + name), Told()
    if what == "before":
        Path(where).mkdir(parents=True)
        module.write(where)
    getattr(module, what)(where, told)
    return {digest: str(n) for digest, n in told.count.items()}


def main(what: str, *args: str) -> None:
    if what == "after":
        gateway, *names = args
    else:
        name, gateway = args
        names = [name]
    json.dump({name: run(name, what, gateway) for name in names}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
