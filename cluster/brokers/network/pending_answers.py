"""The answers of one connection whose later requests were handed over before they were given. Pure.

Answers leave in the order of their requests: one that is given early waits here for those before
it. A connection may have `PENDING_MAX` such answers, and all connections together
`PENDING_MAX_OF_ALL`; above that a connection has one at a time. An answer counts for each of its
partitions, because those determine its memory, and for at most `PENDING_MAX`, so that a single huge
request does not slow down all other connections.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from cluster.brokers.network.connection import Outgoing
from cluster.brokers.network.outgoing import BYTES_TYPES

PENDING_MAX: Final = 512
PENDING_MAX_OF_ALL: Final = 20_000
_BEHIND_MAX_BYTES: Final = 64 * 1024
"""Given answers behind others may take this much, and one answer more."""

Note = Callable[[int, int], object]


class QueuedAnswer:
    """One of them; implements `PendingAnswer`."""

    __slots__ = (
        "_pending",
        "arrived_ns",
        "behind_bytes",
        "buffers",
        "is_given",
        "note",
        "on_close",
        "weight",
    )

    def __init__(
        self,
        pending: "PendingAnswers",
        weight: int,
        arrived_ns: int,
        on_close: Callable[[], None] | None,
    ) -> None:
        self._pending = pending
        self.weight = weight
        """The number of its partitions."""
        self.arrived_ns = arrived_ns
        self.on_close = on_close
        """Called if the connection closes before the answer is given."""
        self.note: Note | None = None
        self.buffers: list[Outgoing] = []
        self.is_given = False
        self.behind_bytes = 0
        """Its size if it was given before an earlier one."""

    def respond(self, buffers: list[Outgoing]) -> None:
        """Give the answer; it is sent after the earlier ones."""
        self._pending.give(self, buffers)


class PendingAnswers:
    """A queue in the order of the requests.

    Invariant: the first answer is not given, except while `on_first_given` runs.
    """

    __slots__ = ("_answers", "_behind_bytes", "_on_first_given", "after", "weight")

    def __init__(self, on_first_given: Callable[[], None]) -> None:
        """`on_first_given` takes the given answers."""
        self._on_first_given = on_first_given
        self._answers: deque[QueuedAnswer] = deque()
        self._behind_bytes = 0
        self.weight = 0
        """The sum over all answers."""
        self.after: Callable[[], None] | None = None
        """Called once when no answer is left."""

    @property
    def is_full(self) -> bool:
        """Whether the connection may have no more of them."""
        return self.weight >= PENDING_MAX or self._behind_bytes >= _BEHIND_MAX_BYTES

    def add(
        self, weight: int, arrived_ns: int, on_close: Callable[[], None] | None
    ) -> QueuedAnswer:
        """Begin to wait for one more answer."""
        answer = QueuedAnswer(self, min(weight, PENDING_MAX), arrived_ns, on_close)
        self._answers.append(answer)
        self.weight += answer.weight
        return answer

    def give(self, answer: QueuedAnswer, buffers: list[Outgoing]) -> None:
        """Called by `QueuedAnswer.respond`; does nothing if the connection is closed."""
        answers = self._answers
        if not answers:
            return
        answer.on_close = None
        answer.buffers = buffers
        answer.is_given = True
        if answers[0] is answer:
            self._on_first_given()
            return
        for item in buffers:
            if isinstance(item, BYTES_TYPES):
                answer.behind_bytes += len(item)
        self._behind_bytes += answer.behind_bytes

    def take_given(self, out: deque[Outgoing], notes: list[Note]) -> int:
        """Move the given answers in front of the first that is not to the output; returns how
        many."""
        answers = self._answers
        count = 0
        while answers and answers[0].is_given:
            answer = answers.popleft()
            out.extend(answer.buffers)
            if answer.note is not None:
                notes.append(answer.note)
            self.weight -= answer.weight
            self._behind_bytes -= answer.behind_bytes
            count += 1
        return count

    def drop(self, notes: list[Note]) -> None:
        """Forget all of them, since the connection is closed."""
        dropped, self._answers = self._answers, deque()
        self.weight = self._behind_bytes = 0
        self.after = None
        for answer in dropped:
            if answer.note is not None:
                notes.append(answer.note)
            on_close, answer.on_close = answer.on_close, None
            if on_close is not None:
                on_close()
