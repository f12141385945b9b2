"""The consumer of a load test: reads given partitions, checks and measures every record.

It assigns itself its partitions: no group is involved. Imported by the worker process alone.
"""

import time
from collections import defaultdict
from typing import Any, Final

from confluent_kafka import Consumer, Message, ThrottleEvent, TopicPartition

from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.parent_pipe import ParentPipe
from cluster.loadtest.record_stamp import read_stamp
from cluster.loadtest.sequence_check import Place, SequenceCheck
from cluster.loadtest.worker_orders import INTERVAL_US, ConsumerOrder

CONNECT_TIMEOUT_S: Final = 10.0
PATIENCE_US: Final = 30_000_000
"""After so long without any record, the consumer ends, and missing records count as lost."""
_BATCH: Final = 500
_WAIT_S: Final = 0.05


def consume(order: ConsumerOrder, pipe: ParentPipe) -> None:
    """Read up to the offsets that the parent sends, then report what arrived. Raises ParentGone."""
    worker = _CheckingConsumer(order, pipe)
    start_us = pipe.await_go()
    if start_us is not None:
        worker.run(start_us)
    worker.report_all()


class _CheckingConsumer:
    def __init__(self, order: ConsumerOrder, pipe: ParentPipe) -> None:
        self._order = order
        self._pipe = pipe
        self._positions = dict(order.start_offsets)
        self._until: dict[int, int] | None = None
        self._is_stopped = False
        self._checks: dict[Place, SequenceCheck] = defaultdict(SequenceCheck)
        self._last_record_us = 0
        self._interval = ClientInterval(_now_us())
        self._client = Consumer(
            {
                "auto.offset.reset": "error",
                "check.crcs": True,
                **order.properties,
                "bootstrap.servers": order.bootstrap,
                "client.id": order.client_id,
                "group.id": order.client_id,  # the library asks for one; it is not used
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "throttle_cb": self._on_throttle,
                "error_cb": self._on_client_error,
                "log_level": 0,
            }
        )
        self._client.list_topics(order.topic, timeout=CONNECT_TIMEOUT_S)
        self._client.assign(
            [
                TopicPartition(order.topic, partition, offset)
                for partition, offset in order.start_offsets.items()
            ]
        )

    def run(self, start_us: int) -> None:
        """Read up to the offsets of a `finish` command, or until a `stop` command."""
        self._interval = ClientInterval(start_us)
        self._last_record_us = start_us
        while not self._is_stopped and not self._is_finished(_now_us()):
            self._attend(_now_us())
            messages = self._client.consume(_BATCH, _WAIT_S)
            if messages:
                self._take(messages, _now_us())

    def report_all(self) -> None:
        """The last interval, and what arrived of each producer and partition."""
        self._report(_now_us())
        checks = [(*place, check.to_json()) for place, check in self._checks.items()]
        self._pipe.tell("done", checks=checks)

    def _is_finished(self, now_us: int) -> bool:
        if self._until is None:
            return False
        if all(self._positions[partition] >= end for partition, end in self._until.items()):
            return True
        if now_us - self._last_record_us < PATIENCE_US:
            return False
        self._interval.on_error(
            f"no record for {PATIENCE_US // 1_000_000} s, though more were sent"
        )
        return True

    def _attend(self, now_us: int) -> None:
        if now_us - self._interval.from_us >= INTERVAL_US:
            self._report(now_us)
        for command in self._pipe.commands():
            if command["command"] == "finish":
                self._until = {
                    int(partition): end
                    for partition, end in command["until"].items()
                    if int(partition) in self._positions
                }
                self._last_record_us = now_us
            self._is_stopped |= command["command"] == "stop"

    def _report(self, now_us: int) -> None:
        self._interval.until_us = now_us
        self._pipe.tell("interval", **self._interval.to_json())
        self._interval = ClientInterval(now_us)

    def _take(self, messages: list[Message], now_us: int) -> None:
        interval = self._interval
        run = self._order.run
        for message in messages:
            error = message.error()
            if error is not None:
                interval.on_error(error.str())
                continue
            partition: Any = message.partition()
            offset: Any = message.offset()
            self._positions[partition] = offset + 1
            value: Any = message.value()
            stamp = read_stamp(value)
            if stamp is None or stamp.run != run:
                continue  # not a record of this load test
            self._checks[stamp.producer, partition].on_sequence(stamp.sequence)
            key: Any = message.key()
            size_bytes = len(value) + (len(key) if key else 0)
            interval.on_record(partition, size_bytes, now_us - stamp.due_us)
        self._last_record_us = now_us

    def _on_throttle(self, event: ThrottleEvent) -> None:
        self._interval.on_throttle(round(event.throttle_time * 1_000))  # the client says seconds

    def _on_client_error(self, error: Any) -> None:
        self._interval.on_error(error.str())


def _now_us() -> int:
    return time.monotonic_ns() // 1_000
