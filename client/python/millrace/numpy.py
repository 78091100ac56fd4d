"""Batches as arrays of NumPy. Importing this module imports numpy; importing millrace does not.

    for batch in millrace.numpy.epoch("./photos", 0, global_batch_size=256):
        images, labels = batch["jpg"], batch["cls"]     # uint8 (256, height, width, bands); int64 (256,)

Tokens and records need no decoding: `array` returns them without a copy.

    for batch in client.epoch(0, reading=millrace.Reading(form="npy")):
        tokens = millrace.numpy.array(batch)            # (samples, sequence_length + 1)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional, Union

from ._layout import ArrayHeader
from ._parameters import TORCH_ONLY, Decode, EpochOptions, checked, flat
from ._process import LARGE, filled
from .batch import Batch
from .client import Origin, client_of
from .epoch import Epoch
from .errors import InvalidArgument
from .values import Automatic

try:
    import numpy as np
except ImportError as e:
    raise ImportError("millrace.numpy needs numpy, which is not installed: pip install 'millrace-data[numpy]'") from e

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["array", "as_array", "epoch"]


def as_array(value: Any) -> Any:
    """Returns a Pillow image as an array of height x width x bands, with uint8 for 8-bit bands. An array is returned unchanged."""
    if isinstance(value, np.ndarray):
        return value
    image = np.asarray(value)
    return image if image.ndim == 3 else image[..., np.newaxis]


def _stack(take: Callable[[int], memoryview], n: int, values: Iterator[Any]) -> Any:
    """Combines arrays or numbers into one array. Other values, and arrays of different shape or type, become a list."""
    first = next(values, None)
    if isinstance(first, np.ndarray):
        shape, size = (n, *first.shape), n * first.nbytes
        out = np.empty(shape, first.dtype) if size < LARGE else np.frombuffer(take(size), first.dtype).reshape(shape)
        return filled(out, first, values, lambda v: isinstance(v, np.ndarray) and (v.shape, v.dtype) == (first.shape, first.dtype))
    column = [first, *values] if n else []
    numbers = np.array(column) if n and all(isinstance(v, (int, float, np.number)) for v in column) else None
    return column if numbers is None or numbers.dtype == object else numbers


@checked(EpochOptions, unfit=TORCH_ONLY)
def epoch(
    source: Origin, number: Union[int, Mapping[str, Any]], *, dataset: Optional[str] = None, decode: Decode = True, **options: Unpack[EpochOptions],
) -> Epoch:
    """Opens an epoch whose batches have columns of arrays, for a Client or an argument of millrace.open. Options are those of Client.epoch.

    `batch["jpg"]` is an array whose first axis is the batch. For images its shape is samples x height x width x bands, with uint8 for 8-bit
    bands; for arrays of equal shape samples x shape, in their own type; for numbers samples. Values of different shapes, text and bytes are
    lists. Parts are decoded automatically, unless decode names their decoders; `decode=False` returns bytes.
    """
    automatic = Automatic(finish=as_array) if decode is True else decode
    return replace(client_of(source)._epoch(number, decode=automatic, **flat({**options, "dataset": dataset})), gather=_stack)


def array(batch: Batch, dtype: Any = None, shape: Optional[Sequence[int]] = None) -> np.ndarray[Any, Any]:
    """Returns a batch as one array, whose first axis is the samples.

    A batch in the form `npy` contains type and shape. Without `form`, pass the dtype of an element and, if samples have more than one axis,
    their shape. All samples must have the same length.
    """
    layout = batch.layout
    if isinstance(layout, ArrayHeader):
        rows: np.ndarray[Any, Any] = np.frombuffer(batch.data, dtype=np.dtype(_descr(layout.dtype))).reshape(layout.shape)
        return rows if dtype is None else rows.view(dtype)
    if dtype is None:
        raise InvalidArgument('array: give a dtype, or open the epoch with reading=millrace.Reading(form="npy")')
    kind, n = np.dtype(dtype), len(batch)
    axes = tuple(shape) if shape is not None else (-1,)
    if n == 0:
        return np.empty((0, *(0 if a < 0 else a for a in axes)), kind)
    bounds = batch.table.bounds
    if [b - a for a, b in itertools.pairwise(bounds)] != [bounds[1] - bounds[0]] * n:
        raise InvalidArgument("array: the samples differ in length")
    return np.frombuffer(batch.data[bounds[0] : bounds[-1]], dtype=kind).reshape(n, *axes)


def _descr(descr: Any) -> Any:
    """Returns the dtype of a header. NumPy requires fields of a record as tuples, which a header may contain as lists."""
    return [tuple(f) for f in descr] if isinstance(descr, list) else descr
