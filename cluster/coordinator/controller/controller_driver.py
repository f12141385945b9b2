"""Carries out the controller's plans: elections through the registry, writes, messages to brokers.

One operation is in progress at a time: plan, write to the registry (on the registry thread), apply,
tell the brokers. Everything else waits in a queue.
"""

import logging
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from cluster.coordinator.controller import registry_store
from cluster.coordinator.controller.control_link import ControlLink, Message
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.plan import Outcome, Plan
from cluster.coordinator.controller.registry_store import Deposed, Election, OutOfStep
from cluster.coordinator.controller.topic_plans import NewTopic, TopicRules
from cluster.coordinator.controller.update import ClusterUpdate, encode_update
from cluster.coordinator.registry.kazoo_session import KazooSession
from cluster.model.cluster import BrokerRegistration, ClusterState, TopicState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_UPDATE_TIMEOUT_MS = 5_000
"""A live broker that does not acknowledge an update in this time is sent the full state again."""
_RETRY_MS = 500

Operation = Callable[[Controller], tuple[Plan, Callable[[bool], None]]]
"""Makes a plan, and takes whether it was carried out."""


class ControllerDriver:
    """One per broker; active while this broker holds `/controller`.

    Invariant: plans are made from a state that equals the registry's.
    """

    def __init__(
        self,
        local_id: BrokerId,
        registry: KazooSession,
        link: ControlLink,
        loop: EventLoop,
        clock: Clock,
        rules: TopicRules,
        is_unclean: Callable[[Mapping[str, str]], bool],
        random: Random,
    ) -> None:
        self._local_id = local_id
        self._registry = registry
        self._link = link
        self._loop = loop
        self._clock = clock
        self._rules = rules
        self._is_unclean = is_unclean
        self._random = random
        self._controller: Controller | None = None
        self._epoch_version = -1
        self._queue: deque[tuple[Operation, Callable[[], None]]] = deque()
        self._is_busy = False
        self._is_campaigning = False
        self._is_stopping = False

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller and has loaded the cluster's state."""
        return self._controller is not None

    # -- election ----------------------------------------------------------------------------

    def campaign(self) -> None:
        """Try to become the controller, and watch whoever is."""
        if self._is_stopping or self._is_campaigning or self._controller is not None:
            return
        self._is_campaigning = True
        wall_ms = self._clock.wall_ms()
        watch = self._registry.watcher(self._on_controller_changed)
        self._registry.submit(
            lambda client: (
                registry_store.campaign(client, self._local_id, wall_ms),
                registry_store.watch_controller(client, watch),
            ),
            lambda result: self._on_election(*result),
            self._on_campaign_failed,
        )

    def resign(self) -> None:
        """Stop being the controller; operations in the queue fail."""
        if self._controller is not None:
            log.info("no longer the controller (epoch %d)", self._controller.epoch)
        self._controller = None
        self._is_busy = False
        queue, self._queue = self._queue, deque()
        for _, refuse in queue:
            refuse()

    def stop(self) -> None:
        """The broker is shutting down: do not campaign again."""
        self._is_stopping = True
        self.resign()

    def _on_election(self, election: Election, controller: BrokerId | None) -> None:
        self._is_campaigning = False
        if controller is None:
            self.campaign()  # gone between the two looks
        elif election.epoch is not None and controller == self._local_id:
            self._take_over(election)

    def _on_campaign_failed(self, error: Exception) -> None:
        self._is_campaigning = False
        log.warning("cannot reach the registry to elect a controller: %r", error)
        self._loop.call_after(_RETRY_MS, self.campaign)

    def _on_controller_changed(self) -> None:
        # Also when we lost the node without losing the session (deleted by hand).
        if self._controller is not None:
            self.resign()
        self.campaign()

    def _take_over(self, election: Election) -> None:
        watch = self._registry.watcher(self._on_brokers_changed)
        self._registry.submit(
            lambda client: (
                registry_store.load_cluster(client),
                registry_store.live_brokers(client, watch),
            ),
            lambda result: self._on_loaded(election, *result),
            lambda error: self._on_campaign_failed(error),
        )

    def _on_loaded(
        self, election: Election, state: ClusterState, brokers: list[BrokerRegistration]
    ) -> None:
        if election.epoch is None:
            return
        log.info(
            "controller in epoch %d with %d brokers, %d topics",
            election.epoch,
            len(brokers),
            len(state.topics),
        )
        self._controller = Controller(
            election.epoch, state, self._rules, self._random, self._is_unclean
        )
        self._epoch_version = election.epoch_version
        self._is_busy = False

        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            plan = controller.on_takeover(brokers)
            everyone = {broker.id for broker in brokers}

            def on_done(is_done: bool) -> None:
                if is_done:
                    self._tell_everyone(plan, full_to=everyone, done=_nothing)

            return plan, on_done

        self._enqueue(operation, _nothing)

    # -- brokers -----------------------------------------------------------------------------

    def _on_brokers_changed(self) -> None:
        if self._controller is None:
            return
        watch = self._registry.watcher(self._on_brokers_changed)
        self._registry.submit(
            lambda client: registry_store.live_brokers(client, watch),
            self._on_registrations,
            self._on_lost_registry,
        )

    def _on_registrations(self, brokers: list[BrokerRegistration]) -> None:
        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            before = set(controller.state.brokers)
            plan, joined = controller.on_brokers_changed(brokers)
            after = set(controller.state.brokers)
            if before != after or joined:
                log.info("live brokers: %s (new: %s)", sorted(after), sorted(joined))
            self._link.forget_all_but({b.control_endpoint for b in brokers})

            def on_done(is_done: bool) -> None:
                if is_done:
                    self._tell_everyone(plan, full_to=set(joined), done=_nothing)

            return plan, on_done

        self._enqueue(operation, _nothing)

    def on_controlled_shutdown(self, broker: BrokerId, on_done: Callable[[bool], None]) -> None:
        """Move leaderships away from a broker that is about to stop, then call back."""

        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            plan = controller.on_controlled_shutdown(broker)

            def finish(is_done: bool) -> None:
                if is_done:
                    self._tell_everyone(plan, full_to=set(), done=lambda: on_done(True))
                else:
                    on_done(False)

            return plan, finish

        self._enqueue(operation, lambda: on_done(False))

    # -- in-sync replicas --------------------------------------------------------------------

    def on_isr_proposed(self, message: Message, reply: Callable[[Message], None]) -> None:
        """A leader's proposal, as a control message; the reply holds a code and the new state."""
        partition = TopicPartition(message["topic"], message["partition"])

        def operation(controller: Controller) -> tuple[Plan, Callable[[bool], None]]:
            plan, outcome = controller.on_isr_proposed(
                BrokerId(message["broker"]),
                partition,
                tuple(map(BrokerId, message["isr"])),
                LeaderEpoch(message["leader_epoch"]),
                PartitionEpoch(message["partition_epoch"]),
            )

            def finish(is_done: bool) -> None:
                if outcome.code is not ErrorCode.none or not is_done:
                    code = outcome.code if is_done else ErrorCode.not_controller
                    reply({"code": int(code)})
                    return
                state = plan.changed[partition]
                log.info("%s: ISR is %s", partition, list(state.isr))
                reply(
                    {
                        "code": 0,
                        "isr": list(state.isr),
                        "partition_epoch": state.partition_epoch,
                    }
                )
                self._tell_everyone(plan, full_to=set(), done=_nothing)

            return plan, finish

        self._enqueue(operation, lambda: reply({"code": int(ErrorCode.not_controller)}))

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
                self._tell_everyone(
                    plan, set(), lambda: on_done(outcomes, planned), timeout_ms=timeout_ms
                )

            return plan, finish

        self._enqueue(
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
                self._tell_everyone(plan, set(), lambda: on_done(outcomes), timeout_ms=timeout_ms)

            return plan, finish

        self._enqueue(operation, refuse)

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
                self._tell_everyone(plan, set(), lambda: on_done(outcomes), timeout_ms=timeout_ms)

            return plan, finish

        self._enqueue(operation, refuse)

    # -- one operation at a time ----------------------------------------------------------------

    def _enqueue(self, operation: Operation, refuse: Callable[[], None]) -> None:
        if self._controller is None:
            refuse()
            return
        self._queue.append((operation, refuse))
        self._next()

    def _next(self) -> None:
        controller = self._controller
        if controller is None or self._is_busy or not self._queue:
            return
        operation, refuse = self._queue.popleft()
        self._is_busy = True
        plan, finish = operation(controller)
        if plan.is_empty:
            self._is_busy = False
            finish(True)
            self._next()
            return
        epoch_version = self._epoch_version

        def on_written(_result: None) -> None:
            if self._controller is not controller:
                finish(False)
                return
            self._is_busy = False
            plan.apply(controller.state)
            finish(True)
            self._next()

        def on_failed(error: Exception) -> None:
            finish(False)
            self._on_lost_registry(error)

        self._registry.submit(
            lambda client: _commit(client, plan, controller, epoch_version),
            on_written,
            on_failed,
        )

    def _on_lost_registry(self, error: Exception) -> None:
        """We may have been replaced, or our state is not the registry's: begin again."""
        log.warning("controller operation failed: %r", error)
        held_epoch = self._controller is not None and not isinstance(error, Deposed)
        epoch = None if self._controller is None else self._controller.epoch
        self.resign()
        if held_epoch and epoch is not None:
            election = Election(self._local_id, epoch, self._epoch_version)
            self._loop.call_after(_RETRY_MS, lambda: self._reload(election))
        else:
            self._loop.call_after(_RETRY_MS, self.campaign)

    def _reload(self, election: Election) -> None:
        if self._controller is None and not self._is_stopping:
            self._take_over(election)

    # -- telling the brokers -----------------------------------------------------------------

    def _tell_everyone(
        self,
        plan: Plan,
        full_to: set[BrokerId],
        done: Callable[[], None],
        timeout_ms: int = _UPDATE_TIMEOUT_MS,
    ) -> None:
        """Send what changed to every live broker; `done` once all have acknowledged, or timed out."""
        controller = self._controller
        if controller is None:
            done()
            return
        receivers = [b for b in controller.state.brokers.values() if b.control_endpoint]
        waiting = {broker.id for broker in receivers}

        def on_acknowledged(broker: BrokerId) -> None:
            if broker in waiting:
                waiting.discard(broker)
                if not waiting:
                    done()

        if not receivers:
            done()
        for broker in receivers:
            self._send(
                controller,
                broker,
                plan,
                is_full=broker.id in full_to,
                timeout_ms=max(1, min(timeout_ms, _UPDATE_TIMEOUT_MS)),
                on_settled=partial(on_acknowledged, broker.id),
            )

    def _send(
        self,
        controller: Controller,
        broker: BrokerRegistration,
        plan: Plan,
        *,
        is_full: bool,
        timeout_ms: int,
        on_settled: Callable[[], None],
    ) -> None:
        state = controller.state
        update = ClusterUpdate(
            self._local_id,
            controller.epoch,
            broker.epoch,
            is_full,
            tuple(state.brokers.values()),
            tuple(state.topics.values()) if is_full else tuple(plan.touched_topics(state)),
            () if is_full else tuple(plan.deleted),
        )

        def on_reply(reply: Message | None) -> None:
            on_settled()
            if self._controller is not controller:
                return
            current = state.brokers.get(broker.id)
            if current is None or current.epoch != broker.epoch:
                return
            if reply is None:
                log.warning("broker %d did not acknowledge an update; resending all", broker.id)
                self._send(
                    controller,
                    broker,
                    plan,
                    is_full=True,
                    timeout_ms=_UPDATE_TIMEOUT_MS,
                    on_settled=_nothing,
                )
            elif reply.get("code") == ErrorCode.stale_controller_epoch:
                self._on_lost_registry(Deposed())

        self._link.ask(
            broker.control_endpoint,
            "update_metadata",
            encode_update(update),
            on_reply,
            timeout_ms,
        )


_NOT_CONTROLLER = Outcome(ErrorCode.not_controller, "This is not the correct controller.")


def _all_not_controller(names: Any) -> dict[str, Outcome]:
    return dict.fromkeys(names, _NOT_CONTROLLER)


def _commit(client: Any, plan: Plan, controller: Controller, epoch_version: int) -> None:
    registry_store.commit(client, plan, controller.state, controller.epoch, epoch_version)


def _nothing() -> None:
    return
