"""Reads stats files of other processes, even of busy or dead ones, without involving them.

It never waits for the writer: a row that stays inconsistent after some tries is left out and
counted.
"""

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cluster.metrics.histogram import Histogram
from cluster.metrics.kafka_names import REQUEST_PARTS, TOPIC_METRICS
from cluster.metrics.stats_layout import (
    API_NAME_BYTES,
    COUNTER_64,
    GROUPS_LENGTH_AT,
    GROUPS_TEXT_AT,
    HISTOGRAM_NUMBERS,
    NAME_BYTES,
    REQUEST_BYTES,
    ROW_AT,
    ROW_BYTES,
    SEQUENCE_AT,
    TOPIC,
    TOPIC_BYTES,
    MetricKind,
    QuotaRow,
    read_header,
    unpack_row,
)

_TRIES: Final = 1000
"""Writing a row takes about a microsecond, and so does copying it."""
_PID_MAX: Final = 1 << 31

Unpack = Callable[[bytes], QuotaRow | None]


@dataclass(frozen=True, slots=True)
class Stats:
    """The content of one file. `torn_count` rows were left out because a write was incomplete."""

    process: str
    pid: int
    started_wall_ms: int
    written_wall_ms: int
    written_ms: int
    """On the machine's monotonic clock."""
    values: dict[str, float]
    """By metric name; counters and gauges are ints."""
    rows: list[QuotaRow]
    torn_count: int = 0
    groups: bytes = b""
    """Lines of JSON; empty if a write was incomplete."""
    requests: dict[str, dict[str, Histogram]] = field(default_factory=dict)
    """The times of requests by API (`Produce`, `FetchConsumer`) and by the keys of
    `REQUEST_PARTS`."""
    topics: dict[str, dict[str, int]] = field(default_factory=dict)
    """The values of `TOPIC_METRICS` by topic, including `_other`."""


def read_stats(path: Path, unpack: Unpack = unpack_row) -> Stats:
    """Read a file. Raises OSError, or ValueError if it is not a stats file.

    `unpack` unpacks a row; a reader that polls may cache the result for the same bytes.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        view = memoryview(memory)
        try:
            return read_memory(view, unpack)
        finally:
            view.release()


def read_memory(memory: memoryview, unpack: Unpack = unpack_row) -> Stats:
    """Read the memory of a stats file. Raises ValueError if it is not one."""
    header = read_header(memory)
    values = _read_values(memory)
    rows = []
    torn_count = 0
    for position in range(header.rows_at, header.requests_at, ROW_BYTES):
        if memory[position + ROW_AT] == 0:
            continue
        packed = _copy(memory, position, position + ROW_AT, position + ROW_BYTES)
        if packed is None:
            torn_count += 1
            continue
        row = unpack(packed)
        if row is not None:
            rows.append(row)
    latest = read_header(memory)
    return Stats(
        header.process.rstrip(b"\0").decode("utf-8", "replace"),
        header.pid if 0 < header.pid < _PID_MAX else 0,
        header.started_wall_ms,
        latest.written_wall_ms,
        latest.written_ms,
        values,
        rows,
        torn_count,
        _read_groups(memory),
        _read_requests(memory),
        _read_topics(memory),
    )


def _read_values(memory: memoryview) -> dict[str, float]:
    header = read_header(memory)
    names = _copy(memory, SEQUENCE_AT, header.names_at, header.values_at)
    if names is None:
        return {}
    count = min(read_header(memory).slot_count, header.slot_capacity)
    section = memory[header.values_at : header.rows_at]
    counts, reals = section.cast("q"), section.cast("d")
    values: dict[str, float] = {}
    for slot in range(count):
        start = slot * NAME_BYTES
        kind, length = names[start], names[start + 1]
        if kind:
            name = names[start + 2 : start + 2 + length].decode("ascii", "replace")
            values[name] = reals[slot] if kind == MetricKind.REAL else counts[slot]
    for view in (counts, reals, section):
        view.release()
    return values


def _read_requests(memory: memoryview) -> dict[str, dict[str, Histogram]]:
    header = read_header(memory)
    requests: dict[str, dict[str, Histogram]] = {}
    for start in range(header.requests_at, header.topics_at, REQUEST_BYTES):
        if memory[start] == 0:
            break
        packed = bytes(memory[start : start + REQUEST_BYTES])
        name = packed[:API_NAME_BYTES].rstrip(b"\0").decode("ascii", "replace")
        numbers = memoryview(packed)[API_NAME_BYTES:].cast("q").tolist()
        if any(numbers):
            requests[name] = {
                part.key: Histogram(numbers[at], tuple(numbers[at + 1 : at + HISTOGRAM_NUMBERS]))
                for part, at in zip(
                    REQUEST_PARTS, range(0, len(numbers), HISTOGRAM_NUMBERS), strict=True
                )
            }
    return requests


def _read_topics(memory: memoryview) -> dict[str, dict[str, int]]:
    header = read_header(memory)
    topics: dict[str, dict[str, int]] = {}
    for start in range(header.topics_at, header.groups_at, TOPIC_BYTES):
        if COUNTER_64.unpack_from(memory, start + 8)[0] == 0:
            continue
        packed = _copy(memory, start, start + 8, start + TOPIC_BYTES)
        if packed is not None:
            length, *values, name = TOPIC.unpack(packed)
            if length:
                topics[name[:length].decode("ascii", "replace")] = {
                    metric.key: value for metric, value in zip(TOPIC_METRICS, values, strict=True)
                }
    return topics


def _read_groups(memory: memoryview) -> bytes:
    header = read_header(memory)
    if not header.groups_capacity:
        return b""
    start = header.groups_at
    for _ in range(_TRIES):
        (expected,) = COUNTER_64.unpack_from(memory, start + GROUPS_LENGTH_AT)
        expected = max(0, min(expected, header.groups_capacity))
        copied = _copy(memory, start, start, start + GROUPS_TEXT_AT + expected)
        if copied is None:
            return b""
        if COUNTER_64.unpack_from(copied, GROUPS_LENGTH_AT)[0] == expected:
            return copied[GROUPS_TEXT_AT:]
    return b""


def _copy(memory: memoryview, sequence_at: int, start: int, end: int) -> bytes | None:
    """A consistent copy of [start, end); None if every try coincided with a write."""
    for _ in range(_TRIES):
        before = COUNTER_64.unpack_from(memory, sequence_at)[0]
        if before & 1 == 0:
            copied = bytes(memory[start:end])
            if COUNTER_64.unpack_from(memory, sequence_at)[0] == before:
                return copied
    return None
