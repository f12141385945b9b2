"""Reads what determines the health of a cluster: the supervisor, stats files, file systems."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.datadir.paths import DataDir
from cluster.views.client_states import read_brokers
from cluster.views.cluster_health import Disk, Health, cluster_health, registry_directory


def read_health(files: DataDir, state: Mapping[str, Any] | None) -> Health:
    """The current health of the cluster with this answer of its supervisor; None if not running."""
    return cluster_health(state, read_brokers(files), read_disks(state))


def read_disks(state: Mapping[str, Any] | None) -> dict[str, Disk]:
    """The space under the directories of a cluster, by path, without unreadable ones."""
    found: dict[str, Disk] = {}
    if state is None:
        return found
    paths = [path for broker in state["brokers"] for path in broker.get("log_dirs", ())]
    if state.get("registry_process") is not None:
        paths.append(registry_directory(state))
    for path in paths:
        try:
            disk = os.statvfs(path)
            device = Path(path).stat().st_dev
        except OSError:
            continue
        found[path] = Disk(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize, device)
    return found
