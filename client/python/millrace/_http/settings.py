"""What a client was told: its gateways, its patience, the token that it shows them, and certificates."""

from __future__ import annotations

import ipaddress
import os
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional, Protocol, Union

from .._memory import Closing
from ..errors import InvalidArgument, MillraceError
from .fleet import Home, Source

TOKEN = "MILLRACE_TOKEN"
TOKEN_FILE = "MILLRACE_TOKEN_FILE"
PLAIN = "MILLRACE_INSECURE_PLAIN_HTTP"

MAX_TOKEN = 64 << 10  # bytes: HTTP servers refuse longer headers

Token = Union[str, Callable[[], str], None]


class Secret(str):
    """A text that no repr shows: those of headers, settings and the variables in a traceback neither."""

    def __repr__(self) -> str:
        return "'***'"


def secret(token: Token) -> Token:
    """Returns a token that no traceback shows."""
    return Secret(token) if isinstance(token, str) else token


class Tokens:
    """The token of a process: read when its first client needs it, and again when a gateway refuses it."""

    def __init__(self, token: Token, token_file: Union[str, os.PathLike[str], None]) -> None:
        """Arguments go before the environment."""
        names = ("token", "token_file")
        if token is None and token_file is None:
            token, token_file, names = secret(os.environ.get(TOKEN)), os.environ.get(TOKEN_FILE), (TOKEN, TOKEN_FILE)
        if token is not None and token_file is not None:
            raise InvalidArgument(f"{names[0]} and {names[1]} are both given", cure="leave one of them out")
        token_file = None if token_file is None else os.fspath(token_file)
        if token_file == "":
            raise InvalidArgument(f"{names[1]} names no file", cure="give the path of a file that holds the token, or leave it out")
        self._token, self._file, self._place = token, token_file, names[0]
        self.given = token is not None or token_file is not None
        self._lock = threading.Lock()
        self._text: Optional[Secret] = None  # guarded by _lock
        if not callable(token):  # a caller's function is not asked before there is a request
            self.current()

    def _read(self) -> Secret:
        if self._file is not None:
            return _read_file(self._file)
        if callable(self._token):
            return _check(self._token(), "the function that gives the token")
        return _check(self._token, self._place)

    def current(self) -> Optional[Secret]:
        """Returns the token, or None if there is none."""
        with self._lock:
            if self.given and self._text is None:
                self._text = self._read()
            return self._text

    def renew(self, refused: Secret) -> Optional[Secret]:
        """Reads the token again after a gateway has refused it; None if it is still the same."""
        with self._lock:
            self._text = self._read()
            return None if self._text == refused else self._text


def _read_file(path: str) -> Secret:
    try:
        with Path(path).open("rb") as f:
            text = Secret(f.read(MAX_TOKEN + 2).decode("latin-1"))
    except (OSError, ValueError) as e:
        reason = (e.strerror if isinstance(e, OSError) else None) or type(e).__name__
        raise InvalidArgument(f"token file {path!r}: {reason}", cure="give the path of a readable file that holds the token") from None
    return _check(text, f"token file {path!r}")


def _check(text: object, place: str) -> Secret:
    """Returns a token without the newline at its end. No fault repeats the token."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{place}: a token is a str, not {type(text).__name__}", cure="see token in help(millrace.Client)")
    text = Secret(text.rstrip("\r\n"))
    fault = ""
    if not text:
        fault = "the token is empty"
    elif len(text) > MAX_TOKEN:
        fault = f"a token has at most {MAX_TOKEN} bytes"
    elif not all("!" <= c <= "~" for c in text):
        fault = "a token is one line of visible ASCII characters, without spaces"
    if fault:
        raise InvalidArgument(f"{place}: {fault}", cure="give the token alone, as `millrace token` or the issuer has printed it")
    return text


def keep_off_plain_networks(sources: Sequence[Source], allowed: bool) -> None:
    """Refuses gateways that a token would reach over a network without TLS."""
    if allowed or _plain_allowed():
        return
    for s in sources:
        if s.base.scheme == "http" and not _is_here(s.base.host):
            raise InvalidArgument(
                f"gateway {s.base.name}: a token is not sent over a network without TLS",
                cure=f"give an https:// address, or say tls=millrace.TLS(insecure_plain_http=True) ({PLAIN}=true) where the network encrypts "
                "by itself",
            )


def _plain_allowed() -> bool:
    text = os.environ.get(PLAIN, "false")
    if text.lower() not in ("1", "t", "true", "0", "f", "false"):
        raise InvalidArgument(f"{PLAIN} {text!r}: want true or false", cure=f"set {PLAIN} to one of them, or unset it")
    return text.lower() in ("1", "t", "true")


def _is_here(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


class Local(Protocol):
    """A gateway of this user's, which is started again if it has gone, and the dataset that was opened."""

    @property
    def name(self) -> str:
        """What the gateway calls the dataset."""

    @property
    def address(self) -> str:
        """Where the dataset lies."""

    @property
    def opened(self) -> Mapping[str, str]:
        """What was opened, by the names that the gateway has for it."""

    def hold(self) -> Closing:
        """Takes this process's share of the gateway."""

    def revive(self) -> bool:
        """Starts the gateway again if it has gone. Returns whether there was anything to do."""

    def explain(self, e: MillraceError) -> None:
        """Has an error say where to look."""


@dataclass(frozen=True)
class Settings:
    """How patient a client is, and who it says it is. Each field is as millrace.Client, Routing or TLS has it."""

    sources: tuple[Source, ...]
    deadline: float
    token: Token = field(repr=False)
    token_file: Union[str, os.PathLike[str], None]
    headers: Mapping[str, str] = field(repr=False)
    local: Optional[Local]  # the gateway is this user's, and is started again if it has gone
    home: Optional[Home]
    lookup: Optional[Callable[[str], Iterable[str]]]
    first_answer: float
    attempt_timeout: float
    max_batch_bytes: int
    check: str
    shared_memory: bool
    user_agent: str
    ca_file: Union[str, os.PathLike[str], None]
    client_cert: Union[str, os.PathLike[str], None]
    client_key: Union[str, os.PathLike[str], None]
    context: Optional[ssl.SSLContext]
    insecure_plain_http: bool

    def __post_init__(self) -> None:
        """Refuses a token and certificates that are better refused now than in a worker, which takes the settings as they are."""
        self.tokens()
        if self.ca_file or self.client_cert:
            self.new_context()

    def tokens(self) -> Tokens:
        """Finds the token, in the environment of this process if no argument gives it."""
        found = Tokens(self.token, self.token_file)
        if found.given:
            keep_off_plain_networks(self.sources, self.insecure_plain_http)
        return found

    def new_context(self) -> ssl.SSLContext:
        """Makes what https needs."""
        if self.context is not None:
            return self.context
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.client_cert is not None:
                context.load_cert_chain(self.client_cert, self.client_key, password=lambda: "")  # else OpenSSL asks on the terminal
        except (OSError, ValueError) as e:
            given = {"ca_file": self.ca_file, "client_cert": self.client_cert, "client_key": self.client_key}
            files = ", ".join(f"{name} {os.fspath(file)!r}" for name, file in given.items() if file is not None)
            raise InvalidArgument(f"{files or 'certificates'}: {e}", cure="give PEM files, of a key without a password") from None
        return context
