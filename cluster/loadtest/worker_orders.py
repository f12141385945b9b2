"""The messages between the load test and its workers, one JSON line each. Pure.

To a worker: its order, then `go`, `finish` (consumers: read up to these offsets) and `stop`. From a
worker: `ready`, `interval` once a second, then `done` with data for the verification, or `failed`;
from a member of a group also `rebalance`, and `received` before it commits anything.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from cluster.loadtest.send_schedule import UNLIMITED
from cluster.runtime.json_lines import line

INTERVAL_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ProducerOrder:
    """The order of one producer process; its schedule starts with `go`."""

    client_id: str
    bootstrap: str
    topic: str
    partitions: int
    run: int
    index: int
    """The index among `of` producers, which share the rate and the record count."""
    of: int = 1
    records_per_s: float = UNLIMITED
    record_count: int | None = None
    duration_us: int | None = None
    record_bytes: int = 1_000
    key_distribution: str = "none"
    key_count: int = 1_000
    transactional_id: str | None = None
    transaction_us: int = 0
    """The age at which a transaction is committed."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    role: str = "producer"


@dataclass(frozen=True, slots=True)
class ConsumerOrder:
    """The order of one consumer process, which runs until `finish`."""

    client_id: str
    bootstrap: str
    topic: str
    run: int
    start_offsets: Mapping[int, int]
    """Its partitions; empty if a group assigns them."""
    group: str | None = None
    group_protocol: str = "classic"
    is_transactional: bool = False
    """Only committed records are read, and markers are passed over."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    role: str = "consumer"


Order = ProducerOrder | ConsumerOrder


def order_line(order: Order) -> bytes:
    """The first line that a worker reads."""
    return line(asdict(order))


def read_order(text: bytes) -> Order:
    """Parse the first line that a worker reads."""
    document = json.loads(text)
    if document["role"] == "producer":
        return ProducerOrder(**document)
    document["start_offsets"] = {int(part): at for part, at in document["start_offsets"].items()}
    return ConsumerOrder(**document)
