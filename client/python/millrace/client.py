"""The client: the gateways of a job, used as one."""

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
    """Returns the addresses of gateways, and rejects other ways to name data."""
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

    gateways is one or more base URLs (`http://gw:8080`). A pattern such as `http://gateways-{0..7}.gateways:8080` means one gateway
    per number, also for names without a DNS record yet. `srv:_http._tcp.NAME` means the SRV records of a service, in the
    order of the numbers at the end of the targets' first labels (`_https` for gateways with TLS; requires dnspython).
    `dns:NAME:PORT` means all addresses of a name, and so does
    `http://NAME:PORT` if it has several; an https name is not split. The client prefers the nearest gateway, fails over to others,
    and resumes truncated bodies. A client opens no connection before its first use, may be used from many
    threads, pickled, and used in a forked child: connections and threads belong to one process.

    dataset         empty: the gateway's default dataset
    token           sent as `Authorization: Bearer ...`: a text, or a function that is called for the first request, and when a gateway
                    refuses the token (401). Without token and token_file it is read from MILLRACE_TOKEN or MILLRACE_TOKEN_FILE
    token_file      a file with the token. It is read again when a gateway refuses the token, and the request is sent once more
                    if the file then has another token
    headers         sent with each request, for proxies in front of the gateways
    deadline        seconds for one batch, all attempts and waits included
    routing         millrace.Routing: choice of the gateway, timeouts, and transfer of bodies
    tls             millrace.TLS: certificates, and permission to send a token over plain http
    """

    selection = Selection()
    """The selection: the whole dataset."""

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
        self.known: dict[Any, Any] = {}  # gateways' responses about selections
        self.about: Mapping[str, Any] = {}  # latest description of a dataset

    def joined(self, settings: Settings) -> Client:
        """Returns a client with other settings, for this package's own modules."""
        made = type(self).__new__(type(self))
        made._begin("", settings)
        made.core.answered = self.core.answered
        return made

    @property
    def _client(self) -> Client:
        return self

    def __repr__(self) -> str:
        # after rejected arguments, in a traceback with variables
        return super().__repr__() if "core" in vars(self) else "<Client of nothing>"

    # Resources.

    def datasets(self) -> list[dict[str, Any]]:
        """Returns the served datasets: name, generation, format, sizes, default plan."""
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
        """Reads or sends another resource of the HTTP API, with the same retries as a batch."""
        return self.core.json(method, path, query, body)

    # The end.

    def close(self) -> None:
        """Closes the connections of this process and cancels requests in progress."""
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
    """Opens a dataset: a directory, `s3://bucket/prefix`, or `http://gateway:8080/NAME`. It starts a gateway if needed.

        data = millrace.open("s3://train/photos")
        for batch in data.epoch(0, global_batch_size=256):
            images = batch["jpg"]

    For a directory or a bucket the first process of a user starts a gateway on this machine; all processes that open datasets with the
    same settings share it and its memory, and it ends a minute after the last of them. If it is killed it is restarted, and reading
    continues. A dataset without an index is read once and indexed: with the data, or in the user's cache directory if that is not
    writable. Opening a dataset serves its newest index; existing readers keep theirs. Files that were added to or removed from a directory
    later cause a warning.

    where       `#NAME` after a directory or bucket selects one of several indexes. Credentials and endpoints of buckets come from the
                environment, as for other S3 programs
    match, format, split, sequence_length, dtype, fields
                options of `millrace index`, if a dataset requires them or is read in several ways: a pattern of files such as
                "*.jpg"; the shards' format; a split; tokens per sample and their type for token files; columns of Parquet files.
                Each set of options has a separate index
    index       a directory or prefix for the index, instead of the location of the data
    reindex     update an existing index to the present files
    cache       memory that the gateway may use for data: bytes, or a text such as "4GiB"; None: a quarter of the process's limit
    disk_cache  a directory and a size, such as ("/nvme/millrace", "200GiB"): chunks are stored there, also for later runs
    dataset     name of one of a gateway's datasets, if the address does not end in it
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
"""Sources of datasets and loaders: a client, an argument of `open`, or the addresses of several gateways."""


def client_of(source: Origin, dataset: Optional[str] = None) -> Source:
    """Returns the client or view for the source of a dataset."""
    if isinstance(source, Source):
        return source
    return open(source, dataset=dataset) if isinstance(source, (str, os.PathLike)) else Client(source, dataset)


def source_of(act: str, given: object) -> Source:
    """Returns the given client or view, or that of a dataset or loader."""
    source = given.client if isinstance(given, ClientOwner) else given
    if not isinstance(source, Source):
        cure = f"write {act}(millrace.open({os.fspath(given)!r}), ...)" if isinstance(given, (str, os.PathLike)) else None
        raise InvalidArgument(f"{act}: got {type(given).__name__}, want a client, which millrace.open returns, or a dataset", cure=cure)
    return source


class ClientOwner(Closing):
    """Closes the client if this object has opened it. A client that was passed to it stays open."""

    client: Source
    _given: object

    def _read_from(self, source: Origin, dataset: Optional[str]) -> dict[str, Any]:
        """Uses or opens a client, and returns the gateway's description of the dataset."""
        self._given, self.client = source, client_of(source, dataset)
        return self.client.describe(dataset)

    def close(self) -> None:
        """Stops readers, closes connections, and releases the gateway that millrace.open started. Garbage collection does so too."""
        if self.client is not self._given and isinstance(self.client, Client):
            self.client.close()


def class_names(of: Union[Source, ClientOwner, Mapping[str, Any]], part: str = "cls") -> list[str]:
    """Returns the names of the classes 0, 1, 2... of a part with class numbers: for class folders the folder names.

        names = millrace.class_names(client)
        labels = millrace.class_names(client, "label")

    of is a Client or View, a dataset that uses one, or the result of Client.describe. InvalidArgument: the values have no names, or the
    sources of a mixture number their classes differently.
    """
    description = of if isinstance(of, Mapping) else source_of("class_names", of).describe()
    names = next((f.get("classes") for f in description.get("fields", ()) if f.get("name") == part), None)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        why = f"the values of part {part!r} have no names"
        if description.get("sources"):
            why = f"not all sources of the mixture have the same names for the values of part {part!r}"
        raise InvalidArgument(f"dataset {description.get('name')}: {why}")
    return names
