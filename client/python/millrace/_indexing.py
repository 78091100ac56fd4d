"""The dataset that is opened without a server: its one address, its index, and what has changed since it was indexed."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import re
import shlex
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional, Union
from urllib.parse import unquote

from .errors import InvalidArgument, MillraceError, NotFound, StoreError

log = logging.getLogger("millrace")

PathLike = Union[str, "os.PathLike[str]"]

_NOT_FOUND, _STORE = 4, 5  # exit codes of the program
_LOOK = 2.0  # seconds that opening a directory may take longer because its files are compared with the index
_PLACES = "give a directory, s3://bucket/prefix, or a gateway's http:// address"


@dataclass(frozen=True)
class Wanted:
    """A dataset, and which index of it is wanted: the one of these options of `millrace index`, in this place."""

    where: str
    options: Mapping[str, str] = field(default_factory=dict)
    place: str = ""  # of the index; empty: beside the data, or in the user's cache directory
    again: bool = False  # an index that is there is brought up to date

    @property
    def flags(self) -> list[str]:
        """The options as the command line takes them."""
        return list(itertools.chain.from_iterable((f"--{name.replace('_', '-')}", value) for name, value in self.options.items()))

    @property
    def address(self) -> str:
        """The one spelling of the dataset's address. Each set of options has an index of its own, whose name is made of them."""
        where, _, place = self.where.partition(",index=")
        where, place = _absolute(where), self.place or place
        if self.options:
            if "#" in where:
                raise InvalidArgument(f"open {where}: the address names an index, and {', '.join(self.options)} another one", cure="give one of them")
            said = re.sub(r"[^a-z0-9._]+", "-", "-".join(itertools.chain(*self.options.items())).lower()).strip("-.")
            where += f"#{said[:50]}-{digest(json.dumps(self.options))[:8]}"
        if not place:
            return where
        return f"{where},index={_path(place) or _url(place)}"

    def indexed(self, program: str) -> str:
        """Indexes the dataset if it has no index, and returns its address: with the place of the index, if that does not lie beside it."""
        address = self.address
        code, words = _run(program, "info", address, "--json", quiet=True)
        bucket, spare = "://" in address and ",index=" not in address, cache() / "indexes" / digest(address)[:32]
        if code == _NOT_FOUND and bucket and spare.exists():  # the bucket took no writes when it was indexed
            address = f"{self.address},index={spare}"
            code, words = _run(program, "info", address, "--json", quiet=True)
        if code not in (0, _NOT_FOUND) or (" here, but " in words and not self.options):  # indexes of other names
            raise _failed("info", address, code, words)
        if code != 0:
            print(f"millrace: {address} has no index yet: it is read once, and indexed", file=sys.stderr)
        if code != 0 or self.again:
            code, words = _run(program, "index", address, *self.flags)
            if code == _STORE and bucket and "--index-url" in (words or "--index-url"):  # it takes no writes; a terminal has the words
                address = f"{self.address},index={spare}"
                code, words = _run(program, "index", address, *self.flags)
            if code != 0:
                raise _failed("index", address, code, words)
            code, words = _run(program, "info", address, "--json", quiet=True)
            if code != 0:
                raise _failed("info", address, code, words)
        place = json.loads(words)["address"].partition(",index=")[2]
        where = address.partition(",index=")[0]
        return f"{where},index={_path(place) or place}" if place else where


def _absolute(text: str) -> str:
    """Returns a URL without slashes at its end, or the absolute path of a directory that is there; `#NAME` stays behind it."""
    if not text:
        raise InvalidArgument("open '': no place is given", cure=_PLACES)
    where, _, name = text.partition("#")
    path = _path(where)
    if path is None:
        return _url(text)
    if path.is_file() or (re.search(r"[*?[]", path.name) and not path.exists()):
        kind = "a file" if path.is_file() else "a pattern"
        raise InvalidArgument(f"open {path}: this is {kind}", cure=f"give the directory: millrace.open({str(path.parent)!r}, match={path.name!r})")
    if not path.is_dir():
        raise NotFound(f"open {path}: there is no such directory", cure=_PLACES)
    if "," in str(path):
        raise InvalidArgument(f"open {path}: the path has a comma", cure="give the directory another name")
    return f"{path}#{name}" if name else str(path)


def _path(text: str) -> Optional[Path]:
    """Returns the absolute path of a directory; None: the text is another address."""
    scheme, found, rest = text.partition("://")
    if found and scheme.lower() != "file":
        return None
    return Path(unquote(rest) if found else text).expanduser().resolve()


def _url(text: str) -> str:
    """Returns a URL with its scheme in small letters and without slashes at the end of its path."""
    scheme, _, rest = text.partition("://")
    at, question, more = rest.partition("?")
    if "*" in at:
        raise InvalidArgument(f"open {text}: this is a pattern", cure="give the prefix before it, and the end as match='*...'")
    return f"{scheme.lower()}://{re.sub(r'/+(?=$|#)', '', at)}{question}{more}"


def tell_changes(address: str) -> None:
    """Warns if files of a directory have come, gone or changed since it was indexed.

    The index is not made again by itself: a run that is resumed wants the files that it began with.
    """
    where, _, place = address.partition(",index=")
    folder, _, name = where.partition("#")
    if "://" in folder or "://" in place:
        return
    with suppress(OSError, ValueError, KeyError, struct.error):
        found = _changes(folder, _pointer(place or folder, name))
        said = [f"{len(keys)} {what} (such as {min(keys)})" for what, keys in found.items() if keys]
        if said:
            log.warning(
                "%s: files have changed since the index was made: %s. The samples are those of the index, and files that are gone, rewritten or "
                "copied cannot be read. millrace.open(..., reindex=True), or `millrace index %s` with the options of the first time, takes the "
                "files that are there now", folder, ", ".join(said), shlex.quote(where),
            )


