"""Parts of datasets and mixtures of them, as clients.

A part is written into every address that its client asks for. A list of samples, or a part that an address has no room for, is stored by the
gateway, and addresses have its digest.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Optional, TypeVar, Union, cast
from urllib.parse import quote

from ._core import Core
from ._local import Local
from ._parameters import checked
from .errors import Denied, GenerationGone, InvalidArgument, MillraceError, NotFound, ProtocolError, ReadOnly, SampleError

log = logging.getLogger("millrace")

Share = Union[int, float, Fraction]
Key = Union[str, tuple[str, str], SampleError]
C = TypeVar("C", bound="Selecting")

_FINEST = 10**6  # the greatest denominator that a float is taken for
_LIMIT = 1 << 32  # of what the shares of a split, as whole numbers, sum to
_MOST = 8 << 10  # bytes of a subset, and of a list of bad samples, that gateways take
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLACES = "samples:"


_Samples = tuple[tuple[str, str, str], ...]
"""Samples that a user has named: keys, shards where several have the key, reasons."""


@dataclass(frozen=True)
class _Listed:
    """Samples that the gateway stores as a subset."""

    keys: tuple[str, ...] = field(repr=False)  # with a tab and the shard where several have the key


@dataclass(frozen=True)
class Selection:
    """What a client reads of its dataset; by default all of it. What addresses have follows from what was chosen, and from the generation
    where samples are named: they have other numbers in each."""

    steps: tuple[Union[str, _Listed, _Samples], ...] = ()  # of the subset, one after the other: as `subset=` has them, or samples that are left out
    replaced: Union[str, _Samples] = ()  # samples in whose place others come; or the digest of a list of them
    sources: tuple[tuple[str, Selection, int], ...] = ()  # of a mixture: datasets, what is read of them, and shares
    tail: str = ""  # of the definition of a mixture
    subset: str = ""  # these three as addresses have them
    quarantine: str = ""
    generation: str = ""  # empty: no sample is named

    @property
    def bad(self) -> dict[str, str]:
        """Reasons, by the keys of the samples that are replaced or left out, but for those of a stored list."""
        own = {key: why for some in (*self.steps, self.replaced) if isinstance(some, tuple) for key, _, why in some}
        return {key: why for _, chosen, _ in self.sources for key, why in chosen.bad.items()} or own

    @property
    def names_samples(self) -> bool:
        """Whether it names samples by their keys."""
        return bool(self.bad) or any(isinstance(step, _Listed) for step in self.steps)

    def told(self, about: dict[str, Any]) -> dict[str, Any]:
        """Returns the description of a dataset as it is for this client."""
        return {**about, "generation": self.generation, "follows": False} if self.generation else about

    def over(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Returns the parameters of an epoch with those of the selection. What both name is refused, unless it is the same."""
        own = {"subset": self.subset, "quarantine": self.quarantine, "generation": self.generation}
        for name, value in own.items():
            if value and asked[name] not in (None, value):
                raise InvalidArgument(
                    f"epoch with {name} {asked[name]!r}: this client has {name} {value!r:.80}",
                    cure=f"leave out {name}=, or use the client that this one was made from",
                )
        return {**asked, **{name: value for name, value in own.items() if value}}


