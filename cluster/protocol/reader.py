"""Compiles a decoder for one version of a message class, from the layout that its fields carry.

Written for input that nobody vouches for: every length is held against what is left of the buffer
before anything is made of it, and unknown tagged fields are skipped (KIP-482). kio's native reader
does neither: a count of 2^31 aborts the process. A compiled decoder is
`read(buffer: bytes, position: int, end: int) -> (message, position after it)`.
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, cast
from uuid import UUID

from cluster.model.errors import ErrorCode, PeerError, ensure
from cluster.protocol.layout import STRUCT, WireField, fields_at

Decoder = Callable[[bytes, int, int], tuple[Any, int]]

MALFORMED: Final = (
    struct.error,
    IndexError,
    ValueError,
    OverflowError,
)
"""What a decoder may raise on broken input besides PeerError (bad UTF-8 is a ValueError)."""

FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "uuid": "16s",
}
CONVERTED: Final = {
    "error_code": "ErrorCode({})",
    "timedelta_i32": "timedelta(0, 0, 0, {})",
    "timedelta_i64": "timedelta(0, 0, 0, {})",
    "datetime_i64": "datetime_of({})",
    "uuid": "uuid_of({})",
}
NO_UUID: Final = bytes(16)
ELEMENTS_MAX: Final = 100_000
"""Of one array, and of all partitions in a produce request. Elements of some bytes become objects
of some hundred: without a bound, a large request could ask for a gigabyte of them."""


def truncated() -> PeerError:
    """A length or a count points past the end of the frame."""
    return PeerError("message ends inside a field")


def too_many(count: int) -> PeerError:
    """An array is longer than any request or response here has."""
    return PeerError(f"array of {count} elements, at most {ELEMENTS_MAX} are allowed")


def read_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, and the position after it.

    Raises PeerError, IndexError.
    """
    value = buffer[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise PeerError("varint is longer than five bytes")


def tag_spans(
    buffer: bytes | memoryview, position: int, end: int
) -> tuple[dict[int, tuple[int, int]], int]:
    """Tagged fields at `position`, as tag to (start, end) of its value, and where they end."""
    count, position = read_varint(buffer, position)
    if count > end - position:
        raise truncated()
    spans: dict[int, tuple[int, int]] = {}
    for _ in range(count):
        tag, position = read_varint(buffer, position)
        size, start = read_varint(buffer, position)
        position = start + size
        if position > end:
            raise truncated()
        spans[tag] = (start, position)
    return spans, position


def skip_tags(buffer: bytes | memoryview, position: int, end: int) -> int:
    """The position after a tag section whose fields all mean nothing to us."""
    return tag_spans(buffer, position, end)[1]


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> UUID | None:
    """A UUID from its 16 bytes; Kafka's zero UUID is None."""
    return None if raw == NO_UUID else UUID(bytes=raw)


def datetime_of(timestamp_ms: int) -> datetime | None:
    """A timestamp; -1 is None."""
    if timestamp_ms == -1:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)


def decoder_of(message: type[Any], version: int, *, flexible: bool) -> Decoder:
    """The decoder of one version of a message class. Compiles for about a millisecond."""
    compiler = _ReaderCompiler(flexible=flexible)
    source = compiler.source(message, version)
    namespace = compiler.names
    exec(source, namespace)  # the text comes from our own layouts alone, never from a peer
    decoder: Decoder = namespace["read"]
    return decoder


