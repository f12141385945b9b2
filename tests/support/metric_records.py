"""Metric records from a seed, and a way into a topic."""

import json
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from confluent_kafka import Producer

Record = dict[str, Any]

START_MS = 1_790_000_000_000
"""2026-09-21 14:13:20 UTC."""
_LIMITS = {"produce": 1_048_576.0, "fetch": 2_097_152.0, "request": 50.0}
_DELIVERY_TIMEOUT_S = 60.0


def quota_record(**fields: Any) -> Record:
    """One record with plausible values where none are given."""
    return {
        "v": 1,
        "kind": "quota",
        "ts": START_MS + 1000,
        "interval_ms": 1000,
        "broker": 0,
        "quota": "produce",
        "user": "ANONYMOUS",
        "client_id": "loader-1",
        "rule": "client",
        "limit": 1_048_576.0,
        "usage": 1000.0,
        "rate": 900.0,
        "requests": 10,
        "throttled": 1,
        "throttle_ms": 12.5,
        "muted_ms": 12.0,
        **fields,
    }


def generated_records(
    seed: int,
    *,
    seconds: int,
    brokers: int = 3,
    clients: int = 4,
    start_ms: int = START_MS,
) -> Iterator[Record]:
    """What brokers would publish: clients come and go, some without a limit, limits change once."""
    dice = Random(seed)
    for second in range(seconds):
        for broker in range(brokers):
            now_ms = start_ms + second * 1000 + dice.randrange(20)
            yield {
                "v": 1,
                "kind": "broker",
                "ts": now_ms,
                "interval_ms": 1000,
                "broker": broker,
                "values": {"BytesInPerSec": dice.random() * 1e6, "UnderReplicatedPartitions": 0},
            }
            for client in range(clients):
                for quota, limit in _LIMITS.items():
                    if dice.random() < 0.2:
                        continue
                    is_limited = client % 2 == 0
                    limit = limit / 2 if second > seconds // 2 else limit
                    rate = limit * dice.uniform(0.3, 1.3)
                    throttled = dice.randrange(4) if is_limited and rate > limit else 0
                    yield quota_record(
                        ts=now_ms,
                        broker=broker,
                        quota=quota,
                        user="ANONYMOUS" if client else None,
                        client_id=f"client-{client}",
                        rule="client" if is_limited else None,
                        limit=limit if is_limited else None,
                        usage=round(rate * dice.uniform(0.9, 1.1), 3),
                        rate=rate,
                        requests=dice.randrange(1, 50),
                        throttled=throttled,
                        throttle_ms=throttled * 17,
                        muted_ms=float(throttled * 16),
                    )


def group_record(**fields: Any) -> Record:
    """One record of kind `group` with plausible values where none are given."""
    return {
        "v": 1,
        "kind": "group",
        "ts": START_MS + 5_000,
        "interval_ms": 5_000,
        "broker": 0,
        "group": "billing",
        "type": "classic",
        "protocol_type": "consumer",
        "state": "Stable",
        "generation": 3,
        "members": 2,
        "partitions": 2,
        "partitions_unknown": 0,
        "lag": 9,
        "lag_max": 7,
        "state_ms": {"Stable": 4_800, "PreparingRebalance": 200},
        **fields,
    }


def lag_record(**fields: Any) -> Record:
    """One record of kind `lag` with plausible values where none are given."""
    return {
        "v": 1,
        "kind": "lag",
        "ts": START_MS + 5_000,
        "interval_ms": 5_000,
        "broker": 0,
        "group": "billing",
        "topic": "orders",
        "partition": 0,
        "log_end": 107,
        "committed": 100,
        "lag": 7,
        **fields,
    }


def generated_group_records(
    seed: int, *, seconds: int, start_ms: int = START_MS, groups: int = 3
) -> Iterator[Record]:
    """What coordinators would publish every 5 s: groups move between brokers, and rebalance."""
    dice = Random(seed)
    ends = dict.fromkeys(range(4), 0)
    committed = {(group, number): 0 for group in range(groups) for number in ends}
    for second in range(0, seconds, 5):
        for number in ends:
            ends[number] += dice.randrange(500)
        for group in range(groups):
            head = {
                "ts": start_ms + second * 1000 + 5_000 + group,
                "broker": (group + second // 60) % 3,
                "group": f"group-{group}",
            }
            total = 0
            for number, end in ends.items():
                place = (group, number)
                moved = dice.random() < 0.6
                if moved:
                    committed[place] = dice.randrange(committed[place], end + 1)
                lag = end - committed[place]
                total += lag
                if moved:
                    yield lag_record(
                        **head, partition=number, log_end=end, committed=committed[place], lag=lag
                    )
            spent = dice.randrange(3_000) if dice.random() < 0.2 else 0
            states = {"Stable": 5_000 - spent}
            if spent:
                states["PreparingRebalance"] = spent
            yield group_record(**head, lag=total, members=dice.randrange(1, 4), state_ms=states)


def as_written(record: Record) -> bytes:
    """A record in the form in which brokers write it (`brokers/metrics/records.py`)."""
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def produce(bootstrap: str, topic: str, values: Iterable[bytes | Record]) -> None:
    """Into an existing topic, spread over its partitions by broker, each record at its time.

    Returns when all are there.
    """
    refused: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": "zstd", "linger.ms": 50}
    )
    for value in values:
        key = None if isinstance(value, bytes) else str(value["broker"])
        text = value if isinstance(value, bytes) else as_written(value)
        at_ms = 0 if isinstance(value, bytes) else value["ts"]  # 0 for now
        while True:
            try:
                producer.produce(
                    topic,
                    text,
                    key,
                    timestamp=at_ms,
                    on_delivery=lambda error, _: refused.append(error) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(_DELIVERY_TIMEOUT_S) == 0
    assert refused == []
