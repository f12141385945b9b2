"""ISR proposals of leaders: sent to the controller, whose answer the leader then adopts."""

import logging
from collections.abc import Callable

from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.model.clocks import MonotonicMs
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition

log = logging.getLogger(__name__)

OnOutcome = Callable[[PartitionState | ErrorCode | None], None]
"""Takes the new state, the error, or None when no answer came and the ISR may be in force."""


AskForIsr = Callable[[TopicPartition, IsrProposal, OnOutcome], None]
"""Asks the controller for another ISR; calls back once."""


class IsrProposals:
    """Owned by the broker's thread."""

    def __init__(
        self,
        table: PartitionTable,
        events: PartitionEvents,
        ask: AskForIsr,
        now_ms: Callable[[], MonotonicMs],
        on_changed: Callable[[int], None],
    ) -> None:
        """`on_changed` gets the number of members by which an ISR has grown (negative: shrunk)."""
        self._table = table
        self._events = events
        self._ask = ask
        self._now_ms = now_ms
        self._on_changed = on_changed
        self.refused_count = 0
        """Proposals that the controller has refused."""

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
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

        self._ask(partition.id, proposal, on_outcome)

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
            moved = leader.on_state_committed(answer, self._now_ms())
        if moved:
            self._events.on_high_watermark_moved(partition)
        # Fewer in-sync replicas may fail a waiting produce, more may complete it.
        self._events.on_moved(partition_id)
