"""The follower's side: the next request to one leader, and the handling of its answer. No sockets.

One request per leader is in flight. Its answer is appended, and the next request acknowledges the
appended records. Only a change that must not wait for an answer, such as another partition to
follow, is sent at once: that request replaces the parked one.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Final, Protocol

from cluster.brokers.replication.divergence import start_over, truncate_diverging
from cluster.brokers.replication.following import Following, ThrottledFetches
from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.replica_throttle import ReplicaThrottle, no_throttle
from cluster.brokers.replication.segment_files import SegmentFiles
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import ErrorCode, PeerError, Refused, StorageFailed
from cluster.model.ids import BrokerId, Offset, TopicPartition
from cluster.protocol.peer.compact import (
    ANSWER_ENTRY,
    ANSWER_HEAD,
    COMPACT_FETCH,
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
    FetchedPartition,
    FetchPosition,
    FileSource,
    FollowerFetch,
)

log = logging.getLogger(__name__)

_ANSWER_GRACE_MS: Final = 2_000
"""An answer counts as lost this long after the leader should have ended the wait."""

_ANSWER_HEAD_BYTES: Final = ANSWER_HEAD.size
_ANSWER_ENTRY_BYTES: Final = ANSWER_ENTRY.size
_unpack_head: Final = ANSWER_HEAD.unpack_from
_unpack_entry: Final = ANSWER_ENTRY.unpack_from
_pack_head: Final = FETCH_HEAD.pack
_pack_entry: Final = FETCH_ENTRY.pack


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The settings of follower fetches (`replica.fetch.*`)."""

    local_id: BrokerId
    machine: str
    max_wait_ms: int
    max_bytes: int
    retry_ms: int
    """The pause of one partition after an error, and of all partitions after a lost answer."""
    by_file: bool
    broker_epoch: Callable[[], int] = lambda: -1
    """Returns the epoch of this broker's present registration."""


def _ignore(_partition: TopicPartition, _failure: StorageFailed) -> None:
    return


class RequestSender(Protocol):
    """The way to a leader."""

    def send(self, fetch: FollowerFetch) -> bool:
        """Send a full request; returns False if that is impossible."""
        ...

    def send_compact(self, message: bytes) -> bool:
        """Send a compact request by any way; returns False if that is impossible.

        Every request before it is answered, so none can be overtaken.
        """
        ...


