"""A well-behaved client, which must be served while others misbehave."""

from types import TracebackType
from typing import Self

from cluster.model.errors import ErrorCode
from cluster.records.reader import read_records
from tests.support.broker_probes import batch_of, fetched, produced
from tests.support.kafka_wire import WireClient
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic


class Bystander:
    """A topic with a replica on each broker; its records are written by acks=all and read back."""

    def __init__(self, cluster: Cluster) -> None:
        replicas = list(range(cluster.size))
        self._topic = create_topic(cluster, assignments=[replicas])
        self._client = WireClient(cluster.addresses[0])
        self._offset = 0

    @property
    def topic(self) -> str:
        """Where its records are."""
        return self._topic

    def check(self) -> None:
        """One record is acknowledged by every in-sync replica, and read back."""
        value = b"record %d" % self._offset
        answer = produced(self._client, self._topic, bytes(batch_of(value)))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, self._offset)
        found = fetched(self._client, self._topic, self._offset)
        assert [record.value for record in read_records(found.records)] == [value]
        self._offset += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.close()
