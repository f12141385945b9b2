"""The consumer of a load test that is a member of a consumer group.

The parent is told of every record before its offset is committed. So it knows exactly which records
came twice, and which never, whatever becomes of this process. Imported by the worker process alone.
"""

import time
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaException,
    Message,
    ThrottleEvent,
    TopicPartition,
)

from cluster.loadtest.client_interval import ClientInterval
from cluster.loadtest.group_account import Run, as_runs
from cluster.loadtest.parent_pipe import ParentPipe
from cluster.loadtest.record_stamp import read_stamp
from cluster.loadtest.worker_orders import INTERVAL_US, ConsumerOrder

COMMIT_US: Final = 1_000_000
"""How often positions are committed, besides when partitions are taken away and at the end."""
_SESSION_MS: Final = 10_000
"""Of the classic protocol: the library's 45 s would make a test that kills members a long one."""
_CONNECT_TIMEOUT_S: Final = 10.0
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


class _GroupConsumer:
    def __init__(self, order: ConsumerOrder, pipe: ParentPipe) -> None:
        self._order = order
        self._pipe = pipe
        self._positions: dict[int, int] = {}
        """Of its partitions: the next offset, all before it told to the parent."""
        self._committed_us = _now_us()
        self._is_assigned = False
        self._is_stopped = False
        self.last_error = ""
        self._commits = 0
        self._failed_commits = 0
        self._interval = ClientInterval(_now_us())
        is_classic = order.group_protocol == "classic"
        self._client = Consumer(
            {
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "group.protocol": order.group_protocol,
                **({"session.timeout.ms": _SESSION_MS} if is_classic else {}),
                **order.properties,
                "bootstrap.servers": order.bootstrap,
                "client.id": order.client_id,
                "group.id": order.group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "throttle_cb": self._on_throttle,
                "error_cb": self._on_client_error,
                "log_level": 0,
            }
        )
        self._client.list_topics(order.topic, timeout=_CONNECT_TIMEOUT_S)

    def join(self) -> bool:
        """Until the group has given it partitions, or none, for the first time; whether it did."""
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
        """Read until it is stopped. Before `go` there is nothing to read, but the group works."""
        while not self._is_stopped:
            for command in self._pipe.commands():
                if command["command"] == "go":
                    self._interval = ClientInterval(command["start_us"])
                self._is_stopped |= command["command"] == "stop"
            now_us = _now_us()
            if now_us - self._interval.from_us >= INTERVAL_US:
                self._report(now_us)
            self._take(self._client.consume(_BATCH, _WAIT_S))
            if now_us - self._committed_us >= COMMIT_US:
                self._committed_us = now_us
                self._commit(list(self._positions), is_last=False)

    def leave(self) -> None:
        """Commit, leave the group, and tell what is left to tell."""
        self._commit(list(self._positions), is_last=True)
        self._client.close()
        self._report(_now_us())
        self._pipe.tell(
            "done", checks=[], commits=self._commits, failed_commits=self._failed_commits
        )

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
        self._pipe.tell("rebalance", at_us=_now_us(), what=what, partitions=numbers)

    def _commit(self, numbers: list[int], *, is_last: bool) -> None:
        """Commit the positions of these partitions; wait for the answer if nobody may do it later.

        A commit that fails costs repetitions, no records.
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
        now_us = _now_us()
        stamps: list[tuple[int, int, int]] = []
        positions: dict[int, int] = {}
        for message in messages:
            error = message.error()
            if error is not None:
                self.last_error = error.str()
                self._interval.on_error(self.last_error)
                continue
            partition: Any = message.partition()
            offset: Any = message.offset()
            positions[partition] = offset + 1
            value: Any = message.value()
            stamp = read_stamp(value)
            if stamp is None or stamp.run != self._order.run:
                continue  # not a record of this load test
            stamps.append((stamp.producer, partition, stamp.sequence))
            key: Any = message.key()
            size_bytes = len(value) + (len(key) if key else 0)
            self._interval.on_record(partition, size_bytes, now_us - stamp.due_us)
        if not positions:  # errors alone are no progress
            return
        runs: list[Run] = as_runs(stamps)
        self._pipe.tell("received", at_us=now_us, runs=runs, positions=list(positions.items()))
        self._positions.update(positions)

    def _report(self, now_us: int) -> None:
        self._interval.until_us = now_us
        self._pipe.tell("interval", **self._interval.to_json())
        self._interval = ClientInterval(now_us)

    def _on_throttle(self, event: ThrottleEvent) -> None:
        self._interval.on_throttle(round(event.throttle_time * 1_000))  # the client says seconds

    def _on_client_error(self, error: Any) -> None:
        self.last_error = error.str()
        self._interval.on_error(self.last_error)


def _now_us() -> int:
    return time.monotonic_ns() // 1_000
