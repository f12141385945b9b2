"""Requests of brokers and clients to the controller; each is one operation of its driver.

A request is answered when the registry has the change and, for topics, every live broker knows it;
with REQUEST_TIMED_OUT after the client's timeout (Kafka: `DelayedCreatePartitions`).
"""

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from cluster.coordinator.controller import (
    broker_operations,
    leader_operations,
    reassignment_operations,
    topic_operations,
)
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.coordinator.controller.controller_driver import ControllerDriver
from cluster.coordinator.controller.leader_elections import Elected, ElectionType
from cluster.coordinator.controller.reassignments import Answered, Asked
from cluster.coordinator.controller.topic_operations import NamedTopic
from cluster.coordinator.controller.topic_outcomes import topic_outcomes
from cluster.coordinator.controller.topic_plans import Admit, everything
from cluster.model.cluster import PartitionState, TopicState
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.plan import Outcome
from cluster.model.quotas import QuotaClient
from cluster.model.topics import NewTopic
from cluster.protocol.peer.control import (
    AlterPartition,
    AlterTopicConfigs,
    ControlledShutdown,
    CreateTopics,
    ReportFull,
    ReportOffline,
)

_ISR_CHANGES_MAX: Final = 50
"""Per operation: a millisecond or two of the loop, and one transaction in the registry."""
_FULL_SETTLE_MS: Final = 1_000
"""Other brokers on the same disk get this time to report a full log directory too, so that no
leadership moves to a broker that is about to give it up."""
AUTO_CREATE_TIMEOUT_MS: Final = 10_000
"""Every broker should know an automatically created topic within this time."""


