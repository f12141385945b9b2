"""The metrics of a broker's replicas, a part of the table in `broker_metrics`."""

from typing import Final

from cluster.metrics.declarations import Metric
from cluster.metrics.stats_layout import MetricKind
from cluster.model.units import Unit

_COUNTER: Final = MetricKind.COUNTER
_GAUGE: Final = MetricKind.GAUGE


def _replicas(key: str, kind: MetricKind, unit: Unit, doc: str) -> Metric:
    return Metric(key, f"kafka.server:type=ReplicaManager,name={key}", kind, unit, doc)


def _throttled(direction: str, doc: str) -> Metric:
    name = f"kafka.server:type={direction}Replication,name=byte-rate"
    doc = f"bytes per second {doc}, over the windows of the replication quota"
    return Metric(
        f"{direction}ReplicationByteRate", name, MetricKind.REAL, Unit.BYTES_PER_SECOND, doc
    )


REPLICA_METRICS: Final = (
    _replicas("PartitionCount", _GAUGE, Unit.REPLICAS, "replicas on this broker"),
    _replicas("LeaderCount", _GAUGE, Unit.PARTITIONS, "partitions that this broker leads"),
    _replicas(
        "UnderReplicatedPartitions",
        _GAUGE,
        Unit.PARTITIONS,
        "led partitions with a replica that is not in sync",
    ),
    _replicas(
        "UnderMinIsrPartitionCount",
        _GAUGE,
        Unit.PARTITIONS,
        "led partitions below min.insync.replicas",
    ),
    _replicas(
        "AtMinIsrPartitionCount",
        _GAUGE,
        Unit.PARTITIONS,
        "led partitions exactly at min.insync.replicas",
    ),
    _replicas(
        "ReassigningPartitions",
        _GAUGE,
        Unit.PARTITIONS,
        "led partitions that are being moved to other replicas",
    ),
    _replicas(
        "IsrShrinksPerSec",
        _COUNTER,
        Unit.CHANGES,
        "changes that removed a replica from an in-sync set",
    ),
    _replicas(
        "IsrExpandsPerSec", _COUNTER, Unit.CHANGES, "changes that added a replica to an in-sync set"
    ),
    _replicas(
        "FailedIsrUpdatesPerSec",
        _COUNTER,
        Unit.CHANGES,
        "changes of in-sync sets that the controller refused",
    ),
    _replicas(
        "OfflineReplicaCount",
        _GAUGE,
        Unit.REPLICAS,
        "replicas of this broker in failed log directories",
    ),
    _throttled("Leader", "sent to followers from throttled replicas"),
    _throttled("Follower", "fetched from leaders for throttled replicas"),
)
