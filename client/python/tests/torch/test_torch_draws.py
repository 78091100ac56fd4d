"""Reproducible random numbers in functions of samples: the table of docs/python-decoding.md, row by row, and the warnings for draws that
are not reproducible.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from typing import Any

import harness
import numpy as np
import pytest
import torch
import torchvision
from torch import distributions, nn
from torch.nn import functional
from torchvision import transforms

import millrace
import millrace.torch

try:
    from torchvision.transforms import v2
except ImportError:  # torchvision before 0.15
    v2 = None

Function = Callable[[Any], Any]
PAGE = harness.ROOT / "docs" / "python-decoding.md"
ONE = torch.ones(64)
IMAGE = torch.arange(3 * 16 * 16, dtype=torch.uint8).view(3, 16, 16)
REPEATS, REPORTED = "repeat", "reported"


def beside(function: Callable[[], Any]) -> Function:
    """Makes a function of a sample from a function without arguments."""
    return lambda _: function()


def of_torchvision(*names: str, library: Any = transforms) -> list[Function]:
    made = [getattr(library, name) for name in names if hasattr(library, name)]
    return [beside(lambda make=make: (make(8) if make.__name__ == "RandomCrop" else make())(IMAGE)) for make in made]


def mixed(name: str) -> Function:
    """MixUp or CutMix in a collate function, as in torchvision's own example."""
    mix = getattr(v2, name)(num_classes=10)
    return lambda samples: mix(torch.rand(len(samples), 3, 16, 16), torch.arange(len(samples)) % 10)[1]


TRANSFORMS = ("RandomCrop", "RandomHorizontalFlip", "ColorJitter", "RandomErasing", "RandAugment", "RandomPerspective", "AutoAugment")
WAYS: dict[str, tuple[str, list[Function]]] = {
    "`sample.rng`, `sample.numpy_rng`": (REPEATS, [lambda s: s.rng.random(), lambda s: s.numpy_rng.random()]),
    "functions of torch and methods of tensors": (REPEATS, [
        beside(lambda: torch.rand(4)), beside(lambda: torch.randn(4)), beside(lambda: torch.randint(99, (4,))), beside(lambda: torch.randperm(64)),
        beside(lambda: torch.normal(0, ONE)), beside(lambda: torch.multinomial(ONE, 4)), beside(lambda: torch.poisson(ONE)),
        beside(lambda: torch.rand_like(ONE)), beside(lambda: torch.randn_like(ONE)), beside(lambda: torch.randint_like(ONE, 99)),
        beside(lambda: torch.randint_like(ONE, 5, 99, dtype=torch.int64)),
        beside(lambda: torch.empty(4).uniform_()), beside(lambda: torch.empty(4).normal_()), beside(lambda: torch.empty(4).random_(9999)),
        beside(lambda: torch.empty(64).bernoulli_()), beside(lambda: torch.empty(4).exponential_()),
    ]),
    "`dropout`, `nn.Dropout` and other random layers": (REPEATS, [
        beside(lambda: functional.dropout(ONE)), beside(lambda: nn.Dropout()(ONE)), beside(lambda: functional.alpha_dropout(ONE, training=True)),
        beside(lambda: functional.dropout2d(torch.ones(1, 64, 2, 2))), beside(lambda: functional.rrelu(-ONE, training=True)),
        beside(lambda: functional.gumbel_softmax(ONE)), beside(lambda: torch.dropout(ONE, 0.5, True)),
    ]),
    "`torch.distributions`": (REPEATS, [
        beside(lambda: distributions.Beta(1.0, 1.0).sample(())), beside(lambda: distributions.Normal(0.0, 1.0).sample((4,))),
        beside(lambda: distributions.Gamma(1.0, 1.0).sample((4,))), beside(lambda: distributions.Categorical(ONE).sample((4,))),
        beside(lambda: distributions.Binomial(99, torch.tensor([0.5])).sample((4,))), beside(lambda: distributions.StudentT(3.0).sample((4,))),
    ]),
    "`torchvision.transforms` and `v2`": (REPEATS, [*of_torchvision(*TRANSFORMS), *of_torchvision(*TRANSFORMS, "RandomGrayscale", library=v2)]),
    "`v2.MixUp` and `v2.CutMix` in `collate`": (REPEATS, []),
    "Python's `random`": (REPORTED, [beside(random.random), beside(lambda: random.randint(1, 1 << 30)), beside(lambda: random.sample(range(99), 9))]),
    "`numpy.random`": (REPORTED, [beside(lambda: np.random.rand(3)), beside(lambda: np.random.randint(1 << 30))]),
    "new layers and `nn.init`": (REPORTED, [
        beside(lambda: nn.Linear(4, 4).weight.detach()), beside(lambda: nn.init.kaiming_uniform_(torch.empty(4, 4))),
    ]),
    "functions of `torch.jit`": (REPORTED, [beside(lambda: SCRIPTED(ONE))]),
}  # fmt: skip
IN_COLLATE: dict[str, list[Function]] = {
    "`v2.MixUp` and `v2.CutMix` in `collate`": [mixed(name) for name in ("MixUp", "CutMix") if hasattr(v2, name)],
}


