"""Parquet files: docs/moving.md."""

from collections.abc import Callable
from typing import Any

Train = Callable[..., None]


def write(root: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from photos import photos

    rows = [{"image": {"bytes": jpeg, "path": f"{name}.jpg"}, "label": label} for _, name, jpeg, label in photos()]
    for shard in range(4):
        pq.write_table(pa.Table.from_pylist(rows[24 * shard : 24 * (shard + 1)]), f"{root}/train-{shard:05d}-of-00004.parquet", row_group_size=10)


def before(root: str, train: Train) -> None:
    # begin: before
    from io import BytesIO

    import pyarrow.dataset
    from PIL import Image
    from torch.utils.data import default_collate
    from torchvision.transforms.functional import to_tensor

    files = pyarrow.dataset.dataset(root, format="parquet")
    for batch in files.to_batches(batch_size=16):
        rows = batch.to_pylist()
        images = [to_tensor(Image.open(BytesIO(row["image"]["bytes"]))) for row in rows]
        train(default_collate(images), default_collate([row["label"] for row in rows]))
    # end


def after(gateway: str, train: Train) -> None:
    # begin: after
    import millrace.torch

    def pair(sample: Any) -> Any:
        return sample["image.bytes"] / 255, sample["label"]

    dataset = millrace.torch.Dataset(gateway, "parquet", global_batch_size=16, seed=1, transform=pair)
    for images, labels in millrace.torch.DataLoader(dataset, num_workers=2):
        train(images, labels)
    # end
