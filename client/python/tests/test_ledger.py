"""Ledgers: the specification's example, forgeries, resumes on other ranks, and the verdicts of two independent checks."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import harness
import pytest

import millrace
from millrace import Ledger, Order, Plan, Reading, Share
from millrace.errors import InvalidArgument, LedgerError

JUDGE = harness.ROOT / "integration" / "conformance" / "ledgers.py"
GENERATION = "a" * 64
SIZE = 10


def judge(text: str) -> dict[str, Any]:
    """The verdict of the check that knows only the specification."""
    spec = importlib.util.spec_from_file_location("ledgers", JUDGE)
    assert spec
    assert spec.loader
    sys.modules["ledgers"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.judge(text)
    return found


def audit(text: str, at: Path, *more: str) -> dict[str, Any]:
    """The output of millrace audit."""
    file = at / "all.jsonl"
    file.write_text(text)
    done = subprocess.run([harness.binary(), "audit", "--json", *more, str(file)], capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return found | {"code": done.returncode}


def plan(epoch: int = 0, rank: int = 0, world_size: int = 1, samples: int = 95) -> Plan:
    ranks = {"rank": str(rank), "world_size": str(world_size)}
    url = f"/v1/datasets/d/epochs/{epoch}?batch_size={SIZE}&generation={GENERATION}&rank={rank}&seed=1&world_size={world_size}"
    description = {"links": {"self": url}, "plan_digests": [{"position": 0, "digest": "0" * 32}, {"position": 150, "digest": "1" * 32}]}
    return Plan("d", epoch, "tar", -(-samples // SIZE), samples, 0, GENERATION, "", {"batch_size": str(SIZE), **ranks}, description, {})


def part(ledger: Ledger) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(str(ledger).splitlines()[-1])
    return found


def read(ledger: Ledger, rank: int, ranks: int, first: int, end: int) -> str:
    """Reads the batches from one number to another, counted over all epochs of 10 batches."""
    for number in range(first, end):
        ledger.add(plan(number // 10, rank, ranks), number % 10 * SIZE)
    return str(ledger)


def test_a_part() -> None:
    ledger = Ledger()
    assert str(ledger) == ""
    read(ledger, 1, 2, 3, 10)
    ledger.add(plan(1, 1, 2), 4, ([7, 5], [6], [8]))
    ledger.add(plan(1, 1, 2), 0, ([6],))
    assert part(ledger) == {
        "ledger": 1, "previous": [], "attempt": 0, "generation": "a" * 32,
        "plans": [{"at": [0, 0], "digest": "0" * 32}, {"at": [1, 55], "digest": "1" * 32}],
        "url": f"/v1/datasets/d/epochs/0?batch_size=10&generation={GENERATION}&seed=1", "rank": 1, "ranks": 2, "positions": 95,
        "start": [0, 30], "read": [[0, 30, 95], [1, 0, 10], [1, 4, 10]], "filtered": [[1, 5, 8]], "failed": [[1, 6, 7]], "replaced": [[1, 8, 9]],
    }  # fmt: skip
    assert str(pickle.loads(pickle.dumps(ledger))) == str(ledger)
    for other in (plan(1, 0, 2), plan(1, 1, 3), plan(1, 1, 2, 96)):
        with pytest.raises(InvalidArgument, match="read with a ledger of generation, rank, ranks, positions"):
            ledger.add(other, 0)


def test_ledgers_that_do_not_fit(tmp_path: Path) -> None:
    text, cure = read(Ledger(), 0, 1, 0, 5), "pass a list of the texts of the ledgers' files"
    no_plans, no_rank = text.replace('"plans":[', '"plans":["x",'), text.replace('"rank":0', '"rank":"0"')
    for wrong in ([str(tmp_path)], [text[:-1]], [text[:40]], ["{}\n"], ["[]\n"], ["\n"], [no_plans], [no_rank], [text.replace("read", "seen")]):
        with pytest.raises(LedgerError, match=f"not a line of a ledger, or is truncated; {cure}"):
            Ledger(wrong)
    for other in (tmp_path, text, [tmp_path], [text.encode()], None):
        with pytest.raises(InvalidArgument, match=f"is not a (list|text); {cure}"):
            Ledger(other)  # type: ignore[arg-type]
    changed = text.replace("0" * 32, "2" * 32), text.replace("a" * 64, "b" * 64).replace("a" * 32, "b" * 32)
    for other in changed:
        with pytest.raises(LedgerError, match="with ledgers of another run: their generation or plan differs; pass the ledgers of this run, or none"):
            read(Ledger([other]), 0, 1, 5, 6)
    ledger = Ledger([text])
    with pytest.raises(LedgerError, match=r"\[0, 60\] with ledgers that end at \[0, 50\]; pass the ledgers that were saved with this state"):
        read(ledger, 0, 1, 6, 7)
    assert str(ledger) == text
    assert judge(read(Ledger([read(Ledger(), 0, 1, 0, 10)]), 0, 1, 10, 12))["ok"]


def test_positions_outside_a_batch() -> None:
    ledger = Ledger()
    for first, omitted in ((100, ()), (95, ()), (-1, ()), (10, ([9],)), (12, ([11],)), (10, ([], [20])), (90, ([], [], [95]))):
        with pytest.raises(InvalidArgument, match=r"; use (one from 0 to 94|those of the batch, from )"):
            ledger.add(plan(), first, omitted)
    assert str(ledger) == ""


def test_batches_in_any_order_take_no_memory() -> None:
    ledger, numbers = Ledger(), list(range(200))
    random.Random(1).shuffle(numbers)
    for n in numbers:
        ledger.add(plan(n // 10), n % 10 * SIZE)
    assert part(ledger)["read"] == [[e, 0, 95] for e in range(20)]
    ledger.check()


def test_check() -> None:
    a, b, c = Ledger(), Ledger(), Ledger()
    with pytest.raises(LedgerError, match=r"ledgers of the ranks \[\] of 1$"):
        Ledger().check()
    read(a, 0, 2, 0, 10)
    read(b, 1, 2, 0, 8)
    with pytest.raises(LedgerError, match=r"positions not read exactly once: ledgers of the ranks \[0\] of 2$"):
        a.check()
    with pytest.raises(LedgerError, match=r"once: 15 positions missing$") as e:
        a.check(b)
    assert (e.value.missing, e.value.duplicates) == (15, 0)
    a.check(b, part=True)
    a.check(part=True)
    read(b, 1, 2, 7, 10)
    with pytest.raises(LedgerError, match=r"once: 10 positions came again$") as e:
        b.check(a)
    assert (e.value.missing, e.value.duplicates) == (0, 10)
    with pytest.raises(LedgerError, match=r"once: 10 positions came again$"):
        b.check(part=True)
    d = Ledger()
    read(d, 0, 1, 10, 13)
    read(d, 0, 1, 14, 18)  # of the epoch, batch 3 is missing, and the last two
    with pytest.raises(LedgerError, match=r"once: 25 positions missing$"):
        d.check()
    read(c, 0, 2, 0, 10)
    with pytest.raises(LedgerError, match=r"once: ledgers of the ranks \[0, 0\] of 2$"):
        a.check(c, part=True)


def test_resumes_anywhere_on_any_ranks(tmp_path: Path) -> None:
    """Each rank saves its ledger with the state, and reads on until the run is killed."""
    for seed in range(40):
        r = random.Random(seed)
        saved: list[str] = []
        at = 0
        for _ in range(r.randint(1, 5)):
            ranks, save = r.randint(1, 5), at + r.randint(0, 25)
            r.shuffle(saved)
            ledgers = [Ledger(saved) for _ in range(ranks)]
            saved = [read(ledger, rank, ranks, at, save) for rank, ledger in enumerate(ledgers)]
            last = [read(ledger, rank, ranks, save, save + 3) for rank, ledger in enumerate(ledgers)]
            at = save
        for texts, end in ((saved, at), (last, at + 3)):
            text = "".join(texts)
            if not text:
                continue
            verdict = judge(text)
            assert verdict["ok"], (seed, verdict)
            if seed < 10:
                found = audit(text, tmp_path)
                assert (found["code"], found["head"]) == (0, verdict["head"])
                assert found["to"] == [end // 10, end % 10 * SIZE]


def test_ledgers_of_a_checkpoint() -> None:
    saved = [read(Ledger(), rank, 3, 0, 4) for rank in range(3)]
    assert str(Ledger(saved[::-1])) == "".join(saved[::-1])
    assert read(Ledger([*saved, *saved]), 0, 2, 4, 5).startswith("".join(saved))
    for wrong in (saved[:2], [*saved, read(Ledger(), 1, 3, 0, 5)], [saved[1]], [*saved[:2], read(Ledger(saved), 2, 3, 4, 5)]):
        with pytest.raises(LedgerError, match="want those of all ranks of one checkpoint"):
            Ledger(wrong)


def test_the_example_of_the_specification() -> None:
    text = (harness.ROOT / "docs" / "spec" / "state.md").read_text()
    example = "".join(line[4:] + "\n" for line in text.splitlines() if line.startswith('    {"ledger":1'))
    assert example.count("\n") == 3
    head = re.search("The head is ([0-9a-f]{32})", text)
    assert head
    assert judge(example) == {"ok": True, "head": head[1]}


def test_forged_ledgers_get_the_same_verdicts() -> None:
    forged = json.loads((harness.ROOT / "client" / "ledger" / "testdata" / "forged.json").read_text())
    assert len(forged) > 40
    for name, want in forged.items():
        got = judge(want.pop("text"))
        got.pop("error", None)
        assert got == want, name


def test_a_run_of_real_readers(dataset: Path, gateway: harness.Gateway, tmp_path: Path) -> None:
    """Filters, failures, replacements, a quarantine, and a resume on other ranks; the audit tells what became of a sample."""
    saved: list[str] = []
    with millrace.Client(gateway.url) as client:
        keys = [k for b in client.epoch(0, shuffle=False, reading=Reading(keys=True)) for k in b.keys]
        gone, odd, swapped, bad = keys[7], keys[100], keys[300], 450

        def decode(sample: millrace.Sample) -> Any:
            if sample.key in (odd, swapped):
                raise ValueError(sample.key)
            return sample.key

        reading = Reading(keys=True, filter=lambda s: s.key != gone, on_error=lambda e: "value" if e.key == swapped else None)
        for ranks, first, until in ((3, 0, 9), (2, 9, None)):
            ledgers = [Ledger(saved) for _ in range(ranks)]
            for rank, ledger in enumerate(ledgers):
                share, order = Share(rank=rank, world_size=ranks), Order(quarantine=f"samples:{bad}" if first else None)
                epoch = client.epoch(0, transform=decode, order=order, share=share, reading=reading)
                with epoch.read(first, until, ledger=ledger) as reader:
                    list(reader)
            saved = [str(ledger) for ledger in ledgers]
        text = "".join(saved)
        verdict = judge(text)
        positions = {key: at for b in client.epoch(0, reading=Reading(keys=True)) for key, at in zip(b.keys, b.positions)}
    assert verdict["ok"]
    found = audit(text, tmp_path)
    assert (found["code"], found["head"], found["positions"]) == (0, verdict["head"], 500)
    assert (found["filtered"], found["failed"], found["replaced"]) == (1, 1, 1)
    for key, note in ((gone, "filtered"), (odd, "failed"), (swapped, "replaced"), (keys[8], None)):
        readings = audit(text, tmp_path, "--key", key, "--offline", str(dataset))["readings"]
        assert (readings[0]["position"], readings[0].get("note")) == (positions[key], note)
    readings = audit(text, tmp_path, "--key", keys[bad], "--offline", str(dataset))["readings"]
    assert [r["note"] for r in readings] == (["quarantined: a substitute was read"] if positions[keys[bad]] >= 9 * 32 else [])


def test_the_recipe_to_sign_a_head(dataset: Path, gateway: harness.Gateway, tmp_path: Path) -> None:
    """Runs the page's commands, and again after a change of the last attempt that the audit cannot find."""
    page = (harness.ROOT / "docs" / "operations.md").read_text().split("## Audit a run")[1].split("\n## ")[0]
    check, sign, verify = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "shards").symlink_to(dataset)
    (tmp_path / "checkpoint").mkdir()
    with millrace.Client(gateway.url) as client:
        key = client.epoch(0, reading=Reading(keys=True)).batch(0).keys[0]
        for rank in range(2):
            with client.epoch(0, share=Share(rank=rank, world_size=2)).read(ledger=(ledger := Ledger())) as reader:
                list(reader)
            (tmp_path / "checkpoint" / f"ledger-{rank}.jsonl").write_text(str(ledger))

    def run(commands: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(harness.binary()).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", commands], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )

    made = run("ssh-keygen -q -t ed25519 -N '' -f key\n" + check.replace("img-7", key) + sign)
    assert made.returncode == 0, made.stderr
    assert "0:0 to 1:0 (epoch:position) in 1 attempt of 2 parts: 500 positions" in made.stdout
    good = run(verify)
    assert good.returncode == 0, good.stderr
    assert 'Good "ledger" signature for trainer' in good.stdout
    for text, want in ((str(ledger)[:-2] + ',"filtered":[[0,3,4]]}\n', "incorrect signature"), (2 * str(ledger), "found 1 fault")):
        (tmp_path / "checkpoint" / "ledger-1.jsonl").write_text(text)
        bad = run(verify)
        assert bad.returncode != 0
        assert want in bad.stdout + bad.stderr
        assert "Good" not in bad.stdout


def test_a_schedule_with_another_future(dataset: Path, tmp_path: Path) -> None:
    """A run resumes with later weights that differ: the audit accepts that. The ledger refuses another past. It finds a sample of a source."""
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        shutil.copytree(dataset, folder)
        harness.run("index", str(folder))
    gateway = harness.Gateway(f"a={folders[0]}", f"b={folders[1]}")
    texts = {}
    with harness.closing(gateway), millrace.Client(gateway.url, "a") as a, millrace.Client(gateway.url, "b") as b:
        for name, weights in (("past", {64: {a: 1}, 160: {b: 1}}), ("future", {96: {a: 1}, 160: {a: 1}})):
            saved = [""]
            for begin, end, later in ((0, 4, {96: {a: 1}, 160: {b: 1}}), (4, 8, weights)):
                mixed = millrace.mix({a: 1, b: 1}, samples=256, schedule=later)
                epoch = mixed.epoch(0, global_batch_size=32)
                with epoch.read(begin, end, ledger=(ledger := Ledger(saved))) as reader:
                    if begin and name == "past":
                        with pytest.raises(LedgerError, match="with ledgers of another run"):
                            list(reader)
                        continue
                    list(reader)
                saved = [str(ledger)]
            texts[name] = saved[0]
        key = a.epoch(0, reading=Reading(keys=True)).batch(0).keys[0]
        epochs = [mixed.epoch(0, global_batch_size=32, reading=Reading(keys=True))]
        positions = [t for batch in epochs[0].read(0, 8) for t, k in zip(batch.positions, batch.keys) if k == key]
    found = audit(texts["future"], tmp_path, "--key", key, *(f"--offline={folder.name}={folder}" for folder in folders))
    assert (judge(texts["future"])["ok"], found["code"], found["positions"]) == (True, 0, 256)
    assert {r["position"] for r in found.get("readings", [])} <= set(positions)
