#!/usr/bin/env python3
"""Judges the ledgers of a run by docs/spec/state.md alone. Requires only Python 3.10, and no index and no gateway.

examples:
  ledgers.py checkpoint/ledger-*.jsonl

Prints the verdict as JSON: ok, the head if it is, and what ranks lack or have twice. Exit code 0: ok, 1: not.
"""

import json
import re
import sys
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEYS = ["ledger", "previous", "attempt", "generation", "plans", "url", "rank", "ranks", "positions", "start", "read"]
OPTIONAL = ["filtered", "failed", "replaced"]
LIMIT = 1 << 64
Place = tuple[int, int]


class NotALedger(Exception):
    """The text is not a ledger."""


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]


def need(holds: bool, what: str) -> None:
    if not holds:
        raise NotALedger(what)


def is_number(n: Any) -> bool:
    return type(n) is int and 0 <= n < LIMIT


def is_digest(s: Any) -> bool:
    return isinstance(s, str) and re.fullmatch("[0-9a-f]{32}", s) is not None


def is_list_of(values: Any, length: int) -> bool:
    return isinstance(values, list) and len(values) == length and all(map(is_number, values))


@dataclass
class Part:
    """A line of a ledger."""

    line: str
    digest: str
    values: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.values[name]

    def number(self, place: Place) -> int:
        """The number of a place, counted over the epochs of this part."""
        return place[0] * self.positions + min(place[1], self.positions)

    def place(self, number: int) -> Place:
        epoch, position = divmod(number, max(self.positions, 1))
        return epoch, position

    def spans(self, name: str) -> list[tuple[int, int]]:
        ranges = self.values.get(name, [])
        return sorted((self.number((e, first)), self.number((e, end))) for e, first, end in ranges)


def parse(line: str) -> Part:
    try:
        values = json.loads(line)
    except ValueError as e:
        raise NotALedger(f"no JSON: {e}") from None
    need(isinstance(values, dict), "no object")
    names = list(values)
    need(names[: len(KEYS)] == KEYS and names[len(KEYS) :] == [name for name in OPTIONAL if name in names], f"the keys {names}")
    need(json.dumps(values, separators=(",", ":")) == line, "not in the canonical form")
    part = Part(line, digest(line), values)
    check_values(part)
    check_ranges(part)
    return part


def check_values(p: Part) -> None:
    need(p.ledger == 1 and type(p.ledger) is int, "another version")
    need(all(is_number(p.values[name]) for name in ("attempt", "rank", "ranks", "positions")), "a number")
    need(isinstance(p.previous, list) and all(map(is_digest, p.previous)), "previous")
    need((p.attempt == 0) == (not p.previous), "an attempt without previous parts, or the reverse")
    need(p.rank < p.ranks, "the rank")
    need(isinstance(p.plans, list) and bool(p.plans), "no plans")
    for plan in p.plans:
        need(isinstance(plan, dict) and list(plan) == ["at", "digest"], "a plan")
        need(is_list_of(plan["at"], 2) and is_digest(plan["digest"]), "a plan")
    places = [plan["at"] for plan in p.plans]
    need(places == sorted(places), "the order of the plans")
    need(is_list_of(p.start, 2) and fits(p, *p.start), "the start")
    need(isinstance(p.url, str) and re.fullmatch(r"[!#-\[\]-~]*", p.url) is not None, "the URL")
    generation = parse_qs(urlsplit(p.url).query).get("generation", [""])[0]
    is_mixture = "," in generation
    need(is_mixture or len(generation) == 64, "the URL has no generation")
    need(is_digest(p.generation) and p.generation == (digest(generation) if is_mixture else generation[:32]), "the generation")


def fits(p: Part, epoch: int, position: int) -> bool:
    return epoch + 1 < LIMIT and position <= p.positions and (epoch + 1) * p.positions < LIMIT


def check_ranges(p: Part) -> None:
    for name in ("read", *OPTIONAL):
        if name not in p.values:
            continue
        need(isinstance(p.values[name], list) and (name == "read" or p.values[name] != []), name)
        for r in p.values[name]:
            need(is_list_of(r, 3) and r[1] < r[2] and fits(p, r[0], r[2]), f"{name} {r}")
            need(r[:2] >= p.start, f"{name} {r} before the start")
    read = union(p.spans("read"))
    for name in OPTIONAL:
        for a, b in p.spans(name):
            need(any(first <= a and b <= end for first, end in read), f"{name} {a} to {b}, which were not read")


def union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for a, b in spans:
        if out and a <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], b)
        else:
            out.append((a, b))
    return out


