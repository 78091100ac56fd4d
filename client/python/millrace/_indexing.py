"""The dataset that is opened without a server: its one address, its index, and what has changed since it was indexed."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union
from urllib.parse import unquote

from ._habits import near
from .errors import InvalidArgument, MillraceError, NotFound, StoreError

log = logging.getLogger("millrace")

PathLike = Union[str, "os.PathLike[str]"]

_NOT_FOUND, _STORE = 4, 5  # exit codes of the program
PLACES = "give a directory, s3://bucket/prefix, or a gateway's http:// address"


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

    def found(self, program: str) -> Optional[Found]:
        """Describes the dataset by its index. None: it has no index yet."""
        address = self.address
        code, words = _run(program, "info", address, "--json", quiet=True)
        if code == _NOT_FOUND and self._in_bucket and self._spare.exists():  # the bucket took no writes when it was indexed
            address = f"{address},index={self._spare}"
            code, words = _run(program, "info", address, "--json", quiet=True)
        if code == 0:
            return Found.of(address, json.loads(words))
        if code != _NOT_FOUND or (" here, but " in words and not self.options and not _only_of_options(words)):  # indexes that users have named
            raise _failed("info", address, code, words)
        return None

    def indexed(self, program: str) -> Found:
        """Indexes the dataset if it has no index, or if its index is to be brought up to date, and describes it."""
        found, address = self.found(program), self.address
        if found and not self.again:
            return found
        if found and self._in_bucket:
            address = found.address
        if not found:
            print(f"millrace: {address} has no index yet: it is read once, and indexed", file=sys.stderr)
        code, words = _run(program, "index", address, *self.flags)
        if code == _STORE and self._in_bucket and "--index-url" in (words or "--index-url"):  # it takes no writes; a terminal has the words
            address = f"{self.address},index={self._spare}"
            code, words = _run(program, "index", address, *self.flags)
        if code != 0:
            raise _failed("index", address, code, words)
        code, words = _run(program, "info", address, "--json", quiet=True)
        if code != 0:
            raise _failed("info", address, code, words)
        return Found.of(address, json.loads(words))

    @property
    def _in_bucket(self) -> bool:
        return "://" in self.address and ",index=" not in self.address

    @property
    def _spare(self) -> Path:
        """The place of the index of a bucket that takes no writes."""
        return cache() / "indexes" / digest(self.address)[:32]


@dataclass(frozen=True)
class Found:
    """A dataset that has an index."""

    address: str  # with the place of the index, if that does not lie beside the dataset
    changes: Mapping[str, Any] = field(default_factory=dict)  # of its files since it was indexed, as `millrace info --json` says

    @classmethod
    def of(cls, address: str, said: Mapping[str, Any]) -> Found:
        """Takes what `millrace info --json` said of an address."""
        where, place = address.partition(",index=")[0], said["address"].partition(",index=")[2]
        return cls(f"{where},index={_path(place) or place}" if place else where, said.get("changes", {}))

    @classmethod
    def of_served(cls, program: str, address: str) -> Found:
        """Looks once more at the files of a dataset that is served already. What is in a bucket is not compared."""
        code, words = (1, "") if "://" in address.partition(",index=")[0] else _run(program, "info", address, "--json", quiet=True)
        return cls(address, json.loads(words).get("changes", {}) if code == 0 else {})

    def tell_changes(self) -> None:
        """Warns if files of a directory have come, gone or changed since it was indexed.

        The index is not made again by itself: a run that is resumed wants the files that it began with.
        """
        where, kinds = self.address.partition(",index=")[0], {"new": "new", "gone": "gone", "rewritten": "rewritten or copied"}
        said = [f"{one['files']} {kinds[kind]} (such as {one['example']})" for kind, one in self.changes.items() if kind in kinds]
        if said:
            log.warning(
                "%s: files have changed since the index was made: %s. The samples are those of the index, and files that are gone, rewritten or "
                "copied cannot be read. millrace.open(..., reindex=True), or `millrace index %s` with the options of the first time, takes the "
                "files that are there now", where.partition("#")[0], ", ".join(said), shlex.quote(where),
            )


def _only_of_options(words: str) -> bool:
    """Says whether all indexes that the program lists are named by Wanted.address: open made them, and the default one may be made too."""
    listed = words.partition("no default index here, but ")[2].partition(":")[0]
    names = "match|format|split|sequence_length|dtype|fields"
    return bool(listed) and all(re.fullmatch(rf"#({names})-[a-z0-9._-]*[0-9a-f]{{8}}", name) for name in listed.split(", "))


def _absolute(text: str) -> str:
    """Returns a URL without slashes at its end, or the absolute path of a directory that is there; `#NAME` stays behind it."""
    if not text:
        raise InvalidArgument("open '': no place is given", cure=PLACES)
    where, _, name = text.partition("#")
    path = _path(where)
    if path is None:
        return _url(text)
    if path.is_file() or (re.search(r"[*?[]", path.name) and not path.exists()):
        kind = "a file" if path.is_file() else "a pattern"
        raise InvalidArgument(f"open {path}: this is {kind}", cure=f"give the directory: millrace.open({str(path.parent)!r}, match={path.name!r})")
    if not path.is_dir():
        raise NotFound(f"open {path}: there is no such directory", cure=PLACES)
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
    if "--fields" in text:
        code = 2
    if of := re.search(r'--fields: no column is called "(.*)": the columns are (.*)', text):
        cure = near(of[1], of[2].split(", "), "'")
    if choice := re.search(r"\n  millrace index \S+((?: --[a-z-]+ (?:'[^']*'|\S+))+)", text):
        flags = shlex.split(choice[1])
        options = dict(zip(flags[::2], flags[1::2]))  # the program repeats one that was given
        given = "".join(f", {name[2:].replace('-', '_')}={v if v.isdigit() else repr(v)}" for name, v in options.items())
        text += f"\nIn Python the first of these is millrace.open({where!r}{given})"
    text = "\n".join(line if "millrace index " in line else _FLAG.sub(_as_python, line) for line in text.splitlines())
    return kinds.get(code, MillraceError)(text, cure=cure)


_FLAG = re.compile(r"--(match|format|split|sequence-length|dtype|fields)(?: (files|parquet|arrow|'[^']*'))?(?![\w-])")
"""An option of `millrace index` that `open` takes too, and a value that a message gives it."""


def _as_python(flag: re.Match[str]) -> str:
    value = flag[2] or ""
    return flag[1].replace("-", "_") + "=" + (repr(value) if value and value[0] != "'" else value)


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
