"""LitData: docs/moving.md."""

from collections.abc import Callable

Train = Callable[..., None]


def write(root: str) -> None:
    import os

    from litdata.streaming.cache import Cache
    from photos import photos
    from PIL import Image

    cache = Cache(root, chunk_bytes=1 << 13)
    for i, name, jpeg, label in photos():
        path = f"{root}.{name}.jpg"
        with open(path, "wb") as f:
            f.write(jpeg)
        cache[i] = {"image": Image.open(path), "label": label}
        os.remove(path)
    cache.done()
    cache.merge()


def before(root: str, train: Train) -> None:
    import litdata.helpers

    litdata.helpers._get_newer_version = lambda _: None  # otherwise it sends a request to PyPI
    # begin: before
    from litdata import StreamingDataLoader, StreamingDataset

    dataset = StreamingDataset(root, shuffle=True, seed=1)
    for batch in StreamingDataLoader(dataset, batch_size=16, num_workers=2):
        train(batch["image"], batch["label"])
    # end


def after(gateway: str, train: Train) -> None:
    # begin: after
    import millrace.torch

    dataset = millrace.torch.Dataset(gateway, "litdata", global_batch_size=16, seed=1)
    for batch in millrace.torch.DataLoader(dataset, num_workers=2):
        train(batch["0"], batch["1"])
    # end
