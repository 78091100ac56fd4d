"""Words of other libraries, and what to write here instead: a habit is told its new word where it is written."""

from __future__ import annotations

from difflib import get_close_matches
from functools import wraps
from typing import Any, Callable, Optional, TypeVar, Union, cast

from .errors import InvalidArgument

Shuffle = Union[str, bool, None]
""""slot", "window", "full" or "none"; False: stored order, "none"; True and None: the dataset's default."""

_LOADER = "give it to the loader: millrace.torch.DataLoader(dataset, NAME=...)"
_CACHE = "leave it out: the gateway has the cache (millrace.open(where, cache=..., disk_cache=...))"
_SOURCE = "the first argument says where the data are: a directory, s3://bucket/prefix or http://gateway:8080"
_ORDER = "leave it out, or choose by shuffle='slot', 'window', 'full' or 'none'"
_RANKS = "leave it out: ranks are found, or given by rank= and world_size="
_MAP = "samples by number are those of millrace.torch.MapDataset, which torch's DataLoader and its samplers take"

_INSTEAD = {
    **dict.fromkeys(
        ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "timeout", "multiprocessing_context", "worker_init_fn"), _LOADER
    ),
    **dict.fromkeys(("remote", "local", "input_dir", "urls", "streams"), _SOURCE),
    **dict.fromkeys(("cache_limit", "cache_dir", "max_cache_size", "predownload", "keep_zip", "download_retry"), _CACHE),
    **dict.fromkeys(("shuffle_algo", "shuffle_block_size", "shardshuffle", "sampling_method"), _ORDER),
    **dict.fromkeys(("num_canonical_nodes", "num_replicas", "nodesplitter", "workersplitter"), _RANKS),
    **dict.fromkeys(("sampler", "batch_sampler"), _MAP),
    "batching_method": "leave it out, or give strata=",
    "collate_fn": "say collate=",
    "decoders": "say decode={part: function}",
    "drop_last": "say tail='drop'",
    "generator": "say seed=: order is a matter of seed and epoch",
    "handler": "say on_error='skip', or on_error=function",
    "progress": "leave it out: a bar of the training loop's own counts its batches",
    "shuffle_seed": "say seed=",
    "start": "say epoch=; within an epoch load_state_dict goes on",
    "target_transform": "say decode={part: function} for the part that holds the target",
    "transforms": "say decode={part: function}, or transform=",
}

F = TypeVar("F", bound=Callable[..., Any])


def instead_of(word: str) -> str:
    """Says what to write in place of a word of another library's; empty if the word is not known."""
    return _INSTEAD.get(word, "").replace("NAME", word)


def tells_habits(function: F) -> F:
    """Has a function refuse words of other libraries, and words that are nearly its own, with what to write instead.

    Other unknown words are Python's to refuse.
    """
    own = set(function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount])

    @wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        for name in options:
            if name in own:
                continue
            near = [f"did you mean {word}?" for word in get_close_matches(name, own, 1, 0.8)]
            if cure := instead_of(name) or "".join(near):
                raise InvalidArgument(f"{name} is no parameter here", cure=cure)
        return function(*args, **options)

    return cast(F, checked)


def shuffle_of(shuffle: Shuffle) -> Optional[str]:
    """The shuffle that a gateway is asked for; None: the dataset's default."""
    if isinstance(shuffle, bool):
        return None if shuffle else "none"
    return shuffle