class _ReaderCompiler:
    """Writes the text of one decoder; nested structs become decoders of their own."""

    def __init__(self, *, flexible: bool) -> None:
        self.flexible = flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "ErrorCode": ErrorCode,
            "PeerError": PeerError,
            "datetime_of": datetime_of,
            "skip_tags": skip_tags,
            "tag_spans": tag_spans,
            "timedelta": timedelta,
            "truncated": truncated,
            "uuid_of": uuid_of,
            "too_many": too_many,
            "varint": read_varint,
        }

    def source(self, message: type[Any], version: int) -> str:
        """Python text that defines `read`."""
        self.names["Message"] = message
        layout = fields_at(message, version)
        self.lines = ["def read(buffer, position, end):"]
        absent = [each for each in layout if not each.is_carried or each.tag is not None]
        for field in absent:
            if field.struct is not None and not field.is_array and not field.is_nullable:
                self.names[f"default_{field.name}"] = field.struct
                self._emit(f"{field.name} = default_{field.name}()")
            else:
                self.names[f"default_{field.name}"] = field.default
                self._emit(f"{field.name} = default_{field.name}")
        run: list[WireField] = []
        for field in layout:
            if not field.is_carried or field.tag is not None:
                continue
            if self._is_fixed(field):
                run.append(field)
                continue
            self._flush(run)
            self._variable(field, version)
        self._flush(run)
        if self.flexible:
            self._tags(
                [each for each in layout if each.is_carried and each.tag is not None], version
            )
        arguments = ", ".join(f"{each.name}={each.name}" for each in layout)
        self._emit(f"return Message({arguments}), position")
        return "\n".join(self.lines)

    def _emit(self, line: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + line)

    def _is_fixed(self, field: WireField) -> bool:
        return field.kafka_type in FORMATS and not field.is_array

    def _flush(self, run: list[WireField]) -> None:
        """One unpack for a run of fields of fixed width."""
        if not run:
            return
        layout = struct.Struct(">" + "".join(FORMATS[each.kafka_type] for each in run))
        name = f"unpack_{run[0].name}"
        self.names[name] = layout.unpack_from
        targets = "".join(f"{each.name}, " for each in run)
        self._emit(f"{targets}= {name}(buffer, position)")
        self._emit(f"position += {layout.size}")
        for each in run:
            if (convert := CONVERTED.get(each.kafka_type)) is not None:
                self._emit(f"{each.name} = {convert.format(each.name)}")
        run.clear()

    def _length(self, legacy_format: str, depth: int = 1) -> None:
        """Emit: `size` becomes the declared length, -1 for null."""
        if self.flexible:
            self._emit("size = buffer[position] - 1", depth)
            self._emit("position += 1", depth)
            self._emit("if size > 126:", depth)
            self._emit("size, position = varint(buffer, position - 1)", depth + 1)
            self._emit("size -= 1", depth + 1)
            return
        layout = struct.Struct(">" + legacy_format)
        self.names[f"length_{legacy_format}"] = layout.unpack_from
        self._emit(f"size, = length_{legacy_format}(buffer, position)", depth)
        self._emit(f"position += {layout.size}", depth)

    def _variable(self, field: WireField, version: int, depth: int = 1) -> None:
        if field.is_array:
            self._array(field, version, depth)
        elif field.kafka_type == STRUCT:
            self._struct(field, version, depth)
        else:
            self._text(field, depth)

    def _null(self, field: WireField, depth: int) -> None:
        """Emit the branch for a negative `size`."""
        self._emit("if size < 0:", depth)
        if field.is_nullable:
            self._emit("if size != -1:", depth + 1)
            self._emit(f"raise PeerError('negative length of {field.name}')", depth + 2)
            self._emit(f"{field.name} = None", depth + 1)
        else:
            self._emit(
                f"raise PeerError('{field.name} is null or has a negative length')", depth + 1
            )

    def _text(self, field: WireField, depth: int) -> None:
        is_string = field.kafka_type == "string"
        self._length("h" if is_string else "i", depth)
        self._null(field, depth)
        self._emit("else:", depth)
        self._emit("start = position", depth + 1)
        self._emit("position += size", depth + 1)
        self._emit("if position > end:", depth + 1)
        self._emit("raise truncated()", depth + 2)
        decode = ".decode()" if is_string else ""
        self._emit(f"{field.name} = buffer[start:position]{decode}", depth + 1)

    def _struct(self, field: WireField, version: int, depth: int) -> None:
        reader = self._nested(field, version)
        if not field.is_nullable:
            self._emit(f"{field.name}, position = {reader}(buffer, position, end)", depth)
            return
        # KIP-893: one int8 says whether a nullable struct is there; negative is null.
        self._emit("is_null = buffer[position] > 127", depth)
        self._emit("position += 1", depth)
        self._emit("if is_null:", depth)
        self._emit(f"{field.name} = None", depth + 1)
        self._emit("else:", depth)
        self._emit(f"{field.name}, position = {reader}(buffer, position, end)", depth + 1)

    def _nested(self, field: WireField, version: int) -> str:
        name = f"read_{field.name}"
        ensure(field.struct is not None, f"{field.name} has a struct type and no class")
        self.names[name] = decoder_of(
            cast(type[Any], field.struct), version, flexible=self.flexible
        )
        return name

    def _array(self, field: WireField, version: int, depth: int) -> None:
        self._length("i", depth)
        self._null(field, depth)
        # Each element takes a byte at least: a count beyond the rest of the frame is a lie.
        self._emit("elif size > end - position:", depth)
        self._emit("raise truncated()", depth + 1)
        self._emit(f"elif size > {ELEMENTS_MAX}:", depth)
        self._emit("raise too_many(size)", depth + 1)
        self._emit("else:", depth)
        self._emit("items = []", depth + 1)
        self._emit("for _ in range(size):", depth + 1)
        if field.kafka_type == STRUCT:
            reader = self._nested(field, version)
            self._emit(f"item, position = {reader}(buffer, position, end)", depth + 2)
        elif field.kafka_type in FORMATS:
            layout = struct.Struct(">" + FORMATS[field.kafka_type])
            self.names[f"unpack_{field.name}"] = layout.unpack_from
            self._emit(f"item, = unpack_{field.name}(buffer, position)", depth + 2)
            self._emit(f"position += {layout.size}", depth + 2)
            if (convert := CONVERTED.get(field.kafka_type)) is not None:
                self._emit(f"item = {convert.format('item')}", depth + 2)
        else:
            self._variable(
                field._replace(name="item", is_array=False, is_nullable=False), version, depth + 2
            )
        self._emit("items.append(item)", depth + 2)
        self._emit(f"{field.name} = tuple(items)", depth + 1)

    def _tags(self, tagged: list[WireField], version: int) -> None:
        self._emit("if not buffer[position]:")
        self._emit("position += 1", 2)
        if not tagged:
            self._emit("else:")
            self._emit("position = skip_tags(buffer, position, end)", 2)
            return
        self._emit("else:")
        self._emit("spans, after = tag_spans(buffer, position, end)", 2)
        outer_end = "outer_end"
        self._emit(f"{outer_end} = end", 2)
        for field in tagged:
            self._emit(f"if {field.tag} in spans:", 2)
            self._emit(f"position, end = spans[{field.tag}]", 3)
            if self._is_fixed(field):
                layout = struct.Struct(">" + FORMATS[field.kafka_type])
                self.names[f"unpack_{field.name}"] = layout.unpack_from
                self._emit(f"if end - position < {layout.size}:", 3)
                self._emit("raise truncated()", 4)
                self._emit(f"{field.name}, = unpack_{field.name}(buffer, position)", 3)
                if (convert := CONVERTED.get(field.kafka_type)) is not None:
                    self._emit(f"{field.name} = {convert.format(field.name)}", 3)
            else:
                self._variable(field, version, 3)
        self._emit(f"end = {outer_end}", 2)
        self._emit("position = after", 2)
