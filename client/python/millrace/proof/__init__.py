"""The order of an epoch, computed without a gateway and equal to the gateway's.

It is a public format, version 1, which never changes: https://github.com/millrace-data/millrace/blob/main/docs/order.md. What is needed are
the sample counts of the chunks, the shuffle, its window and the seed, as a plan has them (`Epoch.plan.parameters`):

    from millrace import proof

    epoch = proof.shuffle("slot", [3, 0, 5, 2, 4], window=2, seed=42, epoch=0)
    epoch.at(0)         # 5: the sample at position 0, numbered in stored order
    epoch.position(5)   # 0
"""

from ..ledger import Ledger
from ._generator import draw, key, perm, shuffled, word
from ._selections import Mixture, Quarantine, shard_part, subset_counts, subset_part
from ._shares import batches, deal, deal_homes, order_digest, share
from ._shuffles import Full, Homes, Importance, Order, Slot, Stored, Window, shuffle

__all__ = [
    "Full",
    "Homes",
    "Importance",
    "Ledger",
    "Mixture",
    "Order",
    "Quarantine",
    "Slot",
    "Stored",
    "Window",
    "batches",
    "deal",
    "deal_homes",
    "draw",
    "key",
    "order_digest",
    "perm",
    "shard_part",
    "share",
    "shuffle",
    "shuffled",
    "subset_counts",
    "subset_part",
    "word",
]
