"""Answers that are kept to be given again, in a bounded number of bytes. Pure."""

from typing import Final, Generic, TypeVar

MAX_BYTES: Final = 32 << 20
"""Limit on all answers together with their requests; above it all are forgotten."""
_MAX_COUNT: Final = 256
_SHARE: Final = 8
"""One that takes more than this part of them is not kept: it would drive out all others."""

A = TypeVar("A")


class KeptAnswers(Generic[A]):
    """By what is asked. Invariant: their sizes, as they were given, are at most `max_bytes`."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._answers: dict[object, A] = {}
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, asked: object) -> A | None:
        """The answer; None where it is not kept."""
        return self._answers.get(asked)

    def put(self, asked: object, answer: A, size_bytes: int) -> None:
        """Keep an answer, unless it is too large; `size_bytes` is of both."""
        if size_bytes > self._max_bytes // _SHARE or asked in self._answers:
            return
        if self._size_bytes + size_bytes > self._max_bytes or len(self._answers) >= _MAX_COUNT:
            self.clear()
        self._answers[asked] = answer
        self._size_bytes += size_bytes

    def clear(self) -> None:
        """Forget all of them."""
        self._answers.clear()
        self._size_bytes = 0
