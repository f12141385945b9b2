"""Finds the error codes in an answer, in whichever fields its class has them (Kafka:
`errorCounts`). Pure.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_args, get_type_hints

from cluster.model.errors import ErrorCode
from cluster.protocol.writer import EncodedItems

_Field = tuple[str, bool]
"""The name of a field, and whether it holds items rather than an error code."""
_FIELDS: Final[dict[Any, tuple[_Field, ...]]] = {}
"""The fields with error codes of each class examined so far."""


def errors_in(answer: Any) -> Iterator[ErrorCode]:
    """Each error in an answer of generated messages, once per item that has it.

    Items that were encoded ahead are expected to have none.
    """
    for name, has_items in _fields_with_codes(type(answer)):
        value = getattr(answer, name)
        if not has_items:
            if value:
                yield value
        elif value and not isinstance(value, EncodedItems):
            for item in value:
                yield from errors_in(item)


def _fields_with_codes(message: Any) -> tuple[_Field, ...]:
    """The fields of a class that are error codes, or sequences of items with error codes."""
    known = _FIELDS.get(message)
    if known is None:
        known = _FIELDS[message] = tuple(_find(message))
    return known


def _find(message: Any) -> Iterator[_Field]:
    if is_dataclass(message):
        hints = get_type_hints(message)
        for field in fields(message):
            hint = hints[field.name]
            if hint is ErrorCode:
                yield field.name, False
            elif any(_fields_with_codes(each) for each in _parts(hint)):
                yield field.name, True


def _parts(hint: Any) -> Iterator[Any]:
    arguments = get_args(hint)
    if not arguments:
        yield hint
    for argument in arguments:
        yield from _parts(argument)
