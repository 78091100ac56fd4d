"""Columns of a batch: tensors of decoded parts and of stacked samples."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple, Optional

import torch
from torch.utils import data as torch_data

from .._process import LARGE, filled, own
from ..batch import Batch, Sample
from ..errors import InvalidArgument, SampleError
from ..values import Automatic, library

# torch before 2.3 has no unsigned integers larger than uint8
_WIDER = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}


class Parcel(NamedTuple):
    """A batch for this package's DataLoader, which counts it.

    It may have no remaining samples, errors for a list of the main process, or positions for a ledger.
    """

    value: Any
    emptied: bool
    failures: list[SampleError]
    omitted: tuple[list[int], ...]


def as_tensor(value: Any) -> Any:
    """Returns an image as a tensor of bands x height x width, like torchvision's pil_to_tensor, and an array as a tensor of its shape.

    Images with 8-bit bands are uint8. Unsigned integers of 16 bits become int32, those of 32 and 64 bits int64. Arrays of times or text
    stay arrays, since torch has no such tensors.
    """
    np = library("numpy", "numpy")
    if not isinstance(value, np.ndarray):
        height_width_bands = (value.height, value.width, len(value.getbands()))
        return as_tensor(np.array(value)).view(height_width_bands).permute(2, 0, 1)
    if value.dtype.kind not in "biufc":
        return value
    native = value.dtype.newbyteorder("=")
    if native == np.uint64 and value.size and value.max() >= 1 << 63:
        raise ValueError(f"{value.max()} is too large for torch's integers")
    return torch.from_numpy(np.ascontiguousarray(value, _WIDER.get(native.name, native)).reshape(value.shape))


def gives_views(decode: Any, *functions: Optional[Callable[..., Any]]) -> bool:
    """Whether functions outside this package receive views of batches: a decoder, or one of the others."""
    given = decode.values() if isinstance(decode, Mapping) else ()
    return any(f not in (int, float, str, bytes) for f in given) or any(f is not None for f in functions)


def allow_read_only() -> None:
    """Suppresses torch's warning about tensors over read-only memory."""
    warnings.filterwarnings("ignore", "The given (buffer|NumPy array) is not writ", UserWarning)


AUTOMATIC = Automatic(finish=as_tensor)
"""Finds a decoder for each part, and converts images and arrays to tensors."""


def collate_columns(batch: Batch, *, keys: bool = False, totals: bool = False) -> Any:
    """Returns the columns of a batch, like a Dataset without collate and batch_transform: tensors if values can be stacked, lists
    otherwise.

    Tensors, NumPy arrays and numbers are stacked like torch's default_collate; other values are a list, and a part without a decoder is a
    list of bytes. The columns are a dict, unless transform determines their structure: a dict for dicts, a tuple for tuples, otherwise one
    column. keys adds the names of the samples to the dict as "__key__".

    totals adds what weights a loss, and divides it into micro-batches: "__batch_samples__", the number of samples of the global batch;
    "__batch_cost__", the sum of their costs, None without `balance`; and "__micro__", the number of samples of each micro-batch.
    """
    if not issubclass(type(batch), Batch):
        cure = "loaders of others yield no Batch: say reading=millrace.Reading(batch_transform=millrace.torch.collate_columns)"
        raise InvalidArgument(f"collate columns: got {type(batch).__name__}, want a Batch", cure=cure)
    if batch.value is not None:
        return with_more(collate_samples(batch), batch, keys=keys, totals=totals)
    out: dict[str, Any] = {}
    names = list(batch[0]) if len(batch) else []
    for sample in batch:
        if sample.keys() != set(names):
            one, other = (", ".join(map(repr, parts)) or "no parts" for parts in (names, sample))
            raise InvalidArgument(
                f"collate {batch.which(0)}: it has {one}, and {batch.which(sample.index)} has {other}",
                cure='name parts that all samples have with fields=, of folders of pictures one name for all (fields="jpg,cls"), or give transform',
            )
    for name in names:
        column, what = batch[name], f"part {name} of batch {batch.number} of epoch {batch.epoch}"
        out[name] = column if isinstance(column, torch.Tensor) else _stack(batch, what, [own(v) for v in column], name)
    return with_more(out, batch, keys=keys, totals=totals)


