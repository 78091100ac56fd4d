"""What a torch Dataset gives to loaders of others: its samples, or its batches, as an IterableDataset of torch's."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING, Any

from torch.utils import data as torch_data

from ._accelerate import loader_of, processes_of_accelerate
from ._reading import Reading, SampleReading
from .errors import InvalidArgument

if TYPE_CHECKING:
    from .epoch import Plan
    from .torch import Dataset


class BatchDataset(torch_data.IterableDataset):  # type: ignore[misc,type-arg,unused-ignore]
    """The batches of a Dataset. The place and the state are the Dataset's."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__()
        self.dataset = dataset
        """The Dataset that is read."""
        self._processes_of_parent = 0  # in a spawned worker, what its parent found

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.dataset!r}>"

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker sees nothing of Accelerate: its parent looks.
        processes = self._processes() if get_spawning_popen() is not None else 1
        return {**self.__dict__, "_processes_of_parent": processes if processes > 1 else 0}

    def __iter__(self) -> Iterator[Any]:
        self._processes()
        return self.dataset.begin(Reading)

    def __getitem__(self, which: object) -> Any:
        return self.dataset[which]

    def __len__(self) -> int:
        return len(self.dataset)

    def set_epoch(self, epoch: int) -> None:
        """Calls set_epoch of the Dataset."""
        # Until 1.14, a loader that Accelerate's skip_first_batches has made begins its pass by set_epoch(0), whatever epoch it resumes.
        if epoch or not getattr(loader_of(self), "skip_batches", 0):
            self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the Dataset."""
        return self.dataset.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the Dataset continue where the state was saved."""
        self.dataset.load_state_dict(state)

    def _processes(self) -> int:
        """Returns among how many processes Accelerate shares out what is read; 1 means that it does not."""
        if loader_of(self) is not None and (processes := processes_of_accelerate()) > 1:
            raise InvalidArgument(
                f"read batches: Accelerate would share the batches of one rank out among {processes} processes",
                cure="prepare millrace.torch.DataLoader(dataset), which has each rank read its own, or a loader of dataset.samples()",
            )
        return 1


class SampleDataset(BatchDataset):
    """The samples of a Dataset one by one. The place and the state are the Dataset's.

    Accelerate, and Hugging Face's Trainer by it, shares the samples of a loader that it has prepared out among its processes by itself.
    Such a loader gets the samples of all ranks. Accelerate's own state tells of its processes, and of the loader that is being read.
    """

    def __iter__(self) -> Iterator[Any]:
        processes = self._processes_of_parent or self._processes()
        if processes == 1 < self.dataset.ranks()[1] and self.dataset.leaves_out:
            warnings.warn(
                "filter= and on_error= leave out other numbers of samples on each rank, so their loaders of samples() differ in length: ranks that "
                "wait for each other at every step, as DDP's do, read with millrace.torch.DataLoader",
                stacklevel=2,
            )
        return self.dataset.begin(SampleReading, processes)

    def __len__(self) -> int:
        """How many samples this rank gets of an epoch; of all ranks, where Accelerate shares them out."""
        processes = 1 if self.dataset.ranks_given else processes_of_accelerate()
        return _share_of(self.dataset.epoch_of_samples(self.dataset.place[0], processes).plan)

    def _processes(self) -> int:
        processes = processes_of_accelerate()
        if processes == 1:
            return 1
        prepared, (rank, world_size) = loader_of(self) is not None, self.dataset.ranks()
        if not self.dataset.ranks_given:
            if not prepared:
                raise InvalidArgument(
                    f"read samples: Accelerate runs {processes} processes, and has not prepared this loader: each process would read all of them",
                    cure="give the loader of samples() to Accelerator.prepare, or share=millrace.Share(rank=..., world_size=...) to the dataset",
                )
            return processes
        if prepared and world_size > 1:
            raise InvalidArgument(
                f"read for rank {rank} of {world_size}: Accelerate shares samples out too, among {processes} processes",
                cure="leave out Share(rank=..., world_size=...), or read with millrace.torch.DataLoader and without Accelerate's prepare",
            )
        return 1


def _share_of(plan: Plan) -> int:
    """How many samples a rank gets of an epoch; about so many where shares follow the samples' lengths or homes."""
    first, last = plan.share(0), plan.share(plan.batches - 1)
    if first is None or last is None:
        return -(-plan.delivered // plan.world_size)
    return len(first) * (plan.batches - 1) + len(last) if plan.batches else 0
