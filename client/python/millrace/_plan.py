"""The parameters of a plan: written by go generate ./gateway/address."""

from dataclasses import dataclass
from typing import Optional

ORDER = ("seed", "shuffle", "window", "strata")
CHOICE = ("importance", "subset", "quarantine", "generation")
SHARING = ("batch_size", "tail", "bucket", "world_size", "balance", "micro", "share", "homes", "rank")
SHOWING = ("format", "fields", "table")
NUMBERS = {"window": 1, "strata": 0, "bucket": 1, "world_size": 1, "rank": 0, "micro": 1, "homes": 1}  # with the least value of each
WORDS = {"tail": ("short", "drop", "pad"), "by": ("contiguous", "locality")}
TEXTS = ("importance", "balance", "subset", "quarantine", "generation")


@dataclass(frozen=True, kw_only=True)
class Order:
    """Which samples an epoch has and in which order, in addition to `seed` and `shuffle`. None is the dataset's default.
    All values: https://github.com/millrace-data/millrace/blob/main/docs/api.md

    window      Chunks that shuffle="window" mixes together, or lanes of shuffle="slot", at most 1048576. Refused with none and full.
    strata      Strata that the chunks are dealt to, with shuffle="window": each row takes one chunk of each. A divisor of window; 0: none.
    importance  Snapshot of weights that an epoch's samples are drawn by: 64 hexadecimal digits.
    subset      Subset to deliver: its name in the generation's default split; DIGEST:NAME of another split; a split by hash and one of its parts,
                such as train=9,val=1:train, optionally with a colon and a salt; or samples: and numbers in stored order, such as samples:0-999. A
                tilde and another split or numbers select among the subset's samples.
    quarantine  Bad samples that healthy ones replace: the digest of a stored list, or samples: and numbers, such as samples:7,300-309.
    generation  Generation of the index to read, or its first 32 digits; for a mixture that the URL defines, those of its sources in order,
                separated by commas. All ranks of a job must use the same.
    """

    window: Optional[int] = None
    strata: Optional[int] = None
    importance: Optional[str] = None
    subset: Optional[str] = None
    quarantine: Optional[str] = None
    generation: Optional[str] = None


@dataclass(frozen=True, kw_only=True)
class Share:
    """This process's share of every global batch, and the handling of the last batch.

    tail        Samples that fill no batch at the end: "short" is a smaller last batch, "drop" leaves them out, "pad" repeats others.
    bucket      Batches of a block. The samples of a block are sorted by the costs of balance, by default their lengths, so that a batch has
                samples of similar cost. A block has at most 1048576 samples.
    world_size  ranks that share each batch (default 1)
    rank        Number of the rank, from 0 and below world_size. torch.Dataset finds it and world_size by itself: those of torch.distributed, else
                the environment's (torchrun, mpirun, srun). Elsewhere the default is 0 of 1. Give both or none.
    balance     samples: shares of equal numbers (default). bytes: shares of about equal size, by the lengths of the stored samples. cost:NAME:
                shares of about equal cost, by the cost table with this name or digest.
    micro       Micro-batches that the samples of a share are divided among by the costs of balance. A share has them one after another.
    by          "contiguous": a rank's samples follow each other in the batch (default); "locality": a rank gets the samples of the lanes or
                strata at home with its group, so that its gateway reads only their chunks.
    homes       With by="locality", how many groups the ranks form, such as the number of gateways: at most world_size, which is the default.
    """

    tail: Optional[str] = None
    bucket: Optional[int] = None
    world_size: Optional[int] = None
    rank: Optional[int] = None
    balance: Optional[str] = None
    micro: Optional[int] = None
    by: Optional[str] = None
    homes: Optional[int] = None
