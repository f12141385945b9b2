from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from cluster.client.missing_offsets import assign_again


class Member:
    """A client with an assignment, which may only change by parts."""

    def __init__(self, *numbers: int, by_parts: bool = False) -> None:
        self._assignment = [TopicPartition("t", number) for number in numbers]
        self._by_parts = by_parts
        self.calls: list[tuple[str, list[tuple[int, int]]]] = []

    def assignment(self) -> list[TopicPartition]:
        return self._assignment

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition("t", each.partition, each.partition + 7) for each in partitions]

    def assign(self, partitions: list[TopicPartition]) -> None:
        if self._by_parts:
            raise KafkaException(KafkaError(KafkaError.INVALID_REQUEST))
        self._call("assign", partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._call("unassign", partitions)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._call("add", partitions)

    def _call(self, what: str, partitions: list[TopicPartition]) -> None:
        self.calls.append((what, [(each.partition, each.offset) for each in partitions]))


def calls_of(member: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    assign_again(member)
    calls: list[tuple[str, list[tuple[int, int]]]] = member.calls
    return calls


def test_an_assignment_is_replaced_by_itself_at_its_positions() -> None:
    assert calls_of(Member(0, 2)) == [("assign", [(0, 7), (2, 9)])]


def test_an_assignment_that_changes_by_parts_is_taken_away_and_given_back() -> None:
    parts = [(1, 8)]
    assert calls_of(Member(1, by_parts=True)) == [("unassign", parts), ("add", parts)]


def test_member_without_an_assignment_is_assigned_nothing() -> None:
    assert calls_of(Member()) == []
