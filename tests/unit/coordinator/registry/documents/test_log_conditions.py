"""What registrations say of logs: the same again after reading, and never too long."""

import base64
import json
import uuid
import zlib
from pathlib import Path
from typing import Any

import pytest

from cluster.coordinator.registry.documents.log_conditions import decode_condition, encode_condition
from cluster.coordinator.registry.server.options import RegistryOptions
from cluster.model.ids import LeaderEpoch, Offset, TopicPartition
from cluster.model.log_condition import INTACT, LogCondition, LogEnd

END = LogEnd(LeaderEpoch(2), Offset(17), uuid.UUID(int=1 << 77))


def logs(count: int, topic: str = "t") -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in range(count))


@pytest.mark.parametrize(
    "condition",
    [
        INTACT,
        LogCondition(frozenset()),
        LogCondition(logs(3), logs(2, "u"), True, {TopicPartition("t", 2): END}),
        LogCondition(None, doubtful=dict.fromkeys(logs(4), END)),
        LogCondition(logs(9_000), logs(3, "u"), True, dict.fromkeys(logs(5_000), END)),
    ],
)
def test_a_condition_is_read_as_it_was_written(condition: LogCondition) -> None:
    document = json.loads(json.dumps(encode_condition(condition)))
    assert decode_condition(document) == condition


def test_a_registration_with_ten_thousand_logs_fits_into_a_znode() -> None:
    """Also after a power failure, which makes all of them doubtful."""
    names = [
        f"com.example.department.service.orders.created-{n:06d}.changelog" for n in range(10_000)
    ]
    held = frozenset(TopicPartition(name, 0) for name in names)
    condition = LogCondition(held, doubtful=dict.fromkeys(held, END))
    document = json.dumps(encode_condition(condition))
    assert len(document) < RegistryOptions(Path("unused")).jute_max_buffer_bytes // 4
    assert decode_condition(json.loads(document)) == condition


def packed(content: bytes) -> dict[str, str]:
    return {"zlib": base64.b64encode(content).decode()}


@pytest.mark.parametrize(
    "document",
    [
        {"zlib": "%"},
        {"zlib": 7},
        {"zlib": []},
        packed(b"none"),
        packed(zlib.compress(b"{}")[:-1]),
        packed(zlib.compress(b" " * (65 << 20))),
        packed(zlib.compress(b"[" * 100_000)),
        packed(zlib.compress(b"7")),
        {"missing": {}, "directory_lost": False, "doubtful": {"t": [[0, 1 << 31, 5, "A" * 22]]}},
        {"missing": {}, "directory_lost": False, "doubtful": {"t": [[0, 1, -1, "A" * 22]]}},
        {"missing": {}, "directory_lost": False, "doubtful": {"t": [[0, 1, 5, "A"]]}},
        {"missing": {}, "directory_lost": False, "doubtful": {"t": [[0, 1, 5]]}},
        {"missing": {"t": [[0, 1 << 40]]}, "directory_lost": False, "doubtful": {}},
    ],
)
def test_malformed_condition_raises_a_known_error(document: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        decode_condition(document)
