"""Types of settings: how the text of a value is parsed, checked, rendered and described.

Type codes are those of DescribeConfigs (KIP-569); names follow Kafka's ConfigDef.
"""

import enum
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from cluster.model.security import SecurityProtocol

T = TypeVar("T")

SHORT_MAX: Final = 2**15 - 1
INT_MAX: Final = 2**31 - 1
DOUBLE_MAX: Final = sys.float_info.max
LONG_MAX: Final = 2**63 - 1


class TypeCode(enum.IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T]):
    """One kind of value. `parse` raises ValueError for text outside `allowed`."""

    code: TypeCode
    allowed: str
    """The allowed values in words, for error messages and the sample file."""
    parse: Callable[[str], T]
    render: Callable[[T], str | None]
    """Makes the text that `parse` reads back; None stands for Kafka's null."""


class Listener(NamedTuple):
    """One address for clients: `PLAINTEXT://127.0.0.1:9092`."""

    name: str
    """In upper case."""
    host: str
    port: int

    def __str__(self) -> str:
        """The listener as in a properties file, with brackets around an IPv6 host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def integer(*, at_least: int | None = None, at_most: int = INT_MAX) -> ValueType[int]:
    """A 32-bit integer in [at_least, at_most]."""
    return _whole_number(TypeCode.INT, -INT_MAX - 1 if at_least is None else at_least, at_most)


def short(*, at_least: int | None = None, at_most: int = SHORT_MAX) -> ValueType[int]:
    """A 16-bit integer in [at_least, at_most]."""
    return _whole_number(TypeCode.SHORT, -SHORT_MAX - 1 if at_least is None else at_least, at_most)


def long(*, at_least: int | None = None, at_most: int = LONG_MAX) -> ValueType[int]:
    """A 64-bit integer in [at_least, at_most]."""
    return _whole_number(TypeCode.LONG, -LONG_MAX - 1 if at_least is None else at_least, at_most)


def double(*, at_least: float, at_most: float = DOUBLE_MAX) -> ValueType[float]:
    """A number in [at_least, at_most]."""

    def parse(text: str) -> float:
        value = float(text)
        if not at_least <= value <= at_most:
            raise ValueError(text)
        return value

    def render(value: float) -> str:
        return str(value).replace("e+", "E")  # as Java writes it

    allowed = f"a number from {at_least}"
    if at_most < DOUBLE_MAX:
        allowed += f" to {at_most}"
    return ValueType(TypeCode.DOUBLE, allowed, parse, render)


def boolean() -> ValueType[bool]:
    """`true` or `false`, ignoring case."""

    def parse(text: str) -> bool:
        match text.lower():
            case "true":
                return True
            case "false":
                return False
        raise ValueError(text)

    return ValueType(TypeCode.BOOLEAN, "true or false", parse, lambda value: str(value).lower())


def string() -> ValueType[str]:
    """Any nonempty text."""
    return ValueType(TypeCode.STRING, "a string", _not_empty, str)


def optional_string() -> ValueType[str | None]:
    """Any text; empty text is null."""
    return ValueType(TypeCode.STRING, "a string", lambda text: text or None, lambda value: value)


def optional_url(*schemes: str) -> ValueType[str | None]:
    """A URL of one of these schemes; empty text is null."""

    def parse(text: str) -> str | None:
        if not text:
            return None
        parts = urlsplit(text)
        if parts.scheme not in schemes or not (
            parts.path if parts.scheme == "file" else parts.netloc
        ):
            raise ValueError(text)
        return text

    allowed = f"a URL that begins with {_either(tuple(f'{each}://' for each in schemes))}"
    return ValueType(TypeCode.STRING, allowed, parse, lambda value: value)


def principals() -> ValueType[frozenset[str]]:
    """Users with their type, such as `User:alice`, separated by semicolons; empty for none."""

    def parse(text: str) -> frozenset[str]:
        names = [part.strip() for part in text.split(";") if part.strip()]
        if not all(all(name.partition(":")) for name in names):
            raise ValueError(text)
        return frozenset(names)

    def render(value: frozenset[str]) -> str | None:
        return ";".join(sorted(value)) or None

    return ValueType(TypeCode.STRING, "User:name;User:name;...", parse, render)


def matching(pattern: str, allowed: str) -> ValueType[str]:
    """Text that matches `pattern` entirely; `allowed` describes the pattern in words."""
    compiled = re.compile(pattern)

    def parse(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(text)
        return text

    return ValueType(TypeCode.STRING, allowed, parse, str)


def password(pattern: str, allowed: str) -> ValueType[str | None]:
    """A secret that matches `pattern` entirely, null if empty; neither shown nor logged."""
    compiled = re.compile(pattern)

    def parse(text: str) -> str | None:
        if text and not compiled.fullmatch(text):
            raise ValueError("not of the pattern")
        return text or None

    return ValueType(TypeCode.PASSWORD, allowed, parse, lambda value: value)


def secret() -> ValueType[str | None]:
    """Any secret, perhaps of several lines, null if empty; neither shown nor logged."""
    return password(r"(?s:.+)", "a string")


def class_name(*choices: str | None) -> ValueType[str | None]:
    """One of these names of Java classes; empty text is null, if that is among them."""

    def parse(text: str) -> str | None:
        value = text or None
        if value not in choices:
            raise ValueError(text)
        return value

    allowed = _either(tuple(each or "empty" for each in choices))
    return ValueType(TypeCode.CLASS, allowed, parse, lambda value: value)


def choice(*choices: str) -> ValueType[str]:
    """Exactly one of `choices`."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return ValueType(TypeCode.STRING, _either(choices), parse, str)


