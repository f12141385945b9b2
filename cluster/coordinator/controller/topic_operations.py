"""Operations that change topics; each answers when every live broker knows, or at its timeout."""

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cluster.coordinator.controller.broker_updates import UPDATE_TIMEOUT_MS, BrokerUpdates
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.operation import tell
from cluster.coordinator.controller.topic_plans import Admit, everything
from cluster.model.cluster import TopicState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId
from cluster.model.plan import Outcome, Plan
from cluster.model.topics import NewTopic, TopicAlteration

log = logging.getLogger(__name__)

NOT_CONTROLLER: Final = Outcome(
    ErrorCode.not_controller, "This is not the correct controller for this cluster."
)
_TIMED_OUT: Final = Outcome(
    ErrorCode.request_timed_out,
    "It is done, but the timeout was over before every broker had heard of it.",
)

NamedTopic = tuple[str | None, uuid.UUID | None]
"""A topic by name or by id."""


class CreateTopics:
    """Create topics; `validate_only` only computes the outcomes."""

    def __init__(
        self,
        updates: BrokerUpdates,
        topics: list[NewTopic],
        timeout_ms: int,
        on_done: Callable[[dict[str, Outcome], dict[str, TopicState]], None],
        *,
        validate_only: bool,
        admit: Admit = everything,
    ) -> None:
        """`on_done` receives the outcomes, and the states of the (planned) topics, by name.

        A validation does not count against a quota.
        """
        self._admit = everything if validate_only else admit
        self._updates = updates
        self._topics = topics
        self._timeout_ms = timeout_ms
        self._on_done = on_done
        self._validate_only = validate_only
        self._outcomes: dict[str, Outcome] = {}
        self._planned: dict[str, TopicState] = {}

    def plan(self, controller: Controller) -> Plan:
        plan, self._outcomes, self._planned = controller.create_topics(self._topics, self._admit)
        return Plan() if self._validate_only else plan

    def finish(self, plan: Plan) -> None:
        for topic in plan.created:
            log.info("created topic %s (%d partitions)", topic.name, len(topic.partitions))
        tell(self._updates, plan, self._answer, self._timeout_ms)

    def refuse(self) -> None:
        self.fail(NOT_CONTROLLER)

    def fail(self, outcome: Outcome) -> None:
        self._on_done({topic.name: outcome for topic in self._topics}, {})

    def _answer(self, do_all_know: bool) -> None:
        self._on_done(_as_known(self._outcomes, do_all_know), self._planned)


class DeleteTopics:
    """Delete topics, each given by its name or id."""

    def __init__(
        self,
        updates: BrokerUpdates,
        topics: list[NamedTopic],
        timeout_ms: int,
        on_done: Callable[[list[tuple[str | None, uuid.UUID | None, Outcome]]], None],
        *,
        admit: Admit = everything,
    ) -> None:
        self._admit = admit
        self._updates = updates
        self._topics = topics
        self._timeout_ms = timeout_ms
        self._on_done = on_done
        self._outcomes: list[tuple[str | None, uuid.UUID | None, Outcome]] = []

    def plan(self, controller: Controller) -> Plan:
        plan, self._outcomes = controller.delete_topics(self._topics, self._admit)
        return plan

    def finish(self, plan: Plan) -> None:
        for name in plan.deleted:
            log.info("deleted topic %s", name)
        tell(self._updates, plan, self._answer, self._timeout_ms)

    def refuse(self) -> None:
        self.fail(NOT_CONTROLLER)

    def fail(self, outcome: Outcome) -> None:
        self._on_done([(name, topic_id, outcome) for name, topic_id in self._topics])

    def _answer(self, do_all_know: bool) -> None:
        self._on_done(
            [
                (name, topic_id, outcome if do_all_know else late(outcome))
                for name, topic_id, outcome in self._outcomes
            ]
        )


class CreatePartitions:
    """Enlarge topics to a partition count, optionally with the replicas of each new partition."""

    def __init__(
        self,
        updates: BrokerUpdates,
        topics: list[tuple[str, int, list[tuple[BrokerId, ...]] | None]],
        timeout_ms: int,
        on_done: Callable[[dict[str, Outcome]], None],
        *,
        validate_only: bool,
        admit: Admit = everything,
    ) -> None:
        self._admit = everything if validate_only else admit
        self._updates = updates
        self._topics = topics
        self._timeout_ms = timeout_ms
        self._on_done = on_done
        self._validate_only = validate_only
        self._outcomes: dict[str, Outcome] = {}

    def plan(self, controller: Controller) -> Plan:
        plan, self._outcomes = controller.create_partitions(self._topics, self._admit)
        return Plan() if self._validate_only else plan

    def finish(self, plan: Plan) -> None:
        tell(
            self._updates,
            plan,
            lambda do_all_know: self._on_done(_as_known(self._outcomes, do_all_know)),
            self._timeout_ms,
        )

    def refuse(self) -> None:
        self.fail(NOT_CONTROLLER)

    def fail(self, outcome: Outcome) -> None:
        self._on_done({name: outcome for name, _, _ in self._topics})


class AlterConfigs:
    """Change configs of topics."""

    def __init__(
        self,
        updates: BrokerUpdates,
        alterations: list[TopicAlteration],
        on_done: Callable[[Mapping[str, Outcome]], None],
        *,
        validate_only: bool,
    ) -> None:
        self._updates = updates
        self._alterations = alterations
        self._on_done = on_done
        self._validate_only = validate_only
        self._outcomes: Mapping[str, Outcome] = {}

    def plan(self, controller: Controller) -> Plan:
        plan, self._outcomes = controller.alter_topic_configs(self._alterations)
        return Plan() if self._validate_only else plan

    def finish(self, plan: Plan) -> None:
        for name, configs in plan.configured.items():
            log.info("configs of topic %s: %s", name, configs)
        self._updates.tell_everyone(
            plan, set(), lambda _do_all_know: self._on_done(self._outcomes), UPDATE_TIMEOUT_MS
        )

    def refuse(self) -> None:
        self.fail(Outcome(ErrorCode.not_controller, "the controller has just moved"))

    def fail(self, outcome: Outcome) -> None:
        self._on_done({each.topic: outcome for each in self._alterations})


class ConfigsChangedElsewhere:
    """Take over topic configs that were changed in the registry by others."""

    def __init__(self, updates: BrokerUpdates, names: Iterable[str]) -> None:
        self._updates = updates
        self._names = names

    def plan(self, controller: Controller) -> Plan:
        """The configs are read when the plan is carried out; nothing is written in between."""
        return Plan(reread={name for name in self._names if name in controller.state.topics})

    def finish(self, plan: Plan) -> None:
        for name, configs in plan.learned.items():
            log.info("configs of topic %s, changed in the registry: %s", name, configs)
        if plan.learned:
            self._updates.tell_everyone(plan, set())

    def refuse(self) -> None:
        """Nobody waits for an answer; the next controller loads all configs."""


def _as_known(outcomes: dict[str, Outcome], do_all_know: bool) -> dict[str, Outcome]:
    if do_all_know:
        return outcomes
    return {name: late(outcome) for name, outcome in outcomes.items()}


def late(outcome: Outcome) -> Outcome:
    """The error for a change that is in the registry but not known to every broker in time, as in
    Kafka."""
    return _TIMED_OUT if outcome.code is ErrorCode.none else outcome
