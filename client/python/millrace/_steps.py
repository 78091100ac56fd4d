"""What becomes of a batch in the reader's threads: decode, filter, transform, collate, batch_transform, in this order."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

from .batch import Batch, Decoder, Sample
from .decode import Automatic
from .errors import InvalidArgument, MillraceError, SampleError, TransformError

OnError = Union[str, Callable[[SampleError], Any]]
"""What is done about a sample at which a decoder, the filter or the transform fails.

"raise", "skip", or a function of the SampleError: what it returns stands in place of the part's value, the filter's answer or the transformed
sample, and None leaves the sample out.
"""

_LOG = logging.getLogger("millrace")


def _skip(error: SampleError) -> None:
    _LOG.warning("a sample is left out: %s", error.message)


def on_error_of(said: OnError) -> Optional[Callable[[SampleError], Any]]:
    """Returns the function that is asked about a SampleError; None: it is raised."""
    if callable(said):
        return said
    if said not in ("raise", "skip"):
        raise InvalidArgument(f"on_error {said!r}: want 'raise', 'skip' or a function")
    return _skip if said == "skip" else None


def _run(step: str, function: Callable[[Sample], Any], sample: Sample) -> Any:
    """Calls the reader's filter or transform, and says which sample failed. A TransformError that it raises was shown to on_error."""
    try:
        return function(sample)
    except Exception as e:
        if isinstance(e, MillraceError) and type(e) is not InvalidArgument:  # a DecodeError, or no fault of the sample's
            raise
        error = TransformError(f"{step} {sample.batch.which(sample.index)}: {type(e).__name__}: {e}")
        error.__cause__ = e
    return sample.batch.instead(error)


@dataclass(frozen=True)
class Steps:
    """The steps of one reader. Decoding is the batch's own: see Batch.decoder."""

    decode: Mapping[str, Decoder] = field(default_factory=dict)
    automatic: Optional[Automatic] = None
    on_error: Optional[Callable[[SampleError], Any]] = None
    filter: Optional[Callable[[Sample], Any]] = None
    transform: Optional[Callable[[Sample], Any]] = None
    collate: Optional[Callable[[list[Any]], Any]] = None
    batch_transform: Optional[Callable[[Batch], Any]] = None
    keys: bool = False  # a sample that becomes a dict has its name in it

    def __bool__(self) -> bool:
        return bool(self.decode) or any(s is not None for s in (self.automatic, self.filter, self.transform, self.collate, self.batch_transform))

    def run(self, batch: Batch) -> None:
        """Takes all steps. Of a batch that has lost all its samples nothing is collated."""
        one_by_one = self.transform is not None or self.collate is not None
        if one_by_one or self.filter is not None:
            values = self._samples(batch)
            if batch.emptied:
                return
            if one_by_one:
                batch.value = values if self.collate is None else self.collate(values)
        # A batch_transform has parts decoded as it asks for them, unless all have to be tried.
        if not one_by_one and (self.automatic is None or self.batch_transform is None or self.on_error is not None):
            batch.decode_all()
            if batch.emptied:
                return
        if self.batch_transform is not None:
            batch.value = self.batch_transform(batch)

    def _samples(self, batch: Batch) -> list[Any]:
        """Filters and transforms the samples of a batch, one after another, and leaves out those that are refused or fail."""
        batch.check_decoders()
        lost, refused, kept, values = set[int](), [], [], []
        for sample in batch:
            try:
                if self.filter is not None and not _run("filter", self.filter, sample):
                    refused.append(sample.index)
                else:
                    values.append(self._value(sample))
                    kept.append(sample)
            except SampleError:
                if self.on_error is None:
                    raise
                lost.add(sample.index)
        batch.leave_out(lost, refused)
        for i, sample in enumerate(kept):  # a transform may have handed it on
            sample.index = i
        return values

    def _value(self, sample: Sample) -> Any:
        if self.transform is None and self.collate is None:
            sample.batch.keep(sample)
            return None
        value = sample if self.transform is None else _run("transform", self.transform, sample)
        return value.plain(self.keys) if isinstance(value, Sample) else value
