"""MosaicML Streaming: docs/moving.md."""

from collections.abc import Callable
from typing import Any

Train = Callable[..., None]


def write(root: str) -> None:
    from io import BytesIO

    from photos import photos
    from PIL import Image
    from streaming import MDSWriter

    with MDSWriter(out=root, columns={"image": "jpeg", "label": "int"}, compression="zstd", size_limit=1 << 13) as shards:
        for _, _, jpeg, label in photos():
            shards.write({"image": Image.open(BytesIO(jpeg)), "label": label})


def before(root: str, train: Train) -> None:
    # begin: before
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader
    from torchvision.transforms.functional import to_tensor

    class Photos(StreamingDataset):
        def __getitem__(self, at: Any) -> Any:
            sample = super().__getitem__(at)
            return to_tensor(sample["image"]), sample["label"]

    dataset = Photos(local=root, shuffle=True, shuffle_seed=1, batch_size=16)
    for images, labels in DataLoader(dataset, batch_size=16, num_workers=2):
        train(images, labels)
    # end


def after(gateway: str, train: Train) -> None:
    # begin: after
    import millrace.torch

    def pair(sample: Any) -> Any:
        return sample["image"] / 255, sample["label"]

    dataset = millrace.torch.Dataset(gateway, "streaming", global_batch_size=16, seed=1, transform=pair)
    for images, labels in millrace.torch.DataLoader(dataset, num_workers=2):
        train(images, labels)
    # end


def keep(gateway: str, train: Train) -> None:
    from tempfile import TemporaryDirectory

    from streaming import StreamingDataset
    from torch.utils.data import DataLoader
    from torchvision.transforms.functional import to_tensor

    class Photos(StreamingDataset):
        def __getitem__(self, at: Any) -> Any:
            sample = super().__getitem__(at)
            return to_tensor(sample["image"]), sample["label"]

    with TemporaryDirectory() as local:
        # begin: keep
        import os

        os.environ["S3_ENDPOINT_URL"] = gateway
        # boto3 requires credentials for signing; a gateway ignores the signature
        os.environ.update(AWS_ACCESS_KEY_ID="any", AWS_SECRET_ACCESS_KEY="any")
        epoch = "s3://v1/datasets/streaming/epochs/0/mds/seed=1&batch_size=16"
        dataset = Photos(remote=epoch, local=local, shuffle=False, batch_size=16)
        for images, labels in DataLoader(dataset, batch_size=16, num_workers=2):
            train(images, labels)
        # end
