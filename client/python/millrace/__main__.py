"""Reads an epoch and says how fast: python -m millrace URL --epoch 0."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Optional

from . import MillraceError, Order, Reading, Share, __version__
from .client import Client, open
from .epoch import THREADS


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the command; returns 0, or 1 when something failed."""
    p = argparse.ArgumentParser(
        prog="python -m millrace", description="Reads an epoch once and prints the rate.",
        epilog="MILLRACE_TOKEN_FILE or MILLRACE_TOKEN gives the token to show to gateways, SSL_CERT_FILE the authorities to trust.",
    )
    p.add_argument("--version", action="version", version=f"millrace {__version__}")
    p.add_argument("url", nargs="+", help="a directory, s3://bucket/prefix, or gateways: http://host:port[/dataset], or dns:NAME:PORT")
    p.add_argument("--dataset", help="default: the gateway's default dataset")
    p.add_argument("--epoch", type=int, default=0)
    p.add_argument("--start", type=int, default=0, help="batch to begin with")
    p.add_argument("--batch-size", type=int)
    p.add_argument("--seed", type=int)
    p.add_argument("--shuffle")
    p.add_argument("--window", type=int)
    p.add_argument("--rank", type=int, default=0)
    p.add_argument("--world-size", type=int, default=1)
    p.add_argument("--generation", help="of the dataset's index: the same for all ranks")
    p.add_argument("--fields", help="parts to read, such as jpg,cls")
    p.add_argument("--threads", type=int, default=THREADS)
    p.add_argument("--json", action="store_true", help="print JSON")
    a = p.parse_args(argv)
    try:
        return _run(a)
    except MillraceError as e:
        print(f"millrace: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(a: argparse.Namespace) -> int:
    with Client(a.url, a.dataset) if len(a.url) > 1 else open(a.url[0], dataset=a.dataset) as client:
        epoch = client.epoch(
            a.epoch, global_batch_size=a.batch_size, seed=a.seed, shuffle=a.shuffle, fields=a.fields,
            order=Order(window=a.window, generation=a.generation), share=Share(rank=a.rank, world_size=a.world_size),
            reading=Reading(threads=a.threads, start=a.start),
        )
        ledger = epoch.ledger()
        samples = batches = size = 0
        begun = time.monotonic()
        with epoch.read(ledger=ledger) as reader:
            for batch in reader:
                samples, batches, size = samples + len(batch), batches + 1, size + len(batch.data)
        took = max(time.monotonic() - begun, 1e-9)
        ledger.check(part=a.start > 0 or a.world_size > 1)
    if a.json:
        counted = {"batches": batches, "samples": samples, "bytes": size, "seconds": took}
        print(json.dumps({"epoch": epoch.number, "generation": epoch.generation, **counted}))
    else:
        print(
            f"epoch {epoch.number} of {epoch.plan.dataset}: {samples} samples in {batches} batches, {size} bytes, each sample once; "
            f"{samples / took:.0f} samples/s, {size / took / 1e6:.1f} MB/s"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
