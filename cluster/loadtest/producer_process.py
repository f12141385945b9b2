"""The producer of a load test: sends by a schedule and measures every record.

Imported by the worker process alone.
"""

from collections import defaultdict
from functools import partial
from random import Random
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.measured_client import CONNECT_TIMEOUT_S, MeasuredClient, now_us
from cluster.loadtest.parent_pipe import ParentPipe
from cluster.loadtest.producer_transactions import TimedTransactions
from cluster.loadtest.record_stamp import Placed, ValueMaker, placements
from cluster.loadtest.send_schedule import SendSchedule
from cluster.loadtest.worker_orders import ProducerOrder

_RECORDS_AT_ONCE: Final = 200
"""Records that are sent before the clock, the pipe and acknowledgments are checked."""
_WAIT_S: Final = 0.05
_FULL_WAIT_S: Final = 0.005
_UNSURE_MAX: Final = 1_000_000
_TAKEN_BACK: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


def produce(order: ProducerOrder, pipe: ParentPipe) -> None:
    """Send all scheduled records, wait for their outcome, and report. Raises ParentGone."""
    worker = _ScheduledProducer(order, pipe)
    start_us = pipe.await_go()
    if start_us is not None:
        worker.run(start_us)
    worker.report_all()


class _ScheduledProducer(MeasuredClient):
    def __init__(self, order: ProducerOrder, pipe: ParentPipe) -> None:
        super().__init__(order, pipe)
        self._order = order
        dice = Random(f"{order.run} {order.index}")
        self._values = ValueMaker(order.run, order.index, order.record_bytes, dice)
        self._places = placements(order.key_distribution, order.key_count, order.partitions, dice)
        self._held_back: Placed | None = None
        self._sequences: dict[int, int] = defaultdict(int)
        self._unsure: dict[int, list[int]] = defaultdict(list)
        self._unsent = 0
        if order.transactional_id is not None:
            self._common["transactional.id"] = order.transactional_id
        self._client = Producer(self._common)
        self._client.list_topics(order.topic, timeout=CONNECT_TIMEOUT_S)
        self._transactions: TimedTransactions | None = None
        if order.transactional_id is not None:
            self._transactions = TimedTransactions(self._client, order.transaction_us)

    def run(self, start_us: int) -> None:
        """Send until the schedule is over or `stop` arrives, then wait for records in flight."""
        order = self._order
        whole = SendSchedule(start_us, order.records_per_s, order.record_count, order.duration_us)
        schedule = SendSchedule.share(whole, order.index, order.of)
        self._interval = ClientInterval(start_us)
        position = 0
        while not self._is_stopped:
            at_us = now_us()
            self._attend(at_us)
            if schedule.is_over(position, at_us):
                break
            if self._transactions is not None and self._transactions.is_due(at_us):
                self._end_transaction(self._transactions)
            due = schedule.due_count(at_us)
            end = (
                position + _RECORDS_AT_ONCE
                if due is None
                else min(due, position + _RECORDS_AT_ONCE)
            )
            while position < end and self._send(schedule.due_at_us(position, now_us())):
                position += 1
            if position < end:
                self._client.poll(_FULL_WAIT_S)
            elif position == due:
                wait_us = schedule.due_at_us(position, at_us) - now_us()
                self._client.poll(min(max(wait_us, 0) / 1e6, _WAIT_S))
            else:
                self._client.poll(0)
        self._unsent = schedule.unsent(position, now_us())
        self._finish()

    def report_all(self) -> None:
        """Report the last interval and, per partition, the records sent but not acknowledged."""
        self._report(now_us())
        sent = [
            (partition, count, self._unsure.get(partition, []))
            for partition, count in self._sequences.items()
        ]
        self._pipe.tell("done", sent=sent, unsent=self._unsent)

    def _finish(self) -> None:
        """Wait for records in flight; the client's `message.timeout.ms` bounds the wait."""
        if self._transactions is not None:
            self._end_transaction(self._transactions)
        if len(self._client):
            self._pipe.tell("waits", records=len(self._client), since_us=now_us())
        while len(self._client) and not self._is_stopped:
            self._attend(now_us())
            self._client.poll(_WAIT_S)
        if len(self._client):
            self._client.purge(in_queue=True, in_flight=True, blocking=False)
            self._client.flush(1.0)

    def _end_transaction(self, transactions: TimedTransactions) -> None:
        """Commit; its aborted records may be missing."""
        for partition, sequence in transactions.end(self._interval, is_commit=not self._is_stopped):
            if len(self._unsure[partition]) < _UNSURE_MAX:
                self._unsure[partition].append(sequence)

    def _send(self, due_us: int) -> bool:
        """Send the next record of the schedule. Returns False if the client's queue is full."""
        place = self._held_back or next(self._places)
        self._held_back = None
        partition = place.partition
        sequence = self._sequences[partition]
        if self._transactions is not None:
            self._transactions.add(partition, sequence)
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
        self._interval.send_delay.record(now_us() - due_us)
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
            interval.on_record(partition, size_bytes, now_us() - due_us)
            return
        if len(self._unsure[partition]) < _UNSURE_MAX:
            self._unsure[partition].append(sequence)
        if error.code() in _TAKEN_BACK:
            interval.abandoned += 1
        else:
            interval.failed += 1
            interval.on_error(error.str())
