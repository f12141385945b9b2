"""A stand-in for a helper process: the work is done in this process, in the loop's next turn."""

import importlib
from collections.abc import Callable

from cluster.runtime.helper_process import HelperPort, Message, OnEnd, OnMessage


class InlineHelper:
    """Answers arrive in the turn after the work was done, as those of a process would."""

    def __init__(
        self,
        next_turn: Callable[[Callable[[], None]], None],
        module: str,
        on_message: OnMessage,
        on_end: OnEnd,
    ) -> None:
        self._next_turn = next_turn
        self._work = importlib.import_module(module).work
        self._on_message = on_message
        self._on_end = on_end
        self.is_open = True

    def send(self, message: Message) -> None:
        self._next_turn(lambda: self._do(message))

    def close(self, *, waits: bool = True) -> None:
        self.is_open = False

    def end(self, reason: str) -> None:
        """Behave as if the process had died."""
        self.is_open = False
        self._on_end(reason)

    def _do(self, message: Message) -> None:
        if self.is_open:
            self._work(message, lambda answer: self._next_turn(lambda: self._hear(answer)))

    def _hear(self, answer: Message) -> None:
        if self.is_open:
            self._on_message(answer)


def inline_helpers(
    next_turn: Callable[[Callable[[], None]], None],
) -> Callable[[str, OnMessage, OnEnd], HelperPort]:
    """What a broker is given to start helpers with."""
    return lambda module, on_message, on_end: InlineHelper(next_turn, module, on_message, on_end)
