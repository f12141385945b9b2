"""Requests about reassignments and elections whose answers by Kafka 4.1 are recorded.

`python -m tests.compat.record_reassignments` records them. The requests build upon each other. They
are for a cluster of two live brokers, of which OTHER takes no records, so that it never joins an
ISR.
"""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.kafka_wire import request

RECORDED: Final = Path(__file__).parent / "kafka_answers" / "reassignments.json"
ME, OTHER = 1, 77
TOPICS: Final = {"one": [[ME], [ME]], "pair": [[ME, OTHER], [OTHER, ME]]}
"""The replicas of each partition of the topics that exist."""
UNKNOWN: Final = 99

_Targets = list[tuple[str, list[tuple[int, list[int] | None]]]]
_Partitions = list[tuple[str, list[int]]]


class Case(NamedTuple):
    """A request."""

    name: str
    request: Any


def cases() -> Iterator[Case]:
    """All of them, in the order in which they are to be sent."""
    for version in (0, 1):
        yield _alter(f"nothing in v{version}", [], version)
        yield _alter(f"topics without partitions in v{version}", [("one", []), ("no", [])], version)
    yield _alter("nothing to reassign", [("one", [(0, [ME]), (1, [ME])])])
    yield _alter("unknown partitions", [("no", [(0, [ME])]), ("one", [(7, [ME]), (-1, [ME])])])
    yield _alter("cancel unknown partitions", [("no", [(0, None)]), ("one", [(7, None)])])
    yield _alter("a topic without name", [("", [(0, [ME])])])
    yield _alter("cancel what is not reassigned", [("one", [(0, None)])])
    for target in (
        [],
        [ME, ME],
        [-1],
        [ME, -1],
        [UNKNOWN],
        [UNKNOWN, UNKNOWN],
        [UNKNOWN, ME, ME],
        [ME, ME, -1],
    ):
        yield _alter(f"replicas {target}", [("one", [(0, target)])])
    yield _alter("a partition twice", [("one", [(0, [ME]), (0, [ME, ME]), (1, [ME])])])
    yield _alter("a topic twice", [("one", [(0, [ME])]), ("pair", []), ("one", [(0, [ME])])])
    yield _alter(
        "their order",
        [("pair", [(1, [UNKNOWN]), (0, [])]), ("one", [(1, [])]), ("a", [(0, [UNKNOWN])])],
    )
    for what, target_of_pair in (
        ("fewer", [ME]),
        ("as many", [OTHER, ME]),
        ("unknown ones and fewer", [UNKNOWN]),
        ("a cancellation of", None),
    ):
        yield _alter(
            f"{what} replicas without a change of their number",
            [("pair", [(0, target_of_pair)])],
            may_change_factor=False,
        )
    yield _alter("more replicas", [("one", [(0, [ME, OTHER])])], may_change_factor=False)
    for asked in (None, [], [("one", [0, 7])], [("no", [0])]):
        yield _list(f"nothing is reassigned: {asked}", asked)
    yield _alter("a reassignment", [("one", [(0, [OTHER, ME])]), ("pair", [(0, [ME, OTHER])])])
    some: list[_Partitions | None] = [None, [], [("one", [])], [("one", [0, 1, 0, 9])]]
    some.append([("one", [0]), ("pair", [0, 1]), ("one", [1, 0])])
    for asked in some:
        yield _list(f"one is reassigned: {asked}", asked)
    yield _alter("the same reassignment again", [("one", [(0, [OTHER, ME])])])
    yield _alter("cancel the reassignment", [("one", [(0, None), (1, None)])])
    yield _alter("cancel it again", [("one", [(0, None)])])
    yield _list("nothing is reassigned any more", None)
    yield from _elections()


def _elections() -> Iterator[Case]:
    for version in range(3):
        yield _elect(f"nothing in v{version}", [], version)
        yield _elect(f"topics without partitions in v{version}", [("pair", [])], version)
        yield _elect(
            f"unknown partitions in v{version}", [("no", [0]), ("one", [7, -1, 0])], version
        )
    yield _elect("partitions twice", [("one", [0, 0, 1])])
    yield _elect("topics twice", [("one", [0]), ("pair", []), ("one", [0, 1])])
    yield _elect("their order", [("one", [1, 0]), ("a", [0])])
    yield _elect("a topic without name", [("", [0])])
    for kind in (2, -1):
        yield _elect(f"type {kind}", [("one", [0])], kind=kind)
        yield _elect(f"type {kind} in v1", [("one", [0])], 1, kind=kind)
        yield _elect(f"type {kind} of nothing", [], kind=kind)
        yield _elect(f"type {kind} of everything", None, kind=kind)
    yield _elect("unclean with a leader", [("one", [0]), ("no", [0])], kind=1)


def _alter(
    name: str, topics: _Targets, version: int = 1, *, may_change_factor: bool = True
) -> Case:
    return Case(
        f"alter: {name}",
        request(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            version,
            timeout=30_000,
            allow_replication_factor_change=may_change_factor,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": number, "replicas": replicas}
                        for number, replicas in partitions
                    ],
                }
                for topic, partitions in topics
            ],
        ),
    )


def _list(name: str, topics: _Partitions | None) -> Case:
    asked = topics and [{"name": each, "partition_indexes": numbers} for each, numbers in topics]
    return Case(
        f"list: {name}",
        request(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, timeout=30_000, topics=asked),
    )


def _elect(name: str, topics: _Partitions | None, version: int = 2, *, kind: int = 0) -> Case:
    asked = topics and [{"topic": each, "partitions": numbers} for each, numbers in topics]
    return Case(
        f"elect: {name}",
        request(
            ApiKey.ELECT_LEADERS,
            version,
            timeout=30_000,
            election_type=kind,
            topic_partitions=asked,
        ),
    )


def plain(answer: Any) -> Any:
    """An answer as JSON has it, with the names of errors, without times."""
    if is_dataclass(answer):
        names = (each.name for each in fields(answer))
        return {name: plain(getattr(answer, name)) for name in names if name != "throttle_time"}
    if isinstance(answer, tuple):
        return [plain(each) for each in answer]
    return ErrorCode(answer).name if hasattr(answer, "retriable") else answer


def recorded() -> dict[str, Any]:
    """Kafka's answers by the names of the cases."""
    answers: dict[str, Any] = json.loads(RECORDED.read_text())["answers"]
    return answers
