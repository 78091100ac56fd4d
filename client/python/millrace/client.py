"""The gateways of a job, as one that answers."""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import os
from collections.abc import Iterable, Mapping, Sequence
from reprlib import repr as short
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Union
from urllib.parse import quote, quote_plus, urlsplit

from ._agree import refuse
from ._closing import Closing
from ._contents import Contents, columns_of
from ._core import Core, Settings
from ._gateways import home_by_rank, sources_of
from ._indexing import PLACES, Wanted, text_of
from ._local import Local, Size, find, is_gateway, served
from ._parameters import DEFAULTS, TLS, Decode, EpochOptions, Path, Routing, checked, flat, refuse_slips
from ._ranks import advise_homes
from ._select import Selecting, Selection
from ._shared import SUPPORTED
from ._steps import Steps, on_error_of
from ._token import Token, secret
from .batch import Decoder
from .decode import Automatic
from .epoch import Epoch, Plan
from .errors import Denied, InvalidArgument, NotFound, ProtocolError

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEADLINE = 120.0
_IN_ADDRESS = (
    "batch_size", "seed", "shuffle", "window", "strata", "tail", "rank", "world_size", "balance", "share", "homes", "subset", "quarantine",
    "importance", "generation",
)  # fmt: skip
_MOST = 1 << 62  # batches and samples that an epoch may have here: what range and len can count


def _path(path: Path) -> Optional[str]:
    return None if path is None else os.fspath(path)


def _addresses(gateways: object) -> list[str]:
    """Returns the addresses of gateways, and refuses whatever else was taken for the place of the data."""
    listed: list[Any] = [gateways] if isinstance(gateways, str) else list(gateways) if isinstance(gateways, Iterable) else []
    if isinstance(gateways, Mapping) or any(isinstance(one, Client) for one in listed):
        of = f": {', '.join(map(repr, listed))}" if isinstance(gateways, Mapping) else ""
        cure = "split returns a client of each part: choose one, such as parts['train']"
        raise InvalidArgument(f"new client: several parts are given{of}", cure=cure)
    if not listed or not all(isinstance(one, str) for one in listed):
        raise InvalidArgument(f"new client: {short(gateways)} says no place", cure=PLACES)
    return listed


