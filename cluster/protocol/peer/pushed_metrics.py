"""The bodies of ListPushedMetrics: what clients have pushed to one broker (KIP-714). Pure.

Only for our own tools and the dashboard; Kafka has no such request.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.model.error_codes import ErrorCode
from cluster.protocol.peer.field_types import (
    BOOLEAN,
    ERROR_CODE,
    INT32,
    LONG,
    NUMBER,
    FieldType,
    integer,
    listed,
    optional,
    record,
    text,
)
from cluster.protocol.peer.packed_body import PackedBody

VALUES_MAX: Final = 5_000
"""Values in one answer; packing them takes some 10 ms."""
MEASURED_MAX: Final = 2_000
_PREFIXES_MAX: Final = 100
_LABELS_MAX: Final = 8
_TEXT: Final = text(1_000)
_TIME: Final = integer(-(2**62), 2**62)
_FLOAT: Final = FieldType("a number", "type({v}) is float")


class PushedMetricsQuestion(NamedTuple):
    """Which clients and values are asked for."""

    client_id: str | None
    """None: every client."""
    prefixes: tuple[str, ...]
    """Of the names of metrics; empty: all."""
    values_max: int
    """At most `VALUES_MAX` are sent in any case."""


class PushedLabel(NamedTuple):
    """One attribute of a value or of a client."""

    key: str
    value: str


class PushedValue(NamedTuple):
    """The last value of one metric with one set of labels."""

    name: str
    labels: tuple[PushedLabel, ...]
    value: float
    is_counter: bool
    """Whether it is a sum since the client's first push to this broker."""


@dataclass(frozen=True, slots=True)
class PushingClient:
    """One client instance."""

    client_instance_id: str
    client_id: str
    software_name: str
    software_version: str
    host: str
    user: str
    labels: tuple[PushedLabel, ...]
    """Attributes of the client itself, such as its group."""
    ts_ms: int
    """When it pushed last."""
    pushes: int
    left_out: int
    """Values of its last push that the broker does not keep."""
    is_closed: bool
    """Whether it said that this was its last push."""
    values: tuple[PushedValue, ...]

    @property
    def software(self) -> str:
        """Name and version of its Kafka client; empty if it does not say."""
        return f"{self.software_name} {self.software_version}".strip()


class MeasuredLatency(NamedTuple):
    """The time from arrival to answer that a broker measures of the requests of one client."""

    user: str
    client_id: str
    api: str
    """`Produce` or `FetchConsumer`."""
    mean_us: float
    """Of the latest timed requests of the client's open connections."""


@dataclass(frozen=True, slots=True)
class PushedMetricsAnswer:
    """What one broker has."""

    code: ErrorCode
    broker: int
    now_ms: int
    clients: tuple[PushingClient, ...]
    """Those that pushed last first."""
    clients_left_out: int
    """Further clients, whose values would exceed the limit."""
    measured: tuple[MeasuredLatency, ...]
    """Of at most `MEASURED_MAX` clients that are connected, whether they push or not."""


_LABELS: Final = listed(record(PushedLabel, key=_TEXT, value=_TEXT), _LABELS_MAX)
_CLIENT: Final = record(
    PushingClient,
    client_instance_id=_TEXT,
    client_id=_TEXT,
    software_name=_TEXT,
    software_version=_TEXT,
    host=_TEXT,
    user=text(40_000),
    labels=_LABELS,
    ts_ms=_TIME,
    pushes=LONG,
    left_out=LONG,
    is_closed=BOOLEAN,
    values=listed(
        record(PushedValue, name=_TEXT, labels=_LABELS, value=_FLOAT, is_counter=BOOLEAN),
        VALUES_MAX,
    ),
)
QUESTION: Final = PackedBody[PushedMetricsQuestion](
    record(
        PushedMetricsQuestion,
        client_id=optional(text(40_000)),
        prefixes=listed(_TEXT, _PREFIXES_MAX),
        values_max=NUMBER,
    )
)
ANSWER: Final = PackedBody[PushedMetricsAnswer](
    record(
        PushedMetricsAnswer,
        code=ERROR_CODE,
        broker=INT32,
        now_ms=_TIME,
        clients=listed(_CLIENT, VALUES_MAX),
        clients_left_out=NUMBER,
        measured=listed(
            record(MeasuredLatency, user=text(40_000), client_id=_TEXT, api=_TEXT, mean_us=_FLOAT),
            MEASURED_MAX,
        ),
    )
)
