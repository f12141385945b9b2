"""The options of the data source, named as Spark's Kafka connector names them. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.analytics.rollup.offset_ranges import OffsetRange
from cluster.analytics.windows.record_schema import RECORDS
from cluster.model.errors import UserError
from cluster.model.topics import METRICS_TOPIC

PERMISSIVE: Final = "PERMISSIVE"
DROPMALFORMED: Final = "DROPMALFORMED"
FAILFAST: Final = "FAILFAST"
MODES: Final = (DROPMALFORMED, PERMISSIVE, FAILFAST)
"""The treatment of values that are not metric records, as in Spark's JSON source."""

_EARLIEST: Final = "earliest"
_LATEST: Final = "latest"
_AT: Final = {-1: _LATEST, -2: _EARLIEST}
"""Offsets with a special meaning in Spark's connector."""
_KAFKA: Final = "kafka."
_SERVERS: Final = "bootstrap.servers"
_RESERVED: Final = ("auto.offset.reset", "enable.auto.commit", "enable.partition.eof")
"""Settings of the Kafka client that reading ranges depends on."""
_BATCH_ONLY: Final = ("endingOffsets",)
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger",)
_NAMES: Final = (
    *("subscribe", "startingOffsets", "failOnDataLoss", "minPartitions", "kind", "mode"),
    *_BATCH_ONLY,
    *_STREAM_ONLY,
)
_OFFSET_MAX: Final = (1 << 63) - 1

Position = str | Mapping[int, int | str]
"""`earliest`, `latest`, or for each partition an offset or one of these."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one reader. Pickled into its tasks."""

    topic: str
    kind: str | None
    """None for records of all kinds."""
    mode: str
    starting: Position
    ending: Position
    fail_on_data_loss: bool
    min_partitions: int
    """The minimum number of tasks of a read; 1 for one task for each partition."""
    max_offsets: int | None
    """The maximum of records in a batch of a stream."""
    connection: Mapping[str, str] = field(repr=False)
    """Settings of the Kafka client. They may contain a password."""


def parsed_options(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """The options as Spark gives them, with names in any case. Raises UserError."""
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given, is_stream=is_stream)
    topic = given.get("subscribe", METRICS_TOPIC)
    most = given.get("maxoffsetspertrigger")
    return SourceOptions(
        topic=topic,
        kind=_chosen("kind", given["kind"], tuple(RECORDS)) if "kind" in given else None,
        mode=_chosen("mode", given.get("mode", DROPMALFORMED).upper(), MODES),
        starting=_position(
            "startingOffsets",
            given.get("startingoffsets", _LATEST if is_stream else _EARLIEST),
            topic,
        ),
        ending=_ending(given.get("endingoffsets", _LATEST), topic),
        fail_on_data_loss=_flag("failOnDataLoss", given.get("failondataloss", "true")),
        min_partitions=_count("minPartitions", given.get("minpartitions", "1")),
        max_offsets=None if most is None else _count("maxOffsetsPerTrigger", most),
        connection=_connection(given),
    )


def columns_wanted(options: Mapping[str, str]) -> tuple[str | None, str]:
    """The kind of records and the mode, on which the schema depends. Raises UserError."""
    given = {name.lower(): value for name, value in options.items()}
    kind = _chosen("kind", given["kind"], tuple(RECORDS)) if "kind" in given else None
    return kind, _chosen("mode", given.get("mode", DROPMALFORMED).upper(), MODES)


def offsets_at(option: str, position: Position, present: tuple[OffsetRange, ...]) -> dict[int, int]:
    """The offset of each partition at a position. Raises UserError."""
    if not isinstance(position, str) and set(position) != {each.partition for each in present}:
        raise UserError(
            f"{option} must name every partition of the topic:"
            f" {', '.join(str(each.partition) for each in present)}"
        )
    found = {}
    for each in present:
        at = position if isinstance(position, str) else position[each.partition]
        if at == _EARLIEST:
            found[each.partition] = each.start
        elif at == _LATEST:
            found[each.partition] = each.end
        elif isinstance(at, int) and at <= each.end:
            found[each.partition] = at
        else:
            raise UserError(
                f"{option}: partition {each.partition} ends at offset {each.end}, before {at}"
            )
    return found


def _refuse_unknown(given: Mapping[str, str], *, is_stream: bool) -> None:
    known = {name.lower() for name in _NAMES}
    for name in given:
        if not name.startswith(_KAFKA) and name not in known:
            raise UserError(f"unknown option {name}; there are {', '.join(_NAMES)} and kafka.*")
    for name in _BATCH_ONLY if is_stream else _STREAM_ONLY:
        if name.lower() in given:
            raise UserError(f"{name} is for {'spark.read' if is_stream else 'spark.readStream'}")


def _connection(given: Mapping[str, str]) -> dict[str, str]:
    found = {
        name.removeprefix(_KAFKA): value for name, value in given.items() if name.startswith(_KAFKA)
    }
    if not found.get(_SERVERS):
        raise UserError(f"set {_KAFKA}{_SERVERS}, for example to localhost:9092")
    for name in _RESERVED:
        if name in found:
            raise UserError(f"{_KAFKA}{name} cannot be set: no offset is committed or reset")
    return found


def _ending(text: str, topic: str) -> Position:
    found = _position("endingOffsets", text, topic)
    if found == _EARLIEST or (not isinstance(found, str) and _EARLIEST in found.values()):
        raise UserError("endingOffsets cannot be earliest (-2)")
    return found


def _position(option: str, text: str, topic: str) -> Position:
    word = text.strip().lower()
    if word in (_EARLIEST, _LATEST):
        return word
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or list(found) != [topic] or not _are_offsets(found[topic]):
        example = json.dumps({topic: {"0": 23, "1": -2}})
        raise UserError(f"{option} must be {_EARLIEST}, {_LATEST} or offsets as {example}")
    return {int(partition): _AT.get(at, at) for partition, at in found[topic].items()}


def _are_offsets(found: Any) -> bool:
    return isinstance(found, dict) and all(
        name.isdecimal()
        and isinstance(at, int)
        and not isinstance(at, bool)
        and min(_AT) <= at <= _OFFSET_MAX
        for name, at in found.items()
    )


def _chosen(option: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UserError(f"{option} must be one of {', '.join(choices)}, not {value!r}")
    return value


def _flag(option: str, value: str) -> bool:
    return _chosen(option, value.strip().lower(), ("true", "false")) == "true"


def _count(option: str, value: str) -> int:
    text = value.strip()
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:20]) <= _OFFSET_MAX:
        raise UserError(f"{option} must be a number from 1, not {value[:40]!r}")
    return int(text)
