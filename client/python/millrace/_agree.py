"""One generation for all ranks of a job."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Optional

from .errors import InvalidArgument

ASK = "give all ranks the same order=millrace.Order(generation=...): rank 0 asks client.describe()['generation'] and tells the others"
AGREE = f"call torch.distributed.init_process_group before the dataset is made, or {ASK}"


def refuse(about: Mapping[str, Any], rank: int, world_size: int, cure: str = ASK) -> None:
    """Refuses to read for one of several ranks that names no generation, where ranks could get different ones.

    about is what a gateway says of the dataset.
    """
    if world_size > 1 and about.get("follows") is True:
        raise InvalidArgument(
            f"read dataset {about.get('name')}: rank {rank} of {world_size} names no generation, and the gateways move to new ones by "
            f"themselves, so ranks could read different ones; now it is {about.get('generation')}",
            cure=cure,
        )


def agree(dataset: str, generation: str) -> Optional[str]:
    """Has all processes of torch.distributed take one generation of a dataset: the one that the first of them asks with.

    Returns None if torch.distributed is not initialized, or has no store to agree by. The store is asked rather than the group: a
    broadcast would hang where not every process makes the dataset, and wants a GPU of its own for each.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    store = distributed.distributed_c10d._get_default_store()
    if store is None or type(store) is distributed.Store:  # MPI has none, or an empty one in torch 2
        return None
    agreed: bytes = store.compare_set(f"millrace/generation/{dataset}", "", generation)
    return agreed.decode()


def settle(about: Mapping[str, Any], given: Optional[str]) -> tuple[str, Optional[Mapping[str, Any]]]:
    """Returns the generation to read, and what the gateway said of the dataset if other ranks may have another one."""
    if given is not None:
        return given, None
    present = str(about["generation"])
    data = sys.modules.get("torch.utils.data")
    in_worker = data is not None and data.get_worker_info() is not None  # a forked one would share the store's connection with its parent
    agreed = None if in_worker else agree(str(about["name"]), present)
    if agreed is not None:
        return agreed, None
    return present, about if about.get("follows") is True else None
