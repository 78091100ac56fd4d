"""torchvision's ImageFolder: docs/moving.md."""

from collections.abc import Callable
from typing import Any

Train = Callable[..., None]


def write(root: str) -> None:
    from pathlib import Path

    from photos import CLASSES, photos

    for _, name, jpeg, label in photos():
        directory = Path(root, CLASSES[label])
        directory.mkdir(exist_ok=True)
        (directory / f"{name}.jpg").write_bytes(jpeg)


def before(root: str, train: Train) -> None:
    # begin: before
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import ToTensor

    dataset = ImageFolder(root, ToTensor())
    for images, labels in DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2):
        train(images, labels)
    # end


def after(gateway: str, train: Train) -> None:
    # begin: after
    import millrace.torch

    client = millrace.Client(gateway, dataset="imagefolder")

    def pair(sample: Any) -> Any:
        return sample["jpg"].expand(3, -1, -1) / 255, sample["cls"]

    dataset = millrace.torch.Dataset(client, global_batch_size=16, seed=1, transform=pair)
    for images, labels in millrace.torch.DataLoader(dataset, num_workers=2):
        train(images, labels)
    # end