def choice_in_any_case(*choices: str) -> ValueType[str]:
    """One of `choices`, which are in lower case, written in any case."""

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(text)
        return text.lower()

    return ValueType(TypeCode.STRING, _either(choices), parse, str)


def list_of(
    *choices: str, other_names: Mapping[str, str] | None = None
) -> ValueType[tuple[str, ...]]:
    """A nonempty comma-separated list without duplicates, each item one of `choices`.

    `other_names` maps other names of items to choices.
    """
    known = other_names or {}

    def parse(text: str) -> tuple[str, ...]:
        items = tuple(known.get(item, item) for item in _items(text))
        if not items or len(set(items)) != len(items) or not set(items) <= set(choices):
            raise ValueError(text)
        return items

    return ValueType(
        TypeCode.LIST, f"a comma-separated list of {_either(choices)}", parse, ",".join
    )


def any_of(*choices: str) -> ValueType[tuple[str, ...]]:
    """A comma-separated list, possibly empty, each item one of `choices`, any number of times."""

    def parse(text: str) -> tuple[str, ...]:
        items = _items(text)
        if not set(items) <= set(choices):
            raise ValueError(text)
        return items

    allowed = f"a comma-separated list of {_either(choices)}, possibly empty"
    return ValueType(TypeCode.LIST, allowed, parse, ",".join)


def string_list(
    code: TypeCode = TypeCode.LIST, *, pattern: str = ".+", allowed: str = "a comma-separated list"
) -> ValueType[tuple[str, ...]]:
    """A comma-separated list, possibly empty; each item matches `pattern` entirely."""
    compiled = re.compile(pattern)

    def parse(text: str) -> tuple[str, ...]:
        items = _split(text)
        if not all(compiled.fullmatch(item) for item in items):
            raise ValueError(text)
        return items

    return ValueType(code, allowed, parse, ",".join)


def throttled_replicas() -> ValueType[tuple[str, ...]]:
    """Replicas as `partition:broker`, separated by commas, or `*` alone (Kafka:
    `ThrottledReplicaListValidator`); numbers are 32-bit.
    """

    return ValueType(
        TypeCode.LIST,
        "the literal '*' or a list of replicas in the following format:"
        " [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        _parse_replicas,
        ",".join,
    )


@lru_cache(maxsize=64)  # of a topic that moves, again with each change of its in-sync replicas
def _parse_replicas(text: str) -> tuple[str, ...]:
    items = _split(text)
    if items == ("*",):
        return items
    for item in items:
        numbers = re.fullmatch(r"([0-9]+):([0-9]+)", item)
        if numbers is None or any(int(each) > INT_MAX for each in numbers.groups()):
            raise ValueError(text)
    return items


def listener_list() -> ValueType[tuple[Listener, ...]]:
    """Comma-separated `NAME://host:port`; an empty host binds every address."""

    def parse(text: str) -> tuple[Listener, ...]:
        return tuple(map(parse_listener, _split(text)))

    return ValueType(
        TypeCode.STRING,
        "a comma-separated list of NAME://host:port",
        parse,
        lambda listeners: ",".join(map(str, listeners)) or None,
    )


def protocol_map() -> ValueType[Mapping[str, SecurityProtocol]]:
    """Comma-separated `NAME:PROTOCOL`; the names in upper case, each once."""

    def parse(text: str) -> Mapping[str, SecurityProtocol]:
        protocols = {}
        for pair in _split(text):
            name, colon, protocol = (part.strip().upper() for part in pair.rpartition(":"))
            if not name or not colon or name in protocols:
                raise ValueError(text)
            protocols[name] = SecurityProtocol(protocol)
        return MappingProxyType(protocols)

    return ValueType(
        TypeCode.STRING,
        f"a comma-separated list of NAME:PROTOCOL, each name once, PROTOCOL one of"
        f" {_either(tuple(SecurityProtocol))}",
        parse,
        lambda protocols: ",".join(f"{name}:{protocols[name]}" for name in protocols),
    )


def parse_listener(text: str) -> Listener:
    """One `NAME://host:port`, with brackets around an IPv6 host. Raises ValueError."""
    matched = re.fullmatch(r"([\w.-]+)://(?:\[([0-9a-fA-F:.]+)\]|([^:/\[\]]*)):(\d+)", text)
    if matched is None or int(matched[4]) > 65_535:
        raise ValueError(text)
    return Listener(matched[1].upper(), matched[2] or matched[3], int(matched[4]))


def _whole_number(code: TypeCode, at_least: int, at_most: int) -> ValueType[int]:
    if at_most in (SHORT_MAX, INT_MAX, LONG_MAX):
        is_bounded = at_least > -SHORT_MAX
        allowed = f"a whole number, {at_least} or more" if is_bounded else "a whole number"
    else:
        allowed = f"a whole number from {at_least} to {at_most}"

    def parse(text: str) -> int:
        value = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None
        if value is None or not at_least <= value <= at_most:
            raise ValueError(text)
        return value

    return ValueType(code, allowed, parse, str)


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


def _split(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _items(text: str) -> tuple[str, ...]:
    """The items of a list as in Kafka: a text between two commas is an item, even an empty one."""
    return tuple(item.strip() for item in text.split(",")) if text.strip() else ()


def _either(choices: tuple[str, ...]) -> str:
    return ", ".join(choices[:-1]) + f" or {choices[-1]}" if len(choices) > 1 else choices[0]
