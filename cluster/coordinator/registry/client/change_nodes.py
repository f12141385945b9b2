"""Change nodes: whoever changes something in the registry announces it by one. Blocking calls."""

from contextlib import suppress
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs

CHANGE_EXPIRY_MS: Final = 15 * 60 * 1000
"""Change nodes older than this are removed when a new one is added (as in Kafka)."""


def announce_config(client: KazooClient, entity_path: str, wall_ms: WallMs) -> None:
    """Notify every broker that the config of an entity has changed."""
    add_change(
        client, paths.CONFIG_CHANGE_PREFIX, znodes.encode_config_change(entity_path), wall_ms
    )


def add_change(client: KazooClient, prefix: str, document: bytes, wall_ms: WallMs) -> None:
    """Notify everybody who watches the node's parent, and remove old change nodes.

    `prefix` is the path without the number.
    """
    client.create(prefix, document, sequence=True)
    parent = prefix.rpartition("/")[0]
    for name in sorted(client.get_children(parent)):
        path = f"{parent}/{name}"
        stat = client.exists(path)
        if stat is not None and wall_ms - stat.ctime <= CHANGE_EXPIRY_MS:
            break  # names are numbered in order: the rest are younger still
        with suppress(NoNodeError):  # another broker may be faster
            client.delete(path)
