"""Ranks with different shares of a batch, some of them without samples."""

from __future__ import annotations

import copy
from typing import Any

import harness
import pytest
import torch
from ddp import pair
from test_torch_distributed import run_ranks
from training import features

import millrace
import millrace.torch
from millrace import Reading, Share

BATCH_SIZE = 83  # an epoch has six full batches and two more samples


def dataset_of(gateway: harness.Gateway, rank: int = 0, **options: Any) -> millrace.torch.Dataset:
    settings = {"global_batch_size": BATCH_SIZE, "decode": {"jpg": features, "cls": int}, **options}
    return millrace.torch.Dataset(gateway.url, "photos", **harness.grouped(rank=rank, world_size=4, **settings))


def _dict(sample: millrace.Sample) -> Any:
    return {"x": sample["jpg"], "name": sample.key}


def _number(sample: millrace.Sample) -> Any:
    return sample["cls"]


def _stacked(samples: list[Any]) -> Any:
    """Like most collate functions, it has no value for an empty list."""
    return [torch.stack([s["jpg"] for s in samples]), torch.tensor([s["cls"] for s in samples]), "said"]


def _kind(value: Any) -> Any:
    """The structure of a batch, without the number of samples."""
    if isinstance(value, dict):
        return {name: _kind(one) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value), [_kind(one) for one in value if not isinstance(one, str)]
    return (value.dtype, value.shape[1:]) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("workers", [0, 4])
@pytest.mark.parametrize(
    "functions",
    [{}, {"keys": True}, {"decode": {"cls": int}, "transform": pair}, {"transform": _dict}, {"transform": _number}, {"collate": _stacked}],
    ids=["columns", "keys", "tuples", "dicts", "numbers", "collate"],
)
def test_an_empty_share_has_the_structure_of_others(gateway: harness.Gateway, functions: Any, workers: int) -> None:
    shares = [list(millrace.torch.DataLoader(dataset_of(gateway, r, **functions), num_workers=workers)) for r in range(4)]
    assert [len(share) for share in shares] == [7] * 4
    ends = [share[-1] for share in shares]
    assert [_kind(end) for end in ends] == [_kind(shares[0][0])] * 4
    columns = [list(end.values()) if isinstance(end, dict) else [end] if isinstance(end, torch.Tensor) else end for end in ends]
    assert [{len(c) for c in cs if not isinstance(c, str)} for cs in columns] == [{0}, {1}, {0}, {1}]


def test_an_empty_share_is_read_first_on_resume(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway, decode={"cls": int}, transform=pair)
    loader = millrace.torch.DataLoader(dataset)
    state = copy.deepcopy(loader.state_dict())
    state["position"] = 6 * dataset.epoch().plan.batch_size
    loader.load_state_dict(state)
    ((x, y),) = loader
    assert (x.shape, y.shape, y.dtype) == ((0, 16), (0,), torch.int64)


def test_samples_one_by_one_pass_over_an_empty_share(gateway: harness.Gateway) -> None:
    dataset = dataset_of(gateway, transform=_dict)
    assert sum(len(batch["x"]) for batch in torch.utils.data.DataLoader(dataset.samples(), batch_size=20)) == sum(83 // 4 for _ in range(6))


def _one_in_forty(sample: millrace.Sample) -> bool:
    return int(sample.position) % 40 == 39


def _fails(view: memoryview) -> int:
    label = int(bytes(view))
    if label < 5:
        raise ValueError(label)
    return label


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "functions",
    [
        {"filter": _one_in_forty},
        {"filter": _one_in_forty, "keys": True, "transform": _dict},
        {"filter": _one_in_forty, "decode": {"cls": int}, "transform": pair},
        {"filter": _one_in_forty, "collate": _stacked},
        {"decode": {"jpg": features, "cls": _fails}, "on_error": "skip"},
        {"decode": {"cls": _fails}, "on_error": "skip", "transform": pair},
    ],
    ids=["columns", "dicts", "tuples", "collate", "failures", "failures in a transform"],
)
def test_a_share_of_which_nothing_is_left_has_the_structure_of_others(gateway: harness.Gateway, functions: Any, workers: int) -> None:
    """Filters and failures often remove all samples of shares with two samples."""
    shares = [list(millrace.torch.DataLoader(dataset_of(gateway, r, global_batch_size=8, **functions), num_workers=workers)) for r in range(4)]
    assert [len(share) for share in shares] == [63] * 4
    (kind,) = {repr(_kind(batch)) for share in shares for batch in share}
    assert "torch." in kind
    columns = [next(iter(batch.values())) if isinstance(batch, dict) else batch[0] for share in shares for batch in share]
    assert 40 < [len(column) for column in columns].count(0) < 252
    assert sum(map(len, columns)) == (12 if "filter" in functions else 250)


