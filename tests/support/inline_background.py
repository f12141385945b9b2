"""In place of a background thread: what blocks is done at once."""

from collections.abc import Callable


class InlineBackground:
    """Runs each call when it is handed over."""

    def __init__(self, _name: str, _share: float) -> None:
        """As a thread of that name."""

    def do(self, call: Callable[[], None]) -> None:
        call()

    def close(self, *, drop: bool = False) -> None:
        """Nothing is under way."""
