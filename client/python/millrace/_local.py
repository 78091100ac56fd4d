"""Gateways of this user on this machine: the first process starts one, all share it, and it ends a minute after the last.

Each gateway has a directory that only its user can enter:

    socket          where it listens (mode 0600). If the path is too long, or the file system has no Unix sockets,
                    it listens on a loopback port instead, with these files:
    port            its address, 127.0.0.1:PORT, which it writes once it listens (port-file)
    token           the clients' token (mode 0600), new for each start: other users of this machine can reach the port, but are refused
    access.yaml     the token's digest and rights; no other caller has rights
    users           every process that uses the gateway holds a shared lock on it; the kernel releases it when the process ends, and a
                    forked child shares its parent's. The gateway ends after a minute without locks (while-locked)
    change          locked by the process that starts the gateway or adds a dataset
    datasets.yaml   the served datasets
    log             log of the latest gateway

The directory's name is a digest of the properties that distinguish gateways: the program, credentials and other settings in the
environment, and cache sizes. Two versions, or two accounts of a store, therefore have separate gateways.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import platform
import re
import secrets
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional, Union
from urllib.parse import unquote

from ._http import expand, parse
from ._indexing import Found, Wanted, cache, cannot, digest, environment, run, said_here
from ._process import Closing
from .errors import GatewayUnavailable, IntegrityError, InternalError, InvalidArgument, MillraceError, ReloadRefused, StoreError, by_code

log = logging.getLogger("millrace")

PROGRAM = "MILLRACE_PROGRAM"
LINGER = "1m"  # time that a gateway stays without users
SHARED = "/tmp"  # parent of the directory if the environment sets none
START_TIME = 120.0  # seconds to start, since the gateway may have to fetch indexes of many datasets
_RIGHTS = ["read", "report", "warm"]  # rights of the gateway's user
_ATTEMPTS = 5
_LONGEST_SOCKET = 90  # maximum bytes of a socket's path, with room for a process ID
_SETTINGS = re.compile(r"(AWS_|SSL_CERT_|OTEL_)|(https?|all|no)_proxy$", re.IGNORECASE)

Size = Union[int, str]


def is_gateway(where: str) -> bool:
    """Reports whether a text is the address of a gateway rather than that of a dataset."""
    return re.match(r"https?://|dns:|srv:|unix:|[^/@:\s]+:\d+(/|$)", where, re.IGNORECASE) is not None


def is_path(where: object) -> bool:
    """Reports whether an object is a path or the address of a bucket, rather than of a gateway."""
    if not isinstance(where, str):
        return isinstance(where, os.PathLike)
    if is_gateway(where) or where.startswith("port:/"):
        return False
    scheme = where.rpartition("://")[0].lower()
    return scheme in ("s3", "hf", "file") or (not scheme and ("/" in where or Path(where).exists()))


def served(where: str, dataset: Optional[str]) -> tuple[str, Optional[str]]:
    """Splits GATEWAY/NAME, like the program. If dataset is given, the path in the address belongs to a proxy."""
    if dataset or where.startswith(("dns:", "srv:", "unix:")):
        return where, dataset
    first = expand(where)[0]
    at = parse(first)
    if not at.prefix:
        return where, None
    gateway = f"{at.scheme}://{at.place}" if first == where else re.sub(r"(?<![:/])/.*", "", where)
    return gateway, unquote(at.prefix[1:]).removeprefix("v1/datasets/")


@dataclass(frozen=True)
class Local:
    """One dataset on a gateway of this user. It can be pickled: another process finds the same gateway, or restarts it."""

    directory: str
    command: tuple[str, ...]  # the program and the arguments of serve, except paths and datasets
    name: str  # name of the dataset
    address: str
    loopback: bool = False  # the gateway listens on a port, because the directory supports no socket
    others: tuple[Local, ...] = ()  # datasets of a mixture on the same gateway

    @property
    def opened(self) -> dict[str, str]:
        """The addresses of the opened datasets, by their names on the gateway."""
        return {one.name: one.address for one in (*self.others, self)}

    @property
    def gateway(self) -> str:
        """The address for clients."""
        return f"port:{self.directory}/port" if self.loopback else f"unix:{self.directory}/socket"

    @property
    def token_file(self) -> Optional[str]:
        """The file with the gateway's token; None: access to its socket suffices."""
        return f"{self.directory}/token" if self.loopback else None

    def hold(self) -> Hold:
        """Acquires this process's shared lock on the gateway. It waits while a gateway exits."""
        self._own_directory()
        return Hold(Path(self.directory, "users"))

    def revive(self) -> bool:
        """Restarts the gateway if it has exited, and adds missing datasets. Returns whether any of this was necessary."""
        with self._changing():
            if not self._answers():
                self._start(self.opened)
                return True
            missing = [one for one in (self, *self.others) if self._served().get(one.name) != one.address]
            for one in missing:
                one._add(self._served())
        return bool(missing)

    def refresh(self) -> None:
        """Makes the gateway serve the latest index of the dataset."""
        for attempt in range(_ATTEMPTS):
            try:
                if not self.revive():
                    self._reload()
                return
            except GatewayUnavailable as e:  # the gateway was killed meanwhile
                if not e.retryable or attempt == _ATTEMPTS - 1:
                    raise

    def explain(self, e: MillraceError) -> None:
        """Adds a remedy to an error of this gateway, whose user knows neither its address nor its log."""
        if e.code in ("batch_too_large", "overloaded"):
            e.cure = "millrace.open(..., cache=...) sets --cache-size; smaller batches and less prefetch need less"
        if isinstance(e, (GatewayUnavailable, InternalError, IntegrityError, StoreError)):
            log, where = f"the gateway's log is {self.directory}/log", shlex.quote(self.address)
            damaged = f"`millrace verify {where}` compares the data with their index; {log}"
            e.cure = damaged if isinstance(e, (IntegrityError, StoreError)) else log
            if e.code == "store_inconsistent":
                e.cure = f"{StoreError('', code=e.code).cure.replace('ADDRESS', where)}; {damaged}"

    def _own_directory(self) -> None:
        """Creates the directory, and rejects one that other users can write to."""
        try:
            Path(self.directory).mkdir(0o700, exist_ok=True)
        except FileExistsError:
            pass  # checked below
        except OSError as e:
            raise cannot(self.directory, e) from None
        is_ = os.lstat(self.directory)
        if not stat.S_ISDIR(is_.st_mode) or is_.st_uid != os.getuid() or is_.st_mode & 0o077:
            raise InvalidArgument(
                f"{self.directory}: not a directory of this user only", cure="remove it, or set XDG_RUNTIME_DIR to a directory of your own"
            )

    def _changing(self) -> Hold:
        self._own_directory()
        return Hold(Path(self.directory, "change"), alone=True)

    def _answers(self) -> bool:
        if self.loopback:
            try:
                # Another program or user may have taken the port. Only this gateway rejects requests without the token and accepts requests
                # with it.
                return self._ask("GET", "/v1/datasets", shown=False)[0] == 401 and self._ask("GET", "/v1/datasets")[0] == 200
            except (OSError, ValueError, http.client.HTTPException):
                return False
        try:
            self._connected(5.0).close()
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        return True

    def _connected(self, patience: float) -> socket.socket:
        family, where = parse(self.gateway).here() or (socket.AF_UNIX, "")
        with contextlib.ExitStack() as failed:
            sock = failed.enter_context(socket.socket(family))
            sock.settimeout(patience)
            sock.connect(where)
            failed.pop_all()
            return sock

    def _ask(self, method: str, target: str, *, shown: bool = True) -> tuple[int, bytes]:
        """Sends a request, with the token if shown is set, and returns status and body."""
        headers = {"Authorization": f"Bearer {Path(self.token_file).read_text()}"} if shown and self.token_file else {}
        with contextlib.closing(http.client.HTTPConnection("localhost")) as c:
            c.sock = self._connected(START_TIME)
            c.request(method, target, headers=headers)
            r = c.getresponse()
            return r.status, r.read()

    def _listen(self) -> list[str]:
        """Returns the arguments of serve for its address and its callers."""
        if not self.loopback:
            return ["--listen", f"unix:{self.directory}/socket", "--allow", ",".join(_RIGHTS)]
        token = f"mr_{secrets.token_urlsafe(32)}"
        me = ["token:user"]
        access = {
            "tokens": [{"name": "user", "sha256": digest(token)}],
            "grants": [{"who": me, "datasets": ["*"], "rights": _RIGHTS}, {"who": me, "rights": ["admin"]}],
        }
        with contextlib.suppress(FileNotFoundError):
            Path(self.directory, "port").unlink()  # port file of the previous gateway
        _put(Path(self.directory, "token"), token)
        _put(Path(self.directory, "access.yaml"), json.dumps(access, indent=1))
        return ["--listen", "127.0.0.1:0", "--access", f"{self.directory}/access.yaml"]

    def _served(self) -> dict[str, str]:
        try:
            served: dict[str, str] = json.loads(Path(self.directory, "datasets.yaml").read_text())["datasets"]
        except (OSError, ValueError, KeyError):
            return {}
        return served

    def _write(self, served: Mapping[str, str]) -> None:
        # JSON is valid YAML
        _put(Path(self.directory, "datasets.yaml"), json.dumps({"datasets": served}, indent=1))

    def _start(self, served: Mapping[str, str]) -> None:
        """Starts a gateway in a separate session, so that Ctrl-C and the exit of this process do not affect it."""
        self._write(served)
        d = self.directory
        args = [*self.command, *self._listen(), "--datasets", f"{d}/datasets.yaml", "--lame-duck", "0s", "--log-format", "json"]
        settings = {"MILLRACE_WHILE_LOCKED": f"{d}/users", "MILLRACE_LINGER": LINGER}
        if self.loopback:
            settings["MILLRACE_PORT_FILE"] = f"{d}/port"
        ends, alive = os.pipe()
        try:
            with Path(d, "log").open("wb") as out:
                # The shell exits immediately, so that init adopts the gateway and no zombie process remains.
                subprocess.run(
                    ["/bin/sh", "-c", '"$@" &', "sh", *args], stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=(alive,),
                    start_new_session=True, check=True, cwd="/", env={**environment(), **settings},
                )
        except OSError as e:
            os.close(ends)
            raise cannot(d, e) from None
        finally:
            os.close(alive)
        with os.fdopen(ends, "rb") as end:
            self._await(end.fileno())
        log.info("started a gateway for this user: %s serves %s", self.gateway, self.address)

    def _await(self, ends: int) -> None:
        """Waits until the gateway listens, with all datasets open. The pipe `ends` reaches its end when the gateway exits."""
        os.set_blocking(ends, False)
        begun = time.monotonic()
        while not self._answers():
            gone = True
            try:
                os.read(ends, 1)
            except BlockingIOError:
                gone = False
            if gone or time.monotonic() - begun > START_TIME:
                if gone and (refusal := self._refusal()):
                    raise refusal
                why = "has ended" if gone else f"does not listen after {START_TIME:.0f} s"
                raise GatewayUnavailable(f"the gateway of this user {why}: {self._last_words()}", cure=f"see {self.directory}/log")
            time.sleep(0.02)

    def _refusal(self) -> Optional[MillraceError]:
        """Runs the program to find out whether it rejects the settings or datasets of this gateway. None: it accepts them."""
        failure = run(*self.command, "--datasets", f"{self.directory}/datasets.yaml", "--check")[1]
        if failure is None:
            return None
        return by_code(failure.code)(f"open {self.address}: {said_here(failure.message)}", code=failure.code, cure=said_here(failure.cure))

    def _last_words(self) -> str:
        try:
            lines = Path(self.directory, "log").read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return "; ".join(lines[-3:]) or "it has said nothing"

    def _add(self, served: Mapping[str, str]) -> None:
        self._write({**served, self.name: self.address})
        try:
            self._reload()
        except BaseException:
            self._write(served)  # otherwise no process could add another dataset
            raise

    def _reload(self) -> None:
        """Makes the gateway reload the datasets file and the latest index of the dataset."""
        try:
            status, body = self._ask("POST", f"/v1/reload?dataset={self.name}")
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise GatewayUnavailable(f"{self.gateway}: {e or type(e).__name__}", retryable=True) from None
        if status != http.client.OK:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                body = json.loads(body)["detail"].encode()
            said = body[:4096].decode(errors="replace")
            # the text before it names a file that the user did not write
            why = said.partition(f": dataset {self.name}: ")[2] or said
            raise ReloadRefused(f"open {self.address}: {why}", cure=f"the gateway's log is {self.directory}/log")


