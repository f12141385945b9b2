"""Asks the controller to elect leaders (KIP-460)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from cluster.client.quota_requests import Caller
from cluster.client.topic_requests import Place
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import ElectLeadersRequest, TopicPartitions

ELECTION_TYPES: Final = {"preferred": 0, "unclean": 1}
_TIMEOUT: Final = timedelta(seconds=25)


def elect_leaders(
    client: Caller, election_type: str, places: Sequence[Place] | None
) -> dict[Place, Refused | None]:
    """The refusal for each partition, None where it was elected; `places` None: wherever needed.

    Raises Refused where the request as a whole is refused, or the controller has moved.
    """
    asked: dict[str, list[int]] = {}
    for place in places or ():
        asked.setdefault(place.topic, []).append(place.partition)
    request = ElectLeadersRequest(
        election_type=ELECTION_TYPES[election_type],
        topic_partitions=None
        if places is None
        else tuple(
            TopicPartitions(topic=topic, partitions=tuple(numbers))
            for topic, numbers in asked.items()
        ),
        timeout=_TIMEOUT,
    )
    told = client.call(ApiKey.ELECT_LEADERS, request)
    if told.error_code is not ErrorCode.none:
        raise Refused(told.error_code)
    found: dict[Place, Refused | None] = {}
    for topic in told.replica_election_results:
        for each in topic.partition_result:
            refused = Refused(each.error_code, each.error_message or "")
            if each.error_code is ErrorCode.not_controller:
                raise refused
            is_done = each.error_code is ErrorCode.none
            found[Place(topic.topic, each.partition_id)] = None if is_done else refused
    return found
