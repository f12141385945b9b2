"""What brokers and clients ask of the controller, each as one operation of its driver.

An answer is given when the registry has the change and, for topics, every live broker knows it;
REQUEST_TIMED_OUT if that takes longer than the client wants to wait (DelayedCreatePartitions).
"""

import logging
import uuid
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from cluster.coordinator.controller.broker_updates import UPDATE_TIMEOUT_MS
from cluster.coordinator.controller.control_link import Message
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.controller_driver import ControllerDriver
from cluster.coordinator.controller.message_fields import listed, number, text
from cluster.coordinator.controller.plan import Outcome, Plan
from cluster.coordinator.controller.topic_plans import NewTopic
from cluster.model.cluster import TopicState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition

log = logging.getLogger(__name__)

_NOT_CONTROLLER: Final = Outcome(
    ErrorCode.not_controller, "This is not the correct controller for this cluster."
)

_ISR_CHANGES_MAX: Final = 200
"""In one operation: a few milliseconds of the loop, and one transaction in the registry."""

_TIMED_OUT: Final = Outcome(
    ErrorCode.request_timed_out,
    "It is done, but the timeout was over before every broker had heard of it.",
)


class IsrChange(NamedTuple):
    """A leader's proposal: who leads what, the ISR it wants, and of which state."""

    broker: BrokerId
    partition: TopicPartition
    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    reply: Callable[[Message], None]


class ControllerRequests:
    """Every `on_done` and `reply` is called exactly once, on the broker's thread.

    Where this broker is not the controller, or stops being it, the outcomes are `not_controller`.
    """

    def __init__(self, driver: ControllerDriver) -> None:
        self._driver = driver
        self._isr_changes: list[IsrChange] = []
        """Proposed and not planned yet; an operation that plans them is in the queue."""

    def on_controlled_shutdown(self, broker: BrokerId, on_done: Callable[[bool], None]) -> None:
        """Move leaderships away from a broker that is about to stop, then call back."""

        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            plan = controller.on_controlled_shutdown(broker)

            def finish(is_done: bool) -> None:
                if is_done:
                    self._tell(plan, lambda _do_all_know: on_done(True), UPDATE_TIMEOUT_MS)
                else:
                    on_done(False)

            return plan, finish

        self._driver.enqueue(operation, lambda: on_done(False))

    # -- in-sync replicas --------------------------------------------------------------------

    def on_isr_proposed(self, message: Message, reply: Callable[[Message], None]) -> None:
        """A leader's proposal, as a control message; the reply holds a code and the new state.

        Raises KeyError or PeerError when the message is not one.
        """
        partition = TopicPartition(text(message["topic"]), number(message["partition"]))
        broker = BrokerId(number(message["broker"]))
        isr = tuple(BrokerId(number(one)) for one in listed(message["isr"]))
        leader_epoch = LeaderEpoch(number(message["leader_epoch"]))
        partition_epoch = PartitionEpoch(number(message["partition_epoch"]))

        self._isr_changes.append(
            IsrChange(broker, partition, isr, leader_epoch, partition_epoch, reply)
        )
        if len(self._isr_changes) == 1:
            self._driver.enqueue(self._change_isrs, self._refuse_isr_changes)

    def _change_isrs(self, controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
        """All that were proposed while the operation before was under way, in one: a broker that
        comes back joins thousands at once.
        """
        changes = self._isr_changes[:_ISR_CHANGES_MAX]
        del self._isr_changes[:_ISR_CHANGES_MAX]
        plan = Plan()
        outcomes = []
        for change in changes:
            if change.partition in plan.changed:
                outcomes.append(Outcome(ErrorCode.invalid_update_version))
                continue
            one, outcome = controller.on_isr_proposed(*change[:-1])
            plan.changed.update(one.changed)
            outcomes.append(outcome)

        def finish(is_done: bool) -> None:
            for change, outcome in zip(changes, outcomes, strict=True):
                code = outcome.code if is_done else ErrorCode.not_controller
                state = plan.changed.get(change.partition)
                if code is not ErrorCode.none or state is None:
                    change.reply({"code": int(code)})
                    continue
                log.info("%s: ISR is %s", change.partition, list(state.isr))
                isr, epoch = list(state.isr), state.partition_epoch
                change.reply({"code": 0, "isr": isr, "partition_epoch": epoch})
            if is_done and plan.changed:
                self._driver.updates.tell_everyone(plan, full_to=set())

        if self._isr_changes:
            self._driver.enqueue(self._change_isrs, self._refuse_isr_changes)
        return plan, finish

    def _refuse_isr_changes(self) -> None:
        changes, self._isr_changes = self._isr_changes, []
        for change in changes:
            change.reply({"code": int(ErrorCode.not_controller)})

    # -- topics ------------------------------------------------------------------------------

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


def _all_late(outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    return {name: _late(outcome) for name, outcome in outcomes.items()}


def _late(outcome: Outcome) -> Outcome:
    """What was done in the registry, but is not known everywhere: as Kafka has it, an error."""
    return _TIMED_OUT if outcome.code is ErrorCode.none else outcome


def _all_not_controller(names: Iterable[str]) -> dict[str, Outcome]:
    return dict.fromkeys(names, _NOT_CONTROLLER)
