"""Datasets that are opened without a server: their canonical address, their index, and changed files."""

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union
from urllib.parse import unquote

from .errors import InvalidArgument, MillraceError, NotFound, by_code, near

log = logging.getLogger("millrace")

PathLike = Union[str, "os.PathLike[str]"]

# options of `millrace index` that open accepts
OPTIONS = ("match", "format", "split", "sequence_length", "dtype", "fields")
_NAMES = {  # flags of `millrace index` and `serve`, by their parameter names in open
    **{f"--{name.replace('_', '-')}": name for name in OPTIONS},
    "--cache-size": "cache", "--disk-cache-size": "disk_cache", "--disk-cache": "disk_cache",
}  # fmt: skip
_PATTERN = re.compile(r"[*?[{]")  # in a path: the path matches several files
# number ranges in WebDataset's notation: {000000..000004}
_RANGE = re.compile(r"\{[^{},/]*\.\.[^{},/]*\}")
_ONE_SLASH = re.compile(r"((?:s3|https?):)/(?!/)", re.IGNORECASE)
_AT_ONCE = 1.0  # maximum seconds in which the program rejects data that it cannot index
_DIGITS = 8  # length of a digest in the name of an index
WHERE = "give a directory, s3://bucket/prefix, or a gateway's http:// address"
SEVERAL = "several folders are millrace.mix({millrace.open(A): 1, millrace.open(B): 1})"


@dataclass(frozen=True)
class Wanted:
    """A dataset and the requested index: its options of `millrace index`, and its location."""

    where: str
    options: Mapping[str, str] = field(default_factory=dict)
    place: str = ""  # location of the index; empty: with the data, or in the user's cache directory
    again: bool = False  # update an existing index

    @property
    def address(self) -> str:
        """The canonical address of the dataset. Each set of options has a separate index, named after the options."""
        where, _, place = self.where.partition(",index=")
        where, place = _absolute(where), self.place or place
        if self.options:
            if "#" in where:
                raise InvalidArgument(f"open {where}: the address names an index, and {', '.join(self.options)} another one", cure="give one of them")
            said = re.sub(r"[^a-z0-9._]+", "-", "-".join(itertools.chain(*self.options.items())).lower()).strip("-.")
            where += f"#{said[:50]}-{digest(json.dumps(self.options))[:_DIGITS]}"
        if not place:
            return where
        _refuse_one_slash(place)
        return f"{where},index={_path(place) or _url(place)}"

    def found(self, program: str) -> Optional[Found]:
        """Describes the dataset by its index, or returns None if it has no index yet."""
        address = self.address
        said, failure = run(program, "info", address)
        # the bucket was read-only when it was indexed
        if failure and failure.code == "not_found" and self._in_bucket and self._spare.exists():
            address = f"{address},index={self._spare}"
            said, failure = run(program, "info", address)
        if not failure:
            return Found.of(address, said)
        if failure.code != "not_found" or (not self.options and not all(_of_options(name) for name in failure.indexes)):
            raise failure.error(address)
        return None

    def indexed(self, program: str) -> Found:
        """Indexes the dataset if it has no index or if an update was requested, and describes it."""
        found, address = self.found(program), self.address
        if found and not self.again:
            return found
        # a misspelled name would otherwise index all data again
        if not found and "#" in self.where:
            where, _, name = self.where.partition("#")
            raise NotFound(
                f"open {self.where}: the dataset has no index #{name}", cure=f"`millrace index {shlex.quote(self.where)}` with options makes it; "
                f"a part that the file names show is millrace.open({where!r}, split={name!r})",
            )  # fmt: skip
        if found and self._in_bucket:
            address = found.address
        note = "" if found else f"millrace: {address} has no index yet: reading it once to index it"
        _, failure = run(program, "index", address, *_flags(self.options), shown=True, note=note)
        if failure and failure.code == "read_only" and self._in_bucket:
            address = f"{self.address},index={self._spare}"
            _, failure = run(program, "index", address, *_flags(self.options), shown=True)
        if failure:
            raise failure.error(address, self.options.get("fields", ""))
        said, failure = run(program, "info", address)
        if failure:
            raise failure.error(address)
        return Found.of(address, said)

    @property
    def _in_bucket(self) -> bool:
        return "://" in self.address and ",index=" not in self.address

    @property
    def _spare(self) -> Path:
        """The location for the index of a read-only bucket."""
        return cache() / "indexes" / digest(self.address)[:32]


