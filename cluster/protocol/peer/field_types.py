"""Types of the fields of messages between brokers: their checks and conversions. Pure.

A peer may be a broker of another version, or a stranger: a value that is not checked here would
fail in the middle of an operation, and end the process. Checks are compiled to one function for
each record, as they run for every fetch of a follower.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final
from uuid import UUID

from cluster.model.errors import ErrorCode

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_SHOWN_CHARACTERS: Final = 60

_numbers = itertools.count()


class Malformed(ValueError):
    """A value that its field cannot hold; `where` is the path to the field."""

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason = reason
        self.where = where

    def inside(self, outer: str) -> "Malformed":
        """The same error, seen from the message that contains the value."""
        return Malformed(
            self.reason, outer + ("." if self.where[:1].isalnum() else "") + self.where
        )


@dataclass(frozen=True)
class FieldType:
    """One type of field: Python expressions over a value `{v}`, which are compiled together.

    `test` checks an unpacked value; `value` converts it for the message, and may raise Malformed;
    `packed` converts it for msgpack. `names` are the names used in the expressions.
    """

    what: str
    """Completes "5 is not ..."."""
    test: str
    value: str = "{v}"
    packed: str = "{v}"
    names: Mapping[str, Any] = field(default_factory=dict)

    def reader(self) -> Callable[[Any], Any]:
        """A function from an unpacked value to the field's. It raises Malformed."""
        lines = [
            "def made(v):",
            f"    if not ({self.test.format(v='v')}):",
            "        raise Malformed(f'{described(v)} is not ' + what)",
            f"    return {self.value.format(v='v')}",
        ]
        return _compiled(lines, {**self.names, "what": self.what})

    def packer(self) -> Callable[[Any], Any]:
        """A function from the field's value to that for msgpack."""
        return _compiled(["def made(v):", f"    return {self.packed.format(v='v')}"], self.names)


def integer(low: int, high: int) -> FieldType:
    """An integer within these bounds, both included; not a bool."""
    return FieldType(
        f"a number from {low} to {high}", f"type({{v}}) is int and {low} <= {{v}} <= {high}"
    )


def text(most: int) -> FieldType:
    """A text of at most this many characters."""
    return FieldType(
        f"a text of at most {most} characters", f"type({{v}}) is str and len({{v}}) <= {most}"
    )


def octets(most: int) -> FieldType:
    """At most this many bytes."""
    return FieldType(f"at most {most} bytes", f"type({{v}}) is bytes and len({{v}}) <= {most}")


def matching(pattern_match: Callable[[str], object], what: str) -> FieldType:
    """A text for which the function returns something."""
    name = _new_name("match")
    return FieldType(what, f"type({{v}}) is str and {name}({{v}})", names={name: pattern_match})


def optional(item: FieldType) -> FieldType:
    """The item, or None."""
    return FieldType(
        f"{item.what} or null",
        f"({{v}} is None or ({item.test}))",
        f"(None if {{v}} is None else {item.value})",
        f"(None if {{v}} is None else {item.packed})",
        item.names,
    )


def listed(item: FieldType, most: int) -> FieldType:
    """A tuple of at most this many items."""
    reason = f"a list of at most {most}"
    lines = [
        "def made(values):",
        f"    if type(values) is not list or len(values) > {most}:",
        f"        raise Malformed(f'{{described(values)}} is not {reason}')",
        "    for at, v in enumerate(values):" if item.test != "True" else "",
        f"        if not ({item.test.format(v='v')}):" if item.test != "True" else "",
        "            raise_inside(values, item_reader)" if item.test != "True" else "",
    ]
    if item.value == "{v}":
        lines.append("    return tuple(values)")
    else:
        lines += [
            "    try:",
            f"        return tuple([{item.value.format(v='v')} for v in values])",
            "    except Malformed:",
            "        raise_inside(values, item_reader)",
        ]
    names = {**item.names, "raise_inside": _raise_inside, "item_reader": item.reader()}
    name = _new_name("read")
    packed = (
        "{v}" if item.packed == "{v}" else f"[{item.packed.format(v='each')} for each in {{v}}]"
    )
    read = _compiled([line for line in lines if line], names)
    return FieldType(reason, "True", f"{name}({{v}})", packed, {**item.names, name: read})


def mapped(key: FieldType, value: FieldType, most: int) -> FieldType:
    """A dict of at most this many entries."""
    read_key, read_value = key.reader(), value.reader()

    def read(values: Any) -> dict[Any, Any]:
        if type(values) is not dict or len(values) > most:
            raise Malformed(f"{described(values)} is not a map of at most {most}")
        entries = {}
        for one, content in values.items():
            name = read_key(one)
            try:
                entries[name] = read_value(content)
            except Malformed as error:
                raise error.inside(f"[{described(one)}]") from None
        return entries

    name = _new_name("read")
    return FieldType("a map", "True", f"{name}({{v}})", "dict({v})", {name: read})


