"""`log-dirs`: what it asks, and the forms in which it shows the answers."""

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.client.cluster_requests import broker_addresses
from cluster.client.log_dir_requests import LogDirFacts, ReplicaFacts, describe_log_dirs
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from cluster.tools.log_dirs import as_json, topic_rows
from cluster.tools.main import main


def replica(topic: str, number: int, size: int = 10, *, is_future: bool = False) -> ReplicaFacts:
    return ReplicaFacts(topic, number, size, 0, is_future)


class Answering:
    """A client whose broker gives this answer."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.asked: list[ApiKey] = []

    def call(self, api_key: ApiKey, _request: Any) -> Any:
        self.asked.append(api_key)
        return self._answer


def an_answer() -> DescribeLogDirsResponse:
    rows = {
        name: tuple(
            DescribeLogDirsPartition(
                partition_index=number, partition_size=10, offset_lag=0, is_future_key=False
            )
            for number in (1, 0)
        )
        for name in ("t", "u")
    }
    return DescribeLogDirsResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        results=(
            DescribeLogDirsResult(
                error_code=ErrorCode.none,
                log_dir="/one",
                topics=tuple(
                    DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in rows.items()
                ),
                total_bytes=100,
                usable_bytes=50,
            ),
            DescribeLogDirsResult(
                error_code=ErrorCode.kafka_storage_error,
                log_dir="/two",
                topics=(),
                total_bytes=-1,
                usable_bytes=-1,
            ),
        ),
    )


def test_replicas_are_sorted_and_those_of_other_topics_left_out() -> None:
    one, two = describe_log_dirs(Answering(an_answer()), ["t"])
    assert one == LogDirFacts("/one", ErrorCode.none, (replica("t", 0), replica("t", 1)), 100, 50)
    assert two == LogDirFacts("/two", ErrorCode.kafka_storage_error, (), -1, -1)
    (every, _) = describe_log_dirs(Answering(an_answer()))
    assert len(every.replicas) == 4


def test_the_object_is_that_of_kafkas_tool() -> None:
    found = {
        3: [
            LogDirFacts("/a", ErrorCode.none, (replica("t", 0, is_future=True),), 1, 1),
            LogDirFacts("/b", ErrorCode.kafka_storage_error, (), -1, -1),
            LogDirFacts("/c", ErrorCode.unknown_server_error, (), -1, -1),
        ]
    }
    assert json.loads(json.dumps(as_json(found))) == {
        "version": 1,
        "brokers": [
            {
                "broker": 3,
                "logDirs": [
                    {
                        "partitions": [
                            {"partition": "t-0", "size": 10, "offsetLag": 0, "isFuture": True}
                        ],
                        "error": None,
                        "logDir": "/a",
                    },
                    {
                        "partitions": [],
                        "error": "org.apache.kafka.common.errors.KafkaStorageException",
                        "logDir": "/b",
                    },
                    {"partitions": [], "error": "unknown_server_error", "logDir": "/c"},
                ],
            }
        ],
    }


def test_a_topic_has_one_row_in_each_log_directory_and_the_largest_is_first() -> None:
    found = (
        replica("small", 0, 10),
        replica("large", 0, 3 * 1024**2),
        replica("large", 1, 1024**2, is_future=True)._replace(offset_lag=1_500),
    )
    assert topic_rows(LogDirFacts("/a", ErrorCode.none, found, -1, -1)) == [
        ("large", "2", "4.0 MiB", "1,500", "1 being moved here"),
        ("small", "1", "10 bytes", "0", ""),
    ]


@pytest.mark.parametrize("words", [["log-dirs", "list"], ["log-dirs", "--broker-list", "x"]])
def test_wrong_usage_ends_with_status_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


def test_brokers_are_asked_of_any_broker() -> None:
    client = Answering(
        SimpleNamespace(
            error_code=ErrorCode.none,
            brokers=[SimpleNamespace(broker_id=2, host="here", port=9094)],
        )
    )
    assert broker_addresses(client) == {2: ("here", 9094)}
    assert client.asked == [ApiKey.DESCRIBE_CLUSTER]
