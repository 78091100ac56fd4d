"""Reads folders with torchvision's ImageFolder: imagefolder.py DIR...

Prints the classes of each folder with the number of pictures, or the error.
"""

import json
import sys
from collections import Counter

from torchvision.datasets import ImageFolder


def read(root: str) -> dict[str, str]:
    try:
        folder = ImageFolder(root)
    except FileNotFoundError as e:
        return {"error": str(e)}
    counts = Counter(folder.classes[label] for _, label in folder.samples)
    return {name: str(n) for name, n in counts.items()}


json.dump({root: read(root) for root in sys.argv[1:]}, sys.stdout)
