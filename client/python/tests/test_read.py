"""Epochs of a real gateway, read like trainers do."""

from __future__ import annotations

import io
import multiprocessing
import pickle
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest

import millrace
from millrace import Order, Reading, Routing, Share
from millrace._http import gateways

Files = dict[str, tuple[bytes, bytes]]


@pytest.fixture
def client(gateway: harness.Gateway) -> Any:
    with millrace.Client(gateway.url, routing=Routing(check="always")) as c:
        yield c


def test_an_epoch_is_every_file_once(client: millrace.Client, files: Files) -> None:
    epoch = client.epoch(0, decode={"cls": int}, reading=Reading(keys=True))
    assert (len(epoch), epoch.plan.samples, epoch.plan.batch_size) == (16, 500, 32)
    got = {}
    ledger = millrace.Ledger()
    with epoch.read(ledger=ledger) as reader:
        for number, batch in enumerate(reader):
            assert (batch.number, batch.epoch, batch.generation) == (number, 0, epoch.generation)
            for sample, jpg, cls in zip(batch, batch["jpg"], batch["cls"]):
                assert sample.key not in got
                assert isinstance(jpg, memoryview)
                assert (sample["jpg"], sample["cls"]) == (jpg, cls)
                got[sample.key] = (bytes(jpg), b"%d" % cls)
    assert got == files
    ledger.check()


def test_a_batch_is_a_sequence(client: millrace.Client, files: Files) -> None:
    batch = client.epoch(0, decode={"cls": int}).batch(3)
    assert len(batch) == len(list(batch)) == len(batch["jpg"]) == len(batch.views()) == 32
    assert batch[-1] == batch[31] == list(batch)[31]
    assert batch[1] != batch[2]
    assert batch[1] in batch
    assert [s.index for s in batch[2:6:2]] == [2, 4]
    with pytest.raises(IndexError):
        batch[32]
    sample = batch[5]
    assert set(sample) == {"jpg", "cls"}
    assert (bytes(sample["jpg"]), bytes(sample.parts["cls"])) == files[sample.key]
    assert sample["cls"] == int(files[sample.key][1])
    assert sample.position == 3 * 32 + 5
    assert bytes(sample) == bytes(sample.data) == bytes(batch.views()[5])
    with pytest.raises(KeyError, match="no part 'png' in this sample, which has 'cls', 'jpg'"):
        sample["png"]
    assert batch.etag.startswith('"')
    assert batch.padded == 0
    assert "batch_size=32" in batch.location


def test_views_share_the_bytes_of_the_batch(client: millrace.Client) -> None:
    batch = client.epoch(0).batch(0)
    for view in [batch[0].data, batch[0]["jpg"], batch["jpg"][0], batch.views()[0]]:
        assert view.obj is batch.data.obj


def test_buffers_are_not_used_again_while_somebody_looks(client: millrace.Client) -> None:
    epoch = client.epoch(0, global_batch_size=4, reading=Reading(threads=2))
    kept = [(b["jpg"][0], bytes(b["jpg"][0])) for b in epoch]
    assert all(view == was for view, was in kept)
    addresses = set()
    with epoch.read() as reader:
        for batch in reader:
            addresses.add(id(batch.data.obj))
            del batch
    assert len(addresses) < len(epoch) / 2


