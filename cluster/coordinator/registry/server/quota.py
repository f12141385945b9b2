"""Quotas in ZooKeeper's form: the znode `zookeeper_stats` has the usage below a path. Pure.

A quota of /a is the pair /zookeeper/quota/a/zookeeper_limits and .../zookeeper_stats. Nothing is
enforced, which is ZooKeeper's default too. Usage is counted when it is read, so writes cost
nothing.
"""

from typing import Final

from cluster.coordinator.registry.server.tree import ZnodeTree

_ABOVE: Final = "/zookeeper/quota"
_STATS: Final = "/zookeeper_stats"
_LIMITS: Final = "/zookeeper_limits"


def usage_at(tree: ZnodeTree, path: str) -> bytes | None:
    """The data of a `zookeeper_stats` znode, `count=3,bytes=12`, which counts the path itself too;
    None for any other path.
    """
    if not (path.startswith(_ABOVE) and path.endswith(_STATS)):
        return None
    subject = path[len(_ABOVE) : -len(_STATS)]
    if not subject or tree.find(f"{_ABOVE}{subject}{_LIMITS}") is None:
        return None
    count, data_bytes = tree.usage(subject)
    return f"count={count},bytes={data_bytes}".encode()