class ControllerRequests:
    """Calls every `on_done` and `reply` exactly once, on the broker's thread.

    The outcome is `not_controller` if this broker is not the controller or ceases to be it.
    """

    def __init__(
        self,
        driver: ControllerDriver,
        automatic_topic: Callable[[str], NewTopic] = NewTopic,
        admit_of: Callable[[QuotaClient], Admit] = lambda _client: everything,
    ) -> None:
        """`automatic_topic` returns the properties of topics that are created automatically;
        `admit_of` checks the quota of the client that asked for one."""
        self._driver = driver
        self._admit_of = admit_of
        self._automatic_topic = automatic_topic
        self._isr_changes: list[tuple[AlterPartition, Reply]] = []
        """Proposals that are not planned yet; an operation that takes them is queued."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._driver.is_active

    # -- of brokers --------------------------------------------------------------------------

    def serve(self, link: ControlLink) -> None:
        """Serve the requests of brokers."""
        link.serve(AlterPartition, self.on_isr_proposed)
        link.serve(ReportOffline, self.on_offline_reported)
        link.serve(ReportFull, self.on_full_reported)
        link.serve(CreateTopics, self.on_topics_missed)
        link.serve(ControlledShutdown, self.on_controlled_shutdown)
        link.serve(AlterTopicConfigs, self.on_configs_altered)

    def on_controlled_shutdown(self, request: ControlledShutdown, reply: Reply) -> None:
        """Move leaderships away from a broker that is about to stop, then answer."""
        self._driver.enqueue(broker_operations.Shutdown(self._driver.updates, request, reply))

    def on_offline_reported(self, request: ReportOffline, reply: Reply) -> None:
        """Move leaderships away from the offline replicas of a broker, then answer."""
        self._driver.enqueue(
            broker_operations.OfflineReplicas(self._driver.updates, request, reply)
        )

    def on_full_reported(self, request: ReportFull, reply: Reply) -> None:
        """Record the replicas of a broker in full log directories, and answer; move their
        leaderships a little later. When there is room again, preferred leaderships return."""
        updates = self._driver.updates
        self._driver.enqueue(broker_operations.FullDirectories(updates, request, reply))
        self._driver.enqueue_later(_FULL_SETTLE_MS, broker_operations.LeadersWithRoom(updates))
        self._driver.returns.return_soon()

    def on_isr_proposed(self, request: AlterPartition, reply: Reply) -> None:
        """Process a leader's proposal; the answer holds an error code or the new state.

        Proposals that arrive while an operation is in progress share the next operation: a
        returning broker joins thousands of ISRs at once.
        """
        self._isr_changes.append((request, reply))
        if len(self._isr_changes) == 1:
            self._enqueue_isr_changes()

    def on_topics_missed(self, request: CreateTopics, reply: Reply) -> None:
        """Create topics that a broker's client asked for, if they may be created automatically.

        They are refused if the client exceeds its quota (as in Kafka's newest CreateTopics, which a
        broker forwards for it): the client has been answered, and asks again.
        """
        requester = request.requester
        self.create_topics(
            [self._automatic_topic(name) for name in request.names],
            validate_only=False,
            timeout_ms=AUTO_CREATE_TIMEOUT_MS,
            on_done=lambda outcomes, _planned: reply(topic_outcomes(outcomes)),
            admit=everything if requester is None else self._admit_of(requester),
        )

    def on_configs_altered(self, request: AlterTopicConfigs, reply: Reply) -> None:
        """Change configs of topics for a broker's client."""
        self._driver.enqueue(
            topic_operations.AlterConfigs(
                self._driver.updates,
                list(request.alterations),
                lambda outcomes: reply(topic_outcomes(outcomes)),
                validate_only=request.validate_only,
            )
        )

    def _enqueue_isr_changes(self) -> None:
        self._driver.enqueue(
            broker_operations.IsrUpdates(self._driver.updates, self._take_isr_changes)
        )

    def _take_isr_changes(self) -> list[tuple[AlterPartition, Reply]]:
        if not self._driver.is_active:  # all are refused
            taken, self._isr_changes = self._isr_changes, []
            return taken
        taken = self._isr_changes[:_ISR_CHANGES_MAX]
        del self._isr_changes[:_ISR_CHANGES_MAX]
        if self._isr_changes:
            self._enqueue_isr_changes()
        return taken

    # -- of clients --------------------------------------------------------------------------

    def create_topics(
        self,
        topics: list[NewTopic],
        *,
        validate_only: bool,
        timeout_ms: int,
        on_done: Callable[[dict[str, Outcome], dict[str, TopicState]], None],
        admit: Admit = everything,
    ) -> None:
        """Create topics; calls back when every live broker knows them, or at the timeout."""
        self._driver.enqueue(
            topic_operations.CreateTopics(
                self._driver.updates,
                topics,
                timeout_ms,
                on_done,
                validate_only=validate_only,
                admit=admit,
            )
        )

    def delete_topics(
        self,
        topics: list[NamedTopic],
        timeout_ms: int,
        on_done: Callable[[list[tuple[str | None, UUID | None, Outcome]]], None],
        *,
        admit: Admit = everything,
    ) -> None:
        """Delete topics; calls back when every live broker has dropped them, or at the timeout."""
        self._driver.enqueue(
            topic_operations.DeleteTopics(
                self._driver.updates, topics, timeout_ms, on_done, admit=admit
            )
        )

    def create_partitions(
        self,
        topics: list[tuple[str, int, list[tuple[BrokerId, ...]] | None]],
        *,
        validate_only: bool,
        timeout_ms: int,
        on_done: Callable[[dict[str, Outcome]], None],
        admit: Admit = everything,
    ) -> None:
        """Enlarge topics; calls back when every live broker knows, or at the timeout."""
        self._driver.enqueue(
            topic_operations.CreatePartitions(
                self._driver.updates,
                topics,
                timeout_ms,
                on_done,
                validate_only=validate_only,
                admit=admit,
            )
        )

    def elect_leaders(
        self,
        election: ElectionType,
        partitions: Sequence[TopicPartition] | None,
        timeout_ms: int,
        on_done: Callable[[Outcome, Elected], None],
    ) -> None:
        """Elect leaders; calls back when every live broker knows them, or at the timeout.

        `leader_operations.elect_in_parts` defines the results.
        """
        leader_operations.elect_in_parts(
            self._driver.enqueue,
            self._driver.updates,
            election,
            partitions,
            self._all_partitions,
            timeout_ms,
            on_done,
        )

    def _all_partitions(self) -> list[TopicPartition]:
        controller = self._driver.controller
        return [] if controller is None else [each for each, _ in controller.state.partitions()]

    def alter_reassignments(
        self,
        asked: Asked,
        *,
        may_change_factor: bool,
        timeout_ms: int,
        on_done: Callable[[Outcome, Answered], None],
    ) -> None:
        """Move partitions to other replicas, or cancel that; calls back when every live broker
        knows that it has begun, or at the timeout.

        `reassignment_operations.alter_in_parts` defines the results.
        """
        reassignment_operations.alter_in_parts(
            self._driver.enqueue,
            self._driver.updates,
            asked,
            timeout_ms,
            on_done,
            may_change_factor=may_change_factor,
        )

    def reassigning(self) -> list[TopicPartition]:
        """The partitions that are being moved, ordered; none unless this is the controller."""
        controller = self._driver.controller
        return [] if controller is None else sorted(controller.reassigning.partitions)

    def reassignment(self, partition: TopicPartition) -> PartitionState | None:
        """The state of a partition that is being moved; None if it is not, or there is none."""
        controller = self._driver.controller
        found = () if controller is None else controller.reassigning.states((partition,))
        return next((state for _, state in found), None)
