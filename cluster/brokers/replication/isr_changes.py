"""Changes of in-sync sets: proposed to the controller, and its answer taken over by the leader."""

import logging
from collections.abc import Callable
from typing import Protocol

from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.model.clocks import MonotonicMs
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode, StorageFailed
from cluster.model.ids import TopicPartition

log = logging.getLogger(__name__)

OnOutcome = Callable[[PartitionState | ErrorCode | None], None]
"""Takes the new state, the error, or None when no answer came and the ISR may be in force."""


class AsksForIsr(Protocol):
    """The way to the controller."""

    def propose_isr(
        self, partition: TopicPartition, proposal: IsrProposal, on_outcome: OnOutcome
    ) -> None:
        """Ask for another ISR; calls back once."""
        ...


class IsrChanges:
    """What the leader's side of fetches asks of its broker. Owned by the broker's thread."""

    def __init__(
        self,
        table: PartitionTable,
        events: PartitionEvents,
        controller: AsksForIsr,
        now_ms: Callable[[], MonotonicMs],
        on_changed: Callable[[int], None],
    ) -> None:
        """`on_changed` gets the number of members by which an ISR has grown (negative: shrunk)."""
        self._table = table
        self._events = events
        self._controller = controller
        self._now_ms = now_ms
        self._on_changed = on_changed
        self.refused_count = 0
        """Changes that the controller refused."""

    def find_partition(self, partition: TopicPartition) -> Partition | None:
        """The replica here, or None."""
        return self._table.find(partition)

    def on_high_watermark_moved(self, partition: Partition) -> None:
        """A follower's position has moved it."""
        self._events.on_high_watermark_moved(partition)

    def on_follower_log_start_moved(self, partition: Partition) -> None:
        """A follower has deleted records."""
        self._events.on_moved(partition.id)

    def note_failure(self, partition: TopicPartition, failure: StorageFailed) -> None:
        """A log could not be read or written."""
        self._table.note_failure(partition, failure)

    def propose_isr(self, partition: Partition, proposal: IsrProposal) -> None:
        """Ask the controller to change an ISR."""
        members = 0 if partition.leader is None else len(partition.leader.isr)
        growth = len(proposal.isr) - members

        def on_outcome(outcome: PartitionState | ErrorCode | None) -> None:
            if isinstance(outcome, ErrorCode):
                self.refused_count += 1
                log.info("%s: ISR proposal refused (%s)", partition.id, outcome.name)
            elif outcome is not None:
                self._on_changed(growth)
            self.on_answered(partition.id, proposal, outcome)

        self._controller.propose_isr(partition.id, proposal, on_outcome)

    def on_answered(
        self,
        partition_id: TopicPartition,
        proposal: IsrProposal,
        answer: PartitionState | ErrorCode | None,
    ) -> None:
        """The controller's answer to a proposal: the new state, an error, or None for no answer."""
        partition = self._table.find(partition_id)
        if partition is None or partition.leader is None:
            return
        leader = partition.leader
        if leader.leader_epoch != proposal.leader_epoch:
            return
        if answer is None or answer is ErrorCode.not_controller:
            leader.on_proposal_lost(proposal)  # a former controller may have written it before
            return
        if isinstance(answer, ErrorCode):
            moved = leader.on_proposal_refused(proposal, self._now_ms())
        else:
            moved = leader.on_isr_committed(answer.isr, answer.partition_epoch, answer.eligible)
        if moved:
            self._events.on_high_watermark_moved(partition)
        # Fewer in-sync replicas may fail a waiting produce, more may complete it.
        self._events.on_moved(partition_id)
