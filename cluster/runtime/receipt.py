"""Divides a turn of the loop among all its message sockets. No sockets.

A broker has a socket for each peer and purpose. With a separate bound for each, a turn in which all
of them are full would take the sum of the bounds.
"""

from collections.abc import Callable
from typing import Final, Protocol

BUDGET_NS: Final = 1_500_000
"""What all sockets together take of one turn, in nanoseconds."""
SHARE_NS: Final = 500_000
"""What one of several that wait takes before the next has its share."""


class MessageSource(Protocol):
    """A socket with received messages."""

    def receive(self, until_ns: int) -> bool:
        """Handle messages until none is left (True) or the deadline passes (False).

        Handles at least one message if there is one. The deadline uses the clock of `Receipt`.
        """
        ...


class Receipt:
    """The receive budget of a loop. Owned by the loop's thread.

    Invariant: waiting sources take turns, and none is received out of turn.
    """

    def __init__(
        self,
        monotonic_ns: Callable[[], int],
        turn_number: Callable[[], int],
        next_turn: Callable[[Callable[[], None]], None],
    ) -> None:
        """`next_turn` runs a call in the next turn of the loop, which has another `turn_number`."""
        self._monotonic_ns = monotonic_ns
        self._turn_number = turn_number
        self._next_turn = next_turn
        self._turn = -1
        self._left_ns = 0
        """Of this turn's budget."""
        self._waiting: dict[MessageSource, None] = {}

    def take(self, source: MessageSource) -> None:
        """Receive available messages now, or in later turns once the budget is spent."""
        waiting = self._waiting
        if not waiting and self._is_received_now(source):
            return
        if not waiting:
            self._next_turn(self._run)
        waiting[source] = None

    def _is_received_now(self, source: MessageSource) -> bool:
        turn = self._turn_number()
        if turn != self._turn:
            self._turn = turn
            self._left_ns = BUDGET_NS
        if self._left_ns <= 0:
            return False
        began_ns = self._monotonic_ns()
        is_empty = source.receive(began_ns + self._left_ns)
        self._left_ns -= self._monotonic_ns() - began_ns
        return is_empty

    def _run(self) -> None:
        if self._turn_number() == self._turn:
            self._next_turn(self._run)  # the sources of this turn have had its budget
            return
        waiting = self._waiting
        now_ns = self._monotonic_ns()
        until_ns = now_ns + BUDGET_NS
        while waiting and now_ns < until_ns:
            source = next(iter(waiting))
            is_empty = source.receive(min(until_ns, now_ns + SHARE_NS))
            del waiting[source]
            if not is_empty:
                waiting[source] = None  # behind the others
            now_ns = self._monotonic_ns()
        self._turn = self._turn_number()
        self._left_ns = until_ns - now_ns
        if waiting:
            self._next_turn(self._run)
