"""Checks millrace.proof against the vectors of section 8 of docs/spec/order.md: python3 order_vectors.py FILE

Go's tests run it with only Python's standard library, on vectors that Go's package has computed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from millrace import proof

Comparisons = Iterator[tuple[str, Any, Any]]
"""The names of the compared values, the results of proof, and the values of the vector."""


def spread(runs: list[list[int]]) -> list[int]:
    return [value for value, times in runs for _ in range(times)]


def digest(samples: Iterable[int]) -> str:
    return hashlib.sha256(b"".join(x.to_bytes(8, "little") for x in samples)).hexdigest()


def members(v: Any) -> list[int]:
    return [x for x, is_member in enumerate(spread(v["members"])) if is_member]


def arguments(of: Callable[..., Any], v: Any) -> dict[str, Any]:
    """The parameters of an order in a vector that a function accepts."""
    names = [name for name, p in signature(of).parameters.items() if p.kind is p.KEYWORD_ONLY]
    return {name: v[name] for name in names if isinstance(v.get(name), (int, str))}


def check_generator(v: Any) -> Comparisons:
    k = proof.key(v["purpose"], *v["numbers"])
    yield "key", k, v["key"]
    yield "words", [proof.word(k, c) for c in range(len(v["words"]))], v["words"]
    yield "draws", [proof.draw(k, i, n) for i, n in enumerate(v["bounds"])], v["draws"]
    p = proof.perm(k, v["n"])
    yield "perm", [p.at(i) for i in v["places"]], v["perm"]
    yield "inverse", [p.place(x) for x in v["perm"]], v["places"]


def check_plan(v: Any) -> Comparisons:
    counts = spread(v["chunks"])
    samples = sum(counts)
    order = proof.shuffle(v["shuffle"], counts, **arguments(proof.shuffle, v))
    yield "samples", samples, v["samples"]
    yield "at", [order.at(t) for t in v["positions"]], v["at"]
    yield "position", [order.position(x) for x in v["of"]], v["position"]
    if "digest" in v:
        epoch = [order.at(t) for t in range(samples)]
        yield "digest", digest(epoch), v["digest"]
        yield "bijection", sorted(epoch), list(range(samples))
        yield "inverse", [order.position(x) for x in epoch[:200]], list(range(min(200, samples)))
    size, tail = v["batch_size"], v["tail"]
    yield "batches", proof.batches(samples, size, tail), v["batches"]
    for s in v["shares"]:
        positions, padded = proof.share(samples, size, tail, s["batch"], s["rank"], v["world_size"])
        yield "share", (len(positions), padded), (s["count"], s["padded"])
        yield "samples of the share", digest(order.at(t) for t in positions), s["digest"]


def check_importance(v: Any) -> Comparisons:
    counts, weights = spread(v["chunks"]), spread(v["weights"])
    order = proof.Importance(v["shuffle"], counts, weights, **arguments(proof.Importance, v))
    samples, total = len(weights), sum(weights)
    yield "weights", samples, sum(counts)
    named = proof.order_digest(v["shuffle"], counts, weights=weights, **arguments(proof.order_digest, v))
    yield "order digest", named, v["order_digest"]
    yield "phase", order.phase, v["phase"]
    yield "draws", digest(order.draws), v["draws"]
    yield "virtual samples", [order.order.at(t) for t in v["positions"]], v["virtual"]
    yield "samples", [order.at(t) for t in v["positions"]], v["samples"]
    yield "draws of samples", [list(order.of(x)) for x in v["of"]], v["draws_of"]
    if "digest" in v:
        epoch = [order.at(t) for t in range(samples)]
        yield "digest", digest(epoch), v["digest"]
        counted = [b - a for a, b in map(order.of, range(samples))]
        yield "counts", [epoch.count(x) for x in range(min(200, samples))], counted[:200]
        yield "within one", [x for x in range(samples) if abs(counted[x] * total - samples * weights[x]) >= total], []
    rest = [w for w in weights if w * samples < total]
    yield "coverage", [samples - len(rest), sum(rest)], v["coverage"]


def check_balance(v: Any) -> Comparisons:
    costs = v["costs"]
    shares = [
        [[share[place] for place in micro] for micro in proof.divide([costs[place] for place in share], v["micro"])]
        for share in proof.divide(costs, v["world_size"])
    ]
    yield "shares", shares, v["shares"]
    yield "each place once", sorted(place for share in shares for micro in share for place in micro), list(range(len(costs)))


def check_bucket(v: Any) -> Comparisons:
    counts, costs, size = spread(v["chunks"]), v["costs"], v["batch_size"]
    order = proof.shuffle(v["shuffle"], counts, **arguments(proof.shuffle, v))
    bucket = proof.Bucket(v["bucket"], size, len(costs), lambda t: costs[order.at(t)], **arguments(proof.Bucket, v))
    places = [bucket.at(t) for t in range(len(costs))]
    yield "digest", digest(map(order.at, places)), v["digest"]
    yield "bijection", sorted(places), list(range(len(costs)))
    yield "inverse", [bucket.place(t) for t in places], list(range(len(costs)))
    named = proof.order_digest(v["shuffle"], counts, **arguments(proof.order_digest, v))
    yield "order digest", proof.bucket_digest(named, v["bucket"], size, v["cost"]), v["order_digest"]


def stratified(v: Any) -> tuple[list[int], list[int], Any]:
    """The counts and weights of a vector, and the order of its samples. With weights these are virtual samples."""
    counts, weights = spread(v["chunks"]), spread(v.get("weights", []))
    if weights:
        return counts, weights, proof.Importance(v["shuffle"], counts, weights, **arguments(proof.Importance, v)).order
    return counts, weights, proof.shuffle(v["shuffle"], counts, **arguments(proof.shuffle, v))


def check_strata(v: Any) -> Comparisons:
    counts, weights, order = stratified(v)
    samples = sum(counts)
    yield "order digest", proof.order_digest("window", counts, weights=weights, **arguments(proof.order_digest, v)), v["order_digest"]
    yield "strata", [order.stratum(c) for c in range(min(20, len(counts)))], v["stratum"]
    yield "at", [order.at(t) for t in v["positions"]], v["at"]
    yield "position", [order.position(x) for x in v["of"]], v["position"]
    epoch = [order.at(t) for t in range(samples)]
    yield "digest", digest(epoch), v["digest"]
    yield "bijection", sorted(epoch), list(range(samples))


def check_homes(v: Any) -> Comparisons:
    counts, weights, order = stratified(v)
    if not weights:
        yield "homes of chunks", [list(order.chunk_home(c)) for c in range(min(20, len(counts)))], v["home"]
    quarantine = proof.Quarantine(v["seed"], counts, v.get("bad", []))
    for d in v["deals"]:
        positions, _ = proof.share(sum(counts), v["batch_size"], v["tail"], d["batch"])
        homes = [order.home(t) * v["homes"] // order.homes() for t in positions]
        shares = proof.deal_homes(homes, v["world_size"], v["homes"])
        yield "shares", shares, d["shares"]
        delivered = [quarantine.sub(v["epoch"], order.at(positions[place])) for share in shares for place in share]
        yield "samples", digest(delivered), d["digest"]


def check_quarantine(v: Any) -> Comparisons:
    counts, subset, epoch = spread(v["chunks"]), v.get("subset", ""), v["epoch"]
    if subset:
        counts = proof.subset_counts(counts, members(v))
    order, quarantine = proof.shuffle(v["shuffle"], counts, **arguments(proof.shuffle, v)), proof.Quarantine(v["seed"], counts, v["bad"])
    yield "substitutes", [quarantine.sub(epoch, x) for x in v["bad"]], v["substitutes"]
    yield "digest", digest(quarantine.sub(epoch, order.at(t)) for t in range(sum(counts))), v["digest"]
    named = quarantine.order_digest(proof.order_digest(v["shuffle"], counts, **arguments(proof.order_digest, v)))
    yield "order digest", named, v["order_digest"]


def check_subset(v: Any) -> Comparisons:
    samples = members(v)
    counts = proof.subset_counts(spread(v["chunks"]), samples)
    order = proof.shuffle(v["shuffle"], counts, **arguments(proof.shuffle, v))
    yield "samples", len(samples), v["samples"]
    yield "digest", digest(samples[order.at(t)] for t in range(len(samples))), v["digest"]
    yield "order digest", proof.order_digest(v["shuffle"], counts, **arguments(proof.order_digest, v)), v["order_digest"]


def check_mixture(v: Any) -> Comparisons:
    m = proof.Mixture(v["seed"], v["sources"], v["t"], v.get("schedule", []))
    seeds = [m.source_seed(i) for i in range(len(m.sources))]
    yield "samples", m.samples, v["samples"]
    yield "seeds", seeds, v["seeds"]
    yield "turns", [list(m.at(*p)) for p in v["positions"]], v["turns"]
    yield "counts", [m.before(*p) for p in v["positions"]], v["counts"]
    for n, at in zip(v["counts"], v["found"]):
        samples = m.sources[0][0]
        if at[0] < 1 << 63:
            yield "found", m.at(*at), (0, n[0] // samples, n[0] % samples)
    plans = [proof.order_digest("full", [source[0]], seed=seed) for source, seed in zip(m.sources, seeds)]
    yield "order digest", m.order_digest(plans), v["order_digest"]
    if "digests_at" in v:
        yield "digests at positions", [m.until(*p).order_digest(plans) for p in v["positions"]], v["digests_at"]
    if "digest" in v:
        yield "digest", digest(x for t in range(m.samples) for x in m.at(1, t)), v["digest"]


def check_rule(v: Any) -> Comparisons:
    yield "subsets", [proof.subset_part(v["parts"], v["salt"], name.encode()) for name in v["keys"]], v["subsets"]


def check_pattern(v: Any) -> Comparisons:
    yield "subsets", [proof.shard_part(v["patterns"], shard) for shard in v["shards"]], v["subsets"]


CHECKS = {
    "generator": check_generator,
    "plans": check_plan,
    "importance": check_importance,
    "balance": check_balance,
    "bucket": check_bucket,
    "strata": check_strata,
    "homes": check_homes,
    "quarantine": check_quarantine,
    "subset": check_subset,
    "mixture": check_mixture,
    "rules": check_rule,
    "patterns": check_pattern,
}


def check(path: Path, least: int = 0, most: int = sys.maxsize) -> tuple[int, list[str]]:
    """Returns the number of comparisons, and those that fail. It reads only vectors with least to most samples."""
    compared, wrong = 0, []
    for section, vectors in json.loads(path.read_text(encoding="utf-8")).items():
        for i, v in enumerate(vectors):
            if not least <= sum(spread(v.get("chunks", []))) <= most:
                continue
            for what, got, want in CHECKS[section](v):
                compared += 1
                if got != want:
                    wrong.append(f"{section}[{i}] {what}: got {got}, want {want}")
    return compared, wrong


def main(path: str) -> int:
    compared, wrong = check(Path(path))
    print(*wrong, f"{compared} comparisons, {len(wrong)} wrong", sep="\n")
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