class Audit:
    """Judges the parts of a run."""

    def __init__(self, parts: list[Part]) -> None:
        self.faults: list[str] = []
        self.missing: dict[tuple[int, Place, Place], list[int]] = {}
        self.doubled: dict[tuple[int, Place, Place], list[int]] = {}
        self.parts = {p.digest: p for p in parts}
        self.check(len(self.parts) == len(parts), "a part is given twice")
        self.check(bool(parts), "no parts")
        numbers = sorted({p.attempt for p in parts})
        self.attempts = [sorted((p for p in self.parts.values() if p.attempt == n), key=lambda p: (p.rank, p.digest)) for n in numbers]
        self.check_chain()
        for before, attempt in zip([None, *self.attempts], self.attempts):
            self.check_attempt(attempt)
            if before is not None:
                self.check_plan(before[0], attempt[0])
        for i, attempt in enumerate(self.attempts):
            self.check_coverage(attempt, self.attempts[i + 1 :])

    def check(self, holds: bool, fault: str) -> None:
        if not holds:
            self.faults.append(fault)

    def check_chain(self) -> None:
        """Rule 1."""
        named = set()
        for p in self.parts.values():
            for d in p.previous:
                named.add(d)
                before = self.parts.get(d)
                self.check(before is not None and before.attempt == p.attempt - 1, f"{p.digest} continues {d}")
        for attempt in self.attempts[:-1]:
            self.check(all(p.digest in named for p in attempt), "a part is continued by none")

    def check_attempt(self, attempt: list[Part]) -> None:
        """Rule 2, in an attempt."""
        first = attempt[0]
        for p in attempt:
            for name in ("generation", "plans", "url", "ranks", "positions", "start"):
                self.check(p.values[name] == first.values[name], f"{p.digest} differs in {name}")
        ranks = [p.rank for p in attempt]
        self.check(len(ranks) == first.ranks and ranks == list(range(len(ranks))), f"the ranks {ranks} of {first.ranks}")

    def check_plan(self, before: Part, p: Part) -> None:
        """Rule 2, from an attempt to the next one."""
        self.check(before.generation == p.generation, "another generation")
        self.check(plan_at(before, p.start) == plan_at(p, p.start), "another plan")

    def check_coverage(self, attempt: list[Part], later: list[list[Part]]) -> None:
        """Rule 3."""
        first = attempt[0]
        ends = [tuple(a[0].start) for a in later]
        last = (later or [attempt])[-1]
        ends.append(last[0].place(max([p.number(p.start) for p in last] + [b for p in last for _, b in p.spans("read")])))
        for p in attempt:
            at, end = p.number(p.start), p.number(min(ends))
            for a, b in p.spans("read"):
                a, b = min(a, end), min(b, end)
                note(self.missing, first, at, a, p)
                note(self.doubled, first, a, min(at, b), p)
                at = max(at, b)
            note(self.missing, first, at, end, p)

    def verdict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"ok": not (self.faults or self.missing or self.doubled)}
        if found["ok"]:
            found["head"] = digest("".join(sorted(p.digest + "\n" for p in self.attempts[-1])))
        for name, gaps in (("missing", self.missing), ("doubled", self.doubled)):
            if gaps:
                found[name] = [{"attempt": n, "from": list(a), "to": list(b), "ranks": ranks} for (n, a, b), ranks in sorted(gaps.items())]
        return found


def note(gaps: dict[tuple[int, Place, Place], list[int]], first: Part, a: int, b: int, p: Part) -> None:
    if a < b:
        ranks = gaps.setdefault((first.attempt, first.place(a), first.place(b)), [])
        if ranks[-1:] != [p.rank]:
            ranks.append(p.rank)


def plan_at(p: Part, place: list[int]) -> str:
    before = [plan["digest"] for plan in p.plans if plan["at"] < place]
    return str(before[-1] if before else p.plans[0]["digest"])


def judge(text: str) -> dict[str, Any]:
    """Returns the verdict on a text, the ledgers of all ranks of a run."""
    *lines, rest = text.split("\n")
    try:
        need(rest == "", "the last line has no line feed")
        parts = [parse(line) for line in lines]
    except NotALedger as e:
        return {"ok": False, "error": str(e)}
    return Audit(parts).verdict()


def main() -> int:
    if not sys.argv[1:] or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    texts = []
    for name in sys.argv[1:]:
        with open(name, encoding="ascii") as f:
            texts.append(f.read())
    verdict = judge("".join(texts))
    print(json.dumps(verdict))
    return 0 if verdict["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