class Hold(Closing):
    """A lock on a file, held while this object, or its copy in a forked child, exists."""

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        import fcntl

        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as e:
            raise cannot(str(path), e) from None
        self._close = weakref.finalize(self, os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)

    def close(self) -> None:
        self._close()


def find(
    wanted: Wanted, memory: Optional[Size], disk_cache: Optional[tuple[Union[str, os.PathLike[str]], Size]]
) -> tuple[Local, Hold]:
    """Makes this user's gateway serve a dataset. If necessary, it starts the gateway and indexes the dataset.

    Returns the dataset and the lock.
    """
    if sys.platform == "win32":
        raise InvalidArgument("open: there is no gateway for Windows", cure="use WSL, or give the address of a gateway: http://host:8080")
    program = _program()
    address = wanted.address
    serve = [program, "serve"]
    if memory is not None:
        serve += ["--cache-size", str(memory)]
    if disk_cache is not None:
        serve += ["--disk-cache", str(Path(disk_cache[0]).resolve()), "--disk-cache-size", str(disk_cache[1])]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", re.split("[?,#]", address)[0].rpartition("/")[2]).strip(".-") or "data"
    directory, loopback = _directory(serve)
    local = Local(directory, tuple(serve), f"{name[:40]}-{digest(address)[:8]}", address, loopback)
    hold = local.hold()
    try:
        known = local._served().get(local.name)
        if known and not wanted.again and local._answers():
            with contextlib.suppress(ReloadRefused):  # its index may be missing
                local = replace(local, address=known)
                local.refresh()
                Found.of_served(program, known).tell_changes()
                return local, hold
        found = None if wanted.again else wanted.found(program)
        if found is None:
            with local._changing():  # other ranks wait here, and then find the index
                found = wanted.indexed(program)
        local = replace(local, address=found.address)
        local.refresh()
        found.tell_changes()
    except BaseException:
        hold.close()
        raise
    return local, hold


def _program() -> str:
    """Returns the path of the program: from the environment, the wheel, or the PATH."""
    named = os.environ.get(PROGRAM)
    inside = Path(__file__).with_name("bin") / "millrace"
    found = shutil.which(named or "millrace") if named or not inside.exists() else str(inside)
    if not found:
        what = f"{PROGRAM}={named}" if named else "millrace"
        raise InvalidArgument(
            f"open: the program {what} is not there", cure=f"install a wheel that has it, put millrace into the PATH or its path into {PROGRAM}"
        )
    return os.path.realpath(found)


def _directory(serve: list[str]) -> tuple[str, bool]:
    """Returns the directory of the gateway with these arguments, and whether it must listen on a port."""
    is_ = Path(serve[0]).stat()
    settings = sorted((k, v) for k, v in os.environ.items() if _SETTINGS.match(k))
    # Includes the machine, since several may share a home directory.
    key = digest(json.dumps([serve, is_.st_size, is_.st_mtime_ns, settings, os.environ.get("HOME"), platform.node()]))[:16]
    name = f"millrace-{os.getuid()}-{key}"
    bases = [b for b in (os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"), SHARED) if b and os.access(b, os.W_OK | os.X_OK)]
    for base in bases:
        if len(os.fsencode(f"{base}/{name}/socket")) <= _LONGEST_SOCKET and _takes_sockets(base):
            return f"{base}/{name}", False
    if bases:
        return f"{bases[0]}/{name}", True
    base = str(cache())
    try:
        Path(base).mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise cannot(base, e) from None
    return f"{base}/{name}", True


def _takes_sockets(base: str) -> bool:
    """Tests whether a file system supports Unix sockets, which some network and FUSE file systems do not."""
    try:
        with tempfile.TemporaryDirectory(dir=base) as made, contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
            s.bind(f"{made}/s")
    except OSError:
        return False
    return True


def _put(path: Path, text: str) -> None:
    """Writes a file atomically. Only this user can read it."""
    fresh = path.with_name(path.name + ".new")
    try:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as f:
            f.write(text)
        fresh.replace(path)
    except OSError as e:
        raise cannot(str(path), e) from None
