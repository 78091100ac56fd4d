"""Parameters: those of a Client, and those of an epoch for Client.epoch, numpy.epoch, torch.Dataset, MapDataset and jax.DataLoader.

Each of them names the set that it takes, so that type checkers and help() know the names. A slip is refused where it is written.
"""

from __future__ import annotations

import inspect
import operator
import os
import re
import ssl
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from reprlib import repr as short
from types import MappingProxyType
from typing import Any, NamedTuple, Optional, SupportsIndex, TypedDict, TypeVar, Union, cast

from . import _plan
from ._http import TLS, Routing, secret
from ._steps import OnError
from .batch import Batch, Decoder, Sample
from .crc import CHECKS
from .epoch import DECODED_BYTES, PREFETCH_BYTES, THREADS
from .errors import InvalidArgument, near

Shuffle = Union[str, bool, None]
""""slot", "window", "full" or "none"; False: stored order, "none"; True and None: the dataset's default."""

Decode = Union[bool, Mapping[str, Decoder], None]


class _Check(NamedTuple):
    want: str
    fits: Callable[[Any], bool]
    words: tuple[str, ...] = ()
    cure: str = ""
    plain: Callable[[Any], Any] = lambda v: v
    """Makes a value that fits one of Python's own."""


def _whole(least: int) -> _Check:
    def fits(value: Any) -> bool:
        try:
            return not isinstance(value, bool) and operator.index(value) >= least
        except TypeError:  # so do arrays and tensors of no whole number, which have __index__ too
            return False

    return _Check(f"a whole number, {least} or more", fits, plain=operator.index)


def _word(*words: str, more: str = "", fits: Callable[[Any], bool] = lambda _: False) -> _Check:
    return _Check(f"{', '.join(map(repr, words))}{more}", lambda v: fits(v) or (isinstance(v, str) and v in words), words)


_BYTES = "bytes, or a text such as '512MiB' or '2GB'"


def _is_size(value: Any) -> bool:
    return bool(re.fullmatch(r"[\d.,]+ *([kmgtpe]i?)?b?", value, re.IGNORECASE)) if isinstance(value, str) else _whole(1).fits(value)


_CHECKS = {
    **{name: _whole(least) for name, least in _plan.NUMBERS.items()},
    **{name: _word(*words) for name, words in _plan.WORDS.items()},
    **dict.fromkeys(("global_batch_size", "batch_size_per_rank", "threads"), _whole(1)),
    **dict.fromkeys(("ahead", "samples", "sequence_length", "prefetch_factor", "max_batch_bytes"), _whole(1)),
    **dict.fromkeys(("number", "epoch", "seed", "start", "prefetch_bytes", "decoded_bytes", "num_workers"), _whole(0)),
    **dict.fromkeys((*_plan.TEXTS, "form", "user_agent"), _Check("a text", lambda v: isinstance(v, str))),
    **dict.fromkeys(
        ("keys", "allow_pickle", "per_batch", "copy", "shared_memory", "insecure_plain_http", "reindex"),
        _Check("True or False", lambda v: isinstance(v, bool)),
    ),
    **dict.fromkeys(("filter", "transform", "collate", "batch_transform", "lookup"), _Check("a function", callable)),
    "order": _Check("a millrace.Order", lambda v: isinstance(v, Order), cure="write order=millrace.Order(window=...)"),
    "share": _Check("a millrace.Share", lambda v: isinstance(v, Share), cure="write share=millrace.Share(rank=..., world_size=...)"),
    "reading": _Check("a millrace.Reading", lambda v: isinstance(v, Reading), cure="write reading=millrace.Reading(keys=True)"),
    "routing": _Check("a millrace.Routing", lambda v: isinstance(v, Routing), cure="write routing=millrace.Routing(home=...)"),
    "tls": _Check("a millrace.TLS", lambda v: isinstance(v, TLS), cure="write tls=millrace.TLS(ca_file=...)"),
    **dict.fromkeys(("deadline", "first_answer", "attempt_timeout"), _Check("seconds, more than 0", lambda v: isinstance(v, (int, float)) and v > 0)),
    **dict.fromkeys(("ca_file", "client_cert", "client_key"), _Check("the path of a file", lambda v: isinstance(v, (str, os.PathLike)))),
    **dict.fromkeys(("match", "format", "split"), _Check("a text", lambda v: isinstance(v, str))),
    "dtype": _Check(
        "a type's name such as 'uint16', or a type of NumPy's or torch's",
        lambda v: isinstance(v, (str, type)) or hasattr(v, "itemsize") or type(v).__module__ == "torch",
    ),
    "cache": _Check(_BYTES, _is_size),
    "disk_cache": _Check(
        f"a directory and its size: {_BYTES}",
        lambda v: isinstance(v, (tuple, list)) and len(v) == 2 and isinstance(v[0], (str, os.PathLike)) and _is_size(v[1]),
        cure="write disk_cache=('/nvme/millrace', '200GiB')",
    ),
    "check": _word(*CHECKS),
    "home": _word("rank", more=" or a function", fits=callable),
    "context": _Check("an ssl.SSLContext", lambda v: isinstance(v, ssl.SSLContext)),
    "headers": _Check("a mapping from names to values", lambda v: isinstance(v, Mapping)),
    "dataset": _Check(
        "the name of one of a gateway's datasets", lambda v: not isinstance(v, SupportsIndex),
        cure="give its name; the size of batches is global_batch_size=",
    ),
    "shuffle": _word("slot", "window", "full", "none", more=", True or False", fits=lambda v: v is None or isinstance(v, bool)),
    "on_error": _word("raise", "skip", more=" or a function", fits=callable),
    "fields": _Check(
        "names of parts, such as 'jpg,cls'",
        lambda v: bool(v) and (isinstance(v, str) or (isinstance(v, Sequence) and all(isinstance(name, str) for name in v))),
    ),
    "decode": _Check(
        "True, False, or a mapping from names of parts to functions",
        lambda v: v is None or isinstance(v, bool) or (isinstance(v, Mapping) and all(map(callable, v.values()))),
    ),
}


