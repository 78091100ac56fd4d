"""What can go wrong, by whose fault it is and what to do about it.

Every exception of this package is a MillraceError. Act on its class, `code` and `retryable`, never on its words.
"""

from __future__ import annotations

import ast
import re
import shlex
from typing import Any, Optional


class MillraceError(Exception):
    """A request that failed, after all attempts.

    code        what went wrong, in one word of docs/api.md; for what the client finds by itself one of this module's
    status      HTTP status of the answer; 0 if there was none
    request_id  names the request in the gateway's log; empty if there was no answer
    retryable   the same request may work later, or elsewhere
    retry_after seconds that the gateway asks to wait
    gateway     base URL of who answered, without a password
    cure        what to do, in words
    """

    code = "error"
    cure = ""

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
        self.message = message
        if code is not None:
            self.code = code
        self.status = status
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after = retry_after
        self.gateway = gateway
        self.batches = batches
        self.faults = faults
        self.shards = shards
        if cure is not None:
            self.cure = cure

    def __str__(self) -> str:
        out = self.message
        if self.request_id:
            out += f" (request {self.request_id})"
        if self.cure and self.cure not in out:  # torch makes an exception of a worker's anew, of its whole text
            out += f"; {self.cure}"
        return out

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(kind: type[MillraceError], message: str, state: dict[str, object]) -> MillraceError:
    """Unpickles an exception: worker processes send theirs to the trainer."""
    e = kind(message)
    e.__dict__.update(state)
    return e


class GatewayUnavailable(MillraceError):
    """No gateway could be reached, or none was ready, until the deadline had passed."""

    code = "gateway_unavailable"
    cure = "check the address and that `millrace serve` runs there (curl URL/readyz)"


class ProtocolError(MillraceError):
    """What answered is not a gateway, or not the one that was meant."""

    code = "protocol_error"
    cure = "check that the address is that of `millrace serve`, of the same version as this client, without a proxy that changes answers"


class IntegrityError(MillraceError):
    """A body was shorter than announced, or did not match its CRC-32C, each time that it was asked for."""

    code = "integrity_error"
    cure = "something between store and client damages data: compare with another gateway, and run `millrace verify`"


class InvalidArgument(MillraceError, ValueError):
    """A parameter that the gateway, or this client, refuses; `faults` has every name and reason."""

    code = "invalid_argument"
    cure = "see the parameters in docs/api.md"


class CannotDecode(InvalidArgument):
    """A part that is not decoded by itself: it wants a library that is not installed, or is a pickle."""

    code = "cannot_decode"


class NotAcceptable(InvalidArgument):
    """A form that the dataset does not have."""

    code = "not_acceptable"
    cure = "leave `form` out, or take one that docs/answers.md names for the dataset's format"


class BatchTooLarge(InvalidArgument):
    """A batch larger than a gateway's budget or the client's `max_batch_bytes`."""

    code = "batch_too_large"
    cure = "take a smaller batch_size or more ranks, or raise the limit that the message names"


class NotFound(MillraceError, LookupError):
    """An unknown dataset, generation, sample or snapshot, or an address that no gateway knows."""

    code = "not_found"
    cure = "Client.datasets() lists what is served; a pinned generation may have been removed"


class EndOfEpoch(NotFound):
    """A batch past the end; `batches` is how many there are."""

    code = "end_of_epoch"
    cure = "batches are numbered from 0; len(epoch) says how many there are"


class GenerationGone(NotFound):
    """A generation whose index or shards are not in the store any more."""

    code = "generation_gone"
    cure = "begin a new job without generation=, or restore its index and shards"


class AmbiguousKey(MillraceError, LookupError):
    """Several shards have a sample of this key; `shards` lists them, at most 100."""

    code = "ambiguous_key"
    cure = "name the shard too: the parameter `shard`, as a manifest gives it"


class Conflict(MillraceError):
    """Another loss is on record for the same position."""

    code = "conflict"
    cure = "report the losses of a batch once, from the rank that read it"


class ReloadRefused(MillraceError):
    """What the gateway was to serve after a reload cannot be read or opened."""

    code = "reload_refused"
    cure = "mend the file of datasets at the line that the message names, and reload again"


class ReadOnly(MillraceError):
    """The bucket takes no writes."""

    code = "read_only"
    cure = "give the gateway a bucket that it may write to, or --loss-log"


class StoreError(MillraceError):
    """The store behind the gateways: down, slow, closed to them, or no longer what was indexed."""

    code = "store_error"
    cure = "the gateways are well, the store behind them is not: their logs say more under the request id"


class Overloaded(MillraceError):
    """The gateways had no memory for the batch, all the time."""

    code = "overloaded"
    cure = "raise --cache-size, or take smaller batches or less prefetch"


class InternalError(MillraceError):
    """A fault of the gateway's own."""

    code = "internal"
    cure = "the gateway's log says more under the request id; please report it"


class DeadlineExceeded(GatewayUnavailable):
    """The deadline has passed while a gateway still worked on its answer."""

    code = "deadline_exceeded"
    cure = "the gateway or the store behind it is slow: see Server-Timing and docs/tuning.md, or raise `deadline`"


class Closed(MillraceError):
    """The client, the reader or the pass of a loader has ended, by close or by an exception before this one."""

    code = "closed"


