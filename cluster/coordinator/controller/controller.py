"""The controller's state machine: turns events into plans. Pure; the driver does the I/O.

One plan is carried out at a time (registry first, then `Plan.apply`, then updates to the brokers),
so a plan is always based on the state that the registry holds.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from random import Random

from cluster.coordinator.controller.config_plans import plan_topic_configs
from cluster.coordinator.controller.elections import (
    ElectionRules,
    RulesOf,
    elect_all,
    elect_where_offline,
    lead_where_room_is,
    move_all_away,
    with_isr,
)
from cluster.coordinator.controller.leader_elections import (
    Elected,
    ElectionType,
    elect_asked,
    return_leaders,
)
from cluster.coordinator.controller.reassignments import (
    Answered,
    Asked,
    Reassigning,
    plan_completions,
    plan_moves,
)
from cluster.coordinator.controller.topic_plans import (
    Admit,
    TopicRules,
    everything,
    plan_create_topics,
    plan_more_partitions,
)
from cluster.model.cluster import (
    BrokerRegistration,
    ClusterState,
    OfflinePartitions,
    TopicState,
)
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
    new_uuid,
)
from cluster.model.log_condition import INTACT
from cluster.model.plan import Outcome, Plan
from cluster.model.topics import NewTopic, TopicAlteration


class Controller:
    """Exists while this broker holds `/controller`, for one controller epoch.

    Invariant: every planned change of a partition raises its partition epoch by exactly one, so
    that the conditional write detects any other writer.
    """

    def __init__(
        self,
        epoch: ControllerEpoch,
        state: ClusterState,
        rules: TopicRules,
        random: Random,
        is_unclean: Callable[[Mapping[str, str]], bool],
    ) -> None:
        self.epoch = epoch
        self.state = state
        self._rules = rules
        self._random = random
        self._is_unclean = is_unclean
        self._shutting_down: set[BrokerId] = set()
        self.reassigning = Reassigning(state)

    # -- brokers -----------------------------------------------------------------------------

    def on_takeover(
        self,
        registrations: Iterable[BrokerRegistration],
        written: Mapping[TopicPartition, BrokerEpoch],
        recorded: Mapping[BrokerId, BrokerEpoch],
    ) -> Plan:
        """Plan the elections that are due when this controller starts; live leaders stay.

        `written`, `recorded`: see `LoadedCluster`. A broker was away if it registered after a
        partition's state was written, or if no controller has processed its registration.
        """
        brokers = self.state.brokers
        brokers.update({broker.id: broker for broker in registrations})
        judged = [
            broker
            for broker in brokers.values()
            if broker.condition == INTACT or broker.epoch < recorded.get(broker.id, 0)
        ]

        def stayed(partition: TopicPartition) -> set[BrokerId]:
            since = written.get(partition, 0)
            return {broker.id for broker in judged if broker.epoch < since}

        return self._elections(stayed, brokers)

    def on_brokers_changed(
        self, registrations: Iterable[BrokerRegistration]
    ) -> tuple[Plan, list[BrokerId]]:
        """Brokers registered, failed, or returned with a new epoch.

        Returns the elections, and the new brokers that need the full state.
        """
        new = {broker.id: broker for broker in registrations}
        old = self.state.brokers
        joined = [
            broker_id
            for broker_id, broker in new.items()
            if broker_id not in old or old[broker_id].epoch != broker.epoch
        ]
        stayed = {broker_id for broker_id in old if broker_id in new and broker_id not in joined}
        self._shutting_down &= stayed
        for broker_id in old:
            if broker_id not in stayed:
                # It reports its offline replicas again once it knows that it is registered.
                self.state.set_offline(broker_id, ())
                self.state.full.put(broker_id, ())
                self.state.full_brokers.pop(broker_id, None)
        self.state.brokers.clear()
        self.state.brokers.update(new)
        self.reassigning.look_again()
        # A broker that restarted between two reads was away: it loses its leaderships first.
        return self._elections(lambda _: stayed, joined), joined

    def elect_again(self) -> Plan:
        """Plan elections that became possible without a change of the brokers."""
        live = set(self.state.brokers)
        return self._elections(lambda _: live)

    def awaits_unclean(self, names: Iterable[str]) -> bool:
        """Whether one of these topics has a partition without leader and allows unclean
        elections."""
        topics = (self.state.topics.get(name) for name in names)
        return any(
            self._is_unclean(topic.configs)
            for topic in topics
            if topic is not None
            and any(state.leader == NO_BROKER for state in topic.partitions.values())
        )

    def on_controlled_shutdown(self, broker: BrokerId) -> Plan:
        """The broker is about to stop: move its leaderships to others."""
        self._shutting_down.add(broker)
        plan = Plan()
        rules = self._election_rules()
        steps = move_all_away(self.state, broker, self._staying, rules, plan.changed)
        plan.steps = self._then_where_room_is(steps, plan)
        return plan

    def on_offline(self, broker: BrokerId, replicas: Sequence[OfflinePartitions]) -> Plan:
        """Exactly these replicas of a live broker are offline: move their leaderships to others."""
        self.state.set_offline(broker, replicas)
        self.reassigning.look_again()
        plan = Plan()
        live, rules = set(self.state.brokers), self._election_rules()
        steps = elect_where_offline(self.state, broker, live, rules, plan.changed)
        plan.steps = self._then_where_room_is(steps, plan)
        return plan

    def on_full(self, broker: BrokerId, replicas: Sequence[OfflinePartitions], reason: str) -> None:
        """Exactly these replicas of a live broker are in full log directories.

        `reason` explains that all of its directories are full; it is empty while one has room.
        """
        self.state.full.put(broker, replicas)
        self.reassigning.look_again()
        if reason:
            self.state.full_brokers[broker] = reason
        else:
            self.state.full_brokers.pop(broker, None)

    def leave_full(self) -> Plan:
        """Elect in-sync replicas with room for partitions whose leader's log directory is full."""
        plan = Plan()
        plan.steps = self._then_where_room_is((), plan)
        return plan

    def elect_leaders(
        self,
        election: ElectionType,
        asked: Sequence[TopicPartition] | None,
        *,
        only_needed: bool = False,
    ) -> tuple[Plan, Elected]:
        """Plan the elections that a client asked for; the outcomes are complete when the plan
        is."""
        plan, outcomes = Plan(), Elected()
        live, rules = self._staying, self._election_rules()
        plan.steps = elect_asked(
            self.state,
            election,
            asked,
            live,
            rules,
            plan.changed,
            outcomes,
            only_needed=only_needed,
        )
        return plan, outcomes

    def return_leaders(self, percentage: int, of: set[BrokerId]) -> Plan:
        """Plan the return of leaderships to preferred replicas."""
        plan = Plan()
        plan.steps = return_leaders(self.state, self._staying, percentage, of, plan.changed)
        return plan

    # -- in-sync replicas --------------------------------------------------------------------

    def on_isr_proposed(
        self,
        broker: BrokerId,
        partition: TopicPartition,
        isr: tuple[BrokerId, ...],
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
        joining_epoch: BrokerEpoch,
    ) -> tuple[Plan, Outcome]:
        """A leader proposes another ISR (AlterPartition, KIP-497).

        A new member must have the registration under which it has fetched everything: it may have
        lost its disk since (KIP-903).
        """
        state = self.state.partition(partition)
        if state is None:
            return Plan(), Outcome(ErrorCode.unknown_topic_or_partition)
        if state.leader != broker or leader_epoch < state.leader_epoch:
            return Plan(), Outcome(ErrorCode.fenced_leader_epoch)
        if leader_epoch > state.leader_epoch:
            return Plan(), Outcome(ErrorCode.not_controller)
        if partition_epoch != state.partition_epoch:
            return Plan(), Outcome(ErrorCode.invalid_update_version)
        candidates = self._usable(partition)
        added = set(isr) - set(state.isr)
        if (
            not added.issubset(candidates)
            or any(self.state.brokers[one].epoch != joining_epoch for one in added)
            or not set(isr) <= set(state.replicas)
            or len(set(isr)) != len(isr)
            or broker not in isr
        ):
            return Plan(), Outcome(ErrorCode.ineligible_replica)
        configs = self.state.topics[partition.topic].configs
        new_state = with_isr(state, tuple(isr), self._rules.min_insync_replicas(configs))
        return Plan(changed={partition: new_state}), Outcome(ErrorCode.none)

    # -- reassignments -----------------------------------------------------------------------

    def alter_reassignments(
        self, asked: Asked, *, may_change_factor: bool
    ) -> tuple[Plan, Answered]:
        """Plan moves of partitions to other replicas, and cancellations; the outcomes are complete
        when the plan is."""
        plan, outcomes = Plan(), Answered()
        plan.steps = plan_moves(
            self.state,
            asked,
            self._usable,
            self._election_rules(),
            plan.changed,
            outcomes,
            may_change_factor=may_change_factor,
        )
        return plan, outcomes

    def complete_reassignments(self) -> Plan:
        """Plan the completion of some of the reassignments whose replicas are in sync."""
        plan = Plan()
        due = self.reassigning.take_due()
        rules = self._election_rules()
        plan.steps = plan_completions(self.state, due, self._usable, rules, plan.changed)
        return plan

    def on_applied(self, plan: Plan) -> None:
        """The plan is in the registry and in `state`."""
        self.reassigning.on_deleted(plan.deleted)
        self.reassigning.on_changed(plan.changed)

    # -- topics ------------------------------------------------------------------------------

    def create_topics(
        self, topics: Sequence[NewTopic], admit: Admit = everything
    ) -> tuple[Plan, dict[str, Outcome], dict[str, TopicState]]:
        """Plan new topics; see `plan_create_topics` for the results."""
        return plan_create_topics(self.state, topics, self._rules, self._random, new_uuid, admit)

    def delete_topics(
        self, topics: Sequence[tuple[str | None, uuid.UUID | None]], admit: Admit = everything
    ) -> tuple[Plan, list[tuple[str | None, uuid.UUID | None, Outcome]]]:
        """Plan the deletion of topics by name or id; one outcome per item, in order, with name and
        id."""
        plan = Plan()
        outcomes: list[tuple[str | None, uuid.UUID | None, Outcome]] = []
        gone: set[str] = set()
        for name, topic_id in topics:
            found = self.state.topic_name(topic_id) if name is None and topic_id else name
            topic = self.state.topics.get(found) if found is not None else None
            if topic is None:
                code = (
                    ErrorCode.unknown_topic_id
                    if name is None
                    else ErrorCode.unknown_topic_or_partition
                )
                outcomes.append((name, topic_id, Outcome(code)))
            elif topic.name in gone:
                outcomes.append(
                    (name, topic_id, Outcome(ErrorCode.invalid_request, "Duplicate topic."))
                )
            else:
                try:
                    admit(topic.name, len(topic.partitions))
                except Refused as refused:
                    outcome = Outcome(refused.code, refused.detail)
                else:
                    plan.deleted.append(topic.name)
                    gone.add(topic.name)
                    outcome = Outcome(ErrorCode.none)
                outcomes.append((topic.name, topic.topic_id, outcome))
        return plan, outcomes

    def create_partitions(
        self,
        topics: Sequence[tuple[str, int, Sequence[tuple[BrokerId, ...]] | None]],
        admit: Admit = everything,
    ) -> tuple[Plan, dict[str, Outcome]]:
        """Plan the growth of topics to a total partition count; outcomes by name."""
        plan = Plan()
        outcomes: dict[str, Outcome] = {}
        times = Counter(name for name, _, _ in topics)
        for name, total_count, assignments in topics:
            try:
                if times[name] > 1:
                    raise Refused(ErrorCode.invalid_request, "Duplicate topic name.")
                added = plan_more_partitions(
                    self.state, name, total_count, assignments, self._random, len(plan.added)
                )
                admit(name, len(added))
            except Refused as refused:
                outcomes[name] = Outcome(refused.code, refused.detail)
            else:
                plan.added.update(added)
                outcomes[name] = Outcome(ErrorCode.none)
        return plan, outcomes

    def alter_topic_configs(
        self, alterations: Sequence[TopicAlteration]
    ) -> tuple[Plan, dict[str, Outcome]]:
        """Plan changes of topic configs; outcomes by name."""
        return plan_topic_configs(self.state, alterations, self._rules.check_configs)

    # -- shared ------------------------------------------------------------------------------

    @property
    def _staying(self) -> set[BrokerId]:
        """The live brokers that are not about to stop."""
        return set(self.state.brokers) - self._shutting_down

    def _usable(self, partition: TopicPartition) -> Collection[BrokerId]:
        """The brokers that stay and could lead the partition with a replica of it."""
        return self.state.with_room(partition, self.state.usable(partition, self._staying))

    def _elections(
        self,
        stayed: Callable[[TopicPartition], set[BrokerId]],
        maybe_away: Iterable[BrokerId] = (),
    ) -> Plan:
        """A plan whose steps elect a leader for every partition that needs one."""
        plan = Plan()
        live, rules = set(self.state.brokers), self._election_rules()
        returned = {each: self.state.brokers[each].condition for each in maybe_away}
        steps = elect_all(self.state, stayed, live, rules, plan.changed, returned)
        plan.steps = self._then_where_room_is(steps, plan)
        return plan

    def _then_where_room_is(self, steps: Iterable[None], plan: Plan) -> Iterator[None]:
        """The steps of a plan, followed by those that move leaderships out of full log
        directories."""
        return chain(steps, lead_where_room_is(self.state, self._staying, plan.changed))

    def _election_rules(self) -> RulesOf:
        """The rules of topics, cached for one plan, during which nothing changes."""
        known: dict[str, ElectionRules] = {}

        def rules_of(topic: str) -> ElectionRules:
            rules = known.get(topic)
            if rules is None:
                configs = self.state.topics[topic].configs
                rules = known[topic] = ElectionRules(
                    self._is_unclean(configs), self._rules.min_insync_replicas(configs)
                )
            return rules

        return rules_of
