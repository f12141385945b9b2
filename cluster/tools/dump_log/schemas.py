"""Reads structures of Kafka's message definitions as JSON values, by a table of their fields. Pure.

For the records of internal topics, which `dump-log` shows as Kafka's generated JSON converters do:
names in camel case, bytes and UUIDs in base64.
"""

import struct
from base64 import b64encode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cluster.model.errors import PeerError
from cluster.protocol.reader import MALFORMED, read_length, tag_spans

_NUMBERS: Final = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
}
_UUID_BYTES: Final = 16
_FOR_EVER: Final = 99


class Malformed(Exception):
    """The bytes are not the structure that they should be."""


class Many(NamedTuple):
    """An array."""

    element: "Kind"


Kind = str | tuple["Field", ...] | Many
"""A number's name, `string`, `bytes`, `uuid`, a structure, or an array."""


class Field(NamedTuple):
    """A field, in the versions in which it is there (both inclusive)."""

    name: str
    kind: Kind
    since: int = 0
    until: int = _FOR_EVER
    tag: int | None = None
    """Of a tagged structure that may be null; it is shown when it is there."""


class Structure(NamedTuple):
    """The value of a record."""

    fields: tuple[Field, ...]
    versions: range
    flexible_since: int = _FOR_EVER


def read_structure(structure: Structure, data: bytes, version: int) -> dict[str, Any]:
    """The fields of a structure at the front of `data`. Raises Malformed."""
    if version not in structure.versions:
        raise Malformed(f"version {version} is not known")
    reader = _Reader(data, version, is_flexible=version >= structure.flexible_since)
    try:
        return reader.fields(structure.fields)
    except (*MALFORMED, PeerError) as problem:
        raise Malformed(str(problem)) from None


@dataclass(slots=True)
class _Reader:
    data: bytes
    version: int
    is_flexible: bool
    position: int = 0

    def fields(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        found = {
            field.name: self.value(field.kind)
            for field in fields
            if field.tag is None and field.since <= self.version <= field.until
        }
        if self.is_flexible:
            spans, end = tag_spans(self.data, self.position, len(self.data))
            for field in fields:
                if field.tag in spans and isinstance(field.kind, tuple):
                    self.position = spans[field.tag][0]
                    if self.value("int8") >= 0:
                        found[field.name] = self.fields(field.kind)
            self.position = end
        return found

    def value(self, kind: Kind) -> Any:
        match kind:
            case Many(element):
                count = self.length(2 if self.is_flexible else 4)
                if count > len(self.data) - self.position:
                    raise PeerError(f"array of {count} elements")
                return None if count < 0 else [self.value(element) for _ in range(count)]
            case tuple():
                return self.fields(kind)
            case "uuid":
                return urlsafe_b64encode(self.taken(_UUID_BYTES)).decode().rstrip("=")
            case "string" | "bytes":
                size = self.length(2 if kind == "string" else 4)
                if size < 0:
                    return None
                raw = self.taken(size)
                return raw.decode() if kind == "string" else b64encode(raw).decode()
        form = _NUMBERS[kind]
        return form.unpack(self.taken(form.size))[0]

    def length(self, plain_bytes: int) -> int:
        """The length in front of a text or an array; -1 for null."""
        if self.is_flexible:
            size, self.position = read_length(self.data, self.position)
            return size
        return int.from_bytes(self.taken(plain_bytes), "big", signed=True)

    def taken(self, size: int) -> bytes:
        """The next bytes."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise PeerError("it ends too early")
        raw = self.data[self.position : end]
        self.position = end
        return raw