@dataclass(frozen=True)
class Found:
    """A dataset with an index."""

    address: str  # with the location of the index, unless the index is stored with the dataset
    # changed files since the dataset was indexed, from `millrace info --json`
    changes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, address: str, said: Mapping[str, Any]) -> Found:
        """Creates one from the output of `millrace info --json`."""
        where, place = address.partition(",index=")[0], said["address"].partition(",index=")[2]
        return cls(f"{where},index={_path(place) or place}" if place else where, said.get("changes", {}))

    @classmethod
    def of_served(cls, program: str, address: str) -> Found:
        """Compares the files of a dataset that is already served with its index. Buckets are not compared."""
        said = {} if "://" in address.partition(",index=")[0] else run(program, "info", address)[0]
        return cls(address, said.get("changes", {}))

    def tell_changes(self) -> None:
        """Warns if files of a directory were added, removed or changed since it was indexed.

        The index is not updated automatically, because a resumed run needs the files that it started with.
        """
        where, kinds = self.address.partition(",index=")[0], {"new": "new", "gone": "gone", "rewritten": "rewritten or copied"}
        said = [f"{one['files']} {kinds[kind]} (such as {one['example']})" for kind, one in self.changes.items() if kind in kinds]
        if said:
            log.warning(
                "%s: files have changed since the index was made: %s. The samples are those of the index, and files that are gone, rewritten or "
                "copied cannot be read. millrace.open(..., reindex=True), or `millrace index %s` with the options of the first time, takes the "
                "files that are there now", where.partition("#")[0], ", ".join(said), shlex.quote(where),
            )


@dataclass(frozen=True)
class Failure:
    """The reason why `millrace index` or `info` failed: the member `error` of its JSON output."""

    code: str
    message: str
    exit: int = 1
    cure: str = ""
    # alternative sets of options that would work for `millrace index`
    choices: Sequence[Mapping[str, Any]] = ()
    commands: Sequence[str] = ()  # other commands that would help
    indexes: Sequence[str] = ()  # indexes of the dataset, as #NAME
    fields: Sequence[str] = ()  # columns of the dataset

    def error(self, address: str, fields: str = "") -> MillraceError:
        """Returns the exception, with a Python remedy if open supports it. fields are those passed to open."""
        missing = [name for name in fields.split(",") if name not in self.fields]
        where = address.partition(",index=")[0].partition("#")[0]
        own = [one for one in self.choices if set(one) <= set(OPTIONS)]
        ways = [f"`{command}`" for command in self.commands]
        ways += [f"millrace.open({where!r}, {_keywords(own[0])})"] if own else []
        ways += [_keywords(one) for one in own[1:]]
        ways += [f"`millrace index {shlex.quote(where)} {shlex.join(_flags(one))}`" for one in self.choices if one not in own]
        cures = [", or ".join(ways)]
        if self.indexes:
            cures.append(f"give the options that it was opened with, or its name: millrace.open({where + self.indexes[0]!r})")
        cures += [near(name, self.fields, "'") or f"fields= takes {', '.join(self.fields)}" for name in missing if self.fields]
        if self.code == "read_only":
            cures.append(f"millrace.open({where!r}, index=DIRECTORY) puts the index where you may write")
        else:
            cures.append(said_here(self.cure))
        return by_code(self.code)(said_here(self.message), code=self.code, cure="; ".join(filter(None, cures)))


def said_here(text: str) -> str:
    """Replaces flags of the program by the parameter names of open, except in commands between backticks."""
    return re.sub("`[^`]*`|--[a-z-]+", lambda m: _NAMES.get(m[0], m[0]), text)


def _keywords(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


def _flags(options: Mapping[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))]


def _of_options(name: str) -> bool:
    """Reports whether an index has a name of Wanted.address. If so, open created it, and may also create the default index."""
    option, _, digits = name[1:].partition("-")
    return option in OPTIONS and len(digits.rpartition("-")[2]) == _DIGITS


def text_of(where: object) -> str:
    """Returns the location passed to open as a string."""
    try:
        return os.fspath(where)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise InvalidArgument(f"open {where!r}: this is no address", cure=SEVERAL if isinstance(where, (list, tuple)) else WHERE) from None


