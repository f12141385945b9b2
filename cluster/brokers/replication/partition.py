"""One replica on this broker: its log, its role, and what may be read from it."""

import uuid
from collections.abc import Container
from typing import Final

from cluster.brokers.replication.leader_replica import LeaderReplica
from cluster.log.partition_log import Appended, PartitionLog
from cluster.log.producer_state import Verification
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import (
    NO_BROKER,
    NO_EPOCH,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from cluster.model.topics import INTERNAL_TOPICS
from cluster.records.checked_batch import Produced
from cluster.records.markers import EndMarker
from cluster.records.produced import validate_produced

ACKS_ALL: Final = -1
HIGH_WATERMARK: Final = -1
"""Stands for the high watermark as the offset up to which records are deleted."""


class AppendCounts:
    """What was appended to a led partition since the last `take`; bytes as they were sent."""

    __slots__ = ("batches", "records", "size_bytes")

    def __init__(self, batches: int = 0, records: int = 0, size_bytes: int = 0) -> None:
        self.batches = batches
        self.records = records
        self.size_bytes = size_bytes

    def take(self) -> tuple[int, int, int]:
        """Batches, records and bytes; begins again at zero."""
        taken = self.batches, self.records, self.size_bytes
        self.batches = self.records = self.size_bytes = 0
        return taken


class Partition:
    """Owned by the broker's thread. Role changes come from the controller only, by leader epoch.

    Invariant: `leader` is set exactly while this broker leads the partition.
    Invariant: consumers read below the high watermark only.
    """

    def __init__(
        self,
        partition: TopicPartition,
        topic_id: uuid.UUID,
        log: PartitionLog,
        high_watermark: Offset,
        local_id: BrokerId,
        min_insync_replicas: int,
    ) -> None:
        self.id = partition
        self.topic_id = topic_id
        self.log = log
        self.leader: LeaderReplica | None = None
        self.leader_id: BrokerId = NO_BROKER
        self.leader_epoch: LeaderEpoch = NO_EPOCH
        self.led_since: LeaderEpoch = NO_EPOCH
        """The first epoch of this broker's present leadership: others may follow, one by one,
        without any other leader in between."""
        self.counts = AppendCounts()
        self.min_insync_replicas = min_insync_replicas
        """Changed by `require` only."""
        self.is_offline = False
        """Whether its log directory has failed: for requests that wait for this replica."""
        self._local_id = local_id
        self._may_use_reserve = partition.topic in INTERNAL_TOPICS
        """The state of coordinators is few bytes, and consumers need it while producers are
        refused."""
        self._high_watermark = max(min(high_watermark, log.log_end_offset), log.log_start_offset)
        self._last_stable_seen = Offset(-1)

    @property
    def high_watermark(self) -> Offset:
        """Exclusive end of what every in-sync replica has."""
        return self._high_watermark if self.leader is None else self.leader.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """Exclusive end of what readers with `read_committed` may read: the high watermark, or the
        offset before it at which the oldest transaction without an outcome begins.
        """
        return self.log.transactions.stable_offset(self.high_watermark, self.log.log_start_offset)

    def take_last_stable_move(self) -> bool:
        """Whether the last stable offset has moved since the last call."""
        before, self._last_stable_seen = self._last_stable_seen, self.last_stable_offset
        return self._last_stable_seen != before

    # -- role --------------------------------------------------------------------------------

    def become(self, state: PartitionState, now_ms: MonotonicMs) -> bool:
        """Adopt the role that the controller's state gives this broker; returns whether it changed.

        A state with an older leader epoch is stale and changes nothing. The same epoch may carry a
        new ISR and other replicas. Raises StorageFailed; then nothing has changed.
        """
        if state.leader_epoch < self.leader_epoch:
            return False
        if state.leader_epoch == self.leader_epoch and state.leader == self.leader_id:
            if self.leader is not None:
                self.leader.on_state_committed(state, now_ms)
            return False
        if state.leader == self._local_id:
            self.log.epochs.announce(state.leader_epoch, self.log.log_end_offset)
            if self.leader is None or state.leader_epoch != self.leader_epoch + 1:
                self.led_since = state.leader_epoch
        self._high_watermark = self.high_watermark
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        if state.leader == self._local_id:
            self.leader = LeaderReplica(
                self._local_id,
                state.leader_epoch,
                state.replicas,
                state.isr,
                state.partition_epoch,
                self.log.log_end_offset,
                self._high_watermark,
                now_ms,
                self.min_insync_replicas,
                state.eligible,
                len(state.adding),
                is_reassigning=state.is_reassigning,
            )
        else:
            self.leader = None
        return True

    def require(self, min_insync_replicas: int) -> None:
        """`min.insync.replicas` has changed."""
        self.min_insync_replicas = min_insync_replicas
        if self.leader is not None:
            self.leader.require(min_insync_replicas)

    def resign(self) -> None:
        """Stop leading and following until the controller's next update: the session is lost, or
        the replica is deleted.
        """
        self._high_watermark = self.high_watermark
        self.leader = None
        self.leader_id = NO_BROKER

    # -- leader ------------------------------------------------------------------------------

    def check_leader(self, current_leader_epoch: int = -1) -> LeaderReplica:
        """The leader state, if this broker leads in the client's epoch (KIP-320; -1: any).

        Raises Refused(not_leader_or_follower / fenced_leader_epoch / unknown_leader_epoch).
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise Refused(
                ErrorCode.fenced_leader_epoch
                if current_leader_epoch < self.leader_epoch
                else ErrorCode.unknown_leader_epoch
            )
        if self.leader is None:
            raise Refused(
                ErrorCode.not_leader_or_follower, f"the leader of {self.id} is {self.leader_id}"
            )
        return self.leader

    def check_follower(self, current_leader_epoch: int = -1) -> None:
        """Let a consumer read from this follower (KIP-392), if it is one of a leader that it knows.

        Raises what `check_leader` raises.
        """
        if self.leader_id == NO_BROKER or 0 <= current_leader_epoch != self.leader_epoch:
            self.check_leader(current_leader_epoch)

    def has_in_sync(self, follower: BrokerId) -> bool:
        """Whether this broker leads, and the follower is in the ISR."""
        return self.leader is not None and follower in self.leader.isr

    def append(
        self,
        records: memoryview,
        acks: int,
        wall_ms: WallMs,
        now_ms: MonotonicMs,
        *,
        at_once: bool = True,
        produced: Produced | None = None,
        verification: Verification | None = None,
    ) -> Appended:
        """Append one batch, which is checked unless it is `produced` already.

        `verification` is that of a transactional batch which had to be verified first. Raises
        Refused, StorageFailed or, without `at_once`, IsLong (`validate_produced`); then nothing is
        written.

        The batch is in the log, however, if only the sync that `flush.messages` demands has failed.
        A full log directory refuses batches even if its segment has space.
        """
        leader = self.leader
        if leader is None:
            leader = self.check_leader()
        if acks == ACKS_ALL and len(leader.isr) < self.min_insync_replicas:
            self._check_in_sync(leader)
        log = self.log
        room = log.room
        if room is not None and room.is_full and (room.is_used_up or not self._may_use_reserve):
            raise room.failure()
        if produced is None:
            produced = validate_produced(records, log.limits, wall_ms, at_once=at_once)
        appended = log.append(produced, self.leader_epoch, wall_ms, verification)
        if not appended.is_duplicate:
            leader.on_appended(log.log_end_offset, now_ms)
            counts = self.counts
            counts.batches += 1
            counts.records += appended.last_offset - appended.base_offset + 1
            counts.size_bytes += len(records)
        if log.log_end_offset >= log.durability.flush_at:
            log.flush()
        return appended

    def append_marker(self, marker: EndMarker, wall_ms: WallMs, now_ms: MonotonicMs) -> Appended:
        """Append the end of a transaction.

        Raises Refused and StorageFailed as `append` with acks=all; a full log directory takes
        markers, which are small and free what waits for the transaction.
        """
        leader = self.check_leader()
        self._check_in_sync(leader)
        log = self.log
        if log.room is not None and log.room.is_used_up:
            raise log.room.failure()
        appended = log.append_marker(marker, self.leader_epoch, wall_ms)
        leader.on_appended(log.log_end_offset, now_ms)
        log.transactions.settle(leader.high_watermark)
        if log.log_end_offset >= log.durability.flush_at:
            log.flush()
        return appended

    def _check_in_sync(self, leader: LeaderReplica) -> None:
        if len(leader.isr) < self.min_insync_replicas:
            raise Refused(
                ErrorCode.not_enough_replicas,
                f"{len(leader.isr)} in-sync replicas of {self.id}, {self.min_insync_replicas}"
                " are needed (min.insync.replicas)",
            )

    def produce_outcome(
        self, required_offset: Offset, leader_epoch: LeaderEpoch
    ) -> ErrorCode | None:
        """The outcome of an acks=all produce up to `required_offset`, appended in that epoch; None:
        still waiting.
        """
        leader = self.leader
        if leader is None or leader_epoch < self.led_since:
            if self.is_offline:
                return ErrorCode.kafka_storage_error
            return ErrorCode.not_leader_or_follower
        if leader.high_watermark >= required_offset:
            if len(leader.isr) < self.min_insync_replicas:
                return ErrorCode.not_enough_replicas_after_append
            return ErrorCode.none
        if len(leader.isr) < self.min_insync_replicas and leader.has_all_in_sync(required_offset):
            return ErrorCode.not_enough_replicas_after_append  # more than those cannot have it
        return None

    def delete_records(self, offset: int) -> Offset:
        """Move the log start to an offset, -1 for the high watermark; returns that offset.

        As Kafka's `Partition.deleteRecordsOnLeader`. Raises Refused(not_leader_or_follower,
        policy_violation where `cleanup.policy` lacks `delete`, offset_out_of_range above the high
        watermark) and StorageFailed.
        """
        leader = self.check_leader()
        if not self.log.options.is_deleted:
            raise Refused(
                ErrorCode.policy_violation,
                f"records of {self.id} cannot be deleted: its cleanup.policy lacks delete",
            )
        wanted = leader.high_watermark if offset == HIGH_WATERMARK else Offset(offset)
        if not 0 <= wanted <= leader.high_watermark:
            raise Refused(
                ErrorCode.offset_out_of_range,
                f"{wanted} is not in [0, {leader.high_watermark}], up to the high watermark",
            )
        self.log.advance_log_start_offset(wanted)
        return wanted

    def low_watermark(self, live: Container[BrokerId]) -> Offset:
        """The smallest log start offset of the live replicas; of ours where we do not lead."""
        if self.leader is None:
            return self.log.log_start_offset
        return self.leader.low_watermark(self.log.log_start_offset, live)

    # -- follower ----------------------------------------------------------------------------

    def learn_high_watermark(self, leader_high_watermark: Offset) -> bool:
        """The leader's high watermark, as far as our log goes; whether ours moved."""
        new = min(leader_high_watermark, self.log.log_end_offset)
        if self.leader is None and new > self._high_watermark:
            self._high_watermark = new
            transactions = self.log.transactions
            if transactions.undecided:
                transactions.settle(new)
            return True
        return False

    def truncate_to(self, offset: Offset) -> None:
        """Cut what the leader does not have; the high watermark falls with it, if it must."""
        self.log.truncate_to(offset)
        self._high_watermark = min(self._high_watermark, self.log.log_end_offset)

    def start_over_at(self, offset: Offset) -> None:
        """Drop everything: the leader's log begins after the end of ours."""
        self.log.truncate_fully_and_start_at(offset)
        self._high_watermark = offset
