"""The leader's side of follower fetches: sessions, parked requests, answers. No sockets.

A request is parked until a partition of its session has data, so replication costs one round trip
and not a poll interval. Partitions with new batches are collected during a turn of the loop, and
each follower is answered once at its end, with all of them.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from cluster.brokers.replication.divergence import divergence
from cluster.brokers.replication.follower_answers import full_answer, read_batches
from cluster.brokers.replication.follower_sessions import (
    Followed,
    FollowerSession,
    Way,
    tell_at_once,
)
from cluster.brokers.replication.held_followers import HeldFollowers
from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.replica_throttle import NO_LIMIT, ReplicaThrottle, no_throttle
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import ErrorCode, PeerError, Refused, StorageFailed
from cluster.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicPartition
from cluster.protocol.peer.compact import (
    ANSWER_ENTRY,
    ANSWER_HEAD,
    COMPACT_ANSWER,
    COMPACT_REFUSAL,
    ENTRIES_MAX,
    FETCH_ENTRY,
    FETCH_HEAD,
    IN_NEXT_FRAME,
    NO_RECORDS,
    check_size,
)
from cluster.protocol.peer.replication import (
    FetchAnswer,
    FetchPosition,
    FollowerFetch,
)
from cluster.quotas.replication_quota import CHUNK_BYTES

log = logging.getLogger(__name__)

_SESSIONS_MAX: Final = 4096
"""Far more than there are brokers: it bounds the memory that a bug could leak."""
_PARKED_MAX_MS: Final = 300_000
_FORGOTTEN_AFTER_MS: Final = 2 * _PARKED_MAX_MS
"""The session of a follower that has not fetched for this long is dropped."""

_FETCH_HEAD_BYTES: Final = FETCH_HEAD.size
_FETCH_ENTRY_BYTES: Final = FETCH_ENTRY.size
_unpack_head: Final = FETCH_HEAD.unpack_from
_unpack_entry: Final = FETCH_ENTRY.unpack_from
_pack_head: Final = ANSWER_HEAD.pack
_pack_entry: Final = ANSWER_ENTRY.pack


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


class AnswerSender(Protocol):
    """The way back to a follower."""

    def send(self, identity: bytes, answer: FetchAnswer) -> bool:
        """Send a full answer; returns False if that is impossible."""
        ...

    def send_compact(self, way: Way, frames: list[bytes | memoryview]) -> bool:
        """Send a compact answer the way that the request came; False if that is impossible."""
        ...


def _at_once(call: Callable[[], None]) -> None:
    call()


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
        sender: AnswerSender,
        defer: Callable[[Callable[[], None]], None] = _at_once,
        throttle: ReplicaThrottle[FollowerSession] | None = None,
    ) -> None:
        """`defer` postpones a call to the end of the turn."""
        self._actions = actions
        self._machine = machine
        self._partition_max_bytes = partition_max_bytes
        self._sender = sender
        self._defer = defer
        self.has_readers = False
        """Whether followers have consumers, and thus get each high watermark at once."""
        self._throttle = no_throttle() if throttle is None else throttle
        self._held = HeldFollowers(self._throttle, self._answer)
        self._throttle.connect(self._held.serve, self._on_throttle_changed)
        self._sessions: dict[BrokerId, FollowerSession] = {}
        self._watchers: dict[TopicPartition, dict[BrokerId, Followed]] = {}
        self._due: dict[FollowerSession, None] = {}
        """Sessions that are answered at the end of this turn."""
        self.sent_bytes = 0
        """Record bytes handed to followers since the start."""

    # -- requests --------------------------------------------------------------------------------

    def on_fetch(self, identity: bytes, fetch: FollowerFetch, now_ms: MonotonicMs) -> None:
        """Take the positions of a follower's request, and answer it in this turn or park it.

        It replaces a parked request, which then gets no answer of its own.
        """
        session = self._session_of(identity, fetch)
        if session is None:
            error = ErrorCode.fetch_session_id_not_found
            self._sender.send(identity, FetchAnswer(fetch.session, fetch.sequence, error, []))
            return
        session.way = identity
        session.broker_epoch = BrokerEpoch(fetch.broker_epoch)
        for position in fetch.partitions:
            followed = self._followed(session, position)
            self._take_position(
                followed,
                LeaderEpoch(position.leader_epoch),
                Offset(position.fetch_offset),
                LeaderEpoch(position.last_fetched_epoch),
                Offset(position.log_start_offset),
                position.max_bytes,
                now_ms,
            )
        for partition in fetch.forgotten:
            self._forget(session, partition)
        session.max_bytes = fetch.max_bytes
        session.max_wait_ms = fetch.max_wait_ms
        session.by_file = fetch.by_file and fetch.machine == self._machine
        self._park(session, now_ms)

    def on_compact_fetch(self, way: Way, message: bytes | memoryview, now_ms: MonotonicMs) -> None:
        """Take a request in the fixed layout, as `on_fetch` takes a full one.

        `way` is the identity of the follower, or its local connection, by which it is answered.
        Raises PeerError.
        """
        size_bytes = len(message)
        check_size(size_bytes, FETCH_HEAD, FETCH_ENTRY)
        _, follower, number, sequence = _unpack_head(message)
        session = self._sessions.get(follower)
        if (
            session is None
            or session.number != number
            or sequence != session.sequence + 1
            or (isinstance(way, bytes) and way != session.identity)
        ):
            self._sender.send_compact(way, [_pack_head(COMPACT_REFUSAL, number, sequence)])
            return
        session.sequence = sequence
        session.way = way
        by_handle = session.by_handle
        for at in range(_FETCH_HEAD_BYTES, size_bytes, _FETCH_ENTRY_BYTES):
            handle, leader_epoch, fetch_offset, last_epoch, log_start, max_bytes = _unpack_entry(
                message, at
            )
            followed = by_handle.get(handle)
            if followed is None or fetch_offset < 0 or log_start < 0 or max_bytes < 0:
                raise PeerError(f"malformed compact fetch: entry {handle} at {fetch_offset}")
            self._take_position(
                followed, leader_epoch, fetch_offset, last_epoch, log_start, max_bytes, now_ms
            )
        self._park(session, now_ms)

    def _park(self, session: FollowerSession, now_ms: MonotonicMs) -> None:
        session.heard_at_ms = now_ms
        session.parked_until_ms = now_ms + min(session.max_wait_ms, _PARKED_MAX_MS)
        if session.held:
            self._held.serve_waiting()
        if (session.ready or session.max_wait_ms <= 0) and session.parked_until_ms is not None:
            self._answer_soon(session)

    def _answer_soon(self, session: FollowerSession) -> None:
        is_first = not self._due
        self._due[session] = None
        if is_first:
            self._defer(self._answer_due)

    def _answer_due(self) -> None:
        while self._due:
            due, self._due = self._due, {}
            for session in due:
                if session.parked_until_ms is not None:
                    self._answer(session)

    # -- news ------------------------------------------------------------------------------------

    def on_news(self, partitions: Iterable[TopicPartition]) -> None:
        """Answer the followers that wait for these partitions, each once with all of them."""
        for partition in partitions:
            watchers = self._watchers.get(partition)
            if watchers is None:
                continue
            for followed in watchers.values():
                if followed.is_told or not followed.most_bytes:
                    continue  # the position that it is about to report decides, or its turn
                session = followed.session
                if self._throttle.is_active and self._is_held(followed):
                    continue
                session.ready[followed] = None
                if session.parked_until_ms is not None:
                    self._due[session] = None
        self._answer_due()

    def on_high_watermark_moved(self, partition: TopicPartition) -> None:
        """Send the high watermark with the next records, or after a while without any.

        A follower that lacks it would begin with an old one as a leader.
        """
        watchers = self._watchers.get(partition, {})
        for followed in watchers.values():
            followed.session.behind.add(followed)
        if self.has_readers and watchers:
            tell_at_once(watchers, self._actions.find_partition(partition), self._answer_soon)

    def on_log_start_moved(self, partition: TopicPartition) -> None:
        """Send the log start as the high watermark is sent."""
        self.on_high_watermark_moved(partition)

    def ask_for_positions(self, partition: TopicPartition, followers: Collection[BrokerId]) -> None:
        """Ask these followers to report their positions, even if they have every record.

        A report decides whether a follower may join the ISR; its last one may have been too early.
        """
        for follower, followed in list(self._watchers.get(partition, {}).items()):
            if follower in followers and not followed.is_told:
                session = followed.session
                session.ready[followed] = None
                if session.parked_until_ms is not None:
                    self._answer(session)

    def on_role_changed(self, partition: TopicPartition) -> None:
        """Answer the followers of a partition that is no longer led, or is led in another epoch."""
        for followed in self._watchers.get(partition, {}).values():
            self._held.let_go(followed)
            followed.most_bytes = max(1, followed.most_bytes)
        self.on_news((partition,))

    def _is_held(self, followed: Followed) -> bool:
        partition = self._actions.find_partition(followed.id)
        leader = None if partition is None else partition.leader
        return (
            leader is not None
            and leader.leader_epoch == followed.leader_epoch
            and self._held.hold(followed, leader)
        )

    def _on_throttle_changed(self) -> None:
        for session in list(self._sessions.values()):
            if session.held:
                self._held.recheck(session)

    def on_tick(self, now_ms: MonotonicMs) -> None:
        """Answer the requests whose wait is over; send high watermarks periodically."""
        for session in list(self._sessions.values()):
            if session.behind:
                session.tell_watermarks(now_ms)
            until_ms = session.parked_until_ms
            if until_ms is not None and (session.ready or until_ms <= now_ms):
                self._answer(session)
            elif now_ms - session.heard_at_ms > _FORGOTTEN_AFTER_MS:
                self._drop(session)

    def on_way_lost(self, way: Way) -> None:
        """A local connection is closed: requests that came by it get full answers."""
        for session in self._sessions.values():
            if session.way is way:
                session.way = session.identity

    # -- sessions and positions ------------------------------------------------------------------

    def _session_of(self, identity: bytes, fetch: FollowerFetch) -> FollowerSession | None:
        follower = BrokerId(fetch.broker)
        known = self._sessions.get(follower)
        if fetch.sequence == 0:
            if known is not None:
                self._drop(known)
            if len(self._sessions) >= _SESSIONS_MAX:
                return None
            session = FollowerSession(follower, identity, fetch.session)
            self._sessions[follower] = session
            return session
        if known is None or known.number != fetch.session:
            return None
        if known.identity != identity:
            return None  # it has connected again, so an answer may have been lost
        if fetch.sequence != known.sequence + 1:
            return None
        known.sequence = fetch.sequence
        return known

    def _followed(self, session: FollowerSession, position: FetchPosition) -> Followed:
        """The partition of a full position, which may be new in the session."""
        partition_id = TopicPartition(position.topic, position.partition)
        followed = session.partitions.get(partition_id)
        if followed is None:
            followed = session.partitions[partition_id] = Followed(session, partition_id)
            self._watchers.setdefault(partition_id, {})[session.follower] = followed
        if followed.handle != position.handle:
            session.by_handle.pop(followed.handle, None)
            followed.handle = position.handle
            session.by_handle[position.handle] = followed
        return followed

    def _take_position(
        self,
        followed: Followed,
        leader_epoch: LeaderEpoch,
        fetch_offset: Offset,
        last_fetched_epoch: LeaderEpoch,
        log_start_offset: Offset,
        max_bytes: int,
        now_ms: MonotonicMs,
    ) -> None:
        session = followed.session
        is_new_epoch = followed.leader_epoch != leader_epoch
        followed.leader_epoch = leader_epoch
        followed.fetch_offset = fetch_offset
        followed.last_fetched_epoch = last_fetched_epoch
        followed.is_told = False
        followed.asked_bytes = followed.most_bytes = max_bytes
        if followed.grant is not None:
            self._held.on_sent(followed, 0)
        if session.ready:
            session.ready.pop(followed, None)
        partition = self._actions.find_partition(followed.id)
        if followed.given_offset == fetch_offset and partition is not None:
            # It could not use the records: if they are damaged here, the next read finds it.
            partition.log.files.suspect(fetch_offset)
        followed.given_offset = -1
        if partition is None or leader_epoch > partition.leader_epoch:
            # The follower got the controller's update first: `on_role_changed` answers.
            session.behind.discard(followed)
            session.held.pop(followed, None)
            return
        leader = partition.leader
        if (
            leader is None
            or leader_epoch != partition.leader_epoch
            or session.follower not in leader.followers
        ):
            session.ready[followed] = None
            session.held.pop(followed, None)
            return
        if is_new_epoch:
            session.behind.add(followed)  # even if it has every record already
        log = partition.log
        if (
            last_fetched_epoch != log.epochs.latest or fetch_offset > log.log_end_offset
        ) and divergence(partition, last_fetched_epoch, fetch_offset) is not None:
            session.ready[followed] = None
            session.held.pop(followed, None)
            return
        moved, proposal = leader.on_follower_fetch(
            session.follower, fetch_offset, now_ms, session.broker_epoch
        )
        if moved:
            self._actions.on_high_watermark_moved(partition)
        if leader.on_follower_log_start(session.follower, log_start_offset):
            self._actions.on_follower_log_start_moved(partition.id)
        if proposal is not None:
            self._actions.propose_isr(partition, proposal)
        if max_bytes != NO_LIMIT and leader.may_be_in_sync(session.follower):
            followed.asked_bytes = followed.most_bytes = NO_LIMIT
        has_news = fetch_offset != log.log_end_offset or log_start_offset < log.log_start_offset
        if has_news and self._throttle.is_active and self._held.hold(followed, leader):
            return
        if session.held:
            session.held.pop(followed, None)
        # Without bytes, it wants to know in a new epoch whether it is in sync.
        is_behind = self.has_readers and not has_news and followed in session.behind
        if is_behind or (has_news if followed.most_bytes else is_new_epoch):
            session.ready[followed] = None

    # -- answers ---------------------------------------------------------------------------------

    def _answer(self, session: FollowerSession) -> None:
        session.parked_until_ms = None
        if not self._answer_compactly(session):
            self._answer_fully(session)

    def _answer_compactly(self, session: FollowerSession) -> bool:
        """Answer in the fixed layout, if all partitions that are ready are usual cases.

        Returns False otherwise; then nothing has changed.
        """
        budget = session.max_bytes
        message = [_pack_head(COMPACT_ANSWER, session.number, session.sequence)]
        frames: list[bytes | memoryview] = []
        given: list[tuple[Followed, int]] = []
        for followed in session.ready:
            if budget <= 0 or len(given) == ENTRIES_MAX:
                break  # the rest stays ready and goes first next time
            partition = self._actions.find_partition(followed.id)
            leader = None if partition is None else partition.leader
            if (
                partition is None
                or leader is None
                or leader.leader_epoch != followed.leader_epoch
                or session.follower not in leader.followers
            ):
                return False
            log = partition.log
            fetch_offset = followed.fetch_offset
            position, size_bytes = NO_RECORDS, 0
            if not followed.most_bytes and fetch_offset < log.log_start_offset:
                return False  # it must begin anew, which it may do while it is throttled
            if fetch_offset > log.log_end_offset or (
                followed.last_fetched_epoch != log.epochs.latest
                and divergence(partition, followed.last_fetched_epoch, fetch_offset) is not None
            ):
                return False
            try:
                if fetch_offset < log.log_end_offset and followed.most_bytes:
                    budget = budget if session.follower in leader.isr else min(budget, CHUNK_BYTES)
                    most_bytes = min(budget, self._partition_max_bytes, followed.most_bytes)
                    if session.by_file:
                        found = log.locate(fetch_offset, most_bytes)
                        if found is None or found.file is not followed.file:
                            return False
                        position, size_bytes = found.position, found.size_bytes
                    else:
                        records = read_batches(partition, fetch_offset, most_bytes)
                        if records is None:
                            return False
                        frames.append(records)
                        position, size_bytes = IN_NEXT_FRAME, len(records)
            except (Refused, StorageFailed):
                return False
            budget -= size_bytes
            message.append(
                _pack_entry(
                    followed.handle,
                    followed.leader_epoch,
                    leader.high_watermark,
                    log.log_start_offset,
                    position,
                    size_bytes,
                )
            )
            given.append((followed, size_bytes))
        for followed, size_bytes in given:
            del session.ready[followed]
            followed.is_told = True
            session.behind.discard(followed)
            if followed.grant is not None or self._throttle.is_active:
                self._held.on_sent(followed, size_bytes)
            if size_bytes:
                followed.given_offset = followed.fetch_offset
                self.sent_bytes += size_bytes
        way = session.identity if frames else session.way
        answer: list[bytes | memoryview] = [b"".join(message), *frames]
        if not self._sender.send_compact(way, answer) and (
            way == session.identity or not self._sender.send_compact(session.identity, answer)
        ):
            self._drop(session)  # the answer is lost: the follower must begin a new session
        return True

    def _answer_fully(self, session: FollowerSession) -> None:
        budget = session.max_bytes
        answers = []
        for followed in list(islice(session.ready, ENTRIES_MAX)):
            if budget <= 0:
                break  # the rest stays ready and goes first next time
            del session.ready[followed]
            followed.is_told = True
            partition = self._actions.find_partition(followed.id)
            if partition is None or not partition.has_in_sync(session.follower):
                budget = min(budget, CHUNK_BYTES)
            most_bytes = min(budget, self._partition_max_bytes, followed.most_bytes)
            fetched = full_answer(
                partition,
                followed,
                most_bytes,
                self._actions.note_failure,
            )
            if fetched.diverging is not None:
                session.behind.add(followed)  # it gets no high watermark before its log agrees
            elif fetched.error is ErrorCode.none:
                session.behind.discard(followed)
            size_bytes = fetched.size_bytes
            if size_bytes:
                followed.given_offset = followed.fetch_offset
                budget -= size_bytes
                self.sent_bytes += size_bytes
            if followed.grant is not None or self._throttle.is_active:
                self._held.on_sent(followed, size_bytes)
            answers.append(fetched)
        answer = FetchAnswer(session.number, session.sequence, ErrorCode.none, answers)
        if not self._sender.send(session.identity, answer):
            self._drop(session)  # the answer is lost: the follower must begin a new session

    # -- the end ---------------------------------------------------------------------------------

    def _forget(self, session: FollowerSession, partition_id: TopicPartition) -> None:
        followed = session.partitions.pop(partition_id, None)
        if followed is None:
            return
        session.by_handle.pop(followed.handle, None)
        self._held.let_go(followed)
        session.ready.pop(followed, None)
        session.behind.discard(followed)
        watchers = self._watchers.get(partition_id)
        if watchers is not None:
            watchers.pop(session.follower, None)
            if not watchers:
                del self._watchers[partition_id]

    def _drop(self, session: FollowerSession) -> None:
        for partition_id in list(session.partitions):
            self._forget(session, partition_id)
        self._due.pop(session, None)
        session.parked_until_ms = None
        self._throttle.leave(session)
        del self._sessions[session.follower]
