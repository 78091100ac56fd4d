"""Datasets and a loader for PyTorch. Importing this module imports torch; importing millrace does not.

    dataset = millrace.torch.Dataset("http://gateway:8080", "photos", global_batch_size=256, decode={"jpg": to_tensor, "cls": int})
    for batch in millrace.torch.DataLoader(dataset, num_workers=4):
        images, labels = batch["jpg"], batch["cls"]

The gateway assembles batches, and DataLoader of this module yields them. global_batch_size is the number of samples in a batch, all ranks
together. Each rank gets its share of every batch, and its workers take turns with the batches. Another torch loader with a batch_size
makes its own batches: pass it dataset.samples().
"""

try:
    import torch  # noqa: F401 (asked for here, so that its absence has a cure)
except ImportError as e:
    raise ImportError("millrace.torch needs torch, which is not installed: pip install 'millrace-data[torch]'") from e

from ..errors import StateError
from ._columns import collate_columns, micro_batches
from ._dataset import Dataset
from ._loader import DataLoader
from ._map import MapDataset

__all__ = ["DataLoader", "Dataset", "MapDataset", "StateError", "collate_columns", "micro_batches"]
