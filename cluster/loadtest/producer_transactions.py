"""The transactions of a load test's producer: each is committed when it is old enough.

Imported by the worker process alone.
"""

from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException, Producer

from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.measured_client import now_us

_STEP_S: Final = 10.0
_PATIENCE_US: Final = 60_000_000


class TimedTransactions:
    """Begins a transaction with a record, and ends it with `end`."""

    def __init__(self, client: Producer, duration_us: int) -> None:
        """Fences earlier producers. Raises KafkaException."""
        self._client = client
        self._duration_us = duration_us
        self._began_us: int | None = None
        self._sent: list[tuple[int, int]] = []
        """Partition and sequence of each record of the open transaction."""
        _repeated(lambda: client.init_transactions(_STEP_S))

    def add(self, partition: int, sequence: int) -> None:
        """A record is about to be sent. Raises KafkaException."""
        if self._began_us is None:
            self._client.begin_transaction()
            self._began_us = now_us()
        self._sent.append((partition, sequence))

    def is_due(self, at_us: int) -> bool:
        """Whether the open transaction is old enough."""
        return self._began_us is not None and at_us - self._began_us >= self._duration_us

    def end(self, interval: ClientInterval, *, is_commit: bool) -> list[tuple[int, int]]:
        """End the open transaction, if there is one, and count that.

        Returns the records that were aborted. Raises KafkaException if the client cannot go on.
        """
        if self._began_us is None:
            return []
        sent, self._sent, self._began_us = self._sent, [], None
        if is_commit:
            asked_us = now_us()
            try:
                _repeated(lambda: self._client.commit_transaction(_STEP_S))
            except KafkaException as failure:
                problem = failure.args[0]
                if not problem.txn_requires_abort():
                    raise
                interval.on_error(problem.str())
            else:
                interval.transactions += 1
                interval.commit_latency.record(now_us() - asked_us)
                return []
        _repeated(lambda: self._client.abort_transaction(_STEP_S))
        interval.aborted_transactions += 1
        return sent


def _repeated(attempt: Callable[[], None]) -> None:
    until_us = now_us() + _PATIENCE_US
    while True:
        try:
            attempt()
        except KafkaException as failure:
            problem = failure.args[0]
            may_help = problem.retriable() and not problem.txn_requires_abort()
            if not may_help or problem.fatal() or now_us() > until_us:
                raise
        else:
            return
