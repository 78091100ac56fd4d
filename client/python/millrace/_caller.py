"""Which loader calls a torch dataset, and what it wants.

torch's loaders do not say whether they make batches of the items they get. Accelerate's loaders do not say that they share samples out
among processes. The frames of the call show both. Forked workers keep the frames of their parent, so they see the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple, Optional

from torch.utils import data as torch_data
from torch.utils.data._utils.fetch import _BaseDatasetFetcher

USER, SAMPLES, BATCHES = "user", "samples", "batches"


class Request(NamedTuple):
    """What the caller of a dataset wants."""

    kind: str  # SAMPLES for a loader that makes batches of them; BATCHES for a loader that passes them on; USER for any other caller
    processes: int = 1  # how many processes the caller shares the samples out among; 1 means that it shares nothing out


def request_of_caller() -> Request:
    """Returns what the caller of the dataset's method wants. Call it in that method, __iter__ or __len__, and nowhere else."""
    frame = sys._getframe(2)
    while isinstance(frame.f_locals.get("self"), torch_data.ChainDataset) and frame.f_back is not None:
        frame = frame.f_back
    caller = frame.f_locals.get("self")
    if _is_shard(frame):
        kind = SAMPLES
    elif isinstance(caller, _BaseDatasetFetcher):
        kind = SAMPLES if caller.auto_collation else BATCHES
    elif isinstance(caller, torch_data.DataLoader) and frame.f_code.co_name == "__len__":
        kind = BATCHES if caller.batch_size is None else SAMPLES
    else:
        kind = USER
    return Request(kind, processes_of(frame))


def processes_of(frame: Optional[FrameType]) -> int:
    """Returns among how many processes a loader of Accelerate's, which has called this frame, shares samples out."""
    for found in _accelerate(frame):
        caller: Any = found.f_locals.get("self")
        if type(caller).__name__ == "DataLoaderDispatcher":
            return int(caller.state.num_processes)
        if _is_shard(found):
            return int(caller.num_processes)
    return 1


def caller_skips_batches() -> bool:
    """Tells whether the caller of set_epoch, which calls this function, is a loader that skip_first_batches of Accelerate has made.

    Until Accelerate 1.14 such a loader begins its pass by set_epoch(0), whatever epoch it resumes.
    """
    frames = _accelerate(sys._getframe(2))
    return any(f.f_code.co_name == "__iter__" and getattr(f.f_locals.get("self"), "skip_batches", 0) > 0 for f in frames)


_MODULES = ("accelerate.data_loader", "transformers.trainer_pt_utils")


def _accelerate(frame: Optional[FrameType]) -> Iterator[FrameType]:
    while frame is not None:
        if frame.f_globals.get("__name__") in _MODULES:
            yield frame
        frame = frame.f_back


def _is_shard(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") in _MODULES and type(frame.f_locals.get("self")).__name__ == "IterableDatasetShard"
