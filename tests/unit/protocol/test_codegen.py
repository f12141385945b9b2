"""Generated functions of shapes and version ranges that no message has yet."""

import struct
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from cluster.model.errors import ErrorCode, PeerError
from cluster.protocol.api import ApiKey
from cluster.protocol.codegen.definitions import WIRE_TYPES, WireField, WireStruct, wire_struct
from cluster.protocol.codegen.functions import variants
from cluster.protocol.codegen.modules import message_module
from cluster.protocol.codegen.source_text import condition, snake_case
from cluster.protocol.reader import uuid_of
from tests.unit.protocol.generated_functions import generated

VERSIONS = range(4)


def member(name: str, kafka_type: str | WireStruct, **changes: Any) -> WireField:
    part = kafka_type if isinstance(kafka_type, WireStruct) else None
    kind = kafka_type if isinstance(kafka_type, str) else "struct"
    python = part.name if part is not None else WIRE_TYPES[kind].python
    if changes.get("is_array"):
        python = f"tuple[{python}, ...]"
    if changes.get("nullable"):
        python = python.removesuffix(" | None") + " | None"
    absent = f"{part.name}()" if part is not None else WIRE_TYPES[kind].neutral
    absent = "()" if changes.get("is_array") else absent
    plain = WireField(
        name=name,
        kafka_type=kind,
        is_array=False,
        struct=part,
        versions=frozenset(VERSIONS),
        nullable=frozenset(),
        tag=None,
        python_type=python,
        default=absent,
        absent=absent,
    )
    return replace(plain, **changes)


@dataclass(slots=True, kw_only=True)
class Inner:
    number: int = -1


@dataclass(slots=True, kw_only=True)
class Everything:
    """One field of every shape that Kafka's definitions may contain."""

    struct: Inner = field(default_factory=Inner)
    nullable: Inner | None = None
    dates: tuple[datetime, ...] = ()
    blob: bytes | None = None
    blobs: tuple[bytes, ...] = ()
    numbers: tuple[int, ...] | None = None
    codes: tuple[ErrorCode, ...] = ()
    tagged_number: int = 7
    tagged_flag: bool = True
    tagged_code: Any = None
    tagged_time: timedelta = timedelta(0)
    tagged_text: str = ""
    tagged_struct: Inner = field(default_factory=Inner)
    tagged_list: tuple[Inner, ...] = ()
    old: Inner = field(default_factory=Inner)


INNER = WireStruct("Inner", "", (member("number", "int32", default="-1"),))
ALL = frozenset(VERSIONS)
EVERYTHING = WireStruct(
    "Everything",
    "",
    (
        member("struct", INNER),
        member("nullable", INNER, nullable=ALL),
        member("dates", "datetime_i64", is_array=True),
        member("blob", "bytes", nullable=ALL),
        member("blobs", "bytes", is_array=True),
        member("numbers", "int16", is_array=True, nullable=ALL),
        member("codes", "error_code", is_array=True),
        member("tagged_number", "int64", tag=0, absent="7"),
        member("tagged_flag", "bool", tag=1, absent="True"),
        member("tagged_code", "uuid", tag=2),
        member("tagged_time", "timedelta_i32", tag=3),
        member("tagged_text", "string", tag=4),
        member("tagged_struct", INNER, tag=5),
        member("tagged_list", INNER, is_array=True, tag=6),
        member("old", INNER, versions=frozenset({9})),
    ),
)
FULL = Everything(
    struct=Inner(number=1),
    nullable=Inner(number=2),
    dates=(datetime.fromisoformat("2020-01-01T00:00:00Z"),),
    blob=b"xyz",
    blobs=(b"", b"a"),
    numbers=(1, -2, 3),
    codes=(ErrorCode.none, ErrorCode.unknown_server_error),
    tagged_number=8,
    tagged_flag=False,
    tagged_code=uuid_of(b"0123456789abcdef"),
    tagged_time=timedelta(milliseconds=5),
    tagged_text="text",
    tagged_struct=Inner(number=3),
    tagged_list=(Inner(number=4), Inner(number=5)),
)
CLASSES = {"Everything": Everything, "Inner": Inner}
WRITE = generated("write", EVERYTHING, VERSIONS, 0, **CLASSES)
READ = generated("read", EVERYTHING, VERSIONS, 0, **CLASSES)


