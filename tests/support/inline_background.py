"""A stand-in for a background thread: blocking calls are made at once."""

from collections.abc import Callable


class InlineBackground:
    """Runs each call when it is handed over."""

    def __init__(self, _name: str, _share: float) -> None:
        """Take the arguments of a real background thread, and ignore them."""

    def do(self, call: Callable[[], None]) -> None:
        call()

    def close(self, *, drop: bool = False) -> None:
        """Nothing is under way."""
