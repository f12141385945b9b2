"""A tiny kind of shard: counters that are kept as records, and start again after a while."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cluster.coordinator.shards.effects import CoordinatorRecord, Effects
from cluster.coordinator.shards.load_report import LoadReport
from cluster.coordinator.shards.outbox import Outbox
from cluster.coordinator.shards.requests import Query, ReplyT, Request
from cluster.model.clocks import Moment, MonotonicMs
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

LIFETIME_MS = 10_000
"""A counter that nobody has added to for so long is deleted."""


@dataclass(frozen=True, slots=True)
class Add(Request[ErrorCode]):
    name: str
    amount: int = 1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Delete(Request[None]):
    name: str


@dataclass(frozen=True, slots=True)
class Value(Query[int | None]):
    name: str


class CounterShard:
    """Implements `Shard`."""

    def __init__(self) -> None:
        self.load_report = LoadReport()
        self.late: list[int] = []
        self._values: dict[str, int] = {}
        self._added_ms: dict[str, MonotonicMs] = {}
        self._in_transactions: dict[int, list[tuple[str, int]]] = {}
        self._outbox = Outbox()
        self._requests = dict([Add.taken_by(self._add), Delete.taken_by(self._delete)])
        self._queries = dict([Value.answered_by(self._value)])

    # -- what the runtime calls --------------------------------------------------------------------

    def replay(
        self, key: bytes | None, value: bytes | None, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        if key is None:
            self.load_report.note_corrupt("no key")
            return
        self.load_report.loaded["counters"] += 1
        self.take(key.decode(), None if value is None else int(value), producer_id)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        for name, value in self._in_transactions.pop(producer_id, []):
            if is_commit:
                self._values[name] = value

    def finishing_steps(self) -> Iterator[None]:
        return iter(())

    def resuming_steps(self, now: Callable[[], Moment]) -> Iterator[Effects]:
        return iter(())

    def on_loaded(self, now: Moment) -> Effects:
        self._added_ms = dict.fromkeys(self._values, now.monotonic_ms)
        return self._outbox.take()

    def submit(self, request: Request[Any], token: object, now: Moment) -> Effects:
        self._requests[type(request)](request, token, now)
        return self._outbox.take()

    def ask(self, query: Query[ReplyT], now: Moment) -> ReplyT:
        reply: ReplyT = self._queries[type(query)](query, now)
        return reply

    def on_appended(
        self, append_id: int, error: ErrorCode, now: Moment, *, is_in_log: bool | None = None
    ) -> Effects:
        self._outbox.on_appended(append_id, error, now, is_in_log=is_in_log)
        return self._outbox.take()

    def on_append_late(self, append_id: int, now: Moment) -> Effects:
        self.late.append(append_id)
        self._outbox.on_late(append_id, now)
        return self._outbox.take()

    def next_deadline_ms(self) -> MonotonicMs | None:
        oldest_ms = min(self._added_ms.values(), default=None)
        return None if oldest_ms is None else MonotonicMs(oldest_ms + LIFETIME_MS)

    def on_tick(self, now: Moment) -> Effects:
        for name, added_ms in list(self._added_ms.items()):
            if added_ms + LIFETIME_MS <= now.monotonic_ms:
                del self._added_ms[name]
                self._delete(Delete(name), None, now)
        return self._outbox.take()

    def unload(self, now: Moment) -> Effects:
        self._outbox.abandon(now)
        return self._outbox.take()

    def forgetting_steps(self) -> Iterator[None]:
        while self._values:
            self._values.popitem()
            yield

    # -- requests ----------------------------------------------------------------------------------

    def _add(self, request: Add, token: object, now: Moment) -> None:
        self._added_ms[request.name] = now.monotonic_ms
        total = self._values.get(request.name, 0) + request.amount
        record = CoordinatorRecord(request.name.encode(), b"%d" % total)
        self._outbox.append(
            [record],
            Stored(self, request.name, total, token, request.producer_id),
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        )

    def _delete(self, request: Delete, token: object, now: Moment) -> None:
        record = CoordinatorRecord(request.name.encode(), None)
        self._outbox.append([record], Stored(self, request.name, None, None))
        if token is not None:
            self.answer(token, None)

    def _value(self, query: Value, _now: Moment) -> int | None:
        return self._values.get(query.name)

    # -- outcomes ----------------------------------------------------------------------------------

    def take(self, name: str, value: int | None, producer_id: int) -> None:
        if producer_id != NO_PRODUCER_ID:
            assert value is not None
            self._in_transactions.setdefault(producer_id, []).append((name, value))
        elif value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value

    def answer(self, token: object, reply: ErrorCode | None) -> None:
        self._outbox.answer(token, reply)


@dataclass(slots=True)
class Stored:
    """What follows an append: the counter has the value, and whoever waits is answered."""

    shard: CounterShard
    name: str
    value: int | None
    token: object
    producer_id: int = NO_PRODUCER_ID

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        if is_stored:
            self.shard.take(self.name, self.value, self.producer_id)

    def answer(self, error: ErrorCode, now: Moment) -> None:
        if self.token is not None:
            self.shard.answer(self.token, error)
