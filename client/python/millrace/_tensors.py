"""Tensors of the images and arrays that parts are decoded to."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Callable, Optional

import torch
from torch.overrides import TorchFunctionMode

from .batch import Sample
from .decode import Automatic, library

_WIDER = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}  # torch before 2.3 has no larger unsigned integers than uint8


def as_tensor(value: Any) -> Any:
    """Returns an image as a tensor of bands x height x width, as torchvision's pil_to_tensor, and an array as one of its shape.

    Images of 8 bits a band are uint8. Unsigned integers of 16 bits become int32, those of 32 and 64 bits int64. Arrays of times or text
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
    """Whether a function that is not this package's own is given views of batches: a decoder, or one of the others."""
    given = decode.values() if isinstance(decode, Mapping) else ()
    return any(f not in (int, float, str, bytes) for f in given) or any(f is not None for f in functions)


def allow_read_only() -> None:
    """Has torch say nothing when a tensor is made over memory that cannot be written."""
    warnings.filterwarnings("ignore", "The given (buffer|NumPy array) is not writ", UserWarning)


AUTOMATIC = Automatic(finish=as_tensor)
"""What finds a decoder for each part, and makes tensors of images and arrays."""

_OF_TENSORS = ("bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial", "normal_", "random_", "uniform_")
_LIKE = {torch.rand_like: torch.Tensor.uniform_, torch.randn_like: torch.Tensor.normal_}  # which take no generator
_DRAWING = {
    *_LIKE,
    *(getattr(torch, name) for name in ("bernoulli", "multinomial", "normal", "poisson", "rand", "randint", "randn", "randperm")),
    *(getattr(torch.Tensor, name) for name in _OF_TENSORS),
}


class Draws(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
    """Has torch's random functions draw from a generator of the sample's own, in the thread that enters this.

    torch's own generator is one for all threads, the training loop's among them: what a transform drew from it would be different in each
    run. torchvision's transforms draw by these functions alone. A generator that is given, and devices other than the CPU, stay.
    """

    _generator: Optional[torch.Generator] = None

    def begin(self, sample: Sample, more: str = "") -> None:
        """Has what follows draw for a sample."""
        self._sample, self._more, self._generator = sample, more, None

    def _own(self) -> Any:
        if self._generator is None:
            self._generator = torch.Generator()
            self._generator.manual_seed(self._sample.seed("/torch" + self._more) >> 65)
        return self._generator

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function of torch's."""
        kwargs = kwargs or {}
        if func not in _DRAWING or kwargs.get("generator") is not None or not _on_cpu(args, kwargs.get("device")):
            return func(*args, **kwargs)
        if func in _LIKE:
            return _LIKE[func](torch.empty_like(*args, **kwargs), generator=self._own())
        return func(*args, **{**kwargs, "generator": self._own()})


def _on_cpu(args: Any, device: Any) -> bool:
    return torch.device(device or "cpu").type == "cpu" and not any(isinstance(a, torch.Tensor) and not a.is_cpu for a in args)