class Selecting:
    """What a Client makes other clients with. Each has connections of its own, and is closed by itself."""

    if TYPE_CHECKING:
        dataset: str
        core: Core
        selection: Selection

        def describe(self, dataset: Optional[str] = None) -> dict[str, Any]:
            """Says what is known of a dataset."""

    def split(self: C, parts: Optional[Mapping[str, Share]] = None, *unnamed: NoReturn, salt: str = "", **named: Share) -> dict[str, C]:
        """Cuts the dataset by a hash of the samples' names, and returns a client for each part.

            train, val = client.split(train=.9, val=.1).values()

        The parts are fractions of all samples, on average; what they leave is in none of them. Whole numbers are parts relative to each
        other: `train=9, val=1`. Every process gets the same parts, and data that is added moves no sample from one to another. The order
        in which parts are named counts. The parts are those of `millrace subset --split`.

        parts   the same as a mapping, for names that are no Python names
        salt    another salt makes another split, independent of the first. A split of a split has one of its own
        """
        if unnamed or not isinstance(parts, (Mapping, type(None))) or not (given := {**(parts or {}), **named}):
            raise InvalidArgument(
                f"split: {parts!r} names no parts with their shares",
                cure="write split(train=.9, val=.1); a part that `millrace subset` stored is subset('train')",
            )
        if "seed" in named:
            raise InvalidArgument("split: seed is no name of a part", cure=f"say salt='{named['seed']}' for another split, or split({{'seed': ...}})")
        sizes = dict(zip(given, _whole("split", given)))
        if not all(isinstance(v, int) for v in given.values()):
            total = sum(map(_fraction, given.values()))
            if total > 1 + Fraction(1, _FINEST):
                raise InvalidArgument(f"split: the parts sum to {float(total):g}", cure="give fractions that sum to 1 at most, or whole numbers")
            if total < 1 - Fraction(1, _FINEST):
                left = next(name for name in ("rest", "left", "others") if name not in given)
                sizes = dict(zip([*given, left], _whole("split", {**given, left: 1 - total})))
        before = [step for step in self.selection.subset.split("~") if step and not step.startswith(_PLACES)]
        salt = salt or (str(len(before) + 1) if before else "")
        rule = ",".join(f"{name}={size}" for name, size in sizes.items())
        return {name: self.subset(f"{rule}:{name}" + (f":{salt}" if salt else "")) for name in given}

    def take(self: C, n: int) -> C:
        """Returns a client for the first n samples in stored order, or all if there are fewer.

        Of data that is sorted by class these are of the first classes alone: `split(some=.1)["some"]` is a tenth of everything.
        """
        return self.subset(range(n))

    def subset(
        self: C, which: Union[str, range, Sequence[int], None] = None, *, keys: Union[str, os.PathLike[str], Iterable[Key], None] = None,
        generation: Optional[str] = None,
    ) -> C:
        """Returns a client for some samples, in stored order where nothing shuffles.

            train = client.subset(keys="train.txt")
            folds = [client.subset(keys=table.loc[table.fold == k, "key"]) for k in range(5)]

        which       the name of a subset that `millrace subset` made, or its split's digest, a colon and its name; or numbers of samples in
                    stored order, such as range(1000, 2000), each once, ascending
        keys        names of samples in any order, or pairs of a name and the shard where several shards have it; or the path of a file of
                    them, one a line, with a tab before the shard. A name that is given twice counts once
        generation  of the dataset, to look the names up in, by default the present one. The client reads it from now on

        Keys, and numbers that an address has no room for (8 KiB), are stored beside the index, as `millrace subset --keys` does: the
        gateway needs the right `report`, and the bucket takes writes, else it is Denied or ReadOnly. A name that no sample has is InvalidArgument.
        """
        if (which is None) == (keys is None):
            raise InvalidArgument("subset: want either a subset or keys", cure="write subset('train'), subset(range(1000)) or subset(keys=[...])")
        if generation and keys is None:
            raise InvalidArgument("subset: generation says where keys are looked up", cure="leave it out, or give it to epoch()")
        step: Union[str, _Listed]
        if keys is None:
            step = which if isinstance(which, str) else _PLACES + _runs("subset", which or ())
        elif self.selection.steps:
            raise InvalidArgument("subset: keys are chosen from the whole dataset", cure="write client.subset(keys=...).split(...): keys first")
        else:
            step = _Listed(_listed(keys))
        return self._with(replace(self.selection, steps=(*self.selection.steps, step)), generation)

    def exclude(self: C, keys: Union[Key, Iterable[Key]], *, reason: str = "", generation: Optional[str] = None) -> C:
        """Returns a client for all samples but these: an epoch is shorter by them. About five hundred fit into an address.

        The order is another one, so a run that stopped in mid-epoch goes on by `quarantine` instead. Parameters are those of `quarantine`.
        """
        steps, named = self.selection.steps, _named(keys, reason)
        if steps and not isinstance(before := steps[-1], (str, _Listed)):
            steps, named = steps[:-1], (*before, *named)
        return self._with(replace(self.selection, steps=(*steps, named)), generation)

    def quarantine(self: C, keys: Union[Key, Iterable[Key]], *, reason: str = "", generation: Optional[str] = None) -> C:
        """Returns a client that gets a healthy sample in place of each bad one, so that some come twice. All other positions stay as they
        are: a job goes on with the batches that it had.

            bad = []                                    # collected by on_error=bad.append
            client = client.quarantine(bad)

        keys        names of samples, SampleErrors, or pairs of a name and the shard where several shards have it; or the digest of a list
                    that `millrace quarantine` stored. Each name is looked up by a request. About a thousand fit, more where they lie side
                    by side
        reason      kept in `selection.bad`; a SampleError brings its own
        generation  of the dataset, to look the names up in, by default the present one. The client reads it from now on. Where another one
                    is asked for, as by a checkpoint, names are looked up there, and those that it does not have are passed over
        """
        before, stored = self.selection.replaced, isinstance(keys, str) and bool(_DIGEST.fullmatch(keys))
        if before not in ((), keys) and (stored or isinstance(before, str)):
            raise InvalidArgument("quarantine: a stored list, and other bad samples beside it", cure="store one list that has all of them")
        replaced: Any = keys if stored else (*before, *_named(keys, reason))
        made = self._with(replace(self.selection, replaced=replaced), generation)
        if stored:  # one that is not there is reported now
            made._get({"quarantine": replaced}, "epochs/0", "parameters")
        return made

    def at(self: C, generation: Optional[str]) -> C:
        """Returns this client for another generation. For this package's own modules."""
        if not self.selection.generation or generation in (None, self.selection.generation):
            return self
        return self._reading(self.dataset, self.selection, generation, again=True)

    def _with(self: C, selection: Selection, generation: Optional[str] = None) -> C:
        if self.selection.sources:
            raise InvalidArgument("a mixture has no samples of its own", cure="choose from its sources, and mix then")
        dataset = self.dataset or str(self.describe()["name"])  # a part is of one dataset, whichever is the default later
        made = self._reading(dataset, selection, generation or self.selection.generation)
        made.core = Core(self.core.settings)
        made.core.answered = self.core.answered
        return made

    def _reading(self: C, dataset: str, chosen: Selection, generation: Optional[str], again: bool = False) -> C:
        """Returns a client of the same connections that reads what was chosen.

        again   samples were named in another generation: those that this one does not have are passed over
        """
        vars(self).setdefault("_known", {})  # one for all that are made of this client
        made = copy.copy(self)
        made.dataset, made.selection = dataset, Selection()
        if chosen.names_samples and not chosen.sources:
            generation = generation or str(made.describe()["generation"])
        subset, quarantine = "", chosen.replaced
        for step in chosen.steps:
            if isinstance(step, _Listed):
                step, _ = made._stored(step, generation)
            if not isinstance(step, str):
                if not (bad := made._places(step, generation, subset, again)):
                    continue
                count = int(made._get({"subset": subset, "generation": generation}, "epochs/0", "samples"))
                if len(bad) == count:
                    raise InvalidArgument("exclude: no sample is left")
                step = _PLACES + ",".join(_run(a + 1, b - 1) for a, b in zip([-1, *bad], [*bad, count]) if a + 1 < b)
            subset = f"{subset}~{step}" if subset else step
        if not isinstance(quarantine, str):
            bad = made._places(quarantine, generation, "", again)
            quarantine = _PLACES + _runs("quarantine", bad) if bad else ""
        named = generation if chosen.names_samples else None
        if len(subset.encode()) > _MOST:
            subset, named = made._stored(subset, generation)
        if len(quarantine) > _MOST:
            raise InvalidArgument(
                f"{len(quarantine)} bytes of bad samples: an address holds {_MOST}",
                cure="write keys to a file, one a line; `millrace quarantine DATASET --from FILE` stores them and says the digest for quarantine()",
            )
        made.selection = replace(chosen, subset=subset, quarantine=quarantine, generation=named or "")
        return made._mixing(generation, again) if chosen.sources else made

    def _mixing(self: C, generation: Optional[str], again: bool) -> C:
        chosen, texts, read, pinned = self.selection, [], [], False
        given: Sequence[Optional[str]] = generation.split(",") if generation else [part.generation for _, part, _ in chosen.sources]
        if len(given) != len(chosen.sources):
            raise InvalidArgument(f"generation {generation!r}: want one of each of {len(chosen.sources)} sources, with commas between them")
        for (name, part, share), one in zip(chosen.sources, given):
            source = self._reading(name, part, one, again)
            own = source.selection
            pinned = pinned or bool(own.generation)
            read.append(one or str(source.describe()["generation"]))
            query = [f"quarantine={own.quarantine}"] if own.quarantine else []
            if own.subset:  # the gateway says its one form, and the digest of a stored split
                asked = {"subset": own.subset, "generation": own.generation or one}
                query.append(f"subset={source._get(asked, 'epochs/0', 'parameters', 'subset')}")
            texts.append((f"{name}({'&'.join(query)})" if query else name) + f":{share}")
        self.dataset = "mix:" + ",".join(texts) + chosen.tail
        self.selection = replace(chosen, generation=",".join(read) if pinned else "")
        return self

    def _places(self, named: _Samples, generation: Optional[str], subset: str, again: bool) -> list[int]:
        """Returns the numbers of samples in stored order, of the dataset or of a subset, ascending. What is not in the subset has none."""
        found = set[int]()
        for key, shard, _ in named:
            asked = {"key": key, "shard": shard, "epochs": "0", "shuffle": "none", "tail": "short", "generation": generation, "subset": subset}
            try:
                found.update(int(one["position"]) for one in self._get(asked, "occurrences", "occurrences"))
            except NotFound as e:
                if not again or isinstance(e, GenerationGone):
                    e.message, e.cure = f"sample {key!r}: {e.message}", e.cure if e.code == "generation_gone" else "batch.keys has the samples' names"
                    raise
                log.info("sample %s is not in generation %s", key, generation)
        return sorted(found)

    def _stored(self, chosen: Union[str, _Listed], generation: Optional[str]) -> tuple[str, str]:
        """Has a subset stored, and returns its name and its generation."""
        path = f"/v1/datasets/{quote(self.dataset, safe='')}/subsets"
        known, of = vars(self)["_known"], (path, chosen, generation)
        if of not in known:
            wish: dict[str, Any] = {"subset": chosen} if isinstance(chosen, str) else {"keys": chosen.keys}
            try:
                answer = self.core.json("POST", path, {"generation": generation} if generation else None, wish)
                known[of] = str(answer["subset"]), str(answer["generation"])
                repeated = int(answer["repeated"])
            except (Denied, ReadOnly, InvalidArgument) as e:
                e.message = f"subset: {e.message}"
                if not isinstance(e, InvalidArgument):
                    e.cure = "`millrace subset DATASET --keys FILE` stores one, with credentials that may write; subset('DIGEST:listed') reads it"
                raise
            except (KeyError, TypeError, ValueError) as e:
                raise ProtocolError(f"{path}: an answer without a subset: {type(e).__name__}: {e}") from None
            if repeated:
                log.warning("subset: %d keys are given more than once, and count once", repeated)
        return cast("tuple[str, str]", known[of])

    def _get(self, query: Mapping[str, Optional[str]], what: str, *within: str) -> Any:
        """Asks for something of the dataset: once, if it is of one generation."""
        path, asked = f"/v1/datasets/{quote(self.dataset, safe='')}/{what}", {k: v for k, v in query.items() if v}
        known, of = vars(self)["_known"], (path, *asked.items(), *within)
        if of not in known or "generation" not in asked:
            try:
                known[of] = reduce(operator.getitem, within, self.core.json("GET", path, asked))
            except (KeyError, TypeError) as e:
                raise ProtocolError(f"{path}: an answer without {'.'.join(within)}: {type(e).__name__}: {e}") from None
        return known[of]


