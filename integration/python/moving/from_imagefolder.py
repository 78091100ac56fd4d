"""torchvision's ImageFolder: docs/moving.md."""

from typing import Any, Callable

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
    from io import BytesIO

    import torch
    from PIL import Image
    from torchvision.transforms.functional import to_tensor

    import millrace.torch

    classes = ["bird", "cat", "dog"]  # the directories, sorted

    def image(view: memoryview) -> Any:
        return to_tensor(Image.open(BytesIO(view)).convert("RGB"))

    def collate(samples: list[dict[str, Any]]) -> Any:
        labels = [classes.index(s["__key__"].split("/")[0]) for s in samples]
        return torch.stack([s["jpg"] for s in samples]), torch.tensor(labels)

    dataset = millrace.torch.Dataset(gateway, "imagefolder", batch_size=16, seed=1, decode={"jpg": image}, collate=collate, keys=True)
    for images, labels in millrace.torch.DataLoader(dataset, num_workers=2):
        train(images, labels)
    # end
