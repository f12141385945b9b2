"""What the producers and consumers of a load test share: measuring, reporting and stopping.

Imported by the worker process alone.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message, ThrottleEvent

from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.parent_pipe import ParentPipe
from cluster.loadtest.record_stamp import read_stamp
from cluster.loadtest.worker_orders import INTERVAL_US, Order

CONNECT_TIMEOUT_S: Final = 10.0


class MeasuredClient:
    """Counts in intervals of a second, and reports each to the parent."""

    def __init__(self, order: Order, pipe: ParentPipe) -> None:
        self._common = {
            **order.properties,
            "bootstrap.servers": order.bootstrap,
            "client.id": order.client_id,
            "throttle_cb": self._on_throttle,
            "error_cb": self._on_client_error,
            "log_level": 0,
        }
        """Properties of the client library that override those of a subclass."""
        self._pipe = pipe
        self._interval = ClientInterval(now_us())
        self._is_stopped = False
        self.last_error = ""

    def _attend(self, at_us: int) -> None:
        """Report an interval that is over, and follow the parent's commands."""
        if at_us - self._interval.from_us >= INTERVAL_US:
            self._report(at_us)
        for command in self._pipe.commands():
            self._is_stopped |= command["command"] == "stop"
            self._obey(command)

    def _obey(self, command: Mapping[str, Any]) -> None:
        """Follow a command other than `stop`; a subclass overrides it."""

    def _report(self, at_us: int) -> None:
        self._interval.until_us = at_us
        self._pipe.tell("interval", **self._interval.to_json())
        self._interval = ClientInterval(at_us)

    def _on_throttle(self, event: ThrottleEvent) -> None:
        self._interval.on_throttle(round(event.throttle_time * 1_000))  # the client says seconds

    def _on_client_error(self, error: Any) -> None:
        self.last_error = error.str()
        self._interval.on_error(self.last_error)


class Consumed(NamedTuple):
    """The result of counting some messages."""

    positions: dict[int, int]
    """By partition: the offset after its last message. Empty if all were errors."""
    stamps: list[tuple[int, int, int]]
    """Producer, partition and sequence of each record of this load test."""


class MeasuredConsumer(MeasuredClient):
    """A consumer that reads the stamps of records."""

    def __init__(self, order: Order, pipe: ParentPipe) -> None:
        super().__init__(order, pipe)
        self._run = order.run
        self._common |= {"enable.auto.commit": False, "enable.auto.offset.store": False}

    def _count(self, messages: Iterable[Message], at_us: int) -> Consumed:
        """Count messages that have just arrived."""
        found = Consumed({}, [])
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                end: Any = message.offset()  # behind the markers of transactions
                found.positions[message.partition() or 0] = end
                continue
            if error is not None:
                self._on_client_error(error)
                continue
            partition: Any = message.partition()
            offset: Any = message.offset()
            found.positions[partition] = offset + 1
            value: Any = message.value()
            stamp = read_stamp(value)
            if stamp is None or stamp.run != self._run:
                continue  # not a record of this load test
            found.stamps.append((stamp.producer, partition, stamp.sequence))
            key: Any = message.key()
            size_bytes = len(value) + (len(key) if key else 0)
            self._interval.on_record(partition, size_bytes, at_us - stamp.due_us)
        return found


def now_us() -> int:
    """The machine's monotonic clock in microseconds."""
    return time.monotonic_ns() // 1_000