def test_the_next_reader_takes_buffers_over(client: millrace.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch, idle = client.epoch(0), client.core.here().buffers
    with epoch.read() as reader, epoch.read() as other:
        assert reader._buffers is not other._buffers
        assert len(list(reader)) == 16
        assert idle == [reader._buffers]
    with epoch.read() as second:
        assert second._buffers in (reader._buffers, other._buffers)
        next(second)
        monkeypatch.setattr(gateways, "IDLE_BUFFERS", 1000)
    assert second._buffers not in idle  # large buffers are not kept


@pytest.mark.parametrize("form", ["tar", "framed"])
def test_forms_say_the_same(client: millrace.Client, form: str) -> None:
    plain, other = client.epoch(1).batch(2), client.epoch(1, reading=Reading(form=form)).batch(2)
    assert list(plain.keys) == list(other.keys)
    assert plain.positions == other.positions
    assert bytes(other.data).startswith(bytes(plain.data))  # a tar ends with two empty blocks
    if form == "tar":
        assert other.content_type == "application/x-tar"
        with pytest.raises(millrace.InvalidArgument, match="framed form only"):
            client.epoch(1, reading=Reading(form=form, keys=True))


@pytest.mark.parametrize("ask", [lambda b: b[0], lambda b: b[1:3], list, lambda b: b["jpg"], lambda b: b.parts(0), lambda b: b.views()])
def test_a_form_has_no_samples(client: millrace.Client, ask: Callable[[millrace.Batch], Any]) -> None:
    batch = client.epoch(1, decode=True, reading=Reading(form="tar")).batch(2)
    assert len(batch) == len(batch.keys) == len(batch.positions) == 32
    with pytest.raises(millrace.InvalidArgument, match=r"samples cannot be cut from application/x-tar: .*leave `form` out"):
        ask(batch)


@pytest.mark.parametrize("step", [{"decode": {"cls": int}}, {"filter": bool}, {"transform": dict}, {"collate": list}])
def test_steps_of_samples_want_no_form(client: millrace.Client, step: dict[str, Any]) -> None:
    with pytest.raises(millrace.InvalidArgument, match="the form tar is not cut into them; leave form out"):
        client.epoch(0, **harness.grouped(form="tar", **step))


def test_fields(client: millrace.Client) -> None:
    whole, part = client.epoch(0).batch(0), client.epoch(0, fields=["cls"]).batch(0)
    assert list(part[0]) == ["cls"]
    assert whole["cls"] == part["cls"]
    assert len(part.data) == 32
    both = client.epoch(0, fields="cls,jpg").batch(0)
    assert both["jpg"] == whole["jpg"]
    with pytest.raises(KeyError, match="no part 'jpg'"):
        part["jpg"]


@pytest.mark.parametrize("more", [{}, {"tail": "pad"}, {"tail": "drop"}, {"balance": "bytes"}, {"by": "locality"}])
def test_ranks_share_every_batch(client: millrace.Client, more: dict[str, Any]) -> None:
    epochs = [client.epoch(2, **harness.grouped(rank=r, world_size=3, global_batch_size=48, keys=True, **more)) for r in range(3)]
    whole = client.epoch(2, global_batch_size=48, share=Share(tail=more.get("tail")), reading=Reading(keys=True))
    ledgers = [millrace.Ledger() for _ in epochs]
    keys: list[list[str]] = [[] for _ in range(len(whole))]
    for e, ledger in zip(epochs, ledgers):
        with e.read(ledger=ledger) as reader:
            for batch in reader:
                keys[batch.number] += batch.keys
    assert [sorted(k) for k in keys] == [sorted(b.keys) for b in whole]
    with pytest.raises(millrace.errors.LedgerError, match=r"ledgers of the ranks \[0\] of 3"):
        ledgers[0].check()
    ledgers[0].check(part=True)
    ledgers[0].check(ledgers[2], ledgers[1])
    with epochs[1].read(4, 6, ledger=ledgers[1]) as reader:
        list(reader)
    with pytest.raises(millrace.errors.LedgerError, match="96 positions came again") as e:
        ledgers[0].check(*ledgers[1:])
    assert (e.value.missing, e.value.duplicates) == (0, 96)


def test_going_on_from_two_integers(client: millrace.Client) -> None:
    whole = [list(b.keys) for b in client.epoch(4, reading=Reading(keys=True))]
    with client.epoch(4, reading=Reading(keys=True)).read() as reader:
        before = [list(next(reader).keys) for _ in range(5)]
        position = reader.position
        assert len(reader) == 11
    after = [list(b.keys) for b in client.epoch(4, reading=Reading(keys=True, start=position))]
    assert before + after == whole
    assert list(client.epoch(4, reading=Reading(start=16))) == []
    assert list(client.epoch(4).read(99)) == []
    side_by_side = [[b.number for b in client.epoch(4).read(start=k, step=3)] for k in range(3)]
    assert sorted(n for some in side_by_side for n in some) == list(range(16))
    assert [b.number for b in client.epoch(4).read(2, 5)] == [2, 3, 4]
    for wrong in ({"start": -1}, {"step": 0}):
        with pytest.raises(millrace.InvalidArgument):
            client.epoch(4).read(**wrong)  # type: ignore[arg-type]


def test_decoders_and_transforms(client: millrace.Client) -> None:
    seen = set()

    def small(view: memoryview) -> int:
        seen.add(harness.threading.current_thread().name)
        return len(view)

    epoch = client.epoch(0, decode={"jpg": small, "cls": str}, reading=Reading(batch_transform=lambda b: sum(b["jpg"])))
    for batch in epoch:
        assert batch.value == sum(batch["jpg"]) == sum(len(v) for v in batch.raw("jpg"))
        assert batch[0]["cls"] == bytes(batch[0].parts["cls"]).decode()
    assert all(name.startswith("millrace-") for name in seen)

    def breaks(view: memoryview) -> float:
        return len(view) / 0

    with pytest.raises(millrace.errors.DecodeError, match=r"decode part 'jpg' of sample 0 of batch 0 .*ZeroDivisionError: division by zero") as e:
        list(client.epoch(0, decode={"jpg": breaks}))
    assert isinstance(e.value.__cause__, ZeroDivisionError)


def test_the_generation_is_pinned(client: millrace.Client) -> None:
    epoch = client.epoch(0)
    assert client.epoch(0, order=Order(generation=epoch.generation)).batch(0).etag == epoch.batch(0).etag
    assert f"generation={epoch.generation}" in epoch.batch(0).location
    with pytest.raises(millrace.NotFound):
        client.epoch(0, order=Order(generation="0" * 64))


def test_what_is_served(client: millrace.Client, gateway: harness.Gateway) -> None:
    assert [d["name"] for d in client.datasets()] == ["photos"]
    assert client.describe()["samples"] == 500
    assert millrace.Client(gateway.url, "photos").describe()["format"] == "tar"
    assert client.json("GET", "/v1/datasets/photos/occurrences", {"key": "img-007", "epochs": "0-1"})["occurrences"]


def test_refusals_name_the_cure(client: millrace.Client, gateway: harness.Gateway) -> None:
    said = r"^global_batch_size: must be at most 2147483648 .*request .*help\(millrace.Client.epoch\)"
    with pytest.raises(millrace.InvalidArgument, match=said) as e:
        client.epoch(0, global_batch_size=1 << 40)
    assert e.value.faults == (("global_batch_size", "must be at most 2147483648"),)
    assert (e.value.code, e.value.status, e.value.retryable) == ("invalid_argument", 400, False)
    assert e.value.request_id
    assert isinstance(e.value, ValueError)
    with pytest.raises(millrace.NotFound, match=r"Client.datasets\(\)"):
        client.epoch(0, dataset="nowhere")
    with pytest.raises(millrace.NotFound):
        millrace.Client(gateway.url, "no/where").epoch(0)
    with pytest.raises(millrace.errors.EndOfEpoch) as end:
        client.epoch(0).batch(16)
    assert end.value.batches == 16
    with pytest.raises(millrace.InvalidArgument, match="rank 3"):
        client.epoch(0, share=Share(rank=3, world_size=3))
    with pytest.raises(millrace.MillraceError):
        client.epoch(0, reading=Reading(form="parquet"))
    with pytest.raises(millrace.InvalidArgument, match="fields"):
        client.epoch(0, fields="a,a")
    with millrace.Client(gateway.url, routing=Routing(max_batch_bytes=1000)) as small, pytest.raises(millrace.errors.BatchTooLarge, match="=1000"):
        small.epoch(0).batch(0)
    again = pickle.loads(pickle.dumps(e.value))
    assert (str(again), again.faults, type(again)) == (str(e.value), e.value.faults, type(e.value))


def _keys(epoch: millrace.Epoch, out: Any) -> None:
    out.put([list(b.keys) for b in epoch])


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_other_processes(client: millrace.Client, method: str) -> None:
    epoch = client.epoch(1, reading=Reading(keys=True))
    reader = epoch.read()
    first = next(reader)
    context = multiprocessing.get_context(method)
    out = context.Queue()
    child = context.Process(target=_keys, args=(epoch, out))
    child.start()  # while this process has connections and threads
    got = out.get(timeout=60)
    child.join()
    assert child.exitcode == 0
    mine = [list(first.keys), *(list(b.keys) for b in reader)]
    assert got == mine


def test_nothing_but_the_standard_library(gateway: harness.Gateway) -> None:
    program = """
import sys
import millrace, millrace.proof, millrace.importance
with millrace.Client(sys.argv[1], routing=millrace.Routing(check="never")) as c:
    assert sum(len(b) for b in c.epoch(0)) == 500
"""
    here = str(Path(millrace.__file__).parent.parent)
    subprocess.run([sys.executable, "-S", "-c", program, gateway.url], check=True, timeout=60, env={"PYTHONPATH": here, "PATH": ""})


def test_forms_that_others_read(client: millrace.Client) -> None:
    import pyarrow
    import pyarrow.ipc

    framed, batch = client.epoch(0, reading=Reading(keys=True)).batch(1), client.epoch(0, reading=Reading(form="arrow")).batch(1)
    table = pyarrow.ipc.open_stream(batch.data).read_all()
    assert table.num_rows == 32
    assert [bytes(v) for v in framed["jpg"]] == table["jpg"].to_pylist()
    assert list(batch.keys) == list(framed.keys)  # from the manifest
    assert batch.positions == framed.positions
    with pytest.raises(millrace.InvalidArgument, match=r"cannot be cut from application/vnd\.apache\.arrow\.stream"):
        batch[0]


def test_faults_of_a_hook_are_the_callers(gateway: harness.Gateway) -> None:
    def token() -> str:
        raise ValueError("no token today")

    with millrace.Client(gateway.url, token=token) as c, pytest.raises(ValueError, match="no token today"):
        c.epoch(0)


def test_a_key_of_several_shards_needs_its_shard(tmp_path: Path) -> None:
    for shard in ("0.tar", "1.tar"):
        with tarfile.open(tmp_path / shard, "w") as t:
            member = tarfile.TarInfo("000000017.txt")
            member.size = len(shard)
            t.addfile(member, io.BytesIO(shard.encode()))
    harness.run("index", str(tmp_path))
    gateway = harness.Gateway(f"laion={tmp_path}")
    with harness.closing(gateway), millrace.Client(gateway.url) as client:
        where = {"key": "000000017", "epochs": "0"}
        with pytest.raises(millrace.errors.AmbiguousKey, match=r"2 shards .* the parameter `shard`") as e:
            client.json("GET", "/v1/datasets/laion/occurrences", where)
        assert e.value.shards == ("0.tar", "1.tar")
        assert (e.value.code, e.value.status, e.value.retryable) == ("ambiguous_key", 409, False)
        for shard in e.value.shards:
            assert len(client.json("GET", "/v1/datasets/laion/occurrences", {**where, "shard": shard})["occurrences"]) == 1
