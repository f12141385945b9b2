"""Collects the effects of an event, and the actions that follow an append. Pure."""

from collections.abc import Sequence
from typing import Any, Protocol

from cluster.coordinator.shards.effects import NOTHING, Answer, Append, CoordinatorRecord, Effects
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class AfterAppend(Protocol):
    """What follows the outcome of an append."""

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        """Apply what the records say, or undo what was prepared; called once."""
        ...

    def answer(self, error: ErrorCode, now: Moment) -> None:
        """Answer those who wait, given the error that the log reported.

        Called once, after `settle`; without `settle` if the append is late or the shard is
        unloaded.
        """
        ...


class _Pending:
    __slots__ = ("after", "is_answered")

    def __init__(self, after: AfterAppend) -> None:
        self.after = after
        self.is_answered = False


class Outbox:
    """Invariant: `settle` and `answer` are called at most once for each append."""

    def __init__(self) -> None:
        self._appends: list[Append] = []
        self._answers: list[Answer] = []
        self._messages: list[Any] = []
        self._pending: dict[int, _Pending] = {}
        self._next_id = 0

    def answer(self, token: object, reply: object) -> None:
        """Answer a request."""
        self._answers.append(Answer(token, reply))

    def send(self, message: Any) -> None:
        """Give other parts of the broker a message."""
        self._messages.append(message)

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        after: AfterAppend,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> None:
        """Append records, in the transaction of a producer if one is named; then call `after`."""
        self._next_id += 1
        append = Append(self._next_id, tuple(records), producer_id, producer_epoch)
        self._appends.append(append)
        self._pending[self._next_id] = _Pending(after)

    def take(self) -> Effects:
        """All effects since the last call."""
        if not self._appends and not self._answers and not self._messages:
            return NOTHING
        effects = Effects(tuple(self._appends), tuple(self._answers), tuple(self._messages))
        self._appends.clear()
        self._answers.clear()
        self._messages.clear()
        return effects

    def on_appended(
        self, append_id: int, error: ErrorCode, now: Moment, *, is_in_log: bool | None
    ) -> None:
        """Take the outcome of an append (see `Shard.on_appended`); after `abandon`, ignore it."""
        pending = self._pending.pop(append_id, None)
        if pending is None:
            return
        is_stored = error is ErrorCode.none if is_in_log is None else is_in_log
        pending.after.settle(now, is_stored=is_stored)
        if not pending.is_answered:
            pending.after.answer(error, now)

    def on_late(self, append_id: int, now: Moment) -> None:
        """Answer those who wait for the append with REQUEST_TIMED_OUT."""
        pending = self._pending.get(append_id)
        if pending is not None and not pending.is_answered:
            pending.is_answered = True
            pending.after.answer(ErrorCode.request_timed_out, now)

    def abandon(self, now: Moment) -> None:
        """Answer everyone who waits for an append with NOT_LEADER_OR_FOLLOWER."""
        for pending in self._pending.values():
            if not pending.is_answered:
                pending.after.answer(ErrorCode.not_leader_or_follower, now)
        self._pending.clear()
        self._appends.clear()
        self._messages.clear()
