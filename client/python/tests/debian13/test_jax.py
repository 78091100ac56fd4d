"""millrace.jax over a real gateway, with the real JAX: eight CPU devices, in one process and in two."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import harness
import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from PIL import Image

import millrace.jax
from millrace import Client, InvalidArgument, Reading, Share
from millrace.errors import Closed, StateError

jax.config.update("jax_num_cpu_devices", 8)

BATCH = 48
BATCHES = 500 // BATCH


def over(*axes: Any, shape: tuple[int, ...] = (8,)) -> NamedSharding:
    """A sharding over a mesh of eight devices."""
    mesh = jax.make_mesh(shape, ("data", "model")[: len(shape)])
    return NamedSharding(mesh, PartitionSpec(*axes))


def start_of(view: memoryview) -> Any:
    return np.frombuffer(view[:16], np.uint8)


def loader_of(gateway: harness.Gateway, **options: Any) -> millrace.jax.DataLoader:
    options.setdefault("sharding", over("data"))
    settings = {"global_batch_size": BATCH, "seed": 3, "decode": {"jpg": start_of, "cls": int}, **options}
    return millrace.jax.DataLoader(gateway.url, "photos", **harness.grouped(**settings))


def order(gateway: harness.Gateway, epoch: int, files: dict[str, tuple[bytes, bytes]]) -> list[tuple[list[int], list[int]]]:
    """The batches of an epoch from a core Epoch: labels, and the first bytes of the images."""
    with Client(gateway.url, dataset="photos") as client:
        batches = client.epoch(epoch, global_batch_size=BATCH, seed=3, share=Share(tail="drop"), reading=Reading(keys=True))
        return [([int(files[k][1]) for k in b.keys], [files[k][0][0] for k in b.keys]) for b in batches]


def content(batch: Any) -> tuple[list[int], list[int]]:
    return batch["cls"].tolist(), batch["jpg"][:, 0].tolist()


SHARDINGS = [over("data"), over("data", shape=(4, 2)), over(("data", "model"), shape=(2, 4)), over("model", shape=(2, 4)), over()]


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_global_arrays(gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]], sharding: NamedSharding) -> None:
    loader = loader_of(gateway, sharding=sharding)
    assert len(loader) == BATCHES
    for epoch in range(2):
        batches = list(loader)
        assert [content(b) for b in batches] == order(gateway, epoch, files)
        for b in batches:
            assert (b["jpg"].shape, b["jpg"].dtype, b["cls"].shape, b["cls"].dtype) == ((BATCH, 16), np.uint8, (BATCH,), np.int32)
            assert b["jpg"].sharding == b["cls"].sharding == sharding


def test_a_sharding_for_each_part(gateway: harness.Gateway) -> None:
    both = {"jpg": over("data", "model", shape=(4, 2)), "cls": over("data", shape=(4, 2))}
    batch = next(iter(loader_of(gateway, sharding=both)))
    assert {name: a.sharding for name, a in batch.items()} == both
    assert {s.data.shape for s in batch["jpg"].addressable_shards} == {(BATCH // 4, 8)}
    with pytest.raises(InvalidArgument, match="shardings for jpg, cls, and samples have jpg"):
        next(iter(loader_of(gateway, sharding=both, fields="jpg", decode={"jpg": start_of})))


def test_the_next_batch_is_on_its_way(gateway: harness.Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    put = []
    make = jax.make_array_from_process_local_data
    monkeypatch.setattr(jax, "make_array_from_process_local_data", lambda *a: put.append(1) or make(*a))
    for ahead in (1, 2, 3):
        put.clear()
        loader = loader_of(gateway, ahead=ahead, fields="cls", decode={"cls": int})
        batches = iter(loader)
        for taken in range(1, BATCHES + 1):
            next(batches)
            assert len(put) == min(taken + ahead - 1, BATCHES)
        assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (1, 0)
        assert next(batches, None) is None


def test_a_state_counts_what_was_yielded(gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]]) -> None:
    loader = loader_of(gateway)
    want = [b for epoch in range(3) for b in order(gateway, epoch, files)]
    for stop in (1, 7, BATCHES, BATCHES + 1, 2 * BATCHES - 1):
        first, second = loader_of(gateway), loader_of(gateway, sharding=over("data", shape=(2, 4)))
        got = []
        while len(got) < stop:
            for batch in first:
                got.append(content(batch))
                if len(got) == stop:
                    break
        state = json.loads(json.dumps(first.state_dict()))
        second.load_state_dict(state)
        assert second.state_dict() == state
        while len(got) < len(want):
            got += [content(batch) for batch in second]
        assert got == want, stop
    assert loader.state_dict() == {**state, "epoch": 0, "position": 0}


def test_passes(gateway: harness.Gateway, files: dict[str, tuple[bytes, bytes]]) -> None:
    """After a pass that was left the next epoch follows. set_epoch keeps the position of a loaded state."""
    loader = loader_of(gateway)
    iter(loader)  # takes no batch, and does not count
    assert [content(next(iter(loader))) for _ in range(3)] == [order(gateway, e, files)[0] for e in range(3)]
    older = iter(loader)
    next(older)
    loader.set_epoch(1)
    next(older)  # no longer counts
    assert content(next(iter(loader))) == order(gateway, 1, files)[0]
    loader.load_state_dict({**loader.state_dict(), "epoch": 5, "position": 2 * BATCH})
    loader.set_epoch(5)
    assert content(next(iter(loader))) == order(gateway, 5, files)[2]
    loader.set_epoch(5)
    assert content(next(iter(loader))) == order(gateway, 5, files)[0]


def test_a_closed_loader_lets_go_of_its_own_client(gateway: harness.Gateway) -> None:
    with loader_of(gateway) as loader:
        next(iter(loader))
    with pytest.raises(Closed):
        next(iter(loader))
    with Client(gateway.url) as client:
        with millrace.jax.DataLoader(client, "photos", sharding=over("data"), global_batch_size=BATCH, fields="cls", decode={"cls": int}) as loader:
            next(iter(loader))
        assert client.version()


def test_what_does_not_fit_is_refused(gateway: harness.Gateway) -> None:
    for options, message in [
        ({"global_batch_size": 50}, "batch of 50 samples on this mesh.*the devices divide"),
        ({"tail": "short"}, "tail 'short'"),
        ({"on_error": "skip"}, "no 'skip'"),
        ({"ahead": 0}, "ahead=0"),
        ({"form": "tar"}, "form 'tar'"),
        ({"form": "npy", "transform": dict}, "'npy' without a transform"),
        ({"drop_last": True}, "drop_last is no parameter here"),
        ({"sharding": {"jpg": over("data"), "cls": over("data"), "x": over("data", shape=(4, 2))}, "global_batch_size": 50}, "batch of 50"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            loader_of(gateway, **options)
    for options, message in [
        ({"fields": "png"}, "no sample has a part png"),
        ({"decode": False}, "stack cls: bytes is nothing for a device"),
        ({"transform": lambda s: {"x": np.zeros(s["cls"])}, "decode": {"cls": int}}, "stack x: .*equal shapes"),
        ({"transform": lambda s: {str(s["cls"]): 1}, "decode": {"cls": int}}, "different parts"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            next(iter(loader_of(gateway, **options)))
    state = loader_of(gateway).state_dict()
    for wrong, said in [
        ({**state, "position": 24}, f"position 24 of epoch 0 is within a batch of {BATCH}; batches have one shape; give a global_batch"),
        ({**state, "plan": "0" * 32}, "load state: it was saved in another order than that of photos, seed 3"),
        ({**state, "state": 9}, "its form is 9, want 3"),
        ({**state, "position": -1}, "position -1"),
        ({"epoch": 1}, r"it holds \['epoch'\], want state, generation"),
        ({}, "do not load a state to begin at the beginning"),
    ]:
        with pytest.raises(StateError, match=said):
            loader_of(gateway).load_state_dict(wrong)
    with pytest.raises(StateError):
        loader_of(gateway, seed=4).load_state_dict(state)


def test_ranks_are_those_of_the_rows() -> None:
    """Uses shardings as several processes would see them."""

    class Held:
        spec = ("data",)
        mesh = over().mesh

        def __init__(self, *spans: tuple[int, int]) -> None:
            self._spans = spans

        def addressable_devices_indices_map(self, _: tuple[int, ...]) -> dict[int, tuple[slice, ...]]:
            return {i: (slice(*span),) for i, span in enumerate(self._spans)}

    rows_of = millrace.jax.rows_of
    assert rows_of(Held((8, 12), (12, 16)), 48) == (1, 6)
    assert rows_of(Held((8, 16), (8, 16)), 16) == (1, 2)  # replicas
    assert rows_of(over(), 48) == (0, 1)
    for spans in [((0, 4), (8, 12)), ((0, 4), (4, 36)), ((4, 12),)]:
        with pytest.raises(InvalidArgument, match="hold the rows"):
            rows_of(Held(*spans), 48)


def colours(view: memoryview) -> Any:
    return np.asarray(Image.open(io.BytesIO(view)).convert("RGB"))


def test_images(tmp_path: Path) -> None:
    """Images have the shape samples x height x width x bands. A last batch may be padded."""
    (tmp_path / "images").mkdir()
    for i in range(28):
        Image.new("L" if i % 2 else "RGB", (6, 4), i).save(tmp_path / "images" / f"{i:02d}.png")
        (tmp_path / "images" / f"{i:02d}.cls").write_text(str(i % 2))
    harness.run("pack", str(tmp_path / "images"), str(tmp_path / "packed"))
    with harness.closing(g := harness.Gateway(f"d={tmp_path / 'packed'}")):

        def loader(**options: Any) -> millrace.jax.DataLoader:
            return millrace.jax.DataLoader(g.url, sharding=over("data"), **harness.grouped(global_batch_size=16, **options))

        batch = next(iter(loader(decode={"png": colours}, fields="png")))
        assert (batch["png"].shape, batch["png"].dtype) == ((16, 4, 6, 3), np.uint8)
        with pytest.raises(InvalidArgument, match=r"stack png: .*equal shapes"):
            next(iter(loader()))
        grey = loader(transform=lambda sample: {"png": sample["png"][..., :1], "cls": sample["cls"]}, tail="pad")
        assert [b["png"].shape for b in grey] == [(16, 4, 6, 1)] * 2
        assert len(loader()) == 1


def test_tokens(tmp_path: Path) -> None:
    """With form="npy" a batch is one array. The default batch size is the dataset's."""
    tokens = np.arange(1001, dtype="<u2")
    (tmp_path / "a.bin").write_bytes(tokens.tobytes())
    harness.run("index", str(tmp_path), "--format", "tokens", "--dtype", "uint16", "--sequence-length", "10", "--batch-size", "8")
    with harness.closing(g := harness.Gateway(f"d={tmp_path}")):
        whole = list(millrace.jax.DataLoader(g.url, sharding=over("data"), reading=Reading(form="npy")))
        assert [(b.shape, b.dtype) for b in whole] == [((8, 11), np.uint16)] * 12
        assert all(np.array_equal(row, np.arange(row[0], row[0] + 11)) for b in whole for row in np.asarray(b))
        parts = list(millrace.jax.DataLoader(g.url, sharding=over("data")))
        assert all(np.array_equal(a["bin"], b) for a, b in zip(parts, whole))


