"""Holds order.py against committed vectors: python3 check.py vectors.json"""

import hashlib
import json
import sys

import order


def check_generator(vector):
    k = order.key(vector["purpose"], *vector["numbers"])
    yield "key", k, vector["key"]
    yield "words", [order.word(k, c) for c in range(len(vector["words"]))], vector["words"]
    yield "draws", [order.draw(k, i, n) for i, n in enumerate(vector["bounds"])], vector["draws"]
    p = order.perm(k, vector["n"])
    yield "perm", [p.at(i) for i in vector["places"]], vector["perm"]
    yield "inverse", [p.place(v) for v in vector["perm"]], vector["places"]


def digest(samples):
    h = hashlib.sha256()
    for x in samples:
        h.update(x.to_bytes(8, "little"))
    return h.hexdigest()


def spread(runs):
    return [value for value, times in runs for _ in range(times)]


def check_plan(vector):
    counts = spread(vector["chunks"])
    samples = sum(counts)
    plan = order.SHUFFLES[vector["shuffle"]](counts, vector["window"], vector["seed"], vector["epoch"])
    yield "samples", samples, vector["samples"]
    yield "at", [plan.at(t) for t in vector["positions"]], vector["at"]
    yield "position", [plan.position(x) for x in vector["of"]], vector["position"]
    if "digest" in vector:
        everything = [plan.at(t) for t in range(samples)]
        yield "digest", digest(everything), vector["digest"]
        yield "bijection", sorted(everything), list(range(samples))
        yield "inverse", [plan.position(x) for x in everything[:200]], list(range(min(200, samples)))
    size, tail, world_size = vector["batch_size"], vector["tail"], vector["world_size"]
    yield "batches", order.batches(samples, size, tail), vector["batches"]
    for s in vector["shares"]:
        positions, padded = order.share(samples, size, tail, s["batch"], s["rank"], world_size)
        yield "share", (len(positions), padded), (s["count"], s["padded"])
        yield "share's samples", digest(plan.at(t) for t in positions), s["digest"]


def check_importance(vector):
    counts, weights = spread(vector["chunks"]), spread(vector["weights"])
    shuffle, window, seed = vector["shuffle"], vector["window"], vector["seed"]
    plan = order.Importance(shuffle, counts, weights, window, seed, vector["epoch"])
    samples, total = len(weights), sum(weights)
    yield "weights", samples, sum(counts)
    yield "order digest", order.order_digest(shuffle, counts, window, seed, vector["importance"], weights), vector["order_digest"]
    yield "phase", plan.phase, vector["phase"]
    yield "draws", digest(plan.draws), vector["draws"]
    yield "virtual", [plan.order.at(t) for t in vector["positions"]], vector["virtual"]
    yield "samples", [plan.at(t) for t in vector["positions"]], vector["samples"]
    yield "draws of", [list(plan.of(x)) for x in vector["of"]], vector["draws_of"]
    if "digest" in vector:
        everything = [plan.at(t) for t in range(samples)]
        yield "digest", digest(everything), vector["digest"]
        counted = [b - a for a, b in map(plan.of, range(samples))]
        yield "counts", [everything.count(x) for x in range(min(200, samples))], counted[:200]
        yield "within one", [x for x in range(samples) if abs(counted[x] * total - samples * weights[x]) >= total], []
    rest = [w for w in weights if w * samples < total]
    yield "coverage", [samples - len(rest), sum(rest)], vector["coverage"]


def check_balance(vector):
    yield "shares", order.deal(vector["lengths"], vector["world_size"]), vector["shares"]


def stratified(vector, epoch):
    """The counts of a vector's samples, virtual ones if it has weights, and their order."""
    counts, weights = spread(vector["chunks"]), spread(vector.get("weights", []))
    strata = {"strata": vector["strata"]} if vector["strata"] else {}
    args = vector["window"], vector["seed"], epoch
    if weights:
        return counts, weights, order.Importance(vector["shuffle"], counts, weights, *args, **strata).order
    return counts, weights, order.SHUFFLES[vector["shuffle"]](counts, *args, **strata)


def check_strata(vector):
    counts, weights, plan = stratified(vector, vector["epoch"])
    samples = sum(counts)
    named = order.order_digest("window", counts, vector["window"], vector["seed"], vector["importance"], weights, vector["strata"])
    yield "order digest", named, vector["order_digest"]
    yield "strata", [plan.stratum(c) for c in range(min(20, len(counts)))], vector["stratum"]
    yield "at", [plan.at(t) for t in vector["positions"]], vector["at"]
    yield "position", [plan.position(x) for x in vector["of"]], vector["position"]
    everything = [plan.at(t) for t in range(samples)]
    yield "digest", digest(everything), vector["digest"]
    yield "bijection", sorted(everything), list(range(samples))


