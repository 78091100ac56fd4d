"""Trains a linear classifier with NumPy, from a directory, without a server.

python numpy_local.py ./photos        images of one size in the part jpg, classes from 0 to 9 in the part cls
"""

import sys

import numpy as np

import millrace.numpy


def main(source, epochs=3):
    with millrace.open(source) as data:
        weights = None
        for number in range(epochs):
            losses = []
            for batch in millrace.numpy.epoch(data, number, global_batch_size=64, seed=1):
                x, y = batch["jpg"].reshape(len(batch), -1) / 255 - 0.5, batch["cls"]
                weights = np.zeros((x.shape[1], 10)) if weights is None else weights
                scores = x @ weights
                likely = np.exp(scores - scores.max(1, keepdims=True))
                likely /= likely.sum(1, keepdims=True)
                losses.append(-np.log(likely[np.arange(len(y)), y]).mean())
                weights -= 0.0005 * x.T @ (likely - np.eye(10)[y]) / len(y)
            print(f"epoch {number}, loss {np.mean(losses):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
