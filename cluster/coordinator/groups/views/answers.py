"""Answers the queries about whole groups. Pure."""

from cluster.coordinator.groups.consumer.groups import ConsumerGroups
from cluster.coordinator.groups.consumer.requests import ConsumerGroupDescription
from cluster.coordinator.groups.history.explanation import GroupExplanation
from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.coordinator.groups.requests import GroupDescription, ListedGroup
from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.coordinator.groups.shared.topics import Topics
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.coordinator.groups.views.classic_description import described_classic
from cluster.coordinator.groups.views.classic_explanation import explain
from cluster.coordinator.groups.views.consumer_description import described
from cluster.coordinator.groups.views.consumer_explanation import explain_consumers
from cluster.coordinator.groups.views.progress import CLASSIC, GroupProgress, progress_of
from cluster.coordinator.groups.views.queries import (
    DescribeConsumerGroup,
    DescribeGroup,
    ExplainGroup,
    ListGroupIds,
    ListGroups,
    ListRebalances,
    MeasureProgress,
)
from cluster.coordinator.groups.views.rebalances import rebalances_of
from cluster.coordinator.shards.requests import AnswerQuery
from cluster.model.clocks import Moment


class GroupAnswers:
    """Reads the groups of one shard."""

    def __init__(self, parts: ShardParts, consumers: ConsumerGroups, topics: Topics) -> None:
        self._parts = parts
        self._consumers = consumers
        self._topics = topics

    def table(self) -> dict[type, AnswerQuery]:
        """The method that answers each query."""
        return dict(
            [
                DescribeGroup.answered_by(self._describe),
                DescribeConsumerGroup.answered_by(self._describe_consumer_group),
                ListGroups.answered_by(self._list_groups),
                ListGroupIds.answered_by(self._list_group_ids),
                ExplainGroup.answered_by(self._explain),
                ListRebalances.answered_by(self._list_rebalances),
                MeasureProgress.answered_by(self._measure_progress),
            ]
        )

    def _describe(self, query: DescribeGroup, _now: Moment) -> GroupDescription | None:
        group = self._parts.groups.get(query.group_id)
        return None if group is None else described_classic(group)

    def _describe_consumer_group(
        self, query: DescribeConsumerGroup, _now: Moment
    ) -> ConsumerGroupDescription | None:
        group = self._parts.consumer_groups.get(query.group_id)
        if group is None:
            return None
        return described(group, self._parts.options.consumer_assignors[0], self._topics)

    def _list_groups(self, query: ListGroups, _now: Moment) -> list[ListedGroup]:
        wanted_states = {each.lower() for each in query.states}
        wanted_types = {each.lower() for each in query.types}
        listed = [
            ListedGroup(
                group.group_id, group.roster.protocol_type or "", group.state.value, CLASSIC
            )
            for group in self._parts.groups.values()
        ]
        listed += [
            ListedGroup(group.group_id, CONSUMER, group.state().value, CONSUMER)
            for group in self._parts.consumer_groups.values()
        ]
        return [
            each
            for each in listed
            if (not wanted_types or each.group_type in wanted_types)
            and (not wanted_states or each.state.lower() in wanted_states)
        ]

    def _list_group_ids(self, _query: ListGroupIds, _now: Moment) -> list[str]:
        return self._parts.group_ids()

    def _explain(self, query: ExplainGroup, now: Moment) -> GroupExplanation | None:
        group = self._parts.find(query.group_id)
        if not isinstance(group, ConsumerGroup):
            return None if group is None else explain(group, CLASSIC, now)
        default = self._parts.options.consumer_assignors[0]
        timeout_ms = self._consumers.session_timeout_ms(query.group_id)
        return explain_consumers(group, default, timeout_ms, self._topics, now)

    def _list_rebalances(
        self, _query: ListRebalances, now: Moment
    ) -> dict[str, tuple[Rebalance, ...]]:
        found = {}
        for group_id in self._parts.group_ids():
            group = self._parts.find(group_id)
            if group is not None and (rebalances := rebalances_of(group, now)):
                found[group_id] = rebalances
        return found

    def _measure_progress(self, query: MeasureProgress, now: Moment) -> GroupProgress | None:
        group = self._parts.find(query.group_id)
        return None if group is None else progress_of(group, now)