class StateError(MillraceError):
    """A state that was saved elsewhere: loading it would repeat or leave out samples."""

    code = "state_mismatch"
    cure = "make the dataset with the parameters that it had when the state was saved; rank, world size and workers may differ"


_QUOTED = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_WHERE = re.compile(
    rf"(?:(decode) part {_QUOTED} of|(filter|transform)) sample (\d+) of batch (\d+) in epoch (\d+)(?: \(position (\d+)\))?(?:, key {_QUOTED})?: "
)


class SampleError(MillraceError):
    """A sample at which a decoder, the filter or the transform failed; their exception is the cause.

    step      "decode", "filter" or "transform"
    part      name of the part that was decoded, else None
    key       the sample's name, None if it is not known: without `keys=True` the gateway is asked for it
    position  the sample's place in the order of the epoch, None if it is not known
    epoch, batch, sample
              numbers of the epoch, of its batch, and of the sample in this batch, from 0
    """

    code = "sample_error"

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message, **more)
        # Found in the text, since that is all that torch lets through of a worker's exception.
        found = _WHERE.search(message)
        decode, part, other, sample, batch, epoch, position, key = found.groups() if found else [None] * 8
        self.step = decode or other
        self.part: Optional[str] = ast.literal_eval(part) if part else None
        self.key: Optional[str] = ast.literal_eval(key) if key else None
        self.sample, self.batch, self.epoch, self.position = (None if n is None else int(n) for n in (sample, batch, epoch, position))

    def report(self, dataset: str = "DATASET") -> str:
        """Returns the command that has healthy samples delivered in place of this one. dataset is what was indexed, such as s3://train/photos."""
        if self.key is None:
            raise InvalidArgument("report: the sample's key is not known", cure="open the epoch with keys=True")
        reason = f"part {self.part} does not decode" if self.part else f"{self.step} fails"
        return f"millrace quarantine {shlex.quote(dataset)} --key {shlex.quote(self.key)} --reason {shlex.quote(reason)}"


class DecodeError(SampleError):
    """A part that could not be decoded."""

    code = "decode_error"
    cure = 'leave such samples out with on_error="skip", or have the decoder take them; a decoder gets a memoryview (bytes(view) copies it)'


class TransformError(SampleError):
    """A sample at which the reader's filter or transform failed."""

    code = "transform_error"
    cure = 'leave such samples out with on_error="skip", or have the function take them'


class LedgerError(MillraceError):
    """The deliveries differ from exactly once: `missing`, `first_missing` and `duplicates` say how."""

    code = "not_exactly_once"

    def __init__(self, message: str, *, missing: int = 0, first_missing: Optional[int] = None, duplicates: int = 0) -> None:
        super().__init__(message)
        self.missing = missing
        self.first_missing = first_missing
        self.duplicates = duplicates


class Denied(MillraceError):
    """The caller may not do this (403), on a dataset that it may read, or at a proxy in front of the gateways."""

    code = "forbidden"
    cure = "the gateway's access file must grant the right: ask its operator; a proxy in front may want headers=..."


class Unauthenticated(Denied):
    """The gateway, or a proxy in front of it, does not know the caller (401): no token, or one that is wrong or has expired."""

    code = "unauthenticated"
    cure = "give a token that the gateway knows: MILLRACE_TOKEN_FILE, MILLRACE_TOKEN, or Client(token_file=...)"


class Misdirected(ProtocolError):
    """The gateway does not serve the name by which it was asked (421)."""

    code = "misdirected_request"
    cure = "use an address that the gateway knows, or name this one to it with --host"


class TooManyRequests(Overloaded):
    """The caller has passed its limit, all the time (429)."""

    code = "too_many_requests"
    cure = "use fewer threads or workers, or have the operator raise the limit in the access file"


_BY_CODE: dict[str, type[MillraceError]] = {
    "invalid_argument": InvalidArgument,
    "uri_too_long": InvalidArgument,
    "not_acceptable": NotAcceptable,
    "batch_too_large": BatchTooLarge,
    "content_too_large": BatchTooLarge,
    "not_found": NotFound,
    "end_of_epoch": EndOfEpoch,
    "generation_gone": GenerationGone,
    "conflict": Conflict,
    "reload_refused": ReloadRefused,
    "ambiguous_key": AmbiguousKey,
    "read_only": ReadOnly,
    "store_inconsistent": StoreError,
    "store_denied": StoreError,
    "store_unavailable": StoreError,
    "store_timeout": StoreError,
    "unauthenticated": Unauthenticated,
    "forbidden": Denied,
    "misdirected_request": Misdirected,
    "too_many_requests": TooManyRequests,
    "overloaded": Overloaded,
    "draining": GatewayUnavailable,
    "request_timeout": GatewayUnavailable,
    "internal": InternalError,
}


def by_code(code: str, status: int) -> type[MillraceError]:
    """Returns the class for a gateway's code, or for a bare status of something in between."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if status in (404, 410):
        return NotFound
    if status in (408, 429, 500, 502, 503, 504):
        return GatewayUnavailable
    if status == 401:
        return Unauthenticated
    if status == 403:
        return Denied
    if status == 421:
        return Misdirected
    return ProtocolError
