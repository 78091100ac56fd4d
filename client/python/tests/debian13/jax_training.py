"""A small training job, written like a JAX user's: python jax_training.py JOB-AS-JSON. Prints its steps as JSON, one line per process."""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

import millrace.jax
from millrace import Reading

FEATURES = 16


def prepare(sample: Any) -> Mapping[str, Any]:
    """Numbers from the first bytes of a sample, with noise that depends on the sample."""
    x = np.frombuffer(sample["jpg"][:FEATURES], np.uint8).astype(np.float32) / 255 - 0.5
    noise = sample.numpy_rng.normal(0, 0.1, FEATURES).astype(np.float32)
    return {"x": x + noise, "y": np.int32(sample["cls"]), "position": np.int32(sample.position)}


def model(params: Any, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ params["in"]) @ params["out"]


def rows(a: jax.Array) -> list[int]:
    """The rows of a global array that this process holds."""
    shards = sorted(a.addressable_shards, key=lambda s: s.index[0].start or 0)
    return [int(v) for s in shards for v in np.asarray(s.data)]


def main(job: dict[str, Any]) -> dict[str, Any]:
    jax.config.update("jax_num_cpu_devices", job["devices"])
    if job["processes"] > 1:
        jax.distributed.initialize(job["coordinator"], job["processes"], job["process"])
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    loader = millrace.jax.DataLoader(
        job["url"], "photos", sharding=NamedSharding(mesh, PartitionSpec("data")), global_batch_size=40, seed=7, decode={"cls": int},
        transform=prepare, reading=Reading(threads=2),
    )
    optimizer = optax.sgd(0.05, momentum=0.9)
    first, second = jax.random.split(jax.random.key(0))
    params = {"in": jax.random.normal(first, (FEATURES, 32)) * 0.3, "out": jax.random.normal(second, (32, 10)) * 0.3}
    state = params, optimizer.init(params)
    checkpoint = Path(job["checkpoint"])
    if job["resume"]:
        saved = pickle.loads(checkpoint.read_bytes())
        state = saved["state"]
        loader.load_state_dict(saved["loader"])
    state = jax.tree.map(lambda leaf: jax.make_array_from_process_local_data(everywhere, np.asarray(leaf)), state)

    @jax.jit
    def step(state: Any, batch: Any) -> Any:
        params, momentum = state

        def loss(params: Any) -> jax.Array:
            wanted = jax.nn.one_hot(batch["y"], 10)
            return -(jax.nn.log_softmax(model(params, batch["x"])) * wanted).sum() / 40

        updates, momentum = optimizer.update(jax.grad(loss)(params), momentum, params)
        return optax.apply_updates(params, updates), momentum

    seen: list[list[int]] = []
    while len(seen) < job["steps"]:
        for batch in loader:
            state = step(state, batch)
            seen.append(rows(batch["position"]))
            if len(seen) == job["steps"]:
                break
    local = jax.tree.map(lambda leaf: np.asarray(leaf.addressable_data(0)), state)
    if jax.process_index() == 0:
        checkpoint.write_bytes(pickle.dumps({"state": local, "loader": loader.state_dict()}))
    bits = hashlib.sha256(b"".join(leaf.tobytes() for leaf in jax.tree.leaves(local))).hexdigest()
    return {
        "process": jax.process_index(), "seen": seen, "digest": bits, "state": loader.state_dict(), "ranks": [loader.rank, loader.world_size]
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
