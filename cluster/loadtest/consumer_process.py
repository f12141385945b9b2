"""The consumer of a load test: reads given partitions, checks and measures every record.

It assigns the partitions to itself, without a group. Imported by the worker process alone.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, Message, TopicPartition

from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.measured_client import CONNECT_TIMEOUT_S, MeasuredConsumer, now_us
from cluster.loadtest.parent_pipe import ParentPipe
from cluster.loadtest.sequence_check import Place, SequenceCheck
from cluster.loadtest.worker_orders import ConsumerOrder

PATIENCE_US: Final = 30_000_000
"""Without any record for this long the consumer ends, and missing records count as lost."""
_BATCH: Final = 500
_WAIT_S: Final = 0.05


def consume(order: ConsumerOrder, pipe: ParentPipe) -> None:
    """Read up to the offsets that the parent sends, then report. Raises ParentGone."""
    worker = _CheckingConsumer(order, pipe)
    start_us = pipe.await_go()
    if start_us is not None:
        worker.run(start_us)
    worker.report_all()


def _transactional(order: ConsumerOrder) -> dict[str, Any]:
    if not order.is_transactional:
        return {}
    return {"isolation.level": "read_committed", "enable.partition.eof": True}


class _CheckingConsumer(MeasuredConsumer):
    def __init__(self, order: ConsumerOrder, pipe: ParentPipe) -> None:
        super().__init__(order, pipe)
        self._positions = dict(order.start_offsets)
        self._until: dict[int, int] | None = None
        self._checks: dict[Place, SequenceCheck] = defaultdict(SequenceCheck)
        self._last_record_us = 0
        self._client = Consumer(
            {
                "auto.offset.reset": "error",
                "check.crcs": True,
                **_transactional(order),
                **self._common,
                "group.id": order.client_id,  # the library requires one; it is not used
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
        while not self._is_stopped and not self._is_finished(now_us()):
            self._attend(now_us())
            messages = self._client.consume(_BATCH, _WAIT_S)
            if messages:
                self._take(messages, now_us())

    def report_all(self) -> None:
        """Report the last interval, and the sequences that arrived, by producer and partition."""
        self._report(now_us())
        checks = [(*place, check.to_json()) for place, check in self._checks.items()]
        self._pipe.tell("done", checks=checks)

    def _is_finished(self, at_us: int) -> bool:
        if self._until is None:
            return False
        if all(self._positions[partition] >= end for partition, end in self._until.items()):
            return True
        if at_us - self._last_record_us < PATIENCE_US:
            return False
        self._interval.on_error(
            f"no record for {PATIENCE_US // 1_000_000} s, though more were sent"
        )
        return True

    def _obey(self, command: Mapping[str, Any]) -> None:
        if command["command"] == "finish":
            self._until = {
                int(partition): end
                for partition, end in command["until"].items()
                if int(partition) in self._positions
            }
            self._last_record_us = now_us()

    def _take(self, messages: list[Message], at_us: int) -> None:
        found = self._count(messages, at_us)
        self._positions.update(found.positions)
        for producer, partition, sequence in found.stamps:
            self._checks[producer, partition].on_sequence(sequence)
        self._last_record_us = at_us
