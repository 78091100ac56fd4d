"""Who asks a torch dataset for its items or its length.

torch's loaders do not say whether they make batches of what they get, and Accelerate does not say that it shares samples out among
processes. The frames of the calls tell both, in forked workers too, which keep the frames of their parent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple, Optional

from torch.utils import data as torch_data
from torch.utils.data._utils.fetch import _BaseDatasetFetcher

USER, SAMPLES, BATCHES = "user", "samples", "batches"


class Asked(NamedTuple):
    """What a dataset is asked for."""

    kind: str  # SAMPLES of which a loader makes batches, BATCHES that a loader passes on, or what a USER wants
    processes: int  # that the asker shares samples out among; 1: it does not


def asked() -> Asked:
    """Tells who calls the method of the dataset that calls this function: its __iter__ or its __len__."""
    frame = sys._getframe(2)
    asker = frame.f_locals.get("self")
    if _shares(frame):
        kind = SAMPLES
    elif isinstance(asker, _BaseDatasetFetcher):
        kind = SAMPLES if asker.auto_collation else BATCHES
    elif isinstance(asker, torch_data.DataLoader) and frame.f_code.co_name == "__len__":
        kind = BATCHES if asker.batch_size is None else SAMPLES
    else:
        kind = USER
    return Asked(kind, shared_out(frame))


def shared_out(frame: Optional[FrameType]) -> int:
    """Among how many processes those share samples out that this frame works for."""
    for found in _accelerate(frame):
        asker: Any = found.f_locals.get("self")
        if type(asker).__name__ == "DataLoaderDispatcher":
            return int(asker.state.num_processes)
        if _shares(found):
            return int(asker.num_processes)
    return 1


def skips_batches() -> bool:
    """Whether set_epoch, which calls this function, is called by a loader that Accelerate's skip_first_batches has made, as it begins a pass.

    Such a loader counts its passes from 0, whatever the epoch is that it goes on with.
    """
    frames = _accelerate(sys._getframe(2))
    return any(f.f_code.co_name == "__iter__" and getattr(f.f_locals.get("self"), "skip_batches", 0) > 0 for f in frames)


def _accelerate(frame: Optional[FrameType]) -> Iterator[FrameType]:
    while frame is not None:
        if frame.f_globals.get("__name__") in _SHARERS:
            yield frame
        frame = frame.f_back


_SHARERS = ("accelerate.data_loader", "transformers.trainer_pt_utils")


def _shares(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") in _SHARERS and type(frame.f_locals.get("self")).__name__ == "IterableDatasetShard"