@checked()
def mix(
    sources: Union[Mapping[C, Share], Iterable[tuple[C, Share]]], *, samples: Optional[int] = None, per_batch: bool = False
) -> C:
    """Mixes datasets, or parts of them, in one stream of batches, and returns a client for it.

        photos, scans = millrace.open("s3://train/photos"), millrace.open("s3://train/scans")
        both = millrace.mix({photos.split(train=.9)["train"]: .7, scans: .3})

    sources    clients and their weights: fractions or whole numbers, relative to each other; 0: none of a source. All are served by one
               gateway: those that `millrace.open` opened with the same settings are, and so are those of one address
    samples    positions of an epoch; None: as many as the sources have samples. Each source begins again when it is used up
    per_batch  the weights are samples of each batch, whole numbers
    """
    pairs: list[Any] = list(sources.items() if isinstance(sources, Mapping) else sources)
    clients = all(isinstance(pair, tuple) and isinstance(pair[0], Selecting) for pair in pairs)
    if not clients or not (pairs := [(client, share) for client, share in pairs if share != 0]):
        raise InvalidArgument("mix: want clients and their shares", cure="write mix({a: .7, b: .3}), where a = millrace.open('s3://train/a')")
    first: C = pairs[0][0]
    shares = _whole("mix", dict(enumerate(share for _, share in pairs)), relative=not per_batch)
    for client, _ in pairs:
        if client.core.settings.sources != first.core.settings.sources:
            raise InvalidArgument(
                "mix: the datasets are served by different gateways",
                cure="open them by one address; of directories and buckets, with the same cache and disk_cache",
            )
        if client.selection.sources:
            raise InvalidArgument("mix: a source is a mixture itself", cure="mix its sources, with the products of the weights")
    tail = (f",samples={samples}" if samples is not None else "") + (",per-batch" if per_batch else "")
    parts = [_parts(client) for client, _ in pairs]
    base = copy.copy(first)
    kept = [client.core.settings.local for client, _ in pairs if client.core.settings.local]
    local = _Locals(**{**vars(kept[0]), "others": tuple(kept[1:])}) if kept else None
    base.core = Core(replace(first.core.settings, local=local))
    base.core.answered = first.core.answered
    if len({names for _, names in parts}) > 1:
        told = "; ".join(f"{local.opened.get(name, name) if local else name} has {', '.join(names)}" for name, names in parts)
        log.warning("mix: the samples of the sources have other parts: %s; name those that all have by fields=, or give transform=", told)
    mixed = tuple((name, client.selection, share) for (name, _), (client, _), share in zip(parts, pairs, shares))
    return base._reading("", Selection(sources=mixed, tail=tail), None)


