"""Exceptions by cause, each with a remedy.

Every exception of this package is a MillraceError. `millrace` itself exports the five that most programs catch: MillraceError,
InvalidArgument, NotFound, GatewayUnavailable and SampleError. Base decisions on an exception's class, `code` and `retryable`, never on its
text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Optional

from ._process import literal

_PAGES = "https://github.com/millrace-data/millrace/blob/main/docs"  # base address of the documentation


class MillraceError(Exception):
    """A request that failed, after all attempts.

    code        code of the error, from the gateway or, for errors that the client detects, from this module
    status      HTTP status of the answer; 0 if there was none
    request_id  ID of the request in the gateway's log; empty without an answer
    retryable   a later attempt, or another gateway, may succeed
    retry_after minimum wait in seconds before a retry
    gateway     base URL of the gateway, without a password
    cure        remedy, as text
    faults      name and reason of every rejected parameter
    batches     number of batches in the epoch, for a batch past its end
    shards      shards with a sample of an ambiguous key, at most 100
    """

    code = "error"
    cure = ""

    def __init_subclass__(cls, code: Optional[str] = None, cure: Optional[str] = None) -> None:
        super().__init_subclass__()
        cls.code, cls.cure = code or cls.code, cls.cure if cure is None else cure

    def __init__(
        self,
        message: str,
        *,
        code: Optional[str] = None,
        status: int = 0,
        request_id: str = "",
        retryable: bool = False,
        retry_after: float = 0.0,
        gateway: str = "",
        batches: Optional[int] = None,
        faults: tuple[tuple[str, str], ...] = (),
        shards: tuple[str, ...] = (),
        cure: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.cure = message, code or self.code, self.cure if cure is None else cure
        self.status, self.request_id, self.gateway = status, request_id, gateway
        self.retryable, self.retry_after = retryable, retry_after
        self.batches, self.faults, self.shards = batches, faults, shards

    def __str__(self) -> str:
        out = self.message
        if self.request_id:
            out += f" (request {self.request_id})"
        # torch re-creates a worker's exception from its whole text
        if self.cure and self.cure not in out and not out.startswith("Caught "):
            out += f"; {self.cure}"
        return out


class GatewayUnavailable(MillraceError, code="gateway_unavailable", cure="check the address and that `millrace serve` runs there (curl URL/readyz)"):
    """No gateway was reachable and ready before the deadline."""


class ProtocolError(
    MillraceError, code="protocol_error",
    cure="check that the address is that of `millrace serve`, of the same version as this client, without a proxy that changes answers",
):
    """The response is not from a gateway, or not from the intended one."""


class IntegrityError(
    MillraceError, code="integrity_error",
    cure="something between store and client damages data: compare with another gateway, and run `millrace verify`",
):
    """A body was shorter than announced, or did not match its CRC-32C, in all attempts."""


class InvalidArgument(MillraceError, ValueError, code="invalid_argument"):
    """A parameter that the gateway or this client rejects; `faults` has all names and reasons."""

    def __init__(self, message: str, **about: Any) -> None:
        super().__init__(message, **about)
        if self.status and not self.cure:
            self.cure = "help(millrace.Client.epoch) explains the parameters"

    def call(self, names: Mapping[str, str]) -> None:
        """Renames parameters that the gateway rejects to their names in Python. For this package's own modules."""
        # other names are common words
        words = re.compile(rf"\b({'|'.join(name for name in names if '_' in name)})\b")
        said = "; ".join(f"{name}: {reason}" for name, reason in self.faults)
        self.faults = tuple((names.get(name, name), words.sub(lambda m: names[m[0]], reason)) for name, reason in self.faults)
        self.message = self.message.replace(said, "; ".join(f"{name}: {reason}" for name, reason in self.faults), 1)
        self.args = (self.message,)


class CannotDecode(InvalidArgument, code="cannot_decode"):
    """A part that is not decoded automatically: it requires a library that is not installed, or is a pickle."""


class NotAcceptable(
    InvalidArgument, code="not_acceptable",
    cure=f"leave `form` out, or take one of the page Forms of an answer for the dataset's format: {_PAGES}/answers.md",
):
    """A form that the dataset does not have."""


class BatchTooLarge(
    InvalidArgument, code="batch_too_large",
    cure="take a smaller global_batch_size or more ranks, or raise the limit that the message names",
):
    """A batch larger than a gateway's budget or the client's `Routing(max_batch_bytes=...)`."""


