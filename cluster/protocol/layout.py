"""How a message class describes its own wire layout, and how one version of it is looked up.

A message is one dataclass for all versions; each field carries `wire(...)` metadata with its Kafka
type and the versions that have it, just as in Kafka's message definitions. Knows nothing about
bytes: see reader and writer.
"""

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from typing import Any, Final, NamedTuple, get_args, get_origin

from cluster.model.errors import ErrorCode

NEWEST: Final = 1 << 15
STRUCT: Final = "struct"

NEUTRAL: Final[Mapping[str, object]] = {
    "bool": False,
    "int8": 0,
    "int16": 0,
    "uint16": 0,
    "int32": 0,
    "uint32": 0,
    "int64": 0,
    "float64": 0.0,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": None,
    "uuid": None,
    "string": "",
    "bytes": b"",
    "records": b"",
}
"""What a field without a default holds when its version does not carry it; structs: None."""


class Wire(NamedTuple):
    """Layout of one field over all versions; ranges include both ends."""

    kafka_type: str
    since: int
    until: int
    nullable_since: int
    nullable_until: int
    tag: int | None


def wire(
    kafka_type: str,
    *,
    since: int = 0,
    until: int = NEWEST,
    nullable_since: int = NEWEST,
    nullable_until: int = NEWEST,
    tag: int | None = None,
) -> dict[str, Wire]:
    """Dataclass metadata of a field that versions `since` to `until` carry; both ends count."""
    return {"wire": Wire(kafka_type, since, until, nullable_since, nullable_until, tag)}


class WireField(NamedTuple):
    """One field of a message class, seen from one version."""

    name: str
    kafka_type: str
    is_array: bool
    is_carried: bool
    is_nullable: bool
    tag: int | None
    default: Any
    struct: type[Any] | None


def fields_at(message: type[Any], version: int) -> list[WireField]:
    """All fields of the class in wire order; `is_carried` tells those that this version has."""
    return [_field_at(field, version) for field in fields(message)]


def _field_at(field: "Field[Any]", version: int) -> WireField:
    declared: Wire = field.metadata["wire"]
    is_array, element = _shape(field.type)
    if field.default is not MISSING:
        default: Any = field.default
    elif field.default_factory is not MISSING:
        default = field.default_factory()
    elif is_array:
        default = ()
    else:
        default = NEUTRAL.get(declared.kafka_type)
    return WireField(
        field.name,
        declared.kafka_type,
        is_array,
        declared.since <= version <= declared.until,
        declared.nullable_since <= version <= declared.nullable_until,
        declared.tag,
        default,
        element if declared.kafka_type == STRUCT else None,
    )


def _shape(annotation: Any) -> tuple[bool, type[Any]]:
    """Whether the annotation is a tuple, and the class of its element or of itself."""
    if get_origin(annotation) is types.UnionType:
        annotation = next(each for each in get_args(annotation) if each is not types.NoneType)
    if get_origin(annotation) is tuple:
        return True, get_args(annotation)[0]
    return False, annotation