def _parts(client: Any) -> tuple[str, tuple[str, ...]]:
    """Returns the name of a dataset, and those of its parts."""
    epoch, names = client.epoch(0, shuffle=False), ()
    with contextlib.suppress(MillraceError):
        names = tuple(map(epoch.steps.contents.name_of, epoch._all_parts()))
    return epoch.plan.dataset, tuple(sorted(names))


@dataclass(frozen=True)
class _Locals(Local):
    """Several datasets at one gateway of this user's."""

    others: tuple[Local, ...] = ()

    @property
    def opened(self) -> dict[str, str]:
        """What was opened, by the names that the gateway has for it."""
        return {name: address for one in self.others for name, address in one.opened.items()} | super().opened

    def revive(self) -> bool:
        """Has all of them served."""
        return any([super().revive(), *(other.revive() for other in self.others)])


def _fraction(share: Share) -> Fraction:
    try:
        exact = Fraction(share)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"share {share!r}: want a number above 0") from None
    return exact.limit_denominator(_FINEST) if isinstance(share, float) else exact


def _whole(what: str, shares: Mapping[Any, Share], *, relative: bool = True) -> list[int]:
    """Returns shares as whole numbers: with relative, the smallest that are to each other as the shares are."""
    exact = [_fraction(s) for s in shares.values()]
    for share, value in zip(shares.values(), exact):
        if value <= 0 or isinstance(share, bool):
            raise InvalidArgument(f"{what}: share {share!r}, want a number above 0", cure="leave out what is to have no share")
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


