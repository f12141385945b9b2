"""What a shard has to say: answers and appends of the event at hand, and what waits for appends.

Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cluster.coordinator.groups.effects import NOTHING, Answer, Append, Effects, GroupRecord
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class AfterAppend(Protocol):
    """What happens when the outcome of an append is known."""

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        """The outcome is known: what the records say holds, or they are not in the log. Once."""
        ...

    def answer(self, error: ErrorCode, now: Moment) -> None:
        """Answer those who wait, with the error of the append as the log names it. Once, after
        `settle`; without it if the append takes too long, or the shard is unloaded."""
        ...


@dataclass(slots=True)
class _Pending:
    after: AfterAppend
    is_answered: bool = False


class Outbox:
    """Invariant: of each append, `settle` and `answer` are called at most once each."""

    def __init__(self) -> None:
        self._appends: list[Append] = []
        self._answers: list[Answer] = []
        self._pending: dict[int, _Pending] = {}
        self._next_id = 0

    def answer(self, token: object, reply: object) -> None:
        """Answer a request."""
        self._answers.append(Answer(token, reply))

    def append(
        self,
        records: Sequence[GroupRecord],
        after: AfterAppend,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> None:
        """Append records, of a transaction if a producer is named, then call `after`."""
        self._next_id += 1
        append = Append(self._next_id, tuple(records), producer_id, producer_epoch)
        self._appends.append(append)
        self._pending[self._next_id] = _Pending(after)

    def take(self) -> Effects:
        """All since the last time."""
        if not self._appends and not self._answers:
            return NOTHING
        effects = Effects(tuple(self._appends), tuple(self._answers))
        self._appends.clear()
        self._answers.clear()
        return effects

    def on_appended(
        self, append_id: int, error: ErrorCode, now: Moment, *, is_stored: bool
    ) -> None:
        """The outcome of one; of one that is not known (after `abandon`), nothing happens."""
        pending = self._pending.pop(append_id, None)
        if pending is None:
            return
        pending.after.settle(now, is_stored=is_stored)
        if not pending.is_answered:
            pending.after.answer(error, now)

    def on_late(self, append_id: int, now: Moment) -> None:
        """One that takes too long: those who wait for it are answered; its outcome follows."""
        pending = self._pending.get(append_id)
        if pending is not None and not pending.is_answered:
            pending.is_answered = True
            pending.after.answer(ErrorCode.request_timed_out, now)

    def abandon(self, now: Moment) -> None:
        """Answer everybody who waits for an append as if the broker did not lead the partition."""
        for pending in self._pending.values():
            if not pending.is_answered:
                pending.after.answer(ErrorCode.not_leader_or_follower, now)
        self._pending.clear()
        self._appends.clear()
