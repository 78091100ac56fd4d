"""Runs a client against gateways with faults, and compares the samples that it reads, one by one.
"""

import os
import re
import subprocess
from typing import NamedTuple, Optional

from . import framed
from .crc32c import crc32c
from .http import ask, batch_path, query
from .proxy import FAULTS, RETRY_AFTER, Proxy, Seen, closed_port
from .report import Report

LIMIT = 120.0  # maximum seconds of one run of a client
EARLY = 0.9  # fraction of Retry-After: clocks differ

PLANS = (
    ("tar", 0, {"batch_size": "14"}),
    ("jsonl", 3, {"batch_size": "16", "shuffle": "full", "tail": "pad", "rank": "1", "world_size": "3"}),
    ("targz", 1, {"batch_size": "50", "seed": "11", "rank": "1", "world_size": "4"}),
    ("parquet", 1, {"batch_size": "20"}),
    ("tokens", 18446744073709551615, {"batch_size": "100", "shuffle": "window", "window": "2"}),
)
FAULTY = ("jsonl", 5, {"batch_size": "12", "seed": "3"})  # the plan has ten batches, more than there are faults


class Ran(NamedTuple):
    code: Optional[int]  # None: it did not exit
    lines: list[str]
    errors: str


def run(command: list[str], urls: list[str], dataset: str, epoch: int, plan: dict[str, str]) -> Ran:
    """Runs a client as integration/conformance/README.md specifies."""
    env = dict(os.environ)
    env.update(
        MILLRACE_URL=" ".join(urls), MILLRACE_DATASET=dataset, MILLRACE_EPOCH=str(epoch), MILLRACE_PLAN=query(plan)[1:]
    )
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        env.pop(name, None)
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired as e:
        return Ran(None, [], (e.stderr or b"").decode(errors="replace"))
    return Ran(done.returncode, done.stdout.decode(errors="replace").splitlines(), done.stderr.decode(errors="replace"))


def expected(gateway: str, dataset: str, epoch: int, plan: dict[str, str]) -> list[str]:
    """The expected lines of a client, from a gateway without faults."""
    out, number = [], 0
    while True:
        answer = ask(gateway, batch_path(dataset, epoch, number, {**plan, "format": "framed"}))
        if answer.status != 200:
            raise ValueError(f"{dataset}: batch {number}: status {answer.status}: {answer.body[:300]!r}")
        for i, sample in enumerate(framed.parse(answer.body).samples):
            out.append(f"{number} {i} {len(sample)} {crc32c(sample):08x}")
        number += 1
        if number == int(answer.header("Millrace-Batches")):
            return out


def compare(report: Report, ran: Ran, want: list[str]) -> None:
    if ran.code is None:
        report.wrong(f"the client did not end within {LIMIT:.0f} s")
    elif ran.code != 0:
        report.wrong(f"exit code {ran.code}")
    if ran.code != 0 and ran.errors.strip():
        report.wrong(f"it said: {ran.errors.strip()[-500:]}")
    for i, (got, wanted) in enumerate(zip(ran.lines, want)):
        if got != wanted:
            report.wrong(f"line {i + 1}: got {got[:100]!r}, want {wanted!r}")
            return
    if len(ran.lines) != len(want):
        report.wrong(f"lines: got {len(ran.lines)}, want {len(want)}")


def check(gateway: str, command: list[str], report: Report) -> None:
    """Runs a client over all plans, with faults, with one gateway down, and with a request that must fail."""
    for dataset, epoch, plan in PLANS:
        with report.check(f"{dataset}, epoch {epoch}, {query(plan)[1:]}"), Proxy(gateway, faults=False) as proxy:
            compare(report, run(command, [proxy.url], dataset, epoch, plan), expected(gateway, dataset, epoch, plan))
            pinned(report, proxy.seen)
    dataset, epoch, plan = FAULTY
    want = expected(gateway, *FAULTY)
    with Proxy(gateway, faults=True) as proxy:
        with report.check("an epoch with a fault in each of its first batches"):
            ran = run(command, [proxy.url], dataset, epoch, plan)
            compare(report, ran, want)
        if ran.code == 0:
            for number, fault in enumerate(FAULTS):
                with report.check(f"{fault.name}: {fault.text}"):
                    manners(report, fault.name, [s for s in proxy.seen if s.batch == number])
    with report.check("the first of two gateways is down"), Proxy(gateway, faults=False) as proxy:
        down = f"http://127.0.0.1:{closed_port()}"
        compare(report, run(command, [down, proxy.url], dataset, epoch, plan), want)
    with report.check("an answer that no retry mends"), Proxy(gateway, faults=False) as proxy:
        refused(report, run(command, [proxy.url], dataset, epoch, {"shuffle": "sideways"}), proxy.seen)


def pinned(report: Report, seen: list[Seen]) -> None:
    """The client must request all batches except the first with a generation, so that an epoch never mixes two."""
    for s in seen:
        if s.batch is not None and s.batch > 0 and not re.search(r"[?&]generation=[0-9a-f]{64}", s.path):
            report.wrong(f"{s.path}: got no generation, want the one that the first answer has told")
            return


def manners(report: Report, fault: str, seen: list[Seen]) -> None:
    """Checks the requests of a client that has finished successfully."""
    if len(seen) < 2:
        report.wrong(f"requests: got {len(seen)}, want the batch to be asked for again")
        return
    again = seen[1]
    if fault == "busy" and again.when - seen[0].when < RETRY_AFTER * EARLY:
        report.wrong(f"asked again after {again.when - seen[0].when:.2f} s, where Retry-After said {RETRY_AFTER}")
    if fault in ("cut", "cut twice", "whole"):
        if again.range_from == 0:
            report.wrong("began anew: want a Range from where the body stopped")
        elif not again.if_range:
            report.wrong("a Range without If-Range: want the ETag of what is there already")
    if fault == "cut twice" and len(seen) > 2 and seen[2].range_from <= again.range_from:
        report.wrong(f"the third request begins at {seen[2].range_from}, the second at {again.range_from}: want it to go on")
    if fault == "whole" and len(seen) > 2:
        report.wrong(f"requests: got {len(seen)}, want 2: the second answer was the whole body, and nothing to append")
    if fault == "damaged" and again.range_from != 0:
        report.wrong("asked for a part of a body that was damaged: nobody knows where, so want all of it")


def refused(report: Report, ran: Ran, seen: list[Seen]) -> None:
    if ran.code is None:
        report.wrong(f"the client did not end within {LIMIT:.0f} s")
    elif ran.code == 0:
        report.wrong("exit code 0, want another one")
    if ran.lines:
        report.wrong(f"lines: got {len(ran.lines)}, want none")
    if "shuffle" not in ran.errors:
        report.wrong(f"standard error: got {ran.errors.strip()[-300:]!r}, want what the gateway has said")
    if len(seen) > 3:
        report.wrong(f"requests: got {len(seen)}, want no retry of what is not retryable")
