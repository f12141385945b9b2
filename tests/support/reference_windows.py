"""The windows of metric records as plain Python makes them, of every kind, to compare with."""

import math
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from cluster.analytics.windows.histogram import RATE_ERROR
from cluster.analytics.windows.kinds import STATES, WindowKind
from cluster.metrics.histogram import BUCKETS, quantile_us
from tests.support.metric_records import (
    START_MS,
    Record,
    generated_group_records,
    generated_records,
)

_MILLION = 1_000_000


def reference_windows(records: Iterable[Record], kind: WindowKind, width_s: int) -> list[Record]:
    """Rows with the columns `kind.names` but for `histogram`, in the order of files."""
    found: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        if record["kind"] == kind.name:
            began_s = (record["ts"] - record["interval_ms"]) // 1000
            key = (began_s - began_s % width_s, *(record[name] for name in kind.keys))
            found[key].append(record)
    rows = []
    for (start_s, *keys), members in found.items():
        row = {
            "window_start": datetime.fromtimestamp(start_s, UTC),
            **dict(zip(kind.keys, keys, strict=True)),
            "last_at": datetime.fromtimestamp(max(map(_began_ms, members)) / 1000, UTC),
            "records": len(members),
            **_COLUMNS[kind.name](members, width_s),
        }
        rows.append({name: row[name] for name in kind.names if name != "histogram"})
    return sorted(rows, key=lambda row: tuple(_in_order(row[name]) for name in kind.key_names))


def assert_windows(
    found: pa.Table, records: Sequence[Record], kind: WindowKind, width_s: int
) -> None:
    """The table holds the windows of these records and no others: sums exactly, percentiles of
    rates within the error that is stated."""
    assert_rows(found, reference_windows(records, kind, width_s), kind)


def assert_rows(found: pa.Table, expected: Sequence[Record], kind: WindowKind) -> None:
    """The table holds these rows of `reference_windows`."""
    assert found.schema.names == kind.names
    rows = found.to_pylist()
    assert [_key(row, kind) for row in rows] == [_key(row, kind) for row in expected]
    for row, wanted in zip(rows, expected, strict=True):
        counted = row.pop("histogram", None)
        for name, value in wanted.items():
            if name in ("rate_p95", "rate_p99"):
                # The lowest bucket of rates, up to some 1e-38, counts as 0.
                assert math.isclose(row[name], value, rel_tol=1.01 * RATE_ERROR, abs_tol=1e-37), (
                    name
                )
            elif isinstance(value, float):
                assert math.isclose(row[name], value, rel_tol=1e-9, abs_tol=1e-9), name
            else:
                assert row[name] == value, (name, row, wanted)
        if kind.name == "quota":
            assert sum(count for _, count in counted) == row["records"]


def every_kind(seed: int, *, seconds: int, start_ms: int = START_MS) -> list[Record]:
    """Records of every kind that brokers write, of some seconds."""
    return [
        *(
            each
            for each in generated_records(seed, seconds=seconds, start_ms=start_ms)
            if each["kind"] == "quota"
        ),
        *generated_group_records(seed, seconds=seconds, start_ms=start_ms),
        *_of_brokers(seed, seconds, start_ms),
    ]


def _of_brokers(seed: int, seconds: int, start_ms: int) -> Iterator[Record]:
    dice = Random(seed)
    for second in range(seconds):
        for broker in range(3):
            head = {
                "v": 1,
                "ts": start_ms + second * 1000 + dice.randrange(1000),
                "interval_ms": 1000,
                "broker": broker,
            }
            yield {
                **head,
                "kind": "broker",
                "values": {
                    "BytesInPerSec": round(dice.random() * 1e9, 3),
                    "BytesOutPerSec": round(dice.random() * 1e9, 3),
                    "MessagesInPerSec": round(dice.random() * 1e5, 3),
                    "ReplicationBytesInPerSec": round(dice.random() * 1e9, 3),
                    "ReplicationBytesOutPerSec": round(dice.random() * 1e9, 3),
                    "RequestsPerSec": dice.randrange(10_000),
                    "IsrShrinksPerSec": dice.randrange(2),
                    "IsrExpandsPerSec": dice.randrange(2),
                    "RequestHandlerAvgIdlePercent": round(dice.random(), 3),
                    "ConnectionCount": dice.randrange(100),
                    "PartitionCount": 10,
                    "LeaderCount": dice.randrange(10),
                    "UnderReplicatedPartitions": dice.randrange(3),
                    "LogSize": dice.randrange(10**12),
                    "LogDirectoryTotalBytes": 10**12,
                    "LogDirectoryUsableBytes": dice.randrange(10**12),
                    "SomethingElse": 1,
                },
            }
            for topic in range(dice.randrange(3)):
                counts = {
                    name: dice.randrange(10**6)
                    for name in ("bytes_in", "bytes_out", "messages_in", "produces", "fetches")
                }
                yield {
                    **head,
                    "kind": "topic",
                    "topic": f"topic-{topic}",
                    **counts,
                    "failed_produces": 0,
                    "failed_fetches": dice.randrange(2),
                    "size": dice.randrange(10**10),
                    "partitions": 3,
                    "leaders": 1,
                }
            buckets = [dice.randrange(50) for _ in range(dice.randrange(1, BUCKETS + 1))]
            yield {
                **head,
                "kind": "latency",
                "api": dice.choice(["Produce", "Fetch"]),
                "requests": sum(buckets),
                "total_us": dice.randrange(10**9),
                "buckets": buckets,
            }
            if dice.random() < 0.1:
                yield {
                    **head,
                    "kind": "event",
                    "event": dice.choice(["election", "broker-down"]),
                    "subject": f"topic-{dice.randrange(2)}",
                    "detail": f"what {dice.randrange(100)}",
                    "count": dice.randrange(1, 5),
                }


