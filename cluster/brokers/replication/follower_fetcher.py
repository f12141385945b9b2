"""The follower's side: the next request to one leader, and the handling of its answer. No sockets.

One request per leader is in flight. Its answer is appended, and the next request acknowledges the
appended records. Only a change that must not wait for an answer, such as another partition to
follow, is sent at once: that request replaces the parked one.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Final

from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.segment_files import SegmentFiles
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
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
_PARTITIONS_PER_REQUEST: Final = 100
"""The rest goes into the next request, so that neither side is busy with one for long."""


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


class FollowerFetcher:
    """Fetches all partitions that this broker follows of one leader.

    Invariant: a partition is reported to the leader again whenever its fetch position, its leader
    epoch or the session changed, and only then.
    """

    def __init__(
        self,
        leader: BrokerId,
        options: FetchOptions,
        send: Callable[[FollowerFetch], bool],
        reader: SegmentFiles,
        random: Random,
        on_high_watermark: Callable[[Partition], None],
        note_failure: Callable[[TopicPartition, StorageFailed], None] = _ignore,
    ) -> None:
        """`note_failure` is told of logs that cannot be written."""
        self.leader = leader
        self._options = options
        self._send = send
        self._reader = reader
        self._random = random
        self._on_high_watermark = on_high_watermark
        self._note_failure = note_failure
        self._partitions: dict[TopicPartition, Partition] = {}
        self._changed: dict[TopicPartition, None] = {}
        self.delayed: dict[TopicPartition, int] = {}
        self.lags: dict[TopicPartition, int] = {}
        """The lag in committed records of each replica that has one, as of its last fetch."""
        self._damaged_at: dict[TopicPartition, Offset] = {}
        """The damaged offsets of the leader's logs that were logged."""
        self._forgotten: dict[TopicPartition, None] = {}
        self._by_bytes: set[TopicPartition] = set()
        self._session = 0
        self._sequence = -1
        self._asked_at_ms: int | None = None
        self._has_news = False
        self._resume_at_ms = 0
        self._retry_at_ms: int | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is followed any more."""
        return not self._partitions

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
        return self._partitions[partition_id]

    def follow(self, partition: Partition) -> None:
        """Start to replicate, or start again in a new leader epoch."""
        if partition.id in self._forgotten:
            self._sequence = -1  # an answer from before `unfollow` may be on its way
        self._partitions[partition.id] = partition
        self._changed[partition.id] = None
        self._has_news = True
        self.delayed.pop(partition.id, None)

    def unfollow(self, partition_id: TopicPartition) -> None:
        """Stop to replicate; an answer on its way is ignored."""
        if self._partitions.pop(partition_id, None) is not None:
            self._changed.pop(partition_id, None)
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
                self._changed[partition_id] = None
                self._has_news = True
        overdue_ms = self._options.max_wait_ms + _ANSWER_GRACE_MS
        if self._asked_at_ms is not None and now_ms - self._asked_at_ms > overdue_ms:
            log.warning("no answer from leader %d for %d ms; asking again", self.leader, overdue_ms)
            self._asked_at_ms = None
            self._sequence = -1
        if now_ms >= self._resume_at_ms:
            self.ask(now_ms)

    def ask(self, now_ms: MonotonicMs) -> None:
        """Send the next request, unless the one in flight says everything already."""
        if not self._partitions or (self._asked_at_ms is not None and not self._has_news):
            return
        if self._sequence < 0:
            self._begin_session()
        else:
            self._sequence += 1
        told = list(islice(self._changed, _PARTITIONS_PER_REQUEST))
        positions = [
            self._position(self._partitions[partition_id])
            for partition_id in told
            if partition_id in self._partitions
        ]
        gone = list(islice(self._forgotten, _PARTITIONS_PER_REQUEST))
        forgotten = [p for p in gone if p not in self._partitions]
        sent = self._send(
            FollowerFetch(
                self._options.local_id,
                self._options.machine,
                self._session,
                self._sequence,
                positions,
                forgotten,
                self._options.max_wait_ms,
                self._options.max_bytes,
                self._options.by_file and not self._by_bytes,
                self._options.broker_epoch(),
            )
        )
        for partition_id in told:
            del self._changed[partition_id]
        for partition_id in gone:
            del self._forgotten[partition_id]
        self._has_news = bool(self._changed or self._forgotten)
        if sent:
            self._asked_at_ms = now_ms
        else:
            self._sequence = -1
            self._resume_at_ms = self._put_off(now_ms + self._options.retry_ms)

    def on_answer(self, answer: FetchAnswer, now_ms: MonotonicMs, wall_ms: WallMs) -> None:
        """Append the records of an answer, and ask for more."""
        if answer.session != self._session or answer.sequence > self._sequence:
            return  # the answer to a request that was given up
        if answer.error is not ErrorCode.none:
            self._begin_again_later(now_ms)
            return
        if answer.sequence == self._sequence:
            self._asked_at_ms = None
        elif answer.partitions:
            self._has_news = True  # the next request was sent before this answer came
        self._by_bytes.clear()
        for fetched in answer.partitions:
            self._on_partition(fetched, now_ms, wall_ms)
        self.ask(now_ms)

    def on_malformed_answer(self, now_ms: MonotonicMs) -> None:
        """Ignore an answer, and begin a new session after a pause."""
        self._begin_again_later(now_ms)

    def _begin_again_later(self, now_ms: MonotonicMs) -> None:
        self._asked_at_ms = None
        self._sequence = -1
        self._resume_at_ms = self._put_off(now_ms + self._options.retry_ms)

    def _put_off(self, until_ms: int) -> int:
        if self._retry_at_ms is None or until_ms < self._retry_at_ms:
            self._retry_at_ms = until_ms
        return until_ms

    def _begin_session(self) -> None:
        self._session = self._random.randrange(1, 2**31)
        self._sequence = 0
        self._changed = dict.fromkeys(p for p in self._partitions if p not in self.delayed)
        self._forgotten.clear()

    def _position(self, partition: Partition) -> FetchPosition:
        return FetchPosition(
            partition.id.topic,
            partition.id.partition,
            partition.leader_epoch,
            partition.log.log_end_offset,
            partition.log.epochs.latest,
            partition.log.log_start_offset,
        )

    def _on_partition(
        self, fetched: FetchedPartition, now_ms: MonotonicMs, wall_ms: WallMs
    ) -> None:
        partition_id = TopicPartition(fetched.topic, fetched.partition)
        partition = self._partitions.get(partition_id)
        if partition is None or fetched.leader_epoch != partition.leader_epoch:
            return  # not followed any more, or `follow` has put it on the next request already
        try:
            if fetched.error is ErrorCode.offset_out_of_range:
                self._on_out_of_range(partition, fetched)
            elif fetched.error is not ErrorCode.none:
                raise Refused(fetched.error)
            elif fetched.diverging is not None:
                self._truncate(partition, *fetched.diverging)
            else:
                self._append(partition, fetched, wall_ms)
            if fetched.diverging is None:  # otherwise the rest may still differ in an older epoch
                self._learn_offsets(partition, fetched)
        except Refused as refused:
            self.delayed[partition_id] = self._put_off(now_ms + self._options.retry_ms)
            self._tell(partition, refused)
            return
        except StorageFailed as failure:
            if self._waits_for_room(partition_id):
                # Logged once for the whole directory.
                self.delayed[partition_id] = self._put_off(now_ms + self._options.retry_ms)
                return
            self.delayed[partition_id] = self._put_off(now_ms + 10 * self._options.retry_ms)
            log.error("%s: cannot replicate: %s", partition_id, failure)  # noqa: TRY400 - one line
            self._note_failure(partition_id, failure)
            return
        self._changed[partition_id] = None
        if self._damaged_at:
            self._damaged_at.pop(partition_id, None)

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
        partition = self._partitions.get(partition_id)
        room = None if partition is None else partition.log.room
        return room is not None and room.is_used_up

    def _append(self, partition: Partition, fetched: FetchedPartition, wall_ms: WallMs) -> None:
        records = fetched.records
        if isinstance(records, FileSource):
            read = self._reader.read(records)
            if read is None:
                self._by_bytes.add(
                    partition.id
                )  # the segment was deleted: ask for the bytes themselves
                return
            partition.log.append_as_follower(read, wall_ms)
        elif records is not None:
            partition.log.append_as_follower(memoryview(records), wall_ms)

    def _learn_offsets(self, partition: Partition, fetched: FetchedPartition) -> None:
        """Take the high watermark before the log start, which never passes it.

        Raises StorageFailed.
        """
        lag = fetched.high_watermark - partition.log.log_end_offset
        if lag > 0:
            self.lags[partition.id] = lag
        elif self.lags:
            self.lags.pop(partition.id, None)
        if partition.learn_high_watermark(Offset(fetched.high_watermark)):
            self._on_high_watermark(partition)
        partition.log.advance_log_start_offset(Offset(fetched.log_start_offset))

    def _truncate(self, partition: Partition, epoch: int, end_offset: int) -> None:
        """Truncate to where both logs agree, or to where the next older epoch is compared."""
        _, own_end = partition.log.epochs.end_offset(
            LeaderEpoch(epoch), partition.log.log_end_offset
        )
        offset = Offset(max(min(own_end, end_offset), partition.log.log_start_offset))
        if own_end < 0:
            offset = partition.log.log_start_offset
        log.info(
            "%s: truncating from %d to %d (leader %d has epoch %d up to %d)",
            partition.id,
            partition.log.log_end_offset,
            offset,
            self.leader,
            epoch,
            end_offset,
        )
        if offset < partition.high_watermark:
            log.error(
                "%s: committed records from %d to %d are lost: leader %d was elected without them"
                " (an unclean election)",
                partition.id,
                offset,
                partition.high_watermark,
                self.leader,
            )
        before = (partition.log.log_end_offset, partition.log.epochs.latest)
        partition.truncate_to(offset)
        if (partition.log.log_end_offset, partition.log.epochs.latest) == before:
            # Asking at once would get the same answer: pause instead of spinning.
            raise Refused(ErrorCode.unknown_leader_epoch, "there was nothing to truncate")

    def _on_out_of_range(self, partition: Partition, fetched: FetchedPartition) -> None:
        own = partition.log
        is_beyond = own.log_start_offset == own.log_end_offset > fetched.high_watermark
        # An empty log beyond the leader's: the checkpoint of its start was wrong.
        if own.log_end_offset < fetched.log_start_offset or is_beyond:
            log.info(
                "%s: starting over at %d, where the leader's log begins",
                partition.id,
                fetched.log_start_offset,
            )
            partition.start_over_at(Offset(fetched.log_start_offset))
        else:
            raise Refused(ErrorCode.offset_out_of_range)
