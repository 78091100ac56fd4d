#!/usr/bin/env python3
"""Indexes a dataset, or packs one, on a cluster of Ray: each part is a task of Ray, and a task after them joins the parts.

usage: python3 index.py PARTS COMMAND...    such as: python3 index.py 16 index s3://train/photos

COMMAND is a command of millrace. It runs on any node of the cluster, by itself or by `ray job submit`. The program and the keys of the
store have to be on all nodes; MILLRACE names the program where it is not on the PATH. A part that fails, or whose worker or node
dies, is begun again by Ray, on any node, three times at most. The join names the parts that are missing then.
Exit code: 0, or 1 where the join did not publish.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import ray


@ray.remote(max_retries=3, retry_exceptions=True, scheduling_strategy="SPREAD")
def run(command: list[str]) -> str:
    """Runs a command to its end and returns what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return f"node {ray.get_runtime_context().get_node_id()[:8]}: {done.stdout}"


def show(task: ray.ObjectRef) -> bool:
    """Prints what a task has to say, and reports whether it succeeded."""
    try:
        print(ray.get(task), end="", flush=True)
    except ray.exceptions.RayError as fault:
        print(fault, file=sys.stderr, flush=True)
        return False
    return True


def main(parts: int, *command: str) -> int:
    ray.init(address="auto")
    whole = [os.environ.get("MILLRACE", "millrace"), *command]
    tasks = [run.remote([*whole, "--part", f"{i}/{parts}"]) for i in range(parts)]
    while tasks:
        ended, tasks = ray.wait(tasks)
        show(ended[0])
    return 0 if show(run.options(retry_exceptions=False).remote(whole)) else 1


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        sys.exit("usage: python3 index.py PARTS COMMAND..., such as: python3 index.py 16 index s3://train/photos")
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
