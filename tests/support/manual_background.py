"""A background thread that does its work when a test says so."""

from collections import deque
from collections.abc import Callable

from tests.support.inline_background import InlineBackground


class ManualBackground:
    """Stands in for `BackgroundThread`: holds its calls until `do_one`."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()

    def only_for(self, name: str) -> Callable[[str, float], "ManualBackground | InlineBackground"]:
        """Makes the threads of a broker: this one for that name, others that work at once."""
        return lambda asked, share: self if asked == name else InlineBackground(asked, share)

    def do(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def close(self, *, drop: bool = False) -> None:
        while self._calls and not drop:
            self.do_one()

    def do_one(self) -> bool:
        """Make the oldest call; False where there is none."""
        if not self._calls:
            return False
        self._calls.popleft()()
        return True

    def forget(self) -> None:
        """The process has ended."""
        self._calls.clear()
