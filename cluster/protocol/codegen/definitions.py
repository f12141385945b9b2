"""The layout of a message over all its versions, collected from kio's schemas."""

import importlib
import types
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from datetime import timedelta
from typing import Any, Final, get_args, get_origin

from cluster.protocol.api import ApiKey
from cluster.protocol.codegen.apis import ENCODED_AHEAD, RENAMED

STRUCT: Final = "struct"


@dataclass(frozen=True, slots=True)
class WireType:
    """A Kafka type in Python.

    `format` is that of `struct`, "" if the width varies; `neutral` is the value of a field without
    a default in versions that lack it; `read` and `write` convert the raw value to Python's and
    back.
    """

    python: str
    format: str
    neutral: str
    read: str = "{}"
    write: str = "{}"

    @property
    def is_converted(self) -> bool:
        """Whether the raw value differs from Python's."""
        return self.read != "{}"


WIRE_TYPES: Final[Mapping[str, WireType]] = {
    "bool": WireType("bool", "?", "False"),
    "int8": WireType("int", "b", "0"),
    "int16": WireType("int", "h", "0"),
    "uint16": WireType("int", "H", "0"),
    "int32": WireType("int", "i", "0"),
    "uint32": WireType("int", "I", "0"),
    "int64": WireType("int", "q", "0"),
    "float64": WireType("float", "d", "0.0"),
    "error_code": WireType("ErrorCode", "h", "ErrorCode.none", "ErrorCode({})"),
    "timedelta_i32": WireType(
        "timedelta", "i", "NO_TIME", "timedelta(0, 0, 0, {})", "{} // MILLISECOND"
    ),
    "timedelta_i64": WireType(
        "timedelta", "q", "NO_TIME", "timedelta(0, 0, 0, {})", "{} // MILLISECOND"
    ),
    "datetime_i64": WireType("datetime | None", "q", "None", "datetime_of({})", "timestamp_of({})"),
    "uuid": WireType("UUID | None", "16s", "None", "uuid_of({})", "uuid_bytes({})"),
    "string": WireType("str", "", '""'),
    "bytes": WireType("bytes", "", 'b""'),
    "records": WireType("bytes", "", 'b""'),
}


@dataclass(frozen=True, slots=True)
class WireField:
    """One field; `versions` have it, in `nullable` it may be null.

    `default` is the expression of the class's default, None if a value must be given; `absent` is
    the value for versions without the field.
    """

    name: str
    kafka_type: str
    is_array: bool
    struct: "WireStruct | None"
    versions: frozenset[int]
    nullable: frozenset[int]
    tag: int | None
    python_type: str
    default: str | None
    absent: str

    @property
    def wire_type(self) -> WireType:
        """The type of a field, or of an array's elements, that is not a struct."""
        return WIRE_TYPES[self.kafka_type]

    @property
    def is_fixed(self) -> bool:
        """Whether its width is the same for every value."""
        return self.struct is None and not self.is_array and self.wire_type.format != ""

    @property
    def element(self) -> str:
        """The Python type of an array's elements."""
        return self.wire_type.python if self.struct is None else self.struct.name

    @property
    def may_be_encoded(self) -> bool:
        """Whether `EncodedItems` may replace the array."""
        return "EncodedItems" in self.python_type

    @property
    def is_optional(self) -> bool:
        """Whether Python's type has a None that is not converted from a raw value."""
        return self.python_type.endswith(" | None") and not self.is_fixed


@dataclass(frozen=True, slots=True)
class WireStruct:
    """A message or a part of one; `title` names the message."""

    name: str
    title: str
    fields: tuple[WireField, ...]


def wire_struct(key: ApiKey, direction: str, first: int, last: int) -> WireStruct:
    """The request or the response (`direction`) of an API.

    Raises ValueError for a shape that the generator does not know.
    """
    versions = {version: _kio_class(key, version, direction) for version in range(first, last + 1)}
    return _unified(_Gatherer(key, direction, versions).gather(versions))


def _unified(message: WireStruct) -> WireStruct:
    """Give a struct that the message has in several places, each in other versions, one form."""
    places: dict[str, list[WireStruct]] = defaultdict(list)
    pending = [message]
    while pending:
        struct = pending.pop()
        places[struct.name].append(struct)
        pending += [each.struct for each in struct.fields if each.struct is not None]

    def unified(name: str) -> WireStruct:
        alike = zip(*(each.fields for each in places[name]), strict=True)
        return replace(places[name][0], fields=tuple(map(merged, alike)))

    def merged(alike: tuple[WireField, ...]) -> WireField:
        struct = alike[0].struct
        return replace(
            alike[0],
            struct=None if struct is None else unified(struct.name),
            versions=frozenset[int]().union(*(each.versions for each in alike)),
            nullable=frozenset[int]().union(*(each.nullable for each in alike)),
        )

    return unified(message.name)


