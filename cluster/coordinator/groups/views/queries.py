"""Queries about whole groups. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cluster.coordinator.groups.consumer.requests import ConsumerGroupDescription
from cluster.coordinator.groups.history.explanation import GroupExplanation
from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.coordinator.groups.requests import GroupDescription, ListedGroup
from cluster.coordinator.groups.views.progress import GroupProgress
from cluster.coordinator.shards.requests import Query


@dataclass(frozen=True, slots=True)
class DescribeGroup(Query[GroupDescription | None]):
    """DescribeGroups: a group of the classic protocol; None if there is none of this name."""

    group_id: str


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroup(Query[ConsumerGroupDescription | None]):
    """ConsumerGroupDescribe: a group of the newer consumer protocol; None if there is none of this
    name."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ListGroups(Query[list[ListedGroup]]):
    """ListGroups: the groups in one of the states and of one of the types, in any case of letters;
    an empty collection allows all."""

    states: Collection[str] = ()
    types: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class ListGroupIds(Query[list[str]]):
    """The ids of all groups."""


@dataclass(frozen=True, slots=True)
class ExplainGroup(Query[GroupExplanation | None]):
    """For `groups explain`: a group and its last rebalances; None if there is no such group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ListRebalances(Query[Mapping[str, tuple[Rebalance, ...]]]):
    """The last rebalances of each group that has any: oldest first, a running one last."""


@dataclass(frozen=True, slots=True)
class MeasureProgress(Query[GroupProgress | None]):
    """For metrics: the state and the committed offsets of a group; None if there is none."""

    group_id: str
