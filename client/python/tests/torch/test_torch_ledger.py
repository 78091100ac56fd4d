"""Ledgers of millrace.torch.DataLoader: saved with states in mid-epoch, and checked by the specification alone."""

from __future__ import annotations

import json
from typing import Any

import harness
import pytest
from test_ledger import judge

import millrace
import millrace.torch
from millrace import Reading, Share


def _decode(sample: millrace.Sample) -> Any:
    if sample["cls"] == 5:
        raise ValueError("a class that does not decode")
    return {"cls": sample["cls"]}


def _is_wanted(sample: millrace.Sample) -> bool:
    return int(sample["cls"]) != 3


def _replace(error: millrace.SampleError) -> Any:
    return {"cls": 5} if error.position is not None and error.position % 2 else None


@pytest.mark.parametrize("workers", [0, 2])
def test_ledgers_cover_a_run_that_resumes(gateway: harness.Gateway, workers: int) -> None:
    """Each rank reads batches ahead that it does not yield, and two batches after the checkpoint."""
    saved: list[str] = []
    state: Any = None
    with millrace.Client(gateway.url, "photos") as client:
        classes = {at: cls for b in client.epoch(0, decode={"cls": int}) for at, cls in zip(b.positions, b["cls"])}
    for ranks, size, batches in ((2, 48, 4), (3, 30, 3), (1, 64, 20)):
        ledgers = [millrace.Ledger(saved) for _ in range(ranks)]
        saved = []
        for rank, ledger in enumerate(ledgers):
            dataset = millrace.torch.Dataset(
                gateway.url, "photos", global_batch_size=size, decode={"cls": int}, transform=_decode, share=Share(rank=rank, world_size=ranks),
                reading=Reading(filter=_is_wanted, on_error=_replace),
            )  # fmt: skip
            loader = millrace.torch.DataLoader(dataset, num_workers=workers, ledger=ledger)
            if state is not None:
                loader.load_state_dict(state)
            for number, _ in enumerate(loader, 1):
                if number == batches:
                    then, text = loader.state_dict(), str(ledger)
                if number == batches + 2:
                    break
            else:
                then, text = loader.state_dict(), str(ledger)
            saved.append(text)
        state = then
    verdict = judge("".join(saved))
    assert verdict["ok"], verdict
    parts = [json.loads(line) for text in saved for line in text.splitlines()]
    assert [(p["attempt"], p["start"]) for p in parts if p["rank"] == 0] == [(0, [0, 0]), (1, [0, 192]), (2, [0, 270])]

    def found(name: str) -> list[int]:
        return sorted(t for p in parts for _, first, end in p.get(name, []) for t in range(first, end))

    assert found("filtered") == [t for t, cls in sorted(classes.items()) if cls == 3]
    assert found("failed") == [t for t, cls in sorted(classes.items()) if cls == 5 and t % 2 == 0]
    assert found("replaced") == [t for t, cls in sorted(classes.items()) if cls == 5 and t % 2 == 1]
    ledgers[0].check()
