"""Kafka's dump tool reads what the group coordinator writes."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cluster.coordinator.groups.effects import GroupRecord
from cluster.records.builder import NewRecord, build_batch
from tests.compat.kafka_process import require_kafka, run_tool
from tests.support.group_stage import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, GroupStage

pytestmark = [pytest.mark.compat, pytest.mark.slow]

_RECORD = re.compile(r"\| offset: \d+ .*? key: (\{.*?\}) payload: (\{.*\}|<DELETE>)$")


def write_segment(records: list[GroupRecord], path: Path) -> None:
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
    segment = tmp_path / "00000000000000000000.log"
    write_segment(stage.log, segment)

    text = run_tool("kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    key = {"type": "2", "data": {"group": GROUP}}
    orders = {"type": "1", "data": {"group": GROUP, "topic": "orders", "partition": 3}}
    simple = {"type": "1", "data": {"group": "群组", "topic": "orders", "partition": 4}}
    assert dumped(text) == [
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
