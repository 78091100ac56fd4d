"""Reads epochs with one library, in a separate process: read.py LIBRARY JOB-AS-JSON. Prints its results as JSON.

JOB contains the fields of libraries.Job and these: "epochs"; "stop", the number of batches after which the last epoch ends, or 0; "counts",
the address at which the store reports its requests; and "digest", whether the values are hashed.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import columnar
import libraries
import sets
import torch

END = 5.0  # seconds for a regular exit; LitData with workers requires 5 for each of them
FORCED = 3  # exit code of a reader that has read everything, but did not exit in time


def chi_square(counts: torch.Tensor) -> float:
    """How unevenly a batch mixes classes: 1 on average if samples are drawn at random, more if a class is concentrated."""
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum() / (len(counts) - 1))


def epoch(reader: libraries.Reader, since: float, stop: int, digest: bool, samples: int) -> dict[str, Any]:
    """Reads one epoch. since is the time at which its reader was requested."""
    first, ids, spread, size, total = 0.0, [], [], 0, 0
    for n, batch in enumerate(reader.epoch(), 1):
        if n == 1:
            first = time.monotonic() - since
        numbers = sets.ids(batch)
        ids += numbers
        size += sets.size(batch)
        if len(numbers) == libraries.BATCH:
            classes = torch.tensor(numbers) * sets.CLASSES // samples
            spread.append(chi_square(torch.bincount(classes, minlength=sets.CLASSES).double()))
        if digest:
            total += sets.digest(sets.rows(batch))
        if n == stop:
            break
    return {
        "first": first, "seconds": time.monotonic() - since, "samples": len(ids), "bytes": size, "distinct": len(set(ids)),
        "ids": ids if stop else [], "unevenness": sum(spread) / len(spread) if spread else None, "digest": total % (1 << 64),
    }


def in_memory(*directories: str) -> int:
    """The bytes of the page cache for the files below directories."""
    files = [str(path) for directory in directories for path in Path(directory).rglob("*") if path.is_file()]
    if not files:
        return 0
    command = ["fincore", "--bytes", "--noheadings", "--output", "RES", "--", *files]
    told = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # some files may disappear meanwhile
    return sum(map(int, told.stdout.split()))


def end_within(seconds: float) -> None:
    """Kills the process and its workers after the given time, unless they exit earlier."""

    def force() -> None:
        for worker in multiprocessing.active_children():
            worker.kill()
        # the resource tracker, a separate process, removes the shared memory when all have exited
        os._exit(FORCED)

    timer = threading.Timer(seconds, force)
    timer.daemon = True
    timer.start()


def main() -> None:
    name, options = sys.argv[1], {"ranks": 1, **json.loads(sys.argv[2])}
    epochs, stop, counts, digest = (options.pop(x) for x in ("epochs", "stop", "counts", "digest"))
    saw: dict[str, Any] = {"epochs": [], "state": None, "error": None, "files": 0}
    reader = None
    try:
        if options["ranks"] > 1:  # like a training script; LitData has no other way to learn RANK
            torch.distributed.init_process_group("gloo")
        since, saw["before"] = time.monotonic(), time.process_time()
        reader = (libraries.LIBRARIES | columnar.LIBRARIES)[name](libraries.Job(**options))
        for n in range(epochs):
            last = n == epochs - 1
            saw["epochs"].append(epoch(reader, since, stop if last else 0, digest, options["samples"]))
            with urllib.request.urlopen(counts, timeout=10) as answer:
                saw["epochs"][-1]["store"] = json.load(answer)
            if last and stop:
                saw["state"] = reader.state(stop)
            since = time.monotonic()
        saw["files"] = in_memory(options["local"], os.environ["TMPDIR"])
    except Exception as e:  # an exception of the library is a result
        saw["error"] = f"{type(e).__name__}: {e}"[:300]
    print("RESULT " + json.dumps(saw), flush=True)
    # Workers exit, and shared memory and lock files are removed, only at a regular exit. But a library's threads may still be downloading.
    end_within(END)
    del reader
    gc.collect()
    if options["ranks"] > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
