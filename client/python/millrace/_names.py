"""Patterns and SRV records: what stands for several gateways in an order that all ranks agree on."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from typing import NamedTuple

from .errors import InvalidArgument

MOST_GATEWAYS = 4096  # that a pattern may stand for: four times as many as the largest fleet that is simulated

_PATTERN = re.compile(r"([^{}]*)\{([0-9]{1,9})\.\.([0-9]{1,9})\}([^{}]*)")
_SERVICE = re.compile(r"_[A-Za-z0-9-]+\._tcp\.[^\s/:@{}]+")
# The number at the end of a host's first label, as the pods of a StatefulSet have it. A label that begins with a digit is made of an
# address, and the number at its end counts nothing.
_NUMBERED = re.compile(r"([A-Za-z_](?:[A-Za-z0-9_-]*[A-Za-z_-])?)([0-9]{1,9})(\..*)?")


def expand(address: str) -> list[str]:
    """Returns the addresses that a pattern stands for, in order: gateways-{0..7}.gateways:8080.

    FIRST with zeros in front, as in node-{01..16}, has all numbers as wide as itself. An address without braces stands for itself, and
    so does a path.
    """
    if not re.search("[{}]", address) or address.startswith(("unix:", "port:")):
        return [address]
    shown = address.rsplit("@", 1)[-1]
    found = _PATTERN.fullmatch(address)
    if found is None:
        raise InvalidArgument(f"gateway {shown!r}: want one {{FIRST..LAST}} of whole numbers, as in gateways-{{0..7}}.gateways:8080")
    before, digits, end, after = found.groups()
    first, last = int(digits), int(end)
    if last < first:
        raise InvalidArgument(f"gateway {shown!r}: want {{FIRST..LAST}} with FIRST at most LAST, as in {{{last}..{first}}}")
    if last - first >= MOST_GATEWAYS:
        raise InvalidArgument(f"gateway {shown!r}: stands for {last - first + 1} gateways, want at most {MOST_GATEWAYS}")
    return [f"{before}{n:0{len(digits)}}{after}" for n in range(first, last + 1)]


def check_service(name: str) -> None:
    """Refuses what is behind srv: and names no service, and any where SRV records cannot be looked up."""
    if not _SERVICE.fullmatch(name):
        raise InvalidArgument(f"gateway {'srv:' + name.rsplit('@', 1)[-1]!r}: want srv:_http._tcp.NAME, or srv:_https._tcp.NAME")
    if importlib.util.find_spec("dns") is None:
        raise InvalidArgument(
            f"gateway 'srv:{name}': Python looks up no SRV records by itself",
            cure="install dnspython (pip install 'millrace-data[srv]'), or give a pattern such as http://gateways-{0..7}.NAME:PORT",
        )


class Target(NamedTuple):
    """What an SRV record points to."""

    number: int  # at the end of the host's first label; -1: none
    host: str
    port: int
    around: tuple[str, str] = ("", "")  # the host without its number

    @classmethod
    def of(cls, host: str, port: int) -> Target:
        """Finds the number in a host."""
        found = _NUMBERED.fullmatch(host)
        return cls(int(found[2]), host, port, (found[1], found[3] or "")) if found else cls(-1, host, port)


def lookup_records(name: str) -> list[tuple[str, int]]:
    """Returns host and port of each SRV record of a name."""
    import dns.exception
    import dns.resolver

    try:
        answer = dns.resolver.resolve(name, "SRV", search=True)
    except dns.exception.DNSException as e:
        raise OSError(f"srv:{name}: {e}") from None
    return [(r.target.to_text(omit_final_dot=True), r.port) for r in answer]


def in_order(records: Iterable[tuple[str, int]], fill: bool) -> list[tuple[str, int]]:
    """Sorts targets by the numbers in their hosts. With fill, numbers from 0 on that have no record get one, if all are numbered alike.

    So gateway i has index i while others have no record, as pods that are starting.
    """
    targets = sorted(Target.of(*r) for r in records)
    known = {t.number: (t.host, t.port) for t in targets}
    alike = len(known) == len(targets) == sum(t.around == targets[0].around and 0 <= t.number < MOST_GATEWAYS for t in targets)
    if not (fill and alike and targets):
        return [(t.host, t.port) for t in targets]
    (before, after), port = targets[0].around, targets[0].port
    return [known.get(n, (f"{before}{n}{after}", port)) for n in range(targets[-1].number + 1)]
