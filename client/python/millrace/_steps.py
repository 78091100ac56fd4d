"""The processing of a batch in the reader's threads: decode, filter, transform, collate, batch_transform, in this order.

_rng.Draws gives torch's random functions a generator per sample. Draws from Python's random and numpy.random cannot be redirected in a
single thread, so they are reported, as are draws of torch that bypass Draws.
"""

from __future__ import annotations

import logging
import random
import re
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Optional, Union
from weakref import ref

from ._process import import_whole
from ._selection import PICTURES, Contents
from .batch import Batch, Decoder, Sample
from .errors import InvalidArgument, MillraceError, SampleError, TransformError
from .values import Automatic

OnError = Union[str, Callable[[SampleError], Any]]
"""The action if a decoder, the filter or the transform fails for a sample.

"raise", "skip", or a function of the SampleError. Its result replaces the part's value, the filter's result or the transformed sample;
None omits the sample.
"""

_LOG = logging.getLogger("millrace")
_LINES = 10  # omitted samples that are logged individually; after these the 100th, the 1,000th and so on
# if this many samples fail with the same error before any succeeds, the error does not depend on single samples
_ALIKE = 8
# errors that usually affect every sample
_SLIPS = (KeyError, NameError, TypeError, AttributeError, ImportError)
_WATCHED = 32  # samples to watch: a function that draws from a shared generator usually does so for each
_SURE = 3  # this many draws at one line come from the function, and not from another thread
_INSTEAD = {"random": "sample.rng", "numpy.random": "sample.numpy_rng", "torch": "sample.rng"}


class Failures:
    """The handling of failed samples of one reader."""

    def __init__(self, function: Optional[Callable[[SampleError], Any]], *, silent: bool = False) -> None:
        """function returns a replacement for a failed value; None: samples are omitted. silent disables logging."""
        self._function, self._silent, self._left_out, self._through = function, silent, 0, False
        self._alike: dict[tuple[Any, ...], int] = {}

    @property
    def collects(self) -> bool:
        """Whether errors are added to a list or set of the user. Another process would only have a copy of it."""
        return isinstance(getattr(self._function, "__self__", None), (list, set, deque))

    def __call__(self, error: SampleError) -> Any:
        value = None if self._function is None else self._function(error)
        if value is None and not self._silent:
            self._left_out += 1
            if self._left_out <= _LINES:
                _LOG.warning("a sample is left out: %s", error.message)
            elif str(self._left_out).strip("0") == "1":
                _LOG.warning("%d samples were left out so far, the latest one is: %s", self._left_out, error.message)
        return value

    def check(self, batch: Batch, fail_too: Callable[[], bool]) -> None:
        """Raises the error if all first samples of a pass fail with it, and fail_too reports that samples throughout the epoch fail too."""
        self._through = self._through or self._silent or len(batch) > 0 or bool(batch._refused)
        if self._through or (self._function is not None and not self.collects):
            return
        for error in batch.failures:
            kind = error.step, error.part, type(error.__cause__)
            self._alike[kind] = self._alike.get(kind, 0) + 1
        count = sum(self._alike.values())
        self._through = count >= _ALIKE and (len(self._alike) > 1 or not fail_too())
        if count >= _ALIKE and not self._through:
            error = batch.failures[0]
            raise type(error)(error.message, cure=f"the first {count} samples all fail so: on_error is for single samples") from error.__cause__


def on_error_of(said: OnError) -> Optional[Failures]:
    """Returns the handler of a SampleError, or None if the error is raised."""
    return None if said == "raise" else Failures(said if callable(said) else None)


