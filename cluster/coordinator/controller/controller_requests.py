"""What brokers and clients ask of the controller, each as one operation of its driver.

An answer is given when the registry has the change and, for topics, every live broker knows it;
REQUEST_TIMED_OUT if that takes longer than the client wants to wait (DelayedCreatePartitions).
"""

import logging
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from cluster.coordinator.controller.broker_updates import UPDATE_TIMEOUT_MS
from cluster.coordinator.controller.control_link import Reply
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.controller_driver import ControllerDriver
from cluster.coordinator.controller.topic_outcomes import topic_outcomes
from cluster.model.cluster import TopicState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.plan import Outcome, Plan
from cluster.model.topics import NewTopic
from cluster.protocol.peer.control import (
    AlterPartition,
    ControlledShutdown,
    CreateTopics,
    PartitionAltered,
    ShutdownPrepared,
)

log = logging.getLogger(__name__)

_NOT_CONTROLLER: Final = Outcome(
    ErrorCode.not_controller, "This is not the correct controller for this cluster."
)

_ISR_CHANGES_MAX: Final = 50
"""In one operation: a millisecond or two of the loop, and one transaction in the registry."""
AUTO_CREATE_TIMEOUT_MS: Final = 10_000
"""Within this time every broker should know a topic that was created since a client missed it."""

_TIMED_OUT: Final = Outcome(
    ErrorCode.request_timed_out,
    "It is done, but the timeout was over before every broker had heard of it.",
)


