"""TFRecord files: docs/moving.md."""

from collections.abc import Callable
from typing import Any

Train = Callable[..., None]


def write(root: str) -> None:
    import tfrecord
    from photos import photos

    for shard in range(4):
        writer = tfrecord.TFRecordWriter(f"{root}/train-{shard:05d}-of-00004.tfrecord")
        for i, _, jpeg, label in photos():
            if i * 4 // 96 == shard:
                writer.write({"image": (jpeg, "byte"), "label": (label, "int")})
        writer.close()


def before(root: str, train: Train) -> None:
    # begin: before
    from glob import glob
    from io import BytesIO

    from PIL import Image
    from tfrecord.torch import TFRecordDataset
    from torch.utils.data import ChainDataset, DataLoader
    from torchvision.transforms.functional import to_tensor

    def parse(features: Any) -> Any:
        return to_tensor(Image.open(BytesIO(features["image"]))), features["label"][0]

    files = sorted(glob(root + "/*.tfrecord"))
    dataset = ChainDataset(
        [TFRecordDataset(f, None, {"image": "byte", "label": "int"}, shuffle_queue_size=1000, transform=parse) for f in files]
    )
    for images, labels in DataLoader(dataset, batch_size=16):
        train(images, labels)
    # end


def after(gateway: str, train: Train) -> None:
    # begin: after
    from io import BytesIO

    from PIL import Image
    from tfrecord.example_pb2 import Example
    from torch.utils.data import default_collate
    from torchvision.transforms.functional import to_tensor

    import millrace.torch

    def parse(view: memoryview) -> Any:
        features = Example.FromString(bytes(view)).features.feature
        return to_tensor(Image.open(BytesIO(features["image"].bytes_list.value[0]))), features["label"].int64_list.value[0]

    def collate(samples: list[dict[str, Any]]) -> Any:
        return default_collate([s["tfrecord"] for s in samples])

    reading = millrace.Reading(collate=collate)
    dataset = millrace.torch.Dataset(gateway, "tfrecord", global_batch_size=16, seed=1, decode={"tfrecord": parse}, reading=reading)
    for images, labels in millrace.torch.DataLoader(dataset, num_workers=2):
        train(images, labels)
    # end
