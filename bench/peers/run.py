"""Measures Millrace and the libraries that people use now on the same data in the same MinIO: run.py --help."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import report
import sets
import world

LIBRARIES = {"millrace": "tar", "millrace-mds": "mds", "webdataset": "tar", "streaming": "mds", "litdata": "litdata"}
BATCH = 256


class Bench:
    """One run: a store with all sets in all formats, and a directory for what libraries keep."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self.options, self.directory = options, directory
        self.sets = [sets.make(name, options.size << 20) for name in options.sets]
        self.shards: dict[str, int] = {}
        self.served: list[str] = []  # what Millrace has indexed
        os.environ.update(world.KEYS)
        self.store = world.Store(options.minio, options.wire, world.empty(directory / "minio"))

    def fill(self) -> None:
        """Packs each set with each library's own writer."""
        for data in self.sets:
            for kind in dict.fromkeys(LIBRARIES[name] for name in self.options.libraries):
                out = world.empty(self.directory / "packed")
                pack = [sys.executable, str(Path(__file__).with_name("pack.py")), kind, data.name, str(self.options.size << 20), str(out)]
                subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
                self.store.upload(out, f"{kind}-{data.name}")
                if kind == "tar":
                    self.shards[data.name] = len(list(out.glob("*.tar")))
                if kind in [LIBRARIES[name] for name in self.options.libraries if name.startswith("millrace")]:
                    self.index(f"{kind}-{data.name}")
                    self.served.append(f"{kind}-{data.name}")

    def index(self, name: str) -> None:
        """Has Millrace index shards in place."""
        env = {**os.environ, "AWS_ENDPOINT_URL_S3": f"http://{self.store.backend}"}
        command = [self.options.program, "index", f"s3://{world.BUCKET}/{name}"]
        subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def gateway(self, name: str) -> world.Gateway | None:
        if not name.startswith("millrace"):
            return None
        return world.Gateway(self.options.program, self.store.endpoint, self.served, world.empty(self.directory / "disk"), self.options.cache_size)

    def job(self, data: sets.Set, gateway: world.Gateway | None, **more: Any) -> dict[str, Any]:
        """A reader's job on a machine that holds nothing yet."""
        return {
            "set": data.name, "samples": data.samples, "shards": self.shards.get(data.name, 0), "endpoint": self.store.endpoint,
            "gateway": gateway.url if gateway else "", "local": str(world.empty(self.directory / "local" / str(more.get("seed", 1)))),
            "workers": 0, "epochs": 1, "stop": 0, "counts": self.store.control + "/counts", **more,
        }

    def read(self, name: str, data: sets.Set, cut: bool = False, **more: Any) -> dict[str, Any]:
        """Reads with a library from cold, gateway included."""
        gateway = self.gateway(name)
        try:
            self.store.reset()
            if cut:
                self.store.cut(100_000, 3)
            return world.run([sys.executable], self.job(data, gateway, **more), name, gateway)
        finally:
            if gateway:
                gateway.close()

    # What is measured.

    def speed(self, data: sets.Set, line: str) -> list[dict[str, Any]]:
        """Two epochs, cold and warm, by number of workers; libraries take turns."""
        rows = []
        for workers in self.options.workers:
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in self.options.libraries}
            for turn in range(self.options.rounds):
                for name, of in found.items():
                    saw = self.read(name, data, workers=workers, epochs=2, seed=turn + 1)
                    of.append(saw)
                    self.tell(f"{data.name}, {line}, {workers} workers: {name}", saw)
            rows += [{"set": data.name, "line": line, "workers": workers, "library": name, **summary(all_)} for name, all_ in found.items()]
        return rows

    def resume(self, data: sets.Set) -> list[dict[str, Any]]:
        """Stops after 60 % of an epoch; goes on in another process on a machine that holds nothing."""
        rows, stop = [], data.samples * 6 // 10 // BATCH
        for name in self.options.libraries:
            before = self.read(name, data, stop=stop)
            on = {"state": before["state"]} if before["state"] else {"skip": stop}
            after = self.read(name, data, **on)
            self.tell(f"{data.name}, resume: {name}", after)
            row = {"set": data.name, "library": name, "error": before["error"] or after["error"]}
            if not row["error"]:
                last = after["epochs"][0]
                row |= {"first": last["first"], "bytes": last["store"]["bytes"], "samples": stop * BATCH + last["samples"], "of": data.samples}
            rows.append(row)
        return rows

    def cut(self, data: sets.Set) -> list[dict[str, Any]]:
        """An epoch in which the store ends three answers in the middle."""
        rows = []
        for name in self.options.libraries:
            saw = self.read(name, data, cut=True)
            self.tell(f"{data.name}, cut: {name}", saw)
            seen = saw["epochs"][0] if saw["epochs"] else {"samples": 0, "distinct": 0}
            row = {"set": data.name, "library": name, "error": saw["error"], "of": data.samples}
            rows.append(row | {"samples": seen["samples"], "distinct": seen["distinct"]})
        return rows

    def resize(self, data: sets.Set) -> list[dict[str, Any]]:
        """Two ranks stop in the middle of an epoch, four go on, at the same global batch size."""
        rows, half = [], data.samples // 2 // BATCH
        for name in self.options.libraries:
            gateway = self.gateway(name)
            try:
                first = self.ranks(name, data, gateway, 2, stop=half)
                state = first[0]["state"]
                second = self.ranks(name, data, gateway, 4, **({"state": state} if state else {"skip": half}))
            finally:
                if gateway:
                    gateway.close()
            self.tell(f"{data.name}, 2 ranks, then 4: {name}", second[0])
            error = next((saw["error"] for saw in first + second if saw["error"]), None)
            ids = [i for saw in first + second for e in saw["epochs"] for i in e["ids"]]
            row = {"set": data.name, "library": name, "error": error, "of": data.samples}
            rows.append(row | {"twice": len(ids) - len(set(ids)), "never": data.samples - len(set(ids))})
        return rows

    def ranks(self, name: str, data: sets.Set, gateway: world.Gateway | None, size: int, stop: int = 1 << 30, **more: Any) -> list[dict[str, Any]]:
        """Reads as so many ranks side by side, as torchrun would start them."""
        waits, port = [], str(world.free_port())
        for rank in range(size):
            env = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            os.environ.update({k: str(v) for k, v in env.items()})
            job = self.job(data, gateway, stop=stop, batch=BATCH // size, ranks=size, **more)
            waits.append(world.run([sys.executable], job, name, gateway, at_once=True))
        for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            del os.environ[k]
        return [wait() for wait in waits]

    def tell(self, what: str, saw: dict[str, Any]) -> None:
        how = saw["error"] or ", ".join(f"{e['samples'] / e['seconds']:.0f} samples/s, first after {e['first']:.2f} s" for e in saw["epochs"])
        print(f"{what}: {how}", file=sys.stderr, flush=True)


def summary(all_: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over rounds."""
    error = next((saw["error"] for saw in all_ if saw["error"]), None)
    if error:
        return {"error": error}

    def median(of: Any) -> float:
        return statistics.median(of(saw) for saw in all_)

    cold, warm = (lambda saw: saw["epochs"][0]), (lambda saw: saw["epochs"][1])
    return {
        "error": None,
        "cold": median(lambda s: cold(s)["samples"] / cold(s)["seconds"]), "warm": median(lambda s: warm(s)["samples"] / warm(s)["seconds"]),
        "cold_bytes": median(lambda s: cold(s)["bytes"] / cold(s)["seconds"]), "warm_bytes": median(lambda s: warm(s)["bytes"] / warm(s)["seconds"]),
        "first": median(lambda s: cold(s)["first"]), "memory": median(lambda s: s["memory"]),
        "cpu": median(lambda s: s["cpu"] / sum(e["samples"] for e in s["epochs"])),
        "requests": median(lambda s: cold(s)["store"]["requests"]), "read": median(lambda s: cold(s)["store"]["bytes"]),
        "warm_requests": median(lambda s: warm(s)["store"]["requests"] - cold(s)["store"]["requests"]),
        "unevenness": median(lambda s: cold(s)["unevenness"]), "samples": median(lambda s: cold(s)["samples"]),
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, epilog="example: run.py --size 64 --rounds 1 --libraries millrace streaming")
    p.add_argument("--program", required=True, help="the millrace binary")
    p.add_argument("--wire", required=True, help="the binary of bench/wire")
    p.add_argument("--minio", required=True, help="MinIO's binary")
    p.add_argument("--commit", default="", help="what is measured")
    p.add_argument("--size", type=int, default=256, help="MiB of each set")
    p.add_argument("--rounds", type=int, default=3, help="times that each reader has its turn; medians are shown")
    p.add_argument("--cache-size", default="256MiB", help="memory of the gateway, which keeps the rest on its disk")
    p.add_argument("--workers", type=int, nargs="+", default=[0, 2, 4])
    p.add_argument("--sets", nargs="+", default=["photos", "text"])
    p.add_argument("--lines", nargs="+", default=["plain", "shaped"])
    p.add_argument("--libraries", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    p.add_argument("--page", type=Path, help="the page whose section is written")
    p.add_argument("--json", type=Path, help="where all figures go")
    options = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="millrace-peers-") as directory:
        bench = Bench(options, Path(directory))
        try:
            results = measure(bench)
        finally:
            bench.store.close()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    text = report.page(results)
    if options.page:
        report.put(options.page, text)
    else:
        print(text)


def measure(bench: Bench) -> dict[str, Any]:
    bench.fill()
    versions = {"webdataset": "webdataset", "streaming": "mosaicml-streaming", "litdata": "litdata"}
    results: dict[str, Any] = {
        "versions": {name: metadata.version(package) for name, package in versions.items()}, "commit": bench.options.commit,
        "rounds": bench.options.rounds, "size": bench.options.size, "cache_size": bench.options.cache_size,
        "speed": [], "resume": [], "cut": [], "resize": [],
    }
    shapes: dict[str, list[str]] = {"plain": [], "shaped": world.SHAPED}
    for line in bench.options.lines:
        bench.store.stand(shapes[line])
        for data in bench.sets:
            results["speed"] += bench.speed(data, line)
    bench.store.stand([])
    for data in bench.sets:
        results["resume"] += bench.resume(data)
        results["cut"] += bench.cut(data)
    results["resize"] += bench.resize(bench.sets[-1])
    return results


if __name__ == "__main__":
    main()
