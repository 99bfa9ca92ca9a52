"""A Ray cluster of several nodes on loopback: a head that works not, and nodes that come and go.

Each node is a raylet of its own, as on a machine of its own: it has its own id, workers and object store.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

__all__ = ["RayNodes", "running_ray_nodes"]

_LOOPBACK = "127.0.0.1"
_OBJECT_STORE_BYTES = 80 * 1024 * 1024


class RayNodes:
    """A cluster whose nodes are added and killed; nothing of the test's own process belongs to it."""

    def __init__(self, folder: str) -> None:
        self._nodes: dict[str, Any] = {}
        self._cluster = import_module("ray.cluster_utils").Cluster(
            initialize_head=True,
            head_node_args={**self._arguments(0), "include_dashboard": False, "temp_dir": folder},
        )

    @property
    def address(self) -> str:
        """Where the cluster is reached."""
        return str(self._cluster.address)

    def add(self, cores: int) -> str:
        """Add a node and return its id."""
        node = self._cluster.add_node(**self._arguments(cores))
        self._nodes[node.node_id] = node
        return str(node.node_id)

    def kill(self, node_id: str) -> None:
        """Kill a node with all that runs on it."""
        self._cluster.remove_node(self._nodes.pop(node_id), allow_graceful=False)

    def close(self) -> None:
        """End everything."""
        self._cluster.shutdown()

    def _arguments(self, cores: int) -> dict[str, Any]:
        return {"num_cpus": cores, "object_store_memory": _OBJECT_STORE_BYTES, "node_ip_address": _LOOPBACK}


@contextmanager
def running_ray_nodes() -> Generator[RayNodes]:
    """Start a cluster that has no node yet to work on; skips where there is no Ray, and says how to get it."""
    pytest.importorskip("ray", reason="needs: pip install 'heliograph[ray]'")
    constants: Any = import_module("ray._private.ray_constants")
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray-") as folder:
        # As on machines where the same is installed: what tests give to workers is importable there.
        patch.setenv("PYTHONPATH", os.pathsep.join(path or str(Path.cwd()) for path in sys.path))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setattr(constants, "ENABLE_RAY_CLUSTER", False)
        # It would become the cluster that others on this machine find by `auto`.
        patch.setattr(import_module("ray._private.utils"), "write_ray_address", lambda _: None)
        nodes = RayNodes(folder)
        try:
            yield nodes
        finally:
            nodes.close()