def with_more(columns: Any, batch: Batch, *, keys: bool = False, totals: bool = False) -> Any:
    """Adds keys and totals to the columns of a batch, as collate_columns does. Raises InvalidArgument if the columns are no dict."""
    more = {**({"__key__": list(batch.keys)} if keys else {}), **(_totals(batch) if totals else {})}
    if isinstance(columns, MutableMapping):
        columns.update(more)
    elif more and len(batch):  # without_rows replaces the list of an empty share
        cure = "return a dict, with sample.key in place of keys=True; or leave out keys and totals"
        raise InvalidArgument(f"add {', '.join(more)}: your function returned {_words(columns)}, want a dict", cure=cure)
    return columns


def build(batch: Batch, *, make: Callable[[Batch], Any], totals: bool) -> Any:
    """Converts a batch to the value that a dataset yields. It is the last step in the reader's threads."""
    value = with_more(make(batch), batch, totals=totals)
    if not isinstance(value, (Batch, Sample)):
        batch.forget_decoded()  # otherwise a waiting batch would hold its data twice
    return value


def _totals(batch: Batch) -> dict[str, Any]:
    return {"__batch_samples__": batch.batch_samples, "__batch_cost__": batch.batch_cost, "__micro__": tuple(batch.micro)}


def micro_batches(batch: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the micro-batches of a batch that was read with `Reading(totals=True)`: slices of its columns, without copies.

    A micro-batch may be empty. Its "__batch_samples__" and "__batch_cost__" are those of the global batch. Raises InvalidArgument for a
    batch without totals.
    """
    if not isinstance(batch, Mapping) or "__micro__" not in batch:
        raise InvalidArgument("divide a batch into micro-batches: it has no __micro__", cure="read it with millrace.Reading(totals=True)")
    for first, end in itertools.pairwise([0, *itertools.accumulate(batch["__micro__"])]):
        yield _rows(batch, slice(first, end))


def columns_alone(batch: Batch, **more: bool) -> Any:
    """Builds the columns of a batch and frees its bytes, so that a batch that waits for the trainer holds only its columns."""
    columns = collate_columns(batch, **more)
    batch.let_go()
    return columns


def stack_as_they_come(take: Callable[[int], memoryview], n: int, values: Iterator[Any]) -> Any:
    """Stacks tensors as they are decoded, and frees each one. A thread then needs memory for only one sample in addition to the batch's.

    Returns a list if values are not tensors or differ, which _stack then reports.
    """
    first = next(values, None)
    if type(first) is not torch.Tensor or first.requires_grad or first.layout is not torch.strided or first.device.type != "cpu":
        return [first, *values] if n else []
    shape = (n, *first.shape)
    size = n * first.nelement() * first.element_size()
    # allocated in shared memory for the main process, because share_memory_ would copy it
    if torch_data.get_worker_info() is not None:
        out = torch.empty(0, dtype=first.dtype).set_(torch.UntypedStorage._new_shared(size), 0, shape)
    elif size < LARGE:
        out = torch.empty(shape, dtype=first.dtype)
    else:
        out = torch.frombuffer(take(size), dtype=first.dtype).view(shape)
    alike = type(first), first.shape, first.dtype
    return filled(out, first, values, lambda value: (type(value), getattr(value, "shape", None), getattr(value, "dtype", None)) == alike)


def collate_samples(batch: Batch) -> Any:
    """Combines the results of transform for the samples of a batch: dicts to a dict, tuples to a tuple, other values to one column."""
    values = batch.value
    first = values[0] if values else {}
    odd = next((i for i, value in enumerate(values) if _form(value) != _form(first)), None)
    if odd is not None:
        raise InvalidArgument(
            f"collate {batch.which(0)}: transform returned {_words(first)}, and of {batch.which(odd)} {_words(values[odd])}",
            cure="have it return the same names, or as many values, for all samples; or give collate",
        )
    if isinstance(first, Mapping):
        return {name: _stack(batch, f"{name!r} of transformed samples", [v[name] for v in values]) for name in first}
    if isinstance(first, tuple):
        return tuple(_stack(batch, f"element {i} of transformed samples", list(column)) for i, column in enumerate(zip(*values)))
    return _stack(batch, "transformed samples", values)


def _form(value: Any) -> Any:
    """Returns the common structure of transformed samples: the names of dicts, the length of tuples; None for other values."""
    return value.keys() if isinstance(value, Mapping) else len(value) if isinstance(value, tuple) else None


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(repr, value)) or 'nothing'}"
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"


def _cure_of_shapes(shapes: list[tuple[int, ...]], part: str) -> str:
    """Returns a remedy that makes the shapes equal. part is empty if a transform made the values."""
    if any(len(shape) != 3 for shape in shapes):
        return "make them alike in transform=, by cutting or padding; or give collate"
    if len({shape[1:] for shape in shapes}) == 1:
        return (
            "some pictures are gray or have alpha: have transform call image.expand(3, -1, -1) of a gray one and image[:3] of one with alpha, "
            "or a decoder convert('RGB')"
        )
    resize = f"torchvision.transforms.functional.resize(s[{part!r}], [224, 224])"
    alike = f"make them alike: transform=lambda s: {{**s, {part!r}: {resize}}}" if part else "have transform resize them"
    return f"{alike}; or give collate"


def _stack(batch: Batch, what: str, values: list[Any], part: str = "") -> Any:
    """Stacks tensors and numbers; other values stay a list. part names the part from which they were decoded."""
    first = next((value for value in values if value is not None), None)
    if not (isinstance(first, (torch.Tensor, int, float)) or type(first).__module__ == "numpy"):
        return values
    if nulls := sum(value is None for value in values):
        raise InvalidArgument(
            f"stack {what}: {nulls} of {len(values)} values are null, and a tensor has no place for them",
            cure="leave these samples out (reading=millrace.Reading(filter=lambda sample: sample[NAME] is not None)), or have transform put "
            "another value there",
        )
    at = {tuple(value.shape): i for i, value in reversed(list(enumerate(values))) if hasattr(value, "shape")}
    shapes = sorted(at, key=at.__getitem__)
    if len(shapes) > 1:
        raise InvalidArgument(
            f"stack {what}: the values have {len(shapes)} shapes, {shapes[0]} and {shapes[1]} among them, that of {batch.which(at[shapes[1]])}",
            cure=_cure_of_shapes(shapes, part),
        )
    try:
        return torch_data.default_collate(values)
    except (RuntimeError, TypeError) as e:
        raise InvalidArgument(f"stack {what}: {e}", cure="have the decoder or transform make values of one type, or give collate") from e


def without_rows(value: Any, batch: Batch) -> Any:
    """Returns the value of an empty batch: columns of the same types as those of another one, without rows."""
    columns = _rows(value, slice(0))
    if isinstance(columns, MutableMapping) and "__micro__" in columns:
        columns.update(_totals(batch))
    return columns


def _rows(value: Any, part: slice) -> Any:
    """Returns some rows of columns, of the same types. Values that are not columns are unchanged."""
    if isinstance(value, MutableMapping):
        columns = copy.copy(value)
        columns.update({name: _rows(column, part) for name, column in value.items()})
        return columns
    if isinstance(value, tuple):
        cut = (_rows(column, part) for column in value)
        return type(value)(*cut) if hasattr(value, "_fields") else tuple(cut)
    if isinstance(value, list):  # a column, or columns that default_collate has made from tuples
        return [_rows(column, part) for column in value] if any(isinstance(column, torch.Tensor) for column in value) else value[part]
    return value[part] if getattr(value, "shape", ()) else value
