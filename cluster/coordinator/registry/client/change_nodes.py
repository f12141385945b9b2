"""Change nodes, by which each change in the registry is announced. Blocking calls."""

from contextlib import suppress
from typing import Final

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NoNodeError, RolledBackError

from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs

CHANGE_EXPIRY_MS: Final = 15 * 60 * 1000
"""Change nodes older than this are removed when a new one is added (as in Kafka)."""


def commit_config(
    client: KazooClient, writes: TransactionRequest, entity_path: str, wall_ms: WallMs
) -> None:
    """Change the config of an entity and notify every broker; see `commit_with_change`."""
    change = znodes.encode_config_change(entity_path)
    commit_with_change(client, writes, paths.CONFIG_CHANGE_PREFIX, change, wall_ms)


def commit_with_change(
    client: KazooClient, writes: TransactionRequest, prefix: str, change: bytes, wall_ms: WallMs
) -> None:
    """Commit writes together with the change node that announces them, and remove old change nodes.

    Raises the error of the write that failed; then nothing is written. So a change is announced or
    not made, also if the disk of the registry is full: deletions take no space there, new nodes do.
    `prefix` is the path of the change node without the number.
    """
    writes.create(prefix, change, sequence=True)
    for result in writes.commit():
        if isinstance(result, Exception) and not isinstance(result, RolledBackError):
            raise result
    parent = prefix.rpartition("/")[0]
    for name in sorted(client.get_children(parent)):
        path = f"{parent}/{name}"
        stat = client.exists(path)
        if stat is not None and wall_ms - stat.ctime <= CHANGE_EXPIRY_MS:
            break  # names are numbered in order: the rest are younger still
        with suppress(NoNodeError):  # another broker may be faster
            client.delete(path)
