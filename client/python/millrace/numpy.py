"""Batches of token and fixed-record datasets as arrays, without a copy. Needs NumPy (`pip install 'millrace-data[numpy]'`).

    epoch = client.epoch(0, form="npy")
    for batch in epoch:
        tokens = millrace.numpy.array(batch)     # (samples, sequence_length + 1)

An array is a view of the batch's bytes: it may be written to, and keeps them in memory. JAX and PyTorch take it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ._npy import ArrayTable
from .batch import Batch
from .errors import InvalidArgument


def array(batch: Batch, dtype: Any = None, shape: Optional[Sequence[int]] = None, *, part: Optional[str] = None) -> np.ndarray[Any, Any]:
    """Returns a batch as one array, its first axis the samples.

    A batch in the form `npy` says type and shape itself. For any other form give the dtype of an element and, if samples have
    more than one axis, their shape; all samples, or all contents of `part`, must be of one length. Parts do not follow
    each other in a batch and are copied.
    """
    table = batch.table
    if isinstance(table, ArrayTable):
        rows: np.ndarray[Any, Any] = np.frombuffer(batch.data, dtype=np.dtype(_descr(table.dtype))).reshape(table.shape)
        return rows if dtype is None else rows.view(dtype)
    if dtype is None:
        raise InvalidArgument('array: give a dtype, or open the epoch with form="npy"')
    kind, n = np.dtype(dtype), len(batch)
    axes = tuple(shape) if shape is not None else (-1,)
    if n == 0:
        return np.empty((0, *(0 if a < 0 else a for a in axes)), kind)
    if part is None:
        bounds = table.bounds
        size = bounds[1] - bounds[0]
        if bounds[-1] - bounds[0] == n * size and all(b - a == size for a, b in zip(bounds, bounds[1:])):
            return np.frombuffer(batch.data[bounds[0] : bounds[-1]], dtype=kind).reshape(n, *axes)
        raise InvalidArgument("array: the samples differ in length")
    views = batch.raw(part)
    if any(len(v) != len(views[0]) for v in views):
        raise InvalidArgument(f"array: the parts {part!r} differ in length")
    return np.stack([np.frombuffer(v, dtype=kind).reshape(axes) for v in views])


def _descr(descr: Any) -> Any:
    """The dtype of a header: fields of a record are tuples, which a header may spell as lists."""
    return [tuple(f) for f in descr] if isinstance(descr, list) else descr
