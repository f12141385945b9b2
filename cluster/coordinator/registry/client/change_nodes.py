"""Nodes by which whoever changes something in the registry tells others: blocking calls."""

from contextlib import suppress
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cluster.model.clocks import WallMs

CHANGE_EXPIRY_MS: Final = 15 * 60 * 1000
"""Change nodes older than this are removed by whoever adds one (as in Kafka)."""


def add_change(client: KazooClient, prefix: str, document: bytes, wall_ms: WallMs) -> None:
    """Notify everybody who watches the node's parent; remove old nodes there.

    `prefix` is the path without the number.
    """
    client.create(prefix, document, sequence=True)
    parent = prefix.rpartition("/")[0]
    for name in sorted(client.get_children(parent)):
        path = f"{parent}/{name}"
        stat = client.exists(path)
        if stat is not None and wall_ms - stat.ctime <= CHANGE_EXPIRY_MS:
            break  # their names count up: the others are younger still
        with suppress(NoNodeError):  # another broker may be faster
            client.delete(path)
