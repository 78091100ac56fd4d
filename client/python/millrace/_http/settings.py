"""The settings of a client: gateways, timeouts, token and certificates."""

from __future__ import annotations

import os
import pathlib
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional, Protocol, Union

from .._process import Closing
from .._version import __version__
from ..errors import InvalidArgument, MillraceError
from .fleet import Endpoint, Home, is_here

TOKEN = "MILLRACE_TOKEN"
TOKEN_FILE = "MILLRACE_TOKEN_FILE"
PLAIN = "MILLRACE_INSECURE_PLAIN_HTTP"

MAX_TOKEN = 64 << 10  # bytes: HTTP servers refuse longer headers

Token = Union[str, Callable[[], str], None]
Path = Union[str, "os.PathLike[str]", None]


class Secret(str):
    """A text that repr hides, also within headers, settings and variables of a traceback."""

    def __repr__(self) -> str:
        return "'***'"


def secret(token: Token) -> Token:
    """Returns a token that tracebacks hide."""
    return Secret(token) if isinstance(token, str) else token


class Tokens:
    """The token of a process. It is read when the first client needs it, and again when a gateway refuses it."""

    def __init__(self, token: Token, token_file: Path) -> None:
        """Arguments take precedence over the environment."""
        names = ("token", "token_file")
        if token is None and token_file is None:
            token, token_file, names = secret(os.environ.get(TOKEN)), os.environ.get(TOKEN_FILE), (TOKEN, TOKEN_FILE)
        if token is not None and token_file is not None:
            raise InvalidArgument(f"{names[0]} and {names[1]} are both given", cure="leave one of them out")
        token_file = None if token_file is None else os.fspath(token_file)
        if token_file == "":
            raise InvalidArgument(f"{names[1]} names no file", cure="give the path of a file that holds the token, or leave it out")
        self._token, self._file, self._given_by = token, token_file, names[0]
        self.given = token is not None or token_file is not None
        self._lock = threading.Lock()
        self._text: Optional[Secret] = None  # guarded by _lock
        if not callable(token):  # a caller's function is only called for the first request
            self.current()

    def _read(self) -> Secret:
        if self._file is not None:
            return _read_file(self._file)
        if callable(self._token):
            return _check(self._token(), "the function that gives the token")
        return _check(self._token, self._given_by)

    def current(self) -> Optional[Secret]:
        """Returns the token, or None if there is none."""
        with self._lock:
            if self.given and self._text is None:
                self._text = self._read()
            return self._text

    def renew(self, refused: Secret) -> Optional[Secret]:
        """Rereads the token after a gateway has refused it; None if it has not changed."""
        with self._lock:
            self._text = self._read()
            return None if self._text == refused else self._text


def _read_file(path: str) -> Secret:
    try:
        with pathlib.Path(path).open("rb") as f:
            text = Secret(f.read(MAX_TOKEN + 2).decode("latin-1"))
    except (OSError, ValueError) as e:
        reason = (e.strerror if isinstance(e, OSError) else None) or type(e).__name__
        raise InvalidArgument(f"token file {path!r}: {reason}", cure="give the path of a readable file that holds the token") from None
    return _check(text, f"token file {path!r}")


def _check(text: object, place: str) -> Secret:
    """Validates a token and removes the newline at its end. Errors never contain the token."""
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


def keep_off_plain_networks(endpoints: Sequence[Endpoint], allowed: bool) -> None:
    """Rejects gateways that would receive a token over a network without TLS."""
    if allowed or _plain_allowed():
        return
    for s in endpoints:
        if s.base.scheme == "http" and not is_here(s.base.host):
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


