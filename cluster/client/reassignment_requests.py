"""Asks the controller to move partitions to other replicas, and which are being moved (KIP-455)."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from cluster.client.quota_requests import Caller
from cluster.client.topic_requests import Place
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)

_TIMEOUT: Final = timedelta(seconds=25)


class OngoingReassignment(NamedTuple):
    """A partition that is being moved."""

    replicas: tuple[int, ...]
    """Those that it will have, then those that it leaves."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


def alter_reassignments(
    client: Caller, targets: Mapping[Place, Sequence[int] | None], *, may_change_factor: bool = True
) -> dict[Place, Refused | None]:
    """Begin, change or cancel (None) reassignments; the refusal for each partition, None where it
    was accepted.

    Without `may_change_factor` a partition keeps its number of replicas (KIP-860; a broker that
    knows version 0 only ignores it). Raises Refused where the request as a whole is refused, or the
    controller has moved.
    """
    asked: dict[str, list[ReassignablePartition]] = {}
    for place, target in targets.items():
        asked.setdefault(place.topic, []).append(
            ReassignablePartition(
                partition_index=place.partition,
                replicas=None if target is None else tuple(target),
            )
        )
    told = client.call(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        AlterPartitionReassignmentsRequest(
            timeout=_TIMEOUT,
            allow_replication_factor_change=may_change_factor,
            topics=tuple(
                ReassignableTopic(name=topic, partitions=tuple(partitions))
                for topic, partitions in asked.items()
            ),
        ),
    )
    if told.error_code is not ErrorCode.none:
        raise Refused(told.error_code, told.error_message or "")
    found: dict[Place, Refused | None] = {}
    for topic in told.responses:
        for each in topic.partitions:
            refused = Refused(each.error_code, each.error_message or "")
            if each.error_code is ErrorCode.not_controller:
                raise refused
            is_done = each.error_code is ErrorCode.none
            found[Place(topic.name, each.partition_index)] = None if is_done else refused
    return found


def list_reassignments(
    client: Caller, places: Sequence[Place] | None = None
) -> dict[Place, OngoingReassignment]:
    """Those of the given partitions (None: of all) that are being moved.

    Raises Refused, as when the controller has moved.
    """
    asked: dict[str, list[int]] = {}
    for place in places or ():
        asked.setdefault(place.topic, []).append(place.partition)
    told = client.call(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ListPartitionReassignmentsRequest(
            timeout=_TIMEOUT,
            topics=None
            if places is None
            else tuple(
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=tuple(numbers))
                for topic, numbers in asked.items()
            ),
        ),
    )
    if told.error_code is not ErrorCode.none:
        raise Refused(told.error_code, told.error_message or "")
    return {
        Place(topic.name, each.partition_index): OngoingReassignment(
            each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in told.topics
        for each in topic.partitions
    }
