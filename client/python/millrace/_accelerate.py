"""What Accelerate says of itself, where a program uses it: how many processes it runs, and which of its loaders is being read."""

from __future__ import annotations

import sys
from typing import Any, Optional


def _state() -> Any:
    """Returns the module of Accelerate's state; None: no Accelerator was made."""
    state: Any = sys.modules.get("accelerate.state")
    return state if state is not None and state.is_initialized() else None


def processes_of_accelerate() -> int:
    """Returns how many processes share samples out among themselves; 1 without Accelerate."""
    state = _state()
    return int(state.PartialState().num_processes) if state else 1


def loader_of(dataset: Any) -> Optional[Any]:
    """Returns the loader, prepared by Accelerate, that is being iterated over dataset, or over a part or a chain of it."""
    if (state := _state()) is None:
        return None
    loaders = [loader for loader in state.GradientState().dataloader_references if loader is not None]
    return next((loader for loader in reversed(loaders) if _holds(loader.dataset, dataset)), None)


def _holds(read: Any, dataset: Any) -> bool:
    inner = [*getattr(read, "datasets", ()), *([read.dataset] if hasattr(read, "dataset") else [])]
    return read is dataset or any(_holds(one, dataset) for one in inner)
