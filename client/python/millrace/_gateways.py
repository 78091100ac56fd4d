"""Which gateway is asked: the near one or the rank's own first, and at the end those that failed of late.

The same course as the Go client's. Which one is asked changes speed, never bytes.
"""

from __future__ import annotations

import base64
import ipaddress
import random
import re
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional
from urllib.parse import unquote, urlsplit

from .errors import GatewayUnavailable, InvalidArgument

Home = Callable[[int, int, int], int]
"""(rank, world_size, gateways) -> which of the gateways the rank asks first."""

# How long a gateway is passed over after a fault: twice as long after each, and longer the more time the fault took.
FIRST_COOLDOWN = 1.0
MOST_COOLDOWN = 30.0
MOST_TIMES = 8.0  # what a fault took

LOOKUP_EVERY = 30.0
PROBE_EVERY = 60.0
PROBE_TIME = 0.25

# Another gateway becomes the first choice if it answers in less than NEAR_SHARE of the time, and NEAR_GAIN sooner.
NEAR_SHARE = 0.7
NEAR_GAIN = 0.0005

PORTS = {"http": 80, "https": 443}
_TOKEN_FORM = re.compile(r"mr_[A-Za-z0-9_-]{43}")  # of the tokens that `millrace token` prints


def home_by_rank(rank: int, world_size: int, gateways: int) -> int:
    """Gives rank r of w, of p gateways that all ranks list in one order, the gateway floor(r*p/w): for split=locality."""
    return rank * gateways // world_size if rank < world_size else 0


@dataclass(frozen=True)
class Address:
    """Where a gateway listens."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    named: str = ""  # what its address was looked up from, with the port: the Host header; empty: host says it
    authorization: str = field(default="", repr=False)  # of a proxy
    socket: str = ""  # path of a Unix socket, in place of host and port
    port_file: str = ""  # that holds the number of a port on this machine's loopback, in place of host and port

    def here(self) -> Optional[tuple[int, Any]]:
        """The family and address that a socket connects to, of a gateway of this user's; None of any other.

        A port is read each time: a gateway that is started again has another one.
        """
        if self.port_file:
            return socket.AF_INET, ("127.0.0.1", int(Path(self.port_file).read_text()))
        return (socket.AF_UNIX, self.socket) if self.socket else None

    @property
    def name(self) -> str:
        """The base URL, without a proxy's password."""
        if self.socket or self.port_file:
            return f"unix:{self.socket}" if self.socket else f"port:{self.port_file}"
        return f"{self.scheme}://{self.place}{self.prefix}"

    @property
    def place(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str, what: str = "gateway") -> Address:
    """Reads a base URL, unix:PATH or port:FILE; a bare host and port means http. No fault repeats a token, or a proxy's password."""
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
        raise InvalidArgument(
            "gateway: an address holds no user, password or token: they would end in logs",
            cure="give a token by token_file=, MILLRACE_TOKEN_FILE or MILLRACE_TOKEN, and a proxy's password by headers=",
        )
    if u.scheme not in PORTS or not host:
        raise InvalidArgument(f"{what} {shown!r}: want http://host:port")
    if u.query or u.fragment:
        raise InvalidArgument(f"{what} {shown!r}: want a base URL, without a query")
    basic = ""
    if u.username is not None:
        pair = f"{unquote(u.username)}:{unquote(u.password or '')}"
        basic = "Basic " + base64.b64encode(pair.encode()).decode()
    return Address(u.scheme, host, port or PORTS[u.scheme], u.path.rstrip("/"), "", basic)


@dataclass(frozen=True)
class Source:
    """What the caller says about one or more gateways."""

    base: Address
    lookup: bool  # the host is a name, and each of its addresses is a gateway
    must: bool  # without an address there is no gateway; else the name is left to who dials

    @classmethod
    def parse(cls, text: str, lookup: bool) -> Source:
        """Reads a base URL, or dns:NAME:PORT."""
        named = text.startswith("dns:")
        rest = text[4:] if named else text
        if named:
            host, _, port = rest.rpartition(":")
            if not host or not port.isdigit() or "/" in rest or "@" in rest:
                raise InvalidArgument(f"gateway {rest.rsplit('@', 1)[-1]!r}: want dns:NAME:PORT")
        base = parse(rest)
        try:
            ipaddress.ip_address(base.host)
            is_name = False
        except ValueError:
            # A certificate is made out to the name: behind https the name stays.
            is_name = base.scheme == "http" and base.host != "localhost"
        return cls(base, named or (lookup and is_name), named)


