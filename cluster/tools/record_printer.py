"""Writes a record as a line of text, as Kafka's console consumer does. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.tools.options import is_true, known_properties

PROPERTIES: Final = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
"""What `--property` may set, with the defaults."""

TIMESTAMP_TYPES: Final = ("NO_TIMESTAMP", "CreateTime", "LogAppendTime")
"""Indexed by confluent-kafka's number of a timestamp type."""


Headers = Sequence[tuple[str, bytes | None]]


class ConsumedRecord(NamedTuple):
    """The parts of a record to print; `timestamp_type` is an index into TIMESTAMP_TYPES."""

    partition: int
    offset: int
    timestamp_type: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class RecordPrinter:
    """Prints timestamp, partition, offset, headers, key and value, as the properties select."""

    prints_timestamp: bool
    prints_partition: bool
    prints_offset: bool
    prints_headers: bool
    prints_key: bool
    prints_value: bool
    key_separator: bytes
    line_separator: bytes
    headers_separator: bytes
    null_literal: bytes

    @classmethod
    def from_properties(cls, given: Iterable[tuple[str, str]]) -> "RecordPrinter":
        """A printer with these properties. Raises ValueError for an unknown one."""
        chosen = PROPERTIES | known_properties(given, PROPERTIES)
        return cls(
            prints_timestamp=is_true(chosen["print.timestamp"]),
            prints_partition=is_true(chosen["print.partition"]),
            prints_offset=is_true(chosen["print.offset"]),
            prints_headers=is_true(chosen["print.headers"]),
            prints_key=is_true(chosen["print.key"]),
            prints_value=is_true(chosen["print.value"]),
            key_separator=chosen["key.separator"].encode(),
            line_separator=chosen["line.separator"].encode(),
            headers_separator=chosen["headers.separator"].encode(),
            null_literal=chosen["null.literal"].encode(),
        )

    def line(self, record: ConsumedRecord) -> bytes:
        """The line with its separator; empty when no part of a record is selected."""
        parts = []
        if self.prints_timestamp:
            parts.append(_timestamp(record))
        if self.prints_partition:
            parts.append(b"Partition:%d" % record.partition)
        if self.prints_offset:
            parts.append(b"Offset:%d" % record.offset)
        if self.prints_headers:
            parts.append(self._headers(record))
        if self.prints_key:
            parts.append(self._or_null(record.key))
        if self.prints_value:
            parts.append(self._or_null(record.value))
        return self.key_separator.join(parts) + self.line_separator if parts else b""

    def _headers(self, record: ConsumedRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            b"%b:%b" % (name.encode(), self._or_null(value)) for name, value in record.headers
        )

    def _or_null(self, part: bytes | None) -> bytes:
        return self.null_literal if part is None else part


def _timestamp(record: ConsumedRecord) -> bytes:
    name = TIMESTAMP_TYPES[record.timestamp_type]
    if record.timestamp_type == 0:
        return name.encode()
    return f"{name}:{record.timestamp_ms}".encode()
