"""Writes the datasets, indexes them with `millrace`, and runs a gateway for them."""

import json
import os
import re
import subprocess
import tempfile
import time
from typing import Optional

from . import data

STARTING = 60.0  # seconds that a gateway may take to start on a busy machine
MIXTURE = "mix=tar:2,targz:1"
SPLIT = "train=3,val=1"
QUARANTINED = {"tar": "photos/img-0004", "jsonl": "part-1/000000005"}  # a bad sample of some datasets


class KitError(Exception):
    """A requirement of the kit is missing. The text names it and the remedy."""


def run(program: str, *args: str) -> str:
    try:
        done = subprocess.run([program, *args], capture_output=True, text=True, check=False)
    except OSError as e:
        raise KitError(f"run {program}: {e.strerror}; build it with `make build`, or name it with --millrace") from e
    if done.returncode != 0:
        raise KitError(f"{program} {' '.join(args)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def prepare(program: str, directory: str) -> list[str]:
    """Writes and indexes all datasets, each with its subsets and some with a quarantine. Returns the arguments of serve."""
    data.write(directory)
    arguments = []
    for d in data.DATASETS:
        place = os.path.join(os.path.abspath(directory), d.name)
        run(program, "index", place, *data.INDEX, *d.options)
        run(program, "subset", place, "--into", SPLIT)
        if d.name in QUARANTINED:
            run(program, "quarantine", place, "--key", QUARANTINED[d.name], "--reason", "bad", "--json")
        arguments += ["--dataset", f"{d.name}=file://{place}"]
    return [*arguments, "--mixture", MIXTURE]


def quarantine(program: str, directory: str, name: str) -> str:
    """The digest of a dataset's list of bad samples. A second call changes nothing."""
    place = os.path.join(os.path.abspath(directory), name)
    said = run(program, "quarantine", place, "--key", QUARANTINED[name], "--reason", "bad", "--json")
    return str(json.loads(said)["quarantine"])


class Gateway:
    """One `millrace serve` for the datasets of the kit, on a port that it chooses itself."""

    def __init__(self, program: str, directory: Optional[str] = None, listen: str = "127.0.0.1:0") -> None:
        self._own = None if directory else tempfile.TemporaryDirectory(prefix="millrace-conformance-")
        self.directory = self._own.name if self._own else str(directory)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            arguments = prepare(program, self.directory)
            command = [program, "serve", *arguments, "--listen", listen, "--lame-duck", "0s", "--log-format", "json"]
            self._process = subprocess.Popen([*command, "--cache-size", "256MiB"], stdout=subprocess.DEVNULL, stderr=self._log)
        except BaseException:
            self._clean()
            raise
        try:
            self.url = self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> str:
        end = time.monotonic() + STARTING
        while time.monotonic() < end:
            found = re.search(r'"listen":"(/[^"]+|[^"]+:\d+)"', self.log())
            if found:
                return f"unix:{found[1]}" if found[1].startswith("/") else f"http://{found[1]}"
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        raise KitError(f"millrace serve did not come up: {self.log().strip()}")

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def _clean(self) -> None:
        self._log.close()
        if self._own is not None:
            self._own.cleanup()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._clean()

    def __enter__(self) -> "Gateway":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
