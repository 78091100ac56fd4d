"""The gateways of a job, as one that answers."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from reprlib import repr as short
from typing import Any, Optional, Union

from ._http import TLS, Gateways, Path, Routing, Settings, Token, endpoints_of
from ._indexing import SEVERAL, WHERE, Wanted, text_of
from ._local import Local, Size, find, is_gateway, is_path, served
from ._parameters import checked, refuse_slips
from ._process import Closing
from ._selection import Selection, names_of
from .errors import InvalidArgument, ProtocolError
from .source import Source

DEADLINE = 120.0


def _addresses(gateways: object) -> list[str]:
    """Returns the addresses of gateways, and refuses whatever else was taken for the place of the data."""
    one = isinstance(gateways, (str, os.PathLike))
    listed: list[Any] = [gateways] if one else list(gateways) if isinstance(gateways, Iterable) else []
    if isinstance(gateways, Mapping) or any(isinstance(one, Source) for one in listed):
        of = f": {', '.join(map(repr, listed))}" if isinstance(gateways, Mapping) else ""
        cure = "split returns a View of each part: choose one, such as parts['train']"
        raise InvalidArgument(f"new client: several parts are given{of}", cure=cure)
    for path in map(os.fspath, filter(is_path, filter(None, listed))):
        cure = f"write millrace.open({path!r}) in its place; {SEVERAL}"
        raise InvalidArgument(f"new client: {path!r} is the path of data, and no address of a gateway", cure=cure)
    if not listed or not all(isinstance(one, str) and one for one in listed):
        raise InvalidArgument(f"new client: {short(gateways)} says no place", cure=WHERE)
    return listed


class Client(Source, Closing):
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

    selection = Selection()
    """What is read: all of the dataset."""

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
        listed = _addresses(gateways)
        routing, tls = routing or Routing(), tls or TLS()
        settings = Settings(endpoints_of(listed, routing.home), deadline, token, token_file, dict(headers or {}), routing, tls, _local)
        self._begin(dataset or "", settings)

    def _begin(self, dataset: str, settings: Settings) -> None:
        self.dataset = dataset
        self.core = Gateways(settings)
        self.known: dict[Any, Any] = {}  # what gateways have said of selections
        self.about: Mapping[str, Any] = {}  # what a gateway said of a dataset last

    def joined(self, settings: Settings) -> Client:
        """Returns a client with other settings. For this package's own modules."""
        made = type(self).__new__(type(self))
        made._begin("", settings)
        made.core.answered = self.core.answered
        return made

    @property
    def _client(self) -> Client:
        return self

    def __repr__(self) -> str:
        return super().__repr__() if "core" in vars(self) else "<Client of nothing>"  # of refused arguments, in a traceback with variables

    # Resources.

    def datasets(self) -> list[dict[str, Any]]:
        """Returns what is served: name, generation, format, sizes, default plan."""
        answer = self.core.json("GET", "/v1/datasets")
        listed = answer.get("datasets") if isinstance(answer, dict) else None
        if not isinstance(listed, list) or not all(isinstance(d, dict) and isinstance(d.get("name"), str) for d in listed):
            raise ProtocolError("/v1/datasets: no list of datasets")
        return listed

    def version(self) -> str:
        """Returns the version of a gateway."""
        answer = self.core.json("GET", "/")
        if not isinstance(answer, dict) or answer.get("service") != "millrace":
            raise ProtocolError("/: not the answer of a gateway")
        return str(answer.get("version", ""))

    def json(self, method: str, path: str, query: Optional[Mapping[str, str]] = None, body: Any = None) -> Any:
        """Reads or sends another resource of the HTTP interface, with the same patience as a batch."""
        return self.core.json(method, path, query, body)

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
    asked = {"match": match, "format": format, "split": split, "sequence_length": sequence_length, "dtype": dtype, "fields": fields}
    named = {"cache": cache, "disk_cache": disk_cache, "reindex": reindex, "dataset": dataset}
    refuse_slips("millrace.open", own, {**asked, **named, **options})
    text = text_of(where)
    asked |= {"dtype": getattr(dtype, "__name__", str(dtype).removeprefix("torch.")) if dtype is not None else None}
    asked |= {"fields": None if fields is None else ",".join(names_of(fields))}
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


Origin = Union[Source, str, "os.PathLike[str]", Sequence[str]]
"""What datasets and loaders are made of: a client, what `open` takes, or the addresses of several gateways."""


def client_of(source: Origin, dataset: Optional[str] = None) -> Source:
    """Returns a client or view of what a dataset is made of."""
    if isinstance(source, Source):
        return source
    return open(source, dataset=dataset) if isinstance(source, (str, os.PathLike)) else Client(source, dataset)


def source_of(act: str, given: object) -> Source:
    """Returns the client or view that was given, or that a dataset or loader reads by."""
    source = given.client if isinstance(given, ClientOwner) else given
    if not isinstance(source, Source):
        cure = f"write {act}(millrace.open({os.fspath(given)!r}), ...)" if isinstance(given, (str, os.PathLike)) else None
        raise InvalidArgument(f"{act}: got {type(given).__name__}, want a client, which millrace.open returns, or a dataset", cure=cure)
    return source


class ClientOwner(Closing):
    """Lets go of the client that a dataset or loader has opened; one that it was given stays open."""

    client: Source
    _given: object

    def _read_from(self, source: Origin, dataset: Optional[str]) -> dict[str, Any]:
        """Takes a client, or opens one, and returns what the gateway says of the dataset."""
        self._given, self.client = source, client_of(source, dataset)
        return self.client.describe(dataset)

    def close(self) -> None:
        """Ends what reads, closes connections, and lets go of the gateway that millrace.open has started; garbage collection does so too."""
        if self.client is not self._given and isinstance(self.client, Client):
            self.client.close()


def class_names(of: Union[Source, ClientOwner, Mapping[str, Any]], part: str = "cls") -> list[str]:
    """Returns the names of the classes 0, 1, 2... that the numbers of a part stand for: of class folders the names of the folders.

        names = millrace.class_names(client)
        labels = millrace.class_names(client, "label")

    of is a Client or View of the dataset, a dataset that was made of one, or what Client.describe says. InvalidArgument: the values have no
    names, or the sources of a mixture number their classes differently.
    """
    description = of if isinstance(of, Mapping) else source_of("class_names", of).describe()
    names = next((f.get("classes") for f in description.get("fields", ()) if f.get("name") == part), None)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        why = f"the values of part {part!r} have no names"
        if description.get("sources"):
            why = f"not all sources of the mixture have the same names for the values of part {part!r}"
        raise InvalidArgument(f"dataset {description.get('name')}: {why}")
    return names
