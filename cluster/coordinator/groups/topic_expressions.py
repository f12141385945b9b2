"""Regular expressions by which members of the newer protocol subscribe to topics. Pure."""

import re


class InvalidExpression(ValueError):
    """Not a regular expression."""


class TopicExpression:
    """One compiled expression."""

    def __init__(self, text: str) -> None:
        """Raises InvalidExpression."""
        try:
            self._compiled = re.compile(text)
        except re.error as problem:
            raise InvalidExpression(str(problem)) from None

    def matches(self, name: str) -> bool:
        """Whether it stands for the name as a whole."""
        return self._compiled.fullmatch(name) is not None


def compile_expression(text: str) -> TopicExpression:
    """Compile one. Raises InvalidExpression."""
    return TopicExpression(text)
