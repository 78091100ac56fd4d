"""Invalid parameters are refused where they are passed. A client describes itself."""

from __future__ import annotations

import inspect
import pickle
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest

import millrace
import millrace.numpy
from millrace import Order

WRONG = [
    ({"global_batch_size": 0}, "global_batch_size=0: want a whole number, 1 or more"),
    ({"global_batch_size": "64"}, "global_batch_size='64': want a whole number"),
    ({"batch_size_per_rank": True}, "batch_size_per_rank=True: want a whole number"),
    ({"global_batch_size": 64, "batch_size_per_rank": 32}, "global_batch_size and batch_size_per_rank say the same; give one"),
    ({"batch_size": 64}, r"batch_size is no parameter here; write global_batch_size= \(samples of all ranks together\) or batch_size_per_rank="),
    ({"seed": "x"}, "seed='x': want a whole number, 0 or more"),
    ({"seed": -1}, "seed=-1: want a whole number, 0 or more"),
    ({"shuffle": "ful"}, r"shuffle='ful': want 'slot', 'window', 'full', 'none', True or False; did you mean 'full'\?"),
    ({"rank": 1, "world_size": 2}, r"rank is no parameter here; write share=millrace.Share\(rank=...\)"),
    ({"window": 8}, r"window is no parameter here; write order=millrace.Order\(window=...\)"),
    ({"on_error": "skip"}, r"on_error is no parameter here; write reading=millrace.Reading\(on_error=...\)"),
    ({"drop_last": True}, r"drop_last is no parameter here; write share=millrace.Share\(tail='drop'\)"),
    ({"split": "train"}, r"split is no parameter here; .*Share\(by='locality'\); .*millrace.open\(where, split='train'\)"),
    ({"order": "full"}, r"order='full': want a millrace.Order; write order=millrace.Order\(window=...\)"),
    ({"share": {"rank": 1}}, r"share={'rank': 1}: want a millrace.Share; write share="),
    ({"reading": millrace.Order()}, r"reading=Order\(.*\): want a millrace.Reading; write reading="),
    ({"reading": millrace.Reading(copy=False)}, r"reading=Reading\(copy=...\): .*epoch has no copy; leave it out"),
    ({"match": "*.jpg"}, r"match is no parameter here; give it to millrace.open"),
    ({"transform": 3}, "transform=3: want a function"),
    ({"fields": 3}, "fields=3: want names of parts, such as 'jpg,cls'"),
    ({"fields": ["jpg", 2]}, r"fields=\['jpg', 2\]: want names"),
    ({"decode": {"cls": "int"}}, "decode={'cls': 'int'}: want True, False, or a mapping from names of parts to functions"),
    ({"global_batchsize": 3}, r"global_batchsize is no parameter here; did you mean global_batch_size\?"),
    ({"columns": "jpg"}, "columns is no parameter here; say fields="),
    ({"seed": np.ones(2)}, r"seed=array\(.*\): want a whole number"),
    ({"sugar": 1}, "sugar is no parameter here; help"),
]
WRONG_GROUPS: list[tuple[type, dict[str, Any], str]] = [
    (millrace.Share, {"tail": "dorp"}, r"tail='dorp': want 'short', 'drop', 'pad'; did you mean 'drop'\?"),
    (millrace.Share, {"balance": 3}, "balance=3: want a text"),
    (millrace.Share, {"by": "localty"}, r"by='localty'.*did you mean 'locality'\?"),
    (millrace.Share, {"rank": 1}, "rank and world_size belong together; give both or none"),
    (millrace.Share, {"rank": 3, "world_size": 3}, "rank 3: must be less than the world size 3"),
    (millrace.Share, {"worldsize": 3}, r"worldsize is no parameter here; did you mean world_size\?"),
    (millrace.Share, {"split": "locality"}, r"split is no parameter here; .*Share\(by='locality'\)"),
    (millrace.Order, {"window": 0}, "window=0: want a whole number, 1 or more"),
    (millrace.Order, {"subset": 3}, "subset=3: want a text"),
    (millrace.Order, {"seed": 3}, "seed is no parameter here; give seed= to the function that takes the Order"),
    (millrace.Reading, {"on_error": "ignore"}, "on_error='ignore': want 'raise', 'skip' or a function"),
    (millrace.Reading, {"filter": "caption"}, "filter='caption': want a function"),
    (millrace.Reading, {"keys": "yes"}, "keys='yes': want True or False"),
    (millrace.Reading, {"threads": 0}, "threads=0: want a whole number, 1 or more"),
    (millrace.Reading, {"prefetch_bytes": -1}, "prefetch_bytes=-1: want a whole number, 0 or more"),
    (millrace.Routing, {"home": "near"}, "home='near': want 'rank' or a function"),
    (millrace.Routing, {"check": "alway"}, r"check='alway': want 'auto', .*; did you mean 'always'\?"),
    (millrace.Routing, {"first_answer": 0}, "first_answer=0: want seconds, more than 0"),
    (millrace.Routing, {"max_batch_bytes": 0}, "max_batch_bytes=0: want a whole number, 1 or more"),
    (millrace.TLS, {"ssl_context": None}, r"ssl_context is no parameter here; write tls=millrace.TLS\(context=...\)"),
    (millrace.TLS, {"ca_file": "x", "context": ssl.create_default_context()}, "context takes the place of ca_file and client_cert; give one"),
    (millrace.TLS, {"client_key": "x"}, "client_key is the key of client_cert; give client_cert too"),
]