class NotFound(
    MillraceError, LookupError, code="not_found",
    cure="Client.datasets() lists what is served; a pinned generation may have been removed",
):
    """An unknown dataset, generation, sample or snapshot, or an address unknown to the gateway."""


class EndOfEpoch(NotFound, code="end_of_epoch", cure="batches are numbered from 0; len(epoch) says how many there are"):
    """A batch past the end; `batches` is the number of batches."""


class GenerationGone(NotFound, code="generation_gone", cure="begin a new job without generation=, or restore its index and shards"):
    """A generation whose index or shards are no longer in the store."""


class AmbiguousKey(MillraceError, LookupError, code="ambiguous_key", cure="name the shard too: the parameter `shard`, as a manifest gives it"):
    """Several shards have a sample of this key; `shards` lists them, at most 100."""


class Conflict(
    MillraceError, code="conflict",
    cure="the first report of a batch stands: a resumed run may pass over this error, a new run takes another seed",
):
    """Another loss was already reported for the same position."""


class TooManyEpochs(
    MillraceError, code="too_many_epochs",
    cure="freeze the epochs whose losses are wanted, and remove the others with `millrace gc --reports-older`",
):
    """Too many epochs of this plan have losses that were never frozen."""


class ReloadRefused(MillraceError, code="reload_refused", cure="fix the file of datasets at the line that the message names, and reload again"):
    """The datasets to serve after a reload cannot be read or opened."""


class ReadOnly(MillraceError, code="read_only", cure="give the gateway a bucket that it may write to, or set MILLRACE_LOSS_LOG"):
    """The bucket is read-only."""


class StoreError(
    MillraceError, code="store_error",
    cure="the gateways are well, the store behind them is not: their logs say more under the request id",
):
    """The gateways' store is down, slow, denies access, or no longer matches the index."""

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message, **more)
        if self.code == "store_inconsistent" and "cure" not in more:
            self.cure = "`millrace quarantine ADDRESS --verify` finds the samples that cannot be read: client.quarantine(DIGEST) replaces them"


class Overloaded(MillraceError, code="overloaded", cure="raise --cache-size, or take smaller batches or less prefetch"):
    """The gateways had no memory for the batch in all attempts."""


class InternalError(MillraceError, code="internal", cure="the gateway's log says more under the request id; please report it"):
    """An internal error of the gateway."""


class DeadlineExceeded(
    GatewayUnavailable, code="deadline_exceeded",
    cure=f"the gateway or the store behind it is slow: raise `deadline`, or see Server-Timing and the page Tuning, {_PAGES}/tuning.md",
):
    """The deadline has passed while a gateway was still working on its response."""


class Closed(MillraceError, code="closed"):
    """The client, reader or pass of a loader has ended, by close or by an earlier exception."""


class StateError(
    MillraceError, code="state_mismatch",
    cure="make the dataset with the parameters that it had when the state was saved; rank, world size and workers may differ",
):
    """A state of another dataset or order: loading it would repeat or omit samples."""


_QUOTED = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_WHERE = re.compile(
    rf"(?:(decode) part {_QUOTED} of|(filter|transform)) sample (\d+) of batch (\d+) in epoch (\d+)(?: \(position (\d+)\))?"
    rf"(?:, key {_QUOTED}(?:, source {_QUOTED})?)?: "
)


class SampleError(MillraceError, code="sample_error"):
    """A decoder, the filter or the transform failed for a sample; the original exception is the cause.

    step      "decode", "filter" or "transform"
    part      name of the part that was decoded, else None
    key       the sample's name, None if unknown: without `Reading(keys=True)` it is requested from the gateway
    source    in a mixture, the sample's dataset, by name or by the address that opened it, else None
    position  the sample's position in the order of the epoch, None if unknown
    epoch, batch, sample
              numbers of the epoch, of its batch, and of the sample in this batch, from 0
    """

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message, **more)
        # Parsed from the text, which is all that torch preserves of a worker's exception.
        found = _WHERE.search(message)
        decode, part, other, sample, batch, epoch, position, key, source = found.groups() if found else [None] * 9
        self.step = decode or other
        self.part: Optional[str] = literal(part) if part else None
        self.key: Optional[str] = literal(key) if key else None
        self.source: Optional[str] = literal(source) if source else None
        self.sample, self.batch, self.epoch, self.position = (None if n is None else int(n) for n in (sample, batch, epoch, position))

    @property
    def reason(self) -> str:
        """The failure, in the wording of a list of bad samples."""
        return f"part {self.part} does not decode" if self.part else f"{self.step} fails"

    def report(self, dataset: str = "DATASET") -> str:
        """Returns the command that replaces this sample by a healthy one. dataset is the indexed address, such as s3://train/photos."""
        if self.key is None:
            raise InvalidArgument("report: the sample's key is not known", cure="open the epoch with reading=millrace.Reading(keys=True)")
        return f"millrace quarantine {shlex.quote(dataset)} --key {shlex.quote(self.key)} --reason {shlex.quote(self.reason)}"