class Watch:
    """Warns once for each shared generator from which the functions of one epoch draw, and names the line that draws."""

    def __init__(self) -> None:
        self._left = _WATCHED
        self._suspects = False
        self._seen: Counter[tuple[str, str]] = Counter()
        self._reported: set[str] = set()

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Watches a call in this thread, for the first calls of an epoch.

        After a generator has changed, later calls are traced to find the line.
        """
        self._left -= 1
        if self._left < 0 or _in_later_worker():
            yield
            return
        # a debugger uses the trace function itself
        lines, traced = _Lines(), self._suspects and sys.gettrace() is None
        if traced:
            sys.settrace(lines.trace)
        try:
            with rng.Operators(lines.note_torch) if (rng := _rng()) else nullcontext():
                yield
        finally:
            if traced:
                sys.settrace(None)
            lines.look()
            self._suspects = self._suspects or bool(lines.moved)
            self._report(step, lines)

    def _report(self, step: str, lines: _Lines) -> None:
        self._seen.update(lines.moved)
        for name, line in lines.moved:
            if not line or name in self._reported or (name != "torch" and self._seen[name, line] < _SURE):
                continue
            self._reported.add(name)
            warnings.warn(
                f"{step} draws from the generator of {name} that all threads share ({line}): its numbers differ in every run; "
                f"draw from {_INSTEAD[name]} instead",
                stacklevel=2,
            )


class _Lines:
    """The lines of one call, and those that changed a shared generator."""

    def __init__(self) -> None:
        self.moved: set[tuple[str, str]] = set()
        """Names of generators, and the lines that changed them; empty: unknown."""
        self._libraries = _libraries()
        self._before = _states()
        self._line = ""

    def note_torch(self) -> None:
        """Records a draw from torch's generator in this thread."""
        self.moved.add(("torch", self._line_of(sys._getframe(1))))

    def look(self) -> None:
        """Records the generators that have changed since the last call."""
        before, self._before = self._before, _states()
        self.moved |= {(name, self._line) for name, state in self._before.items() if state != before.get(name, state)}

    def trace(self, frame: FrameType, event: str, _: object) -> Optional[Callable[..., Any]]:
        """Called for each line of the traced thread."""
        if frame.f_code.co_filename.startswith(self._libraries):
            return None
        self.look()
        self._line = self._line_of(frame.f_back if event == "return" else frame)
        return self.trace

    def _line_of(self, frame: Optional[FrameType]) -> str:
        while frame is not None and frame.f_code.co_filename.startswith(self._libraries):
            frame = frame.f_back
        return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}"


def _in_later_worker() -> bool:
    """Whether this is a worker of a loader, but not the first worker, which reports the same."""
    data = sys.modules.get("torch.utils.data")
    worker = data.get_worker_info() if data else None
    return worker is not None and worker.id > 0


def _states() -> dict[str, Any]:
    """Returns the states of Python's and NumPy's shared generators. torch's operators are intercepted instead: see _rng."""
    states: dict[str, Any] = {"random": random.getstate()}
    if numpy := sys.modules.get("numpy.random"):
        state = numpy.get_state(legacy=False)
        states["numpy.random"] = state["state"]["pos"], state["state"]["key"].tobytes(), state["has_gauss"]
    return states


def _rng() -> Any:
    """Returns the module of this package for torch's generators; None without torch."""
    return import_whole(f"{__package__}._rng") if "torch" in sys.modules else None


def _libraries() -> tuple[str, ...]:
    """Returns the files and folders that do not belong to the caller: those of the generators and of this package."""
    modules = (sys.modules.get(name) for name in ("numpy", "torch"))
    folders = [Path(m.__file__).parent for m in modules if m is not None and m.__file__]
    return random.__file__, *(f"{folder}/" for folder in (*folders, Path(__file__).parent))


def _run(step: str, function: Callable[[Sample], Any], sample: Sample, watch: Watch) -> Any:
    """Calls the reader's filter or transform, and adds the sample to an error. on_error has already seen a TransformError that this raises.
    """
    try:
        with watch.of(step):
            return function(sample)
    except Exception as e:
        # a DecodeError, or an error that does not depend on the sample
        if isinstance(e, MillraceError) and type(e) is not InvalidArgument:
            raise
        cure = _hint(step, sample, e) if isinstance(e, _SLIPS) else None
        error = TransformError(f"{step} {sample.batch.which(sample.index)}: {type(e).__name__}: {e}", cure=cure)
        error.__cause__ = e
    return sample.batch.instead(sample.index, error)


def _run_whole(step: str, function: Callable[[Any], Any], given: Any, batch: Batch, cure: str = "") -> Any:
    """Calls the reader's collate or batch_transform, and adds the batch to an error."""
    try:
        return function(given)
    except MillraceError:
        raise
    except Exception as e:
        raise InvalidArgument(f"{step} batch {batch.number} in epoch {batch.epoch}: {type(e).__name__}: {e}", cure=cure) from e


def _hint(step: str, sample: Sample, e: Exception) -> str:
    """Returns the likely mistake in a filter or transform. torchvision's errors name the type of the argument."""
    part = next((name for name in sample if name.rpartition(".")[2] in (*PICTURES, "bytes")), next(iter(sample), "NAME"))
    if "pic should be PIL Image" in str(e) and "Tensor" in str(e):
        return f"decoded pictures are uint8 tensors already: write s[{part!r}] / 255 in place of ToTensor"
    if re.search(r"\bSample\b", str(e)):
        how = f"give it s[{part!r}], as in {step}=lambda s: f(s[{part!r}]); its attributes are key, source, position, epoch and rng"
        return f"the {step} function is given a sample, which is a mapping of parts: {how}"
    return f"look at the {step} function: it does not fit the data, or has a slip"


