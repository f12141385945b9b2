"""The leader's side of follower fetches: sessions, parked requests, answers. No sockets.

A request is parked until a partition of its session has data, so replication costs one round trip
and not a poll interval. Partitions with new batches are collected during a turn of the loop, and
their followers are answered once at its end.
"""

import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.brokers.replication.partition import Partition
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicPartition
from cluster.protocol.peer.replication import (
    FetchAnswer,
    FetchedPartition,
    FetchPosition,
    FileSource,
    FollowerFetch,
)

log = logging.getLogger(__name__)

_WATERMARKS_PERIOD_MS: Final = 500
"""How often followers get high watermarks without records; in Kafka, their fetch wait."""
_PARTITIONS_PER_ANSWER: Final = 100
"""The rest goes first in the next answer, so that neither side is busy with one for long."""
_SESSIONS_MAX: Final = 4096
"""Far more than there are brokers: it bounds the memory that a bug could leak."""
_PARKED_MAX_MS: Final = 300_000
_FORGOTTEN_AFTER_MS: Final = 2 * _PARKED_MAX_MS
"""The session of a follower that has not fetched for this long is dropped."""


@dataclass(frozen=True, slots=True)
class LeaderActions:
    """What the leader's side of fetches asks of its broker."""

    find_partition: Callable[[TopicPartition], Partition | None]
    on_high_watermark_moved: Callable[[Partition], None]
    """Wake the requests that wait for the high watermark."""
    on_follower_log_start_moved: Callable[[TopicPartition], None]
    """Wake the requests that wait until followers have deleted records."""
    propose_isr: Callable[[Partition, IsrProposal], None]
    """Ask the controller to change the ISR."""
    note_failure: Callable[[TopicPartition, StorageFailed], None]
    """A log could not be read or written."""


@dataclass(slots=True)
class _Session:
    follower: BrokerId
    identity: bytes
    machine: str
    session: int
    sequence: int
    positions: dict[TopicPartition, FetchPosition] = field(default_factory=dict)
    ready: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions with something to send: data beyond the follower's position, or an error."""
    given: dict[TopicPartition, int] = field(default_factory=dict)
    """The offset of the first record that was last sent."""
    told: set[TopicPartition] = field(default_factory=set)
    """Partitions that were answered, and whose new position was not reported since."""
    behind: set[TopicPartition] = field(default_factory=set)
    """Partitions whose high watermark or log start has moved since the follower last got it."""
    tell_watermarks_at_ms: int = 0
    heard_at_ms: int = 0
    parked_until_ms: int | None = None
    max_bytes: int = 0
    by_file: bool = False
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)
    """The epoch of the follower's registration in its last request."""


