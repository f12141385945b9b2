"""The topic of a load test: made if it is missing, and then deleted at the end."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from cluster.client.security import Servers
from cluster.model.errors import UserError
from cluster.runtime.interrupts import deferred_interrupt
from cluster.tools.kafka_connection import REQUEST_TIMEOUT_S, connect, explained, security_of
from cluster.tools.topics.requests import create_topic, delete_topic

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient, TopicMetadata

DEFAULT_NAME: Final = "load-test"
CLIENT_ID: Final = "milena-load-test"


class LoadTopic:
    """An existing topic, with its partitions, leaders and end offsets."""

    def __init__(self, client: "AdminClient", name: str, servers: Servers) -> None:
        self.client = client
        self.name = name
        self.servers = servers

    @property
    def bootstrap(self) -> str:
        """The brokers as host:port, by commas."""
        return ",".join(f"{host}:{port}" for host, port in self.servers.addresses)

    @property
    def connection(self) -> dict[str, str]:
        """How a Kafka client connects: `bootstrap.servers`, and settings about security."""
        return {"bootstrap.servers": self.bootstrap, **self.servers.security.librdkafka()}

    @property
    def partition_count(self) -> int:
        """The number of the topic's partitions."""
        return len(self._described().partitions)

    def leaders(self) -> dict[int, int]:
        """The id of each partition's present leader, by partition."""
        return {number: one.leader for number, one in self._described().partitions.items()}

    def end_offsets(self) -> dict[int, int]:
        """The present end offset of each partition. Raises UserError."""
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # as confluent-kafka has it
        wanted = {TopicPartition(self.name, number): latest for number in self.leaders()}
        futures = self.client.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S)
        try:
            return {place.partition: future.result().offset for place, future in futures.items()}
        except KafkaException as refusal:
            raise UserError(
                f"cannot see where {self.name} ends: {explained(refusal.args[0])}"
            ) from None

    def begin_group(self, group: str, properties: Mapping[str, Any]) -> None:
        """Have a group begin where the topic ends now, in partitions of which it has committed
        nothing. Raises UserError, also if the group has members.
        """
        from confluent_kafka import KafkaException

        try:
            with deferred_interrupt():
                client = self._group_client(group, properties)
            try:
                ends = self.end_offsets()
                missing = ends.keys() - self._committed(client).keys()
                if missing:
                    places = [self._place(number, ends[number]) for number in sorted(missing)]
                    client.commit(offsets=places, asynchronous=False)
            finally:
                client.close()
        except KafkaException as refusal:
            raise UserError(f"group {group}: {explained(refusal.args[0])}") from None

    def group_lag(self, group: str) -> int | None:
        """How many records of the topic the group has not committed; None if nobody tells."""
        from confluent_kafka import KafkaException

        try:
            client = self._group_client(group, {})
            try:
                committed = self._committed(client)
            finally:
                client.close()
            ends = self.end_offsets()
        except (KafkaException, UserError):
            return None
        return sum(max(0, end - committed.get(number, 0)) for number, end in ends.items())

    def _committed(self, client: "Consumer") -> dict[int, int]:
        asked = [self._place(number) for number in self.leaders()]
        found = client.committed(asked, timeout=REQUEST_TIMEOUT_S)
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def _place(self, number: int, offset: int = -1001) -> "TopicPartition":
        from confluent_kafka import TopicPartition

        return TopicPartition(self.name, number, offset)

    def _group_client(self, group: str, properties: Mapping[str, Any]) -> "Consumer":
        from confluent_kafka import Consumer

        return Consumer(
            {
                **properties,
                "bootstrap.servers": self.bootstrap,
                "client.id": CLIENT_ID,
                "group.id": group,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )

    def _described(self) -> "TopicMetadata":
        return self.client.list_topics(self.name, timeout=REQUEST_TIMEOUT_S).topics[self.name]


@contextmanager
def open_load_topic(args: argparse.Namespace) -> Iterator[LoadTopic]:
    """The topic of `--topic`, or a new one without the option. Raises UserError.

    A topic that did not exist is created, and deleted at the end.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = connect(AdminClient, args, CLIENT_ID)
    metadata = client.list_topics(timeout=REQUEST_TIMEOUT_S)
    name = args.topic or _unused(DEFAULT_NAME, metadata.topics)
    servers = Servers(
        [(str(one.host), int(one.port)) for one in metadata.brokers.values()], security_of(args)
    )
    is_ours = name not in metadata.topics
    broker_count = len(metadata.brokers)
    try:
        if is_ours:
            create_topic(
                client,
                name,
                partitions=args.partitions or broker_count,
                replication_factor=args.replication_factor or min(3, broker_count),
                replicas=None,
                configs={},
            )
        elif args.partitions or args.replication_factor:
            raise UserError(
                f"topic {name} exists: leave out --partitions and --replication-factor,"
                " or name another one"
            )
        yield LoadTopic(client, name, servers)
    except KafkaException as refusal:
        raise UserError(f"topic {name}: {explained(refusal.args[0])}") from None
    finally:
        if is_ours and not args.keep_topic:
            _remove(client, name)


def _unused(wanted: str, names: object) -> str:
    taken = set(names) if isinstance(names, dict) else set()
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _remove(client: "AdminClient", name: str) -> None:
    from confluent_kafka import KafkaError, KafkaException

    try:
        delete_topic(client, name)
    except KafkaException as refusal:
        if refusal.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise UserError(
                f"topic {name} could not be deleted: {explained(refusal.args[0])}"
            ) from None