def record(make: Callable[..., Any], **members: FieldType) -> FieldType:
    """An object whose members are sent as a list, in this order.

    `make` takes their values by position; for a dataclass these are all its fields, in its order.
    It may raise Malformed if members do not fit together.
    """
    if isinstance(make, type) and hasattr(make, "__dataclass_fields__"):
        expected = [each.name for each in fields(make)]
        if expected != list(members):
            raise TypeError(f"{make.__name__} has the fields {expected}, not {list(members)}")
    read, pack = _record_functions(make, members)
    name, pack_name = _new_name("read"), _new_name("pack")
    return FieldType(
        "a list",
        "True",
        f"{name}({{v}})",
        f"{pack_name}({{v}})",
        {name: read, pack_name: pack},
    )


def _record_functions(
    make: Callable[..., Any], members: Mapping[str, FieldType]
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    readers = [(name, each.reader()) for name, each in members.items()]
    count = len(members)

    def explain(values: Any) -> None:
        """Raise Malformed for the first invalid member."""
        if type(values) is not list:
            raise Malformed(f"{described(values)} is not a list")
        if len(values) != count:
            raise Malformed(f"{len(values)} fields instead of {count}")
        for (name, read), value in zip(readers, values, strict=True):
            try:
                read(value)
            except Malformed as error:
                raise error.inside(name) from None

    names: dict[str, Any] = {"make": make, "explain": explain}
    for each in members.values():
        names.update(each.names)
    # With a prefix of their own, so that no member hides another name of the function.
    tests = [each.test.format(v=f"m_{name}") for name, each in members.items()]
    tests = [test for test in tests if test != "True"]
    listing = "".join(f"m_{name}, " for name in members)
    made = ", ".join(each.value.format(v=f"m_{name}") for name, each in members.items())
    is_nested = any(each.value != "{v}" for each in members.values())
    lines = [
        "def made(values):",
        f"    if type(values) is not list or len(values) != {count}:",
        "        explain(values)",
        f"    {listing} = values",
        f"    if not ({' and '.join(tests) or 'True'}):",
        "        explain(values)",
    ]
    if is_nested:
        lines += [
            "    try:",
            f"        return make({made})",
            "    except Malformed:",
            "        explain(values)",
            "        raise",  # raised by `make` itself
        ]
    else:
        lines.append(f"    return make({made})")
    packed = ", ".join(each.packed.format(v=f"v.{name}") for name, each in members.items())
    return (
        _compiled(lines, names),
        _compiled(["def made(v):", f"    return ({packed},)"], names),
    )


def described(value: object) -> str:
    """A short description of a foreign value; only the size of a container, however deep."""
    if isinstance(value, str):
        return f"the text {value[:_SHOWN_CHARACTERS]!r}"
    if isinstance(value, bytes | list | dict):
        kind = {bytes: "bytes", list: "a list", dict: "a map"}[type(value)]
        return f"{len(value)} bytes" if kind == "bytes" else f"{kind} of {len(value)}"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"a {type(value).__name__}"


def _raise_inside(values: list[Any], read: Callable[[Any], Any]) -> None:
    for at, value in enumerate(values):
        try:
            read(value)
        except Malformed as error:
            raise error.inside(f"[{at}]") from None


def _new_name(purpose: str) -> str:
    return f"{purpose}_{next(_numbers)}"


def _compiled(lines: list[str], names: Mapping[str, Any]) -> Callable[[Any], Any]:
    namespace = {**names, "Malformed": Malformed, "described": described}
    exec("\n".join(lines), namespace)  # the text comes from our own tables alone, never from a peer
    made: Callable[[Any], Any] = namespace["made"]
    return made


_ERROR_CODES: Final = {int(code): code for code in ErrorCode}

BOOLEAN: Final = FieldType("true or false", "type({v}) is bool")
NUMBER: Final = integer(0, INT32_MAX)
"""Partition numbers, counts, sizes, times to wait."""
INT32: Final = integer(-(2**31), INT32_MAX)
"""What foreign registry documents may hold as well: ids of brokers, ports."""
EPOCH: Final = integer(-1, INT32_MAX)
"""-1 if there is none yet."""
INT16: Final = integer(-INT16_MAX - 1, INT16_MAX)
INT64: Final = integer(-INT64_MAX - 1, INT64_MAX)
"""As `INT16`, what clients send as the producer of a transaction, whether it exists or not."""
OFFSET: Final = integer(0, INT64_MAX)
OFFSET_OR_NONE: Final = integer(-1, INT64_MAX)
LONG: Final = integer(0, INT64_MAX)
ERROR_CODE: Final = FieldType(
    f"a number from {-INT16_MAX - 1} to {INT16_MAX}",
    f"type({{v}}) is int and {-INT16_MAX - 1} <= {{v}} <= {INT16_MAX}",
    "error_codes.get({v}, unknown_error)",
    "int({v})",
    {"error_codes": _ERROR_CODES, "unknown_error": ErrorCode.unknown_server_error},
)
"""A code unknown to this version becomes UNKNOWN_SERVER_ERROR."""
UNIQUE_ID: Final = FieldType(
    "16 bytes",
    "type({v}) is bytes and len({v}) == 16",
    "UUID(bytes={v})",
    "{v}.bytes",
    {"UUID": UUID},
)
