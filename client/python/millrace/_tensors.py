"""Tensors of the images and arrays that parts are decoded to."""

from __future__ import annotations

from typing import Any

import torch

from .decode import Automatic, library

_WIDER = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}  # torch before 2.3 has no larger unsigned integers than uint8


def as_tensor(value: Any) -> Any:
    """Returns an image as a tensor of bands x height x width, as torchvision's pil_to_tensor, and an array as one of its shape.

    Images of 8 bits a band are uint8. Unsigned integers of 16 bits become int32, those of 32 and 64 bits int64. Arrays of times or text
    stay arrays, since torch has no such tensors.
    """
    np = library("numpy", "numpy")
    if not isinstance(value, np.ndarray):
        height_width_bands = (value.height, value.width, len(value.getbands()))
        return as_tensor(np.array(value)).view(height_width_bands).permute(2, 0, 1)
    if value.dtype.kind not in "biufc":
        return value
    native = value.dtype.newbyteorder("=")
    if native == np.uint64 and value.size and value.max() >= 1 << 63:
        raise ValueError(f"{value.max()} is too large for torch's integers")
    return torch.from_numpy(np.ascontiguousarray(value, _WIDER.get(native.name, native)).reshape(value.shape))


AUTOMATIC = Automatic(finish=as_tensor)
"""What finds a decoder for each part, and makes tensors of images and arrays."""
