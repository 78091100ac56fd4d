"""Parameters are refused where they are written; what a client is, is said by it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest

import millrace
import millrace.numpy

WRONG = [
    ({"batch_size": 0}, "batch_size=0: want a whole number, 1 or more"),
    ({"batch_size": "64"}, "batch_size='64': want a whole number"),
    ({"batch_size": True}, "batch_size=True: want a whole number"),
    ({"seed": "x"}, "seed='x': want a whole number, 0 or more"),
    ({"seed": -1}, "seed=-1: want a whole number, 0 or more"),
    ({"shuffle": "ful"}, r"shuffle='ful': want 'slot', 'window', 'full', 'none', True or False; did you mean 'full'\?"),
    ({"tail": "dorp"}, r"tail='dorp': want 'short', 'drop', 'pad'; did you mean 'drop'\?"),
    ({"balance": 3}, "balance=3: want 'samples', 'bytes'"),
    ({"split": "localty"}, r"split='localty'.*did you mean 'locality'\?"),
    ({"split": "train"}, r"split='train': .*millrace.open\(where, split='train'\)"),
    ({"match": "*.jpg"}, r"match is no parameter here; give it to millrace.open"),
    ({"on_error": "ignore"}, "on_error='ignore': want 'raise', 'skip' or a function"),
    ({"filter": "caption"}, "filter='caption': want a function"),
    ({"transform": 3}, "transform=3: want a function"),
    ({"fields": 3}, "fields=3: want names of parts, such as 'jpg,cls'"),
    ({"fields": ["jpg", 2]}, r"fields=\['jpg', 2\]: want names"),
    ({"decode": {"cls": "int"}}, "decode={'cls': 'int'}: want True, False, or a mapping from names of parts to functions"),
    ({"keys": "yes"}, "keys='yes': want True or False"),
    ({"threads": 0}, "threads=0: want a whole number, 1 or more"),
    ({"prefetch_bytes": -1}, "prefetch_bytes=-1: want a whole number, 0 or more"),
    ({"batchsize": 3}, r"batchsize is no parameter here; did you mean batch_size\?"),
    ({"columns": "jpg"}, "columns is no parameter here; say fields="),
    ({"sugar": 1}, "sugar is no parameter here; help"),
]


@pytest.fixture
def nowhere() -> Iterator[millrace.Client]:
    """A client whose gateway cannot be asked."""
    with millrace.Client("http://127.0.0.1:1", "photos") as client:
        yield client


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_slips_are_refused_before_a_gateway_is_asked(nowhere: millrace.Client, options: dict[str, Any], said: str) -> None:
    for read in (nowhere.epoch, lambda *a, **o: millrace.numpy.epoch(nowhere, *a, **o)):
        with pytest.raises(millrace.InvalidArgument, match=f"^{said}"):
            read(0, **options)


@pytest.mark.parametrize("number", [-1, "0", 1.0])
def test_an_epoch_has_a_number(nowhere: millrace.Client, number: Any) -> None:
    with pytest.raises(millrace.InvalidArgument, match="want a whole number, 0 or more"):
        nowhere.epoch(number)


def test_none_is_the_default_and_numbers_may_be_numpys(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        plain = client.epoch(0).plan
        names = [n for n in inspect.signature(client.epoch).parameters if n != "number"]
        assert client.epoch(0, **dict.fromkeys(names)).plan == plain  # type: ignore[arg-type]
        assert len(client.epoch(np.int64(0), batch_size=np.int32(50), fields=("cls",))) == 10  # type: ignore[arg-type]


def test_help_names_the_parameters_and_their_defaults() -> None:
    for function in (millrace.Client.epoch, millrace.numpy.epoch):
        parameters = inspect.signature(function).parameters
        assert {"batch_size", "seed", "tail", "fields", "on_error", "world_size", "progress", "decode"} <= set(parameters)
        assert (parameters["threads"].default, parameters["seed"].default, parameters["on_error"].default) == (4, None, "raise")
        assert parameters["seed"].annotation == "Optional[int]"


def test_types_are_checked(tmp_path: Path) -> None:
    program = tmp_path / "slips.py"
    program.write_text(
        "from millrace import Client\nfrom millrace.numpy import epoch\n"
        "Client('u').epoch(0, batch_size=3, shuffle=False)\nClient('u').epoch(0, batch_size='3')\nepoch('u', 0, sede=1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(program)],
        cwd=Path(millrace.__file__).parent.parent, capture_output=True, text=True, timeout=300, check=False,
    )
    assert [line.split(":")[1] for line in done.stdout.splitlines() if "error:" in line] == ["4", "5"], done.stdout


def test_what_a_gateway_refuses_is_said_first(gateway: harness.Gateway) -> None:
    said = rf"^window: .*\(read /v1/datasets/photos/epochs/0: {gateway.url}\) \(request \w+\); help"
    with millrace.Client(gateway.url) as client, pytest.raises(millrace.InvalidArgument, match=said):
        client.epoch(0, shuffle="full", window=8)


def test_a_client_says_what_it_is(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        assert repr(client) == f"<Client of the default dataset at {gateway.url}>"
        assert client
        assert len(client) == 500
        assert repr(client) == f"<Client of photos at {gateway.url}: 500 samples>"
        few = client.take(10)
        assert len(few) == 10
        assert repr(few) == f"<Client of photos at {gateway.url}: 500 samples; subset samples:0-9>"
    for use in (iter, list, lambda c: c[0]):
        with pytest.raises(millrace.InvalidArgument, match=r"`for batch in client.epoch\(0\)`; millrace.torch.MapDataset"):
            use(client)  # type: ignore[operator]


@pytest.mark.usefixtures("runtime")
def test_what_open_returns_says_where_the_data_are(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.csv").write_text("name,size\n" + "x,1\n" * 30)
    with millrace.open(tmp_path / "rows") as data:
        assert repr(data).startswith(f"<Client of {tmp_path}/rows")
        assert ": 30 samples" in repr(data)
        assert repr(millrace.mix({data: 1, data.take(3): 1})).startswith("<Client of mix:rows-")


def test_what_is_no_place_is_refused(nowhere: millrace.Client) -> None:
    parts = nowhere.split(train=0.9, val=0.1)
    wrong: Any
    for wrong, said in (
        (parts, "'train', 'val'; split returns a client of each part: choose one"),
        (parts.values(), "split returns a client of each part: choose one"),
        ([1, 2], r"\[1, 2\] says no place; give a directory"), (None, "None says no place; give a directory"), ([], r"\[\] says no place"),
    ):
        with pytest.raises(millrace.InvalidArgument, match=said):
            millrace.numpy.epoch(wrong, 0)


def test_slips_of_split_and_mix(nowhere: millrace.Client) -> None:
    call: Any
    for call, said in (
        (lambda: nowhere.split(0.9, 0.1), r"write split\(train=.9, val=.1\)"),  # type: ignore[arg-type]
        (lambda: nowhere.split(train=0.9, val=0.1, seed=3), "seed is no name of a part; say salt='3'"),
        (lambda: millrace.mix({nowhere: 1}, sample=100), r"did you mean samples\?"),  # type: ignore[call-arg]
        (lambda: millrace.mix({nowhere: 1}, weights=[1]), "give them as values of the mapping"),  # type: ignore[call-arg]
        (lambda: millrace.mix({nowhere: 1}, 100), "mix: 100 stands without a name; write NAME=100"),  # type: ignore[misc]
        (lambda: millrace.mix({nowhere: 1}, samples="9"), "samples='9': want a whole number, 1 or more"),  # type: ignore[arg-type]
    ):
        with pytest.raises(millrace.InvalidArgument, match=said):
            call()
