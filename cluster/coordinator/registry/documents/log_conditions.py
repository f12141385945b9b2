"""Log conditions in a broker's registration, small enough for ten thousand logs. Pure."""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from cluster.model.ids import LeaderEpoch, Offset, TopicPartition, decode_uuid, encode_uuid
from cluster.model.log_condition import LogCondition, LogEnd

_NUMBER_MAX: Final = 1_000_000
"""The largest partition number: a range must not exhaust memory."""
_PLAIN_MAX: Final = 16_000
"""The number of characters above which the text is compressed: a registration has to stay below
jute.maxbuffer.
"""
_TEXT_MAX: Final = 64 << 20
_PACKED: Final = "zlib"


def encode_condition(condition: LogCondition) -> dict[str, object]:
    """Encode by topic and in ranges. Doubtful logs are not repeated among the existing ones."""
    document: dict[str, object] = {
        "missing": _ranges_by_topic(condition.missing),
        "directory_lost": condition.is_directory_lost,
    }
    if condition.held is not None:
        document["held"] = _ranges_by_topic(condition.held.difference(condition.doubtful))
    doubtful: dict[str, list[tuple[int, int, int, str]]] = {}
    for partition, (epoch, offset, topic_id) in condition.doubtful.items():
        log = (partition.partition, epoch, offset, encode_uuid(topic_id))
        doubtful.setdefault(partition.topic, []).append(log)
    document["doubtful"] = doubtful
    text = json.dumps(document, separators=(",", ":"))
    if len(text) <= _PLAIN_MAX:
        return document
    return {_PACKED: base64.b64encode(zlib.compress(text.encode())).decode("ascii")}


def decode_condition(fields: Mapping[str, Any]) -> LogCondition:
    """Raises ValueError, KeyError or TypeError for anything else."""
    if _PACKED in fields:
        return _decode_packed(fields[_PACKED])
    return _decode(fields)


@lru_cache(maxsize=32)
def _decode_packed(packed: str) -> LogCondition:
    """Cached, since all registrations are read whenever a broker registers or leaves."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(base64.b64decode(packed, validate=True), _TEXT_MAX)
        if not unpacking.eof:
            raise ValueError("the condition of logs is cut, or too long")
        return _decode(json.loads(text))
    except (zlib.error, RecursionError) as error:
        raise ValueError(f"the condition of logs cannot be read: {error}") from error


def _decode(fields: Mapping[str, Any]) -> LogCondition:
    doubtful = {
        TopicPartition(str(topic), _number(number)): LogEnd(
            _epoch(epoch), _offset(end), decode_uuid(topic_id)
        )
        for topic, logs in fields["doubtful"].items()
        for number, epoch, end, topic_id in logs
    }
    held = None
    if "held" in fields:
        held = _partitions_by_topic(fields["held"]).union(doubtful)
    missing = _partitions_by_topic(fields["missing"])
    return LogCondition(held, missing, bool(fields["directory_lost"]), doubtful)


def _ranges_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[list[int]]]:
    """Ranges of partition numbers, each with its first and its last."""
    topics: dict[str, list[list[int]]] = {}
    for topic, number in sorted(partitions):
        ranges = topics.setdefault(topic, [])
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return topics


def _partitions_by_topic(topics: Mapping[str, list[list[int]]]) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(str(topic), number)
        for topic, ranges in topics.items()
        for first, last in ranges
        for number in range(_number(first), _number(last) + 1)
    )


def _number(number: float | str) -> int:
    whole = int(number)
    if not 0 <= whole <= _NUMBER_MAX:
        raise ValueError(f"{whole} is not a partition")
    return whole


def _epoch(number: float | str) -> LeaderEpoch:
    whole = int(number)
    if not -1 <= whole < 2**31:
        raise ValueError(f"{whole} is not a leader epoch")
    return LeaderEpoch(whole)


def _offset(number: float | str) -> Offset:
    whole = int(number)
    if not 0 <= whole < 2**63:
        raise ValueError(f"{whole} is not an offset")
    return Offset(whole)
