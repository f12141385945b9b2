"""Regular expressions by which members of the newer protocol subscribe to topics. Pure.

KIP-848 demands RE2's syntax, which is matched in time linear in the length of the name. The library
refuses expressions that would take much memory. Expressions that take long to compile are refused
here, because they would block the broker's thread. Kafka has no such limits.
"""

import re
from typing import Final

import re2

MAX_BYTES: Final = 8_192
MAX_COSTLY: Final = 200
"""The number of Unicode classes and counted repetitions: each takes up to 0.2 ms in few bytes."""
MAX_MEMORY: Final = 1 << 20
"""Bytes of one compiled expression, including the states that it caches between matches."""

_COSTLY: Final = re.compile(r"\\[pP]|\{")


class InvalidExpression(ValueError):
    """The text is not a regular expression of RE2. The message may contain parts of it."""


class TopicExpression:
    """One compiled expression; immutable."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        """Raises InvalidExpression."""
        self.text = text
        _check_cost(text)
        options = re2.Options()
        options.max_mem = MAX_MEMORY
        options.never_capture = True
        options.log_errors = False
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as problem:
            raise InvalidExpression(problem.args[0].decode(errors="replace")) from None

    def matches(self, name: str) -> bool:
        """Whether the expression matches the whole name."""
        return self._compiled.fullmatch(name) is not None


def compile_expression(text: str) -> TopicExpression:
    """Compile an expression; takes some tens of milliseconds at worst. Raises InvalidExpression."""
    return TopicExpression(text)


def _check_cost(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidExpression("it is not Unicode") from None
    if size > MAX_BYTES:
        raise InvalidExpression(f"it has {size} bytes, and may have {MAX_BYTES}")
    if len(_COSTLY.findall(text)) > MAX_COSTLY:
        raise InvalidExpression(
            f"it has more than {MAX_COSTLY} classes of Unicode and counted repetitions"
        )
