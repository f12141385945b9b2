"""Slots of fetch sessions: who gets one, who is evicted, and what is watched."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from cluster.brokers.fetching.session import FINAL_EPOCH, CachedPartition, next_epoch
from cluster.brokers.fetching.sessions import EVICTION_MS, FetchSessions
from cluster.model.clocks import MonotonicMs
from cluster.protocol.fetch_request import FetchPartition, FetchTopic, ForgottenTopic

PARTITIONS_MAX = 40


class Changes:
    """Notes who watches what, and which sessions are tried."""

    def __init__(self) -> None:
        self.watched: dict[Any, set[CachedPartition]] = {}
        self.tried: list[int] = []
        self.idle: set[int] = set()
        """Sessions of which no request waits."""
        self.deferred: list[Callable[[], None]] = []

    def watch(self, key: Any, watcher: CachedPartition) -> None:
        self.watched.setdefault(key, set()).add(watcher)

    def unwatch(self, key: Any, watcher: CachedPartition) -> None:
        watchers = self.watched.get(key, set())
        watchers.discard(watcher)
        if not watchers:
            self.watched.pop(key, None)

    def is_watched(self, key: Any) -> bool:
        return key.id not in self.idle

    def check(self, key: Any) -> None:
        self.tried.append(key.id)

    def change(self, topic: str, *partitions: int) -> None:
        for partition in partitions:
            for watcher in self.watched.get((topic, partition), ()):
                watcher.attempt()
        for call in self.deferred:
            call()
        self.deferred.clear()


class Stage:
    def __init__(self, slots: int) -> None:
        self.changes = Changes()
        self.sessions = FetchSessions(
            slots,
            Random(1),
            self.changes,
            self.changes.deferred.append,
            lambda: MonotonicMs(self.now_ms),
            lambda _: None,
            PARTITIONS_MAX,
        )
        self.now_ms = 0
        self._open_since: dict[int, int] = {}

    def open(self, size: int, topic: str = "t") -> int:
        partitions = [FetchPartition(index, -1, 0, -1, -1, 1) for index in range(size)]
        return self.sessions.open(
            [FetchTopic(topic, None, partitions)],
            [],
            MonotonicMs(self.now_ms),
            uses_topic_ids=False,
        )

    def use(self, session_id: int) -> None:
        session = self.sessions.find(session_id)
        assert session is not None
        self.sessions.touch(session, MonotonicMs(self.now_ms))

    def is_open(self, *session_ids: int) -> list[bool]:
        return [self.sessions.find(each) is not None for each in session_ids]


def test_sessions_are_declined_without_slots() -> None:
    stage = Stage(0)
    assert stage.open(1) == 0


def test_no_young_session_in_use_is_evicted() -> None:
    stage = Stage(2)
    first, second = stage.open(1), stage.open(1)
    stage.now_ms = EVICTION_MS
    stage.use(second)

    assert stage.open(10) == 0
    assert stage.is_open(first, second) == [True, True]
    assert stage.sessions.eviction_count == 0


def test_a_session_that_is_long_unused_is_evicted_for_any_other() -> None:
    stage = Stage(2)
    first, second = stage.open(5), stage.open(5)
    stage.now_ms = EVICTION_MS + 1
    stage.use(first)

    third = stage.open(1)

    assert stage.is_open(first, second, third) == [True, False, True]
    assert stage.sessions.eviction_count == 1
    assert stage.sessions.partition_count == 6


def test_the_smallest_old_session_is_evicted_for_a_larger_one() -> None:
    stage = Stage(3)
    small, large, middle = stage.open(2), stage.open(9), stage.open(5)
    stage.now_ms = EVICTION_MS + 1
    for each in (small, large, middle):
        stage.use(each)

    assert stage.open(2) == 0  # not larger
    newer = stage.open(3)
    assert stage.is_open(small, large, middle, newer) == [False, True, True, True]
    assert stage.open(5) == 0  # the newer one is the smallest, but young
    assert stage.open(6) != 0
    assert stage.is_open(large, middle, newer) == [True, False, True]


def test_a_session_counts_with_its_present_size() -> None:
    stage = Stage(1)
    only = stage.open(9)
    session = stage.sessions.find(only)
    assert session is not None
    stage.sessions.change(session, [], [ForgottenTopic("t", None, (0, 1, 2, 3, 4, 77))])
    stage.now_ms = EVICTION_MS + 1
    stage.use(only)

    assert stage.sessions.partition_count == 4
    assert stage.open(5) != 0


def test_the_partitions_of_all_sessions_are_bounded() -> None:
    stage = Stage(10)
    assert stage.open(1, topic="t" * 250) == 0
    only = stage.open(PARTITIONS_MAX)
    session = stage.sessions.find(only)
    assert session is not None
    more = [FetchTopic("u", None, [FetchPartition(0, -1, 0, -1, -1, 1)])]

    assert stage.open(1) == 0
    assert not stage.sessions.change(session, more, [])
    assert len(session.partitions) == PARTITIONS_MAX
    stage.sessions.close(only)
    assert stage.open(1) != 0


def test_partitions_that_are_known_count_once() -> None:
    stage = Stage(10)
    only = stage.open(PARTITIONS_MAX)
    session = stage.sessions.find(only)
    assert session is not None
    named = [FetchPartition(index, -1, 7, -1, -1, 1) for index in range(PARTITIONS_MAX)]
    assert stage.sessions.change(session, [FetchTopic("t", None, named)], [])
    assert {each.wanted.fetch_offset for each in session.partitions.values()} == {7}


def test_a_session_that_is_long_unused_watches_nothing_until_it_is_used() -> None:
    stage = Stage(2)
    only = stage.open(3)
    session = stage.sessions.find(only)
    assert session is not None
    session.unread.clear()
    stage.now_ms = EVICTION_MS + 1
    stage.changes.change("t", 0)
    assert stage.changes.tried == [only]  # its request waits all the time
    stage.changes.idle.add(only)
    stage.changes.change("t", 1)
    assert stage.changes.tried == [only]
    assert not stage.changes.watched

    stage.use(only)
    assert len(session.unread) == len(stage.changes.watched) == 3
    stage.changes.idle.clear()
    stage.changes.change("t", 2)
    assert stage.changes.tried == [only, only]


def test_a_closed_session_watches_nothing() -> None:
    stage = Stage(2)
    first, second = stage.open(2), stage.open(3)
    stage.sessions.close(first)
    assert set(stage.changes.watched) == {("t", 0), ("t", 1), ("t", 2)}
    stage.sessions.close(second)
    stage.sessions.close(second)

    assert not stage.changes.watched
    assert (len(stage.sessions), stage.sessions.partition_count) == (0, 0)


def test_a_session_is_tried_once_however_many_partitions_have_changed() -> None:
    stage = Stage(2)
    first, second = stage.open(2), stage.open(3)
    stage.changes.change("t", 0, 1, 2)
    assert sorted(stage.changes.tried) == sorted([first, second])
    stage.changes.change("t", 2)
    assert stage.changes.tried[2:] == [second]


def test_a_session_closed_meanwhile_is_not_tried() -> None:
    stage = Stage(2)
    first, second = stage.open(1), stage.open(1)
    for watcher in list(stage.changes.watched["t", 0]):
        watcher.attempt()
    stage.sessions.close(first)
    stage.changes.change("t")
    assert stage.changes.tried == [second]


@pytest.mark.parametrize(("epoch", "after"), [(0, 1), (1, 2), (2**31 - 1, 1), (-1, FINAL_EPOCH)])
def test_epochs_go_round(epoch: int, after: int) -> None:
    assert next_epoch(epoch) == after
