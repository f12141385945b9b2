"""The producer of a load test: sends by the schedule, measures every record.

Imported by the worker process alone.
"""

import time
from collections import defaultdict
from functools import partial
from random import Random
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, ThrottleEvent

from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.parent_pipe import ParentPipe
from cluster.loadtest.record_stamp import Placed, ValueMaker, placements
from cluster.loadtest.send_schedule import SendSchedule
from cluster.loadtest.worker_orders import INTERVAL_US, ProducerOrder

CONNECT_TIMEOUT_S: Final = 10.0
_BURST: Final = 200
"""How many records are sent before the clock, the pipe and acknowledgements are checked."""
_WAIT_S: Final = 0.05
_FULL_WAIT_S: Final = 0.005
_UNSURE_MAX: Final = 1_000_000
_TAKEN_BACK: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


def produce(order: ProducerOrder, pipe: ParentPipe) -> None:
    """Send everything that is scheduled, wait for its outcome, report. Raises ParentGone."""
    worker = _ScheduledProducer(order, pipe)
    start_us = pipe.await_go()
    if start_us is not None:
        worker.run(start_us)
    worker.report_all()


class _ScheduledProducer:
    def __init__(self, order: ProducerOrder, pipe: ParentPipe) -> None:
        self._order = order
        self._pipe = pipe
        dice = Random(f"{order.run} {order.index}")
        self._values = ValueMaker(order.run, order.index, order.record_bytes, dice)
        self._places = placements(order.key_distribution, order.key_count, order.partitions, dice)
        self._held_back: Placed | None = None
        self._sequences: dict[int, int] = defaultdict(int)
        self._unsure: dict[int, list[int]] = defaultdict(list)
        self._unsent = 0
        self._is_stopped = False
        self._interval = ClientInterval(_now_us())
        self._client = Producer(
            {
                **order.properties,
                "bootstrap.servers": order.bootstrap,
                "client.id": order.client_id,
                "throttle_cb": self._on_throttle,
                "error_cb": self._on_client_error,
                "log_level": 0,
            }
        )
        self._client.list_topics(order.topic, timeout=CONNECT_TIMEOUT_S)

    def run(self, start_us: int) -> None:
        """Send until the schedule is over or `stop` arrives, then wait for what is under way."""
        order = self._order
        whole = SendSchedule(start_us, order.records_per_s, order.record_count, order.duration_us)
        schedule = SendSchedule.share(whole, order.index, order.of)
        self._interval = ClientInterval(start_us)
        position = 0
        while not self._is_stopped:
            now_us = _now_us()
            self._attend(now_us)
            if schedule.is_over(position, now_us):
                break
            due = schedule.due_count(now_us)
            end = position + _BURST if due is None else min(due, position + _BURST)
            while position < end and self._send(schedule.due_at_us(position, _now_us())):
                position += 1
            if position < end:
                self._client.poll(_FULL_WAIT_S)
            elif position == due:
                wait_us = schedule.due_at_us(position, now_us) - _now_us()
                self._client.poll(min(max(wait_us, 0) / 1e6, _WAIT_S))
            else:
                self._client.poll(0)
        self._unsent = schedule.unsent(position, _now_us())
        self._finish()

    def report_all(self) -> None:
        """Report the last interval, and per partition what was sent and not acknowledged."""
        self._report(_now_us())
        sent = [
            (partition, count, self._unsure.get(partition, []))
            for partition, count in self._sequences.items()
        ]
        self._pipe.tell("done", sent=sent, unsent=self._unsent)

    def _finish(self) -> None:
        """Wait for records in flight; the client's `message.timeout.ms` bounds the wait."""
        if len(self._client):
            self._pipe.tell("waits", records=len(self._client), since_us=_now_us())
        while len(self._client) and not self._is_stopped:
            self._attend(_now_us())
            self._client.poll(_WAIT_S)
        if len(self._client):
            self._client.purge(in_queue=True, in_flight=True, blocking=False)
            self._client.flush(1.0)

    def _attend(self, now_us: int) -> None:
        if now_us - self._interval.from_us >= INTERVAL_US:
            self._report(now_us)
        for command in self._pipe.commands():
            self._is_stopped |= command["command"] == "stop"

    def _report(self, now_us: int) -> None:
        self._interval.until_us = now_us
        self._pipe.tell("interval", **self._interval.to_json())
        self._interval = ClientInterval(now_us)

    def _send(self, due_us: int) -> bool:
        """Send the next record of the schedule. Returns False if the client's queue is full."""
        place = self._held_back or next(self._places)
        self._held_back = None
        partition = place.partition
        sequence = self._sequences[partition]
        value = self._values.make(sequence, due_us)
        size_bytes = len(value) + (len(place.key) if place.key else 0)
        try:
            self._client.produce(
                self._order.topic,
                value=value,
                key=place.key,
                partition=partition,
                on_delivery=partial(self._on_delivery, due_us, partition, sequence, size_bytes),
            )
        except BufferError:
            self._held_back = place
            return False
        except KafkaException as refusal:
            self._interval.failed += 1
            self._interval.on_error(refusal.args[0].str())
            return True
        self._sequences[partition] = sequence + 1
        self._interval.sent += 1
        self._interval.send_delay.record(_now_us() - due_us)
        return True

    def _on_delivery(
        self,
        due_us: int,
        partition: int,
        sequence: int,
        size_bytes: int,
        error: KafkaError | None,
        _message: Message,
    ) -> None:
        interval = self._interval
        if error is None:
            interval.on_record(partition, size_bytes, _now_us() - due_us)
            return
        if len(self._unsure[partition]) < _UNSURE_MAX:
            self._unsure[partition].append(sequence)
        if error.code() in _TAKEN_BACK:
            interval.abandoned += 1
        else:
            interval.failed += 1
            interval.on_error(error.str())

    def _on_throttle(self, event: ThrottleEvent) -> None:
        self._interval.on_throttle(round(event.throttle_time * 1_000))  # the client says seconds

    def _on_client_error(self, error: Any) -> None:
        self._interval.on_error(error.str())


def _now_us() -> int:
    return time.monotonic_ns() // 1_000