def _began_ms(record: Record) -> int:
    return int(record["ts"] - record["interval_ms"])


def _millionths(number: float) -> int:
    return math.floor(float(number) * _MILLION + 0.5)


def _exact(numbers: Iterable[int], scale: int = 0) -> Decimal:
    return Decimal(sum(numbers)).scaleb(-scale)


def _single(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def _rank(numbers: Iterable[float], percent: int) -> float:
    ordered = sorted(numbers)
    return ordered[-(-percent * len(ordered) // 100) - 1]


def _last(members: Sequence[Record], names: Sequence[str]) -> tuple[Any, ...]:
    """The values of the latest record; of several equally late ones the greatest."""
    latest = max(map(_began_ms, members))
    return max(tuple(each[name] for name in names) for each in members if _began_ms(each) == latest)


def _quota(members: Sequence[Record], width_s: int) -> Record:
    limit = members[0]["limit"]
    usage = _exact((_millionths(each["usage"]) for each in members), 6)
    rate_max = max(each["rate"] for each in members)
    rates = [_single(each["rate"]) for each in members]
    throttle_ms = _exact((_millionths(each["throttle_ms"]) for each in members), 6)
    muted_ms = _exact((_millionths(each["muted_ms"]) for each in members), 6)
    return {
        "usage_exact": usage,
        "usage_sum": float(usage),
        "throttle_ms_exact": throttle_ms,
        "throttle_ms_sum": float(throttle_ms),
        "muted_ms_exact": muted_ms,
        "muted_ms_sum": float(muted_ms),
        "rate_max": float(rate_max),
        "rate_avg": float(usage) / width_s,
        "rate_p95": _rank(rates, 95),
        "rate_p99": _rank(rates, 99),
        "utilization": float(usage) / width_s / limit if limit else None,
        "throttle_ms_max": float(max(each["throttle_ms"] for each in members)),
        "requests": sum(each["requests"] for each in members),
        "throttled": sum(each["throttled"] for each in members),
        "seconds_over_limit": sum(limit is not None and each["rate"] > limit for each in members),
        "seconds_throttled": sum(each["throttled"] > 0 for each in members),
        "covered_ms": sum(each["interval_ms"] for each in members),
    }


def _lags(members: Sequence[Record]) -> Record:
    lags = [each["lag"] for each in members]
    (last,) = _last(members, ["lag"])
    return {
        "lag_exact": Decimal(sum(lags)),
        "lag_sum": float(sum(lags)),
        "lag_avg": sum(lags) / len(lags),
        "lag_max": max(lags),
        "lag_last": last,
    }


def _group(members: Sequence[Record], _width_s: int) -> Record:
    return {
        **_lags(members),
        "members_max": max(each["members"] for each in members),
        **{
            column: sum((each["state_ms"] or {}).get(state) or 0 for each in members)
            for state, column in STATES.items()
        },
    }


def _lag(members: Sequence[Record], _width_s: int) -> Record:
    return {
        **_lags(members),
        "log_end_max": max(each["log_end"] for each in members),
        "committed_max": max(each["committed"] for each in members),
    }


def _counted(members: Sequence[Record], name: str) -> int:
    """A counter of a broker, from its rates per second."""
    return sum(
        math.floor(each["values"].get(name, 0.0) * (each["interval_ms"] / 1000) + 0.5)
        for each in members
    )


def _highest(members: Sequence[Record], name: str) -> int | None:
    return max((each["values"][name] for each in members if name in each["values"]), default=None)


def _broker(members: Sequence[Record], _width_s: int) -> Record:
    exact = {
        "bytes_in": "BytesInPerSec",
        "bytes_out": "BytesOutPerSec",
        "messages_in": "MessagesInPerSec",
        "replication_bytes_in": "ReplicationBytesInPerSec",
        "replication_bytes_out": "ReplicationBytesOutPerSec",
    }
    counted = {column: _counted(members, name) for column, name in exact.items()}
    idles = [each["values"].get("RequestHandlerAvgIdlePercent", 1.0) for each in members]
    covered = sum(each["interval_ms"] for each in members)
    idle_ms = sum(
        math.floor(idle * each["interval_ms"] + 0.5)
        for idle, each in zip(idles, members, strict=True)
    )
    latest = max(map(_began_ms, members))
    names = ("LogSize", "LogDirectoryTotalBytes", "LogDirectoryUsableBytes")
    last = max(
        tuple(each["values"].get(name, -1) for name in names)
        for each in members
        if _began_ms(each) == latest
    )
    return {
        **{f"{column}_exact": Decimal(count) for column, count in counted.items()},
        **{f"{column}_sum": float(count) for column, count in counted.items()},
        "requests": _counted(members, "RequestsPerSec"),
        "isr_shrinks": _counted(members, "IsrShrinksPerSec"),
        "isr_expands": _counted(members, "IsrExpandsPerSec"),
        "covered_ms": covered,
        "idle_ms": idle_ms,
        "idle_avg": idle_ms / covered,
        "busy_max": max(1.0 - idle for idle in idles),
        "connections_max": _highest(members, "ConnectionCount"),
        "partitions_max": _highest(members, "PartitionCount"),
        "leaders_max": _highest(members, "LeaderCount"),
        "under_replicated_max": _highest(members, "UnderReplicatedPartitions"),
        "log_size_max": _highest(members, "LogSize"),
        **dict(
            zip(
                ("log_size_last", "disk_total_last", "disk_usable_last"),
                (None if value < 0 else value for value in last),
                strict=True,
            )
        ),
    }


def _topic(members: Sequence[Record], _width_s: int) -> Record:
    size, partitions, leaders = _last(members, ["size", "partitions", "leaders"])
    traffic = {
        name: sum(each[name] for each in members)
        for name in ("bytes_in", "bytes_out", "messages_in")
    }
    return {
        **{f"{name}_exact": Decimal(count) for name, count in traffic.items()},
        **{f"{name}_sum": float(count) for name, count in traffic.items()},
        **{
            name: sum(each[name] for each in members)
            for name in ("produces", "failed_produces", "fetches", "failed_fetches")
        },
        "covered_ms": sum(each["interval_ms"] for each in members),
        "log_size_max": max(each["size"] for each in members),
        "log_size_last": size,
        "partitions_last": partitions,
        "leaders_last": leaders,
    }


def _latency(members: Sequence[Record], _width_s: int) -> Record:
    counts: Counter[int] = Counter()
    for each in members:
        counts.update(dict(enumerate(each["buckets"])))
    histogram = [counts[bucket] for bucket in range(BUCKETS)]
    total_us = sum(each["total_us"] for each in members)
    requests = sum(each["requests"] for each in members)
    is_empty = not any(histogram)
    return {
        "total_us_exact": Decimal(total_us),
        "total_us_sum": float(total_us),
        "requests": requests,
        "latency_ms_avg": total_us / 1000 / requests if requests else None,
        **{
            f"latency_ms_p{percent}": None
            if is_empty
            else quantile_us(histogram, percent / 100) / 1000
            for percent in (50, 95, 99)
        },
    }


def _event(members: Sequence[Record], _width_s: int) -> Record:
    (detail,) = _last(members, ["detail"])
    return {"events": sum(each["count"] for each in members), "detail": detail}


_COLUMNS: dict[str, Callable[[Sequence[Record], int], Record]] = {
    "quota": _quota,
    "group": _group,
    "lag": _lag,
    "broker": _broker,
    "topic": _topic,
    "latency": _latency,
    "event": _event,
}


def _key(row: Record, kind: WindowKind) -> tuple[Any, ...]:
    return tuple(row[name] for name in kind.key_names)


def _in_order(value: Any) -> tuple[bool, Any]:
    """Nulls come last, as in files."""
    return (value is None, 0 if value is None else value)
