"""Watches: which events each connection gets, for one-shot and persistent watches."""

from cluster.coordinator.registry.server.watches import Notification, WatchKind, WatchTable
from cluster.coordinator.registry.wire.codes import EventType, WatcherType

CREATED = EventType.NODE_CREATED
DELETED = EventType.NODE_DELETED
CHANGED = EventType.NODE_DATA_CHANGED
CHILDREN = EventType.NODE_CHILDREN_CHANGED


def test_one_shot_watches_go_off_once() -> None:
    watches = WatchTable()
    watches.add(1, WatchKind.DATA, "/a")
    watches.add(1, WatchKind.CHILDREN, "/")
    assert watches.on_node_created("/a") == [
        Notification(1, CREATED, "/a"),
        Notification(1, CHILDREN, "/"),
    ]
    assert watches.on_data_changed("/a") == []
    assert watches.count == 0


def test_deletion_notifies_a_watcher_of_data_and_children_once() -> None:
    watches = WatchTable()
    watches.add(1, WatchKind.DATA, "/a/b")
    watches.add(1, WatchKind.CHILDREN, "/a/b")
    watches.add(2, WatchKind.CHILDREN, "/a/b")
    watches.add(3, WatchKind.CHILDREN, "/a")
    assert watches.on_node_deleted("/a/b") == [
        Notification(1, DELETED, "/a/b"),
        Notification(2, DELETED, "/a/b"),
        Notification(3, CHILDREN, "/a"),
    ]
    assert watches.count == 0


def test_persistent_watches_stay_and_hear_of_data_and_children() -> None:
    watches = WatchTable()
    watches.add(1, WatchKind.PERSISTENT, "/a")
    for _ in range(2):
        assert watches.on_node_created("/a") == [Notification(1, CREATED, "/a")]
        assert watches.on_node_created("/a/b") == [Notification(1, CHILDREN, "/a")]
        assert watches.on_data_changed("/a") == [Notification(1, CHANGED, "/a")]
        assert watches.on_data_changed("/a/b") == []
        assert watches.on_node_deleted("/a") == [Notification(1, DELETED, "/a")]
    assert watches.count == 1


def test_recursive_watch_reports_all_descendants_but_no_child_lists() -> None:
    watches = WatchTable()
    watches.add(1, WatchKind.RECURSIVE, "/a")
    watches.add(2, WatchKind.RECURSIVE, "/")
    assert watches.on_node_created("/a/b/c") == [
        Notification(1, CREATED, "/a/b/c"),
        Notification(2, CREATED, "/a/b/c"),
    ]
    assert watches.on_data_changed("/ab") == [Notification(2, CHANGED, "/ab")]
    assert watches.on_node_deleted("/a") == [
        Notification(1, DELETED, "/a"),
        Notification(2, DELETED, "/a"),
    ]


def test_a_connection_with_several_matching_watches_hears_once() -> None:
    watches = WatchTable()
    for kind in WatchKind:
        watches.add(1, kind, "/a")
    assert watches.on_data_changed("/a") == [Notification(1, CHANGED, "/a")]
    assert not watches.has(1, "/a", WatcherType.DATA)
    assert watches.has(1, "/a", WatcherType.CHILDREN)
    assert watches.has(1, "/a", WatcherType.PERSISTENT)


def test_watches_are_removed_by_type() -> None:
    watches = WatchTable()
    for kind in WatchKind:
        watches.add(1, kind, "/a")
    watches.add(2, WatchKind.DATA, "/a")
    assert watches.remove(1, "/a", WatcherType.DATA)
    assert not watches.remove(1, "/a", WatcherType.DATA)
    assert not watches.remove(1, "/b", WatcherType.ANY)
    assert not watches.remove(1, "/a", 99)
    assert watches.remove(1, "/a", WatcherType.ANY)
    assert not watches.has(1, "/a", WatcherType.ANY)
    assert watches.has(2, "/a", WatcherType.ANY)
    assert watches.count == 1


def test_a_gone_connection_hears_nothing() -> None:
    watches = WatchTable()
    for kind in WatchKind:
        watches.add(1, kind, "/a")
        watches.add(1, kind, "/a")
    assert watches.count == 4
    watches.remove_connection(1)
    assert watches.count == 0
    assert watches.on_node_deleted("/a") == []