def _named(keys: Union[Key, Iterable[Key]], reason: str) -> _Samples:
    """Returns the keys, the shards and the reasons of samples."""
    named = []
    for key in [keys] if isinstance(keys, (str, tuple, SampleError)) else keys:
        if isinstance(key, SampleError):
            if key.key is None:
                cure = "open the epoch with reading=millrace.Reading(keys=True)"
                raise InvalidArgument(f"the key of the sample is not known: {key.message}", cure=cure)
            named.append((key.key, "", reason or (f"part {key.part} does not decode" if key.part else f"{key.step} fails")))
        elif isinstance(key, (str, tuple)):
            named.append((key, "", reason) if isinstance(key, str) else (*key, reason))
        else:
            raise InvalidArgument(f"{key!r} is no key", cure="give names of samples, or the SampleErrors that on_error got")
    return tuple(named)


def _listed(keys: Union[str, os.PathLike[str], Iterable[Key]]) -> tuple[str, ...]:
    """Returns keys as gateways have them."""
    if isinstance(keys, (str, os.PathLike)):
        try:
            found = tuple(line for line in Path(keys).read_text().splitlines() if line)
        except (OSError, UnicodeDecodeError) as e:
            cure = "give the path of a file of keys, one a line, or a list of keys"
            raise InvalidArgument(f"subset: keys={os.fspath(keys)!r}: {e}", cure=cure) from None
    else:
        found = tuple(f"{key}\t{shard}" if shard else key for key, shard, _ in _named(keys, ""))
    if not found:
        raise InvalidArgument("subset: keys: no sample is named")
    return found


def _run(first: int, last: int) -> str:
    return f"{first}-{last}" if last > first else str(first)


def _runs(what: str, numbers: Iterable[int]) -> str:
    """Writes numbers as gateways have them, runs put together."""
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
    return ",".join(_run(*run) for run in runs)