def test_a_filter_of_samples_is_warned_of_where_there_are_ranks(gateway: harness.Gateway) -> None:
    for options in ({"filter": _one_in_forty}, {"on_error": "skip"}):
        samples = dataset_of(gateway, 3, global_batch_size=8, decode={"cls": int}, **options).samples()
        with pytest.warns(UserWarning, match=r"their loaders of samples\(\) differ in length"):
            next(iter(torch.utils.data.DataLoader(samples, batch_size=2)))


def test_ranks_take_equal_steps_where_the_filter_refuses_their_batch(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url, "photos") as client:
        whole = client.epoch(0, global_batch_size=BATCH_SIZE, reading=Reading(keys=True))
        kept = {key for b in whole if b.number < 6 for key in b.keys}
    shares = [list(dataset_of(gateway, r, decode={"cls": int}, transform=pair, filter=lambda s: s.key in kept)) for r in range(4)]
    assert [[len(x) for x, _ in share][-1] for share in shares] == [0] * 4
    assert [len(share) for share in shares] == [7] * 4


def test_errors_of_other_ranks_samples_are_not_collected(gateway: harness.Gateway) -> None:
    """A rank may read samples of other ranks to learn their structure. Errors of these samples are left to the other ranks."""
    failures: list[millrace.SampleError] = []
    for r in range(4):
        list(dataset_of(gateway, r, global_batch_size=8, decode={"cls": _fails}, on_error=failures.append))
    assert len(failures) == 250


def test_ranks_that_are_left_nothing_at_all_say_so(gateway: harness.Gateway) -> None:
    with pytest.raises(millrace.InvalidArgument, match=r"rank 1 of 4>: filter= and on_error= leave out all 500 samples"):
        next(iter(dataset_of(gateway, 1, filter=lambda _: False)))


def test_one_rank_passes_over_batches_of_which_nothing_is_left(gateway: harness.Gateway) -> None:
    one = millrace.torch.Dataset(gateway.url, "photos", global_batch_size=8, decode={"cls": int}, reading=Reading(filter=_one_in_forty))
    assert [len(batch["cls"]) for batch in millrace.torch.DataLoader(one)] == [1] * 12


def test_a_batch_transform_is_given_an_empty_share(gateway: harness.Gateway) -> None:
    assert [*dataset_of(gateway, batch_transform=len)] == [20, 20, 20, 20, 20, 20, 0]


def test_a_client_collates_no_empty_share(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url, "photos") as client:
        epoch = client.epoch(
            0, global_batch_size=BATCH_SIZE, decode={"cls": int}, transform=_both, share=Share(rank=0, world_size=4),
            reading=Reading(collate=_stacked),
        )
        assert [len(b) for b in epoch] == [20] * 6 + [0]
        assert epoch.batch(6).value == []


def _both(sample: millrace.Sample) -> Any:
    return {"jpg": features(sample["jpg"]), "cls": sample["cls"]}


@pytest.mark.parametrize(("keep", "last", "samples"), [("all", [0, 1, 0, 1], 500), ("one in forty", [0, 0, 0, 0], 12)])
def test_ddp_takes_equal_steps_with_empty_shares(gateway: harness.Gateway, keep: str, last: list[int], samples: int) -> None:
    ranks = run_ranks("ddp.py", 4, gateway.url, keep)
    assert [rank["sizes"][-1] for rank in ranks] == last
    assert [len(rank["sizes"]) for rank in ranks] == [4] * 4
    assert sum(sum(rank["sizes"]) for rank in ranks) == samples
    assert all(rank["finite"] for rank in ranks)
    assert len({rank["digest"] for rank in ranks}) == 1


@pytest.mark.parametrize(("batch_size", "tail", "told"), [(83, "short", True), (83, "pad", False), (83, "drop", False), (124, "short", False)])
def test_empty_shares_are_warned_of(gateway: harness.Gateway, batch_size: int, tail: str, told: bool, recwarn: Any) -> None:
    next(iter(dataset_of(gateway, global_batch_size=batch_size, tail=tail)))
    texts = [str(w.message) for w in recwarn if "last batch" in str(w.message)]
    assert len(texts) == told
    for text in texts:
        assert text.startswith("the last batch has 2 samples for 4 ranks, so 2 get empty tensors; ")
        assert 'millrace.Share(tail="pad") fills the batch with repeated samples,' in text
