"""The table of a client's usage: each field's name, type, unit, and how its values are added up.

The fields are declared once, in `QuotaUsage`. The JSON metric records, the check of those records,
the columns of the rollup's windows, the reports and the Prometheus families are derived from
`USAGE_FIELDS`.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, get_type_hints

from cluster.model.quotas import QuotaKind
from cluster.model.units import Unit


class Adding(enum.Enum):
    """How the values of two intervals become the value of both."""

    KEY = "key"
    """Not added up: the field identifies the client."""
    LAST = "last"
    SUM = "sum"
    MAX = "max"


class _Fact(NamedTuple):
    unit: Unit | None
    adding: Adding
    in_windows: tuple[Adding, ...] = ()
    doc: str = ""


_KEY: Final = _Fact(None, Adding.KEY)


@dataclass(slots=True, kw_only=True)
class QuotaUsage:
    """One client's use of one kind of quota on one broker in one interval.

    The names are those of the metric records (docs/metrics.md), in their order.
    """

    quota: Annotated[QuotaKind, _KEY]
    user: Annotated[str, _KEY]
    client_id: Annotated[str, _KEY]
    rule: Annotated[str | None, _Fact(None, Adding.LAST)] = None
    """The level of precedence that matched; None without a limit."""
    limit: Annotated[float | None, _Fact(Unit.VARIES, Adding.LAST)] = None
    usage: Annotated[
        float,
        _Fact(
            *(Unit.VARIES, Adding.SUM, (Adding.SUM,)),
            "bytes, percent of a thread x seconds, or partitions",
        ),
    ] = 0.0
    rate: Annotated[float, _Fact(Unit.VARIES, Adding.LAST, (Adding.MAX,))] = 0.0
    """As the quota measured it, over its window, at the end of the interval."""
    requests: Annotated[
        int,
        _Fact(Unit.REQUESTS, Adding.SUM, (Adding.SUM,), "requests that were charged to the quota"),
    ] = 0
    throttled: Annotated[
        int,
        _Fact(
            Unit.REQUESTS, Adding.SUM, (Adding.SUM,), "requests whose response had a throttle time"
        ),
    ] = 0
    throttle_ms: Annotated[
        int,
        _Fact(
            *(Unit.MILLISECONDS, Adding.SUM, (Adding.SUM, Adding.MAX)),
            "sum of the throttle times in responses",
        ),
    ] = 0
    """Its maximum in windows is that of one interval's sum, not of one request."""
    throttle_ms_max: Annotated[int, _Fact(Unit.MILLISECONDS, Adding.MAX)] = 0
    """The longest throttle time of one request."""
    muted_ms: Annotated[
        int,
        _Fact(
            *(Unit.MILLISECONDS, Adding.SUM, (Adding.SUM,)),
            "time in which connections were not read",
        ),
    ] = 0

    def add(self, later: "QuotaUsage") -> None:
        """Add the usage of the same client in a later interval.

        Written out, since it is called four times a second for each active client.
        """
        self.rule, self.limit, self.rate = later.rule, later.limit, later.rate
        self.usage += later.usage
        self.requests += later.requests
        self.throttled += later.throttled
        self.throttle_ms += later.throttle_ms
        self.throttle_ms_max = max(self.throttle_ms_max, later.throttle_ms_max)
        self.muted_ms += later.muted_ms


class UsageField(NamedTuple):
    """A row of the table."""

    name: str
    unit: Unit | None
    """None for a name."""
    adding: Adding
    """How it is added up on a broker."""
    in_windows: tuple[Adding, ...]
    """How it is added up in the rollup's windows, in one column each; empty if windows lack it."""
    doc: str

    @property
    def is_count(self) -> bool:
        """Whether readers take it as an integer; they take all other fields as floats."""
        return self.unit is Unit.REQUESTS


USAGE_FIELDS: Final = {
    name: UsageField(name, *hint.__metadata__[0])
    for name, hint in get_type_hints(QuotaUsage, include_extras=True).items()
}
CLIENT_KEYS: Final = ("user", "client_id", "quota")
"""The fields that identify a client's usage, in the order of stored columns."""
SUMMED: Final = tuple(field.name for field in USAGE_FIELDS.values() if field.adding is Adding.SUM)


class KafkaSensor(NamedTuple):
    """Kafka's own metric of a client's rate: `kafka.server:type=<type>`, attribute `rate`."""

    type: str
    rate: str
    unit: Unit
    doc: str


KAFKA_SENSORS: Final[Mapping[QuotaKind, KafkaSensor]] = {
    QuotaKind.PRODUCE: KafkaSensor(
        *("Produce", "byte-rate", Unit.BYTES_PER_SECOND),
        "bytes per second, as measured by the quota",
    ),
    QuotaKind.FETCH: KafkaSensor(
        *("Fetch", "byte-rate", Unit.BYTES_PER_SECOND), "bytes per second, as measured by the quota"
    ),
    QuotaKind.REQUEST: KafkaSensor(
        *("Request", "request-time", Unit.PERCENT), "percent of the time of the broker's thread"
    ),
    QuotaKind.MUTATION: KafkaSensor(
        *("ControllerMutation", "mutation-rate", Unit.PARTITIONS_PER_SECOND),
        "partitions created and deleted per second",
    ),
}