@pytest.fixture
def nowhere() -> Iterator[millrace.Client]:
    """A client whose gateway does not exist."""
    with millrace.Client("http://127.0.0.1:1", "photos") as client:
        yield client


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_slips_are_refused_before_a_gateway_is_asked(nowhere: millrace.Client, options: dict[str, Any], said: str) -> None:
    for read in (nowhere.epoch, lambda *a, **o: millrace.numpy.epoch(nowhere, *a, **o)):
        with pytest.raises(millrace.InvalidArgument, match=f"^{said}"):
            read(0, **options)


@pytest.mark.parametrize(("kind", "options", "said"), WRONG_GROUPS)
def test_slips_are_refused_where_they_are_written(kind: type, options: dict[str, Any], said: str) -> None:
    with pytest.raises(millrace.InvalidArgument, match=f"^{said}"):
        kind(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"home": "rank"}, r"home is no parameter here; write routing=millrace.Routing\(home=...\)"),
        ({"ca_file": "x"}, r"ca_file is no parameter here; write tls=millrace.TLS\(ca_file=...\)"),
        ({"ssl_context": None}, r"ssl_context is no parameter here; write tls=millrace.TLS\(context=...\)"),
        ({"deadline": -1}, "deadline=-1: want seconds, more than 0"),
        ({"routing": "rank"}, r"routing='rank': want a millrace.Routing; write routing="),
        ({"rank": 1}, r"rank is no parameter here; give share=millrace.Share\(rank=..., world_size=...\) to Client.epoch"),
        ({"timeout": 3}, "timeout is no parameter here; write deadline="),
        ({"tls": millrace.TLS(ca_file="/nope.pem")}, "ca_file '/nope.pem': .*No such file"),
    ],
)
def test_slips_of_clients_are_refused_with_the_cure(options: dict[str, Any], said: str) -> None:
    for make in (millrace.Client, millrace.open):
        with pytest.raises(millrace.InvalidArgument, match=f"^{said}"):
            make("http://127.0.0.1:1", **options)


def test_none_is_the_default_of_groups() -> None:
    for kind in (millrace.Order, millrace.Share, millrace.Reading, millrace.Routing, millrace.TLS):
        assert kind(**dict.fromkeys(inspect.signature(kind).parameters)) == kind()


@pytest.mark.parametrize("group", [millrace.Order(window=8), millrace.Share(rank=1, world_size=4), millrace.Reading(on_error="skip", threads=2)])
def test_groups_are_values(group: Any) -> None:
    assert pickle.loads(pickle.dumps(group)) == group == replace(group)
    assert {group: 1}[replace(group)] == 1
    with pytest.raises(FrozenInstanceError):
        group.extra = 1


