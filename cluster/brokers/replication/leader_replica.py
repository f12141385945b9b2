"""A leader's state of its followers: progress, in-sync set, high watermark. Pure.

Sources: "Replication" in the documentation of Apache Kafka; KIP-497 (the leader proposes an ISR,
and until the controller answers it assumes the largest set that may be in force).
"""

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from typing import Final

from cluster.model.clocks import MonotonicMs
from cluster.model.cluster import PartitionState
from cluster.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch

_PROPOSE_AGAIN_MS: Final = 500
"""Pause after a refusal: a follower that is about to stop may not join, but still fetches."""

FULL_LAG_TIME_MAX_MS: Final = 1_000
"""Maximum lag time of a follower with a full log directory, which cannot catch up by itself."""


@dataclass(slots=True)
class FollowerProgress:
    """One follower as the leader sees it. `log_end_offset` is -1 until its first fetch."""

    log_end_offset: Offset
    last_caught_up_ms: int
    """When it last had everything that the leader had then."""
    log_start_offset: Offset = Offset(-1)
    """The log start offset that it reported last; -1 before its first report."""
    last_fetch_ms: int = 0
    leader_log_end_at_last_fetch: Offset = Offset(-1)


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """Asks the controller for this ISR, if the state still has that partition epoch."""

    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    joining_epoch: BrokerEpoch = BrokerEpoch(-1)
    """The epoch of the new member's registration at its fetch; its disk may be wiped since."""


