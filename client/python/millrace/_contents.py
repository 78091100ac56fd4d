"""What is known of the parts of a dataset's samples before a sample is read: columns that may be null, and names of parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Optional, Union
from urllib.parse import unquote_plus

from .errors import InvalidArgument

_BY_SUFFIX = ("files", "tar", "zip")  # formats whose parts are called by the suffixes of files
PICTURES = ("jpg", "png", "webp", "bmp", "tif", "tiff", "ppm", "pgm")


def columns_of(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the fields of a dataset's description if they are all parts of its samples, else none."""
    return [] if about.get("other_parts") else [f for f in about.get("fields") or () if f.get("name")]


def names_of(fields: Union[str, Sequence[str]]) -> Sequence[str]:
    """Returns names of parts, which commas separate in a text."""
    return [name.strip() for name in fields.split(",")] if isinstance(fields, str) else fields


def parts_are(names: Collection[str]) -> str:
    """Says which parts there are."""
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
    _markers: frozenset[str] = frozenset()  # parts that say only that all columns of a row or struct are null
    missed: set[str] = field(default_factory=set, compare=False)
    """Why no sample has the names that `in` and get were asked for; empty while all are names of parts."""

    @classmethod
    def of(cls, about: Mapping[str, Any], fields: Union[str, Sequence[str], None], decode: Collection[str]) -> Contents:
        """Returns what a dataset's description says of the parts that are read."""
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
            if names is not None:  # the name of a struct stands for its columns
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
        told = all(own.values())  # else a source may have parts of any name
        whole = cls.of({"fields": [column for columns in own.values() for column in columns]}, fields, decode if told else ())
        whole = replace(whole, known=whole.columns if told else whole.fields)
        each = {name: cls.of({"fields": columns}, whole.fields, ()) for name, columns in own.items()}
        sources = {name: replace(one, known=whole.known, missed=whole.missed) for name, one in each.items()}
        return replace(whole, sources=sources)

    def name_of(self, name: str) -> str:
        """Returns the name of a stored part. Of suffixes capitals do not count, and jpeg is jpg."""
        if not self.by_suffix:
            return name
        head, dot, last = name.lower().rpartition(".")
        return f"{head}{dot}{'jpg' if last == 'jpeg' else last}"

    def find(self, name: str, present: Collection[str]) -> Optional[str]:
        """Returns which of the parts that are present a name means; None: no part."""
        if name in present:
            return name
        name = self.name_of(name)
        return name if name in present else None

    def names(self, found: Collection[str]) -> list[str]:
        """Returns the names of all parts of samples that have these parts, those that are null among them."""
        named = [name for name, nullable in self.columns.items() if nullable or name in found]
        return named + [name for name in found if name not in self.columns and name not in self._markers]

    def fill(self, found: dict[str, Any]) -> dict[str, Any]:
        """Returns the parts of a sample with None for each column that is null."""
        if not self.columns or found.keys() == self.columns.keys():
            return found
        return {name: found.get(name) for name in self.names(found)}

    def unknown(self, name: str) -> str:
        """Says why no sample has a part of this name; empty if one may have it."""
        if (known := self.known) is None or name in known or self.name_of(name) in map(self.name_of, known):
            return ""
        if near := _inside(name, known) or get_close_matches(name, known, 1):
            return f"did you mean {' or '.join(map(repr, near))}?"
        return "the dataset has no such part" if self.fields is None else "fields= leaves it out"

    def absent(self, name: str) -> str:
        """Says what is to be done about a part that a sample does not have; empty if nothing is known."""
        if self.folders and self.fields is None and self.name_of(name) in PICTURES:
            return f"fields='{name},cls' gives this name to all pictures"
        return self.unknown(name)


def _inside(struct: str, columns: Collection[str]) -> list[str]:
    """Returns the columns in a struct."""
    return [name for name in columns if name.startswith(f"{struct}.")]
