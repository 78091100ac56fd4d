"""The selection of samples and parts to read: of a dataset, a part of it, or a mixture.

A selection is part of every requested address. A list of samples, or a selection that is too long for an address, is stored by the
gateway, and addresses contain its digest.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any, Optional, Union
from urllib.parse import unquote_plus

from .errors import Denied, InvalidArgument, NotFound, SampleError

Weight = Union[int, float, Fraction]
Key = Union[str, tuple[str, str], SampleError]
Keys = Union[Key, "os.PathLike[str]", Iterable[Key]]

NAMES = "batch.keys has the samples' names; a file of them is given as a pathlib.Path"

_FINEST = 10**6  # maximum denominator when a float is converted to a fraction
_LIMIT = 1 << 32  # upper bound of the sum of a split's shares, as whole numbers
MOST = 8 << 10  # maximum bytes of a subset, and of a list of bad samples
DIGEST = re.compile(r"[0-9a-f]{64}")
NUMBERED = "samples:"
_LAST = re.compile(rf"{NUMBERED}(?:.*[,-])?(\d{{1,20}})")  # last number in a subset

_BY_SUFFIX = ("files", "tar", "zip")  # formats whose parts are named by file suffixes
PICTURES = ("jpg", "png", "webp", "bmp", "tif", "tiff", "ppm", "pgm")

Samples = tuple[tuple[str, str, str], ...]
"""Samples named by the user: keys, shards if several have the key, and reasons."""


@dataclass(frozen=True)
class Listed:
    """Samples that the gateway stores as a subset."""

    keys: tuple[str, ...] = field(repr=False)  # followed by a tab and the shard if several shards have the key


@dataclass(frozen=True)
class Selection:
    """The selection of a dataset; by default all of it. Addresses depend on the selection and, if samples are named, on the generation,
    because sample numbers differ between generations.
    """

    # steps of the subset, in order: values for `subset=`, or excluded samples
    steps: tuple[Union[str, Listed, Samples], ...] = ()
    replaced: Union[str, Samples] = ()  # replaced samples, or the digest of a list of them
    # sources of a mixture: datasets, selections, and weights
    sources: tuple[tuple[str, Selection, int], ...] = ()
    tail: str = ""  # end of a mixture's definition
    dataset: str = ""  # empty: the client's dataset
    subset: str = ""  # the next three as in addresses
    quarantine: str = ""
    generation: str = ""  # empty: no sample is named

    @property
    def bad(self) -> dict[str, str]:
        """Reasons by the keys of replaced or excluded samples, without those of a stored list."""
        own = {key: why for some in (*self.steps, self.replaced) if isinstance(some, tuple) for key, _, why in some}
        return {key: why for _, chosen, _ in self.sources for key, why in chosen.bad.items()} or own

    @property
    def names_samples(self) -> bool:
        """Whether it names samples by their keys."""
        return bool(self.bad) or any(isinstance(step, Listed) for step in self.steps)

    def told(self, about: dict[str, Any]) -> dict[str, Any]:
        """Returns the description of a dataset adapted to this selection."""
        return {**about, "generation": self.generation, "follows": False} if self.generation else about

    def over(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Returns the parameters of an epoch combined with those of the selection. Conflicting values are rejected."""
        own = {"subset": self.subset, "quarantine": self.quarantine, "generation": self.generation}
        for name, value in own.items():
            if value and asked[name] not in (None, value):
                raise InvalidArgument(
                    f"epoch with {name} {asked[name]!r}: this part has {name} {value!r:.80}",
                    cure=f"leave out {name}=, or use the client that it was made from",
                )
        return {**asked, **{name: value for name, value in own.items() if value}}


def _fraction(share: Union[Weight, str]) -> Fraction:
    try:
        if isinstance(share, str):
            raise TypeError
        exact = Fraction(share)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"share {share!r}: want a number above 0") from None
    return exact.limit_denominator(_FINEST) if isinstance(share, float) else exact