def test_a_size_per_rank_times_the_ranks_is_the_global_size(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        share = millrace.Share(rank=1, world_size=4)
        plan = client.epoch(0, batch_size_per_rank=25, share=share).plan
        assert plan == client.epoch(0, global_batch_size=100, share=share).plan
        assert client.epoch(0, batch_size_per_rank=25).plan.batch_size == 25


@pytest.mark.parametrize("number", [-1, "0", 1.0, None])
def test_an_epoch_has_a_number(nowhere: millrace.Client, number: Any) -> None:
    with pytest.raises(millrace.InvalidArgument, match="want a whole number, 0 or more"):
        nowhere.epoch(number)


def test_none_is_the_default_and_numbers_may_be_numpys(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        plain = client.epoch(0).plan
        names = [n for n in inspect.signature(client.epoch).parameters if n != "number"]
        assert client.epoch(0, **dict.fromkeys(names)).plan == plain  # type: ignore[arg-type]
        assert len(client.epoch(np.int64(0), global_batch_size=np.int32(50), fields=("cls",))) == 10  # type: ignore[arg-type]


def test_numbers_beyond_an_epoch_are_refused(gateway: harness.Gateway) -> None:
    call: Any
    with millrace.Client(gateway.url) as client:
        epoch = client.epoch(0)
        for call, said in (
            (lambda: client.epoch(0, reading=millrace.Reading(start=99)), "start=99: epoch 0 has 16 batches"),
            (lambda: epoch.read(5, 2), "start 5, stop 2, step 1: want start 0 or more, stop from there on"),
            (lambda: epoch.batch("0"), "batch '0': want a whole number"),  # type: ignore[arg-type]
            (lambda: epoch.samples(5), r"samples 5: want positions; write samples\(\[5\]\)"),  # type: ignore[arg-type]
        ):
            with pytest.raises(millrace.InvalidArgument, match=said):
                call()
        assert list(client.epoch(0, reading=millrace.Reading(start=16))) == []
        with pytest.raises(KeyError, match=r"no part 0 in this sample, which has .*; parts are known by their names"):
            epoch.batch(0)[0][0]  # type: ignore[index]


def test_help_names_the_parameters_and_their_defaults() -> None:
    for function in (millrace.Client.epoch, millrace.numpy.epoch):
        parameters = inspect.signature(function).parameters
        assert {"global_batch_size", "batch_size_per_rank", "seed", "fields", "decode", "order", "share", "reading"} <= set(parameters)
        assert parameters["seed"].annotation == "Optional[int]"
    reading = inspect.signature(millrace.Reading).parameters
    assert (reading["threads"].default, reading["keys"].default, reading["on_error"].default) == (None, False, "raise")


def test_types_are_checked(tmp_path: Path) -> None:
    program = tmp_path / "slips.py"
    program.write_text(
        "import millrace\nfrom millrace import Client; from millrace.numpy import epoch\n"
        "Client('u').epoch(0, global_batch_size=3, shuffle=False)\nClient('u').epoch(0, global_batch_size='3')\nepoch('u', 0, sede=1)\n"
        "Client('u').epoch(0, share=millrace.Share(rank=0, world_size=2))\nmillrace.Share(rank='0')\nClient('u').epoch(0, order=3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(program)],
        cwd=Path(millrace.__file__).parent.parent, capture_output=True, text=True, timeout=300, check=False,
    )
    assert [line.split(":")[1] for line in done.stdout.splitlines() if "error:" in line] == ["4", "5", "7", "8"], done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"global_batch_size": 10**10}, "global_batch_size: must be at most"),
        ({"batch_size_per_rank": 10**10}, "global_batch_size: must be at most"),
        ({"share": millrace.Share(by="locality"), "shuffle": "full"}, "by: "),
        ({"reading": millrace.Reading(form="x")}, "form: must be one of"),
    ],
)
def test_what_a_gateway_refuses_is_called_as_here(gateway: harness.Gateway, options: dict[str, Any], said: str) -> None:
    with millrace.Client(gateway.url) as client, pytest.raises(millrace.InvalidArgument, match=f"^{said}") as e:
        client.epoch(0, **options)
    assert said.startswith(e.value.faults[0][0])
    assert "batch_size" not in str(e.value).replace("global_batch_size", "")


def test_what_a_gateway_refuses_is_said_first(gateway: harness.Gateway) -> None:
    said = rf"^window: .*\(read /v1/datasets/photos/epochs/0: {gateway.url}\) \(request \w+\); help"
    with millrace.Client(gateway.url) as client, pytest.raises(millrace.InvalidArgument, match=said):
        client.epoch(0, shuffle="full", order=Order(window=8))


