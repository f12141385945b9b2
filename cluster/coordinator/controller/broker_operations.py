"""Operations for brokers that register, fail, report offline or full replicas, or stop."""

import logging
from collections.abc import Callable, Mapping

from cluster.coordinator.cluster_store import LoadedCluster
from cluster.coordinator.controller.broker_updates import UPDATE_TIMEOUT_MS, BrokerUpdates
from cluster.coordinator.controller.control_link import Reply
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.operation import tell
from cluster.coordinator.controller.plan_events import note_changed_brokers
from cluster.metrics.events import EventLog
from cluster.model.cluster import BrokerRegistration
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerEpoch, BrokerId, TopicPartition
from cluster.model.plan import Plan
from cluster.protocol.peer.control import (
    Acknowledged,
    AlterPartition,
    ControlledShutdown,
    PartitionAltered,
    ReportFull,
    ReportOffline,
    ShutdownPrepared,
)

log = logging.getLogger(__name__)


class TakeOver:
    """A new controller's first operation: elect missing leaders, send everyone the full state."""

    def __init__(
        self,
        updates: BrokerUpdates,
        brokers: list[BrokerRegistration],
        loaded: LoadedCluster,
        known: Mapping[BrokerId, BrokerEpoch],
        events: EventLog,
    ) -> None:
        """`brokers` are live now, `loaded` was read before them; `known` were live as far as this
        broker knew before it became the controller."""
        self._updates = updates
        self._brokers = brokers
        self._loaded = loaded
        self._known = known
        self._events = events

    def plan(self, controller: Controller) -> Plan:
        loaded = self._loaded
        return controller.on_takeover(self._brokers, loaded.written, loaded.recorded)

    def finish(self, plan: Plan) -> None:
        # An earlier controller has already announced the registrations that it processed.
        recorded = self._loaded.recorded
        told = {
            each.id: each.epoch for each in self._brokers if each.epoch < recorded.get(each.id, 0)
        }
        note_changed_brokers(self._events, {**told, **self._known}, self._brokers)
        self._updates.tell_everyone(plan, full_to={broker.id for broker in self._brokers})

    def refuse(self) -> None:
        """Nobody waits for an answer; the next controller begins with the same operation."""


class ChangeOfBrokers:
    """Brokers have registered, or their sessions have ended."""

    def __init__(
        self,
        updates: BrokerUpdates,
        brokers: list[BrokerRegistration],
        forget_all_but: Callable[[set[str]], None],
        events: EventLog,
    ) -> None:
        """`forget_all_but` receives the control endpoints that remain."""
        self._updates = updates
        self._brokers = brokers
        self._forget_all_but = forget_all_but
        self._events = events
        self._before: dict[BrokerId, BrokerEpoch] = {}
        self._joined: set[BrokerId] = set()

    def plan(self, controller: Controller) -> Plan:
        self._before = {each.id: each.epoch for each in controller.state.brokers.values()}
        plan, joined = controller.on_brokers_changed(self._brokers)
        self._joined = set(joined)
        after = set(controller.state.brokers)
        if self._before.keys() != after or joined:
            log.info("live brokers: %s (new: %s)", sorted(after), sorted(joined))
        self._forget_all_but({broker.control_endpoint for broker in self._brokers})
        return plan

    def finish(self, plan: Plan) -> None:
        note_changed_brokers(self._events, self._before, self._brokers)
        self._updates.tell_everyone(plan, full_to=self._joined)

    def refuse(self) -> None:
        """Nobody waits for an answer; the next controller reads the registrations itself."""


class LeadersForOffline:
    """Unclean elections were enabled: elect leaders of partitions that have none."""

    def __init__(self, updates: BrokerUpdates) -> None:
        self._updates = updates

    def plan(self, controller: Controller) -> Plan:
        return controller.elect_again()

    def finish(self, plan: Plan) -> None:
        if plan.changed:
            log.info("unclean elections: %d partitions", len(plan.changed))
            self._updates.tell_everyone(plan, full_to=set())

    def refuse(self) -> None:
        """Nobody waits for an answer; the next controller elects when it takes over."""


class Shutdown:
    """Move leaderships away from a broker that is about to stop, then answer it."""

    def __init__(self, updates: BrokerUpdates, request: ControlledShutdown, reply: Reply) -> None:
        self._updates = updates
        self._request = request
        self._reply = reply
        self._is_its_own = False

    def plan(self, controller: Controller) -> Plan:
        self._is_its_own = _is_its_own(controller, self._request)
        if not self._is_its_own:
            return Plan()
        return controller.on_controlled_shutdown(self._request.broker)

    def finish(self, plan: Plan) -> None:
        if not self._is_its_own:
            self.refuse()
            return
        tell(
            self._updates,
            plan,
            lambda _do_all_know: self._reply(ShutdownPrepared(True)),
            UPDATE_TIMEOUT_MS,
        )

    def refuse(self) -> None:
        self._reply(ShutdownPrepared(False))


