from dataclasses import dataclass, field

from cluster.protocol.layout import STRUCT, fields_at, wire


@dataclass(slots=True, kw_only=True)
class Part:
    number: int = field(metadata=wire("int32"))


@dataclass(slots=True, kw_only=True)
class Message:
    name: str | None = field(metadata=wire("string", nullable_since=2))
    parts: tuple[Part, ...] | None = field(metadata=wire(STRUCT, since=1, until=2))
    extra: int = field(metadata=wire("int8", tag=3), default=9)


def test_each_version_carries_its_own_fields() -> None:
    carried = [[each.name for each in fields_at(Message, v) if each.is_carried] for v in range(4)]
    assert carried == [["name", "extra"], *[["name", "parts", "extra"]] * 2, ["name", "extra"]]


def test_a_field_is_seen_from_one_version() -> None:
    name, parts, extra = fields_at(Message, 1)
    assert (name.is_nullable, fields_at(Message, 2)[0].is_nullable) == (False, True)
    assert (parts.is_array, parts.struct, parts.default) == (True, Part, ())
    assert (name.default, extra.default, extra.tag, extra.struct) == ("", 9, 3, None)
