"""Nodes below `/admin`, on the fake registry and on the real one."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.coordinator.cluster_store import Deposed, NodeElections, StoreVersion
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.ids import BrokerId, TopicPartition
from tests.support.fake_registry import store_of
from tests.support.waiting import wait_until

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
TARGET = (BrokerId(3), BrokerId(1))
NODE = znodes.encode_reassignments({ORDERS_0: TARGET, ORDERS_1: TARGET})


@pytest.fixture
def controller(client: Any) -> StoreVersion:
    """The version of the present controller."""
    return store_of(client).election.campaign(BrokerId(1), WallMs(1)).epoch_version


class Calls:
    """Counts the calls of a watch."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1

    def wait(self) -> None:
        wait_until(lambda: self.count, "the watch")


def test_reassignments_are_read_and_replaced(client: Any, controller: StoreVersion) -> None:
    admin, seen = store_of(client).admin, Calls()
    assert admin.load_reassignments(controller, seen) is None
    client.create(paths.REASSIGN_PARTITIONS, NODE)
    seen.wait()
    seen = Calls()
    found = admin.load_reassignments(controller, seen)
    assert found is not None
    assert found.targets == {ORDERS_0: TARGET, ORDERS_1: TARGET}

    version = admin.write_reassignments({ORDERS_1: TARGET}, found.version, controller)

    seen.wait()
    assert admin.load_reassignments(controller) == ({ORDERS_1: TARGET}, version)
    admin.write_reassignments({}, version, controller)
    assert client.exists(paths.REASSIGN_PARTITIONS) is None


def test_nodes_that_somebody_has_changed_stay(client: Any, controller: StoreVersion) -> None:
    admin = store_of(client).admin
    client.create(paths.REASSIGN_PARTITIONS, NODE)
    client.create(paths.PREFERRED_REPLICA_ELECTION, b'{"version":1,"partitions":[]}')
    moves, elections = admin.load_reassignments(controller), admin.load_elections(controller)
    assert moves is not None
    assert elections == NodeElections((), StoreVersion(0))
    for path in (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION):
        client.set(path, client.get(path)[0])

    admin.write_reassignments({}, moves.version, controller)
    admin.write_reassignments({ORDERS_1: TARGET}, moves.version, controller)
    admin.remove_elections(elections.version, controller)

    assert client.get(paths.REASSIGN_PARTITIONS)[0] == NODE
    assert client.exists(paths.PREFERRED_REPLICA_ELECTION) is not None


def test_nodes_that_are_gone_are_removed_already(client: Any, controller: StoreVersion) -> None:
    admin = store_of(client).admin
    admin.write_reassignments({}, StoreVersion(0), controller)
    admin.remove_elections(StoreVersion(0), controller)
    admin.remove_deletions(["orders"], controller)
    assert client.get_children("/admin") == ["delete_topics"]


def test_deletions_are_read_and_removed(client: Any, controller: StoreVersion) -> None:
    admin, seen = store_of(client).admin, Calls()
    assert admin.load_deletions(seen) == frozenset()
    for name in ("orders", "bills"):
        client.create(paths.delete_topic(name), b"")
    seen.wait()
    assert admin.load_deletions() == {"orders", "bills"}
    admin.remove_deletions(["bills", "never"], controller)
    assert admin.load_deletions() == {"orders"}
    admin.remove_deletions(["orders"], controller)
    client.delete(paths.DELETE_TOPICS)
    assert admin.load_deletions() == frozenset()


def test_a_replaced_controller_removes_nothing(
    client: Any, new_client: Callable[[], Any], controller: StoreVersion
) -> None:
    admin = store_of(client).admin
    client.create(paths.REASSIGN_PARTITIONS, NODE)
    client.create(paths.PREFERRED_REPLICA_ELECTION, b"garbage")
    client.create(paths.delete_topic("orders"), b"")
    client.delete(paths.CONTROLLER)
    store_of(new_client()).election.campaign(BrokerId(2), WallMs(2))

    for write in (
        lambda: admin.write_reassignments({}, StoreVersion(0), controller),
        lambda: admin.load_elections(controller),
        lambda: admin.remove_deletions(["orders"], controller),
    ):
        with pytest.raises(Deposed):
            write()

    assert client.get(paths.REASSIGN_PARTITIONS)[0] == NODE
    assert client.exists(paths.PREFERRED_REPLICA_ELECTION) is not None
    assert admin.load_deletions() == {"orders"}
