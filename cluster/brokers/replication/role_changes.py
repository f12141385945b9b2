"""Applies the controller's updates to the replicas in slices, and serves clients in between.

An update may concern ten thousand partitions. It is applied to the metadata cache atomically; each
replica then adopts its role in a separate step. A step reads the cache as it is at that time, so
the steps of several updates may run in any order, and an older update never undoes a newer one.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Final

from cluster.brokers.replication.known_cluster import KnownCluster
from cluster.brokers.replication.leader_replica import LeaderReplica
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.model.clocks import MonotonicMs
from cluster.model.cluster import TopicState
from cluster.model.ids import TopicPartition
from cluster.runtime.collector import Growth
from cluster.runtime.slices import Slices

log = logging.getLogger(__name__)

STEPS_AT_ONCE: Final = 8
"""Roles taken in the turn of the update itself; most updates have no more."""
_CHECKS_PER_STEP: Final = 16
_LINES_MAX: Final = 16
"""So many partitions of one update get a line each in the log; the others are counted."""


class RoleChanges:
    """Owned by the broker's thread.

    Before the step of its replica, a client is answered as before the update, or with
    NOT_LEADER_OR_FOLLOWER if the replica is not here yet.
    """

    def __init__(
        self,
        roles: ReplicaRoles,
        table: PartitionTable,
        cluster: KnownCluster,
        slices: Slices,
        now_ms: Callable[[], MonotonicMs],
    ) -> None:
        self._roles = roles
        self._table = table
        self._cluster = cluster
        self._slices = slices
        self._now_ms = now_ms
        self._session = 0
        """Counts the sessions with the registry: steps of an earlier session are abandoned, since
        others may lead now."""
        self._is_looking_round = False
        self._growth = Growth()

    def on_update(
        self,
        topics: Iterable[TopicState],
        gone: Collection[str],
        *,
        is_full: bool,
        have_brokers_changed: bool,
        on_done: Callable[[], None],
    ) -> None:
        """The state of these partitions has changed, and the topics in `gone` are deleted.

        `on_done` is called when every replica here has adopted its role: in this turn if they are
        few, and never if the session ends before.
        """
        removed: deque[tuple[TopicPartition, LeaderReplica | None]] = deque()
        for partition in self._table.of_topics(gone):
            removed.append((partition.id, partition.leader))
            # At once: a record for a new topic of the same name must not get into the old log.
            partition.resign()
        self._table.offline.forget_topics(gone)
        steps: list[Iterable[str | None]] = [self._apply_removals(removed)]
        steps += map(self._apply_topic, topics)
        if is_full:
            steps.append(self._apply_to_strays())
        if have_brokers_changed:
            steps.append(self._find_leaders())
        self._slices.start(self._job(chain.from_iterable(steps), on_done), STEPS_AT_ONCE)

    def on_session_lost(self) -> None:
        """Stop leading and following, whatever the last update said."""
        self._session += 1
        self._roles.resign_all()

    def look_round(self) -> None:
        """Find followers that lag or may be in sync again, unless the last search is unfinished."""
        if not self._is_looking_round:
            self._is_looking_round = True
            self._slices.start(self._round(), STEPS_AT_ONCE)

    def _job(self, steps: Iterator[str | None], on_done: Callable[[], None]) -> Iterator[None]:
        session = self._session
        changed = 0
        for line in steps:
            self._growth.add(1)  # even if its role stays, its state is a new object
            if line is not None:
                changed += 1
                if changed <= _LINES_MAX:
                    log.info("%s", line)
            yield
            if session != self._session:
                return
        if changed > _LINES_MAX:
            log.info("... and so on: %d replicas have changed their roles", changed)
        on_done()

    def _apply_topic(self, topic: TopicState) -> Iterator[str | None]:
        for number in topic.partitions:
            yield self._apply(TopicPartition(topic.name, number))

    def _apply_removals(
        self, removed: deque[tuple[TopicPartition, LeaderReplica | None]]
    ) -> Iterator[str | None]:
        while removed:
            # Leader objects are freed here, since freeing thousands at once would block a turn.
            partition_id, _ = removed.popleft()
            yield self._apply(partition_id)

    def _apply_to_strays(self) -> Iterator[str | None]:
        """Remove replicas of deleted topics, and those that are assigned elsewhere now."""
        for partition in self._table:
            yield self._apply(partition.id)
        for partition_id in self._table.offline.partitions():
            yield self._apply(partition_id)

    def _find_leaders(self) -> Iterator[None]:
        for partition_id in self._roles.followed():
            self._roles.follow_where_it_is(partition_id, self._cluster.brokers)
            yield

    def _apply(self, partition_id: TopicPartition) -> str | None:
        topic = self._cluster.topics.get(partition_id.topic)
        return self._roles.apply_state(partition_id, topic, self._cluster.brokers, self._now_ms())

    def _round(self) -> Iterator[None]:
        for count, partition in enumerate(self._table, 1):
            if partition.leader is not None:
                full = self._cluster.full_replicas(partition.topic_id, partition.id.partition)
                self._roles.check_followers(partition, self._now_ms(), full)
            if count % _CHECKS_PER_STEP == 0:
                yield
        self._is_looking_round = False