NOT_FOR_LOADERS = {
    "start": "say epoch=; within an epoch load_state_dict goes on",
}
"""Parameters of Client.epoch that loaders do not take, and what to write instead."""
TORCH_ONLY = {"copy": "leave it out: millrace.torch.Dataset has it"}
"""Parameters that only millrace.torch takes, and what to write elsewhere."""

_FOREIGN = {  # what to write here, and the words of other libraries for it
    "give it to the loader: millrace.torch.DataLoader(dataset, NAME=...)":
        "num_workers prefetch_factor persistent_workers pin_memory timeout multiprocessing_context worker_init_fn",
    "give it to the loader: millrace.torch.DataLoader(dataset, num_workers=...)": "workers",
    "give it to millrace.open: Dataset(millrace.open(where, NAME=...))": "match format sequence_length dtype index reindex cache disk_cache",
    "the first argument says where the data are: a directory, s3://bucket/prefix or http://gateway:8080":
        "remote local input_dir urls streams root",
    "leave it out: the gateway has the cache (millrace.open(where, cache=..., disk_cache=...))":
        "cache_limit cache_dir max_cache_size predownload keep_zip download_retry",
    "leave it out, or choose by shuffle='slot', 'window', 'full' or 'none'":
        "shuffle_algo shuffle_block_size shuffle_buffer buffer_size shardshuffle sampling_method",
    "leave it out: ranks are found, or given by share=millrace.Share(rank=..., world_size=...)":
        "num_canonical_nodes num_replicas nodesplitter workersplitter",
    "give share=millrace.Share(rank=..., world_size=...) to Client.epoch or Dataset; torch's DistributedSampler shares a MapDataset out":
        "rank world_size",
    "ranks share by share=millrace.Share(by='locality'); a part of the data is millrace.open(where, split='train'), or "
    "client.split(train=.9, val=.1)['train']":
        "split train",
    "leave it out: nothing is copied here before it is read": "download streaming",
    "leave it out: an epoch has each sample once, and the next pass reads the next epoch": "resampled",
    "samples by number are those of millrace.torch.MapDataset, which torch's DataLoader and its samplers take": "sampler batch_sampler",
    "give a client in place of the address: millrace.Client(gateways, NAME=...)": "token token_file deadline routing tls",
    "give a client in place of the address: millrace.Client(gateways, routing=millrace.Routing(home=...))": "home",
    "say fields=": "columns parts",
    "say decode={part: function}": "decoders loader",
    "say decode={part: function}, or transform=": "transforms",
    "say decode={part: function} for the part that holds the target": "target_transform",
    "say seed=": "shuffle_seed",
    "say seed=: order is a matter of seed and epoch": "generator",
    "write global_batch_size= (samples of all ranks together) or batch_size_per_rank=": "batch_size",
    "leave it out, or write order=millrace.Order(strata=...)": "batching_method",
    "write reading=millrace.Reading(collate=...)": "collate_fn",
    "write reading=millrace.Reading(on_error='skip'), or on_error=function": "handler",
    "write share=millrace.Share(tail='drop')": "drop_last",
    "write tls=millrace.TLS(context=...)": "ssl_context",
    "write `for batch in tqdm(epoch)`: an epoch has a length": "progress",
    "give them as values of the mapping: mix({a: .7, b: .3})": "weights",
}  # fmt: skip
INSTEAD = {word: cure for cure, words in _FOREIGN.items() for word in words.split()}
"""What to write in place of the words of other libraries."""

