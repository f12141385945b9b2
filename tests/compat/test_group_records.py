"""Kafka's dump tool reads what the group coordinator writes."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.model.ids import encode_uuid
from cluster.records.builder import NewRecord, build_batch
from tests.compat.kafka_process import require_kafka, run_tool
from tests.support.consumer_stage import ConsumerStage, id_of
from tests.support.group_stage import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, GroupStage

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

_RECORD = re.compile(r"\| offset: \d+ .*? key: (\{.*?\}) payload: (\{.*\}|<DELETE>)$")


def write_segment(records: list[CoordinatorRecord], path: Path) -> None:
    new = [NewRecord(value, key=key, timestamp_ms=1_700_000_000_000) for key, value in records]
    path.write_bytes(bytes(build_batch(new)))


def test_the_dump_tool_reads_our_groups_and_offsets(tmp_path: Path) -> None:
    require_kafka()
    stage = GroupStage().loaded()
    token = stage.join(instance="s-1")
    stage.pass_time(DELAY_MS)
    joined_ms = stage.now.wall_ms
    member_id = stage.joined(token).member_id
    stage.assign([(member_id, token)])
    stage.commit({("orders", 3): 42}, member_id, 1, instance="s-1", metadata="by hand")
    stage.commit({("orders", 4): 43}, group="群组", retention_ms=60_000)
    stage.leave(member_id)
    stage.delete_groups(GROUP)
    newer = newer_group()
    segment = tmp_path / "00000000000000000000.log"
    write_segment([*stage.log, *newer.log], segment)

    text = run_tool("kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    key = {"type": "2", "data": {"group": GROUP}}
    orders = {"type": "1", "data": {"group": GROUP, "topic": "orders", "partition": 3}}
    simple = {"type": "1", "data": {"group": "群组", "topic": "orders", "partition": 4}}
    shown = dumped(text)
    assert in_order(shown[6:]) == in_order(newer_records())
    assert shown[:6] == [
        (
            key,
            {
                "version": "3",
                "data": {
                    "protocolType": "consumer",
                    "generation": 1,
                    "protocol": "range",
                    "leader": member_id,
                    "currentStateTimestamp": joined_ms,
                    "members": [
                        {
                            "memberId": member_id,
                            "groupInstanceId": "s-1",
                            "clientId": "client",
                            "clientHost": "/127.0.0.1",
                            "rebalanceTimeout": REBALANCE_MS,
                            "sessionTimeout": SESSION_MS,
                            "subscription": {"topics": ["orders"], "userData": None},
                            "assignment": base64.b64encode(member_id.encode()).decode(),
                        }
                    ],
                },
            },
        ),
        (orders, offset("3", 42, "by hand", stage.now.wall_ms)),
        (simple, offset("1", 43, "", stage.now.wall_ms)),
        (
            key,
            {
                "version": "3",
                "data": {
                    "protocolType": "consumer",
                    "generation": 2,
                    "protocol": None,
                    "leader": None,
                    "currentStateTimestamp": stage.now.wall_ms,
                    "members": [],
                },
            },
        ),
        (orders, None),
        (key, None),
    ]


def newer_group() -> ConsumerStage:
    """A group of the newer protocol: two members share a topic, one leaves."""
    stage = ConsumerStage().loaded()
    a = stage.consumer("a", instance="s-1", assignor="range")
    b = stage.consumer("b", "orders", "bills")
    a.beat()
    b.leave()
    return stage


def in_order(records: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Topics of an assignment by their ids: their order means nothing."""
    for _, value in records:
        for listed in ({} if value is None else value["data"]).values():
            if isinstance(listed, list) and listed and isinstance(listed[0], dict):
                listed.sort(key=lambda each: str(each["topicId"]))
    return records


def newer_records() -> list[tuple[Any, Any]]:
    """The records as the tool shows them, which does not know the hash of the topics yet."""

    def key(form: str, member: str | None = None) -> dict[str, Any]:
        names = {"groupId": GROUP} | ({} if member is None else {"memberId": member})
        return {"type": form, "data": names}

    def value(**fields: Any) -> dict[str, Any]:
        return {"version": "0", "data": fields}

    def partitions(**numbers: list[int]) -> list[dict[str, Any]]:
        return [
            {"topicId": encode_uuid(id_of(name)), "partitions": each}
            for name, each in numbers.items()
        ]

    def member(instance: str | None, assignor: str | None, *topics: str) -> dict[str, Any]:
        return value(
            instanceId=instance,
            rackId=None,
            clientId="client",
            clientHost="/127.0.0.1",
            subscribedTopicNames=sorted(topics),
            subscribedTopicRegex=None,
            rebalanceTimeoutMs=REBALANCE_MS,
            serverAssignor=assignor,
            classicMemberMetadata=None,
        )

    def current(epoch: int, before: int, state: int, has: Any, revoking: Any) -> dict[str, Any]:
        return value(
            memberEpoch=epoch,
            previousMemberEpoch=before,
            state=state,
            assignedPartitions=has,
            partitionsPendingRevocation=revoking,
        )

    everything = partitions(orders=[0, 1, 2, 3])
    bills = partitions(bills=[0, 1])
    return [
        (key("5", "a"), member("s-1", "range", "orders")),
        (key("3"), value(epoch=1)),
        (key("7", "a"), value(topicPartitions=everything)),
        (key("6"), value(assignmentEpoch=1)),
        (key("8", "a"), current(1, 0, 0, everything, [])),
        (key("5", "b"), member(None, None, "orders", "bills")),
        (key("3"), value(epoch=2)),
        (key("7", "a"), value(topicPartitions=partitions(orders=[0, 1]))),
        (key("7", "b"), value(topicPartitions=[*bills, *partitions(orders=[2, 3])])),
        (key("6"), value(assignmentEpoch=2)),
        (key("8", "b"), current(2, 0, 2, bills, [])),
        (key("8", "a"), current(1, 1, 1, partitions(orders=[0, 1]), partitions(orders=[2, 3]))),
        (key("8", "b"), None),
        (key("7", "b"), None),
        (key("5", "b"), None),
        (key("3"), value(epoch=3)),
    ]


def offset(form: str, offset: int, metadata: str, commit_ms: int) -> dict[str, Any]:
    """A committed offset as the tool shows it."""
    fields: dict[str, Any] = {"offset": offset, "metadata": metadata, "commitTimestamp": commit_ms}
    fields |= {"expireTimestamp": commit_ms + 60_000} if form == "1" else {"leaderEpoch": -1}
    return {"version": form, "data": fields}


def dumped(text: str) -> list[tuple[Any, Any]]:
    """Key and value of every record that the tool shows; None for a tombstone."""
    found = [match for line in text.splitlines() if (match := _RECORD.search(line))]
    return [
        (json.loads(key), None if value == "<DELETE>" else json.loads(value))
        for key, value in (match.groups() for match in found)
    ]
