"""Runs three nodes of Ray, each a raylet of its own with workers of its own, until its input ends. It prints their address.

A process of its own: one that has spoken to Ray cannot be forked any more, as torch's loaders do, without the child ending by a segmentation
fault now and then.
"""

import sys

from ray.cluster_utils import Cluster

node = {"num_cpus": 2, "object_store_memory": 100 << 20, "include_dashboard": False}
nodes = Cluster(initialize_head=True, head_node_args=node)
try:
    for _ in range(2):
        nodes.add_node(**node)
    nodes.wait_for_nodes()
    print("address", nodes.address, flush=True)
    sys.stdin.read()
finally:
    nodes.shutdown()
