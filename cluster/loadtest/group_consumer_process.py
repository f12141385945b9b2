"""The consumer of a load test that is a member of a consumer group.

The parent learns of every record before its offset is committed. So it knows exactly which records
came twice and which never came, even if this process dies. Imported by the worker process alone.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from cluster.client.missing_offsets import assign_again, lacks_offsets
from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.group_account import Run, as_runs
from cluster.loadtest.measured_client import CONNECT_TIMEOUT_S, MeasuredConsumer, now_us
from cluster.loadtest.parent_pipe import ParentPipe
from cluster.loadtest.worker_orders import ConsumerOrder

COMMIT_US: Final = 1_000_000
"""How often positions are committed, beside commits at revocations and at the end."""
_SESSION_MS: Final = 10_000
"""For the classic protocol; the library's 45 s would lengthen a test that kills members."""
_JOIN_TIMEOUT_S: Final = 25.0
_BATCH: Final = 500
_WAIT_S: Final = 0.05


def consume_in_group(order: ConsumerOrder, pipe: ParentPipe) -> None:
    """Join the group, then read and commit until a `stop` command. Raises ParentGone."""
    member = _GroupConsumer(order, pipe)
    if not member.join():
        reason = member.last_error or f"nothing was assigned within {_JOIN_TIMEOUT_S:g} s"
        pipe.tell("failed", error=f"no place in group {order.group}: {reason}")
        return
    pipe.tell("ready")
    member.run()
    member.leave()


class _GroupConsumer(MeasuredConsumer):
    def __init__(self, order: ConsumerOrder, pipe: ParentPipe) -> None:
        super().__init__(order, pipe)
        self._order = order
        self._positions: dict[int, int] = {}
        """By partition: the next offset; the parent knows of every record before it."""
        self._committed_us = now_us()
        self._is_assigned = False
        self._commits = 0
        self._failed_commits = 0
        is_classic = order.group_protocol == "classic"
        self._client = Consumer(
            {
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "group.protocol": order.group_protocol,
                **({"session.timeout.ms": _SESSION_MS} if is_classic else {}),
                **self._common,
                "group.id": order.group,
            }
        )
        self._client.list_topics(order.topic, timeout=CONNECT_TIMEOUT_S)

    def join(self) -> bool:
        """Wait for the first assignment, which may be empty; return whether it came."""
        self._client.subscribe(
            [self._order.topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        deadline = time.monotonic() + _JOIN_TIMEOUT_S
        while not self._is_assigned and time.monotonic() < deadline:
            self._take(self._client.consume(_BATCH, _WAIT_S))
        return self._is_assigned

    def run(self) -> None:
        """Read until stopped. The member takes part in its group before `go`, too."""
        while not self._is_stopped:
            at_us = now_us()
            self._attend(at_us)
            self._take(self._client.consume(_BATCH, _WAIT_S))
            if at_us - self._committed_us >= COMMIT_US:
                self._committed_us = at_us
                self._commit(list(self._positions), is_last=False)

    def _obey(self, command: Mapping[str, Any]) -> None:
        if command["command"] == "go":
            self._interval = ClientInterval(command["start_us"])

    def leave(self) -> None:
        """Commit, leave the group, and report."""
        self._commit(list(self._positions), is_last=True)
        self._client.close()
        self._report(now_us())
        self._pipe.tell(
            "done", checks=[], commits=self._commits, failed_commits=self._failed_commits
        )

    def _on_client_error(self, error: KafkaError) -> None:
        super()._on_client_error(error)
        if lacks_offsets(error):
            assign_again(self._client)

    # -- the group ---------------------------------------------------------------------------------

    def _on_assign(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        self._is_assigned = True
        self._tell_rebalance("assigned", partitions)

    def _on_revoke(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [each.partition for each in partitions if each.partition in self._positions]
        self._commit(numbers, is_last=True)
        self._forget(partitions)
        self._tell_rebalance("revoked", partitions)

    def _on_lost(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        self._forget(partitions)
        self._tell_rebalance("lost", partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._positions.pop(each.partition, None)

    def _tell_rebalance(self, what: str, partitions: list[TopicPartition]) -> None:
        numbers = [each.partition for each in partitions]
        self._pipe.tell("rebalance", at_us=now_us(), what=what, partitions=numbers)

    def _commit(self, numbers: list[int], *, is_last: bool) -> None:
        """Commit the positions of these partitions; wait for the answer to the last commit.

        After a failed commit records are read again; none is lost.
        """
        offsets = [
            TopicPartition(self._order.topic, number, self._positions[number]) for number in numbers
        ]
        if not offsets:
            return
        self._commits += 1
        try:
            if is_last:
                self._client.commit(offsets=offsets, asynchronous=False)
            else:
                self._client.commit(offsets=offsets, asynchronous=True)
        except KafkaException as refusal:
            self._failed_commits += 1
            self._interval.on_error(f"commit: {refusal.args[0].str()}")

    # -- records -----------------------------------------------------------------------------------

    def _take(self, messages: list[Message]) -> None:
        if not messages:
            return
        at_us = now_us()
        found = self._count(messages, at_us)
        if not found.positions:  # errors are no progress
            return
        runs: list[Run] = as_runs(found.stamps)
        positions = list(found.positions.items())
        self._pipe.tell("received", at_us=at_us, runs=runs, positions=positions)
        self._positions.update(found.positions)
