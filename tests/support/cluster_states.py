"""Brokers, partitions and topics in one line each."""

import uuid
from collections.abc import Iterable, Mapping

from cluster.model.cluster import (
    BrokerRegistration,
    ClusterState,
    Endpoint,
    PartitionState,
    TopicState,
)
from cluster.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch


def a_broker(number: int, epoch: int = 100, rack: str | None = None) -> BrokerRegistration:
    """A live broker; its endpoints tell its id and its epoch."""
    return BrokerRegistration(
        BrokerId(number),
        BrokerEpoch(epoch),
        (Endpoint("PLAINTEXT", "PLAINTEXT", f"host{number}", 9092 + number),),
        rack,
        f"control-{number}-{epoch}",
        f"replication-{number}-{epoch}",
        "here",
    )


def a_partition(
    replicas: Iterable[int],
    isr: Iterable[int] | None = None,
    leader: int | None = None,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
) -> PartitionState:
    """All replicas in sync and the first one leading, unless told otherwise."""
    all_replicas = tuple(map(BrokerId, replicas))
    return PartitionState(
        all_replicas,
        all_replicas if isr is None else tuple(map(BrokerId, isr)),
        all_replicas[0] if leader is None else BrokerId(leader),
        LeaderEpoch(leader_epoch),
        PartitionEpoch(partition_epoch),
    )


def a_topic(
    name: str, *partitions: PartitionState, configs: Mapping[str, str] | None = None
) -> TopicState:
    """A topic whose id follows from its name."""
    topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return TopicState(name, topic_id, configs or {}, dict(enumerate(partitions)))


def a_cluster(brokers: Iterable[int], *topics: TopicState) -> ClusterState:
    """Live brokers by number, and topics."""
    state = ClusterState()
    for number in brokers:
        state.brokers[BrokerId(number)] = a_broker(number)
    for topic in topics:
        state.put_topic(topic)
    return state