class Local(Protocol):
    """The dataset of a gateway of this user, which is restarted after it has exited: millrace._local.Local."""

    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def opened(self) -> Mapping[str, str]: ...
    def hold(self) -> Closing: ...
    def revive(self) -> bool: ...
    def explain(self, e: MillraceError) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Routing:
    """The choice of a gateway, timeouts, and the transfer of bodies.

    home            the gateway that a rank tries first. "rank", for Share(by="locality"): rank r of w tries gateway floor(r*gateways/w). Or
                    a function of (rank, world_size, gateways). It requires a list, a pattern or SRV records. None: the nearest gateway
    lookup          function that resolves a name to addresses; None: the system's
    first_answer    seconds until the first response of any gateway, so that a wrong address is reported early
    attempt_timeout seconds for one attempt, its body included
    max_batch_bytes larger bodies are rejected unread
    check           CRC-32C of bodies: "auto" (if a package for it is installed), "always" or "never"
    shared_memory   read batches in shared memory from a gateway on a Unix socket (`unix:/run/millrace/socket`); see
                    `describe()["transport"]`
    user_agent      sent with each request
    """

    home: Union[Home, str, None] = None
    lookup: Optional[Callable[[str], Iterable[str]]] = None
    first_answer: float = 20.0
    attempt_timeout: float = 60.0
    max_batch_bytes: int = 4 << 30
    check: str = "auto"
    shared_memory: bool = True
    user_agent: str = f"millrace-python/{__version__}"


@dataclass(frozen=True, kw_only=True)
class TLS:
    """Certificates for https:// gateways, and permission to use plain http.

    ca_file         trusted certificate authorities in PEM, instead of the system's, like the environment's SSL_CERT_FILE
    client_cert, client_key
                    the client certificate in PEM, and its key if that is in another file
    context         an ssl.SSLContext instead of these files, which cannot be sent to spawned workers
    insecure_plain_http
                    allow sending the token to http:// gateways on other machines, on networks with their own encryption; also
                    MILLRACE_INSECURE_PLAIN_HTTP=true
    """

    ca_file: Path = None
    client_cert: Path = None
    client_key: Path = None
    context: Optional[ssl.SSLContext] = None
    insecure_plain_http: bool = False

    def __post_init__(self) -> None:
        if self.context is not None and (self.ca_file or self.client_cert):
            raise InvalidArgument("context takes the place of ca_file and client_cert", cure="give one or the other")
        if self.client_key is not None and self.client_cert is None:
            raise InvalidArgument("client_key is the key of client_cert", cure="give client_cert too")


@dataclass(frozen=True)
class Settings:
    """The settings of a client."""

    endpoints: tuple[Endpoint, ...]
    deadline: float
    token: Token = field(repr=False)
    token_file: Path
    headers: Mapping[str, str] = field(repr=False)
    routing: Routing
    tls: TLS
    # the gateway belongs to this user, and is restarted after it has exited
    local: Optional[Local] = None

    def __post_init__(self) -> None:
        """Rejects an invalid token or certificate in this process, because workers use the settings unchecked."""
        self.tokens()
        if self.tls.ca_file or self.tls.client_cert:
            self.new_context()

    def tokens(self) -> Tokens:
        """Returns the token, from the environment of this process if no argument sets it."""
        found = Tokens(self.token, self.token_file)
        if found.given:
            keep_off_plain_networks(self.endpoints, self.tls.insecure_plain_http)
        return found

    def new_context(self) -> ssl.SSLContext:
        """Creates the TLS context for https."""
        tls = self.tls
        if tls.context is not None:
            return tls.context
        try:
            context = ssl.create_default_context(cafile=tls.ca_file)
            if tls.client_cert is not None:
                # prevents OpenSSL from prompting on the terminal
                context.load_cert_chain(tls.client_cert, tls.client_key, password=lambda: "")
        except (OSError, ValueError) as e:
            given = {"ca_file": tls.ca_file, "client_cert": tls.client_cert, "client_key": tls.client_key}
            files = ", ".join(f"{name} {os.fspath(file)!r}" for name, file in given.items() if file is not None)
            raise InvalidArgument(f"{files or 'certificates'}: {e}", cure="give PEM files, of a key without a password") from None
        return context
