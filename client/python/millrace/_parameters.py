"""Parameters of a Client, and of an epoch for Client.epoch, numpy.epoch, torch.Dataset, MapDataset and jax.DataLoader.

Each function declares its parameters, so that type checkers and help() know the names. Wrong names are rejected where they are written.
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
    """Converts a valid value to a built-in type."""


def _whole(least: int) -> _Check:
    def fits(value: Any) -> bool:
        try:
            return not isinstance(value, bool) and operator.index(value) >= least
        # arrays and tensors that are not a whole number also have __index__, which raises TypeError
        except TypeError:
            return False

    return _Check(f"a whole number, {least} or more", fits, plain=operator.index)


def _number(value: Any) -> Any:
    return value if isinstance(value, Mapping) else operator.index(value)


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
    "number": _Check("a whole number, 0 or more, or a state", lambda v: isinstance(v, Mapping) or _whole(0).fits(v), plain=_number),
    **dict.fromkeys(("epoch", "seed", "start", "prefetch_bytes", "decoded_bytes", "num_workers"), _whole(0)),
    **dict.fromkeys((*_plan.TEXTS, "form", "user_agent"), _Check("a text", lambda v: isinstance(v, str))),
    **dict.fromkeys(
        ("keys", "totals", "allow_pickle", "per_batch", "copy", "shared_memory", "insecure_plain_http", "reindex"),
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


NOT_FOR_LOADERS = {"start": "say epoch=; within an epoch load_state_dict goes on"}
"""Parameters of Client.epoch that loaders do not support, with the alternative."""
TORCH_ONLY = {"copy": "leave it out: millrace.torch.Dataset has it", "totals": "leave it out: a Batch has batch_samples, batch_cost and micro"}
"""Parameters that only millrace.torch supports, with the alternative elsewhere."""

_FOREIGN = {  # the parameters of this package for names from other libraries
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
"""Alternatives by the parameter names of other libraries."""

HERE = {"timeout": "deadline"}
"""Synonyms for a parameter of the function itself, if it has that parameter."""


def _cure(function: str, name: str, own: Sequence[str]) -> str:
    """Returns a suggestion for a name that is not a parameter of a function."""
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
    """Rejects names that are not parameters of a function, and invalid values.

      unfit   names that the function does not support, also in its dataclasses, with the alternative
      needed  names without a default that None could mean
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
    """Makes a function reject invalid values, and names that are not in its own parameters or its set of options.

    None means a parameter's default unless it is a value of its own. Whole numbers of other types, such as a tensor with one element,
    become int.

      options  the set of parameters that the function accepts as **options
      passed   names that the function passes on to another library
      unfit    names that the function does not support, also in dataclasses of the set, with the alternative
    """

    def wrap(function: F) -> F:
        bare = inspect.signature(function)
        own = {name: p for name, p in bare.parameters.items() if p.kind is not p.VAR_KEYWORD}
        places = [name for name, p in own.items() if p.kind is not p.KEYWORD_ONLY]
        needed = [name for name, p in own.items() if p.default is p.empty]
        # parameters for which None is a valid value
        plain = {name for name, rule in _CHECKS.items() if rule.fits(None)}
        usual = {name for name, p in own.items() if p.default not in (p.empty, None) and name not in plain}
        for name, kind in options.__annotations__.items() if options else ():
            said = getattr(kind, "__forward_arg__", kind)
            own.setdefault(name, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=said))

        @wraps(function)
        def checking(*args: Any, **given: Any) -> Any:
            called = function.__qualname__.replace(".__init__", "").replace("Source.", f"{type(args[0]).__name__}." if args else "")
            if "token" in given:
                given["token"] = secret(given["token"])  # hidden in tracebacks
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
            raise InvalidArgument(f"rank {self.rank}: must be less than the world size {self.world_size}")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Options for reading an epoch: functions that the reader's threads call, failures, forms and memory.

    filter          function of a Sample; samples for which it returns False are omitted. A batch without remaining samples is skipped
    collate         function of the list of a batch's samples: results of transform, or dicts of decoded parts. `batch.value` is its result
    batch_transform function of the Batch, the last step; `batch.value` is its result
    on_error        action if a decoder, filter or transform fails for a sample: "raise"; "skip" omits the sample and logs the
                    SampleError; a function of the SampleError returns a value to use instead, or None to leave the sample out
    keys            include the samples' names in every batch
    totals          for torch: include the samples and the cost of the global batch, by which a loss is weighted: see collate_columns
    form            form of the bodies (page Forms of an answer), for `batch.data`: such a batch has no samples to decode. None: framed.
                    "arrow": its columns are pyarrow arrays
    allow_pickle    let decode=True read pickles, which can execute arbitrary code of their writer
    threads         threads that fetch and decode. None: 4; in a torch worker the cores divided by the workers, 2 at most; MapDataset: 1
    prefetch_bytes  stored bytes to read ahead: a JPEG counts with the length of its file; 0: one batch at a time
    decoded_bytes   bytes of decoded batches to keep ready: an image counts with its pixels. The next batch is always decoded
    copy            for torch: functions may write into the bytes that they receive. False: they receive memory of a gateway on this
                    machine, which is read-only: writing into a tensor over it kills the process
    start           first batch of an iteration
    """

    filter: Optional[Callable[[Sample], Any]] = None
    collate: Optional[Callable[[list[Any]], Any]] = None
    batch_transform: Optional[Callable[[Batch], Any]] = None
    on_error: OnError = "raise"
    keys: bool = False
    totals: bool = False
    form: Optional[str] = None
    allow_pickle: bool = False
    threads: Optional[int] = None
    prefetch_bytes: int = PREFETCH_BYTES
    decoded_bytes: int = DECODED_BYTES
    copy: bool = True
    start: int = 0


class SampleOptions(TypedDict, total=False):
    """Parameters of an epoch that MapDataset accepts."""
    seed: Optional[int]
    fields: Union[str, Sequence[str], None]
    transform: Optional[Callable[[Sample], Any]]
    order: Optional[Order]
    reading: Optional[Reading]


class BatchOptions(SampleOptions, total=False):
    """Parameters of an epoch that jax.DataLoader accepts."""
    global_batch_size: Optional[int]
    shuffle: Shuffle
    share: Optional[Share]


class EpochOptions(BatchOptions, total=False):
    """Parameters of an epoch that Client.epoch, numpy.epoch and torch.Dataset accept."""
    batch_size_per_rank: Optional[int]


GROUPS: Mapping[str, type] = {"order": Order, "share": Share, "reading": Reading, "routing": Routing, "tls": TLS}
"""The dataclasses of parameters, by the name of the parameter that accepts one. None means a default in them too."""
for _kind in GROUPS.values():
    setattr(_kind, "__init__", checked()(vars(_kind)["__init__"]))  # noqa: B010  wrong names and values are refused where they are written

DEFAULTS: Mapping[str, Any] = {
    "allow_pickle": False, "on_error": "raise", "keys": False, "rank": 0, "world_size": 1, "start": 0,
    "threads": THREADS, "prefetch_bytes": PREFETCH_BYTES, "decoded_bytes": DECODED_BYTES,
}  # fmt: skip
"""Defaults other than None; None means the default everywhere."""


def _chosen(group: Any) -> dict[str, Any]:
    """Returns the values of a dataclass that differ from its defaults."""
    known = fields(group) if group is not None else ()
    return {f.name: value for f in known if (value := getattr(group, f.name)) is not None and (f.default is None or value != f.default)}


def flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of an epoch without defaults, including those in dataclasses."""
    out = {name: value for name, value in options.items() if value is not None and name not in GROUPS}
    for name in GROUPS:
        out |= _chosen(options.get(name))
    if "global_batch_size" in out and "batch_size_per_rank" in out:
        raise InvalidArgument("global_batch_size and batch_size_per_rank say the same", cure="give one of them")
    return out
