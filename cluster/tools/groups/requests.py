"""The requests of `groups`, through confluent-kafka's admin client.

Prints nothing. Every request raises KafkaException with the cluster's refusal. Groups of the newer
consumer protocol (KIP-848) are asked for over connections of our own: confluent-kafka knows neither
their states nor their epochs.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from cluster.client.consumer_group_requests import (
    FoundGroup,
    describe_consumer_group,
    list_groups,
)
from cluster.client.security import Servers
from cluster.model.errors import Refused, UserError
from cluster.protocol.messages import ConsumerGroupDescribeAssignment
from cluster.tools.kafka_connection import REQUEST_TIMEOUT_S

if TYPE_CHECKING:
    from confluent_kafka import admin

T = TypeVar("T")

CLIENT_ID: Final = "milena-groups"

DEAD: Final = "Dead"
EMPTY: Final = "Empty"
STABLE: Final = "Stable"
REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_UNKNOWN: Final = "Unknown"
_STATES: Final = {
    "UNKNOWN": _UNKNOWN,
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": STABLE,
    "DEAD": DEAD,
    "EMPTY": EMPTY,
}
"""Kafka's names of a group's states by those of the client."""
_NO_OFFSET: Final = -1001
"""What the client has in place of an offset that is not there."""
_ABSENT: Final = -1
_CLASSIC_MEMBER: Final = 0


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Member(NamedTuple):
    """A member of a group and what it has."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[Place, ...]
    epoch: int | None = None
    """Of the newer consumer protocol, as the following."""
    target: tuple[Place, ...] = ()
    """What it is to have, once others have given it up."""
    is_classic: bool = True
    """It uses the classic protocol."""


class Group(NamedTuple):
    """A group as its coordinator describes it."""

    name: str
    state: str
    assignor: str
    coordinator: str
    """`host:port  (id)`, as Kafka's tool shows it."""
    members: tuple[Member, ...]
    epoch: int | None = None
    """Of the newer consumer protocol, as the following."""
    target_epoch: int | None = None
    """Of the assignment that the members are on the way to."""

    @property
    def is_newer(self) -> bool:
        """Whether it is of the newer consumer protocol."""
        return self.epoch is not None


def states_of_groups(client: "admin.AdminClient", servers: Servers) -> dict[str, str]:
    """State by group, of all groups of the cluster."""
    from confluent_kafka import KafkaException

    listed = client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result()
    if listed.errors:
        raise KafkaException(listed.errors[0])
    states = {each.group_id: _STATES.get(each.state.name, _UNKNOWN) for each in listed.valid}
    if _UNKNOWN in states.values():
        states |= newer_states(servers, states)
    return states


def newer_states(servers: Servers, names: Container[str]) -> dict[str, str]:
    """The states of some groups also where confluent-kafka knows no name for them."""
    with suppress(UserError, Refused):
        listed = list_groups(servers, CLIENT_ID)
        return {each.group_id: each.group_state for each in listed if each.group_id in names}
    return {}


def describe_group(client: "admin.AdminClient", servers: Servers, name: str) -> Group:
    """One group; of state Dead if there is no such group."""
    with suppress(UserError):
        try:
            found = describe_consumer_group(servers, CLIENT_ID, name)
        except Refused:  # confluent-kafka asks again until there is an answer
            found = None
        if found is not None:
            return _newer_group(found)
    return _classic_group(client, name)


def _newer_group(found: FoundGroup) -> Group:
    group = found.group
    return Group(
        group.group_id,
        group.group_state,
        group.assignor_name,
        f"{found.host}:{found.port}  ({found.coordinator})",
        tuple(
            Member(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                _places(each.assignment),
                each.member_epoch,
                _places(each.target_assignment),
                is_classic=each.member_type == _CLASSIC_MEMBER,
            )
            for each in group.members
        ),
        group.group_epoch,
        group.assignment_epoch,
    )


