"""Trains a linear classifier with JAX over all devices. A restart resumes from the checkpoint, on any number of devices.

python jax_train.py s3://train/photos        on several hosts, call jax.distributed.initialize() first
"""

import argparse
import pickle
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from PIL import Image

import millrace.jax

CLASSES = 10


def prepare(sample):
    image = Image.fromarray(sample["jpg"]).convert("RGB").resize((32, 32))
    return {"x": np.asarray(image, np.float32).ravel() / 255 - 0.5, "y": np.int32(sample["cls"])}


@jax.jit
def step(weights, batch):
    def loss(weights):
        wanted = jax.nn.one_hot(batch["y"], CLASSES)
        return -(jax.nn.log_softmax(batch["x"] @ weights) * wanted).sum(1).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.001 * gradient, value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", help="directory, bucket or gateway of samples with the parts jpg and cls")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256, help="samples of all devices together")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pickle"))
    args = parser.parse_args()

    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    rows, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    loader = millrace.jax.DataLoader(args.source, global_batch_size=args.batch_size, seed=1, sharding=rows, transform=prepare)
    weights = np.zeros((32 * 32 * 3, CLASSES), np.float32)
    if args.checkpoint.exists():
        saved = pickle.loads(args.checkpoint.read_bytes())
        weights = saved["weights"]
        loader.load_state_dict(saved["loader"])
    weights = jax.make_array_from_process_local_data(everywhere, weights)

    while (epoch := loader.state_dict()["epoch"]) < args.epochs:
        for batch in loader:
            weights, loss = step(weights, batch)
        if jax.process_index() == 0:
            state = {"weights": np.asarray(weights.addressable_data(0)), "loader": loader.state_dict()}
            args.checkpoint.write_bytes(pickle.dumps(state))
            print(f"epoch {epoch}, loss {jnp.asarray(loss):.3f}", flush=True)


if __name__ == "__main__":
    main()
