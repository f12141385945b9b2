"""Compiles an encoder for one version of a message class, from the layout that its fields carry.

A None where the version has no null becomes that version's neutral value, since only newer versions
could say it. A compiled encoder is `write(message, out: bytearray) -> None`, which appends.
"""

import struct
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final, cast
from uuid import UUID

from cluster.model.errors import ensure
from cluster.protocol.layout import STRUCT, WireField, fields_at
from cluster.protocol.reader import FORMATS, NO_UUID

Encoder = Callable[[Any, bytearray], None]

NULL: Final = b"\x00"
ONE: Final = b"\x01"
NULL_STRUCT: Final = b"\xff"
MILLISECOND: Final = timedelta(milliseconds=1)
VARINTS: Final = tuple(
    bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80, value >> 7])
    for value in range(0x400)
)
CONVERTED: Final = {
    "timedelta_i32": "{} // MILLISECOND",
    "timedelta_i64": "{} // MILLISECOND",
    "datetime_i64": "timestamp_of({})",
    "uuid": "uuid_bytes({})",
}


class EncodedItems:
    """In place of an array of structs: its items, encoded before, for the version that is written.

    For arrays so long that encoding them at once would take too long.
    """

    __slots__ = ("content", "count")

    def __init__(self, count: int, content: bytes | bytearray) -> None:
        self.count = count
        self.content = content

    def __len__(self) -> int:
        return self.count


