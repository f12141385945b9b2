"""Carries out the controller's plans: elections through the registry, writes, messages to brokers.

One operation is in progress at a time: plan (elections in slices), write to the registry (on the
registry thread), apply, update the brokers. All others wait in a queue.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Final

from cluster.config.broker import UNCLEAN_LEADER_ELECTION_ENABLE
from cluster.config.snapshot import Settings
from cluster.coordinator.cluster_store import (
    NO_VERSION,
    RETRY_MS,
    ChangedTopics,
    Deposed,
    Election,
    LoadedCluster,
    StoreFull,
    StoreSession,
    outcome_of,
)
from cluster.coordinator.controller.admin_nodes import AdminNodes
from cluster.coordinator.controller.broker_operations import (
    ChangeOfBrokers,
    LeadersForOffline,
    TakeOver,
)
from cluster.coordinator.controller.broker_updates import BrokerUpdates
from cluster.coordinator.controller.control_link import ControlLink
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.election_counts import ElectionCounts
from cluster.coordinator.controller.leader_returns import LeaderReturns, ReturnOptions
from cluster.coordinator.controller.leaderless import report_leaderless
from cluster.coordinator.controller.operation import HasClient, Operation
from cluster.coordinator.controller.plan_events import note_changed_partitions
from cluster.coordinator.controller.reassignment_operations import CompleteReassignments
from cluster.coordinator.controller.topic_config_changes import TopicConfigChanges
from cluster.coordinator.controller.topic_operations import ConfigsChangedElsewhere
from cluster.coordinator.controller.topic_plans import TopicRules
from cluster.coordinator.controller.update_lines import UpdateLines
from cluster.metrics.events import EventKind, EventLog
from cluster.model.cluster import BrokerRegistration
from cluster.model.ids import BrokerId, ControllerEpoch
from cluster.model.plan import Plan
from cluster.runtime.clock import Clock
from cluster.runtime.collector import Growth
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices

log = logging.getLogger(__name__)

_NO_RETURNS: Final = ReturnOptions()
_STEPS_AT_ONCE = 4
"""Steps of a plan in one slice: most plans are complete in one turn."""


class ControllerDriver:
    """One per broker; active while this broker holds `/controller`.

    Invariant: plans are based on a state that equals the registry's. Replies of the registry from
    an earlier term change nothing.
    """

    def __init__(
        self,
        local_id: BrokerId,
        store: StoreSession,
        link: ControlLink,
        loop: EventLoop,
        clock: Clock,
        rules: TopicRules,
        is_unclean: Callable[[Mapping[str, str]], bool],
        random: Random,
        returns: ReturnOptions = _NO_RETURNS,
        known_brokers: Callable[[], Mapping[BrokerId, BrokerRegistration]] = dict,
        events: EventLog | None = None,
        may_delete_topics: Callable[[], bool] = lambda: True,
    ) -> None:
        """`known_brokers` returns the live brokers as this broker knows them while it is not the
        controller. `events` receives the controller's decisions. `may_delete_topics` applies to
        deletions that other tools ask for in the store."""
        self._local_id = local_id
        self._store = store
        self._link = link
        self._loop = loop
        self._clock = clock
        self._rules = rules
        self._is_unclean = is_unclean
        self._random = random
        self._may_delete_topics = may_delete_topics
        self._controller: Controller | None = None
        self._nodes: AdminNodes | None = None
        """What acts on the nodes below `/admin`; None unless this is the controller."""
        self._epoch_version = NO_VERSION
        self._queue: deque[Operation] = deque()
        self._is_busy = False
        self._is_campaigning = False
        self._is_stopping = False
        self._have_brokers_changed = False
        self._campaign_number = 0
        self._term = 0
        """Grows whenever this broker becomes the controller, ceases to be it, or tries to."""
        self._growth = Growth()
        self.elections = ElectionCounts()
        self._known_brokers = known_brokers
        self._events = events or EventLog()
        self._noted_epoch = ControllerEpoch(0)
        """The last epoch reported to `events`: a state may be loaded twice in one epoch."""
        self._slices = Slices(clock.monotonic_us, loop.next_turn)
        self.updates = BrokerUpdates(
            local_id,
            UpdateLines(link, self._slices),
            loop.call_after,
            lambda: self._controller,
            lambda: self._on_lost_registry(Deposed(), self._term),
        )
        self.returns = LeaderReturns(returns, loop, self.updates, self.enqueue)

    @property
    def controller(self) -> Controller | None:
        """The state machine, whose state equals the registry's; None unless this is the
        controller."""
        return self._controller

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller and has loaded the cluster's state."""
        return self._controller is not None

    # -- election ----------------------------------------------------------------------------

    def campaign(self) -> None:
        """Try to become the controller, and watch the current one."""
        if self._is_stopping or self._is_campaigning or self._controller is not None:
            return
        self._is_campaigning = True
        self._campaign_number += 1
        number, term = self._campaign_number, self._term
        wall_ms = self._clock.wall_ms()
        self._store.submit(
            lambda store: (
                store.election.campaign(self._local_id, wall_ms),
                store.election.watch(lambda: self._on_controller_changed(number)),
            ),
            lambda result: self._on_election(term, *result),
            lambda error: self._on_campaign_failed(error, term),
        )

    def resign(self) -> None:
        """Stop being the controller; queued operations fail."""
        self._term += 1
        if self._controller is not None:
            log.info("no longer the controller (epoch %d)", self._controller.epoch)
        self._controller = self._nodes = None
        self.returns.end()
        self._is_campaigning = False
        self._is_busy = False
        queue, self._queue = self._queue, deque()
        for operation in queue:
            operation.refuse()

    def stop(self) -> None:
        """The broker is shutting down: do not campaign again."""
        self._is_stopping = True
        self.resign()

    def _on_election(self, term: int, election: Election, controller: BrokerId | None) -> None:
        if term != self._term:
            return
        self._is_campaigning = False
        if controller is None:
            self.campaign()  # it ended between the two reads
        elif election.epoch is not None and controller == self._local_id:
            self._take_over(election)

    def _on_campaign_failed(self, error: Exception, term: int) -> None:
        if term != self._term:
            return
        self._is_campaigning = False
        log.warning("cannot reach the registry to elect a controller: %r", error)
        self._loop.call_after(RETRY_MS, self.campaign)

    def _on_controller_changed(self, campaign_number: int) -> None:
        if campaign_number != self._campaign_number:
            return  # a later campaign has its own watch, and may itself have caused this change
        # The node may be lost without the session (deleted by hand).
        self.resign()
        self.campaign()

    def _take_over(self, election: Election) -> None:
        self._have_brokers_changed = False
        self._is_campaigning = True
        self._term += 1
        term = self._term
        configs = TopicConfigChanges(
            self._store,
            lambda: term == self._term,
            lambda names: self.enqueue(ConfigsChangedElsewhere(self.updates, names)),
            lambda error: self._on_lost_registry(error, term),
        )
        self._store.submit(
            lambda store: (
                configs.watch(store),
                store.topics.load(election.epoch_version),
                store.brokers.live(lambda: self._on_brokers_changed(term)),
            ),
            lambda result: self._on_loaded(term, election, configs, *result),
            lambda error: self._on_campaign_failed(error, term),
        )

    def _on_loaded(
        self,
        term: int,
        election: Election,
        configs: TopicConfigChanges,
        changed: ChangedTopics,
        loaded: LoadedCluster,
        brokers: list[BrokerRegistration],
    ) -> None:
        if election.epoch is None or term != self._term:
            return
        self._is_campaigning = False
        log.info(
            "controller in epoch %d with %d brokers, %d topics",
            election.epoch,
            len(brokers),
            len(loaded.state.topics),
        )
        self._controller = Controller(
            election.epoch, loaded.state, self._rules, self._random, self._is_unclean
        )
        self._epoch_version = election.epoch_version
        self._is_busy = False

        self.returns.begin()
        if self._noted_epoch != election.epoch:
            self._noted_epoch = election.epoch
            detail = f"epoch {election.epoch}, {len(brokers)} brokers"
            self._events.note(EventKind.CONTROLLER, str(self._local_id), detail)
        known = {each.id: each.epoch for each in self._known_brokers().values()}
        self.enqueue(TakeOver(self.updates, brokers, loaded, known, self._events))
        if self._have_brokers_changed:
            self._on_brokers_changed(term)
        configs.begin(changed)
        self._nodes = AdminNodes(
            self._store,
            self.updates,
            self.enqueue,
            self._controller,
            self._epoch_version,
            may_delete=self._may_delete_topics,
            is_current=lambda: term == self._term,
            on_failed=lambda error: self._on_lost_registry(error, term),
        )
        self._nodes.begin()

    # -- brokers -----------------------------------------------------------------------------

    def _on_brokers_changed(self, term: int) -> None:
        if term != self._term:
            return
        if self._controller is None:
            # The watch fired during the load of the state: brokers are read again afterwards.
            self._have_brokers_changed = True
            return
        self._store.submit(
            lambda store: store.brokers.live(lambda: self._on_brokers_changed(term)),
            lambda brokers: self._on_registrations(term, brokers),
            lambda error: self._on_lost_registry(error, term),
        )

    def _on_registrations(self, term: int, brokers: list[BrokerRegistration]) -> None:
        if term != self._term:
            return
        self.enqueue(
            ChangeOfBrokers(self.updates, brokers, self._link.forget_all_but, self._events)
        )

    def on_settings_changed(self, settings: Settings) -> None:
        """Use these settings from now on."""
        if settings[UNCLEAN_LEADER_ELECTION_ENABLE]:
            self.elect_unclean()

    def elect_unclean(self) -> None:
        """Settings may allow unclean elections now: elect leaders of partitions that have none."""
        if self._controller is not None:
            self.enqueue(LeadersForOffline(self.updates))

    # -- one operation at a time ----------------------------------------------------------------

    def enqueue(self, operation: Operation) -> None:
        """Carry out an operation after those before it, unless it is refused."""
        if self._controller is None:
            operation.refuse()
            return
        self._queue.append(operation)
        self._next()

    def enqueue_later(self, delay_ms: int, operation: Operation) -> None:
        """Like `enqueue` after a delay, if this broker is the controller then."""
        self._loop.call_after(delay_ms, lambda: self.enqueue(operation))

    def _next(self) -> None:
        while self._controller is not None and self._queue and not self._is_busy:
            operation = self._queue.popleft()
            self._is_busy = True
            plan = operation.plan(self._controller)
            self._slices.start(self._carry_out(self._controller, operation, plan), _STEPS_AT_ONCE)

    def _carry_out(
        self, controller: Controller, operation: Operation, plan: Plan
    ) -> Iterator[None]:
        has_waited = False
        for _ in plan.steps:
            has_waited = True
            yield
            if self._controller is not controller:
                operation.refuse()
                return
        if plan.is_empty:
            self._is_busy = False
            operation.finish(plan)
            self._complete_reassignments(controller)
            if has_waited:
                self._loop.next_turn(self._next)
        else:
            self._write(controller, operation, plan)

    def _write(self, controller: Controller, operation: Operation, plan: Plan) -> None:
        epoch_version = self._epoch_version
        term = self._term

        def on_written(_result: None) -> None:
            if self._controller is not controller:
                operation.refuse()
                return
            self._is_busy = False
            self.elections.add(plan.changed, controller.state)
            note_changed_partitions(self._events, plan.changed, controller.state)
            plan.apply(controller.state)
            controller.on_applied(plan)
            if self._nodes is not None:
                self._nodes.on_written(plan)
            report_leaderless(plan.changed)
            self._growth.add(plan.partition_count)
            self.returns.on_written(plan)
            operation.finish(plan)
            if controller.awaits_unclean(plan.configured.keys() | plan.learned.keys()):
                self.elect_unclean()
            self._complete_reassignments(controller)
            self._next()

        def on_failed(error: Exception) -> None:
            if isinstance(error, StoreFull) and isinstance(operation, HasClient):
                # Operations without a client are retried by the controller at that time.
                self._on_store_full(controller, operation, error)
                return
            operation.refuse()
            self._on_lost_registry(error, term)

        self._store.submit(
            lambda store: store.topics.commit(
                plan, controller.state, controller.epoch, epoch_version
            ),
            on_written,
            on_failed,
        )

    def _complete_reassignments(self, controller: Controller) -> None:
        if controller.reassigning.is_due and not any(
            isinstance(operation, CompleteReassignments) for operation in self._queue
        ):
            self._queue.append(CompleteReassignments(self.updates))

    def _on_store_full(
        self, controller: Controller, operation: HasClient, error: StoreFull
    ) -> None:
        log.error("controller operation failed: %s", error)
        operation.fail(outcome_of(error))
        if self._controller is controller:
            self._is_busy = False
            if isinstance(operation, CompleteReassignments):
                self._loop.call_after(RETRY_MS, lambda: self._complete_again(controller))
            self._next()

    def _complete_again(self, controller: Controller) -> None:
        if self._controller is controller:
            controller.reassigning.look_again()
            self._complete_reassignments(controller)
            self._next()

    def _on_lost_registry(self, error: Exception, term: int) -> None:
        """Start again: this broker may have been replaced, or its state may differ from the
        registry's."""
        if term != self._term:
            return
        log.warning("controller operation failed: %r", error)
        epoch = None if self._controller is None else self._controller.epoch
        self.resign()
        if epoch is not None and not isinstance(error, Deposed):
            election = Election(self._local_id, epoch, self._epoch_version)
            term = self._term
            self._loop.call_after(RETRY_MS, lambda: self._reload(term, election))
        else:
            self._loop.call_after(RETRY_MS, self.campaign)

    def _reload(self, term: int, election: Election) -> None:
        if term == self._term and not self._is_campaigning:
            self._take_over(election)  # `/controller` is still ours from that election
