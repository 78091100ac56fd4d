"""One epoch from a reader's view: a resolved plan, and the batches in order."""

from __future__ import annotations

import _thread
import contextlib
import json
import logging
import warnings
import weakref
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any, Optional, SupportsIndex
from urllib.parse import quote

from ._http import Answered, Expected, Gateways, Task
from ._job import Place, Plan, State, brief
from ._layout import Head, Manifest, Table, chunk_counts, read_manifest
from ._plan import ORDER, SHARING, SHOWING
from ._pool import Pool, Stats
from ._process import Buffers, Closing, Take, new, no_fork
from ._selection import columns_of, parts_are
from ._steps import Failures, Steps
from .batch import Batch, Decoding
from .errors import EndOfEpoch, InvalidArgument, LedgerError, StateError
from .proof import Order, shuffle

MiB = 1 << 20
PREFETCH_BYTES = 64 * MiB
DECODED_BYTES = 256 * MiB
THREADS = 4
_TRIED = 64  # samples to try if the first ones of a pass all fail
MOST_NAMED = 256  # samples per request that lists positions in its URL: proxies accept 8 KiB
Gather = Callable[[Callable[[int], memoryview], int, Iterator[Any]], Any]
"""(memory, n, values) -> the column of n decoded values. memory(bytes) provides memory for large columns."""

_LOG = logging.getLogger("millrace")



