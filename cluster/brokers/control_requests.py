"""What brokers ask of each other over the control link: updates, and requests to the controller."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from cluster.brokers.metadata_cache import MetadataCache
from cluster.brokers.metric_counters import BrokerCounters
from cluster.brokers.replication.leader_replica import IsrProposal
from cluster.brokers.replication.replica_roles import ReplicaRoles
from cluster.brokers.replication.role_changes import RoleChanges
from cluster.coordinator.controller import config_requests
from cluster.coordinator.controller.config_plans import TopicAlteration
from cluster.coordinator.controller.config_requests import decode_outcomes, encode_alterations
from cluster.coordinator.controller.control_link import ControlLink, Message, Reply
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.coordinator.controller.message_fields import error_code, listed, number, text
from cluster.coordinator.controller.plan import Outcome
from cluster.coordinator.controller.topic_plans import NewTopic
from cluster.coordinator.controller.update import decode_update
from cluster.coordinator.controller.update_parts import UpdateParts
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode, PeerError
from cluster.model.ids import NO_BROKER, BrokerEpoch, BrokerId, PartitionEpoch, TopicPartition
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_ASK_TIMEOUT_MS = 3_000
_AUTO_CREATE_TIMEOUT_MS = 10_000
_LOOK_FOR_CONTROLLER_MS = 20
_ACKNOWLEDGE_WITHIN_MS = 1_000


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
        self._controller = controller
        self._parts = UpdateParts()
        self._link: ControlLink | None = None
        self.broker_epoch = BrokerEpoch(-1)
        """Of our present registration; -1 before it."""
        self._being_created: set[str] = set()
        self._served: dict[str, Callable[[Message, Reply], None]] = {}
        self.counters: BrokerCounters | None = None
        """Counts changes of in-sync sets that were made for us."""

    def use_link(self, link: ControlLink) -> None:
        """The control link, once it exists (it needs `on_request`)."""
        self._link = link

    def serve(self, kind: str, handler: Callable[[Message, Reply], None]) -> None:
        """Hand requests of another kind to `handler`."""
        self._served[kind] = handler

    # -- asked of us -----------------------------------------------------------------------------

    def on_request(self, kind: str, body: Message, reply: Reply) -> None:
        """A peer's request. Malformed ones are logged and not answered."""
        try:
            match kind:
                case "update_metadata":
                    self._on_update(body, reply)
                case "alter_partition":
                    self._controller().on_isr_proposed(body, reply)
                case "create_topics":
                    self._on_create_topics(body, reply)
                case "controlled_shutdown":
                    self._controller().on_controlled_shutdown(
                        BrokerId(number(body["broker"])), lambda is_done: reply({"done": is_done})
                    )
                case _ if kind in self._served:
                    self._served[kind](body, reply)
                case _:
                    raise PeerError(f"unknown kind {kind!r}")
        except (PeerError, KeyError, TypeError, ValueError) as error:
            log.warning("ignored a control request %s: %r", kind, error)

    def _on_update(self, body: Message, reply: Reply) -> None:
        update = decode_update(body)
        if update.controller_epoch < self._metadata.controller_epoch:
            reply({"code": int(ErrorCode.stale_controller_epoch)})
            return
        if self.broker_epoch < 0:
            # It may be for the registration that we are about to hear of: have it sent again.
            log.info("not registered yet; an update of the controller is not acknowledged")
            return
        if update.broker_epoch != self.broker_epoch:
            reply({"code": int(ErrorCode.stale_broker_epoch)})
            return
        whole = self._parts.add(update)
        if whole is None:
            if self._parts.is_incomplete:
                reply({"code": 0})
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
                reply({"code": 0})

        timer = self._loop.call_after(_ACKNOWLEDGE_WITHIN_MS, acknowledge)
        return acknowledge

    def _on_create_topics(self, body: Message, reply: Reply) -> None:
        self._controller().create_topics(
            [NewTopic(text(name)) for name in listed(body["names"])],
            validate_only=False,
            timeout_ms=_AUTO_CREATE_TIMEOUT_MS,
            on_done=lambda outcomes, _planned: reply(
                {name: int(outcome.code) for name, outcome in outcomes.items()}
            ),
        )

    # -- asked by us -----------------------------------------------------------------------------

    def propose_isr(self, partition: TopicPartition, proposal: IsrProposal) -> None:
        """Ask the controller for another ISR; the answer goes to the replica's roles."""
        present = self._metadata.partition(partition)

        def on_reply(answer: Message | None) -> None:
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
            nobody = {"code": int(ErrorCode.broker_not_available)}
            self._loop.defer(lambda: on_reply(nobody))
            return
        self._ask_controller(
            "alter_partition",
            {
                "broker": self._local_id,
                "topic": partition.topic,
                "partition": partition.partition,
                "isr": list(proposal.isr),
                "leader_epoch": proposal.leader_epoch,
                "partition_epoch": proposal.partition_epoch,
            },
            on_reply,
        )

    def _isr_outcome(
        self, partition: TopicPartition, proposal: IsrProposal, answer: Message | None
    ) -> PartitionState | ErrorCode | None:
        """The new state, or why not; None where the answer does not tell whether it is in force."""
        if answer is None:
            return None
        known = self._metadata.partition(partition)
        try:
            code = error_code(answer["code"])
            if code is not ErrorCode.none:
                return code
            if known is None:
                return ErrorCode.unknown_topic_or_partition
            return PartitionState(
                known.replicas,
                tuple(BrokerId(number(one)) for one in listed(answer["isr"])),
                self._local_id,
                proposal.leader_epoch,
                PartitionEpoch(number(answer["partition_epoch"])),
            )
        except (PeerError, KeyError) as error:
            log.warning("%s: not an answer to an ISR proposal: %r", partition, error)
            return None

    def request_topic_creation(self, names: list[str]) -> None:
        """Have missing topics created with default settings, unless that is under way."""
        names = [name for name in names if name not in self._being_created]
        if not names:
            return
        self._being_created.update(names)

        def on_reply(answer: Message | None) -> None:
            self._being_created.difference_update(names)
            for name, code in (answer or {}).items():
                if code not in (0, ErrorCode.topic_already_exists):
                    log.info("auto-creation of topic %s: %s", name, _name_of(code))

        self._ask_controller("create_topics", {"names": names}, on_reply, _AUTO_CREATE_TIMEOUT_MS)

    def alter_topic_configs(
        self,
        alterations: Sequence[TopicAlteration],
        *,
        validate_only: bool,
        on_done: Callable[[dict[str, Outcome] | None], None],
    ) -> None:
        """Have configs of topics changed; the outcome by topic, None without an answer in time."""

        def on_reply(answer: Message | None) -> None:
            try:
                outcomes = None if answer is None else decode_outcomes(answer)
            except PeerError as error:
                log.warning("the controller's answer is not understood: %s", error)
                outcomes = None
            on_done(outcomes)

        self._ask_controller(
            config_requests.REQUEST_KIND,
            encode_alterations(alterations, validate_only=validate_only),
            on_reply,
            _AUTO_CREATE_TIMEOUT_MS,
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

        def on_reply(answer: Message | None) -> None:
            nonlocal asked
            if answer and answer.get("done"):
                finish(True)
            elif answer:
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
                    "controlled_shutdown", {"broker": self._local_id}, on_reply, remaining_ms
                )
            self._loop.call_after(_LOOK_FOR_CONTROLLER_MS, look)

        look()

    def _ask_controller(
        self,
        kind: str,
        body: dict[str, Any],
        on_reply: Callable[[Message | None], None],
        timeout_ms: int = _ASK_TIMEOUT_MS,
    ) -> None:
        endpoint = self._metadata.controller_endpoint()
        if endpoint is None or self._link is None:
            self._loop.defer(lambda: on_reply(None))
        else:
            self._link.ask(endpoint, kind, body, on_reply, timeout_ms)


def _name_of(code: object) -> str:
    try:
        return error_code(code).name
    except PeerError:
        return "an answer that is not understood"
