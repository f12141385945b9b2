"""Reads the metrics that clients push: OTLP's `MetricsData` in protobuf (KIP-714). Pure.

    MetricsData.resource_metrics 1 > ResourceMetrics: resource 1, scope_metrics 2 > metrics 2
    Metric: name 1, gauge 5, sum 7, histogram 9; others are skipped, as are fields unknown here
    Gauge: data_points 1; Sum: data_points 1, temporality 2, is_monotonic 3
    NumberDataPoint: as_double 4, as_int 6, attributes 7
    Histogram: data_points 1, temporality 2; HistogramDataPoint: count 4, sum 5, attributes 9

Why no library: docs/decisions/061-client-metrics.md. A reader stops after `FIELDS_MAX` fields and
`POINTS_MAX` points, so that a request costs a bounded time and memory.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from cluster.model.errors import PeerError
from cluster.model.kept_names import kept_name

FIELDS_MAX: Final = 10_000
"""`POINTS_MAX` points with some attributes have 7,500; each takes 1 to 2 µs."""
POINTS_MAX: Final = 500
LABELS_MAX: Final = 8
"""A point with more attributes is left out."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX: Final = 10
_CUMULATIVE: Final = 2
_double = struct.Struct("<d").unpack_from
_sfixed64 = struct.Struct("<q").unpack_from

Labels: TypeAlias = tuple[tuple[str, str], ...]
Span: TypeAlias = tuple[int, int]


class Point(NamedTuple):
    """One value of one metric."""

    name: str
    labels: Labels
    """The point's attributes, sorted."""
    value: float
    is_counter: bool
    """Whether it only grows; a gauge otherwise."""
    is_delta: bool
    """Whether the value is what a counter grew by since the last push."""


@dataclass(slots=True)
class PushedPoints:
    """The content of one push."""

    points: list[Point] = field(default_factory=list)
    labels: Labels = ()
    """The attributes of the client itself, such as its group."""
    left_out: int = 0
    """Points of kinds that are not read, or with too many attributes."""
    is_cut: bool = False
    """Whether there was more than is read of one push."""


class _Enough(Exception):
    """The limit of fields or points is reached."""


