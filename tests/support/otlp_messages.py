"""Writes OTLP metrics in protobuf, as clients push them (`cluster/protocol/otlp.py` reads them)."""

import struct
from collections.abc import Iterable, Mapping

DELTA, CUMULATIVE = 1, 2


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def double_field(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def int_field(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<q", value)


def pair(key: str, value: str) -> bytes:
    return message(1, key.encode()) + message(2, message(1, value.encode()))


def point(value: float, labels: Mapping[str, str]) -> bytes:
    """A NumberDataPoint."""
    encoded = int_field(6, value) if isinstance(value, int) else double_field(4, value)
    attributes = b"".join(message(7, pair(*each)) for each in labels.items())
    return int_field(2, 1) + encoded + attributes


def gauge(name: str, value: float, **labels: str) -> bytes:
    """A Metric."""
    return message(1, name.encode()) + message(5, message(1, point(value, labels)))


def counter(name: str, value: float, temporality: int = DELTA, **labels: str) -> bytes:
    """A Metric with a monotonic sum."""
    data = message(1, point(value, labels))
    data += number_field(2, temporality) + number_field(3, 1)
    return message(1, name.encode()) + message(3, b"ms") + message(7, data)


def histogram(name: str, count: int, total: float, temporality: int = DELTA) -> bytes:
    data = message(1, int_field(4, count) + double_field(5, total))
    return message(1, name.encode()) + message(9, data + number_field(2, temporality))


def metrics_data(metrics: Iterable[bytes], **resource: str) -> bytes:
    """MetricsData of one client with these attributes."""
    attributes = b"".join(message(1, pair(*each)) for each in resource.items())
    scope = b"".join(message(2, each) for each in metrics)
    return message(1, message(1, attributes) + message(2, message(1, b"") + scope))
