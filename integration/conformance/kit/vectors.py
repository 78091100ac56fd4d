"""The vectors: the plans, the representation of responses, and the comparison with a gateway's responses."""

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

from . import data
from .crc32c import crc32c
from .http import Answer, ask, batch_path

PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors.json")

FIELDS = {
    "datasets": "for each dataset its generation, format and number of samples",
    "dataset": "name of the dataset, as `check.py data` makes it; "
    "mix is a mixture: two samples of tar for one of targz; what begins with mix: defines one",
    "epoch, batch": "the numbers in the address",
    "parameters": "the query; what is left out is the dataset's default: slot, window=4, seed=7, batch_size=8, tail=short",
    "batches": "of the epoch",
    "samples": "in the body, padded ones included",
    "padded": "how many of the samples repeat others to fill the last batch",
    "content_type": "of the body",
    "length": "of the body, in bytes",
    "crc32c": "CRC-32C (Castagnoli) of the body, eight hexadecimal digits",
    "sha256": "SHA-256 of the body",
    "body": "the whole body in base64, of one vector",
}

LAST = -1  # stands for the last batch of the epoch

PLANS: tuple[tuple[int, int, dict[str, str]], ...] = (
    (0, 0, {}),
    (0, 1, {}),
    (0, LAST, {}),
    (5, 1, {}),
    (18446744073709551615, 0, {}),
    (1, 1, {"batch_size": "5", "seed": "18446744073709551615"}),
    (0, 1, {"shuffle": "none"}),
    (0, 1, {"shuffle": "window", "window": "2"}),
    (3, 0, {"shuffle": "slot", "window": "2"}),
    (3, 2, {"shuffle": "full"}),
    (3, LAST, {"shuffle": "full", "batch_size": "7", "tail": "drop"}),
    (3, LAST, {"shuffle": "full", "batch_size": "11", "tail": "pad"}),
    (2, 0, {"rank": "1", "world_size": "3"}),
    (2, LAST, {"batch_size": "9", "tail": "pad", "rank": "3", "world_size": "4"}),
    (2, 0, {"rank": "9", "world_size": "16"}),
    (2, 1, {"rank": "1", "world_size": "2", "balance": "bytes"}),
    (2, 1, {"shuffle": "window", "window": "2", "strata": "2", "rank": "1", "world_size": "2", "share": "locality"}),
    (1, 0, {"subset": "train"}),
    (1, 0, {"subset": "val", "shuffle": "full"}),
    (1, 0, {"subset": "train=2,val=1:val", "shuffle": "full"}),
    (1, 0, {"subset": "samples:2-9,11", "shuffle": "none"}),
    (1, LAST, {"subset": "a=1,b=1:b:salt~samples:0-5", "quarantine": "samples:3-5"}),
)

FRAMED_TABLES = ("", "keys", "parts", "keys,parts")


def forms(native: str) -> list[str]:
    """Returns those forms of a dataset, except its own, whose bytes are specified. A multipart's boundary is the gateway's choice."""
    names = [name for name in ("tar", "mds", "arrow") if name != native]
    if native == "jsonl":
        names.append("ndjson")
    if native in ("records", "tokens"):
        names.append("npy")
    return names


def plans(d: data.Dataset, quarantine: dict[str, str]) -> Iterator[tuple[int, int, dict[str, str]]]:
    yield from PLANS
    if d.name in quarantine:
        for epoch in (0, 1):
            yield epoch, 0, {"quarantine": quarantine[d.name], "batch_size": "200"}
    for form in forms(d.native):
        yield 1, 1, {"format": form}
    for table in FRAMED_TABLES:
        yield 1, 1, {"format": "framed", **({"table": table} if table else {})}
    yield 1, 1, {"format": "framed", "rank": "0", "world_size": "16"}
    for form in ("tar", "mds", "arrow", "framed"):
        if form == "mds" and d.native == "mds":
            continue  # its own batches are whole shards
        yield 1, LAST, {"format": form, "fields": d.fields}
    yield 1, 0, {"format": "framed", "table": "keys,parts", "fields": d.fields}


