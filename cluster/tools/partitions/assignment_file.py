"""The JSON of kafka-reassign-partitions: partitions, their replicas and log directories."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster.client.topic_requests import Place
from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.tools.partitions.json_files import INT32_MAX, place_of, rows_of, topic_of

_ANY_DIRECTORY: Final = "any"


class Replica(NamedTuple):
    """A replica of a partition; sorts as Kafka's tool prints them."""

    broker: int
    topic: str
    partition: int

    @property
    def place(self) -> Place:
        """The partition."""
        return Place(self.topic, self.partition)

    def __str__(self) -> str:
        """Kafka's name: `orders-0-2` on broker 2."""
        return f"{self.topic}-{self.partition}-{self.broker}"


class Assignment(NamedTuple):
    """What a file asks for."""

    replicas: dict[Place, tuple[int, ...]]
    directories: dict[Replica, str]
    """The log directories of replicas for which it names one."""


def read_assignment(path: Path) -> Assignment:
    """The content of a file for `--reassignment-json-file`. Raises UserError."""
    found = Assignment({}, {})
    for where, row in rows_of(path, "partitions"):
        place = place_of(row, where)
        if place in found.replicas:
            raise UserError(f"{where}: {named(place)} is there twice")
        replicas = _replicas(row, f"{where} ({named(place)})")
        found.replicas[place] = replicas
        directories = _directories(row, len(replicas), f"{where} ({named(place)})")
        for broker, directory in zip(replicas, directories, strict=True):
            if directory != _ANY_DIRECTORY:
                found.directories[Replica(broker, *place)] = directory
    return found


def read_topics(path: Path) -> list[str]:
    """The topics of a file for `--topics-to-move-json-file`. Raises UserError."""
    topics: list[str] = []
    for where, row in rows_of(path, "topics"):
        topic = topic_of(row, where)
        if topic in topics:
            raise UserError(f"{where}: {one_line(topic)} is there twice")
        topics.append(topic)
    return topics


def assignment_text(replicas: Mapping[Place, Sequence[int]]) -> str:
    """The object that Kafka's tool prints, in one line; `read_assignment` takes it."""
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(brokers),
            "log_dirs": [_ANY_DIRECTORY] * len(brokers),
        }
        for place, brokers in sorted(replicas.items())
    ]
    content = {"version": 1, "partitions": rows}
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def named(place: Place) -> str:
    """Kafka's name of a partition, in one line: `orders-0`."""
    return one_line(f"{place.topic}-{place.partition}")


def listed(numbers: Sequence[int]) -> str:
    """Ids of brokers as Kafka's tool prints them: `0,1`."""
    return ",".join(map(str, numbers))


def still_throttled(brokers: Sequence[int]) -> str:
    """What to do about brokers whose throttles could not be removed."""
    return (
        f"not reached: broker {listed(brokers)}; the throttles there stay until the same command"
        " runs again"
    )


def _replicas(row: Mapping[str, Any], where: str) -> tuple[int, ...]:
    found: Any = row.get("replicas")
    if not isinstance(found, list) or not found:
        raise UserError(f"{where}: replicas must be a list with at least one broker id")
    for broker in found:
        if type(broker) is not int or not 0 <= broker <= INT32_MAX:
            raise UserError(f"{where}: replicas has {one_line(str(broker))}, which is no broker id")
    if len(set(found)) < len(found):
        raise UserError(f"{where}: replicas names a broker twice: {listed(found)}")
    return tuple(found)


def _directories(row: Mapping[str, Any], count: int, where: str) -> list[str]:
    found: Any = row.get("log_dirs")
    if found is None:
        return [_ANY_DIRECTORY] * count
    if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
        raise UserError(f'{where}: log_dirs must be a list of paths or "{_ANY_DIRECTORY}"')
    if len(found) != count:
        raise UserError(f"{where}: log_dirs must be as long as replicas: {count}, not {len(found)}")
    return found
