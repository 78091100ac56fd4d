"""The parameters of an epoch, for Client.epoch, numpy.epoch, torch.Dataset, MapDataset and jax.DataLoader: types, defaults, checks.

Each of them names the set that it takes, so that type checkers and help() know the names. A slip is refused where it is written.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from reprlib import repr as short
from typing import Any, NamedTuple, Optional, SupportsIndex, TypedDict, TypeVar, Union, cast

from ._habits import INSTEAD, near
from ._steps import OnError
from .batch import Batch, Decoder, Sample
from .decode import Automatic
from .epoch import DECODED_BYTES, PREFETCH_BYTES, THREADS
from .errors import InvalidArgument

Shuffle = Union[str, bool, None]
""""slot", "window", "full" or "none"; False: stored order, "none"; True and None: the dataset's default."""


Decode = Union[bool, Mapping[str, Decoder], None]


class Order(TypedDict, total=False):
    """Which samples there are, and in which order: what MapDataset takes of an epoch."""
    generation: Optional[str]
    seed: Optional[int]
    window: Optional[int]
    strata: Optional[int]
    subset: Optional[str]
    quarantine: Optional[str]
    importance: Optional[str]
    fields: Union[str, Sequence[str], None]
    allow_pickle: bool
    on_error: OnError
    transform: Optional[Callable[[Sample], Any]]


class Batches(Order, total=False):
    """Batches and how they are read ahead: what jax.DataLoader takes of an epoch."""
    shuffle: Shuffle
    batch_size: Optional[int]
    form: Optional[str]
    threads: int
    prefetch_bytes: int
    decoded_bytes: int


class Shares(Batches, total=False):
    """A rank's shares of batches, and what becomes of them: what torch.Dataset takes of an epoch."""
    tail: Optional[str]
    balance: Optional[str]
    split: Optional[str]
    homes: Optional[int]
    keys: bool
    filter: Optional[Callable[[Sample], Any]]
    collate: Optional[Callable[[list[Any]], Any]]
    batch_transform: Optional[Callable[[Batch], Any]]


class Whole(Shares, total=False):
    """All parameters of an epoch but its number and decode."""
    dataset: Optional[str]
    rank: int
    world_size: int
    start: int
    progress: Optional[bool]


DEFAULTS: Mapping[str, Any] = {
    "allow_pickle": False, "on_error": "raise", "keys": False, "rank": 0, "world_size": 1, "start": 0,
    "threads": THREADS, "prefetch_bytes": PREFETCH_BYTES, "decoded_bytes": DECODED_BYTES,
}  # fmt: skip
"""The defaults that are not None; None stands for the default everywhere."""


class _Check(NamedTuple):
    want: str
    fits: Callable[[Any], bool]
    words: tuple[str, ...] = ()
    cure: str = ""


def _whole(least: int) -> _Check:
    fits: Callable[[Any], bool] = lambda v: isinstance(v, SupportsIndex) and not isinstance(v, bool) and operator.index(v) >= least  # noqa: E731
    return _Check(f"a whole number, {least} or more", fits)


def _word(*words: str, more: str = "", fits: Callable[[Any], bool] = lambda _: False, cure: str = "") -> _Check:
    return _Check(f"{', '.join(map(repr, words))}{more}", lambda v: fits(v) or (isinstance(v, str) and v in words), words, cure)


_CHECKS = {
    **dict.fromkeys(("batch_size", "window", "homes", "world_size", "threads", "ahead", "samples", "prefetch_factor"), _whole(1)),
    **dict.fromkeys(("number", "epoch", "seed", "strata", "rank", "start", "prefetch_bytes", "decoded_bytes", "num_workers"), _whole(0)),
    **dict.fromkeys(("generation", "subset", "quarantine", "importance", "form"), _Check("a text", lambda v: isinstance(v, str))),
    **dict.fromkeys(("keys", "allow_pickle", "progress", "per_batch", "copy"), _Check("True or False", lambda v: isinstance(v, bool))),
    **dict.fromkeys(("filter", "transform", "collate", "batch_transform"), _Check("a function", callable)),
    "dataset": _Check("the name of one of a gateway's datasets", lambda v: not isinstance(v, SupportsIndex), cure="say batch_size="),
    "shuffle": _word("slot", "window", "full", "none", more=", True or False", fits=lambda v: isinstance(v, bool)),
    "tail": _word("short", "drop", "pad"),
    "balance": _word("samples", "bytes"),
    "split": _word(
        "contiguous", "locality",
        cure="a part of the data is millrace.open(where, split='train'), or client.split(train=.9, val=.1)['train']",
    ),
    "on_error": _word("raise", "skip", more=" or a function", fits=callable),
    "fields": _Check(
        "names of parts, such as 'jpg,cls'",
        lambda v: bool(v) and (isinstance(v, str) or (isinstance(v, Sequence) and all(isinstance(name, str) for name in v))),
    ),
    "decode": _Check(
        "True, False, or a mapping from names of parts to functions",
        lambda v: isinstance(v, (bool, Automatic)) or (isinstance(v, Mapping) and all(map(callable, v.values()))),
    ),
}


def refuse_slips(function: str, own: Sequence[str], given: Mapping[str, Any]) -> None:
    """Refuses a name that is none of a function's own, and a value that a parameter of this name cannot have."""
    for name, value in given.items():
        if name not in own:
            cure = INSTEAD.get(name, "").replace("NAME", name) or near(name, own) or f"help({function}) lists the parameters"
            raise InvalidArgument(f"{name} is no parameter here", cure=cure)
        rule = _CHECKS.get(name)
        if rule is not None and value is not None and not rule.fits(value):
            cure = near(value, rule.words, "'") or rule.cure
            raise InvalidArgument(f"{name}={short(value)}: want {rule.want}", cure=cure, faults=((name, f"want {rule.want}"),))


F = TypeVar("F", bound=Callable[..., Any])


def checked(options: Optional[type] = None, *, passed: Iterable[str] = ()) -> Callable[[F], F]:
    """Has a function refuse values that a parameter cannot have, and names that are none of its own or of the set that it takes.

    options  the set of parameters that the function takes by **options
    passed   names that the function passes on to another library's
    """

    def wrap(function: F) -> F:
        bare = inspect.signature(function)
        own = {name: p for name, p in bare.parameters.items() if p.kind is not p.VAR_KEYWORD}
        places = [name for name, p in own.items() if p.kind is not p.KEYWORD_ONLY]
        for name, kind in options.__annotations__.items() if options else ():
            said = getattr(kind, "__forward_arg__", kind)
            own.setdefault(name, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=said))

        @wraps(function)
        def checking(*args: Any, **given: Any) -> Any:
            called = function.__qualname__.replace(".__init__", "")
            if len(args) > len(places):
                value = short(args[len(places)])
                raise InvalidArgument(f"{called}: {value} stands without a name", cure=f"write NAME={value}; help({called}) lists the parameters")
            refuse_slips(called, [*own, *passed], {**dict(zip(own, args)), **given})
            return function(*args, **given)

        if options:
            checking.__signature__ = bare.replace(parameters=list(own.values()))  # type: ignore[attr-defined]
        return cast(F, checking)

    return wrap
