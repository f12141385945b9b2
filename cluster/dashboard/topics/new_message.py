"""A message that a user wants to produce, from the page's request. Pure."""

from typing import Any, NamedTuple

from cluster.client.partitioner import partition_of
from cluster.dashboard.http_requests import BadRequest
from cluster.model.topics import TOPIC_NAME_LENGTH_MAX
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch


class NewMessage(NamedTuple):
    """Texts are written as UTF-8; None is Kafka's null, and as a value a tombstone."""

    topic: str
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str], ...] = ()
    partition: int | None = None
    """None: chosen by the key; any one without a key."""

    def chosen_partition(self, count: int, any_number: int) -> int:
        """The partition of a topic with `count`; `any_number` decides where nothing else does."""
        if self.partition is not None:
            return self.partition
        if self.key is None:
            return any_number % count
        return partition_of(self.key.encode(), count)

    def batch(self, timestamp_ms: int, producer: ProducerIdentity) -> bytearray:
        """A batch of this record alone, by which brokers recognize it if it is sent again."""
        record = NewRecord(
            value=None if self.value is None else self.value.encode(),
            key=None if self.key is None else self.key.encode(),
            timestamp_ms=timestamp_ms,
            headers=tuple((name, value.encode()) for name, value in self.headers),
        )
        return build_batch([record], producer=producer)


def new_message(body: dict[str, Any]) -> NewMessage:
    """The message in a request's object. Raises BadRequest."""
    topic, key, value = body.get("topic"), body.get("key"), body.get("value")
    headers, partition = body.get("headers", []), body.get("partition")
    if not isinstance(topic, str) or not 0 < len(topic) <= TOPIC_NAME_LENGTH_MAX:
        raise BadRequest("`topic` is the name of a topic")
    if not all(each is None or isinstance(each, str) for each in (key, value)):
        raise BadRequest("`key` and `value` are texts or null")
    if not isinstance(headers, list) or not all(map(_is_header, headers)):
        raise BadRequest("`headers` is a list of pairs of texts, and no name is empty")
    is_number = isinstance(partition, int) and not isinstance(partition, bool)
    if partition is not None and not (is_number and 0 <= partition < 1 << 31):
        raise BadRequest("`partition` is a number from 0 on, or null")
    return NewMessage(topic, key, value, tuple((name, text) for name, text in headers), partition)


def _is_header(given: object) -> bool:
    return (
        isinstance(given, list)
        and len(given) == 2
        and all(isinstance(each, str) for each in given)
        and given[0] != ""
    )
