"""A cache of answers with a bounded number of bytes. Pure."""

from typing import Final, Generic, TypeVar

MAX_BYTES: Final = 32 << 20
"""The limit on all answers and their requests; when it is exceeded, all are dropped."""
_MAX_COUNT: Final = 256
_SHARE: Final = 8
"""An answer that takes more than one part in so many is not cached: it would displace all others.
"""

A = TypeVar("A")


class KeptAnswers(Generic[A]):
    """Answers by request. Invariant: the sum of their sizes is at most `max_bytes`."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._answers: dict[object, A] = {}
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, asked: object) -> A | None:
        return self._answers.get(asked)

    def put(self, asked: object, answer: A, size_bytes: int) -> None:
        """Cache an answer unless it is too large; `size_bytes` includes the request."""
        if size_bytes > self._max_bytes // _SHARE or asked in self._answers:
            return
        if self._size_bytes + size_bytes > self._max_bytes or len(self._answers) >= _MAX_COUNT:
            self.clear()
        self._answers[asked] = answer
        self._size_bytes += size_bytes

    def clear(self) -> None:
        self._answers.clear()
        self._size_bytes = 0