class OfflineReplicas:
    """Replicas of a live broker are offline because of a log directory, or lost."""

    def __init__(self, updates: BrokerUpdates, request: ReportOffline, reply: Reply) -> None:
        self._updates = updates
        self._request = request
        self._reply = reply
        self._code = ErrorCode.stale_broker_epoch

    def plan(self, controller: Controller) -> Plan:
        request = self._request
        if not _is_its_own(controller, request):
            return Plan()
        self._code = ErrorCode.none
        count = sum(len(each.partitions) for each in request.offline)
        log.warning("%d replicas of broker %d are offline", count, request.broker)
        return controller.on_offline(request.broker, request.offline)

    def finish(self, plan: Plan) -> None:
        if self._code is ErrorCode.none:
            # Clients ask which replicas are offline, also if no leader changes.
            self._updates.tell_everyone(plan, full_to=set())
        self._reply(Acknowledged(self._code))

    def refuse(self) -> None:
        self._reply(Acknowledged(ErrorCode.not_controller))


class FullDirectories:
    """Log directories of a live broker are full, or have room again: all brokers are told."""

    def __init__(self, updates: BrokerUpdates, request: ReportFull, reply: Reply) -> None:
        self._updates = updates
        self._request = request
        self._reply = reply
        self._code = ErrorCode.stale_broker_epoch

    def plan(self, controller: Controller) -> Plan:
        request = self._request
        if _is_its_own(controller, request):
            self._code = ErrorCode.none
            count = sum(len(each.partitions) for each in request.full)
            log.log(
                logging.WARNING if count else logging.INFO,
                "%d replicas of broker %d are in full log directories",
                count,
                request.broker,
            )
            controller.on_full(request.broker, request.full, request.reason)
        return Plan()

    def finish(self, plan: Plan) -> None:
        if self._code is ErrorCode.none:
            self._updates.tell_everyone(plan, full_to=set())
        self._reply(Acknowledged(self._code))

    def refuse(self) -> None:
        self._reply(Acknowledged(ErrorCode.not_controller))


class LeadersWithRoom:
    """Elect other leaders for partitions whose leader's log directory is full."""

    def __init__(self, updates: BrokerUpdates) -> None:
        self._updates = updates

    def plan(self, controller: Controller) -> Plan:
        return controller.leave_full()

    def finish(self, plan: Plan) -> None:
        if plan.changed:
            log.warning(
                "%d partitions are led by other brokers now, whose log directories have room",
                len(plan.changed),
            )
            self._updates.tell_everyone(plan, full_to=set())

    def refuse(self) -> None:
        """Nobody waits for an answer; full directories are reported to the next controller too."""


class IsrUpdates:
    """ISR proposals of leaders; each is answered with an error code or the new state."""

    def __init__(
        self, updates: BrokerUpdates, take: Callable[[], list[tuple[AlterPartition, Reply]]]
    ) -> None:
        """`take` returns the proposals when the operation's turn comes."""
        self._updates = updates
        self._take = take
        self._changes: list[tuple[AlterPartition, Reply]] | None = None
        self._codes: list[ErrorCode] = []

    def plan(self, controller: Controller) -> Plan:
        plan = Plan()
        self._changes = self._take()
        self._codes = [_plan_isr(controller, request, plan) for request, _ in self._changes]
        return plan

    def finish(self, plan: Plan) -> None:
        for (request, reply), code in zip(self._changes or (), self._codes, strict=True):
            if code is not ErrorCode.none:
                reply(PartitionAltered(code))
                continue
            partition = TopicPartition(request.topic, request.partition)
            state = plan.changed[partition]
            log.info("%s: ISR is %s", partition, list(state.isr))
            reply(
                PartitionAltered(ErrorCode.none, state.isr, state.partition_epoch, state.eligible)
            )
        if plan.changed:
            self._updates.tell_everyone(plan, full_to=set())

    def refuse(self) -> None:
        if self._changes is None:
            self._changes = self._take()
            self._codes = [ErrorCode.none] * len(self._changes)
        for (_, reply), code in zip(self._changes, self._codes, strict=True):
            # A proposal that had an error was not part of the write.
            reply(PartitionAltered(ErrorCode.not_controller if code is ErrorCode.none else code))


def _is_its_own(
    controller: Controller,
    request: AlterPartition | ControlledShutdown | ReportFull | ReportOffline,
) -> bool:
    """Whether a registered broker sent the request in its current epoch (KIP-380)."""
    registered = controller.state.brokers.get(request.broker)
    return registered is not None and registered.epoch == request.broker_epoch


def _plan_isr(controller: Controller, request: AlterPartition, plan: Plan) -> ErrorCode:
    """Add a leader's proposal to the plan; returns the error code if it is refused."""
    partition = TopicPartition(request.topic, request.partition)
    if not _is_its_own(controller, request):
        return ErrorCode.stale_broker_epoch
    if partition in plan.changed:
        return ErrorCode.invalid_update_version
    own, outcome = controller.on_isr_proposed(
        request.broker,
        partition,
        request.isr,
        request.leader_epoch,
        request.partition_epoch,
        request.joining_epoch,
    )
    plan.changed.update(own.changed)
    return outcome.code