def _absolute(text: str) -> str:
    """Returns a URL without trailing slashes, or the absolute path of an existing directory, keeping `#NAME`."""
    if not text:
        raise InvalidArgument("open '': no place is given", cure=WHERE)
    where, _, name = text.partition("#")
    path = _path(where)
    if path is None:
        return _url(text)
    _refuse_one_slash(where)
    for at in () if path.exists() else (*reversed(path.parents), path):
        if _PATTERN.search(at.name):
            match = _RANGE.sub("*", str(path.relative_to(at.parent)))
            raise InvalidArgument(f"open {path}: this is a pattern", cure=f"give the directory: millrace.open({str(at.parent)!r}, match={match!r})")
    if path.is_file():
        raise InvalidArgument(f"open {path}: this is a file", cure=f"give the directory: millrace.open({str(path.parent)!r}, match={path.name!r})")
    if not path.is_dir():
        raise NotFound(f"open {path}: there is no such directory", cure=WHERE)
    if "," in str(path):
        raise InvalidArgument(f"open {path}: the path has a comma", cure="give the directory another name")
    return f"{path}#{name}" if name else str(path)


def _refuse_one_slash(text: str) -> None:
    if slip := _ONE_SLASH.match(text):
        raise InvalidArgument(f"open {text}: a URL has two slashes", cure=f"write {slip[1]}//{text[slip.end():]}")


def _path(text: str) -> Optional[Path]:
    """Returns the absolute path of a directory, or None if the text is another kind of address."""
    scheme, found, rest = text.partition("://")
    if found and scheme.lower() != "file":
        return None
    return Path(unquote(rest) if found else text).expanduser().resolve()


def _url(text: str) -> str:
    """Returns a URL with a lower-case scheme and without trailing slashes in its path."""
    scheme, _, rest = text.partition("://")
    at, question, more = rest.partition("?")
    if found := _PATTERN.search(at):
        prefix = at[: found.start()].rpartition("/")[0]
        match = _RANGE.sub("*", at[len(prefix) + 1 :])
        raise InvalidArgument(f"open {text}: this is a pattern", cure=f"give the prefix: millrace.open({f'{scheme}://{prefix}'!r}, match={match!r})")
    return f"{scheme.lower()}://{re.sub(r'/+(?=$|#)', '', at)}{question}{more}"


def run(*command: str, shown: bool = False, note: str = "") -> tuple[dict[str, Any], Optional[Failure]]:
    """Runs the program with --json, and returns its output or its failure.

      shown  show its progress on a terminal
      note   print this text, unless the program rejects its arguments or the data at once
    """
    shown = shown and sys.stderr is sys.__stderr__ and sys.stderr is not None and sys.stderr.isatty()
    pipe, own = subprocess.PIPE, environment()
    with subprocess.Popen(
        [*command, "--json"], stdin=subprocess.DEVNULL, stdout=pipe, stderr=None if shown else pipe, text=True, env=own
    ) as process:
        try:
            out, err = process.communicate(timeout=_AT_ONCE)
        except subprocess.TimeoutExpired:
            _print(note)
            note = ""
            out, err = process.communicate()
        except BaseException:
            process.kill()
            raise
    try:
        said = json.loads(out)
        if process.returncode != 0:
            return {}, Failure(**said["error"])
    except (ValueError, KeyError, TypeError):  # the process was killed, or is another version
        text = f"{shlex.join(command[1:3])}: exit code {process.returncode}: {(err or '').strip()[-1000:]}"
        return {}, Failure("failed", text, process.returncode)
    _print(note)
    return said, None


def _print(note: str) -> None:
    if note:
        print(note, file=sys.stderr)


def environment() -> dict[str, str]:
    """Returns the environment without settings for other gateways."""
    return {k: v for k, v in os.environ.items() if not k.startswith("MILLRACE_")}


def cache() -> Path:
    """Returns the directory for this user's indexes, and for gateways if no other directory is writable."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "millrace")


def digest(text: str) -> str:
    """Returns the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def cannot(path: str, e: OSError) -> MillraceError:
    """Returns the error for a file that this package cannot write."""
    cure = "set XDG_RUNTIME_DIR and XDG_CACHE_HOME to directories that you may write to, with space left"
    return InvalidArgument(f"{path}: {e.strerror or e}", cure=cure)
