"""Selection of gateways: the nearest one or the rank's own first, and those with recent faults last.

The algorithm is that of the Go client. The choice affects only speed, never bytes.
"""

from __future__ import annotations

import base64
import importlib.util
import ipaddress
import math
import os
import random
import re
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Optional, Union
from urllib.parse import unquote, urlsplit

from ..errors import GatewayUnavailable, InvalidArgument

Home = Callable[[int, int, int], int]
"""(rank, world_size, gateways) -> index of the gateway that the rank asks first."""

# A gateway is avoided after a fault. The time doubles with each fault, and grows with the time that the fault took.
FIRST_COOLDOWN = 1.0
MOST_COOLDOWN = 30.0
MOST_TIMES = 8.0  # limit of a longer cooldown, as a multiple of the time that the fault took

LOOKUP_EVERY = 30.0
PROBE_EVERY = 60.0
PROBE_TIME = 0.25

# A gateway becomes the preferred one only if its latency is below NEAR_SHARE of the current one's and lower by at least NEAR_GAIN.
NEAR_SHARE = 0.7
NEAR_GAIN = 0.0005

PORTS = {"http": 80, "https": 443}

# Kinds of addresses.
ITSELF = "itself"  # one gateway, whose name is resolved when connecting
# http://NAME:PORT: one gateway per address if the name has several; otherwise like ITSELF
SEVERAL = "several"
ADDRESSES = "addresses"  # dns:NAME:PORT: one gateway per address of the name
RECORDS = "records"  # srv:NAME: one gateway per SRV record of the name
MOST_GATEWAYS = 4096  # maximum gateways in a pattern: four times the largest simulated cluster
_PATTERN = re.compile(r"([^{}]*)\{([0-9]{1,9})\.\.([0-9]{1,9})\}([^{}]*)")
_SERVICE = re.compile(r"_[A-Za-z0-9-]+\._tcp\.[^\s/:@{}]+")
# Matches a host whose first label ends in a number, such as a pod of a StatefulSet. It excludes labels that start with a digit: they
# are derived from addresses.
_NUMBERED = re.compile(r"([A-Za-z_](?:[A-Za-z0-9_-]*[A-Za-z_-])?)([0-9]{1,9})(\..*|)")
# form of the tokens that `millrace token` prints
_TOKEN_FORM = re.compile(r"mr_[A-Za-z0-9_-]{43}")


def home_by_rank(rank: int, world_size: int, gateways: int) -> int:
    """Returns the number of a rank's gateway, floor(rank*gateways/world_size), for share=locality.

    All ranks must list the gateways in the same order.
    """
    return rank * gateways // world_size if rank < world_size else 0


@dataclass(frozen=True)
class Address:
    """The address of a gateway."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    # name and port that the address was resolved from, for the Host header; empty: use host
    named: str = ""
    authorization: str = field(default="", repr=False)  # credentials of a proxy
    socket: str = ""  # path of a Unix socket, instead of host and port
    # file of MILLRACE_PORT_FILE with 127.0.0.1:PORT, instead of host and port
    port_file: str = ""

    def here(self) -> Optional[tuple[int, Any]]:
        """Returns the socket family and address of a gateway of this user; None for other gateways.

        The port file is read each time, because a restarted gateway has another port. An empty file means that the gateway does not listen
        yet, which is a retryable OSError.
        """
        if self.port_file:
            host, _, port = Path(self.port_file).read_text(errors="replace").strip().rpartition(":")
            if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
                raise ConnectionRefusedError(f"{self.port_file} holds no port: the gateway is just starting, or was cut short")
            return socket.AF_INET, (host, int(port))
        if not self.socket:
            return None
        _check_socket(self.socket)
        return socket.AF_UNIX, self.socket

    @property
    def name(self) -> str:
        """The base URL, without a proxy's password."""
        if self.socket or self.port_file:
            return f"unix:{self.socket}" if self.socket else f"port:{self.port_file}"
        return f"{self.scheme}://{self.place}{self.prefix}"

    @property
    def place(self) -> str:
        """Host and port, or the path."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def has_name(self) -> bool:
        """Whether its host is a name that must be resolved."""
        return not (self.socket or self.port_file or number_of(self.host))


def number_of(host: str) -> Union[ipaddress.IPv4Address, ipaddress.IPv6Address, None]:
    """Returns the IP address of a host; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_here(host: str) -> bool:
    """Reports whether a host name or address means this machine."""
    number = number_of(host)
    return host == "localhost" if number is None else (getattr(number, "ipv4_mapped", None) or number).is_loopback