class FollowerFetcher:
    """Fetches all partitions that this broker follows of one leader.

    Invariant: a partition is reported to the leader again whenever its fetch position, its leader
    epoch or the session changed, and only then.
    """

    def __init__(
        self,
        leader: BrokerId,
        options: FetchOptions,
        sender: RequestSender,
        reader: SegmentFiles,
        random: Random,
        on_high_watermark: Callable[[Partition], None],
        note_failure: Callable[[TopicPartition, StorageFailed], None] = _ignore,
        throttle: ReplicaThrottle[ThrottledFetches] | None = None,
    ) -> None:
        """`note_failure` is told of logs that cannot be written; `throttle` limits the fetches of
        all leaders together.
        """
        self.leader = leader
        self._options = options
        self._sender = sender
        self._reader = reader
        self._random = random
        self._on_high_watermark = on_high_watermark
        self._note_failure = note_failure
        self._following: dict[TopicPartition, Following] = {}
        self._by_handle: dict[int, Following] = {}
        self._next_handle = 0
        self._changed: dict[Following, None] = {}
        self.delayed: dict[TopicPartition, int] = {}
        self.lags: dict[TopicPartition, int] = {}
        """The lag in committed records of each replica that has one, as of its last fetch."""
        self._throttle = no_throttle() if throttle is None else throttle
        self.throttled = ThrottledFetches(leader, self._throttle, self._changed, self.lags)
        self._damaged_at: dict[TopicPartition, Offset] = {}
        """The damaged offsets of the leader's logs that were logged."""
        self._forgotten: dict[TopicPartition, None] = {}
        self._by_bytes: set[TopicPartition] = set()
        self._session = 0
        self._sequence = -1
        self._told_by_file = False
        """What the last full request said, and thus holds for the compact ones behind it."""
        self._told_broker_epoch = -1
        self._asked_at_ms: int | None = None
        self._has_news = False
        self._resume_at_ms = 0
        self._retry_at_ms: int | None = None
        self.received_bytes = 0
        """Record bytes taken from the leader."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is followed any more."""
        return not self._following

    @property
    def has_news(self) -> bool:
        """Whether changes must be sent at once, even before the leader has answered."""
        return self._has_news and self._sequence >= 0

    def take_retry_at_ms(self) -> int | None:
        """When to call `on_tick` for partitions that were delayed since the last call; None if none
        was.
        """
        retry_at_ms, self._retry_at_ms = self._retry_at_ms, None
        return retry_at_ms

    def partition(self, partition_id: TopicPartition) -> Partition:
        """Returns a partition that is followed here."""
        return self._following[partition_id].partition

    def follow(self, partition: Partition) -> None:
        """Start to replicate, or start again in a new leader epoch."""
        if partition.id in self._forgotten:
            self._sequence = -1  # an answer from before `unfollow` may be on its way
        following = self._following.get(partition.id)
        if following is None:
            following = self._following[partition.id] = Following(partition)
        following.partition = partition
        self.throttled.begin_again(following)
        self._changed[following] = None
        self._has_news = True
        self.delayed.pop(partition.id, None)

    def unfollow(self, partition_id: TopicPartition) -> None:
        """Stop to replicate; an answer on its way is ignored."""
        following = self._following.pop(partition_id, None)
        if following is not None:
            self._by_handle.pop(following.handle, None)
            self._changed.pop(following, None)
            self.throttled.forget(following)
            self.delayed.pop(partition_id, None)
            self.lags.pop(partition_id, None)
            self._damaged_at.pop(partition_id, None)
            self._forgotten[partition_id] = None

    def on_tick(self, now_ms: MonotonicMs) -> None:
        """Send a request if none is in flight; give up on an answer that is long overdue."""
        for partition_id, until_ms in list(self.delayed.items()):
            if until_ms <= now_ms:
                if self._waits_for_room(partition_id):
                    self.delayed[partition_id] = self._put_off(now_ms + self._options.retry_ms)
                    continue
                del self.delayed[partition_id]
                self._changed[self._following[partition_id]] = None
                self._has_news = True
        overdue_ms = self._options.max_wait_ms + _ANSWER_GRACE_MS
        if self._asked_at_ms is not None and now_ms - self._asked_at_ms > overdue_ms:
            log.warning("no answer from leader %d for %d ms; asking again", self.leader, overdue_ms)
            self._asked_at_ms = None
            self._sequence = -1
        if now_ms >= self._resume_at_ms:
            self.ask(now_ms)

    def on_throttle_changed(self, now_ms: MonotonicMs) -> None:
        """Ask for the partitions that are not throttled any more."""
        self.throttled.recheck()
        self.on_turn(now_ms)

    def on_turn(self, now_ms: MonotonicMs) -> None:
        """Ask for the throttled partitions that may be fetched now."""
        self.throttled.release()
        if self._changed and now_ms >= self._resume_at_ms:
            self._has_news = True
            self.ask(now_ms)

    def on_way_lost(self, now_ms: MonotonicMs) -> None:
        """The local connection is closed, and with it what was on its way: begin a new session."""
        self._asked_at_ms = None
        self._sequence = -1
        if now_ms >= self._resume_at_ms:
            self.ask(now_ms)

    # -- requests --------------------------------------------------------------------------------

    def ask(self, now_ms: MonotonicMs) -> None:
        """Send the next request, unless the one in flight says everything already."""
        if not self._following or (self._asked_at_ms is not None and not self._has_news):
            return
        if self._sequence < 0:
            self._begin_session()
        else:
            self._sequence += 1
        if self._throttle.is_active or self.throttled.held:
            self.throttled.sort_out()
        told = list(islice(self._changed, ENTRIES_MAX))
        is_full = (
            self._sequence == 0
            or self._asked_at_ms is not None  # it must not overtake the request before it
            or self._needs_full_request(told)
        )
        sent = self._send_full(told) if is_full else self._send_compact(told)
        for following in told:
            following.is_new = False
            del self._changed[following]
        self._has_news = bool(self._changed or self._forgotten)
        if sent:
            self._asked_at_ms = now_ms
        else:
            self._sequence = -1
            self._resume_at_ms = self._put_off(now_ms + self._options.retry_ms)

    def _needs_full_request(self, told: list[Following]) -> bool:
        """Whether the leader must learn more than new positions."""
        if self._forgotten or self._by_bytes or self._told_by_file != self._options.by_file:
            return True
        for following in told:
            if following.handle < 0:
                return True
        return self._told_broker_epoch != self._options.broker_epoch()

    def _send_compact(self, told: list[Following]) -> bool:
        options = self._options
        message = [_pack_head(COMPACT_FETCH, options.local_id, self._session, self._sequence)]
        for following in told:
            partition = following.partition
            log = partition.log
            message.append(
                _pack_entry(
                    following.handle,
                    partition.leader_epoch,
                    log.log_end_offset,
                    log.epochs.latest,
                    log.log_start_offset,
                    following.most_bytes,
                )
            )
        return self._sender.send_compact(b"".join(message))

    def _send_full(self, told: list[Following]) -> bool:
        options = self._options
        gone = list(islice(self._forgotten, ENTRIES_MAX))
        forgotten = [p for p in gone if p not in self._following]
        self._told_by_file = options.by_file and not self._by_bytes
        self._told_broker_epoch = options.broker_epoch()
        for partition_id in gone:
            del self._forgotten[partition_id]
        return self._sender.send(
            FollowerFetch(
                options.local_id,
                options.machine,
                self._session,
                self._sequence,
                [self._position(following) for following in told],
                forgotten,
                options.max_wait_ms,
                options.max_bytes,
                self._told_by_file,
                self._told_broker_epoch,
            )
        )

    def _position(self, following: Following) -> FetchPosition:
        partition = following.partition
        if following.handle < 0:
            following.handle = self._next_handle
            self._next_handle += 1
            self._by_handle[following.handle] = following
        return FetchPosition(
            partition.id.topic,
            partition.id.partition,
            partition.leader_epoch,
            partition.log.log_end_offset,
            partition.log.epochs.latest,
            partition.log.log_start_offset,
            following.handle,
            following.most_bytes,
        )

    def _begin_session(self) -> None:
        self._session = self._random.randrange(1, 2**31)
        self._sequence = 0
        self._changed.clear()
        self._by_handle.clear()
        self._next_handle = 0
        for partition_id, following in self._following.items():
            following.handle = -1
            self.throttled.begin_again(following)
            if partition_id not in self.delayed:
                self._changed[following] = None
        self._forgotten.clear()

    # -- answers ---------------------------------------------------------------------------------

    def on_answer(self, answer: FetchAnswer, now_ms: MonotonicMs, wall_ms: WallMs) -> None:
        """Append the records of an answer, and ask for more."""
        if answer.session != self._session or answer.sequence > self._sequence:
            return  # the answer to a request that was given up
        if answer.error is not ErrorCode.none:
            self._begin_again_later(now_ms)
            return
        self._note_answered(answer.sequence, has_entries=bool(answer.partitions))
        self._by_bytes.clear()
        for fetched in answer.partitions:
            self._on_partition(fetched, now_ms, wall_ms)
        self.ask(now_ms)

    def on_compact_answer(
        self,
        message: bytes | memoryview,
        frames: Sequence[bytes],
        now_ms: MonotonicMs,
        wall_ms: WallMs,
    ) -> None:
        """Append the records of an answer in the fixed layout, and ask for more.

        `frames` are the records that are sent themselves. Raises PeerError.
        """
        size_bytes = len(message)
        check_size(size_bytes, ANSWER_HEAD, ANSWER_ENTRY)
        kind, session, sequence = _unpack_head(message)
        if session != self._session or sequence > self._sequence:
            return  # the answer to a request that was given up
        if kind == COMPACT_REFUSAL:
            self._begin_again_later(now_ms)
            return
        self._note_answered(sequence, has_entries=size_bytes > _ANSWER_HEAD_BYTES)
        if self._by_bytes:
            self._by_bytes.clear()
        frame = 0
        for at in range(_ANSWER_HEAD_BYTES, size_bytes, _ANSWER_ENTRY_BYTES):
            handle, epoch, high_watermark, log_start, position, count = _unpack_entry(message, at)
            if not -1 <= log_start <= high_watermark or position < IN_NEXT_FRAME or count < 0:
                raise PeerError(f"malformed compact answer: entry {handle} at {position}")
            records = None
            if position == IN_NEXT_FRAME:
                if frame == len(frames) or len(frames[frame]) != count:
                    raise PeerError(f"malformed compact answer: no frame of {count} bytes")
                records = memoryview(frames[frame])
                frame += 1
            following = self._by_handle.get(handle)
            if following is None or following.partition.leader_epoch != epoch:
                continue  # not followed any more, or `follow` has put it on the next request
            if following.grant is not None or self._throttle.is_active:
                self.throttled.on_answered(following, 0 if position == NO_RECORDS else count)
            partition = following.partition
            try:
                if position != NO_RECORDS:
                    if records is None:
                        records = self._reader.read(
                            following.path, following.inode, position, count
                        )
                    if records is None:
                        self._by_bytes.add(following.id)  # the segment was deleted
                    else:
                        self.received_bytes += count
                        partition.log.append_as_follower(records, wall_ms)
                self._learn_offsets(partition, high_watermark, log_start)
            except (Refused, StorageFailed) as problem:
                self._on_failure(partition, problem, now_ms)
                continue
            self._changed[following] = None
            if self._damaged_at:
                self._damaged_at.pop(following.id, None)
        self.ask(now_ms)

    def on_malformed_answer(self, now_ms: MonotonicMs) -> None:
        """Ignore an answer, and begin a new session after a pause."""
        self._begin_again_later(now_ms)

    def _note_answered(self, sequence: int, *, has_entries: bool) -> None:
        if sequence == self._sequence:
            self._asked_at_ms = None
        elif has_entries:
            self._has_news = True  # the next request was sent before this answer came

    def _begin_again_later(self, now_ms: MonotonicMs) -> None:
        self._asked_at_ms = None
        self._sequence = -1
        self._resume_at_ms = self._put_off(now_ms + self._options.retry_ms)

    def _put_off(self, until_ms: int) -> int:
        if self._retry_at_ms is None or until_ms < self._retry_at_ms:
            self._retry_at_ms = until_ms
        return until_ms

    def _on_partition(
        self, fetched: FetchedPartition, now_ms: MonotonicMs, wall_ms: WallMs
    ) -> None:
        following = self._following.get(TopicPartition(fetched.topic, fetched.partition))
        if following is None:
            return  # not followed any more
        records = fetched.records
        if isinstance(records, FileSource):
            # Compact answers refer to it, even if this one is ignored.
            following.path, following.inode = records.path, records.inode
        partition = following.partition
        if fetched.leader_epoch != partition.leader_epoch:
            return  # `follow` has put it on the next request already
        if following.grant is not None or self._throttle.is_active:
            self.throttled.on_answered(following, fetched.size_bytes)
        try:
            if fetched.error is ErrorCode.offset_out_of_range:
                start_over(partition, fetched.log_start_offset, fetched.high_watermark)
                self._on_high_watermark(partition)
            elif fetched.error is not ErrorCode.none:
                raise Refused(fetched.error)
            elif fetched.diverging is not None:
                truncate_diverging(partition, self.leader, *fetched.diverging)
                self._on_high_watermark(partition)
            else:
                self._append(partition, fetched, wall_ms)
            if fetched.diverging is None:  # otherwise the rest may still differ in an older epoch
                self._learn_offsets(partition, fetched.high_watermark, fetched.log_start_offset)
        except (Refused, StorageFailed) as problem:
            self._on_failure(partition, problem, now_ms)
            return
        self._changed[following] = None
        if self._damaged_at:
            self._damaged_at.pop(following.id, None)

    def _on_failure(
        self, partition: Partition, problem: Refused | StorageFailed, now_ms: MonotonicMs
    ) -> None:
        """Fetch the partition again after a pause."""
        partition_id = partition.id
        if isinstance(problem, Refused):
            self.delayed[partition_id] = self._put_off(now_ms + self._options.retry_ms)
            self._tell(partition, problem)
        elif self._waits_for_room(partition_id):
            # Logged once for the whole directory.
            self.delayed[partition_id] = self._put_off(now_ms + self._options.retry_ms)
        else:
            self.delayed[partition_id] = self._put_off(now_ms + 10 * self._options.retry_ms)
            log.error("%s: cannot replicate: %s", partition_id, problem)
            self._note_failure(partition_id, problem)

    def _tell(self, partition: Partition, refused: Refused) -> None:
        """Log why a partition is not replicated; damage is logged once for each offset."""
        if refused.code is not ErrorCode.corrupt_message:
            log.info("%s: leader %d answered %s", partition.id, self.leader, refused)
            return
        offset = partition.log.log_end_offset
        if self._damaged_at.get(partition.id) != offset:
            self._damaged_at[partition.id] = offset
            log.error(
                "%s: cannot replicate from offset %d on, what leader %d has there is damaged: %s",
                partition.id,
                offset,
                self.leader,
                refused,
            )

    def _waits_for_room(self, partition_id: TopicPartition) -> bool:
        following = self._following.get(partition_id)
        room = None if following is None else following.partition.log.room
        return room is not None and room.is_used_up

    def _append(self, partition: Partition, fetched: FetchedPartition, wall_ms: WallMs) -> None:
        records = fetched.records
        if records is None:
            return
        if isinstance(records, FileSource):
            size_bytes = records.size_bytes
            read = self._reader.read(records.path, records.inode, records.position, size_bytes)
            if read is None:
                # The segment was deleted: ask for the bytes themselves.
                self._by_bytes.add(partition.id)
                return
        else:
            size_bytes, read = len(records), memoryview(records)
        self.received_bytes += size_bytes
        partition.log.append_as_follower(read, wall_ms)

    def _learn_offsets(
        self, partition: Partition, high_watermark: int, log_start_offset: int
    ) -> None:
        """Take the high watermark before the log start, which never passes it.

        Raises StorageFailed.
        """
        log = partition.log
        lag = high_watermark - log.log_end_offset
        if lag > 0:
            self.lags[partition.id] = lag
        elif self.lags:
            self.lags.pop(partition.id, None)
        if partition.learn_high_watermark(Offset(high_watermark)):
            self._on_high_watermark(partition)
        if log_start_offset > log.log_start_offset:
            log.advance_log_start_offset(Offset(log_start_offset))
            self._on_high_watermark(partition)  # its readers are told of both offsets
