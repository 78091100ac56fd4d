"""Words of other libraries, and what to write here instead."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_OPEN = "give it to millrace.open: Dataset(millrace.open(where, NAME=...))"
_LOADER = "give it to the loader: millrace.torch.DataLoader(dataset, NAME=...)"
_CACHE = "leave it out: the gateway has the cache (millrace.open(where, cache=..., disk_cache=...))"
_SOURCE = "the first argument says where the data are: a directory, s3://bucket/prefix or http://gateway:8080"
_ORDER = "leave it out, or choose by shuffle='slot', 'window', 'full' or 'none'"
_RANKS = "leave it out: ranks are found, or given by share=millrace.Share(rank=..., world_size=...)"
_MAP = "samples by number are those of millrace.torch.MapDataset, which torch's DataLoader and its samplers take"
_CLIENT = "give a client in place of the address: millrace.Client(gateways, NAME=...)"

_PART = (
    "ranks share by share=millrace.Share(by='locality'); a part of the data is millrace.open(where, split='train'), or "
    "client.split(train=.9, val=.1)['train']"
)
_SHARE = "give share=millrace.Share(rank=..., world_size=...) to Client.epoch or Dataset; torch's DistributedSampler shares a MapDataset out"
_NO_COPY = "leave it out: nothing is copied here before it is read"

NOT_FOR_LOADERS = {
    "start": "say epoch=; within an epoch load_state_dict goes on",
}
"""Parameters of Client.epoch that loaders do not take, and what to write instead."""
TORCH_ONLY = {"copy": "leave it out: millrace.torch.Dataset has it"}
"""Parameters that only millrace.torch takes, and what to write elsewhere."""


INSTEAD = {
    **dict.fromkeys(
        ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "timeout", "multiprocessing_context", "worker_init_fn"), _LOADER
    ),
    **dict.fromkeys(("match", "format", "sequence_length", "dtype", "index", "reindex", "cache", "disk_cache"), _OPEN),
    **dict.fromkeys(("remote", "local", "input_dir", "urls", "streams", "root"), _SOURCE),
    **dict.fromkeys(("cache_limit", "cache_dir", "max_cache_size", "predownload", "keep_zip", "download_retry"), _CACHE),
    **dict.fromkeys(("shuffle_algo", "shuffle_block_size", "shuffle_buffer", "buffer_size", "shardshuffle", "sampling_method"), _ORDER),
    **dict.fromkeys(("num_canonical_nodes", "num_replicas", "nodesplitter", "workersplitter"), _RANKS),
    **dict.fromkeys(("rank", "world_size"), _SHARE),
    **dict.fromkeys(("download", "streaming"), _NO_COPY),
    **dict.fromkeys(("sampler", "batch_sampler"), _MAP),
    **dict.fromkeys(("token", "token_file", "deadline", "routing", "tls"), _CLIENT),
    "home": "give a client in place of the address: millrace.Client(gateways, routing=millrace.Routing(home=...))",
    **dict.fromkeys(("columns", "parts"), "say fields="),
    "batch_size": "write global_batch_size= (samples of all ranks together) or batch_size_per_rank=",
    "batching_method": "leave it out, or write order=millrace.Order(strata=...)",
    "collate_fn": "write reading=millrace.Reading(collate=...)",
    "decoders": "say decode={part: function}",
    "drop_last": "write share=millrace.Share(tail='drop')",
    "generator": "say seed=: order is a matter of seed and epoch",
    "handler": "write reading=millrace.Reading(on_error='skip'), or on_error=function",
    "ssl_context": "write tls=millrace.TLS(context=...)",
    "progress": "write `for batch in tqdm(epoch)`: an epoch has a length",
    "loader": "say decode={part: function}",
    "resampled": "leave it out: an epoch has each sample once, and the next pass reads the next epoch",
    "shuffle_seed": "say seed=",
    **dict.fromkeys(("split", "train"), _PART),
    "target_transform": "say decode={part: function} for the part that holds the target",
    "transforms": "say decode={part: function}, or transform=",
    "weights": "give them as values of the mapping: mix({a: .7, b: .3})",
    "workers": "give it to the loader: millrace.torch.DataLoader(dataset, num_workers=...)",
}

HERE = {"timeout": "deadline"}
"""Words that stand for a parameter of the function itself, if it has that."""


def near(word: object, words: Sequence[str], mark: str = "") -> str:
    """Returns the question for the word that was probably meant; empty: none of the words is like it."""
    return "".join(f"did you mean {mark}{one}{mark}?" for one in get_close_matches(str(word), words, 1, 0.7))