@pytest.mark.parametrize("message", [FULL, Everything()], ids=["full", "empty"])
def test_every_shape_is_read_back(message: Everything) -> None:
    out = bytearray()
    WRITE(out, message, 0)
    assert READ(bytes(out), 0, len(out), 0) == (message, len(out))


def test_every_shape_cut_short_is_the_peers_mistake() -> None:
    out = bytearray()
    WRITE(out, FULL, 0)
    for cut in range(len(out)):
        with pytest.raises((PeerError, IndexError, ValueError, struct.error)):
            READ(bytes(out[:cut]), 0, cut, 0)


def test_a_default_struct_is_not_shared_between_messages() -> None:
    out = bytearray()
    WRITE(out, Everything(), 0)
    one, other = (READ(bytes(out), 0, len(out), 0)[0] for _ in range(2))
    one.tagged_struct.number = 99
    assert other.tagged_struct.number == other.old.number == -1


@dataclass(slots=True, kw_only=True)
class Changing:
    first: int = 0
    middle: timedelta = timedelta(0)
    last: str | None = None


CHANGING = WireStruct(
    "Changing",
    "",
    (
        member("first", "int8", versions=frozenset({0, 1})),
        member("middle", "timedelta_i64", versions=frozenset({1, 2})),
        member("last", "string", versions=frozenset({1, 2, 3}), nullable=frozenset({2, 3})),
    ),
)


@pytest.mark.parametrize("first_flexible", [0, 2, 9])
@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_carries_its_own_fields(version: int, first_flexible: int) -> None:
    out = bytearray()
    generated("write", CHANGING, VERSIONS, first_flexible, Changing=Changing)(
        out, Changing(first=1, middle=timedelta(milliseconds=2), last=None), version
    )
    read = generated("read", CHANGING, VERSIONS, first_flexible, Changing=Changing)
    expected = Changing(
        first=1 if version < 2 else 0,
        middle=timedelta(milliseconds=2 if version in (1, 2) else 0),
        last="" if version == 1 else None,
    )
    if version == 0:
        expected.last = read(bytes(out), 0, len(out), version)[0].last  # the neutral value
    assert read(bytes(out), 0, len(out), version) == (expected, len(out))


@pytest.mark.parametrize(
    ("wanted", "possible", "text"),
    [
        ({0, 1, 2}, {0, 1, 2}, ""),
        ({1, 2}, {0, 1, 2}, "version >= 1"),
        ({0}, {0, 1, 2}, "version <= 0"),
        ({1}, {0, 1, 2}, "version == 1"),
        ({1, 2}, {0, 1, 2, 3}, "1 <= version <= 2"),
    ],
)
def test_a_version_is_asked_about_only_as_far_as_it_matters(
    wanted: set[int], possible: set[int], text: str
) -> None:
    assert condition(wanted, possible) == text


def test_a_gap_in_the_versions_of_a_field_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a range"):
        condition({0, 2}, {0, 1, 2})


def test_a_run_of_fields_has_a_branch_for_each_set_of_fields() -> None:
    heads = [
        (head, [each.name for each in having])
        for head, having in variants(CHANGING.fields[:2], frozenset(VERSIONS))
    ]
    assert heads == [
        ("if version == 2:", ["middle"]),
        ("elif version == 1:", ["first", "middle"]),
        ("elif version <= 0:", ["first"]),
    ]


def test_two_messages_of_one_name_must_be_told_apart() -> None:
    request = wire_struct(ApiKey.METADATA, "request", 0, 13)
    clash = WireStruct(request.name, "", ())
    with pytest.raises(ValueError, match="add it to RENAMED"):
        message_module(ApiKey.METADATA, request, clash)


def test_names_of_functions_follow_the_classes() -> None:
    assert snake_case("MetadataResponseTopic") == "metadata_response_topic"
