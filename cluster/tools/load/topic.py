"""The topic of a load test: made if it is missing, and then deleted at the end."""

import argparse
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from cluster.client.admin import Admin
from cluster.client.record_requests import LATEST, offsets_at
from cluster.client.refusals import reason_of
from cluster.client.security import Servers
from cluster.client.timeouts import REQUEST_TIMEOUT_S
from cluster.client.topic_requests import PartitionFacts, Place, create_topic, delete_topic
from cluster.model.errors import ErrorCode, Refused, UserError
from cluster.model.printable import one_line
from cluster.runtime.interrupts import deferred_interrupt
from cluster.tools.kafka_connection import admin_of, explained, security_of
from cluster.tools.missing_rights import right_hint

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

DEFAULT_NAME: Final = "load-test"
CLIENT_ID: Final = "milena-load-test"


class LoadTopic:
    """An existing topic, with its partitions, leaders and end offsets."""

    def __init__(self, admin: Admin, name: str, servers: Servers) -> None:
        self._admin = admin
        self.name = name
        self.servers = servers

    @property
    def bootstrap(self) -> str:
        """The brokers as host:port, by commas."""
        return ",".join(f"{host}:{port}" for host, port in self.servers.addresses)

    @property
    def connection(self) -> dict[str, str]:
        """How a Kafka client connects: `bootstrap.servers`, and settings about security."""
        return self.servers.librdkafka()

    @property
    def partition_count(self) -> int:
        """The number of the topic's partitions."""
        return len(self._partitions())

    def leaders(self) -> dict[int, int]:
        """The id of each partition's present leader, by partition; -1 where it has none."""
        return {
            each.number: -1 if each.leader is None else each.leader for each in self._partitions()
        }

    def end_offsets(self) -> dict[int, int]:
        """The present end offset of each partition. Raises UserError."""
        places = [Place(self.name, each.number) for each in self._partitions()]
        try:
            found = offsets_at(self._admin, places, LATEST)
        except Refused as refused:
            raise UserError(f"cannot see where {self.name} ends: {reason_of(refused)}") from None
        return {place.partition: offset for place, offset in found.items()}

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

    def _partitions(self) -> tuple[PartitionFacts, ...]:
        for topic in self._admin.facts().topics:
            if topic.name == self.name:
                return topic.partitions
        raise UserError(f"there is no topic {self.name} any more")


@contextmanager
def open_load_topic(
    args: argparse.Namespace, note: Callable[[str], None] = lambda _text: None
) -> Iterator[LoadTopic]:
    """The topic of `--topic`, or a new one without the option. Raises UserError.

    A topic that did not exist is created, and deleted at the end without `--keep`; `note` is called
    with what became of it.
    """
    admin = admin_of(args, CLIENT_ID)
    facts = admin.facts()
    known = facts.partition_counts()
    name = args.topic or _unused(DEFAULT_NAME, known)
    servers = Servers([*facts.brokers.values()], security_of(args))
    is_ours = name not in known
    broker_count = len(facts.brokers)
    is_created = False
    try:
        if is_ours:
            admin.controller(
                lambda client: create_topic(
                    client,
                    name,
                    partitions=args.partitions or broker_count,
                    replication_factor=args.replication_factor or min(3, broker_count),
                )
            )
            is_created = True
        elif args.partitions or args.replication_factor:
            raise UserError(
                f"topic {name} exists: leave out --partitions and --replication-factor,"
                " or name another one"
            )
        yield LoadTopic(admin, name, servers)
    except Refused as refused:
        hint = right_hint(refused.code, args, [name])
        raise UserError(f"topic {name}: {reason_of(refused)}{hint}") from None
    finally:
        if is_ours and not args.keep:
            _remove(admin, name)
        if is_created:
            note(_fate(name, args.group, is_kept=args.keep))
        admin.close()


def _unused(wanted: str, taken: Container[str]) -> str:
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _fate(name: str, group: str | None, *, is_kept: bool) -> str:
    what = f"topic {one_line(name)}"
    if group is not None:
        what += f" and the offsets of group {one_line(group)}"
    if is_kept:
        return f"Kept {what}."
    return f"Deleted {what}, made for this test; --keep keeps {'both' if group else 'it'}."


def _remove(admin: Admin, name: str) -> None:
    try:
        admin.controller(lambda client: delete_topic(client, name))
    except Refused as refused:
        if refused.code is not ErrorCode.unknown_topic_or_partition:
            raise UserError(f"topic {name} could not be deleted: {reason_of(refused)}") from None
