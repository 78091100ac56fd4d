"""Random numbers per sample for torch's random functions. Importing this module imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .batch import Sample

_OF_TENSORS = ("bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial", "normal_", "random_", "uniform_")
_OF_TORCH = (
    "_sample_dirichlet", "_standard_gamma", "bernoulli", "binomial", "multinomial", "normal", "poisson", "rand", "randint", "randn", "randperm",
)  # fmt: skip
_DRAWING = {*(getattr(torch, name) for name in _OF_TORCH), *(getattr(torch.Tensor, name) for name in _OF_TENSORS)}
"""Functions that accept a generator."""

_LAYERS = ("alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "gumbel_softmax", "rrelu")
_DRAWING_INSIDE = {
    *(getattr(functional, name) for name in _LAYERS if hasattr(functional, name)),
    *(getattr(torch, name) for name in ("alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout", "rrelu")),
}
"""Functions without a generator, which use operators with one."""

# they accept no generator
_LIKE = {torch.rand_like: torch.Tensor.uniform_, torch.randn_like: torch.Tensor.normal_}


def _randint_like(like: Any, low: int, high: Optional[int] = None, *, generator: torch.Generator, **options: Any) -> Any:
    return torch.Tensor.random_(torch.empty_like(like, **options), *((0, low) if high is None else (low, high)), generator=generator)


class Draws(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
    """Makes torch's random functions use the sample's generator, in the thread that enters this context.

    All threads share torch's own generator, including the training loop, so a transform's draws from it would differ in each run. Explicit
    generators, and devices other than the CPU, are not affected.
    """

    _generator: Optional[torch.Generator] = None

    def begin(self, sample: Sample, more: str = "") -> None:
        """Selects the sample for the following draws."""
        self._sample, self._more, self._generator = sample, more, None

    def _own(self) -> Any:
        if self._generator is None:
            self._generator = torch.Generator()
            self._generator.manual_seed(self._sample.seed("/torch" + self._more) >> 65)
        return self._generator

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _DRAWING_INSIDE:
            with Operators(self._own):  # type: ignore[no-untyped-call,unused-ignore]
                return func(*args, **kwargs)
        if func not in _DRAWING and func not in _LIKE and func is not torch.randint_like:
            return func(*args, **kwargs)
        if kwargs.get("generator") is not None or not _on_cpu(args, kwargs.get("device")):
            return func(*args, **kwargs)
        if func in _LIKE:
            return _LIKE[func](torch.empty_like(*args, **kwargs), generator=self._own())
        return (_randint_like if func is torch.randint_like else func)(*args, **{**kwargs, "generator": self._own()})


class Operators(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    """Intercepts operators that draw from torch's own generator, in the thread that enters this context."""

    def __init__(self, found: Callable[[], Optional[torch.Generator]]) -> None:
        """found is called for each such operator. If it returns a generator, operators on the CPU use it."""
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self._found = found

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether to bypass torch.compile. Without this method torch imports its compiler, which takes seconds and 150 MB."""
        return False


    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        generator = self._found() if _draws_without(func, args, kwargs) else None
        if generator is not None and _on_cpu(args, None) and any(a.name == "generator" for a in func._schema.arguments):
            kwargs = {**kwargs, "generator": generator}
        return func(*args, **kwargs)


def _draws_without(operator: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator draws without an explicit generator."""
    if torch.Tag.nondeterministic_seeded not in operator.tags:  # type: ignore[attr-defined,unused-ignore]
        return False
    return not any(isinstance(a, torch.Generator) for a in (*args, *kwargs.values()))


def _on_cpu(args: Any, device: Any) -> bool:
    return torch.device(device or "cpu").type == "cpu" and not any(isinstance(a, torch.Tensor) and not a.is_cpu for a in args)