class LeaderFetches:
    """All followers that fetch from this broker; one session each.

    Invariant: after an answer, a partition is not ready again before its follower has reported a
    new position for it.
    """

    def __init__(
        self,
        actions: LeaderActions,
        machine: str,
        partition_max_bytes: int,
        send: Callable[[bytes, FetchAnswer], bool],
    ) -> None:
        """`send` returns whether it could send the answer to that identity."""
        self._actions = actions
        self._machine = machine
        self._partition_max_bytes = partition_max_bytes
        self._send = send
        self._sessions: dict[BrokerId, _Session] = {}
        self._watchers: dict[TopicPartition, set[BrokerId]] = {}

    def on_fetch(self, identity: bytes, fetch: FollowerFetch, now_ms: MonotonicMs) -> None:
        """Take the positions of a follower's request, and answer it now or park it.

        It replaces a parked request, which then gets no answer of its own.
        """
        session = self._session_of(identity, fetch)
        if session is None:
            error = ErrorCode.fetch_session_id_not_found
            self._send(identity, FetchAnswer(fetch.session, fetch.sequence, error, []))
            return
        session.heard_at_ms = now_ms
        session.broker_epoch = BrokerEpoch(fetch.broker_epoch)
        for position in fetch.partitions:
            self._take_position(session, position, now_ms)
        for partition in fetch.forgotten:
            self._forget(session, partition)
        session.max_bytes = fetch.max_bytes
        session.by_file = fetch.by_file and fetch.machine == self._machine
        session.parked_until_ms = now_ms + min(fetch.max_wait_ms, _PARKED_MAX_MS)
        if session.ready or fetch.max_wait_ms <= 0:
            self._answer(session)

    def on_appended(self, partition: TopicPartition) -> None:
        """Answer followers that wait for this partition; called once at the end of a turn."""
        for follower in list(self._watchers.get(partition, ())):
            session = self._sessions[follower]
            if partition in session.told:
                continue  # the position that it is about to report decides
            session.ready[partition] = None
            if session.parked_until_ms is not None:
                self._answer(session)

    def on_high_watermark_moved(self, partition: TopicPartition) -> None:
        """Send the high watermark with the next records, or after a while without any.

        A follower that lacks it would begin with an old one as a leader.
        """
        for follower in self._watchers.get(partition, ()):
            self._sessions[follower].behind.add(partition)

    def on_log_start_moved(self, partition: TopicPartition) -> None:
        """Send the log start as the high watermark is sent."""
        self.on_high_watermark_moved(partition)

    def ask_for_positions(self, partition: TopicPartition, followers: Collection[BrokerId]) -> None:
        """Ask these followers to report their positions, even if they have every record.

        A report decides whether a follower may join the ISR; its last one may have been too early.
        """
        for follower in self._watchers.get(partition, set()).intersection(followers):
            session = self._sessions[follower]
            if partition not in session.told:
                session.ready[partition] = None
                if session.parked_until_ms is not None:
                    self._answer(session)

    def on_role_changed(self, partition: TopicPartition) -> None:
        """Answer the followers of a partition that is no longer led, or is led in another epoch."""
        self.on_appended(partition)

    def on_tick(self, now_ms: MonotonicMs) -> None:
        """Answer the requests whose wait is over; send high watermarks periodically."""
        for session in list(self._sessions.values()):
            if session.behind and session.tell_watermarks_at_ms <= now_ms:
                session.tell_watermarks_at_ms = now_ms + _WATERMARKS_PERIOD_MS
                session.ready.update(dict.fromkeys(sorted(session.behind - session.told)))
            until_ms = session.parked_until_ms
            if until_ms is not None and (session.ready or until_ms <= now_ms):
                self._answer(session)
            elif now_ms - session.heard_at_ms > _FORGOTTEN_AFTER_MS:
                self._drop(session)

    def _session_of(self, identity: bytes, fetch: FollowerFetch) -> _Session | None:
        follower = BrokerId(fetch.broker)
        known = self._sessions.get(follower)
        if fetch.sequence == 0:
            if known is not None:
                self._drop(known)
            if len(self._sessions) >= _SESSIONS_MAX:
                return None
            session = _Session(follower, identity, fetch.machine, fetch.session, 0)
            self._sessions[follower] = session
            return session
        if known is None or known.session != fetch.session:
            return None
        if known.identity != identity:
            return None  # it has connected again, so an answer may have been lost
        if fetch.sequence != known.sequence + 1:
            return None
        known.sequence = fetch.sequence
        return known

    def _take_position(
        self, session: _Session, position: FetchPosition, now_ms: MonotonicMs
    ) -> None:
        partition_id = TopicPartition(position.topic, position.partition)
        before = session.positions.get(partition_id)
        session.positions[partition_id] = position
        session.told.discard(partition_id)
        session.ready.pop(partition_id, None)
        self._watchers.setdefault(partition_id, set()).add(session.follower)
        partition = self._actions.find_partition(partition_id)
        if partition is not None and session.given.pop(partition_id, -1) == position.fetch_offset:
            # It could not use the records: if they are damaged here, the next read finds it.
            partition.log.files.suspect(Offset(position.fetch_offset))
        if partition is None or position.leader_epoch > partition.leader_epoch:
            # The follower got the controller's update first: `on_role_changed` answers.
            session.behind.discard(partition_id)
            return
        if (
            partition.leader is None
            or position.leader_epoch != partition.leader_epoch
            or session.follower not in partition.leader.followers
        ):
            session.ready[partition_id] = None
            return
        if before is None or before.leader_epoch != position.leader_epoch:
            session.behind.add(partition_id)  # even if it has every record already
        if self._diverges(partition, position) is not None:
            session.ready[partition_id] = None
            return
        moved, proposal = partition.on_follower_fetch(
            session.follower, Offset(position.fetch_offset), now_ms, session.broker_epoch
        )
        if moved:
            self._actions.on_high_watermark_moved(partition)
        if partition.leader.on_follower_log_start(
            session.follower, Offset(position.log_start_offset)
        ):
            self._actions.on_follower_log_start_moved(partition.id)
        if proposal is not None:
            self._actions.propose_isr(partition, proposal)
        if (
            position.fetch_offset != partition.log.log_end_offset
            or position.log_start_offset < partition.log.log_start_offset
        ):
            session.ready[partition_id] = None

    def _answer(self, session: _Session) -> None:
        session.parked_until_ms = None
        budget = session.max_bytes
        answers = []
        for partition_id in list(islice(session.ready, _PARTITIONS_PER_ANSWER)):
            if budget <= 0:
                break  # the rest stays ready and goes first next time
            del session.ready[partition_id]
            session.told.add(partition_id)
            fetched = self._answer_partition(session, session.positions[partition_id], budget)
            if fetched.diverging is not None:
                session.behind.add(partition_id)  # it gets no high watermark before its log agrees
            elif fetched.error is ErrorCode.none:
                session.behind.discard(partition_id)
            if fetched.records is not None:
                records = fetched.records
                session.given[partition_id] = session.positions[partition_id].fetch_offset
                budget -= records.size_bytes if isinstance(records, FileSource) else len(records)
            answers.append(fetched)
        answer = FetchAnswer(session.session, session.sequence, ErrorCode.none, answers)
        if not self._send(session.identity, answer):
            self._drop(session)  # the answer is lost: the follower must begin a new session

    def _answer_partition(
        self, session: _Session, position: FetchPosition, budget: int
    ) -> FetchedPartition:
        partition = self._actions.find_partition(TopicPartition(position.topic, position.partition))
        try:
            if partition is None:
                raise Refused(ErrorCode.unknown_topic_or_partition)
            leader = partition.check_leader(position.leader_epoch)
            if session.follower not in leader.followers:
                raise Refused(ErrorCode.not_leader_or_follower)  # as Kafka's leader answers it
            diverging = self._diverges(partition, position)
            records = None
            if diverging is None:
                records = self._read(session, partition, position, budget)
        except (Refused, StorageFailed) as problem:
            code = ErrorCode.kafka_storage_error
            if isinstance(problem, Refused):
                code = problem.code
            else:
                log.error(  # noqa: TRY400 - one line for a person
                    "%s-%d: cannot be read for broker %d: %s",
                    position.topic,
                    position.partition,
                    session.follower,
                    problem,
                )
                self._actions.note_failure(
                    TopicPartition(position.topic, position.partition), problem
                )
            return FetchedPartition(
                position.topic,
                position.partition,
                position.leader_epoch,
                code,
                -1 if partition is None else partition.high_watermark,
                -1 if partition is None else partition.log.log_start_offset,
            )
        return FetchedPartition(
            position.topic,
            position.partition,
            position.leader_epoch,
            ErrorCode.none,
            partition.high_watermark,
            partition.log.log_start_offset,
            diverging,
            records,
        )

    def _read(
        self, session: _Session, partition: Partition, position: FetchPosition, budget: int
    ) -> memoryview | FileSource | None:
        data = partition.log.read(
            Offset(position.fetch_offset),
            min(budget, self._partition_max_bytes),
            upper_offset=partition.log.log_end_offset,
            at_least_one_batch=True,
        )
        if data.size_bytes == 0:
            return None
        if session.by_file:
            inode = os.fstat(data.fileno()).st_ino
            return FileSource(str(data.path), inode, data.position, data.size_bytes)
        return data.view()

    def _diverges(self, partition: Partition, position: FetchPosition) -> tuple[int, int] | None:
        """Epoch and end offset at which the follower's log diverges (KIP-595), or None."""
        if position.last_fetched_epoch < 0:
            return None
        epoch, end_offset = partition.log.epochs.end_offset(
            LeaderEpoch(position.last_fetched_epoch), partition.log.log_end_offset
        )
        if epoch < position.last_fetched_epoch or end_offset < position.fetch_offset:
            return int(epoch), int(end_offset)
        return None

    def _forget(self, session: _Session, partition_id: TopicPartition) -> None:
        session.positions.pop(partition_id, None)
        session.given.pop(partition_id, None)
        session.ready.pop(partition_id, None)
        session.told.discard(partition_id)
        session.behind.discard(partition_id)
        watchers = self._watchers.get(partition_id)
        if watchers is not None:
            watchers.discard(session.follower)
            if not watchers:
                del self._watchers[partition_id]

    def _drop(self, session: _Session) -> None:
        for partition_id in list(session.positions):
            self._forget(session, partition_id)
        del self._sessions[session.follower]