class ControllerRequests:
    """Every `on_done` and `reply` is called exactly once, on the broker's thread.

    Where this broker is not the controller, or stops being it, the outcomes are `not_controller`.
    """

    def __init__(self, driver: ControllerDriver) -> None:
        self._driver = driver
        self._isr_changes: list[tuple[AlterPartition, Reply]] = []
        """Proposed and not planned yet; an operation that plans them is in the queue."""

    def on_controlled_shutdown(self, request: ControlledShutdown, reply: Reply) -> None:
        """Move leaderships away from a broker that is about to stop, then answer."""

        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            is_its_own = _is_its_own(controller, request)
            plan = controller.on_controlled_shutdown(request.broker) if is_its_own else Plan()

            def finish(is_done: bool) -> None:
                if is_done and is_its_own:
                    self._tell(
                        plan, lambda _do_all_know: reply(ShutdownPrepared(True)), UPDATE_TIMEOUT_MS
                    )
                else:
                    reply(ShutdownPrepared(False))

            return plan, finish

        self._driver.enqueue(operation, lambda: reply(ShutdownPrepared(False)))

    # -- in-sync replicas --------------------------------------------------------------------

    def on_isr_proposed(self, request: AlterPartition, reply: Reply) -> None:
        """A leader's proposal; the answer holds an error code, or the new state."""
        self._isr_changes.append((request, reply))
        if len(self._isr_changes) == 1:
            self._driver.enqueue(self._change_isrs, self._refuse_isr_changes)

    def _change_isrs(self, controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
        """All that were proposed while the operation before was under way, in one: a broker that
        comes back joins thousands at once.
        """
        changes = self._isr_changes[:_ISR_CHANGES_MAX]
        del self._isr_changes[:_ISR_CHANGES_MAX]
        plan = Plan()
        codes = [_plan_isr(controller, request, plan) for request, _ in changes]

        def finish(is_done: bool) -> None:
            for (request, reply), planned in zip(changes, codes, strict=True):
                # What is refused for what it says was not asked of the registry.
                lost = planned is ErrorCode.none and not is_done
                code = ErrorCode.not_controller if lost else planned
                if code is not ErrorCode.none:
                    reply(PartitionAltered(code))
                    continue
                partition = TopicPartition(request.topic, request.partition)
                state = plan.changed[partition]
                log.info("%s: ISR is %s", partition, list(state.isr))
                reply(PartitionAltered(ErrorCode.none, state.isr, state.partition_epoch))
            if is_done and plan.changed:
                self._driver.updates.tell_everyone(plan, full_to=set())

        if self._isr_changes:
            self._driver.enqueue(self._change_isrs, self._refuse_isr_changes)
        return plan, finish

    def _refuse_isr_changes(self) -> None:
        changes, self._isr_changes = self._isr_changes, []
        for _, reply in changes:
            reply(PartitionAltered(ErrorCode.not_controller))

    # -- topics ------------------------------------------------------------------------------

    def on_topics_missed(self, request: CreateTopics, reply: Reply) -> None:
        """A broker's client asked for topics that are not there, and may have them created."""
        self.create_topics(
            [NewTopic(name) for name in request.names],
            validate_only=False,
            timeout_ms=AUTO_CREATE_TIMEOUT_MS,
            on_done=lambda outcomes, _planned: reply(topic_outcomes(outcomes)),
        )

    def create_topics(
        self,
        topics: list[NewTopic],
        *,
        validate_only: bool,
        timeout_ms: int,
        on_done: Callable[[dict[str, Outcome], dict[str, TopicState]], None],
    ) -> None:
        """Create topics; calls back when every live broker knows them, or at the timeout."""

        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            plan, outcomes, planned = controller.create_topics(topics)
            if validate_only:
                plan = Plan()

            def finish(is_done: bool) -> None:
                if not is_done:
                    on_done(_all_not_controller(topic.name for topic in topics), {})
                    return
                for topic in plan.created:
                    log.info("created topic %s (%d partitions)", topic.name, len(topic.partitions))

                def answer(do_all_know: bool) -> None:
                    on_done(outcomes if do_all_know else _all_late(outcomes), planned)

                self._tell(plan, answer, timeout_ms)

            return plan, finish

        self._driver.enqueue(
            operation, lambda: on_done(_all_not_controller(topic.name for topic in topics), {})
        )

    def delete_topics(
        self,
        topics: list[tuple[str | None, uuid.UUID | None]],
        timeout_ms: int,
        on_done: Callable[[list[tuple[str | None, uuid.UUID | None, Outcome]]], None],
    ) -> None:
        """Delete topics; calls back when every live broker has dropped them, or at the timeout."""

        def refuse() -> None:
            on_done([(name, topic_id, _NOT_CONTROLLER) for name, topic_id in topics])

        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            plan, outcomes = controller.delete_topics(topics)

            def finish(is_done: bool) -> None:
                if not is_done:
                    refuse()
                    return
                for name in plan.deleted:
                    log.info("deleted topic %s", name)

                def answer(do_all_know: bool) -> None:
                    on_done([(n, i, o if do_all_know else _late(o)) for n, i, o in outcomes])

                self._tell(plan, answer, timeout_ms)

            return plan, finish

        self._driver.enqueue(operation, refuse)

    def create_partitions(
        self,
        topics: list[tuple[str, int, list[tuple[BrokerId, ...]] | None]],
        *,
        validate_only: bool,
        timeout_ms: int,
        on_done: Callable[[dict[str, Outcome]], None],
    ) -> None:
        """Enlarge topics; calls back when every live broker knows, or at the timeout."""

        def refuse() -> None:
            on_done(_all_not_controller(name for name, _, _ in topics))

        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            plan, outcomes = controller.create_partitions(topics)
            if validate_only:
                plan = Plan()

            def finish(is_done: bool) -> None:
                if not is_done:
                    refuse()
                    return

                def answer(do_all_know: bool) -> None:
                    on_done(outcomes if do_all_know else _all_late(outcomes))

                self._tell(plan, answer, timeout_ms)

            return plan, finish

        self._driver.enqueue(operation, refuse)

    def _tell(self, plan: Plan, done: Callable[[bool], None], timeout_ms: int) -> None:
        """Call `done` when every live broker knows the plan, with False if that took too long.

        At once where there is nothing in the plan, or nothing to wait for (0 ms). A broker that
        does not answer for UPDATE_TIMEOUT_MS is waited for no longer, whoever has more time: it is
        as good as gone, and will be sent everything.
        """
        if plan.is_empty:
            done(True)
        elif timeout_ms <= 0:
            self._driver.updates.tell_everyone(plan, set())
            done(False)
        else:
            is_patient = timeout_ms > UPDATE_TIMEOUT_MS
            self._driver.updates.tell_everyone(
                plan, set(), lambda do_all_know: done(do_all_know or is_patient), timeout_ms
            )


def _is_its_own(controller: Controller, request: AlterPartition | ControlledShutdown) -> bool:
    """Whether the broker that is named is registered, in the life that is named (KIP-380)."""
    registered = controller.state.brokers.get(request.broker)
    return registered is not None and registered.epoch == request.broker_epoch


def _plan_isr(controller: Controller, request: AlterPartition, plan: Plan) -> ErrorCode:
    """Add what a leader proposes to the plan, or say why not."""
    partition = TopicPartition(request.topic, request.partition)
    if not _is_its_own(controller, request):
        return ErrorCode.stale_broker_epoch
    if partition in plan.changed:
        return ErrorCode.invalid_update_version
    own, outcome = controller.on_isr_proposed(
        request.broker, partition, request.isr, request.leader_epoch, request.partition_epoch
    )
    plan.changed.update(own.changed)
    return outcome.code


def _all_late(outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    return {name: _late(outcome) for name, outcome in outcomes.items()}


def _late(outcome: Outcome) -> Outcome:
    """What was done in the registry, but is not known everywhere: as Kafka has it, an error."""
    return _TIMED_OUT if outcome.code is ErrorCode.none else outcome


def _all_not_controller(names: Iterable[str]) -> dict[str, Outcome]:
    return dict.fromkeys(names, _NOT_CONTROLLER)