class _Reader:
    """Reads the fields of one message and of those inside it, as many as allowed."""

    __slots__ = ("buffer", "fields_left", "pairs")

    def __init__(self, buffer: bytes) -> None:
        self.buffer = buffer
        self.fields_left = FIELDS_MAX
        self.pairs: dict[bytes, tuple[str, str]] = {}
        """Attributes that were read, by their bytes: most points repeat those of others."""

    def fields(self, span: Span) -> Iterator[tuple[int, int, int, int]]:
        """Number, wire type, and of each field the value (a varint) or where its bytes are."""
        position, end = span
        buffer = self.buffer
        while position < end:
            if not self.fields_left:
                raise _Enough
            self.fields_left -= 1
            key = buffer[position]
            position += 1
            if key > 0x7F:
                key, position = self._varint(position - 1, end)
            kind = key & 7
            if kind == _BYTES:
                if position < end and buffer[position] < 0x80:
                    size = buffer[position]
                    position += 1
                else:
                    size, position = self._varint(position, end)
            elif kind == _VARINT:
                value, position = self._varint(position, end)
                yield key >> 3, kind, value, position
                continue
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
            else:
                raise PeerError(f"metrics have a field of the wire type {kind}")
            if size > end - position:
                raise PeerError("metrics end inside a field")
            yield key >> 3, kind, position, position + size
            position += size

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        value = shift = 0
        for at in range(position, min(end, position + _VARINT_BYTES_MAX)):
            byte = self.buffer[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at + 1
            shift += 7
        raise PeerError("metrics end inside a number, or have one of more than 64 bits")

    def messages(self, span: Span, number: int) -> Iterator[Span]:
        """The messages inside one that have this field number."""
        for found, kind, start, end in self.fields(span):
            if found == number and kind == _BYTES:
                yield start, end

    def text(self, start: int, end: int) -> str:
        """A text, shortened as other foreign names are."""
        return kept_name(self.buffer[start:end].decode("utf-8", "replace"))


def read_metrics(payload: bytes) -> PushedPoints:
    """The values of a push. Raises PeerError for what is not protobuf."""
    found = PushedPoints()
    reader = _Reader(payload)
    try:
        for resource_metrics in reader.messages((0, len(payload)), 1):
            for number, kind, start, end in reader.fields(resource_metrics):
                if kind != _BYTES:
                    continue
                if number == 1:
                    found.labels = _labels(reader, (start, end), 1)[:LABELS_MAX]
                elif number == 2:
                    for metric in reader.messages((start, end), 2):
                        _read_metric(reader, metric, found)
    except _Enough:
        found.is_cut = True
    return found


def _read_metric(reader: _Reader, span: Span, found: PushedPoints) -> None:
    name = ""
    content: tuple[int, Span] | None = None
    for number, kind, start, end in reader.fields(span):
        if kind == _BYTES and number == 1:
            name = reader.text(start, end)
        elif kind == _BYTES and number in _READERS:
            content = number, (start, end)
        elif kind == _BYTES and number in (10, 11):
            found.left_out += 1
    if content is not None and name:
        _read_points(reader, name, *content, found)


def _read_points(
    reader: _Reader, name: str, metric_kind: int, span: Span, found: PushedPoints
) -> None:
    points: list[Span] = []
    is_delta, is_monotonic = True, metric_kind == _HISTOGRAM
    for number, kind, start, end in reader.fields(span):
        if number == 1 and kind == _BYTES:
            points.append((start, end))
        elif number == 2 and kind == _VARINT:
            is_delta = start != _CUMULATIVE
        elif number == 3 and kind == _VARINT and metric_kind == _SUM:
            is_monotonic = bool(start)
    for point in points:
        labels, values = _READERS[metric_kind](reader, point)
        if labels is None or not values:
            found.left_out += 1
            continue
        for suffix, value in values:
            if len(found.points) >= POINTS_MAX:
                raise _Enough
            found.points.append(
                Point(name + suffix, labels, value, is_monotonic, is_delta and is_monotonic)
            )


Values: TypeAlias = list[tuple[str, float]]
"""Suffixes of the name, and their values."""


def _number_point(reader: _Reader, span: Span) -> tuple[Labels | None, Values]:
    value: float | None = None
    pairs: list[Span] = []
    for number, kind, start, end in reader.fields(span):
        if number == 4 and kind == _FIXED64:
            (value,) = _double(reader.buffer, start)
        elif number == 6 and kind == _FIXED64:
            (value,) = _sfixed64(reader.buffer, start)
        elif number == 7 and kind == _BYTES:
            pairs.append((start, end))
    return _all_labels(reader, pairs), [] if value is None else [("", value)]


def _histogram_point(reader: _Reader, span: Span) -> tuple[Labels | None, Values]:
    values: Values = []
    pairs: list[Span] = []
    for number, kind, start, end in reader.fields(span):
        if number == 4 and kind == _FIXED64:
            values.append((".count", float(_sfixed64(reader.buffer, start)[0])))
        elif number == 5 and kind == _FIXED64:
            values.append((".sum", _double(reader.buffer, start)[0]))
        elif number == 9 and kind == _BYTES:
            pairs.append((start, end))
    return _all_labels(reader, pairs), values


_GAUGE, _SUM, _HISTOGRAM = 5, 7, 9
_READERS: Final = {_GAUGE: _number_point, _SUM: _number_point, _HISTOGRAM: _histogram_point}


def _all_labels(reader: _Reader, pairs: list[Span]) -> Labels | None:
    """The attributes of a point; None if there are too many."""
    if len(pairs) > LABELS_MAX:
        return None
    return tuple(sorted(_pair(reader, each) for each in pairs))


def _labels(reader: _Reader, span: Span, number: int) -> Labels:
    return tuple(sorted(_pair(reader, each) for each in reader.messages(span, number)))


def _pair(reader: _Reader, span: Span) -> tuple[str, str]:
    content = reader.buffer[slice(*span)]
    known = reader.pairs.get(content)
    if known is None:
        known = reader.pairs[content] = _read_pair(reader, span)
    return known


def _read_pair(reader: _Reader, span: Span) -> tuple[str, str]:
    key = value = ""
    for number, kind, start, end in reader.fields(span):
        if kind == _BYTES and number == 1:
            key = reader.text(start, end)
        elif kind == _BYTES and number == 2:
            value = _any_value(reader, (start, end))
    return key, value


def _any_value(reader: _Reader, span: Span) -> str:
    for number, kind, start, end in reader.fields(span):
        if number == 1 and kind == _BYTES:
            return reader.text(start, end)
        if number == 2 and kind == _VARINT:
            return "true" if start else "false"
        if number == 3 and kind == _VARINT:
            return str(start - (1 << 64) if start >> 63 else start)
        if number == 4 and kind == _FIXED64:
            return str(_double(reader.buffer, start)[0])
    return ""