class LeaderReplica:
    """One partition this broker leads, for one leader epoch.

    Invariant: the high watermark never passes the log end and never moves back.
    Invariant: it never passes a member of any ISR that may be in force: the last one committed, the
    one proposed, and those proposed for the same partition epoch whose outcome is not known.
    Invariant: it does not move while the ISR has fewer members than `min.insync.replicas`, or while
    a replica outside of it is eligible to lead (KIP-966): such a replica lacks nothing committed.
    Invariant: at most one ISR proposal is in flight.
    """

    def __init__(
        self,
        local_id: BrokerId,
        leader_epoch: LeaderEpoch,
        replicas: Iterable[BrokerId],
        isr: Iterable[BrokerId],
        partition_epoch: PartitionEpoch,
        log_end_offset: Offset,
        high_watermark: Offset,
        now_ms: MonotonicMs,
        min_insync_replicas: int = 1,
        eligible: tuple[BrokerId, ...] = (),
        added_count: int = 0,
        *,
        is_reassigning: bool = False,
    ) -> None:
        """`eligible`: see `PartitionState`. `added_count` is the number of replicas that a
        reassignment adds; `min.insync.replicas` does not count on them."""
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = log_end_offset
        self.high_watermark = min(high_watermark, log_end_offset)
        self.partition_epoch = partition_epoch
        self.isr = tuple(isr)
        self._in_flight: IsrProposal | None = None
        self._unsettled: set[BrokerId] = set()
        """Members of ISRs that were proposed for this partition epoch and not answered."""
        self._propose_again_ms = 0
        self._full: Collection[BrokerId] = ()
        """Replicas in full log directories as of the last tick, which do not join the ISR."""
        self._local_id = local_id
        self._log_end_offset = log_end_offset
        self.followers = {
            broker: FollowerProgress(Offset(-1), now_ms)
            for broker in replicas
            if broker != local_id
        }
        """Progress by follower; only changed here."""
        self._added_count = added_count
        self.is_reassigning = is_reassigning
        """Whether the partition is being moved to other replicas."""
        self.require(min_insync_replicas)
        self._eligible = eligible
        self._raise_high_watermark()

    @property
    def pending_isr(self) -> tuple[BrokerId, ...] | None:
        """The ISR that the controller is being asked for."""
        return None if self._in_flight is None else self._in_flight.isr

    def on_appended(self, log_end_offset: Offset, now_ms: MonotonicMs) -> bool:
        """The log has grown; returns whether the high watermark moved (at once, if alone in the
        ISR).
        """
        before = self._log_end_offset
        if log_end_offset == before:
            return False  # the batch was there before
        self._log_end_offset = log_end_offset
        if not self.followers:
            self.high_watermark = log_end_offset
            return True
        for progress in self.followers.values():
            if progress.log_end_offset == before:
                # It was caught up until now: its lag counts from here, not from its last fetch.
                progress.last_caught_up_ms = now_ms
        return self._raise_high_watermark()

    def on_follower_fetch(
        self,
        follower: BrokerId,
        fetch_offset: Offset,
        now_ms: MonotonicMs,
        broker_epoch: BrokerEpoch = BrokerEpoch(-1),
    ) -> tuple[bool, IsrProposal | None]:
        """A follower, in that registration, has everything below `fetch_offset`.

        Returns whether the high watermark moved, and an ISR with the follower if it may join.
        A broker that is not a replica, or an offset beyond the log, changes nothing.
        """
        progress = self.followers.get(follower)
        if progress is None or fetch_offset > self._log_end_offset:
            return False, None
        if fetch_offset >= self._log_end_offset:
            progress.last_caught_up_ms = now_ms
        elif fetch_offset >= progress.leader_log_end_at_last_fetch >= 0:
            progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
        progress.last_fetch_ms = now_ms
        progress.leader_log_end_at_last_fetch = self._log_end_offset
        progress.log_end_offset = fetch_offset
        moved = self._raise_high_watermark()
        return moved, self._propose_expansion(follower, fetch_offset, now_ms, broker_epoch)

    def on_follower_log_start(self, follower: BrokerId, log_start_offset: Offset) -> bool:
        """Note where a follower's log begins; returns whether the offset has grown."""
        progress = self.followers.get(follower)
        if progress is None:
            return False
        before, progress.log_start_offset = progress.log_start_offset, log_start_offset
        return log_start_offset > before

    def low_watermark(self, log_start_offset: Offset, live: Container[BrokerId]) -> Offset:
        """The smallest log start offset of the live replicas; the leader's is given."""
        others = [
            progress.log_start_offset
            for broker, progress in self.followers.items()
            if broker in live
        ]
        return min([log_start_offset, *others])

    def may_be_in_sync(self, broker: BrokerId) -> bool:
        """Whether a follower is in any ISR that may be in force, so that commits wait for it."""
        in_flight = self._in_flight
        return (
            broker in self.isr
            or (in_flight is not None and broker in in_flight.isr)
            or broker in self._unsettled
        )

    @property
    def is_under_replicated(self) -> bool:
        """Whether the ISR has fewer members than the partition has replicas, without those that a
        reassignment adds (Kafka: `Partition.isUnderReplicated`)."""
        return len(self.isr) < 1 + len(self.followers) - self._added_count

    @property
    def outsiders(self) -> set[BrokerId]:
        """The followers that are not in the ISR."""
        return self.followers.keys() - self.isr

    def on_tick(
        self, now_ms: MonotonicMs, lag_time_max_ms: int, full: Collection[BrokerId] = ()
    ) -> IsrProposal | None:
        """Propose an ISR without followers that have lagged longer than `replica.lag.time.max.ms`,
        or longer than a second if their log directories are `full`.

        The present ISR is proposed again if an earlier proposal was not answered: the answer to
        this one shows which is in force.
        """
        self._full = full
        if self._in_flight is not None:
            return None
        kept = tuple(
            broker
            for broker in self.isr
            if broker == self._local_id or not self._is_lagging(broker, now_ms, lag_time_max_ms)
        )
        if self._eligible and len(self.isr) >= self._min_isr and now_ms >= self._propose_again_ms:
            # min.insync.replicas was lowered: nothing is committed while eligible replicas remain.
            return self._propose(kept)
        return self._propose(kept) if kept != self.isr or self._unsettled else None

    def require(self, min_insync_replicas: int) -> None:
        """Take a new `min.insync.replicas`; call `recheck` afterwards."""
        self._min_insync_replicas = min_insync_replicas
        self._min_isr = min(min_insync_replicas, 1 + len(self.followers) - self._added_count)

    def recheck(self) -> bool:
        """Raise the high watermark after a lower requirement; returns whether it moved."""
        return self._raise_high_watermark()

    def has_all_in_sync(self, offset: Offset) -> bool:
        """Whether every member of the ISR has everything below an offset, committed or not."""
        ends = (self.followers[b].log_end_offset for b in self.isr if b in self.followers)
        return self._log_end_offset >= offset and all(end >= offset for end in ends)

    def on_state_committed(self, state: PartitionState, now_ms: MonotonicMs) -> bool:
        """The controller has written a state of this leader epoch; returns whether the high
        watermark moved.

        The replicas may be others: a new one begins without progress, and those that stay keep
        theirs. A partition epoch that is known already changes nothing.
        """
        if state.partition_epoch <= self.partition_epoch:
            return False
        followers = self.followers
        self.followers = {
            broker: followers.get(broker) or FollowerProgress(Offset(-1), now_ms)
            for broker in state.replicas
            if broker != self._local_id
        }
        self._added_count = len(state.adding)
        self.is_reassigning = state.is_reassigning
        self.require(self._min_insync_replicas)
        return self.on_isr_committed(state.isr, state.partition_epoch, state.eligible)

    def on_isr_committed(
        self,
        isr: Iterable[BrokerId],
        partition_epoch: PartitionEpoch,
        eligible: tuple[BrokerId, ...] = (),
    ) -> bool:
        """The controller has written an ISR; returns whether the high watermark moved.

        A partition epoch that is known already changes nothing: a later proposal may be in force.
        """
        if partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self._eligible = eligible
        self.isr = tuple(isr)
        self._in_flight = None
        self._unsettled.clear()
        return self._raise_high_watermark()

    def on_proposal_refused(self, proposal: IsrProposal, now_ms: MonotonicMs) -> bool:
        """The controller refused a proposal; returns whether the high watermark moved."""
        if proposal != self._in_flight:
            return False
        self._in_flight = None
        self._propose_again_ms = now_ms + _PROPOSE_AGAIN_MS
        return self._raise_high_watermark()

    def on_proposal_lost(self, proposal: IsrProposal) -> None:
        """No answer came: the proposal may be in force until a new partition epoch is known."""
        if proposal == self._in_flight:
            self._in_flight = None
            self._unsettled.update(proposal.isr)

    def _is_lagging(self, broker: BrokerId, now_ms: MonotonicMs, lag_time_max_ms: int) -> bool:
        progress = self.followers.get(broker)
        if broker in self._full:
            lag_time_max_ms = min(lag_time_max_ms, FULL_LAG_TIME_MAX_MS)
        return progress is None or (
            progress.log_end_offset != self._log_end_offset
            and now_ms - progress.last_caught_up_ms > lag_time_max_ms
        )

    def _propose_expansion(
        self,
        follower: BrokerId,
        fetch_offset: Offset,
        now_ms: MonotonicMs,
        broker_epoch: BrokerEpoch,
    ) -> IsrProposal | None:
        if (
            follower in self.isr
            or follower in self._full
            or self._in_flight is not None
            or now_ms < self._propose_again_ms
            or fetch_offset < self.high_watermark
            or fetch_offset < self.epoch_start_offset
        ):
            return None
        return self._propose((*self.isr, follower), broker_epoch)

    def _propose(
        self, isr: tuple[BrokerId, ...], joining_epoch: BrokerEpoch = BrokerEpoch(-1)
    ) -> IsrProposal:
        self._in_flight = IsrProposal(isr, self.leader_epoch, self.partition_epoch, joining_epoch)
        return self._in_flight

    def _raise_high_watermark(self) -> bool:
        if self._eligible or len(self.isr) < self._min_isr:
            return False
        lowest = self._log_end_offset
        followers = self.followers
        for broker in self.isr:
            progress = followers.get(broker)
            if progress is not None and progress.log_end_offset < lowest:
                lowest = progress.log_end_offset
        # Only joining members matter here: a leaving one is still in `isr` until it is committed.
        if self._in_flight is not None or self._unsettled:
            for broker in self._unsettled.union(self.pending_isr or ()):
                progress = followers.get(broker)
                if progress is not None and progress.log_end_offset < lowest:
                    lowest = progress.log_end_offset
        if lowest > self.high_watermark:
            self.high_watermark = lowest
            return True
        return False