def varint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x400:
        return VARINTS[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def uuid_bytes(value: UUID | None) -> bytes:
    """The 16 bytes of a UUID; None is Kafka's zero UUID."""
    return NO_UUID if value is None else value.bytes


def timestamp_of(value: datetime | None) -> int:
    """Milliseconds since the epoch; None is -1."""
    return -1 if value is None else round(value.timestamp() * 1000)


def encoder_of(message: type[Any], version: int, *, flexible: bool) -> Encoder:
    """The encoder of one version of a message class. Compiles for about a millisecond."""
    compiler = _WriterCompiler(flexible=flexible)
    source = compiler.source(message, version)
    namespace = compiler.names
    exec(source, namespace)  # the text comes from our own layouts alone, never from a peer
    encoder: Encoder = namespace["write"]
    return encoder


class _WriterCompiler:
    """Writes the text of one encoder; nested structs become encoders of their own."""

    def __init__(self, *, flexible: bool) -> None:
        self.flexible = flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "EncodedItems": EncodedItems,
            "MILLISECOND": MILLISECOND,
            "pack": struct.pack,
            "pack_h": struct.Struct(">h").pack,
            "pack_i": struct.Struct(">i").pack,
            "timestamp_of": timestamp_of,
            "uuid_bytes": uuid_bytes,
            "varint": varint,
        }

    def source(self, message: type[Any], version: int) -> str:
        """Python text that defines `write`."""
        layout = [each for each in fields_at(message, version) if each.is_carried]
        self.lines = ["def write(message, out):"]
        run: list[WireField] = []
        for field in layout:
            if field.tag is not None:
                continue
            if field.kafka_type in FORMATS and not field.is_array:
                run.append(field)
                continue
            self._flush(run)
            self._variable(field, version)
        self._flush(run)
        if self.flexible:
            self._tags(sorted((e for e in layout if e.tag is not None), key=_tag_of), version)
        if len(self.lines) == 1:
            self._emit("pass")
        return "\n".join(self.lines)

    def _emit(self, line: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + line)

    def _flush(self, run: list[WireField]) -> None:
        """One pack for a run of fields of fixed width."""
        if not run:
            return
        name = f"pack_{run[0].name}"
        self.names[name] = self._packer(run)
        values = (_converted(each, f"message.{each.name}") for each in run)
        self._emit(f"out += {name}({', '.join(values)})")
        run.clear()

    def _packer(self, run: Iterable[WireField]) -> Callable[..., bytes]:
        return struct.Struct(">" + "".join(FORMATS[each.kafka_type] for each in run)).pack

    def _length(self, expression: str, legacy_format: str, depth: int) -> None:
        if self.flexible:
            self._emit(f"out += varint({expression} + 1)", depth)
        else:
            self._emit(f"out += pack_{legacy_format}({expression})", depth)

    def _null(self, field: WireField, legacy_format: str, depth: int) -> None:
        """Emit what a None becomes: null, or empty where the version has no null."""
        if self.flexible:
            self._emit(f"out += {NULL if field.is_nullable else ONE!r}", depth)
        else:
            missing = -1 if field.is_nullable else 0
            self._emit(f"out += {struct.pack('>' + legacy_format, missing)!r}", depth)

    def _variable(self, field: WireField, version: int, depth: int = 1) -> None:
        self._emit(f"value = message.{field.name}", depth)
        if field.is_array:
            self._array(field, version, depth)
        elif field.kafka_type == STRUCT:
            self._struct(field, version, depth)
        else:
            self._text(field, depth)

    def _text(self, field: WireField, depth: int) -> None:
        is_string = field.kafka_type == "string"
        legacy_format = "h" if is_string else "i"
        self._emit("if value is None:", depth)
        self._null(field, legacy_format, depth + 1)
        self._emit("else:", depth)
        if is_string:
            self._emit("value = value.encode()", depth + 1)
        self._length("len(value)", legacy_format, depth + 1)
        self._emit("out += value", depth + 1)

    def _struct(self, field: WireField, version: int, depth: int) -> None:
        writer = self._nested(field, version)
        if not field.is_nullable:
            self._emit(f"{writer}(value, out)", depth)
            return
        # KIP-893: one int8 says whether a nullable struct is there.
        self._emit("if value is None:", depth)
        self._emit(f"out += {NULL_STRUCT!r}", depth + 1)
        self._emit("else:", depth)
        self._emit(f"out += {ONE!r}", depth + 1)
        self._emit(f"{writer}(value, out)", depth + 1)

    def _nested(self, field: WireField, version: int) -> str:
        name = f"write_{field.name}"
        ensure(field.struct is not None, f"{field.name} has a struct type and no class")
        self.names[name] = encoder_of(
            cast(type[Any], field.struct), version, flexible=self.flexible
        )
        return name

    def _array(self, field: WireField, version: int, depth: int) -> None:
        self._emit("if value is None:", depth)
        self._null(field, "i", depth + 1)
        self._emit("else:", depth)
        self._emit("size = len(value)", depth + 1)
        self._length("size", "i", depth + 1)
        if field.kafka_type in FORMATS and field.kafka_type not in CONVERTED:
            self._emit(f"out += pack('>%d{FORMATS[field.kafka_type]}' % size, *value)", depth + 1)
            return
        if field.kafka_type == STRUCT:
            self._emit("if value.__class__ is EncodedItems:", depth + 1)
            self._emit("out += value.content", depth + 2)
            self._emit("value = ()", depth + 2)
        self._emit("for item in value:", depth + 1)
        if field.kafka_type == STRUCT:
            self._emit(f"{self._nested(field, version)}(item, out)", depth + 2)
        elif field.kafka_type in FORMATS:
            self.names[f"pack_{field.name}"] = self._packer([field])
            self._emit(f"out += pack_{field.name}({_converted(field, 'item')})", depth + 2)
        else:
            self._emit("value = item", depth + 2)
            self._text(field._replace(is_nullable=False), depth + 2)

    def _tags(self, tagged: list[WireField], version: int) -> None:
        if not tagged:
            self._emit(f"out += {NULL!r}")
            return
        self._emit("count = 0")
        self._emit("frame = out")
        self._emit("tags = bytearray()")
        for field in tagged:
            self.names[f"default_{field.name}"] = field.default
            self._emit(f"if message.{field.name} != default_{field.name}:")
            self._emit("count += 1", 2)
            self._emit("out = bytearray()", 2)
            if field.kafka_type in FORMATS and not field.is_array:
                self.names[f"pack_{field.name}"] = self._packer([field])
                value = _converted(field, f"message.{field.name}")
                self._emit(f"out += pack_{field.name}({value})", 2)
            else:
                self._variable(field, version, 2)
            self._emit(f"tags += {varint(field.tag or 0)!r}", 2)
            self._emit("tags += varint(len(out))", 2)
            self._emit("tags += out", 2)
        self._emit("frame += varint(count)")
        self._emit("frame += tags")


def _tag_of(field: WireField) -> int:
    return field.tag or 0


def _converted(field: WireField, expression: str) -> str:
    template = CONVERTED.get(field.kafka_type)
    return expression if template is None else template.format(expression)