def test_a_client_says_what_it_is(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        assert repr(client) == f"<Client of the default dataset at {gateway.url}>"
        assert client
        assert len(client) == 500
        assert repr(client) == f"<Client of photos at {gateway.url}: 500 samples>"
        few = client.take(10)
        assert len(few) == 10
        assert repr(few) == f"<View of photos at {gateway.url}: 500 samples; subset samples:0-9>"
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
        mixed = millrace.mix({data: 1, data.take(3): 1})
        mixed.describe()  # all samples of the sources
        assert re.fullmatch(r"<View of mix:rows-\S* at \S+>", repr(mixed))
        assert mixed.epoch(0).plan.samples == 33
        assert repr(mixed).endswith(": 33 samples of csv>")


def test_what_is_no_place_is_refused(nowhere: millrace.Client) -> None:
    parts = nowhere.split(train=0.9, val=0.1)
    wrong: Any
    for wrong, said in (
        (parts, "'train', 'val'; split returns a View of each part: choose one"),
        (parts.values(), "split returns a View of each part: choose one"),
        (["s3://a/b"], r"'s3://a/b' is the path of data, and no address of a gateway; write millrace.open\('s3://a/b'\) in its place"),
        (["data/photos", "data/scans"], r"'data/photos' is the path of data.*; several folders are millrace.mix\({millrace.open\(A\): 1"),
        ([Path("photos")], r"write millrace.open\('photos'\)"), ([__file__], "is the path of data"),
        ([1, 2], r"\[1, 2\] says no place; give a directory"), (None, "None says no place; give a directory"),
        ([], r"\[\] says no place"), ([""], r"\[''\] says no place"),
    ):
        with pytest.raises(millrace.InvalidArgument, match=said):
            millrace.numpy.epoch(wrong, 0)


def test_what_is_not_stored_is_refused_with_who_makes_it(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url) as client:
        for call, said in (
            (lambda: client.epoch(0, order=Order(importance="0" * 64)), r"millrace\.importance\.freeze makes a snapshot, and returns its name$"),
            (lambda: client.epoch(0, order=Order(quarantine="0" * 64)), "`millrace quarantine` stores a list, and says its digest$"),
            (lambda: client.quarantine("0" * 64), "`millrace quarantine` stores a list, and says its digest$"),
        ):
            with pytest.raises(millrace.NotFound, match=said):
                call()


def test_several_places_are_mixed() -> None:
    with pytest.raises(millrace.InvalidArgument, match=r"this is no address; several folders are millrace.mix\("):
        millrace.open(["a", "b"])  # type: ignore[arg-type]


def test_a_part_that_a_split_lacks_is_refused_with_those_it_has(nowhere: millrace.Client) -> None:
    parts = pickle.loads(pickle.dumps(nowhere.split(train=0.9, test=0.1)))
    with pytest.raises(KeyError, match=r"split has no part 'tset': did you mean 'test'\?"):
        parts["tset"]
    with pytest.raises(KeyError, match="split has no part 0: it has 'train', 'test'"):
        parts[0]
    assert parts.get("tset") is None


def test_slips_of_split_and_mix(nowhere: millrace.Client) -> None:
    call: Any
    for call, said in (
        (lambda: nowhere.split(0.9, 0.1), r"write split\(train=.9, val=.1\)"),  # type: ignore[arg-type]
        (lambda: nowhere.split(train=0.9, val=0.1, seed=3), "seed is no name of a part; say salt='3'"),
        (lambda: millrace.mix({nowhere: 1}, sample=100), r"did you mean samples\?"),  # type: ignore[call-arg]
        (lambda: millrace.mix({nowhere: 1}, weights=[1]), "give them as values of the mapping"),  # type: ignore[call-arg]
        (lambda: nowhere.split(train=1e-9, val=1), r"split: share 1e-09, want 0\.000001 or more"),
        (lambda: millrace.mix({nowhere: "3"}), "share '3': want a number above 0"),  # type: ignore[dict-item]
        (lambda: millrace.mix({nowhere: 1}, 100), "mix: argument 2 stands without a name; write NAME=VALUE"),  # type: ignore[misc]
        (lambda: millrace.mix({nowhere: 1}, samples="9"), "samples='9': want a whole number, 1 or more"),  # type: ignore[arg-type]
    ):
        with pytest.raises(millrace.InvalidArgument, match=said):
            call()
