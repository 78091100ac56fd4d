"""A file of tokens in nanoGPT's format: docs/moving.md."""

from collections.abc import Callable
from typing import Any

Train = Callable[..., None]


def write(root: str) -> None:
    import numpy as np

    np.random.default_rng(1).integers(0, 50257, 96 * 64 + 1, np.uint16).tofile(root + "/train.bin")


def before(root: str, train: Train) -> None:
    # begin: before
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Windows(Dataset):
        def __init__(self, length: int) -> None:
            self.data, self.length = np.memmap(root + "/train.bin", np.uint16, "r"), length

        def __len__(self) -> int:
            return (len(self.data) - 1) // self.length

        def __getitem__(self, i: int) -> Any:
            window = torch.from_numpy(self.data[i * self.length : (i + 1) * self.length + 1].astype(np.int64))
            return window[:-1], window[1:]

    for x, y in DataLoader(Windows(64), batch_size=16, shuffle=True):
        train(x, y)
    # end


def after(gateway: str, train: Train) -> None:
    # begin: after
    import millrace.torch

    def window(sample: Any) -> Any:
        tokens = sample["bin"].long()
        return tokens[:-1], tokens[1:]

    dataset = millrace.torch.Dataset(gateway, "tokens", global_batch_size=16, seed=1, transform=window)
    for x, y in millrace.torch.DataLoader(dataset, num_workers=2):
        train(x, y)
    # end
