"""Histories of windows whose truth is known: growth, a weekday pattern, disks that fill, lag."""

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from cluster.analytics.capacity.history import WindowHistory
from cluster.analytics.windows.deltas import PieceResult, write_delta
from cluster.analytics.windows.directory import WindowDirectory
from cluster.analytics.windows.kinds import (
    BROKER,
    EVENT,
    LAG,
    LATENCY,
    QUOTA,
    SUMS_SCHEMA,
    TOPIC,
    WindowKind,
)
from cluster.analytics.windows.layout import delta_path
from cluster.analytics.windows.store import LocalStore
from cluster.analytics.windows.window_sums import coarser, joined, windows_of
from tests.support.window_directories import merge_all, reached

THURSDAY = int(datetime(2025, 1, 2, tzinfo=UTC).timestamp())
HOUR_S, DAY_S = 3600, 86_400
MIB, GIB = 1 << 20, 1 << 30
STEP_S = 600
"""Each record of these histories covers so much time and makes a window of one minute."""

Row = dict[str, Any]
Sums = dict[str, pa.Table]


def sums(kind: WindowKind, rows: Iterable[Row]) -> pa.Table:
    """Rows as sums of a kind; `start_s` instead of the times, columns left out are null."""
    schema = pa.schema([SUMS_SCHEMA.field(name) for name in kind.sum_names])
    made = [
        {
            **dict.fromkeys(kind.sum_names),
            **{key: value for key, value in row.items() if key != "start_s"},
            "window_start": row["start_s"] * 1_000_000,
            "last_at": row["start_s"] * 1_000_000,
            "records": 1,
        }
        for row in rows
    ]
    return pa.Table.from_pylist(
        [{name: row[name] for name in kind.sum_names} for row in made], schema
    )


def history(tables: Mapping[WindowKind, Iterable[Row]]) -> WindowHistory:
    """The history that these rows of sums make, narrow windows being of a minute."""
    fines, hours = {}, {}
    for kind, rows in tables.items():
        table = sums(kind, rows)
        hours[kind.name] = windows_of(coarser(table, kind, "1h"), kind, "1h")
        if kind in (BROKER, EVENT, QUOTA):
            fines[kind.name] = windows_of(coarser(table, kind, "1m"), kind, "1m")
    return WindowHistory(hours, fines, 60)


def written(
    place: Path, tables: Mapping[WindowKind, Iterable[Row]], *, is_merged: bool = True
) -> None:
    """Make a rollup's directory with the windows of these rows of sums."""
    store = LocalStore(place)
    with WindowDirectory.open(store) as directory:
        made = {kind.name: sums(kind, rows) for kind, rows in tables.items()}
        delta = write_delta(store, delta_path(directory.next_change, "0"), joined([made]))
        assert delta is not None
        counts = {name: table.num_rows for name, table in made.items()}
        directory.append([PieceResult([delta], counts, {})], reached(1))
        if is_merged:
            merge_all(directory)


