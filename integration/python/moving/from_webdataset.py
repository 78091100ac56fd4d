"""WebDataset: docs/moving.md."""

from collections.abc import Callable
from typing import Any

Train = Callable[..., None]


def write(root: str) -> None:
    import webdataset as wds
    from photos import photos

    with wds.ShardWriter(root + "/train-%06d.tar", maxcount=24, verbose=0) as shards:
        for _, name, jpeg, label in photos():
            shards.write({"__key__": name, "jpg": jpeg, "cls": str(label).encode()})


def before(root: str, train: Train) -> None:
    # begin: before
    import webdataset as wds

    dataset = (
        wds.WebDataset(root + "/train-{000000..000003}.tar", shardshuffle=4, seed=1)
        .shuffle(1000)
        .decode("torchrgb")
        .to_tuple("jpg", "cls")
        .batched(16)
    )
    for images, labels in wds.WebLoader(dataset, batch_size=None, num_workers=2):
        train(images, labels)
    # end


def after(gateway: str, train: Train) -> None:
    # begin: after
    import millrace.torch

    def pair(sample: Any) -> Any:
        return sample["jpg"] / 255, sample["cls"]

    dataset = millrace.torch.Dataset(gateway, "webdataset", global_batch_size=16, seed=1, transform=pair)
    for images, labels in millrace.torch.DataLoader(dataset, num_workers=2):
        train(images, labels)
    # end


def keep(gateway: str, train: Train) -> None:
    # begin: keep
    import webdataset as wds

    epoch = gateway + "/v1/datasets/webdataset/epochs/0/wds/seed=1&batch_size=16"
    dataset = (
        wds.WebDataset(f"pipe:curl -s -f '{epoch}/{{000000..000005}}.tar'", shardshuffle=False)
        .decode("torchrgb")
        .to_tuple("jpg", "cls")
        .batched(16)
    )
    for images, labels in wds.WebLoader(dataset, batch_size=None, num_workers=2):
        train(images, labels)
    # end
