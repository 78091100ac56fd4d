"""Compares place.py with committed vectors: python3 check.py vectors.json"""

import json
import sys

import place


def check(vectors):
    for v in vectors["logarithms"]:
        yield f"L({v['u']})", place.minus_log2(v["u"]), v["minus_log2"]
    for i, view in enumerate(vectors["views"]):
        for chunk in view["chunks"]:
            got = place.owners(view["members"], bytes.fromhex(chunk["digest"]))
            yield f"view {i}, chunk {chunk['digest'][:8]}", got, chunk["owners"]


def main(path):
    with open(path, encoding="utf-8") as f:
        vectors = json.load(f)
    wrong = compared = 0
    for what, got, want in check(vectors):
        compared += 1
        if got != want:
            wrong += 1
            print(f"{what}: got {got}, want {want}")
    print(f"{compared} comparisons, {wrong} wrong")
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
