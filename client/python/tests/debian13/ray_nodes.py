"""Runs three nodes of Ray, each a raylet with its own workers, until its input ends. Prints their address.

It is a separate process, because a process that has used Ray cannot be forked safely: children, such as the workers of torch's loaders,
sometimes crash with a segmentation fault.
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