def _check_socket(path: str) -> None:
    """Rejects a path if another user could have created the socket. A missing file causes an error only when connecting."""
    try:
        is_, directory = os.lstat(path), os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(is_.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(is_.st_mode) else stat.filemode(is_.st_mode)
        raise InvalidArgument(f"gateway unix:{path}: no socket but {kind}", cure="give the path of the socket itself")
    if directory.st_mode & stat.S_IWOTH and is_.st_uid not in (0, os.geteuid()):
        raise InvalidArgument(
            f"gateway unix:{path}: the socket belongs to user {is_.st_uid}, in a directory where every user may put one",
            cure=f"have the gateway listen in a directory where others may not write, or run it as user {os.geteuid()}",
        )


def _secret() -> InvalidArgument:
    return InvalidArgument(
        "gateway: an address holds no user, password or token: they would end in logs",
        cure="give a token by token_file=, MILLRACE_TOKEN_FILE or MILLRACE_TOKEN, and a proxy's password by headers=",
    )


def parse(text: str, what: str = "gateway") -> Address:
    """Parses a base URL, unix:PATH or port:FILE; a bare host and port means http. Errors never contain a token or a proxy's password."""
    if text.startswith("unix:/"):
        return Address("http", "localhost", 80, socket=text[5:])
    if text.startswith("port:/"):
        return Address("http", "localhost", 80, port_file=text[5:])
    shown = re.split(r"[?#]", text.rsplit("@", 1)[-1])[0]
    try:
        u = urlsplit(text if "://" in text else "http://" + text)
        host, port = u.hostname, u.port
        (host or "").encode("idna")
        if not all("!" <= c <= "~" for c in u.path):
            raise ValueError
    except ValueError:
        raise InvalidArgument(f"{what} {shown!r}: not a URL: want http://host:port, anything odd in a path as %xx") from None
    if what == "gateway" and (_TOKEN_FORM.search(text) or u.username is not None or u.password is not None):
        raise _secret()
    if u.scheme not in PORTS or not host:
        raise InvalidArgument(f"{what} {shown!r}: want http://host:port")
    if u.query or u.fragment:
        raise InvalidArgument(f"{what} {shown!r}: want a base URL, without a query")
    basic = ""
    if u.username is not None:
        pair = f"{unquote(u.username)}:{unquote(u.password or '')}"
        basic = "Basic " + base64.b64encode(pair.encode()).decode()
    return Address(u.scheme, host, port or PORTS[u.scheme], u.path.rstrip("/"), "", basic)


def expand(address: str) -> list[str]:
    """Returns the addresses of a pattern, in order: gateways-{0..7}.gateways:8080.

    If FIRST has leading zeros, as in node-{01..16}, all numbers are padded to its width. Addresses without braces, and paths, are returned
    unchanged.
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
    """Rejects an invalid service name after srv:, and any name if SRV records cannot be looked up."""
    if not _SERVICE.fullmatch(name):
        raise InvalidArgument(f"gateway {'srv:' + name.rsplit('@', 1)[-1]!r}: want srv:_http._tcp.NAME, or srv:_https._tcp.NAME")
    if importlib.util.find_spec("dns") is None:
        raise InvalidArgument(
            f"gateway 'srv:{name}': Python looks up no SRV records by itself",
            cure="install dnspython (pip install 'millrace-data[srv]'), or give a pattern such as http://gateways-{0..7}.NAME:PORT",
        )


@dataclass(frozen=True)
class Endpoint:
    """An address from the caller, for one or more gateways."""

    base: Address
    means: str = ITSELF
    written: str = ""  # the pattern or service from which it was made; empty: base

    @classmethod
    def parse(cls, text: str, spread: bool) -> list[Endpoint]:
        """Parses a base URL, dns:NAME:PORT, srv:NAME or a pattern. With spread, http://NAME:PORT is one gateway per address."""
        if _TOKEN_FORM.search(text):
            raise _secret()
        if text.startswith("srv:"):
            name = text[4:]
            check_service(name)
            scheme = "https" if name.startswith("_https.") else "http"
            return [cls(Address(scheme, name, PORTS[scheme]), RECORDS, text)]
        expanded = expand(text)
        # each name of a pattern is one gateway, even if it has several addresses
        if expanded != [text]:
            return [replace(one, written=text) for address in expanded for one in cls.parse(address, False)]
        named = text.startswith("dns:")
        rest = text[4:] if named else text
        if named:
            host, _, port = rest.rpartition(":")
            if not host or not port.isdigit() or "/" in rest or "@" in rest:
                raise InvalidArgument(f"gateway {rest.rsplit('@', 1)[-1]!r}: want dns:NAME:PORT")
        base = parse(rest)
        # An https name is not split, because the certificate names the host.
        several = spread and base.has_name and base.scheme == "http" and not is_here(base.host)
        return [cls(base, ADDRESSES if named else SEVERAL if several else ITSELF)]

    @property
    def lookup(self) -> bool:
        """Whether the client resolves the name itself."""
        return self.means != ITSELF

    @property
    def must(self) -> bool:
        """Whether the gateways are unknown until DNS responds. For other endpoints the name is resolved when connecting."""
        return self.means in (ADDRESSES, RECORDS)

    @property
    def name(self) -> str:
        """The address in the caller's notation."""
        return self.written or self.base.name


def endpoints_of(addresses: Iterable[str], home: Union[Home, str, None]) -> tuple[Endpoint, ...]:
    """Parses all addresses of the caller."""
    found = tuple(one for text in addresses for one in Endpoint.parse(text, home is None))
    for s in found:
        if home is not None and s.means == ADDRESSES:
            raise InvalidArgument(
                f"gateway 'dns:{s.base.place}': home requires the same gateway order for all ranks, and the addresses of a name have none",
                cure=f"give a pattern such as http://gateways-{{0..7}}.{s.base.place}, or srv:_http._tcp.{s.base.host}",
            )
    return found


class Gateway:
    """One address that serves batches, with its observed state."""

    def __init__(self, address: Address) -> None:
        self.address, self.name = address, address.name
        self.near = 0.0  # average latency of recent probes; 0: unknown
        self.faults = 0  # consecutive faults since the last response to a request other than a probe
        self.until: Optional[float] = None  # avoided before this time, and then probed first


class Fleet:
    """The gateways of a client. It is not locked, because concurrent updates of their state affect only speed."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        home: Optional[Home],
        probe: Callable[[Gateway, float], bool],
        lookup: Callable[[str], Iterable[str]],
    ) -> None:
        self.endpoints, self.home, self.probe, self.lookup = endpoints, home, probe, lookup
        self.names = any(s.lookup for s in endpoints)
        self.asking = threading.Lock()  # held during name lookups and measurements
        self.gateways: list[Gateway] = []
        # addresses from the latest lookup of each name
        self.last: dict[Endpoint, list[Address]] = {}
        self.first: Optional[Gateway] = None
        self.resolved = self.measured = -math.inf
        self.fault: Optional[Exception] = None

    def order(self, rank: int, world_size: int) -> list[Gateway]:
        """Returns the gateways in the order of attempts. It may look names up and measure latency first."""
        every = LOOKUP_EVERY if self.names else math.inf
        self._renew(lambda: not self.gateways or time.monotonic() - self.resolved >= every, self._resolve, not self.gateways)
        if not self.gateways:
            raise GatewayUnavailable(f"look up gateways: {self.fault}", retryable=True)
        if self.home is None and len(self.gateways) > 1:
            self._renew(lambda: time.monotonic() - self.measured >= PROBE_EVERY, self._measure, self.measured == -math.inf)
        while True:
            now, everyone = time.monotonic(), self._preferred(rank, world_size)
            lead = everyone[0]
            if lead.until is None or now < lead.until or len(everyone) == 1:
                return sorted(everyone, key=lambda g: 0 if g.until is None else 1 if now >= g.until else 2)
            # The preferred gateway has served its cooldown: it is probed first.
            lead.until = now + PROBE_TIME  # other threads skip it until then
            self._probe(lead)

    def _renew(self, due: Callable[[], bool], renew: Callable[[], None], wait: bool) -> None:
        """Makes one thread run a due renewal. Other threads wait for it only if there are no earlier results."""
        if due() and self.asking.acquire(blocking=wait):
            try:
                if due():
                    renew()
            finally:
                self.asking.release()

    def _preferred(self, rank: int, world_size: int) -> list[Gateway]:
        everyone = list(self.gateways)
        if self.home is None:
            return sorted(everyone, key=lambda g: (g is not self.first, g.near or math.inf))
        n = len(everyone)
        at = min(max(self.home(rank, world_size, n), 0), n - 1)
        everyone[0], everyone[at] = everyone[at], everyone[0]
        others = everyone[1:]
        # distributes the ranks of a lost home among the other gateways
        turn = rank % len(others) if others else 0
        return everyone[:1] + others[turn:] + others[:turn]

    def answered(self, g: Gateway) -> None:
        """Records a successful response."""
        g.faults, g.until = 0, None
        if self.first is None or self.first.until is not None:
            self.first = g

    def failed(self, g: Gateway, took: float, wait: float) -> None:
        """Records a fault: the gateway is avoided for a while, at least for wait seconds."""
        now = time.monotonic()
        if g.until is not None and now < g.until:
            return  # one of several concurrent requests that failed at the same time
        cooldown = max(FIRST_COOLDOWN, took) * (1 << min(g.faults, 5))
        cooldown = min(cooldown, max(MOST_COOLDOWN, MOST_TIMES * took))
        g.faults += 1
        g.until = now + max(cooldown * random.uniform(1, 1.25), wait)

    def all_failed(self) -> None:
        """Makes a lookup due before the next round."""
        if self.names:
            self.resolved = -math.inf

    def _resolve(self) -> None:
        """Looks names up. If a lookup fails, the name keeps its earlier addresses."""
        known = {g.address: g for g in self.gateways}
        listed: dict[Address, bool] = {}
        self.fault = None
        for s in self.endpoints:
            try:
                found = self._find(s)
            except (OSError, ValueError) as e:
                self.fault = e
                found = self.last.get(s) or ([] if s.must else [s.base])
            self.last[s] = found
            for a in found:
                listed.setdefault(a, s.lookup and self.home is None and a not in known)
        # Clients that resolve a name at the same time should start with different addresses.
        fresh = [a for a, new in listed.items() if new]
        random.shuffle(fresh)
        kept = [a for a, new in listed.items() if not new]
        self.gateways = [known.get(a) or Gateway(a) for a in kept + fresh]
        self.resolved = time.monotonic()
        if fresh:
            self.measured = -math.inf
        if self.first not in self.gateways:
            self.first = None

    def _find(self, s: Endpoint) -> list[Address]:
        b = s.base
        if not s.lookup:
            return [b]
        if s.means == RECORDS:
            return [Address(b.scheme, host, port) for host, port in in_order(lookup_records(b.host), self.home is not None)]
        found = list(dict.fromkeys(self.lookup(b.host)))
        if not found and s.must:
            raise ValueError(f"{b.host}: no address")
        if (len(found) < 2 or all(map(is_here, found))) and not s.must:
            return [b]
        return [Address(b.scheme, a, b.port, b.prefix, b.place) for a in found]

    def _measure(self) -> None:
        """Probes all gateways, and selects the preferred one."""
        probes = [threading.Thread(target=self._probe, args=(g,), name="millrace-probe", daemon=True) for g in self.gateways]
        for t in probes:
            t.start()
        for t in probes:
            t.join()
        self.measured = time.monotonic() - random.uniform(0, PROBE_EVERY / 2)
        well = [g for g in self.gateways if g.until is None]
        if not well:
            return
        old = self.first if self.first in well else well[0]
        best = min(well, key=lambda g: g.near or math.inf)
        gains = old.near == 0 or (best.near < NEAR_SHARE * old.near and old.near - best.near > NEAR_GAIN)
        self.first = best if best.near > 0 and gains else old

    def _probe(self, g: Gateway) -> None:
        """Measures the latency of a gateway. If the gateway does not respond in time after its cooldown, it is avoided again."""
        begun = time.monotonic()
        try:
            lives = self.probe(g, PROBE_TIME)
        except TimeoutError:
            lives = g.until is None  # a timeout means that its latency is at least that long
        except Exception:
            lives = False
        now = time.monotonic()
        if not lives:
            g.until = None
            self.failed(g, 0.0, 0.0)
            return
        g.near = (g.near + max(now - begun, 1e-9)) / (2 if g.near else 1)
        if g.until is not None and g.until - now <= PROBE_TIME:
            g.until = None


def system_lookup(host: str) -> list[str]:
    """Returns the addresses of a name from the system's resolver."""
    return [str(info[4][0]).split("%")[0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


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
    """Sorts targets by the numbers in their hosts. With fill, missing numbers from 0 on are added, if all names differ only in the number.

    So gateway i has index i even while other gateways have no record, such as pods that are starting.
    """
    found = ((host, port, _NUMBERED.fullmatch(host)) for host, port in records)
    targets = sorted((int(m[2]), host, port, m[1], m[3]) if m else (-1, host, port, "", "") for host, port, m in found)
    known = {number: (host, port) for number, host, port, _, _ in targets}
    alike = len(known) == len(targets) and len({(before, after) for *_, before, after in targets}) == 1
    if not (fill and alike and min(known) >= 0 and max(known) < MOST_GATEWAYS):
        return [(host, port) for _, host, port, _, _ in targets]
    _, _, port, before, after = targets[0]
    return [known.get(n, (f"{before}{n}{after}", port)) for n in range(max(known) + 1)]