@torch.jit.script
def SCRIPTED(x: torch.Tensor) -> torch.Tensor:  # noqa: N802
    return torch.rand_like(x)


def twice(gateway: harness.Gateway, **steps: Any) -> tuple[bool, list[str]]:
    """Reads an epoch twice. Returns whether both passes were equal, and the warnings of the first one."""
    passes, reports = [], []
    for number in range(2):
        torch.manual_seed(number)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with millrace.Client(gateway.url) as client:
                epoch = client.epoch(0, global_batch_size=100, decode={"cls": int}, **harness.grouped(**steps))
                passes.append([b.value for b in epoch])
        reports.append([str(w.message) for w in caught if "draws from" in str(w.message)])
    return repr([digest(value) for value in passes[0]]) == repr([digest(value) for value in passes[1]]), reports[0]


def digest(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [digest(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


CASES = [(way, "transform", f) for way, (_, functions) in WAYS.items() for f in functions]
CASES += [(way, "collate", f) for way, functions in IN_COLLATE.items() for f in functions]


@pytest.mark.parametrize(("way", "step", "function"), CASES, ids=[f"{way}-{i}" for i, (way, *_) in enumerate(CASES)])
def test_draws_repeat_or_are_reported(gateway: harness.Gateway, way: str, step: str, function: Function) -> None:
    same, reports = twice(gateway, **{step: function})
    if WAYS[way][0] == REPEATS:
        assert (same, reports) == (True, [])
        return
    assert not same
    assert len(reports) == 1
    assert re.fullmatch(rf"transform draws from the generator of (random|numpy\.random|torch) .*\({re.escape(__file__)}:\d+, .*", reports[0])


def test_table_of_draws() -> None:
    """The page has a row for each kind of draw, and no other rows."""
    answers = {REPEATS: "yes", REPORTED: "no"}
    rows = [f"| {way} | {answers[becomes]} |" for way, (becomes, _) in WAYS.items()]
    text = PAGE.read_text().partition("| random numbers of | reproducible |\n|---|---|\n")[2].partition("\n\n")[0]
    assert text.splitlines() == rows


def test_a_draw_of_another_thread_is_not_reported(gateway: harness.Gateway) -> None:
    """The training loop draws from torch's generator while the reader's threads transform."""

    def busy(sample: millrace.Sample) -> int:
        return int(sample["cls"])

    assert torchvision.__version__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in millrace.torch.Dataset(gateway.url, "photos", global_batch_size=20, decode={"cls": int}, transform=busy):
            functional.dropout(ONE)
            torch.rand(3)