class Gateway:
    """One address that batches are asked of, and what was seen of it. Guarded by the fleet's lock."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.near = 0.0  # from a probe to its answer, of late; 0: not known
        self.faults = 0  # since it last answered more than a probe
        self.until: Optional[float] = None  # passed over before, and from then on probed first

    @property
    def name(self) -> str:
        return self.address.name


class Fleet:
    """The gateways that a client knows."""

    def __init__(
        self,
        sources: Sequence[Source],
        home: Optional[Home],
        probe: Callable[[Gateway, float], None],
        lookup: Callable[[str], Iterable[str]],
    ) -> None:
        self.sources, self.home, self.probe, self.lookup = sources, home, probe, lookup
        self.asking = threading.Lock()  # held while names are looked up or gateways measured
        self.lock = threading.Lock()  # guards what follows
        self.gateways: list[Gateway] = []
        self.first: Optional[Gateway] = None
        self.resolved: Optional[float] = None
        self.measured: Optional[float] = None
        self.fault: Optional[Exception] = None

    def size(self) -> int:
        with self.lock:
            return len(self.gateways)

    def order(self, rank: int, world_size: int) -> list[Gateway]:
        """Returns the gateways in the order in which they are to be asked; it may look up and measure before."""
        self._refresh()
        self._measure()
        while True:
            everyone, back = self._sorted(rank, world_size)
            if back is None:
                return everyone
            # It would be the first but for a fault whose time is over: it has to show itself before.
            try:
                self._ask(back)
            except Exception:
                with self.lock:
                    back.until = None
                    self._pass_over(back, 0.0, 0.0)
            else:
                with self.lock:
                    back.until = None

    def _sorted(self, rank: int, world_size: int) -> tuple[list[Gateway], Optional[Gateway]]:
        with self.lock:
            now = time.monotonic()
            everyone = self._preferred(rank, world_size)
            lead = everyone[0]
            if lead.until is not None and now >= lead.until and len(everyone) > 1:
                lead.until = now + PROBE_TIME  # who comes meanwhile passes it over
                return everyone, lead
            everyone.sort(key=lambda g: 0 if g.until is None else 1 if now >= g.until else 2)
            return everyone, None

    def _preferred(self, rank: int, world_size: int) -> list[Gateway]:
        everyone = list(self.gateways)
        if self.home is not None:
            n = len(everyone)
            at = min(max(self.home(rank, world_size, n), 0), n - 1)
            everyone[0], everyone[at] = everyone[at], everyone[0]
            others = everyone[1:]
            turn = rank % len(others) if others else 0  # ranks whose home is lost go to different ones
            return everyone[:1] + others[turn:] + others[:turn]
        everyone.sort(key=lambda g: (g is not self.first, g.near or float("inf")))
        return everyone

    def answered(self, g: Gateway) -> None:
        """Notes that a gateway has answered."""
        with self.lock:
            g.faults, g.until = 0, None
            if self.first is None or self.first.until is not None:
                self.first = g

    def failed(self, g: Gateway, took: float, wait: float) -> None:
        """Notes that a gateway did not answer, or not as a gateway should: it rests for a while, for wait at least."""
        with self.lock:
            self._pass_over(g, took, wait)

    def _pass_over(self, g: Gateway, took: float, wait: float) -> None:
        now = time.monotonic()
        if g.until is not None and now < g.until:
            return  # one of many requests that failed together
        cooldown = max(FIRST_COOLDOWN, took) * (1 << min(g.faults, 5))
        cooldown = min(cooldown, max(MOST_COOLDOWN, MOST_TIMES * took))
        g.faults += 1
        g.until = now + max(cooldown * random.uniform(1, 1.25), wait)

    def all_failed(self) -> None:
        """Has names looked up again before the next round."""
        with self.lock:
            if any(s.lookup for s in self.sources):
                self.resolved = None

    def _due(self) -> bool:
        with self.lock:
            if not self.gateways or self.resolved is None:
                return True
            return any(s.lookup for s in self.sources) and time.monotonic() - self.resolved >= LOOKUP_EVERY

    def _refresh(self) -> None:
        if self._due():
            with self.lock:
                never = not self.gateways
            if self.asking.acquire(blocking=never):  # nobody waits for a name server who has what he asked for
                try:
                    if self._due():
                        self._resolve()
                finally:
                    self.asking.release()
        with self.lock:
            if not self.gateways:
                raise GatewayUnavailable(f"look up gateways: {self.fault}", retryable=True)

    def _resolve(self) -> None:
        found: list[Optional[list[Address]]] = []
        fault: Optional[Exception] = None
        for s in self.sources:
            try:
                found.append(self._find(s))
            except (OSError, ValueError) as e:
                found.append(None)
                fault = e
        with self.lock:
            known = {g.address: g for g in self.gateways}
            kept: list[Gateway] = []
            fresh: list[Gateway] = []
            for s, addresses in zip(self.sources, found):
                if addresses is None:  # the name has no answer: what it gave before
                    base = s.base
                    addresses = [a for a in known if a.named == f"{base.host}:{base.port}"] or ([] if s.must else [base])
                for a in addresses:
                    g = known.get(a)
                    if g is None:
                        known[a] = g = Gateway(a)
                        (fresh if s.lookup else kept).append(g)
                    elif g not in kept and g not in fresh:
                        kept.append(g)
            random.shuffle(fresh)  # clients that look up one name at once are not all to begin with the same address
            self.gateways, self.fault, self.resolved = kept + fresh, fault, time.monotonic()
            if fresh:
                self.measured = None
            if self.first not in self.gateways:
                self.first = None

    def _find(self, s: Source) -> list[Address]:
        if not s.lookup:
            return [s.base]
        found = list(dict.fromkeys(self.lookup(s.base.host)))
        if not found and s.must:
            raise ValueError(f"{s.base.host}: no address")
        local = all(ipaddress.ip_address(a).is_loopback for a in found)
        if (len(found) < 2 or local) and not s.must:
            return [s.base]
        b = s.base
        return [Address(b.scheme, a, b.port, b.prefix, f"{b.host}:{b.port}") for a in found]

    def _measure(self) -> None:
        """Asks all gateways how far they are, if it was long ago, and chooses the first."""
        with self.lock:
            everyone, never = list(self.gateways), self.measured is None
            if self.home is not None or len(everyone) < 2:
                return
            if self.measured is not None and time.monotonic() - self.measured < PROBE_EVERY:
                return
        if not self.asking.acquire(blocking=never):
            return
        try:
            with self.lock:
                if never and self.measured is not None:
                    return
            probes = [threading.Thread(target=self._probed, args=(g,), name="millrace-probe", daemon=True) for g in everyone]
            for t in probes:
                t.start()
            for t in probes:
                t.join()
            self._choose()
        finally:
            self.asking.release()

    def _probed(self, g: Gateway) -> None:
        start = time.monotonic()
        try:
            self._ask(g)
        except TimeoutError:
            self._note(g, time.monotonic() - start)  # at least
        except Exception:
            with self.lock:
                g.until = None
                self._pass_over(g, 0.0, 0.0)
        else:
            with self.lock:
                if g.until is not None and time.monotonic() >= g.until:
                    g.until = None

    def _ask(self, g: Gateway) -> None:
        start = time.monotonic()
        self.probe(g, PROBE_TIME)
        self._note(g, time.monotonic() - start)

    def _note(self, g: Gateway, took: float) -> None:
        with self.lock:
            took = max(took, 1e-9)
            g.near = (g.near + took) / 2 if g.near > 0 else took

    def _choose(self) -> None:
        with self.lock:
            self.measured = time.monotonic() - random.uniform(0, PROBE_EVERY / 2)
            well = [g for g in self.gateways if g.until is None]
            old = self.first if self.first in well else next(iter(well), None)
            if old is None:
                return
            best = min(well, key=lambda g: g.near or float("inf"))
            gains = old.near == 0 or (best.near < NEAR_SHARE * old.near and old.near - best.near > NEAR_GAIN)
            self.first = best if best.near > 0 and gains else old


def system_lookup(host: str) -> list[str]:
    """Returns the addresses of a name, as the system resolves it."""
    return [str(info[4][0]).split("%")[0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
