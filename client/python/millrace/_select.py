"""Parts of datasets and mixtures of them, as clients. A part is written into every address that its client asks for: nothing is stored."""

from __future__ import annotations

import copy
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union
from urllib.parse import quote

from ._core import Core
from ._local import Local
from .errors import InvalidArgument, NotFound, ProtocolError, SampleError

log = logging.getLogger("millrace")

Share = Union[int, float, Fraction]
Key = Union[str, tuple[str, str], SampleError]
C = TypeVar("C", bound="Selecting")

_FINEST = 10**6  # the greatest denominator that a float is taken for
_LIMIT = 1 << 32  # of what the shares of a split, as whole numbers, sum to
_SUBSET = 255  # bytes that gateways take
_BAD = 8 << 10
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MIXTURE = "mix:"


@dataclass(frozen=True)
class Selection:
    """What a client reads of its dataset; by default all of it."""

    subset: str = ""  # as `subset=` has it
    quarantine: str = ""
    generation: str = ""  # that numbers of bad samples belong to
    bad: Mapping[str, str] = field(default_factory=dict)  # reasons, by the keys of the samples that others replace

    def told(self, about: dict[str, Any]) -> dict[str, Any]:
        """Returns the description of a dataset as it is for this client."""
        return {**about, "generation": self.generation, "follows": False} if self.generation else about

    def over(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Returns the parameters of an epoch with those of the selection. What both name is refused, unless it is the same."""
        own = {"subset": self.subset, "quarantine": self.quarantine, "generation": self.generation}
        for name, value in own.items():
            if value and asked[name] not in (None, value):
                cure = f"leave out {name}=, or use the client that this one was made from"
                if name == "generation":
                    cure = "make the client by quarantine(keys, generation=...): the numbers of samples are others in each generation"
                raise InvalidArgument(f"epoch with {name} {asked[name]!r}: this client has {name} {value!r}", cure=cure)
        return {**asked, **{name: value for name, value in own.items() if value}}


class Selecting:
    """What a Client makes other clients with. Each has connections of its own, and is closed by itself."""

    if TYPE_CHECKING:
        dataset: str
        core: Core
        selection: Selection

        def describe(self, dataset: Optional[str] = None) -> dict[str, Any]:
            """Says what is known of a dataset."""

    def split(self: C, parts: Optional[Mapping[str, Share]] = None, *, salt: str = "", **named: Share) -> dict[str, C]:
        """Cuts the dataset by a hash of the samples' names, and returns a client for each part.

            train, val = client.split(train=.9, val=.1).values()

        The parts are fractions of all samples, on average; what they leave is in none of them. Whole numbers are parts relative to each
        other: `train=9, val=1`. Every process gets the same parts, and data that is added moves no sample from one to another. The order
        in which parts are named counts. The parts are those of `millrace subset --split`.

        parts   the same as a mapping, for names that are no Python names
        salt    another salt makes another split, independent of the first. A split of a split has one of its own
        """
        given = {**(parts or {}), **named}
        if not given:
            raise InvalidArgument("split: no part is named", cure="write split(train=.9, val=.1)")
        sizes = dict(zip(given, _whole("split", given)))
        if not all(isinstance(v, int) for v in given.values()):
            total = sum(map(_fraction, given.values()))
            if total > 1 + Fraction(1, _FINEST):
                raise InvalidArgument(f"split: the parts sum to {float(total):g}", cure="give fractions that sum to 1 at most, or whole numbers")
            if total < 1 - Fraction(1, _FINEST):
                left = next(name for name in ("rest", "left", "others") if name not in given)
                sizes = dict(zip([*given, left], _whole("split", {**given, left: 1 - total})))
        before = [step for step in self.selection.subset.split("~") if step and not step.startswith("samples:")]
        salt = salt or (str(len(before) + 1) if before else "")
        rule = ",".join(f"{name}={size}" for name, size in sizes.items())
        return {name: self._step(f"{rule}:{name}" + (f":{salt}" if salt else "")) for name in given}

    def take(self: C, n: int) -> C:
        """Returns a client for the first n samples in stored order, or all if there are fewer.

        Of data that is sorted by class these are of the first classes alone: `split(some=.1)["some"]` is a tenth of everything.
        """
        return self.subset(range(n))

    def subset(self: C, which: Union[str, range, Sequence[int]]) -> C:
        """Returns a client for some samples.

        which   the name of a subset that `millrace subset` made, or its split's digest, a colon and its name; or numbers of samples in
                stored order, such as range(1000, 2000), each once: a few dozen runs at most
        """
        return self._step(which if isinstance(which, str) else f"samples:{_runs('subset', which)}")

    def quarantine(self: C, keys: Union[Key, Iterable[Key]], *, reason: str = "", generation: Optional[str] = None) -> C:
        """Returns a client that gets healthy samples in place of some bad ones. All other positions stay as they are, so a job goes on
        with the batches that it had.

            bad = []                                    # collected by on_error=bad.append
            client = client.quarantine(bad)

        keys        names of samples, SampleErrors, or pairs of a name and the shard where several shards have it; or the digest of a list
                    that `millrace quarantine` stored. Each name is looked up by a request. About a thousand fit, more where they lie side
                    by side
        reason      kept in `selection.bad`; a SampleError brings its own
        generation  of the dataset, to go on with an older one. The client reads this one from now on, by default the present one
        """
        if isinstance(keys, str) and _DIGEST.fullmatch(keys):
            if self.selection.quarantine not in ("", keys):
                raise InvalidArgument("quarantine: this client has bad samples already", cure="name one list that has all of them")
            return self._with(replace(self.selection, quarantine=keys))
        if self.dataset.startswith(_MIXTURE):
            raise InvalidArgument("quarantine: a mixture has no samples of its own", cure="call it on a source, and mix then")
        if _DIGEST.fullmatch(self.selection.quarantine):
            raise InvalidArgument("quarantine: this client has a stored list already", cure="store one list that has all bad samples")
        listed: list[Key] = [keys] if isinstance(keys, (str, tuple, SampleError)) else list(keys)
        about = self.describe()
        pinned = self.selection.generation or generation or str(about["generation"])
        if generation not in (None, pinned):
            raise InvalidArgument(f"quarantine: this client has generation {pinned}", cure="make all of the list at once")
        found, numbers = dict(self.selection.bad), set(_numbers(self.selection.quarantine))
        for key, shard, why in (_named(k, reason) for k in listed):
            numbers.add(self._number(str(about["name"]), key, shard, pinned))
            found[key] = why
            log.info("sample %s is replaced from now on: %s", key, why or "it was named as bad")
        text = f"samples:{_runs('quarantine', sorted(numbers))}"
        if len(text) > _BAD:
            raise InvalidArgument(
                f"quarantine: {len(numbers)} samples are more than an address holds",
                cure="write their keys to a file, one a line; `millrace quarantine DATASET --from FILE` stores them and says the digest to give here",
            )
        return self._with(Selection(self.selection.subset, text, pinned, found))

    def _number(self, dataset: str, key: str, shard: str, generation: str) -> int:
        """Returns the number of a sample: its position in stored order."""
        path = f"/v1/datasets/{quote(dataset, safe='')}/occurrences"
        query = {"key": key, "epochs": "0", "shuffle": "none", "generation": generation, **({"shard": shard} if shard else {})}
        try:
            answer = self.core.json("GET", path, query)
            return int(answer["occurrences"][0]["position"])
        except NotFound as e:
            raise type(e)(f"quarantine {key!r}: {e.message}", code=e.code, status=e.status, request_id=e.request_id, gateway=e.gateway) from None
        except (KeyError, IndexError, TypeError, ValueError) as e:
            raise ProtocolError(f"{path}: not a sample's position: {type(e).__name__}: {e}") from None

    def _step(self: C, step: str) -> C:
        if self.dataset.startswith(_MIXTURE):
            raise InvalidArgument(f"{step}: a mixture has no samples of its own", cure="choose from its sources, and mix then")
        subset = f"{self.selection.subset}~{step}" if self.selection.subset else step
        if len(subset.encode()) > _SUBSET:
            raise InvalidArgument(
                f"subset: {len(subset)} bytes, want {_SUBSET} at most", cure="choose fewer runs of numbers, or store a split with `millrace subset`"
            )
        return self._with(replace(self.selection, subset=subset))

    def _with(self: C, selection: Selection) -> C:
        made = copy.copy(self)
        made.dataset = self.dataset or str(self.describe()["name"])  # a part is of one dataset, whichever is the default later
        made.core, made.selection = Core(self.core.settings), selection
        made.core.answered = self.core.answered
        return made


def mix(
    sources: Union[Mapping[C, Share], Iterable[tuple[C, Share]]], *, samples: Optional[int] = None, per_batch: bool = False
) -> C:
    """Mixes datasets, or parts of them, in one stream of batches, and returns a client for it.

        photos, scans = millrace.open("s3://train/photos"), millrace.open("s3://train/scans")
        both = millrace.mix({photos.split(train=.9)["train"]: .7, scans: .3})

    sources    clients and their weights: fractions or whole numbers, relative to each other. All are served by one gateway: those that
               `millrace.open` opened with the same settings are, and so are those of one address
    samples    positions of an epoch; None: as many as the sources have samples. Each source begins again when it is used up
    per_batch  the weights are samples of each batch, whole numbers
    """
    pairs = list(sources.items()) if isinstance(sources, Mapping) else list(sources)
    if not pairs:
        raise InvalidArgument("mix: no source is given", cure="write mix({a: .7, b: .3})")
    first = pairs[0][0]
    shares = _whole("mix", dict(enumerate(share for _, share in pairs)), relative=not per_batch)
    written = []
    for (client, _), share in zip(pairs, shares):
        if client.core.settings.sources != first.core.settings.sources:
            raise InvalidArgument(
                "mix: the datasets are served by different gateways",
                cure="open them by one address; of directories and buckets, with the same cache and disk_cache",
            )
        if client.dataset.startswith(_MIXTURE):
            raise InvalidArgument("mix: a source is a mixture itself", cure="mix its sources, with the products of the weights")
        written.append((client, *_source(client), share))
    name = _MIXTURE + ",".join(f"{text}:{share}" for _, text, _, share in written)
    name += (f",samples={samples}" if samples is not None else "") + (",per-batch" if per_batch else "")
    made = copy.copy(first)
    local = _all_of([c.core.settings.local for c, _ in pairs])
    made.core = Core(replace(first.core.settings, local=local))
    made.core.answered = first.core.answered
    pinned = any(client.selection.generation for client, _ in pairs)
    made.selection = Selection(generation=",".join(generation for _, _, generation, _ in written) if pinned else "")
    made.dataset = name
    return made


def _source(client: Selecting) -> tuple[str, str]:
    """Returns a source as the name of a mixture has it, and its generation."""
    about = client.describe()
    name, chosen = str(about["name"]), client.selection
    query = []
    if chosen.quarantine:
        query.append(f"quarantine={chosen.quarantine}")
    if chosen.subset:  # the gateway says its one form, and the digest of a stored split
        asked = {k: v for k, v in (("subset", chosen.subset), ("generation", chosen.generation)) if v}
        answer = client.core.json("GET", f"/v1/datasets/{quote(name, safe='')}/epochs/0", asked)
        try:
            query.append(f"subset={answer['parameters']['subset']}")
        except (KeyError, TypeError):
            raise ProtocolError(f"dataset {name}: the gateway does not know subset {chosen.subset!r}") from None
    return (f"{name}({'&'.join(query)})" if query else name), str(about["generation"])


@dataclass(frozen=True)
class _Locals(Local):
    """Several datasets at one gateway of this user's."""

    others: tuple[Local, ...] = ()

    def revive(self) -> bool:
        """Has all of them served."""
        return any([super().revive(), *(other.revive() for other in self.others)])


def _all_of(locals_: Sequence[Optional[Local]]) -> Optional[Local]:
    found = [one for one in locals_ if one is not None]
    if not found:
        return None
    one = found[0]
    return _Locals(one.directory, one.command, one.name, one.address, one.loopback, tuple(found[1:]))


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
            raise InvalidArgument(f"{what}: share {share!r}, want a number above 0")
    if not relative:
        if any(value.denominator != 1 for value in exact):
            raise InvalidArgument(f"{what}: per_batch wants whole numbers of samples, and got {list(shares.values())}")
        return [int(value) for value in exact]
    common = reduce(lambda a, b: a * b // math.gcd(a, b), (value.denominator for value in exact))
    numbers = [int(value * common) for value in exact]
    divisor = reduce(math.gcd, numbers)
    numbers = [n // divisor for n in numbers]
    if sum(numbers) >= _LIMIT:
        raise InvalidArgument(f"{what}: {list(shares.values())} have no common unit above 1/{_LIMIT}", cure="give rounder numbers")
    return numbers


def _named(key: Key, reason: str) -> tuple[str, str, str]:
    """Returns the key, the shard and the reason of a bad sample."""
    if isinstance(key, SampleError):
        if key.key is None:
            raise InvalidArgument(f"quarantine: the key of the sample is not known: {key.message}", cure="open the epoch with keys=True")
        return key.key, "", reason or (f"part {key.part} does not decode" if key.part else f"{key.step} fails")
    if isinstance(key, tuple):
        return key[0], key[1], reason
    if not isinstance(key, str):
        raise InvalidArgument(f"quarantine: {key!r} is no key", cure="give names of samples, or the SampleErrors that on_error got")
    return key, "", reason


def _runs(what: str, numbers: Iterable[int]) -> str:
    """Writes numbers as gateways have them, runs put together."""
    runs: list[list[int]] = []
    if isinstance(numbers, range) and numbers.step == 1:
        runs = [[numbers[0], numbers[-1]]] if numbers else []
    else:
        for n in numbers:
            if runs and n == runs[-1][1] + 1:
                runs[-1][1] = n
            elif not runs or n > runs[-1][1]:
                runs.append([n, n])
            else:
                raise InvalidArgument(f"{what}: sample {n} after {runs[-1][1]}", cure="give numbers in ascending order, each once")
    if not runs or runs[0][0] < 0:
        raise InvalidArgument(f"{what}: no sample is named" if not runs else f"{what}: sample {runs[0][0]}, want 0 or more")
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)


def _numbers(text: str) -> Iterable[int]:
    """Reads what _runs has written, behind its word."""
    for run in text[len("samples:") :].split(",") if text else ():
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)
