"""The metrics topic of a running cluster, as a client reads it."""

import json
from typing import Any, Final

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, TopicPartition

from tests.support.running_cluster import Cluster

METRICS: Final = "__cluster_metrics"


class MetricRecords:
    """Everything in the metrics topic so far, read on by each call."""

    def __init__(self, cluster: Cluster) -> None:
        self._size = cluster.size
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(METRICS, p, 0) for p in range(cluster.size)])
        self.records: list[dict[str, Any]] = []

    def poll(self) -> list[dict[str, Any]]:
        for message in self._consumer.consume(10_000, timeout=0.05):
            assert message.error() is None
            if message.key() is None:
                continue  # a test's, where clients may write
            record = json.loads(message.value() or b"")
            assert message.key() == str(record["broker"]).encode()
            assert message.timestamp() == (TIMESTAMP_CREATE_TIME, record["ts"])
            assert message.partition() == record["broker"] % self._size
            self.records.append(record)
        return self.records

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.poll() if record["kind"] == kind]

    def close(self) -> None:
        self._consumer.close()