HERE = {"timeout": "deadline"}
"""Words that stand for a parameter of the function itself, if it has that."""


def _cure(function: str, name: str, own: Sequence[str]) -> str:
    """Says what to write instead of a name that is none of a function's own."""
    for group, kind in GROUPS.items():
        if group in own and name in {f.name for f in fields(kind)}:
            return f"write {group}=millrace.{kind.__name__}({name}=...)"
    if function in {kind.__name__ for kind in GROUPS.values()} and name in EpochOptions.__annotations__:
        return f"give {name}= to the function that takes the {function}"
    if HERE.get(name) in own:
        return f"write {HERE[name]}="
    return INSTEAD.get(name, "").replace("NAME", name) or near(name, own) or f"help({function}) lists the parameters"


def refuse_slips(
    function: str, own: Sequence[str], given: Mapping[str, Any], unfit: Mapping[str, str] = MappingProxyType({}), needed: Collection[str] = ()
) -> None:
    """Refuses a name that is none of a function's own, and a value that a parameter of this name cannot have.

    unfit   names that the function cannot take, in its dataclasses either, and what to write instead
    needed  names that have no default which None could stand for
    """
    for name, value in given.items():
        if name in unfit or name not in own:
            raise InvalidArgument(f"{name} is no parameter here", cure=unfit.get(name) or _cure(function, name, own))
        rule = _CHECKS.get(name)
        if rule is not None and (value is not None or name in needed) and not rule.fits(value):
            cure = near(value, rule.words, "'") or rule.cure
            raise InvalidArgument(f"{name}={short(value)}: want {rule.want}", cure=cure, faults=((name, f"want {rule.want}"),))
        if name in GROUPS:
            for inner in _chosen(value).keys() & unfit.keys():
                raise InvalidArgument(f"{name}={GROUPS[name].__name__}({inner}=...): {function} has no {inner}", cure=unfit[inner])


def _plain(name: str, value: Any) -> Any:
    return _CHECKS[name].plain(value) if name in _CHECKS and value is not None else value


F = TypeVar("F", bound=Callable[..., Any])


def checked(options: Optional[type] = None, *, passed: Iterable[str] = (), unfit: Mapping[str, str] = MappingProxyType({})) -> Callable[[F], F]:
    """Has a function refuse values that a parameter cannot have, and names that are none of its own or of the set that it takes.

    None stands for a parameter's default where it has no meaning of its own, and whole numbers of other types, such as a tensor with one, become int.

    options  the set of parameters that the function takes by **options
    passed   names that the function passes on to another library's
    unfit    names that the function cannot take, in the dataclasses of the set either, and what to write instead
    """

    def wrap(function: F) -> F:
        bare = inspect.signature(function)
        own = {name: p for name, p in bare.parameters.items() if p.kind is not p.VAR_KEYWORD}
        places = [name for name, p in own.items() if p.kind is not p.KEYWORD_ONLY]
        needed = [name for name, p in own.items() if p.default is p.empty]
        plain = {name for name, rule in _CHECKS.items() if rule.fits(None)}  # of which None is a value as others are
        usual = {name for name, p in own.items() if p.default not in (p.empty, None) and name not in plain}
        for name, kind in options.__annotations__.items() if options else ():
            said = getattr(kind, "__forward_arg__", kind)
            own.setdefault(name, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=said))

        @wraps(function)
        def checking(*args: Any, **given: Any) -> Any:
            called = function.__qualname__.replace(".__init__", "").replace("Source.", f"{type(args[0]).__name__}." if args else "")
            if "token" in given:
                given["token"] = secret(given["token"])  # no traceback shows it
            if len(args) > len(places):
                at = len(places) - (places[:1] == ["self"]) + 1  # its value may be a token
                raise InvalidArgument(f"{called}: argument {at} stands without a name", cure=f"write NAME=VALUE; help({called}) lists the parameters")
            refuse_slips(called, [*own, *passed], {**dict(zip(own, args)), **given}, unfit, needed)
            stated = {name: _plain(name, value) for name, value in given.items() if value is not None or name not in usual}
            return function(*map(_plain, own, args), **stated)

        if options:
            checking.__signature__ = bare.replace(parameters=list(own.values()))  # type: ignore[attr-defined]
        return cast(F, checking)

    return wrap


