"""What brokers ask of each other over the control link: updates, and requests to the controller."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from cluster.brokers.metadata_cache import MetadataCache
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.brokers.replication.role_changes import RoleChanges
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.coordinator.controller.controller_requests import (
    AUTO_CREATE_TIMEOUT_MS,
    ControllerRequests,
)
from cluster.coordinator.controller.update_parts import UpdateParts
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import NO_BROKER, BrokerEpoch, BrokerId, TopicPartition
from cluster.model.plan import Outcome
from cluster.model.topics import TopicAlteration
from cluster.protocol.peer.control import (
    Acknowledged,
    AlterPartition,
    AlterTopicConfigs,
    ClusterUpdate,
    ControlledShutdown,
    CreateTopics,
    PartitionAltered,
    Refusal,
    Request,
    ShutdownPrepared,
    TopicOutcomes,
)
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_ASK_TIMEOUT_MS = 3_000
_LOOK_FOR_CONTROLLER_MS = 20
_ACKNOWLEDGE_WITHIN_MS = 1_000

AnswerT = TypeVar("AnswerT")


class ControlRequests:
    """Both directions for one broker. Owned by the broker's thread."""

    def __init__(
        self,
        local_id: BrokerId,
        loop: EventLoop,
        metadata: MetadataCache,
        roles: ReplicaRoles,
        changes: RoleChanges,
        controller: Callable[[], ControllerRequests],
    ) -> None:
        self._local_id = local_id
        self._loop = loop
        self._metadata = metadata
        self._roles = roles
        self._changes = changes
        self._parts = UpdateParts()
        self._link: ControlLink | None = None
        self.broker_epoch = BrokerEpoch(-1)
        """Of our present registration; -1 before it."""
        self._being_created: set[str] = set()
        self._served: dict[type[Any], Callable[[Any, Reply], None]] = {
            ClusterUpdate: self._on_update,
            AlterPartition: lambda request, reply: controller().on_isr_proposed(request, reply),
            CreateTopics: lambda request, reply: controller().on_topics_missed(request, reply),
            ControlledShutdown: lambda request, reply: controller().on_controlled_shutdown(
                request, reply
            ),
        }
        self.counters: BrokerCounters | None = None
        """Counts changes of in-sync sets that were made for us."""

    def use_link(self, link: ControlLink) -> None:
        """The control link, once it exists (it needs `on_request`)."""
        self._link = link

    def serve(self, request: type[Request[Any]], handler: Callable[[Any, Reply], None]) -> None:
        """Hand requests of another class to `handler`."""
        self._served[request] = handler

    # -- asked of us -----------------------------------------------------------------------------

    def on_request(self, request: Request[Any], reply: Reply) -> None:
        """A peer's request, its fields checked."""
        serve = self._served.get(type(request))
        if serve is None:
            reply(Refusal(ErrorCode.invalid_request, f"{type(request).__name__} is not served"))
        else:
            serve(request, reply)

    def _on_update(self, update: ClusterUpdate, reply: Reply) -> None:
        if update.controller_epoch < self._metadata.controller_epoch:
            reply(Acknowledged(ErrorCode.stale_controller_epoch))
            return
        if self.broker_epoch < 0:
            # It may be for the registration that we are about to hear of: have it sent again.
            log.info("not registered yet; an update of the controller is not acknowledged")
            return
        if update.broker_epoch != self.broker_epoch:
            reply(Acknowledged(ErrorCode.stale_broker_epoch))
            return
        whole = self._parts.add(update)
        if whole is None:
            if self._parts.is_incomplete:
                reply(Acknowledged(ErrorCode.none))
            return
        update = whole
        brokers = dict(self._metadata.brokers)
        gone = self._metadata.apply(update)
        self._changes.on_update(
            update.topics,
            gone,
            is_full=update.is_full,
            have_brokers_changed=brokers != self._metadata.brokers,
            on_done=self._acknowledgement(reply),
        )

    def _acknowledgement(self, reply: Reply) -> Callable[[], None]:
        """Called when every role is taken; without that, the controller is told all the same after
        a while: the update is not lost, and sending it again would not make it faster.
        """
        is_due = True

        def acknowledge() -> None:
            nonlocal is_due
            if is_due:
                is_due = False
                timer.cancel()
                reply(Acknowledged(ErrorCode.none))

        timer = self._loop.call_after(_ACKNOWLEDGE_WITHIN_MS, acknowledge)
        return acknowledge

    # -- asked by us -----------------------------------------------------------------------------

    def propose_isr(self, partition: TopicPartition, proposal: IsrProposal) -> None:
        """Ask the controller for another ISR; the answer goes to the replica's roles."""
        present = self._metadata.partition(partition)

        def on_reply(answer: PartitionAltered | Refusal | None) -> None:
            outcome = self._isr_outcome(partition, proposal, answer)
            if isinstance(outcome, ErrorCode):
                log.info("%s: ISR proposal refused (%s)", partition, outcome.name)
            elif outcome is not None and self.counters is not None and present is not None:
                if len(proposal.isr) > len(present.isr):
                    self.counters.isr_expands += 1
                else:
                    self.counters.isr_shrinks += 1
            self._roles.on_isr_answered(partition, proposal, outcome, self._loop.now_ms)

        if self._metadata.controller_endpoint() is None:
            nobody = PartitionAltered(ErrorCode.broker_not_available)
            self._loop.defer(lambda: on_reply(nobody))
            return
        self._ask_controller(
            AlterPartition(
                self._local_id,
                self.broker_epoch,
                partition.topic,
                partition.partition,
                proposal.isr,
                proposal.leader_epoch,
                proposal.partition_epoch,
            ),
            on_reply,
        )

    def _isr_outcome(
        self,
        partition: TopicPartition,
        proposal: IsrProposal,
        answer: PartitionAltered | Refusal | None,
    ) -> PartitionState | ErrorCode | None:
        """The new state, or why not; None where the answer does not tell whether it is in force."""
        if answer is None:
            return None
        if isinstance(answer, Refusal) or answer.code is not ErrorCode.none:
            return answer.code
        known = self._metadata.partition(partition)
        if known is None:
            return ErrorCode.unknown_topic_or_partition
        return PartitionState(
            known.replicas,
            answer.isr,
            self._local_id,
            proposal.leader_epoch,
            answer.partition_epoch,
        )

    def request_topic_creation(self, names: list[str]) -> None:
        """Have missing topics created with default settings, unless that is under way."""
        names = [name for name in names if name not in self._being_created]
        if not names:
            return
        self._being_created.update(names)

        def on_reply(answer: TopicOutcomes | Refusal | None) -> None:
            self._being_created.difference_update(names)
            if isinstance(answer, TopicOutcomes):
                for name, code, _ in answer.outcomes:
                    if code not in (ErrorCode.none, ErrorCode.topic_already_exists):
                        log.info("auto-creation of topic %s: %s", name, code.name)

        self._ask_controller(CreateTopics(names), on_reply, AUTO_CREATE_TIMEOUT_MS)

    def alter_topic_configs(
        self,
        alterations: Sequence[TopicAlteration],
        *,
        validate_only: bool,
        on_done: Callable[[dict[str, Outcome] | None], None],
    ) -> None:
        """Have configs of topics changed; the outcome by topic, None without an answer in time."""

        def on_reply(answer: TopicOutcomes | Refusal | None) -> None:
            if answer is None:
                on_done(None)
            elif isinstance(answer, Refusal):
                refused = Outcome(answer.code, answer.reason)
                on_done({each.topic: refused for each in alterations})
            else:
                on_done({name: Outcome(code, detail) for name, code, detail in answer.outcomes})

        self._ask_controller(
            AlterTopicConfigs(alterations, validate_only), on_reply, AUTO_CREATE_TIMEOUT_MS
        )

    def ask_controlled_shutdown(self, on_done: Callable[[bool], None], timeout_ms: int) -> None:
        """Have our leaderships moved away before we stop; calls back once, within the timeout.

        Whoever becomes the controller meanwhile is asked again: when a whole cluster stops, the
        controller that we know may be the broker that has just stopped.
        """
        deadline_ms = self._loop.now_ms + timeout_ms
        asked = NO_BROKER
        is_over = False

        def finish(is_done: bool) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                on_done(is_done)

        def on_reply(answer: ShutdownPrepared | Refusal | None) -> None:
            nonlocal asked
            if isinstance(answer, ShutdownPrepared):
                if answer.is_done:
                    finish(True)
                else:
                    asked = NO_BROKER  # it is the controller no more

        def look() -> None:
            nonlocal asked
            remaining_ms = deadline_ms - self._loop.now_ms
            if is_over:
                return
            if remaining_ms <= 0:
                finish(False)
                return
            controller = self._metadata.controller_id
            if controller not in (asked, NO_BROKER):
                asked = controller
                self._ask_controller(
                    ControlledShutdown(self._local_id, self.broker_epoch), on_reply, remaining_ms
                )
            self._loop.call_after(_LOOK_FOR_CONTROLLER_MS, look)

        look()

    def _ask_controller(
        self,
        request: Request[AnswerT],
        on_reply: Callable[[AnswerT | Refusal | None], None],
        timeout_ms: int = _ASK_TIMEOUT_MS,
    ) -> None:
        endpoint = self._metadata.controller_endpoint()
        if endpoint is None or self._link is None:
            self._loop.defer(lambda: on_reply(None))
        else:
            self._link.ask(endpoint, request, on_reply, timeout_ms)