class DecodeError(
    SampleError, code="decode_error",
    cure='leave such samples out with reading=millrace.Reading(on_error="skip"), now and after a resume; or with '
    "Client.exclude(errors) for a new run; to go on from this checkpoint, Client.quarantine(errors) has others come in their place; "
    "a decoder gets a memoryview (bytes(view) copies it)",
):
    """A part that could not be decoded."""


class TransformError(
    SampleError, code="transform_error",
    cure='leave such samples out with reading=millrace.Reading(on_error="skip"), or have the function take them',
):
    """A sample at which the reader's filter or transform failed."""


class LedgerError(MillraceError, code="not_exactly_once"):
    """Ledgers do not have each position once: see `missing` and `duplicates`, counted over all ranks."""

    def __init__(self, message: str, *, missing: int = 0, duplicates: int = 0, cure: Optional[str] = None) -> None:
        super().__init__(message, cure=cure)
        self.missing = missing
        self.duplicates = duplicates


class Denied(
    MillraceError, code="forbidden",
    cure="the gateway's access file must grant the right: ask its operator; a proxy in front may want headers=...",
):
    """The caller lacks the right (403) on a dataset that it may read, or at a proxy in front of the gateways."""


class Unauthenticated(
    Denied, code="unauthenticated",
    cure="give a token that the gateway knows: MILLRACE_TOKEN_FILE, MILLRACE_TOKEN, or Client(token_file=...)",
):
    """The gateway, or a proxy in front of it, does not accept the caller's credentials (401): the token is missing, wrong or expired."""


class Misdirected(ProtocolError, code="misdirected_request", cure="use an address that the gateway knows, or name this one to it with --host"):
    """The gateway does not serve the requested host name (421)."""


class TooManyRequests(
    Overloaded, code="too_many_requests",
    cure="use fewer threads or workers, or have the operator raise the limit in the access file",
):
    """The caller exceeded its rate limit in all attempts (429)."""


_BY_CODE: dict[str, type[MillraceError]] = {
    "uri_too_long": InvalidArgument,
    "content_too_large": BatchTooLarge,
    "corrupt": IntegrityError,  # from `millrace index`
    **dict.fromkeys(("store_inconsistent", "store_denied", "store_unavailable", "store_timeout"), StoreError),
    **dict.fromkeys(("draining", "starting", "request_timeout"), GatewayUnavailable),
    **{
        kind.code: kind
        for kind in (
            AmbiguousKey, BatchTooLarge, Conflict, Denied, EndOfEpoch, GatewayUnavailable, GenerationGone, InternalError, InvalidArgument,
            Misdirected, NotAcceptable, NotFound, Overloaded, ReadOnly, ReloadRefused, TooManyEpochs, TooManyRequests, Unauthenticated,
        )
    },
}  # fmt: skip
_BY_STATUS: dict[int, type[MillraceError]] = {
    **dict.fromkeys((404, 410), NotFound),
    **dict.fromkeys((408, 429, 500, 502, 503, 504), GatewayUnavailable),
    401: Unauthenticated, 403: Denied, 421: Misdirected,
}  # fmt: skip


def by_code(code: str, status: Optional[int] = None) -> type[MillraceError]:
    """Returns the class for a code of a gateway or of the program, or for a status without a code, such as a proxy's."""
    return _BY_CODE.get(code) or (MillraceError if status is None else _BY_STATUS.get(status, ProtocolError))


def near(word: object, words: Sequence[str], mark: str = "") -> str:
    """Returns a question that suggests the most similar word, or "" if none is similar."""
    return "".join(f"did you mean {mark}{one}{mark}?" for one in get_close_matches(str(word), words, 1, 0.7))
