"""Sources to read: a dataset, a part of one, or a mixture of several, through the connections of a client."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Protocol, SupportsIndex, Union, cast
from urllib.parse import quote, quote_plus, urlsplit

from ._http import Gateways, Settings
from ._job import Place, Plan, State, advise_homes, brief, refuse
from ._parameters import DEFAULTS, TORCH_ONLY, Decode, EpochOptions, Share, checked, flat, refuse_slips
from ._plan import CHOICE, ORDER, SHARING, SHOWING
from ._selection import (
    DIGEST,
    MOST,
    NAMES,
    NUMBERED,
    Contents,
    Keys,
    Listed,
    Samples,
    Selection,
    Weight,
    columns_of,
    listed,
    named_samples,
    numbered,
    numbered_but,
    refuse_beyond,
    split_rule,
    whole,
    with_sources,
)
from ._steps import Steps, on_error_of
from .batch import Decoder
from .epoch import Epoch
from .errors import Denied, GenerationGone, InvalidArgument, MillraceError, NotFound, ProtocolError, ReadOnly, near
from .values import Automatic

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Python names of parameters that have other names in addresses
_NAMES = {"batch_size": "global_batch_size", "share": "by", "format": "form"}
_STORED = {  # stored objects that parameters refer to, and how to create them
    "importance": "millrace.importance.freeze makes a snapshot, and returns its name",
    "quarantine": "`millrace quarantine` stores a list, and says its digest",
}
_COUNTED = 1 << 62  # maximum batches and samples of an epoch: the limit of range and len

log = logging.getLogger("millrace")


class Connected(Protocol):
    """The methods and attributes of a Client that views use."""

    dataset: str
    core: Gateways
    known: dict[Any, Any]
    about: Mapping[str, Any]

    def datasets(self) -> list[dict[str, Any]]: ...
    def joined(self, settings: Settings) -> Connected: ...
    def close(self) -> None: ...


class Source:
    """The common methods of Client, which reads a whole dataset, and View, which reads a part or a mixture."""

    if TYPE_CHECKING:
        dataset: str
        selection: Selection
        core: Gateways

    @property
    def _client(self) -> Connected:
        """The client whose connections are used."""
        raise NotImplementedError

    def __repr__(self) -> str:
        local, chosen = self.core.settings.local, self.selection.subset
        about = self._client.about
        if self.dataset not in ("", about.get("name")):
            about = {}
        if local is not None and local.name == self.dataset:
            text = local.address
        else:
            text = f"{self.dataset or about.get('name', 'the default dataset')} at {self.core}"
        if about:
            parts = ", ".join(str(f["name"]) for f in columns_of(about))
            # the description of a mixture counts all samples of its sources
            count = self._client.known.get(about["name"]) if about.get("sources") else about.get("samples")
            text += f": {count:,} samples" + (f" of {parts}" if parts else "") if count else ""
        return f"<{type(self).__name__} of {text}{f'; subset {chosen:.60}' if chosen else ''}>"

    def __len__(self) -> int:
        """Number of samples in an epoch, from the gateway."""
        return self._count(self.selection.subset, self.selection.generation)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> NoReturn:
        cure = "read `for batch in client.epoch(0)`; millrace.torch.MapDataset(client) has samples by number"
        raise InvalidArgument("a client has no samples of its own", cure=cure)

    def __getitem__(self, which: object) -> NoReturn:
        self.__iter__()

    def describe(self, dataset: Optional[str] = None) -> dict[str, Any]:
        """Returns the description of one dataset, by default of the client's or the gateway's default one.

        `fields` describes the parts if the format declares them: name, encoding, type, shape, as
        the page HTTP interface explains. `gateway` is the address that this client reads from, also for `millrace top`.
        """
        name = dataset or self.dataset
        if name:
            answer = self.core.json("GET", "/v1/datasets/" + quote(name, safe=""))
            if not isinstance(answer, dict) or answer.get("name") != name:
                raise ProtocolError(f"/v1/datasets/{name}: not the description of that dataset")
        else:
            answer = next((d for d in self._client.datasets() if d.get("default")), None)
            if answer is None:
                raise NotFound("the gateway has no default dataset")
        self._client.about = answer
        return self.selection.told({**answer, "gateway": str(self.core), "transport": self.core.transport})

    @checked(EpochOptions, unfit=TORCH_ONLY)
    def epoch(
        self, number: Union[int, Mapping[str, Any]], *, dataset: Optional[str] = None, decode: Decode = None, **options: Unpack[EpochOptions],
    ) -> Epoch:
        """Opens an epoch: resolves its plan and pins the generation. It reads no samples yet.

        number               number of the epoch, from 0; or the state of a reader or loader, from which iterating then resumes
        global_batch_size    samples of a batch, all ranks together; None: the dataset's default, 256 unless its index has another
        batch_size_per_rank  samples per rank: multiplied by the world size it is the global size
        seed            seed of the order
        shuffle         "slot", "window", "full" or "none"; False: stored order, "none"; None and True: the dataset's default
        fields          parts to read, such as "jpg,cls": the others are not sent
        decode          True: decode every part automatically: see help(millrace.values). A mapping such as {"jpg": decode_image, "cls": int}:
                        decode these parts with these functions, the others stay bytes. A function receives the part's bytes, a
                        memoryview, and returns a value of any type except None; `batch["jpg"]` is a list with one value per sample
        transform       function of a Sample, a mapping that may be changed, with `key`, `position`, `epoch`, and its generators `rng` and
                        `numpy_rng`: their draws are the same with any number of ranks, workers and threads, and after a resume. If it
                        returns the sample itself, the sample becomes a dict. `batch.value` is a list of the results
        order           millrace.Order: other parameters of the order and the selection of samples. All ranks of a job must use the same generation:
                        if gateways load new ones by themselves, one of several ranks without a generation is rejected
        share           millrace.Share: this process's part of each batch
        reading         millrace.Reading: filter, collate, batch_transform, on_error, keys, form, threads and memory
        dataset         another dataset of the gateway, instead of the client's

        Raises InvalidArgument for a wrong parameter, NotFound for an unknown dataset, generation or epoch.
        """
        return self._epoch(number, decode=decode, **flat({**options, "dataset": dataset}))

    def _epoch(
        self, number: Union[int, Mapping[str, Any]], *, decode: Union[bool, Mapping[str, Decoder], Automatic, None] = None, **options: Any
    ) -> Epoch:
        """Opens an epoch with options from `flat`."""
        o: dict[str, Any] = {**DEFAULTS, **{name: value for name, value in options.items() if value is not None}}
        size, each = o.get("global_batch_size"), o.get("batch_size_per_rank")
        # names in addresses
        o |= {"batch_size": size if each is None else each * o["world_size"], "share": o.get("by")}
        rank, world_size, dataset, form, keys = o["rank"], o["world_size"], o.get("dataset"), o.get("form", "framed"), o["keys"]
        if dataset not in (None, "", self.dataset) and self.selection != Selection():
            raise InvalidArgument(f"epoch of {dataset}: this reads a part of {self.dataset}")
        cut = form == "framed"
        if keys and not cut:
            raise InvalidArgument(f"keys come along in the framed form only, not in {form}")
        if not cut and (isinstance(decode, Mapping) or o.keys() & {"filter", "transform", "collate"}):
            raise InvalidArgument(f"the steps of an epoch want samples, and the form {form} is not cut into them", cure="leave form out")
        state = State.parse(number) if isinstance(number, Mapping) else None
        if state and (o["start"] or brief(o.setdefault("generation", state.generation)) != state.generation):
            raise InvalidArgument(f"epoch from a state of generation {state.generation[:12]}", cure="leave out start and generation")
        chosen = self.at(o.get("generation"))
        about = chosen.describe(None if dataset == self.dataset else dataset)
        if "generation" not in o:
            refuse(about, rank, world_size)
        asked = {name: o.get(name) for name in (*ORDER, *CHOICE, *SHARING)} | {"generation": chosen.selection.generation or o.get("generation")}
        if isinstance(asked["shuffle"], bool):
            asked["shuffle"] = None if asked["shuffle"] else "none"
        query = {k: str(v) for k, v in chosen.selection.over(asked).items() if v is not None}
        shape: dict[str, str] = {}
        decoders = dict(decode) if isinstance(decode, Mapping) else {}
        columns = with_sources(about, lambda name: self.core.json("GET", "/v1/datasets/" + quote(name, safe="")))
        contents = Contents.of(columns, o.get("fields"), decoders)
        if contents.fields:
            shape["fields"] = ",".join(map(quote_plus, contents.fields))
        shape["format"] = form
        if cut:
            shape["table"] = "keys,parts" if keys else "parts"
        opened = partial(self._plan, str(about["name"]), query, shape, about)
        place = Place(cast("int", number)) if state is None else state.resume(str(about["generation"]), partial(opened, state.epoch), self.core)
        plan = opened(place.epoch)
        if not plan.batches:
            self._refuse_empty(plan)
        if o["start"] > plan.batches:
            raise InvalidArgument(f"start={o['start']}: epoch {plan.epoch} has {plan.batches} batches, numbered from 0")
        # only one worker of a loader logs it: see millrace.torch
        if not multiprocessing.current_process().daemon:
            advise_homes(self.core, plan, about)
        automatic = (Automatic() if decode is True else decode) if cut else None
        steps = Steps(
            {contents.name_of(part): decoder for part, decoder in decoders.items()},
            automatic.of(columns, o["allow_pickle"]) if isinstance(automatic, Automatic) else None,
            contents, on_error_of(o["on_error"]), o.get("filter"), o.get("transform"), o.get("collate"), o.get("batch_transform"), keys,
        )
        start, skip = divmod(place.position, plan.batch_size)
        return Epoch(self.core, plan, start or o["start"], skip, steps, o["threads"], o["prefetch_bytes"], o["decoded_bytes"])

    def _refuse_empty(self, plan: Plan) -> NoReturn:
        """Rejects an epoch without batches, since a loop over it would silently do nothing."""
        why, cure = "there are no samples", "give the part a larger share, or choose it from more samples; len() says how many it has"
        if plan.samples:
            why = f"{plan.samples} samples fill no batch of {plan.batch_size}, and tail='drop' leaves them out"
            cure = "give a smaller global_batch_size, or share=millrace.Share(tail='short')"
        raise InvalidArgument(f"epoch {plan.epoch} of {self!r}: {why}", cure=cure)

    def _plan(self, name: str, query: dict[str, str], shape: dict[str, str], about: dict[str, Any], number: int) -> Plan:
        path = f"/v1/datasets/{quote(name, safe='')}/epochs/{number}"
        try:
            d = self._answer(path, {**query, **shape})
        except InvalidArgument as e:
            e.call(_NAMES)
            raise
        try:
            canonical = dict(pair.partition("=")[::2] for pair in urlsplit(d["links"]["self"]).query.split("&"))
            said = {k: v for k, v in canonical.items() if k not in SHOWING}
            stored, samples = int(about["bytes"]), int(d["samples"])
            plan = Plan(
                dataset=name, epoch=number, format=str(about["format"]), batches=int(d["batches"]), samples=samples,
                bytes=int(d.get("bytes") or stored * samples // max(int(about["samples"]), 1)),
                generation=said["generation"], order_digest=str(d["order_digest"]),
                parameters={**query, **said, **shape}, description=d, dataset_description=about,
            )
            counted = 0 <= plan.batches < _COUNTED and 0 <= plan.samples < _COUNTED and plan.batch_size > 0
            if not (plan.digest_at(number, 0) and counted and 0 <= plan.rank < plan.world_size):
                raise ValueError(f"{plan.batches} batches of {plan.batch_size}, {plan.samples} samples")
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as e:
            raise ProtocolError(f"{path}: not the description of an epoch: {type(e).__name__}: {e}") from None
        self._client.known[name] = samples
        for k, v in query.items():
            fits = (got := plan.parameters[k]) == v or (k == "generation" and brief(got) == v) or (k == "balance" and got[:5] == v[:5] == "cost:")
            if not fits and not (k == "subset" and (got.endswith(f":{v}") or "~" in v or "=" in v)):
                raise ProtocolError(f"{path}: got {k} {got!r}, want {v!r}")
        return plan

    def split(self, parts: Optional[Mapping[str, Weight]] = None, *unnamed: NoReturn, salt: str = "", **named: Weight) -> dict[str, View]:
        """Splits the dataset by a hash of the samples' names, and returns a View of each part.

            train, val = client.split(train=.9, val=.1).values()

        The parts are fractions of all samples, on average and without regard to classes (exact parts: `subset(keys=...)`); a remainder
        belongs to none of them. Whole numbers are parts relative to each other: `train=9, val=1`. Every process gets the same parts, and
        adding data never moves samples between parts. The order of the parts matters. The parts are those of `millrace subset --into`.

        parts   the parts as a mapping, for names that are not Python identifiers
        salt    a different salt makes an independent split. By default a split of a split has a different salt
        """
        if unnamed or not isinstance(parts, (Mapping, type(None))) or not (given := {**(parts or {}), **named}):
            raise InvalidArgument(
                f"split: {parts!r} names no parts with their shares",
                cure="write split(train=.9, val=.1); a part that `millrace subset` stored is subset('train')",
            )
        if "seed" in named:
            raise InvalidArgument("split: seed is no name of a part", cure=f"say salt='{named['seed']}' for another split, or split({{'seed': ...}})")
        before = [step for step in self.selection.subset.split("~") if step and not step.startswith(NUMBERED)]
        salt, rule = salt or (str(len(before) + 1) if before else ""), split_rule(given)
        return _Parts((name, self.subset(f"{rule}:{name}" + (f":{salt}" if salt else ""))) for name in given)

    def take(self, n: int) -> View:
        """Returns a View of the first n samples in stored order. Raises InvalidArgument if there are fewer.

        For data sorted by class these are only the first classes: `split(some=.1)["some"]` is a tenth of everything.
        """
        if isinstance(n, bool) or not isinstance(n, SupportsIndex) or operator.index(n) < 1:
            raise InvalidArgument(f"take: {n!r} is no number of samples", cure="give a whole number, 1 or more")
        return self.subset(range(n))

    def subset(
        self, which: Union[str, range, Sequence[int], None] = None, *, keys: Optional[Keys] = None,
        generation: Optional[str] = None,
    ) -> View:
        """Returns a View of some samples, in stored order unless shuffled.

            train = client.subset(keys=pathlib.Path("train.txt"))
            folds = [client.subset(keys=table.loc[table.fold == k, "key"]) for k in range(5)]

        which       the name of a subset that `millrace subset` created, or its split's digest, a colon and its name; or numbers of samples in
                    stored order, such as range(1000, 2000), each once, ascending. A number beyond the last raises InvalidArgument
        keys        names of samples in any order, or pairs of a name and its shard if several shards have the name; or a pathlib.Path of a
                    file with one name per line, followed by a tab and the shard if needed. A string is one name. A repeated name counts once
        generation  generation of the dataset in which the names are looked up; None: the current one. The View then reads this generation

        Keys, and numbers that exceed an address (8 KiB), are stored with the index, like `millrace subset --keys`: the caller needs the
        right `report` and the bucket must be writable, otherwise Denied or ReadOnly is raised. An unknown name raises InvalidArgument.
        """
        if (which is None) == (keys is None) or (isinstance(which, str) and not which):
            raise InvalidArgument("subset: want either a subset or keys", cure="write subset('train'), subset(range(1000)) or subset(keys=[...])")
        if generation and keys is None:
            raise InvalidArgument("subset: generation says where keys are looked up", cure="leave it out, or give it to epoch()")
        step: Union[str, Listed]
        if keys is None:
            step = which if isinstance(which, str) else numbered("subset", which)
        elif self.selection.steps:
            raise InvalidArgument("subset: keys are chosen from the whole dataset", cure="write client.subset(keys=...).split(...): keys first")
        else:
            step = Listed(listed(keys))
        return self._with(replace(self.selection, steps=(*self.selection.steps, step)), generation)

    def exclude(self, keys: Keys, *, reason: str = "", generation: Optional[str] = None) -> View:
        """Returns a View of all samples except these, which shortens an epoch. About five hundred keys fit into an address.

        This changes the order, so a run that stopped in mid-epoch should resume with `quarantine` instead. The parameters are those of
        `quarantine`.
        """
        steps, named = self.selection.steps, named_samples("exclude", keys, reason)
        if steps and not isinstance(before := steps[-1], (str, Listed)):
            steps, named = steps[:-1], (*before, *named)
        return self._with(replace(self.selection, steps=(*steps, named)), generation)

    def quarantine(self, keys: Keys, *, reason: str = "", generation: Optional[str] = None) -> View:
        """Returns a View with a healthy sample in place of each bad one, so that some samples repeat. All other positions are unchanged: a
        job can resume with the same batches.

            bad = []                                    # collected by on_error=bad.append
            client = client.quarantine(bad)

        keys        names of samples, SampleErrors, or pairs of a name and its shard if several shards have the name; or a pathlib.Path of a
                    file of names, as for subset; or the digest of a list that `millrace quarantine` stored. Any other string is one name.
                    Each name is looked up by a request. About a thousand names fit, more if the samples are adjacent
        reason      stored in `selection.bad`; a SampleError has its own reason
        generation  generation of the dataset in which the names are looked up; None: the current one. The View then reads this generation.
                    If a checkpoint requests another generation, names are looked up there, and unknown names are skipped
        """
        before, stored = self.selection.replaced, isinstance(keys, str) and bool(DIGEST.fullmatch(keys))
        if (stored or isinstance(before, str)) and before not in ((), keys):
            raise InvalidArgument("quarantine: a stored list cannot be combined with other bad samples", cure="store one list that has all of them")
        replaced: Any = keys if stored else (*before, *named_samples("quarantine", keys, reason))
        made = self._with(replace(self.selection, replaced=replaced), generation)
        if stored:  # reports a missing list here
            made._get({"quarantine": replaced}, "epochs/0", "parameters")
        return made

    def at(self, generation: Optional[str]) -> Source:
        """Returns this part for another generation. For this package's own modules."""
        if not self.selection.generation or generation is None or brief(generation) == brief(self.selection.generation):
            return self
        return self._reading(self.dataset, self.selection, generation, again=True)

    def _with(self, selection: Selection, generation: Optional[str] = None) -> View:
        if self.selection.sources:
            raise InvalidArgument("a mixture has no samples of its own", cure="choose from its sources, and mix then")
        refuse_slips("View", ["generation"], {"generation": generation})
        # pins the dataset, in case the default changes later
        dataset = self.dataset or str(self.describe()["name"])
        return self._reading(dataset, selection, generation or self.selection.generation)

    def _reading(self, dataset: str, chosen: Selection, generation: Optional[str], again: bool = False) -> View:
        """Returns a View of a selection.

        again: samples were named in another generation; samples that this generation does not have are skipped
        """
        made = View(self._client, Selection(dataset=dataset))
        if chosen.names_samples and not chosen.sources:
            generation = generation or str(made.describe()["generation"])
        subset, quarantine = "", chosen.replaced
        for step in chosen.steps:
            if isinstance(step, Listed):
                step, _ = made._stored(step, generation)
            if isinstance(step, str) and step.startswith(NUMBERED):
                refuse_beyond(step, made._count(subset, generation))
            if not isinstance(step, str):
                if not (bad := made._numbers_of(step, generation, subset, again)):
                    continue
                if len(bad) == (count := made._count(subset, generation)):
                    raise InvalidArgument("exclude: no sample is left")
                step = numbered_but(bad, count)
            subset = f"{subset}~{step}" if subset else step
        if not isinstance(quarantine, str):
            bad = made._numbers_of(quarantine, generation, "", again)
            quarantine = numbered("quarantine", bad) if bad else ""
        named = generation if chosen.names_samples else None
        if len(subset.encode()) > MOST:
            subset, named = made._stored(subset, generation)
        if len(quarantine) > MOST:
            raise InvalidArgument(
                f"{len(quarantine)} bytes of bad samples: an address holds {MOST}",
                cure="write keys to a file, one a line; `millrace quarantine DATASET --keys FILE` stores them and says the digest for quarantine()",
            )
        made = View(self._client, replace(chosen, dataset=dataset, subset=subset, quarantine=quarantine, generation=named or ""))
        return made._mixing(generation, again) if chosen.sources else made

    def _mixing(self, generation: Optional[str], again: bool) -> View:
        chosen, texts, read, pinned = self.selection, [], [], False
        given: Sequence[Optional[str]] = generation.split(",") if generation else [part.generation for _, part, _ in chosen.sources]
        if len(given) != len(chosen.sources) and given == [brief(generation or "")]:
            raise GenerationGone(
                f"the sources of this mixture have others than its generations {generation}, in which named samples are looked up",
                cure="give order=millrace.Order(generation=...) of the run, which is `generation` of its dataset or epoch",
            )
        if len(given) != len(chosen.sources):
            raise InvalidArgument(f"generation {generation!r}: want one of each of {len(chosen.sources)} sources, with commas between them")
        for (name, part, share), one in zip(chosen.sources, given):
            source = self._reading(name, part, one, again)
            own = source.selection
            pinned = pinned or bool(own.generation)
            read.append(one or str(source.describe()["generation"]))
            query = [f"quarantine={own.quarantine}"] if own.quarantine else []
            # the gateway returns the canonical form, which contains the digest of a stored split
            if own.subset:
                asked = {"subset": own.subset, "generation": own.generation or one}
                query.append(f"subset={source._get(asked, 'epochs/0', 'parameters', 'subset')}")
            texts.append((f"{name}({'&'.join(query)})" if query else name) + f":{share}")
        dataset = "mix:" + ",".join(texts) + chosen.tail
        return View(self._client, replace(chosen, dataset=dataset, generation=",".join(read) if pinned else ""))

    def _numbers_of(self, named: Samples, generation: Optional[str], subset: str, again: bool) -> list[int]:
        """Returns the numbers of samples in stored order, of the dataset or of a subset, ascending. Others are omitted."""
        found = set[int]()
        for key, shard, _ in named:
            asked = {"key": key, "shard": shard, "epochs": "0", "shuffle": "none", "tail": "short", "generation": generation, "subset": subset}
            try:
                found.update(int(one["position"]) for one in self._get(asked, "occurrences", "occurrences"))
            except NotFound as e:
                if not again or isinstance(e, GenerationGone):
                    e.message, e.cure = f"sample {key!r}: {e.message}", e.cure if e.code == "generation_gone" else NAMES
                    raise
                log.info("sample %s is not in generation %s", key, generation)
        return sorted(found)

    def _stored(self, chosen: Union[str, Listed], generation: Optional[str]) -> tuple[str, str]:
        """Stores a subset, and returns its name and generation."""
        path = f"/v1/datasets/{quote(self.dataset, safe='')}/subsets"
        known, of = self._client.known, (path, chosen, generation)
        if of not in known:
            wish: dict[str, Any] = {"subset": chosen} if isinstance(chosen, str) else {"keys": chosen.keys}
            try:
                answer = self.core.json("POST", path, {"generation": generation} if generation else None, wish)
                known[of] = str(answer["subset"]), str(answer["generation"])
                repeated = int(answer["repeated"])
            except (Denied, ReadOnly, InvalidArgument) as e:
                e.message, e.cure = f"subset: {e.message}", NAMES if isinstance(chosen, Listed) else e.cure
                if not isinstance(e, InvalidArgument):
                    e.cure = "`millrace subset DATASET --keys FILE` stores one, with credentials that may write; subset('DIGEST:listed') reads it"
                raise
            except (KeyError, TypeError, ValueError) as e:
                raise ProtocolError(f"{path}: an answer without a subset: {type(e).__name__}: {e}") from None
            if repeated:
                log.warning("subset: %d keys are given more than once, and count once", repeated)
        return cast("tuple[str, str]", known[of])

    def _scheduled(self, first: str, sources: Sequence[Source], schedule: Mapping[int, Mapping[Source, Weight]]) -> str:
        """Stores the later weights of a mixture with its first source, and returns their digest."""
        path, rows = f"/v1/datasets/{quote(first, safe='')}/schedules", []
        for position in sorted(schedule):
            for source in (weights := schedule[position]):
                if source not in sources:
                    raise InvalidArgument(
                        f"mix: schedule from position {position}: {source!r} is no source of the mixture",
                        cure="give it weight 0 at first: mix({a: 1, b: 0}, ...)",
                    )
            rows.append([position, *_weights(f"mix: schedule from position {position}", [weights.get(source, 0) for source in sources])])
        try:
            return str(self.core.json("POST", path, None, {"schedule": rows})["schedule"])
        except (Denied, ReadOnly, InvalidArgument) as e:
            e.message = f"mix: {e.message}"
            if not isinstance(e, InvalidArgument):
                e.cure = "make the mixture once with the right to `report`, and give the digest in its name: schedule=DIGEST"
            raise
        except (KeyError, TypeError) as e:
            raise ProtocolError(f"{path}: an answer without a schedule: {type(e).__name__}: {e}") from None

    def _count(self, subset: str, generation: Optional[str]) -> int:
        """Returns the number of samples in a subset, or in the whole dataset."""
        return int(self._get({"subset": subset, "generation": generation}, "epochs/0", "samples"))

    def _answer(self, path: str, query: Mapping[str, str]) -> Any:
        try:
            return self.core.json("GET", path, query)
        except NotFound as e:
            if type(e) is NotFound:
                e.cure = "; ".join(made for name, made in _STORED.items() if query.get(name)) or e.cure
            raise

    def _get(self, query: Mapping[str, Optional[str]], what: str, *within: str) -> Any:
        """Requests data about the dataset, and caches the response if the generation is fixed."""
        name, asked = self.dataset or str(self.describe()["name"]), {k: v for k, v in query.items() if v}
        path = f"/v1/datasets/{quote(name, safe='')}/{what}"
        known, of = self._client.known, (path, *asked.items(), *within)
        if of not in known or "generation" not in asked:
            try:
                known[of] = reduce(operator.getitem, within, self._answer(path, asked))
            except (KeyError, TypeError) as e:
                raise ProtocolError(f"{path}: an answer without {'.'.join(within)}: {type(e).__name__}: {e}") from None
        return known[of]