Order = _plan.Order


@dataclass(frozen=True, kw_only=True)
class Share(_plan.Share):
    __doc__ = _plan.Share.__doc__

    def __post_init__(self) -> None:
        if (self.rank is None) != (self.world_size is None):
            raise InvalidArgument("rank and world_size belong together", cure="give both or none")
        if self.rank is not None and self.world_size is not None and self.rank >= self.world_size:
            raise InvalidArgument(f"rank {self.rank}: want less than the world size, {self.world_size}")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How an epoch is read: functions called by the reader's threads, failures, forms and memory.

    filter          function of a Sample; samples for which it returns False are left out. A batch that loses all its samples is skipped
    collate         function of the list of a batch's samples: results of transform, else dicts of decoded parts. `batch.value` is its result
    batch_transform function of the Batch, the last step; `batch.value` is its result
    on_error        what to do about a sample at which a decoder, filter or transform fails: "raise"; "skip" leaves it out and logs the
                    SampleError; a function of the SampleError returns a value to use instead, or None to leave the sample out
    keys            send the samples' names with every batch
    form            form of the bodies (page Forms of an answer), for `batch.data`: such a batch has no samples to decode. None: framed
    allow_pickle    decode=True reads pickles too: they run whatever code their writer put into them
    threads         threads that fetch and decode. None: 4; in a torch worker the cores divided by the workers, 2 at most; MapDataset: 1
    prefetch_bytes  stored bytes to read ahead: a JPEG counts with the length of its file; 0: one batch at a time
    decoded_bytes   bytes of decoded batches to hold ready: an image counts with its pixels. The next batch is always decoded
    copy            for torch: your functions may write into the bytes they are given. False: they are given memory of a gateway on this
                    machine, for reading only: writing into a tensor over it ends the process
    start           batch that iterating begins with
    """

    filter: Optional[Callable[[Sample], Any]] = None
    collate: Optional[Callable[[list[Any]], Any]] = None
    batch_transform: Optional[Callable[[Batch], Any]] = None
    on_error: OnError = "raise"
    keys: bool = False
    form: Optional[str] = None
    allow_pickle: bool = False
    threads: Optional[int] = None
    prefetch_bytes: int = PREFETCH_BYTES
    decoded_bytes: int = DECODED_BYTES
    copy: bool = True
    start: int = 0


class SampleOptions(TypedDict, total=False):
    """The parameters of an epoch that MapDataset takes."""
    seed: Optional[int]
    fields: Union[str, Sequence[str], None]
    transform: Optional[Callable[[Sample], Any]]
    order: Optional[Order]
    reading: Optional[Reading]


class BatchOptions(SampleOptions, total=False):
    """The parameters of an epoch that jax.DataLoader takes."""
    global_batch_size: Optional[int]
    shuffle: Shuffle
    share: Optional[Share]


class EpochOptions(BatchOptions, total=False):
    """The parameters of an epoch that Client.epoch, numpy.epoch and torch.Dataset take."""
    batch_size_per_rank: Optional[int]


GROUPS: Mapping[str, type] = {"order": Order, "share": Share, "reading": Reading, "routing": Routing, "tls": TLS}
"""The dataclasses that hold parameters, by the name of the parameter that takes one. None stands for a default in them too."""
for _kind in GROUPS.values():
    setattr(_kind, "__init__", checked()(vars(_kind)["__init__"]))  # noqa: B010  wrong names and values are refused where they are written

DEFAULTS: Mapping[str, Any] = {
    "allow_pickle": False, "on_error": "raise", "keys": False, "rank": 0, "world_size": 1, "start": 0,
    "threads": THREADS, "prefetch_bytes": PREFETCH_BYTES, "decoded_bytes": DECODED_BYTES,
}  # fmt: skip
"""The defaults that are not None; None stands for the default everywhere."""


def _chosen(group: Any) -> dict[str, Any]:
    """Returns the values of a dataclass that differ from its defaults."""
    known = fields(group) if group is not None else ()
    return {f.name: value for f in known if (value := getattr(group, f.name)) is not None and (f.default is None or value != f.default)}


def flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of an epoch, those of the dataclasses among them. Defaults are left out."""
    out = {name: value for name, value in options.items() if value is not None and name not in GROUPS}
    for name in GROUPS:
        out |= _chosen(options.get(name))
    if "global_batch_size" in out and "batch_size_per_rank" in out:
        raise InvalidArgument("global_batch_size and batch_size_per_rank say the same", cure="give one of them")
    return out
