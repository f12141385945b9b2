"""The content of `zookeeper_stats` nodes."""

from cluster.coordinator.registry.server.acl import OPEN_ACL
from cluster.coordinator.registry.server.quota import usage_at
from cluster.coordinator.registry.server.transactions import NodeCreated
from cluster.coordinator.registry.server.tree import ZnodeTree
from cluster.model.clocks import WallMs

STATS = "/zookeeper/quota/a/zookeeper_stats"


def test_usage_is_shown_only_with_limits() -> None:
    tree = ZnodeTree()
    for number, path in enumerate(("/a", "/a/b", "/ab", "/zookeeper/quota/a")):
        tree.apply(NodeCreated(path, b"x" * (number + 1), OPEN_ACL, 0), number + 1, WallMs(0))
    assert usage_at(tree, STATS) is None
    limits = "/zookeeper/quota/a/zookeeper_limits"
    tree.apply(NodeCreated(limits, b"count=5,bytes=-1", OPEN_ACL, 0), 5, WallMs(0))
    assert usage_at(tree, STATS) == b"count=2,bytes=3"
    assert usage_at(tree, "/a") is None
    assert usage_at(tree, "/zookeeper/quota/zookeeper_stats") is None
