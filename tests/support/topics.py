"""Topics made and looked at through raw requests: creation, leaders, in-sync replicas."""

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.kafka_wire import ClosedByPeer, WireClient, metadata_request, request
from tests.support.running_cluster import Address, Cluster
from tests.support.waiting import wait_until

_numbers = itertools.count(1)


def unique_name(prefix: str = "topic") -> str:
    """A topic name that no other test of this process has."""
    return f"{prefix}-{next(_numbers)}"


def describe(address: Address, *topics: str) -> Any:
    """One broker's Metadata, or None when it does not answer."""
    try:
        with WireClient(address, timeout_s=5.0) as client:
            return client.call(metadata_request(*topics))
    except (OSError, ClosedByPeer):
        return None


def controller(cluster: Cluster) -> int:
    """The broker that is the controller, once some broker knows it."""

    def known() -> set[int]:
        views = filter(None, map(describe, cluster.addresses))
        return {view.controller_id for view in views if view.controller_id >= 0}

    (broker,) = wait_until(lambda: ids if len(ids := known()) == 1 else None, "one controller")
    return broker


def create_topic(
    cluster: Cluster,
    name: str | None = None,
    *,
    partitions: int = 1,
    replication_factor: int = 3,
    assignments: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str] | None = None,
) -> str:
    """Create a topic and return its name when every live broker knows it with leaders.

    `assignments` lists the replicas of each partition, the preferred leader first.
    """
    name = name or unique_name()
    asked = create_topics_request(
        name,
        partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else replication_factor,
        assignments=assignments,
        configs=configs,
    )

    def answered() -> Any:
        """Another broker may just have become the controller."""
        with WireClient(cluster.addresses[controller(cluster)]) as client:
            (result,) = client.call(asked).topics
        return None if result.error_code == ErrorCode.not_controller else result

    result = wait_until(answered, f"the controller to create {name}")
    assert result.error_code == 0, result
    count = len(assignments) or partitions
    for address in cluster.addresses:
        if describe(address) is not None:
            wait_until(partial(_is_ready, address, name, count), f"{name} on {address}")
    return name


def metrics_topic(cluster: Cluster, *, partitions: int = 1) -> str:
    """Create a topic for metric records, of which tests make old ones: it keeps them for ever."""
    return create_topic(
        cluster, unique_name("metrics"), partitions=partitions, configs={"retention.ms": "-1"}
    )


def create_topics_request(
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int = 1,
    assignments: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str] | None = None,
    timeout_ms: int = 10_000,
) -> Any:
    """CreateTopics of one topic."""
    return request(
        ApiKey.CREATE_TOPICS,
        7,
        topics=[
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": replication_factor,
                "assignments": [
                    {"partition_index": number, "broker_ids": list(replicas)}
                    for number, replicas in enumerate(assignments)
                ],
                "configs": [
                    {"name": key, "value": value} for key, value in (configs or {}).items()
                ],
            }
        ],
        timeout=timeout_ms,
        validate_only=False,
    )


def _is_ready(address: Address, name: str, partitions: int) -> bool:
    view = describe(address, name)
    return (
        view is not None
        and len(view.topics[0].partitions) == partitions
        and all(partition.leader_id >= 0 for partition in view.topics[0].partitions)
    )


def partition_state(cluster: Cluster, topic: str, partition: int, asked: int) -> Any:
    """One partition as one broker's Metadata has it; None while it does not answer or know."""
    view = describe(cluster.addresses[asked], topic)
    if view is None:
        return None
    found = [p for p in view.topics[0].partitions if p.partition_index == partition]
    return found[0] if found else None


def wait_for_isr(cluster: Cluster, topic: str, size: int, partition: int = 0) -> None:
    """Until every live broker's Metadata shows an in-sync set of that size."""

    def is_so() -> bool:
        states = [
            partition_state(cluster, topic, partition, asked) for asked in range(cluster.size)
        ]
        return any(states) and all(len(state.isr_nodes) == size for state in states if state)

    wait_until(is_so, f"{size} in-sync replicas of {topic}-{partition}")


def leader(cluster: Cluster, topic: str, partition: int = 0, asked: int = 0) -> int:
    """The broker that leads a partition, as one broker's Metadata has it."""
    state = wait_until(
        lambda: partition_state(cluster, topic, partition, asked), f"{topic} on broker {asked}"
    )
    return int(state.leader_id)