class Client(Selecting, Closing):
    """Reads from one or more gateways that serve the same datasets.

    gateways is a base URL (`http://gw:8080`), or several. A pattern such as `http://gateways-{0..7}.gateways:8080` stands for one gateway
    for each number, whether its name can be looked up yet or not. `srv:_http._tcp.NAME` stands for the SRV records of a service, in the
    order of the numbers at the end of the targets' first labels (`_https` for gateways that speak https; wants dnspython).
    `dns:NAME:PORT` stands for all addresses of a name, and so does
    `http://NAME:PORT` if it has several; with https a name stays a name. The near gateway is asked, another one where it fails,
    and a body that broke is gone on with where it stopped. A client opens no connection before it is used, may be used from many
    threads, be pickled, and be used in a forked child: connections and threads belong to one process.

    dataset         empty: the gateway's default dataset
    token           sent as `Authorization: Bearer ...`: a text, or a function that is called for the first request, and when a gateway
                    refuses the token (401). Without token and token_file the environment's MILLRACE_TOKEN or MILLRACE_TOKEN_FILE gives it
    token_file      a file that holds the token. It is read again when a gateway refuses the token, and the request is sent once more
                    if the file has another token by then
    headers         sent with each request, for what stands in front of the gateways
    deadline        seconds for one batch, all attempts and waits included
    routing         millrace.Routing: which gateway is asked, how long, and how bodies come
    tls             millrace.TLS: certificates, and leave to send a token over plain http
    """

    _about: Mapping[str, Any] = MappingProxyType({})  # what a gateway said of the dataset last, for repr

    @checked()
    def __init__(
        self,
        gateways: Union[str, Sequence[str]],
        dataset: Optional[str] = None,
        *,
        token: Token = None,
        token_file: Path = None,
        headers: Optional[Mapping[str, str]] = None,
        deadline: float = DEADLINE,
        routing: Optional[Routing] = None,
        tls: Optional[TLS] = None,
        _local: Optional[Local] = None,
    ) -> None:
        token = secret(token)
        listed = _addresses(gateways)
        routing, tls = routing or Routing(), tls or TLS()
        home = home_by_rank if isinstance(routing.home, str) else routing.home
        settings = Settings(
            sources_of(listed, home), deadline, routing.first_answer, routing.attempt_timeout, routing.max_batch_bytes, routing.check,
            routing.user_agent, token, _path(token_file), tls.insecure_plain_http, dict(headers or {}), home,
            _path(tls.ca_file), _path(tls.client_cert), _path(tls.client_key), tls.context, routing.lookup, routing.shared_memory, _local,
        )
        settings.tokens()  # its faults are better known now than in a worker
        self.dataset = dataset or ""
        self.core = Core(settings)
        """For this package's own modules."""
        self.selection = Selection()
        """What is read of the dataset, by `split`, `take`, `subset`, `exclude` and `quarantine`."""

    def __repr__(self) -> str:
        if "core" not in vars(self):  # one whose arguments were refused, in a traceback with variables
            return "<Client of nothing>"
        local, chosen = self.core.settings.local, self.selection.subset
        about = self._about if self.dataset in ("", self._about.get("name")) else {}
        if local is not None and local.name == self.dataset:
            text = local.address
        else:
            gateways = ", ".join(dict.fromkeys(s.name for s in self.core.settings.sources))
            text = f"{self.dataset or about.get('name', 'the default dataset')} at {gateways}"
        if about:
            parts = ", ".join(str(f["name"]) for f in columns_of(about))
            text += f": {about.get('samples'):,} samples" + (f" of {parts}" if parts else "")
        return f"<Client of {text}{f'; subset {chosen:.60}' if chosen else ''}>"

    def __len__(self) -> int:
        """How many samples an epoch has: a gateway is asked."""
        return self.epoch(0).plan.samples

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> NoReturn:
        cure = "read `for batch in client.epoch(0)`; millrace.torch.MapDataset(client) has samples by number"
        raise InvalidArgument("a client has no samples of its own", cure=cure)

    def __getitem__(self, which: object) -> NoReturn:
        self.__iter__()

    # Resources.

    def datasets(self) -> list[dict[str, Any]]:
        """Returns what is served: name, generation, format, sizes, default plan."""
        answer = self.core.json("GET", "/v1/datasets")
        listed = answer.get("datasets") if isinstance(answer, dict) else None
        if not isinstance(listed, list) or not all(isinstance(d, dict) and isinstance(d.get("name"), str) for d in listed):
            raise ProtocolError("/v1/datasets: no list of datasets")
        return listed

    def describe(self, dataset: Optional[str] = None) -> dict[str, Any]:
        """Returns what is known of one dataset; of the default one without a name.

        `fields` says what the parts hold, where the format tells it: name, encoding, type, shape, as the page HTTP interface explains them.
        """
        name = dataset or self.dataset
        if name:
            answer = self.core.json("GET", "/v1/datasets/" + quote(name, safe=""))
            if not isinstance(answer, dict) or answer.get("name") != name:
                raise ProtocolError(f"/v1/datasets/{name}: not the description of that dataset")
        else:
            answer = next((d for d in self.datasets() if d.get("default")), None)
            if answer is None:
                raise NotFound("the gateway has no default dataset")
        self._about = answer
        return self.selection.told({**answer, "transport": self._transport()})

    def _transport(self) -> str:
        """Says how batches come, and why."""
        settings, here = self.core.settings, self.core.here()
        if not settings.shared_memory:
            return "bytes: Routing(shared_memory=False)"
        if not SUPPORTED:
            return "bytes: this system or this Python cannot be given memory"
        if not any(g.address.socket for g in here.fleet.gateways):
            return "bytes: the gateway is not at a Unix socket"
        return here.transport or "shared memory, if the gateway gives it: no batch was read yet"

    def version(self) -> str:
        """Returns the version of a gateway."""
        answer = self.core.json("GET", "/")
        if not isinstance(answer, dict) or answer.get("service") != "millrace":
            raise ProtocolError("/: not the answer of a gateway")
        return str(answer.get("version", ""))

    def json(self, method: str, path: str, query: Optional[Mapping[str, str]] = None, body: Any = None) -> Any:
        """Reads or sends another resource of the HTTP interface, with the same patience as a batch."""
        return self.core.json(method, path, query, body)

    # Epochs.

    @checked(EpochOptions, unfit={"copy": "leave it out: millrace.torch.Dataset has it"})
    def epoch(self, number: int, *, dataset: Optional[str] = None, decode: Decode = None, **options: Unpack[EpochOptions]) -> Epoch:
        """Opens an epoch: resolves its plan and pins the generation. No sample is read yet.

        global_batch_size    samples of a batch, all ranks together; None: the dataset's default
        batch_size_per_rank  the same for each rank: times the world size it is the global size
        seed            another seed is another order
        shuffle         "slot", "window", "full" or "none"; False: stored order, "none"; None and True: the dataset's default
        fields          parts to read, such as "jpg,cls": the others are not sent
        decode          True: every part by itself, as help(millrace.decode) says. A mapping such as {"jpg": decode_image, "cls": int}: these
                        parts by these functions, the others stay bytes. A function gets the part's bytes, a memoryview, and returns a
                        value of any type, but not None; `batch["jpg"]` is the list of them, one for each sample
        transform       function of a Sample, a mapping that may be changed, with `key`, `position`, `epoch`, and `rng` and `numpy_rng`, generators
                        of its own: they draw the same with any number of ranks, workers and threads, and after a resume. If it returns
                        the sample itself, that becomes a dict. `batch.value` is a list of what it returned
        order           millrace.Order: window, strata, subset, quarantine, importance, generation. All ranks of a job give the same generation:
                        where gateways move to new ones by themselves, one of several ranks without it is refused
        share           millrace.Share: rank, world_size, tail, balance, by, homes
        reading         millrace.Reading: filter, collate, batch_transform, on_error, keys, form, threads and memory
        dataset         another dataset of the gateway than the client's

        InvalidArgument says which parameter is wrong, NotFound that there is no such dataset, generation or epoch.
        """
        return self._epoch(number, decode=decode, **flat({**options, "dataset": dataset}))

    def _epoch(self, number: int, *, decode: Union[bool, Mapping[str, Decoder], Automatic, None] = None, **options: Any) -> Epoch:
        """Opens an epoch with options as `flat` returns them."""
        o: dict[str, Any] = {**DEFAULTS, **{name: value for name, value in options.items() if value is not None}}
        size, each = o.get("global_batch_size"), o.get("batch_size_per_rank")
        o |= {"batch_size": size if each is None else each * o["world_size"], "share": o.get("by")}  # as addresses have them
        rank, world_size, dataset, form, keys = o["rank"], o["world_size"], o.get("dataset"), o.get("form", "framed"), o["keys"]
        if dataset not in (None, "", self.dataset) and self.selection != Selection():
            raise InvalidArgument(f"epoch of {dataset}: this client reads a part of {self.dataset}")
        cut = form == "framed"
        if keys and not cut:
            raise InvalidArgument(f"keys come along in the framed form only, not in {form}")
        if not cut and (isinstance(decode, Mapping) or o.keys() & {"filter", "transform", "collate"}):
            raise InvalidArgument(f"the steps of an epoch want samples, and the form {form} is not cut into them", cure="leave form out")
        chosen = self.at(o.get("generation"))
        about = chosen.describe(None if dataset == self.dataset else dataset)
        if "generation" not in o:
            refuse(about, rank, world_size)
        asked = {name: o.get(name) for name in _IN_ADDRESS}
        if isinstance(asked["shuffle"], bool):
            asked["shuffle"] = None if asked["shuffle"] else "none"
        query = {k: str(v) for k, v in chosen.selection.over(asked).items() if v is not None}
        shape: dict[str, str] = {}
        decoders = dict(decode) if isinstance(decode, Mapping) else {}
        columns = self._with_sources(about)
        contents = Contents.of(columns, o.get("fields"), decoders)
        if contents.fields:
            shape["fields"] = ",".join(map(quote_plus, contents.fields))
        shape["format"] = form
        if cut:
            shape["table"] = "keys,parts" if keys else "parts"
        plan = self._plan(str(about["name"]), number, query, shape, about)
        if not multiprocessing.current_process().daemon:  # of a loader's workers one says it: see torch.py
            advise_homes(self.core, plan)
        automatic = (Automatic() if decode is True else decode) if cut else None
        steps = Steps(
            {contents.name_of(part): decoder for part, decoder in decoders.items()},
            automatic.of(columns, o["allow_pickle"]) if isinstance(automatic, Automatic) else None,
            contents, on_error_of(o["on_error"]), o.get("filter"), o.get("transform"), o.get("collate"), o.get("batch_transform"), keys,
        )
        ahead: dict[str, Any] = {name: o.get(name) for name in ("start", "threads", "prefetch_bytes", "decoded_bytes", "progress")}
        return Epoch(self.core, plan, steps=steps, **ahead)

    def _with_sources(self, about: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the description of a mixture with `fields`, if those of all sources are alike, else with all sources `described`."""
        described: dict[str, Any] = {}
        for name in dict.fromkeys(source["dataset"] for source in about.get("sources") or () if not columns_of(about)):
            described[name] = {}
            with contextlib.suppress(NotFound, Denied):  # who may read a mixture may be refused its sources
                described[name] = self.core.json("GET", "/v1/datasets/" + quote(name, safe=""))
        fields = [columns_of(one) for one in described.values()]
        named = [{f["name"]: f for f in one} for one in fields]
        if any(fields) and all(one == named[0] for one in named):
            return {**about, "fields": fields[0], "other_parts": False}
        return {**about, "described": described}

    def _plan(self, name: str, number: int, query: dict[str, str], shape: dict[str, str], about: dict[str, Any]) -> Plan:
        path = f"/v1/datasets/{quote(name, safe='')}/epochs/{number}"
        d = self.core.json("GET", path, {**query, **shape})
        try:
            canonical = dict(pair.partition("=")[::2] for pair in urlsplit(d["links"]["self"]).query.split("&"))
            said = {k: v for k, v in canonical.items() if k not in ("format", "fields", "table")}
            stored, samples = int(about["bytes"]), int(d["samples"])
            plan = Plan(
                dataset=name, epoch=number, format=str(about["format"]), batches=int(d["batches"]), samples=samples,
                bytes=int(d.get("bytes") or stored * samples // max(int(about["samples"]), 1)),
                generation=said["generation"], order_digest=str(d["order_digest"]),
                parameters={**query, **said, **shape}, description=d, dataset_description=about,
            )
            if not (0 <= plan.batches < _MOST and 0 <= plan.samples < _MOST and 0 <= plan.rank < plan.world_size and plan.batch_size > 0):
                raise ValueError(f"{plan.batches} batches of {plan.batch_size}, {plan.samples} samples")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as e:
            raise ProtocolError(f"{path}: not the description of an epoch: {type(e).__name__}: {e}") from None
        for k, v in query.items():
            if plan.parameters[k] != v and not (k == "subset" and (plan.parameters[k].endswith(f":{v}") or "~" in v or "=" in v)):
                raise ProtocolError(f"{path}: got {k} {plan.parameters[k]!r}, want {v!r}")
        return plan

    # The end.

    def close(self) -> None:
        """Closes the connections of this process and calls off what is under way."""
        self.core.close()


def open(
    where: Union[str, os.PathLike[str]],
    *,
    cache: Optional[Size] = None,
    disk_cache: Optional[tuple[Union[str, os.PathLike[str]], Size]] = None,
    match: Optional[str] = None,
    format: Optional[str] = None,
    split: Optional[str] = None,
    sequence_length: Optional[int] = None,
    dtype: Any = None,
    fields: Union[str, Sequence[str], None] = None,
    index: Union[str, os.PathLike[str]] = "",
    reindex: bool = False,
    dataset: Optional[str] = None,
    **options: Any,
) -> Client:
    """Opens a dataset: a directory, `s3://bucket/prefix`, or `http://gateway:8080/NAME`. Nothing has to be started before.

        data = millrace.open("s3://train/photos")
        for batch in data.epoch(0, global_batch_size=256):
            images = batch["jpg"]

    For a directory or a bucket the first process of a user starts a gateway on this machine; all processes that open datasets with the
    same settings share it and its memory, and it ends a minute after the last of them. If it is killed it is started again, and reading
    goes on. A dataset that has no index is read once and indexed: beside the data, or in the user's cache directory where it may not
    write. Of a dataset that is open the newest index is served from now on; what reads already goes on with its own. Files that were
    added to a directory later, and those that are gone, are told by a warning.

    where       `#NAME` behind a directory or bucket names one of several indexes. Credentials and endpoints of buckets are those of the
                environment, as for every program that reads S3
    match, format, split, sequence_length, dtype, fields
                options of `millrace index`, where a dataset cannot be indexed without, or is to be read in several ways: only files such as
                "*.jpg"; the shards' format; a split; of a file of tokens how many a sample has and their type; columns of Parquet files.
                Each set of options has an index of its own
    index       a directory or prefix for the index, in place of the one beside the data
    reindex     bring an index that is there up to date with the files that are there now
    cache       memory that the gateway may use for data: bytes, or a text such as "4GiB"; None: a quarter of what a process may use
    disk_cache  a directory and a size, such as ("/nvme/millrace", "200GiB"): chunks that are kept there, also for later runs
    dataset     name of one of a gateway's datasets, where the address does not end in it
    options     of Client
    """
    own = [n for f in (open, Client) for n in inspect.signature(f).parameters if n not in ("where", "gateways", "options", "_local")]
    refuse_slips("millrace.open", own, options)
    text = text_of(where)
    if fields is not None and not isinstance(fields, str):
        fields = ",".join(fields)
    asked = {
        "match": match, "format": format, "split": split, "sequence_length": sequence_length, "dtype": getattr(dtype, "__name__", dtype),
        "fields": fields,
    }
    wanted = Wanted(text, {name: str(value) for name, value in asked.items() if value is not None}, text_of(index), reindex)
    if is_gateway(text):
        if cache is not None or disk_cache is not None or wanted != Wanted(text):
            cure = f"leave out cache, disk_cache, index, reindex, {', '.join(asked)}"
            raise InvalidArgument(f"open {text}: that gateway has its own cache and its own indexes", cure=cure)
        return Client(*served(text, dataset), **options)
    if dataset is not None:
        raise InvalidArgument(f"open {text}: dataset={dataset!r} is a name at a gateway", cure="leave it out; #NAME in the address names an index")
    local, hold = find(wanted, cache, disk_cache)
    with hold:
        if local.token_file is not None:
            options["token_file"] = local.token_file
        client = Client(local.gateway, local.name, _local=local, **options)
        client.describe()
        return client


Origin = Union[Client, str, "os.PathLike[str]", Sequence[str]]
"""What datasets and loaders are made of: a client, what `open` takes, or the addresses of several gateways."""


def client_of(source: Origin, dataset: Optional[str] = None) -> Client:
    """Returns a client for what a dataset is made of."""
    if isinstance(source, Client):
        return source
    return open(source, dataset=dataset) if isinstance(source, (str, os.PathLike)) else Client(source, dataset)


class ClientOwner(Closing):
    """Lets go of the client that a dataset or loader has opened; one that it was given stays open."""

    client: Client
    _given: object

    def _read_from(self, source: Origin, dataset: Optional[str]) -> dict[str, Any]:
        """Takes a client, or opens one, and returns what the gateway says of the dataset."""
        self._given, self.client = source, client_of(source, dataset)
        return self.client.describe(dataset)

    def close(self) -> None:
        """Ends what reads, closes connections, and lets go of the gateway that millrace.open has started; garbage collection does so too."""
        if self.client is not self._given:
            self.client.close()