@dataclass(frozen=True, eq=False, repr=False)
class Epoch:
    """One epoch of a dataset, for one rank, opened by Client.epoch.

    `len(epoch)` is its number of batches, and `epoch.batch(m)` reads one of them. Iterating reads them in order and ahead, starting at
    `start`, or at the state with which it was opened. The generation is pinned when the epoch is opened, so all batches come from one
    version of the dataset. An Epoch may be iterated several times, pickled, and used from threads and in forked children.
    """

    core: Gateways
    plan: Plan
    start: int = 0
    skip: int = 0
    """Samples to leave out at the beginning of batch `start`."""
    steps: Steps = field(default_factory=Steps)
    threads: int = THREADS
    prefetch_bytes: int = PREFETCH_BYTES
    decoded_bytes: int = DECODED_BYTES
    prefetch_factor: Optional[int] = None
    """Number of batches that a reader decodes ahead; None: as many as it reads ahead."""
    gather: Optional[Gather] = None
    """Combines decoded values into a column as they arrive; None: a list."""
    cut: Optional[Callable[[Any, Batch], Any]] = None
    """With several ranks: derives the value of an empty share, the batch, from that of other samples; None: the steps run on no samples."""
    writable: bool = False
    """Whether functions may write into their arguments: batches are then copied instead of mapped from a gateway's shared memory."""

    @property
    def number(self) -> int:
        """The epoch's number, from 0."""
        return self.plan.epoch

    @property
    def generation(self) -> str:
        """The version of the dataset's index that all batches come from."""
        return self.plan.generation

    def __len__(self) -> int:
        return self.plan.batches

    def __repr__(self) -> str:
        p = self.plan
        return f"<Epoch {p.epoch} of {p.dataset}: {p.batches} batches, {p.samples} samples, rank {p.rank} of {p.world_size}>"

    def __iter__(self) -> Iterator[Batch]:
        return self.read()

    def read(
        self, start: Optional[int] = None, stop: Optional[int] = None, step: int = 1, *, skip: int = 0, ledger: Optional[Ledger] = None
    ) -> Reader:
        """Reads batches start, start + step, ... before stop, ahead of the consumer and in order, the first one without its first `skip` samples.

        Several concurrent readers can each read every step-th batch. Use the reader as a context manager, which cancels requests and ends
        all threads when it is left. A start at or after the end of the epoch yields nothing.
        """
        first, skip = (self.start, self.skip) if start is None else (start, skip)
        last = len(self) if stop is None else min(stop, len(self))
        if first < 0 or step < 1 or (stop is not None and stop < first):
            raise InvalidArgument(f"start {first}, stop {stop}, step {step}: want start 0 or more, stop from there on and step 1 or more")
        return Reader(self, range(first, max(first, last), step), skip, ledger)

    def batch(self, number: int) -> Batch:
        """Reads and checks one batch."""
        if not isinstance(number, SupportsIndex):
            raise InvalidArgument(f"batch {number!r}: want a whole number, from 0 on")
        if number < 0 or number >= len(self):
            raise EndOfEpoch(f"batch {number} of epoch {self.number}: there are {len(self)}", batches=len(self))
        b = self._fetch(number, self._decoding(), Task(), None, new)
        self._run(b)
        if not len(b) and self.cut is not None:
            b.value = self.cut(self._value_near(b), b)
        return b

    def samples(self, positions: Sequence[int]) -> Batch:
        """Reads the samples at up to 1,024 positions of the epoch's order as one batch, in the given order, regardless of ranks.

        With shuffle=False positions are those of stored order. Nothing is read ahead: for the epoch's own order, iterating is faster.
        """
        if not isinstance(positions, Collection):
            raise InvalidArgument(f"samples {positions!r}: want positions", cure="write samples([5]), or samples(range(100))")
        if self.plan.bucket > 1:
            raise InvalidArgument("samples: only batches are read in an order with bucket", cure="read epoch.batch(number), or leave out bucket")
        return self._samples(positions)

    def _samples(self, positions: Sequence[int]) -> Batch:
        """Reads samples by their positions without `bucket`."""
        path, asked = self._path("samples"), self._asked(positions, SHARING)
        head, body, layout = self._read(self._expected("samples", asked), Task(), None, new)
        decoding = replace(self._decoding(), manifest=partial(self._read_manifest, path, asked), positions=lambda _: positions)
        b = Batch(head, body, decoding, layout)
        self._run(b)
        return b

    def chunks(self) -> list[int]:
        """Returns the sample counts of the dataset's chunks from its index, for `millrace.proof`."""
        path = f"/v1/datasets/{quote(self.plan.dataset, safe='')}/index"
        query = {"generation": self.plan.generation}
        return chunk_counts(lambda start, length: self.core.json("GET", path, query, span=range(start, start + length)), path)

    def order(self) -> Order:
        """Computes this epoch's order locally: the sample, numbered in stored order, at each position.

        It does not support subsets, quarantines, importance and `bucket`, which need more than the chunks' counts: see millrace.proof.
        """
        p = self.plan.parameters
        for name in ("importance", "subset", "quarantine", "bucket"):
            if p.get(name) and (name != "bucket" or self.plan.bucket > 1):
                raise InvalidArgument(f"order: {name} needs more than the counts of the chunks: see millrace.proof")
        if self.plan.dataset_description.get("sources"):
            raise InvalidArgument("order: a mixture is made of several orders: see millrace.proof.Mixture")
        order = {name: int(p[name]) for name in ORDER if name in p and name != "shuffle"}
        return shuffle(p["shuffle"], self.chunks(), epoch=self.number, **order)

    def expected_bytes(self) -> int:
        """Estimates the size of one batch of this rank."""
        p = self.plan
        return max(1, p.bytes // max(p.samples, 1) * p.batch_size // p.world_size)

    # Methods for readers.

    def _path(self, what: str) -> str:
        return f"/v1/datasets/{quote(self.plan.dataset, safe='')}/epochs/{self.plan.epoch}/{what}"

    def _fetch(
        self, number: int, decoding: Decoding, task: Task, announced: Optional[Callable[[int], None]], take: Take, skip: int = 0
    ) -> Batch:
        path, asked = f"batches/{number}", self.plan.parameters
        if skip:
            asked = {**asked, "skip": str(skip)}
            manifest, share = partial(self._read_manifest, self._path(path), asked), self.plan.share(number, skip)
            decoding = replace(decoding, manifest=manifest, positions=lambda _: share)
        head, body, layout = self._read(self._expected(path, asked, number, self.plan.batches), task, announced, take)
        return Batch(head, body, decoding, layout)

    def _run(self, b: Batch) -> None:
        self.steps.run(b)
        if self.steps.on_error is not None:
            self.steps.on_error.check(b, self._fails_everywhere)

    def _silently(self) -> Epoch:
        """Returns this epoch with on_error disabled."""
        on_error = None if self.steps.on_error is None else Failures(None, silent=True)
        return replace(self, steps=replace(self.steps, on_error=on_error))

    def _fails_everywhere(self) -> bool:
        """Reports whether samples at positions throughout the epoch all fail."""
        n = self.plan.samples
        spread = sorted({i * n // _TRIED for i in range(_TRIED)})
        return not len(self._silently()._samples(spread))

    def _value_near(self, b: Batch) -> Any:
        """Returns the value of samples near a batch, of any rank: the first samples that filter and on_error keep."""
        near, n = self._silently(), self.plan.samples
        done, size = 0, self.plan.world_size
        while done < n:
            size = min(size, MOST_NAMED, n - done)
            found = near._samples([(b.number * self.plan.batch_size + done + i) % n for i in range(size)])
            if len(found):
                return found.value
            done, size = done + size, 2 * size
        text = f"{self!r}: filter= and on_error= leave out all {n} samples"
        raise InvalidArgument(text, cure="; ".join(sorted(self.steps.contents.missed)) or None)

    def _asked(self, positions: Sequence[int], without: Collection[str]) -> dict[str, str]:
        return {k: v for k, v in self.plan.parameters.items() if k not in without} | {"at": ",".join(map(str, positions))}

    def _expected(self, what: str, asked: Mapping[str, str], number: int = 0, batches: int = 1) -> Expected:
        p = self.plan
        return Expected(self._path(what), asked, p.dataset, p.epoch, number, batches, p.rank, p.world_size)

    def _read(self, want: Expected, task: Task, announced: Optional[Callable[[int], None]], take: Take) -> Answered:
        try:
            return self.core.batch(want, task, take, announced, writable=self.writable)
        except InvalidArgument as e:
            if any(parameter == "fields" for parameter, _ in e.faults):
                e.cure = parts_are(self._all_parts())
            raise

    def _all_parts(self) -> Sequence[str]:
        """Returns the names of parts from the description, or from the first sample if the description has none."""
        columns = [f["name"] for f in columns_of(self.plan.dataset_description)]
        want = self._expected("samples", self._asked([0], (*SHARING, "fields")))
        if columns:
            return columns
        layout = self.core.batch(want, Task())[2]
        return layout.names() if isinstance(layout, Table) else ()

    def _decoding(self, columns: Callable[[int], memoryview] = new) -> Decoding:
        """Returns how to decode batches. columns provides memory for large columns."""
        gather = {} if self.gather is None else {"gather": partial(self.gather, columns)}
        seed = f"{self.plan.order_digest}/{self.plan.parameters.get('seed', '')}"
        steps, local = self.steps, self.core.settings.local
        mixed = (local.opened if local else {}) if self.plan.dataset_description.get("sources") else None
        return Decoding(
            lambda head: self._read_manifest(self._path(f"batches/{head.number}"), self.plan.parameters, head),
            steps.decode, steps.automatic, lambda head: self.plan.share(head.number),
            on_error=steps.on_error, mixed=mixed, contents=steps.contents, seed=seed, alone=self.plan.world_size == 1, **gather,
        )  # fmt: skip

    def _read_manifest(self, path: str, asked: Mapping[str, str], head: Head) -> Manifest:
        query = {k: v for k, v in asked.items() if k not in SHOWING}
        return read_manifest(self.core.json("GET", f"{path}/manifest", query), head)


_OMITTED = "filtered", "failed", "replaced"
_FIXED = "generation", "rank", "ranks", "positions"  # of a part
_TEXTS = "pass a list of the texts of the ledgers' files, those of all ranks of one checkpoint"


class Ledger:
    """The record of the positions that this rank of a run has read: https://github.com/millrace-data/millrace/blob/main/docs/spec/state.md.

    A reader fills it: `Epoch.read(ledger=...)` or `millrace.torch.DataLoader(ledger=...)`. Save `str(ledger)` with each checkpoint, and pass
    the texts of all ranks to the ledger of a run that resumes there, in any order. `millrace audit` checks the ledgers of all ranks, and
    `check` those of this attempt. A Ledger may be used from many threads, and in a forked child.
    """

    def __init__(self, previous: Iterable[str] = ()) -> None:
        """previous: the ledgers of all ranks in the checkpoint from which the run resumes; none for a new run."""
        if isinstance(previous, str) or not isinstance(previous, Iterable):
            raise InvalidArgument(f"resume with ledgers: {previous!r:.60} is not a list", cure=_TEXTS)
        parts = {line: part for text in previous for line, part in _parse(text)}
        self._attempt = 1 + max((part["attempt"] for part in parts.values()), default=-1)
        last = sorted((part["rank"], part["ranks"], line) for line, part in parts.items() if part["attempt"] == self._attempt - 1)
        if (found := [known for *known, _ in last]) != [[rank, len(last)] for rank in range(len(last))]:
            raise LedgerError(f"resume with the ledgers of ranks {found}, as [rank, ranks]: want those of all ranks of one checkpoint")
        self._previous, self._last = "".join(parts), [_digest(line.rstrip("\n")) for *_, line in last]
        self._before = [parts[line] for *_, line in last]
        self._part: dict[str, Any] = {}

    def add(self, plan: Plan, first: int, omitted: Sequence[Iterable[int]] = ((), (), ())) -> None:
        """Records that this rank has read its share of a batch, from position first of the plan's epoch to the end of the batch.

        omitted are the positions of samples that were filtered, that failed, and that were replaced.
        """
        with no_fork:
            end = min((first // plan.batch_size + 1) * plan.batch_size, plan.delivered)
            lists = [[*positions] for positions in omitted]
            if not 0 <= first < end:
                raise InvalidArgument(f"record position {first} of epoch {plan.epoch}", cure=f"use one from 0 to {plan.delivered - 1}")
            if outside := [t for positions in lists for t in positions if not first <= t < end]:
                raise InvalidArgument(f"record omitted positions {outside[:5]}", cure=f"use those of the batch, from {first} to {end - 1}")
            part = self._part or self._begin(plan, first)
            was, now = tuple(part[name] for name in _FIXED), (brief(plan.generation), plan.rank, plan.world_size, plan.delivered)
            if now != was:
                raise InvalidArgument(f"read with a ledger of {', '.join(_FIXED)} {was}: now they are {now}", cure="use a ledger per run")
            part["start"] = min(part["start"], [plan.epoch, first])
            for name, positions in zip(_OMITTED, lists):
                for position in positions:
                    _insert(part[name], plan.epoch, position, position + 1)
            _insert(part["read"], plan.epoch, first, end)

    def _begin(self, plan: Plan, first: int) -> dict[str, Any]:
        now = State.of(Place(plan.epoch, first), plan)
        at = [now.epoch, now.position]
        for before in self._before:
            if (before["generation"], _plan_at(before, at)) != (now.generation, now.plan):
                cure = "pass the ledgers of this run, or none for a new run"
                raise LedgerError(f"resume {plan.dataset} with ledgers of another run: their generation or plan differs", cure=cure)
            if (end := _end(before)) < at:
                cure = "pass the ledgers that were saved with this state"
                raise LedgerError(f"resume at [epoch, position] {at} with ledgers that end at {end}", cure=cure)
        path, _, query = plan.description["links"]["self"].partition("?")
        self._part = {
            "ledger": 1, "previous": self._last[plan.rank :: plan.world_size] or self._last[:1], "attempt": self._attempt,
            "generation": brief(plan.generation),
            "plans": [{"at": [*divmod(d["position"], plan.samples or 1)], "digest": d["digest"]} for d in plan.description["plan_digests"]],
            "url": f"{path}?{'&'.join(p for p in query.split('&') if not p.startswith(('rank=', 'world_size=')))}",
            "rank": plan.rank, "ranks": plan.world_size, "positions": plan.delivered, "start": [plan.epoch, plan.delivered], "read": [],
            **{name: [] for name in _OMITTED},
        }  # fmt: skip
        return self._part

    def __str__(self) -> str:
        """Returns the ledger as text, a line per part. That of the first rank includes the ledgers that it continues."""
        with no_fork:
            part = {name: value for name, value in self._part.items() if value or name not in _OMITTED}
            text = f"{json.dumps(part, separators=(',', ':'))}\n" if part else ""
            return text if part.get("rank") else self._previous + text

    def check(self, *others: Ledger, part: bool = False) -> None:
        """Raises LedgerError unless this ledger and those of the other ranks have each position, from the start to the end of an epoch, once.

        With part, it raises only if a rank has read a position twice.
        """
        parts = sorted((ledger._part for ledger in (self, *others) if ledger._part), key=lambda p: int(p["rank"]))
        ranks, want = [p["rank"] for p in parts], parts[0]["ranks"] if parts else 1
        size = max([p["positions"] for p in parts], default=0)
        start = min((e * size + t for e, t in (p["start"] for p in parts)), default=0)
        end = max((e * size + b for p in parts for e, _, b in p["read"]), default=start)
        end += -end % (size or 1)
        missing, duplicates = 0, 0
        for p in parts:
            next_ = start
            for e, first, last in p["read"]:
                a, b = e * size + first, e * size + last
                missing, duplicates, next_ = missing + max(0, a - next_), duplicates + max(0, min(b, next_) - a), max(b, next_)
            missing += end - next_
        faults = [f"{duplicates} positions came again"] if duplicates else []
        if missing and not part:
            faults.append(f"{missing} positions missing")
        if ranks != list(range(want)) and not (part and len({*ranks}) == len(ranks)):
            faults.append(f"ledgers of the ranks {ranks} of {want}")
        if faults:
            raise LedgerError(f"positions not read exactly once: {'; '.join(faults)}", missing=missing, duplicates=duplicates)


def _parse(text: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Returns the lines of a ledger and their parts."""
    if not isinstance(text, str):
        raise InvalidArgument(f"resume with ledgers: {text!r:.60} is not a text", cure=_TEXTS)
    for line in text.splitlines(keepends=True):
        try:
            part: dict[str, Any] = json.loads(line)
            fits = part["ledger"] == 1 and line.endswith("\n") and all(type(part[name]) is int for name in ("attempt", *_FIXED[1:]))
            _plan_at(part, _end(part))
        except (ValueError, LookupError, TypeError):
            fits = False
        if not fits:
            raise LedgerError(f"resume with ledgers: {line!r:.60} is not a line of a ledger, or is truncated", cure=_TEXTS)
        yield line, part


def _plan_at(part: Mapping[str, Any], at: list[int]) -> Any:
    """Returns the plan digest of a part for a state at [epoch, position]."""
    return [d["digest"] for i, d in enumerate(part["plans"]) if not i or d["at"] < at][-1]


def _end(part: Mapping[str, Any]) -> list[int]:
    """Returns the [epoch, position] after the last one that a part has read."""
    epoch, position = max([[e, end] for e, _, end in part["read"]], default=part["start"])
    return [epoch, position] if position < part["positions"] else [epoch + 1, 0]


def _insert(ranges: list[list[int]], epoch: int, first: int, end: int) -> None:
    """Adds positions to sorted ranges, and joins adjacent ranges. Overlaps stay, since a position was read twice."""
    at = bisect_left(ranges, [epoch, first, end])
    if at < len(ranges) and ranges[at][:2] == [epoch, end]:
        end = ranges.pop(at)[2]
    if at and ranges[at - 1][::2] == [epoch, first]:
        at, first = at - 1, ranges.pop(at - 1)[1]
    ranges.insert(at, [epoch, first, end])


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]


class Reader(Iterator[Batch], Closing):
    """Batches in order, read ahead by a pool of threads.

    Close it, or use it as a context manager, to end its threads. They also end when the reader is garbage-collected.
    """

    def __init__(self, epoch: Epoch, numbers: range, skip: int, ledger: Optional[Ledger]) -> None:
        """Call Epoch.read instead."""
        self.epoch, self.ledger, threads = epoch, ledger, epoch.threads
        most = max(2 * threads, 16) if epoch.prefetch_bytes else 1
        self._buffers = buffers = epoch.core.lend(most + threads + 2)
        columns = Buffers()
        columns.most = (epoch.prefetch_factor or most) + threads + 2
        decoding = epoch._decoding(columns.take)
        self._pool = Pool(
            numbers,
            lambda n, task, announced: epoch._fetch(n, decoding, task, announced, buffers.take, skip if n == numbers.start else 0),
            epoch._run if epoch.steps else None,
            threads=threads, room=epoch.prefetch_bytes, most=most, guess=epoch.expected_bytes(),
            decoded_most=epoch.prefetch_factor or most, decoded_room=epoch.decoded_bytes,
        )  # fmt: skip
        self._numbers, self._skip, self._taken, self._came, self._kept = numbers, skip, 0, 0, 0
        self._empty: Any = None  # the value of an empty share
        self._finalizer = weakref.finalize(self, _stop_elsewhere, self._pool)

    def __len__(self) -> int:
        """Number of remaining batches."""
        return len(self._numbers) - self._taken

    def __next__(self) -> Batch:
        while (batch := self.advance()).emptied:
            pass
        return batch

    def advance(self) -> Batch:
        """Returns the next batch, including one without remaining samples, which iterating skips."""
        try:
            batch = self._pool.take()
            if batch is not None and not len(batch) and self.epoch.cut is not None:
                self._fill(batch, self.epoch.cut)
        except BaseException:  # also for Ctrl-C: no thread may keep running after it
            self.close()
            raise
        if batch is None:
            if self._came and not self._kept:
                text = f"{self.epoch!r}: filter= and on_error= have left out all {self._came} samples that were read"
                if missed := self.epoch.steps.contents.missed:
                    self.close()
                    raise InvalidArgument(text, cure="; ".join(sorted(missed)))
                warnings.warn(text, stacklevel=3)
            self.close()
            raise StopIteration
        if self.ledger is not None:
            self.ledger.add(self.epoch.plan, self._reached, batch.omitted)
        self._taken, self._came, self._kept = self._taken + 1, self._came + batch.came, self._kept + len(batch)
        return batch

    def _fill(self, batch: Batch, cut: Callable[[Any, Batch], Any]) -> None:
        """Sets the value of an empty share to one of the same structure as other shares."""
        if self._empty is None:
            if batch.came:
                _LOG.warning(
                    "%s: filter= or on_error= has left out all samples that rank %d has of batch %d: it is yielded empty, since all ranks take "
                    "the same number of steps", self.epoch.plan.dataset, self.epoch.plan.rank, batch.number,
                )  # fmt: skip
            self._empty = cut(self.epoch._value_near(batch), batch)
        batch.value = cut(self._empty, batch)  # a separate copy, which the trainer may change

    @property
    def position(self) -> int:
        """The number of the next batch."""
        return self._numbers[self._taken] if self._taken < len(self._numbers) else self._numbers.stop

    def state_dict(self) -> dict[str, Any]:
        """Returns the state after the last batch that was taken, for Client.epoch and all loaders of this package."""
        if self._numbers.step > 1:
            raise StateError(f"save state: this reader leaves out batches: it reads every {self._numbers.step}th", cure="read with step=1")
        return State.of(Place(self.epoch.number, self._reached), self.epoch.plan).to_dict()

    @property
    def _reached(self) -> int:
        """The position of the next sample, of any rank."""
        return self.position * self.epoch.plan.batch_size + (0 if self._taken else self._skip)

    def count_elsewhere(self, elsewhere: Callable[[int], int]) -> None:
        """Includes batches that still wait for the trainer in the count of batches ahead. elsewhere(taken) returns their number."""
        self._pool.elsewhere = elsewhere

    @property
    def stats(self) -> Stats:
        """Counters and current state of the threads."""
        return self._pool.stats()

    def close(self) -> None:
        """Cancels requests and waits for the threads."""
        self._pool.close()
        if self._finalizer.detach() and self._pool.ours():
            self.epoch.core.give_back(self._buffers)


def _stop_elsewhere(pool: Pool) -> None:
    """Ends the threads of an unreferenced reader in another thread, because the garbage collector's thread may hold the pool's lock."""
    if pool.ours():
        with contextlib.suppress(RuntimeError):  # during interpreter shutdown
            _thread.start_new_thread(pool.stop, ())
