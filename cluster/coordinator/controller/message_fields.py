"""Fields of control messages as what they must be. Pure.

A message may come from a broker of another version, or from a stranger: what is not checked here
would fail in the middle of an operation, whose failure ends the process.
"""

from typing import Any

from cluster.model.errors import ErrorCode, PeerError


def number(value: Any) -> int:
    """A whole number. Raises PeerError."""
    if not isinstance(value, int):
        raise PeerError(f"{value!r:.80} is not a number")
    return value


def text(value: Any) -> str:
    """A text. Raises PeerError."""
    if not isinstance(value, str):
        raise PeerError(f"{value!r:.80} is not a text")
    return value


def listed(value: Any) -> list[Any]:
    """A list. Raises PeerError."""
    if not isinstance(value, list | tuple):
        raise PeerError(f"{value!r:.80} is not a list")
    return list(value)


def mapped(value: Any) -> dict[Any, Any]:
    """A map. Raises PeerError."""
    if not isinstance(value, dict):
        raise PeerError(f"{value!r:.80} is not a map")
    return value


def error_code(value: Any) -> ErrorCode:
    """The error that a number stands for; one that we do not know is UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(number(value))
    except ValueError:
        return ErrorCode.unknown_server_error
