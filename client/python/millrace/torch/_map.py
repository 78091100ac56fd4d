"""Samples by number, for torch's samplers."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional

from torch.utils import data as torch_data

from .._job import AGREE, find_ranks, refuse, send_checked, settle
from .._parameters import NOT_FOR_LOADERS, Decode, SampleOptions, Shuffle, checked, flat
from ..client import ClientOwner, Origin
from ..epoch import MOST_NAMED
from ..errors import InvalidArgument
from ._columns import AUTOMATIC, allow_read_only, gives_views

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LEAST = 16  # with fewer samples, a request costs more than a thread saves

_TO_LOADER = "give batch_size= to torch's DataLoader"
_UNFIT = {
    **NOT_FOR_LOADERS,
    **dict.fromkeys(("batch_size", "global_batch_size", "batch_size_per_rank"), _TO_LOADER),
    **dict.fromkeys(("share", "bucket"), "leave it out: torch's samplers share samples out among ranks, and make batches"),
    "filter": "read with millrace.torch.Dataset, or choose samples by a sampler",
    **dict.fromkeys(("collate", "batch_transform"), "give collate_fn= to torch's DataLoader"),
    **dict.fromkeys(("prefetch_bytes", "decoded_bytes", "start"), "leave it out: a MapDataset reads what it is asked for"),
    "totals": "leave it out: a sample belongs to no batch",
    "form": "read with Client.epoch: a MapDataset has samples",
}


class MapDataset(ClientOwner, torch_data.Dataset):  # type: ignore[misc,type-arg,unused-ignore]
    """Samples by number, for torch's samplers: `DataLoader(dataset, batch_size=64, sampler=...)`.

    Sample i is at position i of an epoch's order. The default, shuffle=False, is stored order, which never changes. A sample is a dict from
    part to value, decoded like a Dataset's, or the result of transform.
    torch requests all samples of a batch together (`__getitems__`, since 1.13), with one request to the gateway. Access by
    `dataset[i]` makes a request per sample. Dataset reads an epoch in its order faster, because nothing is read ahead here.

    epoch, seed, shuffle, fields, decode, order
                   as for Dataset
    transform      function of one sample: its result is the dataset's item. A sample's generators are the same in every process
    reading        millrace.Reading: on_error, keys, allow_pickle, copy, threads. on_error="skip" omits a sample from the list of its batch;
                   a single sample raises. threads is the number of concurrent requests for the samples of one batch, with at least 16
                   samples each: it helps with images and without workers. Small samples arrive fastest in one request
    """

    @checked(SampleOptions, unfit=_UNFIT)
    def __init__(
        self, source: Origin, dataset: Optional[str] = None, *, epoch: int = 0, shuffle: Shuffle = False, decode: Decode = True,
        **options: Unpack[SampleOptions],
    ) -> None:
        """Opens the order, but reads nothing yet."""
        given = flat(options)
        copy, threads = given.pop("copy", True), given.pop("threads", 1)
        given["generation"], alone = settle(self._read_from(source, dataset), given.get("generation"))
        if alone is not None:
            refuse(alone, *find_ranks(), AGREE)
        automatic = AUTOMATIC if decode is True else decode
        opened = self.client._epoch(epoch, dataset=dataset, shuffle=shuffle, decode=automatic, **given)
        self._epoch = replace(opened, writable=copy and gives_views(decode, given.get("transform")))
        if not copy:
            allow_read_only()
        self._threads, self._options = threads, {"decode": decode, **given}

    def __repr__(self) -> str:
        return f"<MapDataset of {self.client!r}>"

    def __len__(self) -> int:
        return self._epoch.plan.samples

    def __getitem__(self, position: int) -> Any:
        for item in self._read([self._at(position)]):
            return item
        raise InvalidArgument(
            f"sample {position} is left out, and one that is asked for alone has no batch that could be shorter",
            cure="have on_error return a value, or ask for several samples together, as torch's DataLoader does",
        )

    def __getitems__(self, positions: Sequence[int]) -> list[Any]:
        """Reads several samples together."""
        at = [self._at(p) for p in positions]
        count = len(at)
        pieces = max(min(self._threads, count // _LEAST), -(-count // MOST_NAMED))
        if pieces < 2:
            return list(self._read(at))
        cut = [at[i * count // pieces : (i + 1) * count // pieces] for i in range(pieces)]
        with ThreadPoolExecutor(min(self._threads, pieces), "millrace-map") as pool:
            return [item for some in pool.map(lambda piece: list(self._read(piece)), cut) for item in some]

    def _at(self, position: int) -> int:
        count = len(self)
        try:
            at = operator.index(position)
        except TypeError:
            cure = "read several by torch.utils.data.Subset(dataset, range(first, last))"
            raise InvalidArgument(f"sample {position!r}: a position is a whole number", cure=cure) from None
        at += count if at < 0 else 0
        if not 0 <= at < count:
            raise IndexError(f"sample {position} of {count}")
        return at

    def _read(self, at: Sequence[int]) -> Iterator[Any]:
        if not at:
            return iter(())
        batch, steps = self._epoch.samples(at), self._epoch.steps
        if torch_data.get_worker_info() is not None:
            steps.warn_of_copies()
        if steps.transform is not None:
            return iter(batch.value or ())
        return (sample.plain(steps.keys) for sample in batch)


send_checked(MapDataset, "_options")
