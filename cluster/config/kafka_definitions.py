"""The broker settings that Apache Kafka's releases define: `kafka_definitions.tsv` as a table.

`tests/compat/kafka_definitions.py` writes the file by asking the releases themselves. Pure, apart
from reading the file.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from cluster.config.setting import Update
from cluster.config.value_type import (
    DOUBLE_MAX,
    INT_MAX,
    LONG_MAX,
    SHORT_MAX,
    TypeCode,
    ValueType,
    boolean,
    choice,
    double,
    integer,
    long,
    secret,
    short,
    string_list,
)

T = TypeVar("T")

DYNAMIC_ONLY: Final = "dynamic-only"
_FILE: Final = Path(__file__).with_suffix(".tsv")
_RANGE: Final = re.compile(r"\[(-?[\d.]+?),\.\.\.(?:,(-?[\d.]+))?\]")
_CHOICES: Final = re.compile(r"\[([\w.]+(?:, [\w.]+)+)\]")
_CURRENT: Final = ("3.9", "4.1")
"""The last releases with and without ZooKeeper; DescribeConfigs answers as they do."""


class Definition(NamedTuple):
    """One setting, as its newest release defines it."""

    name: str
    type: ValueType[Any]
    default: Any
    update: Update
    releases: str
    """The first and the last release with it: `2.7-4.1`."""
    is_listed: bool
    """Whether current releases list it in every answer about a broker's settings."""


def _definitions() -> Mapping[str, Definition]:
    lines = _FILE.read_text("utf-8").splitlines()
    found = (_definition(line) for line in lines if not line.startswith("#"))
    return MappingProxyType({each.name: each for each in found})


def _definition(line: str) -> Definition:
    name, code, default, update, releases, internal, validator = (*line.split("\t"), "", "")[:7]
    value_type = _type(TypeCode[code], validator)
    if not default:
        value_type = _or_null(value_type)
    return Definition(
        name,
        value_type,
        value_type.parse(default[1:-1]),
        Update.CLUSTER_WIDE if update == DYNAMIC_ONLY else Update(update),
        releases,
        is_listed=releases.partition("-")[2] in _CURRENT
        and not internal
        and update != DYNAMIC_ONLY,
    )


def _type(code: TypeCode, validator: str) -> ValueType[Any]:
    limits = _RANGE.fullmatch(validator)
    at_least, at_most = limits.groups() if limits else (None, None)
    choices = _CHOICES.fullmatch(validator)
    match code:
        case TypeCode.BOOLEAN:
            return boolean()
        case TypeCode.SHORT:
            return short(at_least=_whole(at_least), at_most=_whole(at_most) or SHORT_MAX)
        case TypeCode.INT:
            return integer(at_least=_whole(at_least), at_most=_whole(at_most) or INT_MAX)
        case TypeCode.LONG:
            return long(at_least=_whole(at_least), at_most=_whole(at_most) or LONG_MAX)
        case TypeCode.DOUBLE:
            lowest = -DOUBLE_MAX if at_least is None else float(at_least)
            return double(at_least=lowest, at_most=float(at_most or DOUBLE_MAX))
        case TypeCode.LIST:
            return string_list()
        case TypeCode.PASSWORD:
            return secret()
        case _ if code is TypeCode.STRING and choices:
            return choice(*choices[1].split(", "))
    return ValueType(code, "a string", str, str)


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)


def _or_null(value_type: ValueType[T]) -> ValueType[T | None]:
    """The text, or None if it is empty."""

    def parse(text: str) -> T | None:
        return value_type.parse(text) if text else None

    def render(value: T | None) -> str | None:
        return None if value is None else value_type.render(value)

    return ValueType(value_type.code, value_type.allowed, parse, render)


KAFKA_DEFINITIONS: Final[Mapping[str, Definition]] = _definitions()
"""Sorted by name."""