@dataclass
class Truth:
    """What a history is made of; see the functions below for how."""

    days: float = 7
    first_s: int = THURSDAY
    brokers: tuple[int, ...] = (0, 1, 2)
    in_per_s: float = 1.0 * MIB
    """Bytes a second from clients, of all brokers together, at the start."""
    growth: float = 0.05
    """Compound, a day."""
    weekend: float = 0.7
    """The traffic of Saturdays and Sundays, in terms of other days."""
    fan_out: float = 2.0
    """Bytes out for each byte in."""
    shares: tuple[float, ...] = (0.5, 0.25, 0.25)
    """Of the traffic, by broker."""
    busy_idle: float = 0.05
    busy_per_mib: float = 0.10
    """The busy share of a broker: without traffic, and for each MiB/s in and out."""
    message_bytes: int = 1000
    disk_total: float = 500 * GIB
    full_after_days: float = 12
    """From the end of the history on, broker 0's disk; others fill up four times as slowly."""
    replication: int = 2

    @property
    def end_s(self) -> int:
        return self.first_s + round(self.days * DAY_S)

    @property
    def steps(self) -> range:
        return range(self.first_s, self.end_s, STEP_S)

    def rate(self, time_s: float) -> float:
        """Bytes in a second at a time, of all brokers."""
        day = (time_s // DAY_S + 3) % 7
        hour = time_s % DAY_S / HOUR_S
        of_day = 1 + 0.5 * math.sin((hour - 8) / 24 * 2 * math.pi)  # busiest at 14 o'clock
        of_week = self.weekend if day >= 5 else 1.0
        return self.in_per_s * of_day * of_week * self.grown(time_s)

    def grown(self, time_s: float) -> float:
        """The growth by then: each day's total exceeds the previous one by exactly this much."""
        return float((1 + self.growth) ** ((time_s - self.first_s) // DAY_S))

    def usable(self, at: int, time_s: float) -> float:
        """What the disk of a broker has left: 0 for the first at its end."""
        per_day = 0.5 * self.disk_total / (self.full_after_days + self.days)
        left = self.full_after_days + (self.end_s - time_s) / DAY_S
        if at == 0:
            return per_day * left
        return 0.5 * self.disk_total - per_day / 4 * (time_s - self.first_s) / DAY_S

    def filled(self, at: int, time_s: float) -> float:
        """What `orders` has taken of the disk of a broker."""
        return self.disk_total / 2 - self.usable(at, time_s)

    def broker_rows(self) -> Iterator[Row]:
        """Records of brokers."""
        for time_s in self.steps:
            for at, broker in enumerate(self.brokers):
                rate = self.rate(time_s) * self.shares[at]
                through = rate * (1 + self.fan_out)
                busy = min(1.0, self.busy_idle + self.busy_per_mib * through / MIB)
                amount = round(rate * STEP_S)
                copies = round(
                    self.rate(time_s) * (self.replication - 1) / len(self.brokers) * STEP_S
                )
                yield {
                    "start_s": time_s,
                    "broker": broker,
                    "bytes_in_exact": amount,
                    "bytes_out_exact": round(amount * self.fan_out),
                    "messages_in_exact": amount // self.message_bytes,
                    "replication_bytes_in_exact": copies,
                    "replication_bytes_out_exact": copies,
                    "requests": amount // 10_000,
                    "isr_shrinks": 0,
                    "isr_expands": 0,
                    "covered_ms": STEP_S * 1000,
                    "idle_ms": round((1 - busy) * STEP_S * 1000),
                    "busy_max": busy,
                    "connections_max": 10 * (at + 1),
                    "partitions_max": 20,
                    "leaders_max": 10,
                    "under_replicated_max": 0,
                    "log_size_max": round(GIB + self.filled(at, time_s)),
                    "log_size_last": round(GIB + self.filled(at, time_s)),
                    "disk_total_last": round(self.disk_total),
                    "disk_usable_last": round(self.usable(at, time_s)),
                }

    def topic_rows(self) -> Iterator[Row]:
        """Records of two topics: `orders` has three quarters of the traffic, `held` the rest and a
        size that stays."""
        for time_s in range(self.first_s, self.end_s, HOUR_S):
            for at, broker in enumerate(self.brokers):
                for topic, share in (("orders", 0.75), ("held", 0.25)):
                    amount = round(self.rate(time_s) * self.shares[at] * share * HOUR_S)
                    size = GIB if topic == "held" else self.filled(at, time_s)
                    yield {
                        "start_s": time_s,
                        "broker": broker,
                        "topic": topic,
                        "bytes_in_exact": amount,
                        "bytes_out_exact": round(amount * self.fan_out),
                        "messages_in_exact": amount // self.message_bytes,
                        "produces": 1,
                        "failed_produces": 0,
                        "fetches": 1,
                        "failed_fetches": 0,
                        "covered_ms": HOUR_S * 1000,
                        "log_size_max": round(size),
                        "log_size_last": round(size),
                        "partitions_last": 5,
                        "leaders_last": 3,
                    }

    def latency_rows(self) -> Iterator[Row]:
        """Records of Produce, whose p99 doubles at half of the time; that of others stays."""
        middle_s = (self.first_s + self.end_s) // 2
        for time_s in range(self.first_s, self.end_s, HOUR_S):
            slow = 13 if time_s < middle_s else 14  # [4,096, 8,192) us, then twice that
            for api, bucket in (("Fetch", 12), ("Produce", slow), ("Metadata", 8)):
                yield {
                    "start_s": time_s,
                    "broker": self.brokers[0],
                    "api": api,
                    "total_us_exact": 1_000_000,
                    "requests": 1000,
                    "histogram": [(10, 950), (bucket, 50)],
                }

    def lag_rows(self) -> Iterator[Row]:
        """Records of groups in two partitions each: `ahead` is up to date, `behind` consumes nine
        tenths of 100 records a second, `catching` has 36,000 records left at 20 more a second than
        are produced, and `stopped` consumes none."""
        lasting_s = self.end_s - self.first_s
        for time_s in range(self.first_s, self.end_s, HOUR_S):
            past_s = time_s - self.first_s
            log_end = 100 * past_s + 1_000_000_000
            lags: dict[str, float] = {
                "ahead": 0,
                "behind": 10 * past_s,
                "catching": 36_000 + 20 * (lasting_s - HOUR_S - past_s),
                "stopped": 100 * past_s,
            }
            for group, lag in lags.items():
                for partition in range(2):
                    yield {
                        "start_s": time_s,
                        "group": group,
                        "topic": "orders",
                        "partition": partition,
                        "lag_exact": round(lag / 2),
                        "lag_max": round(lag / 2),
                        "lag_last": round(lag / 2),
                        "log_end_max": log_end // 2,
                        "committed_max": round((log_end - lag) / 2),
                    }

    def event_rows(self) -> Iterator[Row]:
        """A death with its elections, a quota, a rebalance, from half of the time on."""
        at_s = (self.first_s + self.end_s) // 2 // 60 * 60
        told = (
            (0, "broker-down", "2", "was killed by SIGKILL"),
            (60, "election", "orders", "3 partitions have other leaders"),
            (120, "broker-up", "2", ""),
            (HOUR_S, "quota", "client-id loader", "producer_byte_rate=1048576"),
            (2 * HOUR_S, "rebalance", "behind", "client c joined"),
        )
        for after_s, event, subject, detail in told:
            yield {
                "start_s": at_s + after_s,
                "broker": self.brokers[0],
                "event": event,
                "subject": subject,
                "events": 1,
                "detail": detail,
            }

    def quota_rows(self) -> Iterator[Row]:
        """Records of a client that produces 1 MiB/s at broker 0, and 3 MiB/s in each sixth one."""
        for number, time_s in enumerate(self.steps):
            for client, factor in (("loader", 1.0), ("quiet", 0.1)):
                rate = factor * (3.0 if number % 6 == 0 else 1.0) * MIB
                yield {
                    "start_s": time_s,
                    "broker": self.brokers[0],
                    "user": "ANONYMOUS",
                    "client_id": client,
                    "quota": "produce",
                    "usage_exact": round(rate * 60),
                    "throttle_ms_exact": 0,
                    "muted_ms_exact": 0,
                    "rate_max": rate,
                    "throttle_ms_max": 0.0,
                    "requests": 60,
                    "throttled": 0,
                    "seconds_over_limit": 0,
                    "seconds_throttled": 0,
                    "covered_ms": 60_000,
                    "histogram": [(rate_bucket(rate), 60)],
                }

    def rows(self) -> dict[WindowKind, list[Row]]:
        """The records of all kinds."""
        made: dict[WindowKind, Callable[[], Iterator[Row]]] = {
            BROKER: self.broker_rows,
            TOPIC: self.topic_rows,
            LATENCY: self.latency_rows,
            LAG: self.lag_rows,
            EVENT: self.event_rows,
            QUOTA: self.quota_rows,
        }
        return {kind: list(make()) for kind, make in made.items()}


def rate_bucket(rate: float) -> int:
    """The bucket of a rate in histograms (`windows/histogram.py`)."""
    bits: int = struct.unpack("<i", struct.pack("<f", rate))[0]
    return bits >> 16