MIXED: tuple[tuple[int, int, dict[str, str]], ...] = (
    (0, 0, {}), (0, LAST, {}), (1, 1, {"rank": "1", "world_size": "2"}), (0, 2, {"shuffle": "full"}), (1, 0, {"format": "framed"}),
)  # fmt: skip


WRITTEN = (
    "mix:tar:2,targz:1",
    "mix:tar(subset=train=2,val=1:train):1,targz(quarantine=samples:1-2&subset=samples:0-9):3,samples=30",
    "mix:tar:3,targz:5,per-batch",
)


def describe(answer: Answer) -> dict[str, Any]:
    """Returns the vector of a response, from its headers and its body."""
    return {
        "batches": int(answer.header("Millrace-Batches") or -1),
        "samples": int(answer.header("Millrace-Samples") or -1),
        "padded": int(answer.header("Millrace-Padded") or -1),
        "content_type": answer.header("Content-Type"),
        "length": len(answer.body),
        "crc32c": f"{crc32c(answer.body):08x}",
        "sha256": hashlib.sha256(answer.body).hexdigest(),
    }


def take(base: str, name: str, epoch: int, batch: int, parameters: dict[str, str]) -> dict[str, Any]:
    if batch == LAST:
        first = ask(base, batch_path(name, epoch, 0, parameters), "HEAD")
        batch = int(first.header("Millrace-Batches") or 1) - 1
    answer = ask(base, batch_path(name, epoch, batch, parameters))
    if answer.status != 200:
        raise ValueError(f"{batch_path(name, epoch, batch, parameters)}: status {answer.status}: {answer.body.decode()}")
    vector: dict[str, Any] = {"dataset": name, "epoch": epoch, "batch": batch, "parameters": parameters}
    vector.update(describe(answer))
    if name == "jsonl" and epoch == 0 and batch == 0 and not parameters:
        vector["body"] = base64.b64encode(answer.body).decode()
    return vector


def make(base: str, quarantine: dict[str, str]) -> dict[str, Any]:
    """Requests every plan from a gateway. If the result changes, the meaning of addresses has changed."""
    out: dict[str, Any] = {"fields": FIELDS, "datasets": {}, "vectors": []}
    for name in [*(d.name for d in data.DATASETS), "mix"]:
        said = ask(base, f"/v1/datasets/{name}").json()
        out["datasets"][name] = {k: said[k] for k in ("generation", "format", "samples")}
        found = data.find(name)
        wanted = plans(found, quarantine) if found else iter(MIXED)
        out["vectors"] += [take(base, name, *plan) for plan in wanted]
    for name in WRITTEN:
        out["vectors"] += [take(base, name, *plan) for plan in MIXED]
    return out


def encode(made: dict[str, Any]) -> str:
    """JSON with one vector per line, so that a change is one line of a diff."""
    head = {k: v for k, v in made.items() if k != "vectors"}
    lines = ",\n".join("  " + json.dumps(v) for v in made["vectors"])
    return json.dumps(head, indent=1)[:-2] + ',\n "vectors": [\n' + lines + "\n ]\n}\n"


def load(path: str = PATH) -> dict[str, Any]:
    with open(path, encoding="utf-8") as f:
        loaded: dict[str, Any] = json.load(f)
    return loaded


def differences(vector: dict[str, Any], answer: Answer) -> list[str]:
    """Returns the differences between a response and its vector."""
    if answer.status != 200:
        return [f"status: got {answer.status}, want 200: {answer.body[:300].decode(errors='replace')}"]
    got = describe(answer)
    if "body" in vector:
        got["body"] = base64.b64encode(answer.body).decode()
    return [f"{k}: got {v}, want {vector[k]}" for k, v in got.items() if v != vector[k]]
