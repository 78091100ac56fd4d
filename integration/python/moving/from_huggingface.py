"""A repository of Hugging Face's hub: docs/moving.md."""

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

Train = Callable[..., None]

FILES = {"train": 8, "validation": 2, "test": 2}
ROWS = 12  # rows per file


def offline(cache: str) -> None:
    """Makes the library datasets store its files in this directory, without access to a hub."""
    os.environ.update(HF_HOME=cache, HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")


def write_card(root: str, features: Any, splits: tuple[str, ...]) -> None:
    """Writes a README.md with the metadata that the library datasets writes when it pushes to the hub."""
    from datasets import DatasetInfo
    from datasets.info import DatasetInfosDict
    from datasets.utils.metadata import MetadataConfigs
    from huggingface_hub import DatasetCard, DatasetCardData

    about = DatasetCardData(license="cc0-1.0")
    DatasetInfosDict({"default": DatasetInfo(features=features)}).to_dataset_card_data(about)
    MetadataConfigs({"default": {"data_files": [{"split": s, "path": f"data/{s}-*"} for s in splits]}}).to_dataset_card_data(about)
    DatasetCard(f"---\n{about}\n---\n# Photos and their captions\n").save(root + "/README.md")


def write(root: str) -> None:
    offline(root + "-cache")
    from datasets import ClassLabel, Dataset, Features, Image, List, Value
    from photos import CLASSES, photos

    features = Features({"image": Image(), "captions": List(Value("string")), "label": ClassLabel(names=list(CLASSES))})
    write_card(root, features, tuple(FILES))
    (Path(root) / "data").mkdir()
    for seed, (split, files) in enumerate(FILES.items(), 1):
        rows = [
            {"image": {"bytes": jpeg, "path": f"{name}.jpg"}, "captions": [f"a {CLASSES[label]}", *["number", str(i)][: i % 3]], "label": label}
            for i, name, jpeg, label in islice(photos(seed), files * ROWS)
        ]
        for n in range(files):
            path = f"{root}/data/{split}-{n:05d}-of-{files:05d}.parquet"
            Dataset.from_list(rows[n * ROWS : (n + 1) * ROWS], features=features).to_parquet(path)


def before(root: str, train: Train) -> None:
    # begin: before
    import torch
    from datasets import load_dataset
    from torch.utils.data import DataLoader
    from torchvision.transforms.functional import to_tensor

    def collate(rows: list[dict[str, Any]]) -> Any:
        images = torch.stack([to_tensor(row["image"]) for row in rows])
        return images, [row["captions"] for row in rows], torch.tensor([row["label"] for row in rows])

    dataset = load_dataset(root, split="train")
    for images, captions, labels in DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2, collate_fn=collate):
        train(images, captions, labels)
    # end


def after(gateway: str, train: Train) -> None:
    # begin: after
    import millrace.torch

    def row(sample: Any) -> Any:
        return sample["image.bytes"] / 255, sample["captions"], sample["label"]

    dataset = millrace.torch.Dataset(gateway, "huggingface", global_batch_size=16, seed=1, transform=row)
    for images, captions, labels in millrace.torch.DataLoader(dataset, num_workers=2):
        train(images, captions, labels)
    # end