@dataclass(frozen=True, eq=False, repr=False)
class View(Source):
    """A part of a dataset, or a mixture, returned by `split`, `take`, `subset`, `exclude`,
    `quarantine` and `mix`.

    It is read like a Client, by `epoch`, and accepted wherever a Client is: by millrace.torch,
    `mix` and `split`. It uses its client's connections, until `view.client.close()`. A mixture has
    its own client. A View may be pickled, and used from many threads and in forked children.
    """

    client: Connected
    selection: Selection

    @property
    def _client(self) -> Connected:
        return self.client

    @property
    def core(self) -> Gateways:  # type: ignore[override]
        return self.client.core

    @property
    def dataset(self) -> str:  # type: ignore[override]
        """The name of the dataset in addresses."""
        return self.selection.dataset or self.client.dataset


class _Parts(dict[str, View]):
    """The parts of a split, by their names."""

    def __missing__(self, name: object) -> NoReturn:
        has = near(name, list(self), "'") or f"it has {', '.join(map(repr, self))}"
        raise KeyError(f"split has no part {name!r}: {has}")


@checked()
def mix(
    sources: Union[Mapping[Source, Weight], Iterable[tuple[Source, Weight]]], *, samples: Optional[int] = None, per_batch: bool = False,
    schedule: Union[Mapping[int, Mapping[Source, Weight]], str, None] = None,
) -> View:
    """Mixes datasets, or parts of them, into one stream of batches, and returns a View of it.

        photos, scans = millrace.open("s3://train/photos"), millrace.open("s3://train/scans")
        both = millrace.mix({photos.split(train=.9)["train"]: .7, scans: .3})

    sources    clients or views and their weights: fractions or whole numbers, relative to each other; 0 omits a source. One gateway must
               serve all of them: open them with the same settings of `millrace.open`, or from the same address
    samples    number of positions in an epoch; None: the total samples of the sources. An exhausted source starts again
    per_batch  the weights are numbers of samples in each batch
    schedule   weights from later positions on, counted over all epochs: {20_480: {a: .5, b: .5}}; a source without a weight is left out.
               Each position is a multiple of the batch size in its epoch. Requires samples, and the right `report`, because the gateway
               stores the schedule with the first source; or the digest of a stored schedule
    """
    pairs: list[Any] = list(sources.items() if isinstance(sources, Mapping) else sources)
    clients = all(isinstance(pair, tuple) and isinstance(pair[0], Source) for pair in pairs)
    if not clients or not (pairs := [(client, share) for client, share in pairs if share != 0 or schedule]):
        raise InvalidArgument("mix: want clients and their shares", cure="write mix({a: .7, b: .3}), where a = millrace.open('s3://train/a')")
    first: Source = pairs[0][0]
    given = [share for _, share in pairs]
    shares = _weights("mix", given) if schedule and not per_batch else whole("mix", dict(enumerate(given)), relative=not per_batch)
    for client, _ in pairs:
        if client.core.settings.endpoints != first.core.settings.endpoints:
            raise InvalidArgument(
                "mix: the datasets are served by different gateways",
                cure="open them by one address; of directories and buckets, with the same cache and disk_cache",
            )
        if client.selection.sources:
            raise InvalidArgument("mix: a source is a mixture itself", cure="mix its sources, with the products of the weights")
    parts = [_parts(client) for client, _ in pairs]
    kept = [client.core.settings.local for client, _ in pairs if client.core.settings.local]
    local = replace(kept[0], others=tuple(kept[1:])) if kept else None
    base = View(first._client.joined(replace(first.core.settings, local=local)), Selection())
    tail = f",samples={samples}" if samples is not None else ""
    if schedule:
        tail += ",schedule=" + (schedule if isinstance(schedule, str) else base._scheduled(parts[0][0], [client for client, _ in pairs], schedule))
    tail += ",per-batch" if per_batch else ""
    if len({names for _, names in parts}) > 1:
        told = "; ".join(f"{local.opened.get(name, name) if local else name} has {', '.join(names)}" for name, names in parts)
        log.warning("mix: the samples of the sources have other parts: %s; name those that all have by fields=, or give transform=", told)
    mixed = tuple((name, client.selection, share) for (name, _), (client, _), share in zip(parts, pairs, shares))
    return base._reading("", Selection(sources=mixed, tail=tail), None)


def _weights(what: str, shares: Sequence[Weight]) -> list[int]:
    """Returns weights as the smallest whole numbers with the same ratios. They may be 0."""
    positive = iter(whole(what, {i: share for i, share in enumerate(shares) if share != 0}))
    return [next(positive) if share != 0 else 0 for share in shares]


def _parts(client: Any) -> tuple[str, tuple[str, ...]]:
    """Returns the name of a dataset and the names of its parts."""
    epoch, names = client.epoch(0, shuffle=False, share=Share(tail="short")), ()
    with contextlib.suppress(MillraceError):
        names = tuple(map(epoch.steps.contents.name_of, epoch._all_parts()))
    return epoch.plan.dataset, tuple(sorted(names))