def check_homes(vector):
    counts, weights, plan = stratified(vector, vector["epoch"])
    samples, size, groups = sum(counts), vector["batch_size"], vector["homes"]
    if not weights:
        yield "homes of chunks", [plan.chunk_home(c) for c in range(min(20, len(counts)))], vector["home"]
    for deal in vector["deals"]:
        positions, _ = order.share(samples, size, vector["tail"], deal["batch"], 0, 1)
        homes = [plan.home(t) * groups // plan.homes() for t in positions]
        shares, transfers = order.deal_homes(homes, vector["world_size"], groups)
        yield "shares", shares, deal["shares"]
        yield "transfers", transfers < groups, True
        q = order.Quarantine(vector["seed"], counts, vector.get("bad", []))
        delivered = [q.sub(vector["epoch"], plan.at(positions[place])) for share in shares for place in share]
        yield "samples", digest(delivered), deal["digest"]


def check_quarantine(vector):
    counts, subset = spread(vector["chunks"]), vector.get("subset", "")
    if subset:
        members = [x for x, is_member in enumerate(spread(vector["members"])) if is_member]
        counts = order.subset_counts(counts, members)
    shuffle, window, seed, epoch = vector["shuffle"], vector["window"], vector["seed"], vector["epoch"]
    plan, q = order.SHUFFLES[shuffle](counts, window, seed, epoch), order.Quarantine(seed, counts, vector["bad"])
    yield "substitutes", [q.sub(epoch, x) for x in vector["bad"]], vector["substitutes"]
    yield "digest", digest(q.sub(epoch, plan.at(t)) for t in range(sum(counts))), vector["digest"]
    yield "order digest", q.order_digest(order.order_digest(shuffle, counts, window, seed, subset=subset)), vector["order_digest"]


def check_subset(vector):
    members = [x for x, is_member in enumerate(spread(vector["members"])) if is_member]
    counts = order.subset_counts(spread(vector["chunks"]), members)
    shuffle, window, seed = vector["shuffle"], vector["window"], vector["seed"]
    plan = order.SHUFFLES[shuffle](counts, window, seed, vector["epoch"])
    yield "samples", len(members), vector["samples"]
    yield "digest", digest(members[plan.at(t)] for t in range(len(members))), vector["digest"]
    yield "order digest", order.order_digest(shuffle, counts, window, seed, subset=vector["subset"]), vector["order_digest"]


def check_mixture(vector):
    m = order.Mixture(vector["seed"], vector["sources"], vector["t"])
    seeds = [m.source_seed(i) for i in range(len(m.sources))]
    yield "samples", m.t, vector["samples"]
    yield "seeds", seeds, vector["seeds"]
    yield "turns", [m.at(*p) for p in vector["positions"]], vector["turns"]
    yield "counts", [m.before(*p) for p in vector["positions"]], vector["counts"]
    for n, at in zip(vector["counts"], vector["found"]):
        samples = m.sources[0][0]
        if at[0] < 1 << 63:
            yield "found", m.at(*at), [0, n[0] // samples, n[0] % samples]
    plans = [order.order_digest("full", [source[0]], 0, seed) for source, seed in zip(m.sources, seeds)]
    yield "order digest", m.order_digest(plans), vector["order_digest"]
    if "digest" in vector:
        yield "digest", digest(x for t in range(m.t) for x in m.at(1, t)), vector["digest"]


def check_rule(vector):
    got = [order.subset_part(vector["parts"], vector["salt"], name.encode()) for name in vector["keys"]]
    yield "subsets", got, vector["subsets"]


def check_pattern(vector):
    yield "subsets", [order.shard_part(vector["patterns"], shard) for shard in vector["shards"]], vector["subsets"]


CHECKS = {
    "quarantine": check_quarantine,
    "subset": check_subset,
    "mixture": check_mixture,
    "rules": check_rule,
    "patterns": check_pattern,
    "strata": check_strata,
    "homes": check_homes,
    "generator": check_generator,
    "plans": check_plan,
    "importance": check_importance,
    "balance": check_balance,
}


def main(path):
    with open(path, encoding="utf-8") as f:
        vectors = json.load(f)
    wrong = compared = 0
    for section in vectors:
        for i, vector in enumerate(vectors[section]):
            for what, got, want in CHECKS[section](vector):
                compared += 1
                if got != want:
                    wrong += 1
                    print(f"{section}[{i}] {what}: got {got}, want {want}")
    print(f"{sum(map(len, vectors.values()))} vectors, {compared} comparisons, {wrong} wrong")
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