def _kio_class(key: ApiKey, version: int, direction: str) -> type[Any]:
    module = importlib.import_module(f"kio.schema.{key.name.lower()}.v{version}.{direction}")
    return next(
        each
        for each in vars(module).values()
        if is_dataclass(each)
        and isinstance(each, type)
        and str(getattr(each, "__type__", "")) == f"EntityType.{direction}"
    )


@dataclass(frozen=True, slots=True)
class _Shape:
    """The parts of a kio field's annotation."""

    is_array: bool
    is_nullable: bool
    element: Any


def _shape_of(annotation: Any) -> _Shape:
    nullable = get_origin(annotation) is types.UnionType
    if nullable:
        annotation = next(each for each in get_args(annotation) if each is not types.NoneType)
    is_array = get_origin(annotation) is tuple
    if is_array:
        annotation = get_args(annotation)[0]
    return _Shape(is_array, nullable, annotation)


class _Gatherer:
    """Merges kio's class per version into one struct."""

    def __init__(self, key: ApiKey, direction: str, versions: Iterable[int]) -> None:
        self._key = key
        self._direction = direction
        self._span = sorted(versions)
        self._title = "".join(part.capitalize() for part in key.name.split("_"))

    def gather(self, versions: Mapping[int, type[Any]]) -> WireStruct:
        newest: Any = versions[max(versions)]
        name = newest.__name__
        for known_as in (name, f"{self._direction} {name}"):
            name = RENAMED.get((self._key, known_as), name)
        what = newest.__type__.name
        title = f"{self._title} {what}, versions {self._span[0]}-{self._span[-1]}."
        if what == "nested":
            title = f"Part of {self._title}."
        members = tuple(self._field(each, versions) for each in _merged_order(versions))
        return WireStruct(name, title, members)

    def _field(self, name: str, versions: Mapping[int, type[Any]]) -> WireField:
        having = {
            version: each
            for version, message in versions.items()
            for each in fields(message)
            if each.name == name
        }
        if sorted(having) != list(range(min(having), max(having) + 1)):
            raise ValueError(f"{self._title} {name} has a gap in its versions: {sorted(having)}")
        newest = having[max(having)]
        shape = _shape_of(newest.type)
        kafka_type = newest.metadata.get("kafka_type", STRUCT)
        struct = None
        if is_dataclass(shape.element):
            struct = self.gather({v: _shape_of(each.type).element for v, each in having.items()})
        python_type = WIRE_TYPES[kafka_type].python if struct is None else struct.name
        if shape.is_array:
            python_type = f"tuple[{python_type}, ...]"
            if struct is not None and (self._key, struct.name) in ENCODED_AHEAD:
                python_type += " | EncodedItems"
        nullable = {v for v, each in having.items() if _is_nullable(each, kafka_type)}
        if nullable:
            python_type = python_type.removesuffix(" | None") + " | None"
        tags = {each.metadata.get("tag") for each in having.values()}
        if len(tags) != 1:
            raise ValueError(f"{self._title} {name} is tagged in some versions only")
        neutral = "()" if shape.is_array else "None"
        if struct is None and not shape.is_array:
            neutral = WIRE_TYPES[kafka_type].neutral
        default = _default(newest, struct)
        if default is None and max(having) < self._span[-1]:
            # Callers that answer every version need not provide what the newest one lacks.
            default = neutral
        return WireField(
            name=name,
            kafka_type=kafka_type,
            is_array=shape.is_array,
            struct=struct,
            versions=frozenset(having),
            nullable=frozenset(nullable),
            tag=tags.pop(),
            python_type=python_type,
            default=default,
            absent=neutral if default is None else default,
        )


def _is_nullable(each: "Field[Any]", kafka_type: str) -> bool:
    if kafka_type in ("uuid", "datetime_i64") or each.metadata.get("tag") is not None:
        return False
    return _shape_of(each.type).is_nullable


def _default(newest: "Field[Any]", struct: WireStruct | None) -> str | None:
    """The class's default as an expression."""
    value: Any = newest.default
    if value is MISSING:
        return None
    if is_dataclass(value) and struct is not None:
        return f"{struct.name}()"
    if isinstance(value, timedelta):
        milliseconds = value // timedelta(milliseconds=1)
        return f"timedelta(milliseconds={milliseconds})" if milliseconds else "NO_TIME"
    kafka_type = newest.metadata.get("kafka_type")
    if kafka_type == "error_code":
        return f"ErrorCode.{value.name}"
    if kafka_type in ("uuid", "datetime_i64") and value is not None:
        raise ValueError(f"{newest.name} has a default that is not known how to write")
    return repr(value)


def _merged_order(versions: Mapping[int, type[Any]]) -> list[str]:
    """The names of all fields of all versions, in an order consistent with every version."""
    order: list[str] = []
    for version in sorted(versions, reverse=True):
        at = 0
        for name in (each.name for each in fields(versions[version])):
            if name in order:
                at = order.index(name) + 1
            else:
                order.insert(at, name)
                at += 1
    for version, message in versions.items():
        own = [each.name for each in fields(message)]
        if [name for name in order if name in own] != own:
            raise ValueError(
                f"{message} v{version} orders its fields otherwise than its newest version"
            )
    return order
