"""The offsets that `groups` asks leaders for."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from cluster.client.admin import AskLeader, Outcome
from cluster.client.topic_requests import Place
from cluster.model.errors import ErrorCode
from cluster.protocol.messages import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from cluster.views.groups.new_offsets import offsets_from


class Leader:
    """Answers 7 for times and 9 for the end, and keeps what was asked. An `Admin`, too."""

    def __init__(self, first: int = 7) -> None:
        self.first = first
        self.asked: list[int] = []

    def leaders(self, places: Iterable[Place], ask: AskLeader) -> Mapping[Place, Outcome]:
        client: Any = self
        wanted: Sequence[Place] = list(places)
        return ask(client, wanted)

    def call(self, _api_key: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        self.asked += [each.timestamp for topic in request.topics for each in topic.partitions]
        return ListOffsetsResponse(
            throttle_time=timedelta(0),
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            error_code=ErrorCode.none,
                            offset=9 if each.timestamp == -1 else self.first,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )


@pytest.mark.parametrize(("timestamp_ms", "asked_ms"), [(5, 5), (0, 0), (-1, 0), (-(10**14), 0)])
def test_a_time_before_1970_is_not_taken_for_the_end(timestamp_ms: int, asked_ms: int) -> None:
    leader: Any = Leader()
    assert offsets_from(leader, [Place("t", 0)], timestamp_ms) == {Place("t", 0): 7}
    assert leader.asked == [asked_ms]


def test_a_partition_without_later_records_gives_its_end() -> None:
    leader: Any = Leader(first=-1)
    assert offsets_from(leader, [Place("t", 0)], 5) == {Place("t", 0): 9}
    assert leader.asked == [5, -1]
