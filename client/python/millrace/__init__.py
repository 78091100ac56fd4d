"""Reads shuffled training batches from Millrace gateways. Standard library only.

    import millrace

    with millrace.Client("http://gateway:8080", dataset="photos") as client:
        for batch in client.epoch(0, global_batch_size=256, decode={"cls": int}):
            images, labels = batch["jpg"], batch["cls"]

The bytes of a batch depend only on the index generation, the plan, the epoch and the batch number. Gateways keep no state per reader: a
request may go to any gateway and be retried at another, and a job resumes from 140 bytes of JSON.
"""

from ._http import TLS, Routing
from ._job import Plan
from ._parameters import Order, Reading, Share
from ._pool import Stats
from ._version import __version__
from .batch import Batch, Sample
from .client import Client, class_names
from .client import open as open
from .epoch import Epoch, Ledger, Reader
from .errors import GatewayUnavailable, InvalidArgument, MillraceError, NotFound, SampleError
from .source import View, mix
from .values import decoders, load_json

__all__ = [  # excludes open, so that `import *` does not shadow the built-in
    "TLS", "Batch", "Client", "Epoch", "GatewayUnavailable", "InvalidArgument", "Ledger", "MillraceError", "NotFound", "Order",
    "Plan", "Reader", "Reading", "Routing", "Sample", "SampleError", "Share", "Stats", "View", "__version__", "class_names",
    "decoders", "load_json", "mix",
]  # fmt: skip
