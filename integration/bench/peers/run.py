"""Measures Millrace and other current libraries on the same data in the same MinIO: run.py --help.

Each measurement is recorded when it is made, so that an interrupted run can be resumed: --resume.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import report
import sets
import world
from ledger import Ledger, Task

# The format that each library reads: its own, or Parquet.
LIBRARIES = {
    "millrace": "tar", "millrace-mds": "mds", "webdataset": "tar", "webdataset-cache": "tar", "streaming": "mds", "litdata": "litdata",
    "millrace-parquet": "parquet", "datasets": "parquet", "litdata-parquet": "parquet", "pyarrow": "parquet",
}
ALONE = {"pyarrow"}  # libraries that read in one process, with their own threads
BATCH = 256
SHAPES: dict[str, list[str]] = {"plain": [], "shaped": world.SHAPED}


class Bench:
    """One run: a store with all sets in all formats, and a directory for the libraries' files."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self.options, self.directory = options, directory
        self.sets = [sets.make(name, options.size) for name in options.sets]
        self.shards: dict[str, int] = {}  # by prefix
        self.indexed: dict[str, float] = {}  # seconds, by prefix
        self.line = ""
        self.store: world.Store | None = None

    def readers(self, data: sets.Set, workers: int = 0) -> list[str]:
        """The libraries that can read a set with the given number of workers."""
        able = [name for name in self.options.libraries if (LIBRARIES[name] == "parquet") == (data.parquet is not None)]
        return [name for name in able if not (workers and name in ALONE)]

    def fill(self) -> None:
        """Packs each set with each library's own writer."""
        self.store = world.Store(self.options.minio, self.options.wire, world.empty(self.directory / "minio"))
        for data in self.sets:
            for kind in dict.fromkeys(LIBRARIES[name] for name in self.readers(data)):
                out, prefix = world.empty(self.directory / "packed"), f"{kind}-{data.name}"
                pack = [sys.executable, str(Path(__file__).with_name("pack.py")), kind, data.name, str(self.options.size)]
                pack += [str(shard_size(data.length * data.samples)), str(out)]
                subprocess.run(pack, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env())
                self.store.upload(out, prefix)
                self.shards[prefix] = len([p for p in out.rglob("*") if p.suffix in (".tar", ".mds", ".bin", ".parquet")])
                if kind in [LIBRARIES[name] for name in self.readers(data) if name.startswith("millrace")]:
                    self.index(prefix, kind)
        world.empty(self.directory / "packed")

    def index(self, prefix: str, kind: str) -> None:
        """Has Millrace index shards in place."""
        assert self.store is not None
        env = {**os.environ, "AWS_ENDPOINT_URL_S3": f"http://{self.store.backend}"}
        # The format is given, not detected, because LitData's index is next to the Parquet files.
        command = [self.options.program, "index", f"s3://{world.BUCKET}/{prefix}", "--format", kind]
        begun = time.monotonic()
        subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.indexed[prefix] = time.monotonic() - begun

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def env(self) -> dict[str, str]:
        """A process's environment, with a directory for temporary files that the next measurement finds empty."""
        temporary = str(self.directory / "tmp")
        return {**os.environ, **world.KEYS, "TMPDIR": temporary, "HF_HOME": temporary, "HF_HUB_OFFLINE": "1"}

    # Before each measurement the machine is idle, and nothing is cached.

    def stand(self, line: str) -> world.Store:
        """Selects the simulated line to the store, removes the libraries' files from this machine, and resets the counts."""
        assert self.store is not None
        if self.line != line:
            self.store.stand(SHAPES[line])
            self.line = line
        self.clean()
        self.store.reset()
        return self.store

    def clean(self) -> None:
        for name in ("local", "tmp"):
            world.empty(self.directory / name)
        os.sync()  # so that pending writes of one reader do not slow down the next

    def gateway(self, name: str, store: world.Store) -> world.Gateway | None:
        """Creates the directory for a gateway if the library is Millrace."""
        return world.Gateway(self.options.program, store.endpoint, self.directory / "gateway") if name.startswith("millrace") else None

    def job(self, name: str, data: sets.Set, store: world.Store, **more: Any) -> dict[str, Any]:
        return {
            "set": data.name, "samples": data.samples, "shards": self.shards[f"{LIBRARIES[name]}-{data.name}"], "endpoint": store.endpoint,
            "local": str(self.directory / "local"), "workers": 0, "epochs": 1, "stop": 0, "counts": store.control + "/counts",
            "digest": False, **more,
        }

    def read(self, name: str, data: sets.Set, line: str = "plain", cut: bool = False, **more: Any) -> dict[str, Any]:
        """Reads with a library from a cold start, gateway included."""
        store = self.stand(line)
        gateway = self.gateway(name, store)
        run = None
        try:
            if cut:
                store.cut(100_000, 3)
            run = world.Run(self.job(name, data, store, **more), name, gateway, self.env())
            return run.finish()
        finally:
            if run:
                run.kill()
            if gateway:
                gateway.close()
            self.clean()

    # The measurements.

    def tasks(self) -> Iterator[Task]:
        """All measurements in order. Libraries take turns, so that other load on the machine affects all equally."""
        shards = [data for data in self.sets if data.parquet is None]
        for data in self.sets:
            if data.parquet is not None:
                for name in self.readers(data):
                    yield Task("same", {"set": data.name, "library": name}, partial(self.same, name, data))
        for data in self.sets if "plain" in self.options.lines else []:
            yield from self.turns("plain", data, self.options.workers)
        for data in shards if "shaped" in self.options.lines else []:
            yield from self.turns("shaped", data, self.options.shaped_workers)
        for data in shards:
            for name in self.readers(data):
                yield Task("resume", {"set": data.name, "library": name}, partial(self.resume, name, data))
            for name in self.readers(data):
                yield Task("cut", {"set": data.name, "library": name}, partial(self.cut, name, data))
        for data in shards[-1:]:
            for name in self.readers(data):
                yield Task("resize", {"set": data.name, "library": name}, partial(self.resize, name, data))

    def turns(self, line: str, data: sets.Set, workers: list[int]) -> Iterator[Task]:
        """The speed measurements of a set. Every other round is in reverse order, so that the
        predecessor of each library varies.

        A reader is affected by its predecessor: allocating pages again took Millrace's gateway 0.4
        s after WebDataset had run.
        """
        for n in workers:
            for turn in range(self.options.rounds):
                for name in self.readers(data, n)[:: -1 if turn % 2 else 1]:
                    about = {"line": line, "set": data.name, "workers": n, "library": name, "turn": turn}
                    yield Task("speed", about, partial(self.speed, name, data, line, n, turn))

    def same(self, name: str, data: sets.Set) -> dict[str, Any]:
        """Reads an epoch, and compares its values with those that were written."""
        workers = max(n for n in (0, *self.options.workers) if not (n and name in ALONE))
        saw = self.read(name, data, workers=workers, digest=True)
        seen = saw["epochs"][0] if saw["epochs"] else {"samples": 0, "digest": None}
        return {"error": saw["error"], "of": data.samples, "samples": seen["samples"], "same": seen["digest"] == data.digest()}

    def speed(self, name: str, data: sets.Set, line: str, workers: int, turn: int) -> dict[str, Any]:
        """Measures two epochs, a cold one and a warm one."""
        saw = self.read(name, data, line, workers=workers, epochs=2, seed=turn + 1)
        return {x: saw[x] for x in ("epochs", "error", "memory", "files", "gateway", "cpu", "code")}

    def resume(self, name: str, data: sets.Set) -> dict[str, Any]:
        """Stops after 60 % of an epoch, and resumes in another process on a machine without cached
        data.
        """
        stop = data.samples * 6 // 10 // BATCH
        before = self.read(name, data, stop=stop)
        after = self.read(name, data, **({"state": before["state"]} if before["state"] else {"skip": stop}))
        row: dict[str, Any] = {"error": before["error"] or after["error"]}
        if not row["error"]:
            last = after["epochs"][0]
            row |= {"first": last["first"], "bytes": last["store"]["bytes"], "samples": stop * BATCH + last["samples"], "of": data.samples}
        return row

    def cut(self, name: str, data: sets.Set) -> dict[str, Any]:
        """Reads an epoch in which the store cuts three responses in the middle."""
        saw = self.read(name, data, cut=True)
        seen = saw["epochs"][0] if saw["epochs"] else {"samples": 0, "distinct": 0}
        return {"error": saw["error"], "of": data.samples, "samples": seen["samples"], "distinct": seen["distinct"]}

    def resize(self, name: str, data: sets.Set) -> dict[str, Any]:
        """Two ranks stop in the middle of an epoch, and four resume, at the same global batch size.
        """
        store, half = self.stand("plain"), data.samples // 2 // BATCH
        gateway = self.gateway(name, store)
        try:
            first = self.ranks(name, data, store, gateway, 2, stop=half)
            state = first[0]["state"]
            second = self.ranks(name, data, store, gateway, 4, stop=1 << 30, **({"state": state} if state else {"skip": half}))
        finally:
            if gateway:
                gateway.close()
            self.clean()
        error = next((saw["error"] for saw in first + second if saw["error"]), None)
        ids = [i for saw in first + second for e in saw["epochs"] for i in e["ids"]]
        return {"error": error, "of": data.samples, "twice": len(ids) - len(set(ids)), "never": data.samples - len(set(ids))}

    def ranks(self, name: str, data: sets.Set, store: world.Store, gateway: world.Gateway | None, size: int, **more: Any) -> list[dict[str, Any]]:
        """Reads with the given number of parallel ranks on a machine without cached data, started like torchrun would."""
        for kept in ("local", "tmp"):
            world.empty(self.directory / kept)
        env = self.env() | {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(world.free_port())}
        job = self.job(name, data, store, batch=BATCH // size, ranks=size, **more)
        runs = [world.Run(job, name, gateway, {**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(size)]
        try:
            return [r.finish() for r in runs]
        finally:
            for r in runs:
                r.kill()


def shard_size(size: int) -> int:
    """The size of a shard in bytes: the default of MosaicML Streaming and LitData, or less for a small set.

    A set has at least 8 shards, because each worker of WebDataset needs one, and shuffling needs several.
    """
    return min(64 << 20, size // 10)


def begin(options: argparse.Namespace, name: str) -> Path:
    """Prepares this process for measurements, and returns the file that records them."""
    os.environ.update(world.KEYS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all child processes are stopped too
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(options.resume or options.json or cache / "millrace" / name / f"{datetime.now():%Y%m%d-%H%M%S}.json")


def versions(program: str) -> dict[str, Any]:
    """Returns the versions of the measured software."""
    packages = {"webdataset": "webdataset", "streaming": "mosaicml-streaming", "litdata": "litdata", "datasets": "datasets", "pyarrow": "pyarrow"}
    found = {name: metadata.version(package) for name, package in packages.items()}
    return {"versions": found, "program": hashlib.sha256(Path(program).read_bytes()).hexdigest()[:12]}


def about(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the properties that must be the same for a run to be resumed."""
    return versions(options.program) | {
        "size": options.size, "rounds": options.rounds, "workers": options.workers,
        "shaped_workers": options.shaped_workers, "sets": options.sets, "lines": options.lines, "libraries": options.libraries,
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, epilog="example: run.py --size 32 --rounds 1 --libraries millrace streaming")
    p.add_argument("--program", required=True, help="the millrace binary")
    p.add_argument("--wire", required=True, help="the binary of integration/bench/wire")
    p.add_argument("--minio", required=True, help="MinIO's binary")
    p.add_argument("--commit", default="", help="what is measured")
    p.add_argument("--size", type=int, default=0, help="MiB of each set, 0 for its own size")
    p.add_argument("--rounds", type=int, default=2, help="times that each reader has its turn; medians are shown")
    p.add_argument("--workers", type=int, nargs="+", default=[0, 4], help="numbers of DataLoader workers")
    p.add_argument("--shaped-workers", type=int, nargs="+", default=[4], help="the same on the shaped line, where an epoch takes longer")
    p.add_argument("--sets", nargs="+", default=list(sets.SETS), choices=list(sets.SETS))
    p.add_argument("--lines", nargs="+", default=["plain", "shaped"], choices=list(SHAPES))
    p.add_argument("--libraries", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    p.add_argument("--bench", help="the binary of integration/bench, which stores the sections of the sets that were read")
    p.add_argument("--json", type=Path, help="where measurements are written down, each as it is made; by default in the user's cache directory")
    p.add_argument("--resume", type=Path, metavar="JSON", help="go on with the run that wrote this, made with the same options")
    options = p.parse_args()
    path = begin(options, "bench-peers")
    ledger = Ledger(path, about(options), options.commit, go_on=options.resume is not None)
    with tempfile.TemporaryDirectory(prefix="millrace-peers-") as directory:
        bench = Bench(options, Path(directory))
        try:
            measure(bench, ledger)
        finally:
            bench.close()
    for name, text in report.sections(ledger.results()).items():
        if options.bench:
            report.put(options.bench, name, text, ledger.book["commits"])
        else:
            print(text)


def measure(bench: Bench, ledger: Ledger) -> None:
    """Makes the remaining measurements."""
    tasks = list(bench.tasks())
    ledger.plan(tasks)
    if ledger.left:
        begun = time.monotonic()
        bench.clean()
        bench.fill()
        ledger.note("shards", bench.shards)
        ledger.note("indexed", bench.indexed)
        ledger.note("sizes", {data.name: data.length * data.samples >> 20 for data in bench.sets})
        ledger.note("torch", world.memory_of_torch())
        ledger.tell(f"packed, indexed and uploaded in {time.monotonic() - begun:.0f} s")
    for task in ledger.left:
        ledger.make(task)
    ledger.tell_times()


if __name__ == "__main__":
    main()
