"""Which rank this process is, and of how many."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Mapping
from typing import Optional

from ._http import Gateways
from .epoch import Plan
from .errors import InvalidArgument

_LOG = logging.getLogger("millrace")

VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun, Lightning, Accelerate
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # mpirun
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # srun; a batch script by itself has no step, and is one process
)


def find_ranks(environment: Optional[Mapping[str, str]] = None) -> tuple[int, int]:
    """Returns rank and world size: those of torch.distributed if it is initialized, else the environment's, else 0 and 1."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    given = os.environ if environment is None else environment
    for rank, world_size in VARIABLES:
        if world_size in given and rank in given:
            r, w = given[rank], given[world_size]
            if not (r.isdecimal() and w.isdecimal() and int(r) < int(w)):
                raise InvalidArgument(f"find the rank: {rank}={r} and {world_size}={w} are not a rank and a world size")
            return int(r), int(w)
    for rank, world_size in VARIABLES[:1]:
        # Half of them is a slip, and to read as if alone would have every rank read everything.
        if rank in given or given.get(world_size, "1") != "1":
            raise InvalidArgument(f"find the rank: of {rank} and {world_size} one is in the environment and the other is not")
    return 0, 1


def warn_of_uneven_shares(plan: Plan) -> None:
    """Warns where a full batch has more samples for one rank than for another, and where the last batch has none for some."""
    size, ranks = plan.batch_size, plan.world_size
    if size % ranks:
        shares = f"some get {size // ranks} samples of every batch, others {size // ranks + 1}; choose a global_batch_size that the ranks divide"
        warnings.warn(f"{ranks} ranks share a batch of {size} unevenly: {shares}", stacklevel=2)
    left = plan.delivered % size
    if 0 < left < ranks and plan.parameters.get("tail") != "pad":
        cure = 'millrace.Share(tail="pad") fills the batch with repeated samples, tail="drop" leaves it out'
        warnings.warn(f"the last batch has {left} samples for {ranks} ranks, so {ranks - left} get empty tensors; {cure}", stacklevel=2)


def advise_homes(core: Gateways, plan: Plan) -> None:
    """Tells a job whose ranks read through a list of gateways, or a pattern, what homes would save: rank 0 once, if its order has homes.

    A client cannot see whether the gateways are one cluster.
    """
    given = plan.parameters
    several = 1 < core.listed <= plan.world_size
    chosen = "share" in given or given.get("balance") == "bytes"
    homes = given.get("shuffle") == "slot" or "strata" in given
    if several and homes and not chosen and plan.rank == 0 and not core.advised:
        core.advised = True
        _LOG.warning(
            "%s: each of the %d gateways reads the whole dataset from the store, unless they are a cluster: with "
            "millrace.Routing(home='rank') for the client, and "
            "millrace.Share(by='locality', homes=%d) for its epochs, they read it once together", plan.dataset, core.listed, core.listed,
        )  # fmt: skip
