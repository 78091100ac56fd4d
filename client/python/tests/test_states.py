"""The state of a run against the vectors of docs/spec/state.md, and between readers of Client.epoch."""

from __future__ import annotations

import json
from typing import Any

import harness
import pytest

import millrace
from millrace import InvalidArgument, Plan
from millrace._job import Place, State, brief
from millrace.errors import StateError

VECTORS = json.loads((harness.ROOT / "client/testdata/states.json").read_text())
GENERATION, DIGEST = "c2745ef8f32dd0e2131a682536b8d09e" * 2, "4298dff41f247fffb576ccde58a40809"


def plan_of(vector: dict[str, Any], digests: Any = None) -> Plan:
    """The plan of a vector, as a gateway would describe it."""
    samples, size, tail = vector.get("samples", vector.get("positions")), vector.get("batch_size", 1), vector.get("tail", "short")
    batches = samples // size if tail == "drop" else -(-samples // size)
    description = {"plan_digests": digests or [{"position": 0, "digest": DIGEST}]}
    parameters = {"batch_size": str(size), "tail": tail}
    return Plan("photos", 0, "tar", batches, samples, 0, GENERATION, DIGEST, parameters, description, {})


def test_texts_of_the_vectors() -> None:
    for v in VECTORS["states"]:
        state = State.parse(json.loads(v.pop("text")))
        assert state._asdict() == v
        assert State.parse(json.loads(json.dumps(state.to_dict()))) == state
    assert len(json.dumps(State(GENERATION[:32], DIGEST, (1 << 64) - 2, (1 << 63) - 1).to_dict())) <= 200
    for text in VECTORS["refused"]:
        with pytest.raises((StateError, json.JSONDecodeError), match=r"load state|Expecting|Extra"):
            State.parse(json.loads(text))
    assert [brief(v["generation"]) for v in VECTORS["generations"]] == [v["short"] for v in VECTORS["generations"]]


def test_places_of_the_vectors() -> None:
    for v in VECTORS["places"]:
        plan, state = plan_of(v), State(GENERATION[:32], DIGEST, *v["at"])
        if v["next"] is None:
            with pytest.raises(StateError, match=r"^load state: position \d+ of epoch \d+, which has \d+ positions"):
                state.resume(GENERATION, lambda plan=plan: plan)
            continue
        epoch, position = state.resume(GENERATION, lambda plan=plan: plan)
        assert [epoch, *divmod(position, plan.batch_size)] == v["next"], v


def test_what_is_saved_in_the_vectors() -> None:
    for v in VECTORS["saves"]:
        plan, first = plan_of(v), v["batch"] * v["batch_size"]
        position = first + v["batch_size"] if v["read"] is None else first + v["skip"] + v["read"]
        assert list(State.of(Place(v["epoch"], position), plan))[2:] == v["place"], v


def test_digests_of_the_vectors() -> None:
    for v in VECTORS["digests"]:
        assert plan_of(v, v["plan_digests"]).digest_at(*v["at"]) == v["digest"], v


def test_an_epoch_resumes_from_a_state(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url, "photos") as client:
        whole = [sample.position for batch in client.epoch(1, global_batch_size=40, seed=3) for sample in batch]
        with client.epoch(1, global_batch_size=30, seed=3).read() as reader:
            got = [sample.position for _ in range(3) for sample in next(reader)]
            state = reader.state_dict()
        for rank in range(3):
            share = millrace.Share(rank=rank, world_size=3)
            epoch = client.epoch(state, global_batch_size=40, seed=3, share=share)
            assert epoch.read().state_dict() == state
            batches = list(epoch)
            assert [batch.number for batch in batches] == list(range(2, 13))
            assert list(batches[0].positions) == list(range(90 + 10 * rank, 100 + 10 * rank))
            assert list(batches[0].positions) == [sample.position for sample in batches[0]]
            got += [p for batch in batches for p in batch.positions]
        assert sorted(got) == whole
        end = {**state, "position": 500}
        assert client.epoch(end, global_batch_size=40, seed=3).number == 2
        assert client.epoch(state, global_batch_size=40, seed=3).read(step=2).position == 2


def test_a_state_that_does_not_fit_is_refused(gateway: harness.Gateway) -> None:
    with millrace.Client(gateway.url, "photos") as client:
        epoch = client.epoch(0, seed=3)
        state = epoch.read().state_dict()
        with pytest.raises(StateError, match=r"another order than that of photos, seed 4, shuffle slot, window \d+; seed, .* determine the"):
            client.epoch(state, seed=4)
        with pytest.raises(InvalidArgument, match=r"epoch from a state of generation .*; leave out start and generation"):
            client.epoch(state, seed=3, reading=millrace.Reading(start=2))
        with pytest.raises(InvalidArgument, match="leave out start and generation"):
            client.epoch(state, seed=3, order=millrace.Order(generation="0" * 64))
        assert client.epoch(state, seed=3, order=millrace.Order(generation=epoch.generation)).number == 0
        with pytest.raises(StateError, match="this reader leaves out batches: it reads every 2th; read with step=1"):
            epoch.read(step=2).state_dict()
        with pytest.raises(StateError, match="its form is 2, want 3"):
            client.epoch({"state": 2})