def _changes(folder: str, pointer: Path) -> dict[str, list[str]]:
    """Compares the names in a directory with those of an index, and sizes, times and inodes with what it is bound to."""
    end, made = time.monotonic() + _LOOK, pointer.stat().st_mtime_ns
    known = _shards(pointer)
    kinds = {key.rpartition(".")[2].lower() for key in known}
    new, changed, left = [], [], dict(known)
    for key, is_ in _files(folder):
        if time.monotonic() > end:
            raise ValueError("too many files to compare in time")
        etag = left.pop(key, "")
        if key not in known:
            # Files that the index left out were there before. A copy keeps the time of its content, but never this one.
            if is_.st_ctime_ns > made and key.rpartition(".")[2].lower() in kinds:
                new.append(key)
        elif stat.S_ISREG(is_.st_mode) and etag != f"{is_.st_size:x}-{is_.st_mtime_ns:x}-{is_.st_ino:x}":
            changed.append(key)
    gone = [key for key in left if not os.path.lexists(f"{folder}/{key}")]
    return {"new": new, "gone": gone, "rewritten or copied": changed}


def _files(folder: str, key: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Gives the files under a directory that are not hidden, with their keys."""
    with os.scandir(f"{folder}/{key}") as entries:
        for at in entries:
            if at.is_dir(follow_symlinks=False):
                if not at.name.startswith("."):
                    yield from _files(folder, f"{key}{at.name}/")
            else:
                yield key + at.name, at.stat(follow_symlinks=False)


def _pointer(folder: str, name: str) -> Path:
    """The file that says which index is current (docs/index-format.md)."""
    return Path(folder, ".millrace", f"current-{name}" if name else "current")


def _shards(pointer: Path) -> dict[str, str]:
    """Reads the keys of an index's shards, and the ETags that they are bound to."""
    says = json.loads(pointer.read_text())
    with (pointer.parent / "index" / says["generation"]).open("rb") as f:
        head = f.read(112)
        offset, length = struct.unpack_from("<QQ", head, 64 + 24 + 8)  # of the second section
        f.seek(offset)
        shards = f.read(length)
    bound = (pointer.parent / "binding" / f"{says['generation']}-{says['binding']}").read_bytes()
    if says["version"] != 2 or bound[:8] not in (b"MRBIND01", b"MRBIND02"):
        raise ValueError("an index of another version")
    found, at, b = {}, 0, 44
    while at < length:
        n = struct.unpack_from("<8xH", shards, at)[0]
        key, at = shards[at + 12 : at + 12 + n].decode(), at + 12 + n
        texts = []
        for _ in range(2 if bound[7:8] == b"1" else 3):
            n = struct.unpack_from("<H", bound, b)[0]
            texts.append(bound[b + 2 : b + 2 + n])
            b += 2 + n
        found[key] = texts[0].decode()
    return found


def _run(program: str, *args: str, quiet: bool = False) -> tuple[int, str]:
    """Runs a command, and returns its exit code and what it printed, or said of its failure. Its progress is shown on a terminal."""
    shown = not quiet and sys.stderr is sys.__stderr__ and sys.stderr is not None and sys.stderr.isatty()
    done = subprocess.run(
        [program, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=None if shown else subprocess.PIPE, text=True,
        check=False, env=environment(),
    )
    words = (done.stderr or "").strip() if done.returncode else done.stdout
    if done.returncode and "--json" in args:
        with suppress(ValueError, KeyError):
            words = json.loads(words)["error"]
    return done.returncode, words


def environment() -> dict[str, str]:
    """The environment without the settings of other gateways."""
    return {k: v for k, v in os.environ.items() if not k.startswith("MILLRACE_")}


def _failed(what: str, address: str, code: int, words: str) -> MillraceError:
    """Returns what the program said, all of it: it lists the choices where there are some, and the first one is shown as Python too."""
    kinds: dict[int, type[MillraceError]] = {2: InvalidArgument, _NOT_FOUND: NotFound, _STORE: StoreError}
    lines = [line for line in words.splitlines() if not line.startswith("Run 'millrace ")] or [f"{what} {address}: exit code {code}"]
    text, where, cure = "\n".join(lines).removeprefix("millrace: ").removeprefix(f"millrace {what}: "), address.partition("#")[0], ""
    if other := re.search(r" here, but (?:the default one, )?(#[a-z0-9._-]+)", text):
        cure = f"give the options that it was opened with, or its name: millrace.open({where + other[1]!r})"
    if choice := re.search(r"\n  millrace index \S+((?: --[a-z-]+ (?:'[^']*'|\S+))+)", text):
        flags = shlex.split(choice[1])
        given = "".join(f", {n[2:].replace('-', '_')}={v if v.isdigit() else repr(v)}" for n, v in zip(flags[::2], flags[1::2]))
        text += f"\nIn Python the first of these is millrace.open({where!r}{given})"
    return kinds.get(code, MillraceError)(text, cure=cure)


def cache() -> Path:
    """The directory that this user's indexes, and where nothing else can be written also gateways, have theirs in."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "millrace")


def digest(text: str) -> str:
    """Names a text by its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()


def cannot(path: str, e: OSError) -> MillraceError:
    """Returns the error for a file of this package's that cannot be written."""
    cure = "set XDG_RUNTIME_DIR and XDG_CACHE_HOME to directories that you may write to, with space left"
    return InvalidArgument(f"{path}: {e.strerror or e}", cure=cure)
