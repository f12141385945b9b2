"""The transactions of `produce --transactional-id`: lines that become visible together or not at
all.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.tools.kafka_connection import explained

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

_STEP_S: Final = 5.0
_PATIENCE_S: Final = 60.0
"""Enough for another broker to coordinate the transactional id."""


class LineTransactions:
    """Begins a transaction with the first line, and with the first one after each end."""

    def __init__(
        self,
        client: "Producer",
        transactional_id: str,
        size: int | None,
        hint: Callable[[int], str] = lambda _code: "",
    ) -> None:
        """`size` lines are one transaction; None: all of them. `hint` says what to do about an
        error code, if that is known.
        """
        self._client = client
        self._name = one_line(transactional_id)
        self._hint = hint
        self._size = size
        self._first_line = self._last_line = 0
        """Of the open transaction; 0 if none is open."""

    def start(self) -> None:
        """Fence earlier producers with the transactional id. Raises UserError."""
        problem = self._repeated(self._client.init_transactions)
        if problem is not None:
            raise UserError(
                f"transactional id '{self._name}' cannot be used: {explained(problem)}"
                f"{self._hint(problem.code())}"
            )

    @property
    def is_open(self) -> bool:
        """Whether a line was sent in a transaction that has not ended."""
        return self._first_line > 0

    @property
    def is_full(self) -> bool:
        """Whether the open transaction has all its lines."""
        count = self._last_line - self._first_line + 1
        return self.is_open and self._size is not None and count >= self._size

    def add(self, line: int) -> None:
        """A line is about to be sent. Raises UserError if the client has failed for good."""
        if not self.is_open:
            problem = self._repeated(lambda _timeout: self._client.begin_transaction())
            if problem is not None:
                raise UserError(f"no transaction can begin: {explained(problem)}")
            self._first_line = line
        self._last_line = line

    def commit(self) -> None:
        """End the open transaction. Raises UserError if it was aborted, or may be."""
        lines = self._lines
        problem = self._repeated(self._client.commit_transaction)
        if problem is None:
            self._first_line = 0
        elif problem.txn_requires_abort():
            self.abort()
            raise UserError(f"{lines} was aborted: {explained(problem)}")
        else:
            self._first_line = 0
            fate = "was not committed" if problem.fatal() else "may not be committed"
            raise UserError(f"{lines} {fate}: {explained(problem)}")

    def abort(self) -> str:
        """Abort the open transaction. Returns what became of its lines."""
        lines, self._first_line = self._lines, 0
        problem = self._repeated(self._client.abort_transaction)
        if problem is None:
            return f"{lines} was aborted"
        return f"{lines} was not committed, and the abort failed: {explained(problem)}"

    @property
    def _lines(self) -> str:
        first, last = self._first_line, self._last_line
        return f"the transaction of line{f' {first}' if first == last else f's {first} to {last}'}"

    def _repeated(self, attempt: Callable[[float], None]) -> "KafkaError | None":
        """Why an operation has failed, after it was repeated for as long as that may help."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                attempt(_STEP_S)
            except KafkaException as failure:
                problem: KafkaError = failure.args[0]
                may_help = problem.retriable() and not problem.fatal()
                if problem.txn_requires_abort() or not may_help or time.monotonic() > deadline:
                    return problem
            else:
                return None