def whole(what: str, shares: Mapping[Any, Weight], *, relative: bool = True) -> list[int]:
    """Returns shares as whole numbers. With relative these are the smallest ones with the same ratios."""
    exact = [_fraction(s) for s in shares.values()]
    for share, value in zip(shares.values(), exact):
        if value <= 0 or isinstance(share, bool):
            want = f"want {1 / _FINEST:f} or more" if share > 0 and not isinstance(share, bool) else "want a number above 0"
            raise InvalidArgument(f"{what}: share {share!r}, {want}", cure="leave out what is to have no share")
    if not relative:
        if any(value.denominator != 1 for value in exact):
            raise InvalidArgument(f"{what}: per_batch wants whole numbers of samples, and got {list(shares.values())}")
        return [int(value) for value in exact]
    common = math.lcm(*(value.denominator for value in exact))
    numbers = [int(value * common) for value in exact]
    numbers = [n // math.gcd(*numbers) for n in numbers]
    if sum(numbers) >= _LIMIT:
        raise InvalidArgument(f"{what}: {list(shares.values())} have no common unit above 1/{_LIMIT}", cure="give rounder numbers")
    return numbers


def split_rule(parts: Mapping[str, Weight]) -> str:
    """Returns the parts of a split in the gateway's notation. If fractions leave a remainder, it becomes a part with an unused name."""
    sizes = dict(zip(parts, whole("split", parts)))
    if not all(isinstance(v, int) for v in parts.values()):
        total = sum(map(_fraction, parts.values()))
        if total > 1 + Fraction(1, _FINEST):
            raise InvalidArgument(f"split: the parts sum to {float(total):g}", cure="give fractions that sum to 1 at most, or whole numbers")
        if total < 1 - Fraction(1, _FINEST):
            left = next(name for name in ("rest", "left", "others", *map("rest{}".format, range(len(parts)))) if name not in parts)
            sizes = dict(zip([*parts, left], whole("split", {**parts, left: 1 - total})))
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def named_samples(what: str, keys: Keys, reason: str = "") -> Samples:
    """Returns the keys, shards and reasons of samples. A string is one key; a path is a file with one key per line."""
    if isinstance(keys, str) and os.path.isfile(keys):  # noqa: PTH113 (a key may be too long for a path)
        cure = f"write pathlib.Path({keys!r}) for the names in the file, or [{keys!r}] for the sample"
        raise InvalidArgument(f"{what}: {keys!r} names a sample, and there is a file of this name", cure=cure)
    alone = isinstance(keys, (str, tuple, SampleError)) or not isinstance(keys, Iterable)
    given: Any = _read_keys(what, keys) if isinstance(keys, os.PathLike) else [keys] if alone else keys
    named = []
    for key in given:
        if isinstance(key, SampleError):
            if key.key is None:
                cure = "open the epoch with reading=millrace.Reading(keys=True)"
                raise InvalidArgument(f"the key of the sample is not known: {key.message}", cure=cure)
            named.append((key.key, "", reason or key.reason))
        elif isinstance(key, str):
            named.append((key, "", reason))
        elif isinstance(key, tuple) and len(key) == 2:
            named.append((*key, reason))
        else:
            raise InvalidArgument(f"{what}: {key!r} is not a key", cure=f"give names of samples, or the SampleErrors that on_error got; {NAMES}")
    return tuple(named)


def _read_keys(what: str, path: os.PathLike[str]) -> list[Key]:
    """Reads a file with one key per line, optionally followed by a tab and the shard."""
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise InvalidArgument(f"{what}: read keys of {os.fspath(path)!r}: {e}", cure="give the path of a file of keys, one a line") from None
    pairs = (line.partition("\t") for line in lines if line)
    return [(key, shard) if shard else key for key, _, shard in pairs]


def listed(keys: Keys) -> tuple[str, ...]:
    """Returns keys in the gateway's notation."""
    found = tuple(f"{key}\t{shard}" if shard else key for key, shard, _ in named_samples("subset", keys))
    if not found:
        raise InvalidArgument("subset: keys: no sample is named")
    return found


def refuse_beyond(step: str, count: int) -> None:
    """Rejects sample numbers beyond the number of samples to choose from."""
    if (last := _LAST.fullmatch(step)) and int(last[1]) >= count:
        said = f"subset {step:.60}: this takes {int(last[1]) + 1} samples, and there are {count}"
        raise InvalidArgument(said, cure=f"take({count}) has all of them, numbered 0 to {count - 1}" if count else "there is none to choose")


def numbered_but(numbers: Sequence[int], count: int) -> str:
    """Returns all numbers below count except these, in the gateway's notation."""
    return _runs((a + 1, b - 1) for a, b in zip([-1, *numbers], [*numbers, count]) if a + 1 < b)


def _runs(runs: Iterable[Sequence[int]]) -> str:
    return NUMBERED + ",".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def numbered(what: str, numbers: object) -> str:
    """Returns numbers in the gateway's notation, merged into ranges."""
    if not isinstance(numbers, Iterable):
        raise InvalidArgument(f"{what}: {numbers!r} is no list of numbers", cure="write subset(range(1000)) or subset([3, 4, 9])")
    runs: list[list[int]] = []
    if isinstance(numbers, range) and numbers.step == 1:
        runs = [[numbers[0], numbers[-1]]] if numbers else []
    else:
        for n in numbers:
            if not hasattr(n, "__index__"):
                raise InvalidArgument(f"{what}: {n!r} is no number of a sample", cure="samples are numbered from 0 as they are stored")
            if runs and n == runs[-1][1] + 1:
                runs[-1][1] = n
            elif not runs or n > runs[-1][1]:
                runs.append([n, n])
            else:
                raise InvalidArgument(f"{what}: sample {n} after {runs[-1][1]}", cure="give numbers in ascending order, each once")
    if not runs or runs[0][0] < 0:
        raise InvalidArgument(f"{what}: no sample is named" if not runs else f"{what}: sample {runs[0][0]}, want 0 or more")
    return _runs(runs)


def columns_of(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the fields of a dataset's description if they are all parts of its samples, else none."""
    return [] if about.get("other_parts") else [f for f in about.get("fields") or () if f.get("name")]


def with_sources(about: Mapping[str, Any], describe: Callable[[str], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the description of a mixture with `fields` if all sources have the same, else with all sources `described`."""
    described: dict[str, Mapping[str, Any]] = {}
    for name in dict.fromkeys(source["dataset"] for source in about.get("sources") or () if not columns_of(about)):
        described[name] = {}
        # a caller that may read a mixture may lack the right to read its sources
        with contextlib.suppress(NotFound, Denied):
            described[name] = describe(name)
    fields = [columns_of(one) for one in described.values()]
    named = [{f["name"]: f for f in one} for one in fields]
    if any(fields) and all(one == named[0] for one in named):
        return {**about, "fields": fields[0], "other_parts": False}
    return {**about, "described": described}


def names_of(fields: Union[str, Sequence[str]]) -> Sequence[str]:
    """Returns names of parts, which are separated by commas in a string."""
    return [name.strip() for name in fields.split(",")] if isinstance(fields, str) else fields


def parts_are(names: Collection[str]) -> str:
    """Lists the available parts for a message."""
    return f"the {'part is' if len(names) == 1 else 'parts are'} {', '.join(map(repr, names))}"


@dataclass(frozen=True)
class Contents:
    """The parts of one reader's samples.

    columns  the columns that the dataset's description names and that are read, and whether a value may be null; empty: not known
    fields   the names that `fields=` gives; None: all parts are read
    folders  samples are pictures in class folders: a suffix of pictures in `fields=` names all of them
    known    the names that a part can have; None: not known
    sources  of a mixture whose sources differ in their columns: the parts of each source's samples, by the name of the source
    """

    columns: Mapping[str, bool] = field(default_factory=dict)
    fields: Optional[Sequence[str]] = None
    by_suffix: bool = False
    folders: bool = False
    known: Optional[Collection[str]] = None
    sources: Mapping[str, Contents] = field(default_factory=dict)
    # parts that only mark all columns of a row or struct as null
    _markers: frozenset[str] = frozenset()
    missed: set[str] = field(default_factory=set, compare=False)
    """Reasons why no sample has the names passed to `in` and get; empty while all are names of parts."""

    @classmethod
    def of(cls, about: Mapping[str, Any], fields: Union[str, Sequence[str], None], decode: Collection[str]) -> Contents:
        """Returns the parts to read, according to a dataset's description."""
        described = about.get("described") or {}
        if any(map(columns_of, described.values())):
            return cls._mixed(described, fields, decode)
        names = [*map(unquote_plus, names_of(fields))] if isinstance(fields, str) else fields
        columns = {f["name"]: bool(f.get("nullable")) for f in columns_of(about)}
        if columns:
            for name in decode:
                if name not in columns:
                    why = cls(columns, known=columns).unknown(name)
                    raise InvalidArgument(f"decode part {name!r}: {why}", cure=parts_are(columns))
            if names is not None:  # the name of a struct means its columns
                names = [one for name in names for one in ([name] if name in columns else _inside(name, columns) or [name])]
                columns = {name: columns.get(name, False) for name in names}
            structs = {"__null__", *(name[:at] for name in columns for at, letter in enumerate(name) if letter == ".")}
            return cls(columns, names, known=columns, _markers=frozenset(structs.difference(columns)))
        by_suffix = all(one.get("format") in _BY_SUFFIX for one in described.values() or (about,))
        folders = about.get("format") == "files" and bool(about.get("fields"))
        return cls(fields=names, known=names, by_suffix=by_suffix, folders=folders)

    @classmethod
    def _mixed(cls, described: Mapping[str, Any], fields: Union[str, Sequence[str], None], decode: Collection[str]) -> Contents:
        own = {name: columns_of(one) for name, one in described.items()}
        told = all(own.values())  # otherwise a source may have parts of any name
        whole = cls.of({"fields": [column for columns in own.values() for column in columns]}, fields, decode if told else ())
        whole = replace(whole, known=whole.columns if told else whole.fields)
        each = {name: cls.of({"fields": columns}, whole.fields, ()) for name, columns in own.items()}
        sources = {name: replace(one, known=whole.known, missed=whole.missed) for name, one in each.items()}
        return replace(whole, sources=sources)

    def name_of(self, name: str) -> str:
        """Returns the public name of a stored part. Suffixes are case-insensitive, and jpeg becomes jpg."""
        if not self.by_suffix:
            return name
        head, dot, last = name.lower().rpartition(".")
        return f"{head}{dot}{'jpg' if last == 'jpeg' else last}"

    def find(self, name: str, present: Collection[str]) -> Optional[str]:
        """Returns the present part that a name means; None: no part."""
        if name in present:
            return name
        name = self.name_of(name)
        return name if name in present else None

    def names(self, found: Collection[str]) -> list[str]:
        """Returns the names of all parts of samples with the found parts, including null ones."""
        named = [name for name, nullable in self.columns.items() if nullable or name in found]
        return named + [name for name in found if name not in self.columns and name not in self._markers]

    def fill(self, found: dict[str, Any]) -> dict[str, Any]:
        """Returns the parts of a sample with None for each null column."""
        if not self.columns or found.keys() == self.columns.keys():
            return found
        return {name: found.get(name) for name in self.names(found)}

    def unknown(self, name: str) -> str:
        """Returns the reason why no sample has a part of this name, or "" if one may have it."""
        if (known := self.known) is None or name in known or self.name_of(name) in map(self.name_of, known):
            return ""
        if near := _inside(name, known) or get_close_matches(name, known, 1):
            return f"did you mean {' or '.join(map(repr, near))}?"
        return "the dataset has no such part" if self.fields is None else "fields= leaves it out"

    def absent(self, name: str) -> str:
        """Returns a remedy for a part that a sample does not have, or "" if none is known."""
        if self.folders and self.fields is None and self.name_of(name) in PICTURES:
            return f"fields='{name},cls' gives this name to all pictures"
        return self.unknown(name)


def _inside(struct: str, columns: Collection[str]) -> list[str]:
    """Returns the columns of a struct."""
    return [name for name in columns if name.startswith(f"{struct}.")]


class Parts(dict[str, Any]):
    """The parts of a sample."""

    def __init__(self, contents: Contents, found: Mapping[str, Any]) -> None:
        super().__init__(found)
        self.contents = contents

    def __missing__(self, name: object) -> Any:
        why = "parts are known by their names"
        if isinstance(name, str):
            if (other := self.contents.find(name, self)) is not None:
                return self[other]
            why = self.contents.absent(name)
        raise KeyError(f"no part {name!r} in this sample, which has {', '.join(map(repr, self)) or 'none'}{why and '; '}{why}")
