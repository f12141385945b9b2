"""The requests of `groups`, through confluent-kafka's admin client.

Prints nothing. Every request raises KafkaException with the cluster's refusal.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from cluster.tools.kafka_connection import REQUEST_TIMEOUT_S

if TYPE_CHECKING:
    from confluent_kafka import admin

T = TypeVar("T")

DEAD: Final = "Dead"
EMPTY: Final = "Empty"
STABLE: Final = "Stable"
REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
_STATES: Final = {
    "UNKNOWN": "Unknown",
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


class Group(NamedTuple):
    """A group as its coordinator describes it."""

    name: str
    state: str
    assignor: str
    coordinator: str
    """`host:port  (id)`, as Kafka's tool shows it."""
    members: tuple[Member, ...]


def states_of_groups(client: "admin.AdminClient") -> dict[str, str]:
    """State by group, of all groups of the cluster."""
    from confluent_kafka import KafkaException

    listed = client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result()
    if listed.errors:
        raise KafkaException(listed.errors[0])
    return {each.group_id: _STATES.get(each.state.name, "Unknown") for each in listed.valid}


def describe_group(client: "admin.AdminClient", name: str) -> Group:
    """One group; of state Dead if there is no such group."""
    (future,) = client.describe_consumer_groups([name], request_timeout=REQUEST_TIMEOUT_S).values()
    found = future.result()
    node = found.coordinator
    return Group(
        name,
        _STATES.get(found.state.name, "Unknown"),
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
    """The first record at or after a time; the end where there is none."""
    from confluent_kafka.admin import OffsetSpec

    found = _offsets(client, places, OffsetSpec.for_timestamp(timestamp_ms))
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