@dataclass(frozen=True)
class Steps:
    """The steps of one reader. The batch itself decodes: see Batch.decoder."""

    decode: Mapping[str, Decoder] = field(default_factory=dict)
    automatic: Optional[Automatic] = None
    contents: Contents = field(default_factory=Contents)
    on_error: Optional[Failures] = None
    filter: Optional[Callable[[Sample], Any]] = None
    transform: Optional[Callable[[Sample], Any]] = None
    collate: Optional[Callable[[list[Any]], Any]] = None
    batch_transform: Optional[Callable[[Batch], Any]] = None
    keys: bool = False  # a sample that becomes a dict includes its name
    watch: Watch = field(default_factory=Watch, compare=False)

    def __bool__(self) -> bool:
        return bool(self.decode) or any(s is not None for s in (self.automatic, self.filter, self.transform, self.collate, self.batch_transform))

    @property
    def collects(self) -> bool:
        """Whether on_error adds errors to a list of the user."""
        return self.on_error is not None and self.on_error.collects

    def warn_of_copies(self) -> None:
        """Warns if errors go to a list, and this process is a worker with a copy of the list."""
        if self.collects:
            warnings.warn(
                "on_error= fills a copy of your list here, in a worker of this loader: the list itself stays empty; read with "
                "millrace.torch.DataLoader, or without workers",
                stacklevel=2,
            )

    def run(self, batch: Batch) -> None:
        """Runs all steps. A batch without remaining samples is not collated."""
        one_by_one = self.transform is not None or self.collate is not None
        if one_by_one or self.filter is not None:
            with rng.Draws() if (rng := _rng()) else nullcontext() as draws:
                values = self._samples(batch, draws)
                if batch.emptied:
                    return
                if one_by_one:
                    batch.value = self._together(batch, values, draws)
        # A batch_transform decodes parts on demand, unless all must be tried.
        if not one_by_one and (self.automatic is None or self.batch_transform is None or self.on_error is not None):
            batch.decode_all()
            if batch.emptied:
                return
        if self.batch_transform is not None:
            batch.value = _run_whole("batch_transform", self.batch_transform, batch, batch)

    def _samples(self, batch: Batch, draws: Any) -> list[Any]:
        """Filters and transforms the samples of a batch in order, and omits those that are rejected or fail."""
        batch.check_decoders()
        lost, refused, values, judged = set[int](), [], [], []
        kept: list[ref[Sample]] = []  # weak references, since samples hold their decoded parts
        for sample in batch:
            if draws is not None:
                draws.begin(sample)
            try:
                if self.filter is not None:
                    judged.append(_run("filter", self.filter, sample, self.watch))
                    if not judged[-1]:
                        refused.append(sample.index)
                        continue
                values.append(self._value(sample))
                kept.append(ref(sample))
            except SampleError:
                if self.on_error is None:
                    raise
                lost.add(sample.index)
        for step, returned in ("filter", judged), ("transform", values if self.transform is not None else []):
            if batch.number == 0 and len(returned) > 1 and all(value is None for value in returned) and not self.contents.missed:
                raise InvalidArgument(f"{step} returned None for all {len(returned)} samples of the first batch", cure="is a return missing?")
        batch.leave_out(lost, refused)
        for i, one in enumerate(kept):
            if (handed_on := one()) is not None:
                handed_on.index = i
        return values

    def _together(self, batch: Batch, values: list[Any], draws: Any) -> Any:
        """Collates the values of a batch. The values of an empty share stay a list, because collate functions require a sample."""
        if self.collate is None or not values:
            return values
        if draws is not None:
            draws.begin(batch[0], "/batch")
        with self.watch.of("collate"):
            cure = f"look at the collate function: it is given a list of {len(values)} values, of which the first is a {type(values[0]).__name__}"
            value = _run_whole("collate", self.collate, values, batch, cure)
        if value is None and batch.number == 0:
            raise InvalidArgument("collate returned None for the first batch", cure="is a return missing?")
        return value

    def _value(self, sample: Sample) -> Any:
        if self.transform is None and self.collate is None:
            sample.batch.keep(sample)
            return None
        value = sample if self.transform is None else _run("transform", self.transform, sample, self.watch)
        if isinstance(value, Sample):
            return value.plain(self.keys)
        return {**value, "__key__": sample.key} if self.keys and type(value) is dict else value