def run_job(processes: int, **job: Any) -> list[dict[str, Any]]:
    """Runs the training script in the given number of processes with eight devices in total."""
    coordinator = f"127.0.0.1:{harness.free_port()}"
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here.parents[1]), os.environ.get("PYTHONPATH", "")])}
    started = []
    for process in range(processes):
        said = json.dumps({**job, "processes": processes, "process": process, "devices": 8 // processes, "coordinator": coordinator})
        command = [sys.executable, str(here / "jax_training.py"), said]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    try:
        ends = [p.communicate(timeout=300) for p in started]
    finally:
        for p in started:
            p.kill()
            p.wait()
    assert [p.returncode for p in started] == [0] * processes, "\n".join(err for _, err in ends)
    return [json.loads(out.splitlines()[-1]) for out, _ in ends]


@pytest.mark.parametrize("processes", [1, 2])
def test_training_goes_on_to_the_bit(gateway: harness.Gateway, tmp_path: Path, processes: int) -> None:
    """A job stops at a random step and resumes, in one process or two. Its order and its model equal those of an uninterrupted job."""
    stop, steps = random.randrange(1, 17), 18  # an epoch has 12 batches
    job = {"url": gateway.url}
    whole = run_job(processes, **job, steps=steps, resume=False, checkpoint=str(tmp_path / "whole"))
    first = run_job(processes, **job, steps=stop, resume=False, checkpoint=str(tmp_path / "part"))
    rest = run_job(processes, **job, steps=steps - stop, resume=True, checkpoint=str(tmp_path / "part"))
    assert [job["ranks"] for job in whole] == [[r, processes] for r in range(processes)]
    for process in range(processes):
        assert first[process]["seen"] + rest[process]["seen"] == whole[process]["seen"], stop
    assert {job["digest"] for job in rest} == {job["digest"] for job in whole}, stop
    assert len({job["digest"] for job in whole}) == 1
    assert rest[0]["state"] == whole[0]["state"]
    positions = [[p for job in whole for p in job["seen"][n]] for n in range(steps)]
    assert positions == [list(range(n % 12 * 40, n % 12 * 40 + 40)) for n in range(steps)]


def test_example_trains_and_resumes(images: Path, tmp_path: Path, runtime: Path) -> None:  # noqa: ARG001
    options = str(images), "--batch-size", "60", "--checkpoint", str(tmp_path / "checkpoint")
    lines = [line for epochs in ("2", "3") for line in harness.run_example("jax_train.py", *options, "--epochs", epochs, cwd=tmp_path).splitlines()]
    assert [line.split(",")[0] for line in lines] == ["epoch 0", "epoch 1", "epoch 2"]
    losses = [float(line.split()[-1]) for line in lines]
    assert losses == sorted(losses, reverse=True)


def test_a_ledger_records_the_yielded_batches(gateway: harness.Gateway) -> None:
    """Batches that are on the devices, but not yielded, are not in it."""
    ledger = millrace.Ledger()

    def broken(view: memoryview) -> int:
        value = int(bytes(view))
        return value if value != 3 else 1 // 0

    loader = loader_of(gateway, ledger=ledger, decode={"cls": broken}, fields="cls", on_error=lambda _: 7)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = loader.state_dict()
    part = json.loads(str(ledger))
    assert (part["read"], part["positions"]) == ([[0, 0, state["position"]]], BATCHES * BATCH)
    assert sum(end - first for _, first, end in part["replaced"]) > 0
    assert all(end <= 3 * BATCH for _, _, end in part["replaced"])
    for _ in batches:
        pass
    ledger.check()