def _places(assignment: ConsumerGroupDescribeAssignment) -> tuple[Place, ...]:
    return tuple(
        Place(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


def _classic_group(client: "admin.AdminClient", name: str) -> Group:
    (future,) = client.describe_consumer_groups([name], request_timeout=REQUEST_TIMEOUT_S).values()
    found = future.result()
    node = found.coordinator
    return Group(
        name,
        _STATES.get(found.state.name, _UNKNOWN),
        found.partition_assignor,
        f"{node.host}:{node.port}  ({node.id})" if node is not None else "-",
        tuple(
            Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.host,
                tuple(
                    Place(one.topic, one.partition)
                    for one in (each.assignment.topic_partitions if each.assignment else ())
                ),
            )
            for each in found.members
        ),
    )


def types_of_groups(client: "admin.AdminClient") -> dict[str, str]:
    """Type by group, of all groups of the cluster: `Classic` or `Consumer`, as Kafka shows it."""
    from confluent_kafka import KafkaException

    listed = client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result()
    if listed.errors:
        raise KafkaException(listed.errors[0])
    return {each.group_id: each.type.name.capitalize() for each in listed.valid}


class Committed(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    leader_epoch: int | None


def committed_offsets(client: "admin.AdminClient", group: str) -> dict[Place, int]:
    """All that a group has committed."""
    return {place: each.offset for place, each in committed(client, group).items()}


def committed(client: "admin.AdminClient", group: str) -> dict[Place, Committed]:
    """All that a group has committed, with the epochs of the leaders that it had read from."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

    asked = [ConsumerGroupTopicPartitions(group)]
    answers: Mapping[Any, Future[Any]] = client.list_consumer_group_offsets(
        asked, request_timeout=REQUEST_TIMEOUT_S
    )
    (future,) = answers.values()
    found = {}
    for each in future.result().topic_partitions:
        if each.error is not None:
            raise KafkaException(each.error)
        if each.offset >= 0:
            place = Place(each.topic, each.partition)
            found[place] = Committed(each.offset, each.leader_epoch)
    return found


def commit_offsets(client: "admin.AdminClient", group: str, offsets: Mapping[Place, int]) -> None:
    """Set what a group without members has committed."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    places = [TopicPartition(place.topic, place.partition, at) for place, at in offsets.items()]
    asked = [ConsumerGroupTopicPartitions(group, places)]
    answers: Mapping[Any, Future[Any]] = client.alter_consumer_group_offsets(
        asked, request_timeout=REQUEST_TIMEOUT_S
    )
    (future,) = answers.values()
    for each in future.result().topic_partitions:
        if each.error is not None:
            raise KafkaException(each.error)


def delete_group(client: "admin.AdminClient", group: str) -> None:
    """Delete a group without members, with its offsets."""
    (future,) = client.delete_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S).values()
    future.result()


def earliest_offsets(client: "admin.AdminClient", places: Iterable[Place]) -> dict[Place, int]:
    """Where each partition begins."""
    from confluent_kafka.admin import OffsetSpec

    return _offsets(client, places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def latest_offsets(client: "admin.AdminClient", places: Iterable[Place]) -> dict[Place, int]:
    """Where each partition ends."""
    from confluent_kafka.admin import OffsetSpec

    return _offsets(client, places, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def offsets_at(
    client: "admin.AdminClient", places: Sequence[Place], timestamp_ms: int
) -> dict[Place, int]:
    """The first record at or after a time; the end where there is none.

    A time before 1970 counts as its beginning: negative ones mean something else in requests.
    """
    from confluent_kafka.admin import OffsetSpec

    found = _offsets(client, places, OffsetSpec.for_timestamp(max(0, timestamp_ms)))
    later = [place for place in places if found[place] < 0]
    return found | (latest_offsets(client, later) if later else {})


def _offsets(
    client: "admin.AdminClient", places: Iterable[Place], spec: object
) -> dict[Place, int]:
    from confluent_kafka import TopicPartition

    asked: dict[Any, Any] = {TopicPartition(each.topic, each.partition): spec for each in places}
    if not asked:
        return {}
    answers = client.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_S)
    return {
        Place(each.topic, each.partition): int(future.result().offset)
        for each, future in answers.items()
    }
