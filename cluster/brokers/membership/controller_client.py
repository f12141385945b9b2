"""A broker's requests to the current controller, over the control link."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.membership.registration import Registration
from cluster.brokers.replication.isr_proposals import OnOutcome
from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.coordinator.controller.control_link import ControlLink
from cluster.coordinator.controller.controller_requests import AUTO_CREATE_TIMEOUT_MS
from cluster.model.cluster import OfflinePartitions, PartitionState
from cluster.model.errors import ErrorCode
from cluster.model.ids import NO_BROKER, BrokerId, TopicPartition
from cluster.model.plan import Outcome
from cluster.model.quotas import QuotaClient
from cluster.model.topics import INTERNAL_TOPICS, TopicAlteration
from cluster.protocol.peer.control import (
    AlterPartition,
    AlterTopicConfigs,
    ControlledShutdown,
    CreateTopics,
    PartitionAltered,
    Refusal,
    ReportFull,
    ReportOffline,
    Request,
    ShutdownPrepared,
    TopicOutcome,
    TopicOutcomes,
)
from cluster.runtime.logs import of_peer
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_ASK_TIMEOUT_MS: Final = 3_000
_LOOK_FOR_CONTROLLER_MS: Final = 20
_REFUSED_MAX: Final = 1_000
"""The maximal number of topics whose failed creation is remembered; beyond it a reason may be
logged twice.
"""

AnswerT = TypeVar("AnswerT")


class ControllerClient:
    """Owned by the broker's thread."""

    def __init__(
        self,
        local_id: BrokerId,
        loop: EventLoop,
        metadata: MetadataCache,
        link: ControlLink,
        registration: Registration,
    ) -> None:
        self._local_id = local_id
        self._loop = loop
        self._metadata = metadata
        self._link = link
        self._registration = registration
        self._being_created: set[str] = set()
        self._refused: dict[str, ErrorCode] = {}
        """Topics that could not be created, with the logged reason."""

    def propose_isr(
        self, partition: TopicPartition, proposal: IsrProposal, on_outcome: OnOutcome
    ) -> None:
        """Ask the controller to change the ISR of a partition that this broker leads."""

        def on_reply(answer: PartitionAltered | Refusal | None) -> None:
            on_outcome(self._isr_outcome(partition, proposal, answer))

        if self._metadata.controller_endpoint() is None:
            nobody = PartitionAltered(ErrorCode.broker_not_available)
            self._loop.defer(lambda: on_reply(nobody))
            return
        self._ask_controller(
            AlterPartition(
                self._local_id,
                self._registration.epoch,
                partition.topic,
                partition.partition,
                proposal.isr,
                proposal.leader_epoch,
                proposal.partition_epoch,
                proposal.joining_epoch,
            ),
            on_reply,
        )

    def _isr_outcome(
        self,
        partition: TopicPartition,
        proposal: IsrProposal,
        answer: PartitionAltered | Refusal | None,
    ) -> PartitionState | ErrorCode | None:
        """The new state or the error; None if no answer came, so the ISR may have been changed."""
        if answer is None:
            return None
        if isinstance(answer, Refusal) or answer.code is not ErrorCode.none:
            return answer.code
        known = self._metadata.partition(partition)
        if known is None:
            return ErrorCode.unknown_topic_or_partition
        return replace(
            known,
            isr=answer.isr,
            leader=self._local_id,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=answer.partition_epoch,
            eligible=answer.eligible,
            doubtful=(),
        )

    def report_offline(
        self, offline: tuple[OfflinePartitions, ...], on_done: Callable[[], None]
    ) -> None:
        """Report all replicas that are offline here; calls back once."""
        self._ask_controller(
            ReportOffline(self._local_id, self._registration.epoch, offline), lambda _: on_done()
        )

    def report_full(
        self, full: tuple[OfflinePartitions, ...], reason: str, on_done: Callable[[], None]
    ) -> None:
        """Report all replicas in full log directories here; calls back once."""
        self._ask_controller(
            ReportFull(self._local_id, self._registration.epoch, full, reason), lambda _: on_done()
        )

    def request_topic_creation(self, names: list[str], requester: QuotaClient | None) -> None:
        """Ask for the creation of missing topics with default settings, unless a request for them
        is in progress. They count against the requester's `controller_mutation_rate` if there is a
        requester.
        """
        names = [name for name in names if name not in self._being_created]
        if not names:
            return
        self._being_created.update(names)

        def on_reply(answer: TopicOutcomes | Refusal | None) -> None:
            self._being_created.difference_update(names)
            if isinstance(answer, TopicOutcomes):
                for outcome in answer.outcomes:
                    self._log_creation(outcome, requester)

        self._ask_controller(CreateTopics(names, requester), on_reply, AUTO_CREATE_TIMEOUT_MS)

    def _log_creation(self, outcome: TopicOutcome, requester: QuotaClient | None) -> None:
        """Log why a topic is not created, unless the same reason was logged before: no client
        receives this answer.
        """
        name, code, reason = outcome
        if code in (ErrorCode.none, ErrorCode.topic_already_exists):
            self._refused.pop(name, None)
            return
        if self._refused.get(name) is code:
            return
        if len(self._refused) >= _REFUSED_MAX:
            self._refused.clear()
        self._refused[name] = code
        log.log(
            # Clients wait for an internal topic.
            logging.WARNING if name in INTERNAL_TOPICS else logging.INFO,
            "auto-creation of topic %s for %s: %s: %s",
            name,
            requester or "this broker",
            code.name,
            reason,
            extra=of_peer(str(requester)),
        )

    def alter_topic_configs(
        self,
        alterations: Sequence[TopicAlteration],
        *,
        validate_only: bool,
        on_done: Callable[[dict[str, Outcome] | None], None],
    ) -> None:
        """Ask for changes of topic configs; calls back with outcomes by topic, or with None if no
        answer arrives in time.
        """

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
        """Ask the controller to move this broker's leaderships to other brokers before it stops.

        `on_done` is called once within `timeout_ms`, with whether the controller has done so. The
        request is repeated for a broker that becomes the controller meanwhile: when a whole cluster
        stops, the known controller may be a broker that has just stopped.
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
                    asked = NO_BROKER  # that broker is no longer the controller

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
                    ControlledShutdown(self._local_id, self._registration.epoch),
                    on_reply,
                    remaining_ms,
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
        if endpoint is None:
            self._loop.defer(lambda: on_reply(None))
        else:
            self._link.ask(endpoint, request, on_reply, timeout_ms)
