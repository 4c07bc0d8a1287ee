"""A Ray cluster of two nodes on this machine, each with an address of its own and two cards that do not exist."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import ray
from ray.cluster_utils import Cluster

from tools.calling import wait_until
from tools.strict import config_text

HEAD, OTHER = "127.0.0.2", "127.0.0.3"
_NODE: Final = {"num_cpus": 2, "resources": {"NPU": 2}, "object_store_memory": 80 * 2**20, "include_dashboard": False}
ON_CPU: Final = ("--backend", "host", "--insecure")


class TwoNodes:
    """A head, and another node that may die and come back."""

    def __init__(self) -> None:
        self._cluster = Cluster(initialize_head=True, head_node_args={**_NODE, "node_ip_address": HEAD})
        self._other: Any = None
        self.add_other()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add_other(self) -> None:
        self._other = self._cluster.add_node(**_NODE, node_ip_address=OTHER)

    def kill_other(self) -> None:
        self._cluster.remove_node(self._other, allow_graceful=False)
        self._other = None

    def make_whole(self) -> None:
        if self._other is None:
            self.add_other()
        wait_until(lambda: ray.cluster_resources().get("NPU") == 4, look_s=0.1)

    def stop(self) -> None:
        ray.shutdown()
        self._cluster.shutdown()


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    with tempfile.TemporaryDirectory() as folder:
        # Servers inherit it: the host library has as many devices as a node has cards.
        config = Path(folder) / "acl.json"
        config.write_text(config_text(devices=2))
        with patch.dict(os.environ, ACL_HOST_CONFIG=str(config)):
            nodes = TwoNodes()
        try:
            # Without the address, Ray would look for the nodes at the machine's own.
            ray.init(address=nodes.address, _node_ip_address=HEAD, log_to_driver=False)
            yield nodes
        finally:
            nodes.stop()
