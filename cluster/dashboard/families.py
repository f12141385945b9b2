"""The families of an exposition that are not in Kafka's table, and the set of all families."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from cluster.dashboard.exposition_text import Family, Type
from cluster.metrics.declarations import RequestPart
from cluster.model.quota_usage import KAFKA_SENSORS, USAGE_FIELDS
from cluster.model.quotas import QuotaKind
from cluster.model.units import Unit

_C: Final = Type.COUNTER
_G: Final = Type.GAUGE


class Own(NamedTuple):
    """One family: `name` without `_total`; `labels` beside `broker`."""

    name: str
    type: Type
    labels: str
    unit: Unit
    doc: str


_CLIENT: Final = "user, client_id"
_QUOTA: Final = "user, client_id, quota"
_PARTITION: Final = "consumergroup, topic, partition"


def rate_family(kind: QuotaKind) -> str:
    """The family of Kafka's attribute with the rate of a client."""
    sensor = KAFKA_SENSORS[kind]
    return f"kafka_server_{sensor.type.lower()}_{sensor.rate.replace('-', '_')}"


def throttle_time_family(kind: QuotaKind) -> str:
    """The family of Kafka's attribute with the throttle time of a client."""
    return f"kafka_server_{KAFKA_SENSORS[kind].type.lower()}_throttle_time"


def _sensor_families() -> Iterator[Own]:
    for kind, sensor in KAFKA_SENSORS.items():
        yield Own(rate_family(kind), _G, _CLIENT, sensor.unit, sensor.doc)
        yield Own(
            throttle_time_family(kind),
            _G,
            _CLIENT,
            Unit.MILLISECONDS,
            "mean throttle time of the requests that were throttled in the last 10 s, in ms",
        )


USAGE_FAMILIES: Final = {
    "usage": "milena_quota_usage",
    "requests": "milena_quota_requests",
    "throttled": "milena_quota_throttled_requests",
    "throttle_ms": "milena_quota_throttle_seconds",
    "muted_ms": "milena_quota_muted_seconds",
}
"""The counter of each field of a client's usage that is summed up."""


def _usage_families() -> Iterator[Own]:
    for name, family in USAGE_FAMILIES.items():
        field = USAGE_FIELDS[name]
        assert field.unit is not None
        unit = Unit.SECONDS if field.unit is Unit.MILLISECONDS else field.unit
        yield Own(family, _C, _QUOTA, unit, field.doc)


PUSHED_GAUGE: Final = "milena_client_pushed_gauge"
PUSHED_COUNTER: Final = "milena_client_pushed_counter"
PUSHED_LEFT_OUT: Final = "milena_client_pushed_left_out"
_PUSHED: Final = (
    "client_id, client_instance_id, metric, and where the client says so: group_id, node, topic,"
    " partition, attributes"
)

OWN_FAMILIES: Final = (
    Own(
        "milena_cluster_state",
        _G,
        "state (without broker)",
        Unit.STATE,
        "1 for the current state of the cluster: up, degraded, down, starting, stopping or stopped",
    ),
    Own(
        "milena_cluster_brokers_serving",
        _G,
        "none (without broker)",
        Unit.BROKERS,
        "running brokers that are not paused",
    ),
    Own(
        "milena_cluster_problems",
        _G,
        "kind (without broker)",
        Unit.STATE,
        "number of problems of this kind, as in `status` (docs/status.md)",
    ),
    Own(
        "kafka_up",
        _G,
        "",
        Unit.STATE,
        "1 while the broker updates its stats file, 0 while it is dead or does not respond",
    ),
    Own(
        "milena_broker_silence_seconds",
        _G,
        "",
        Unit.SECONDS,
        "time since the broker last updated its stats file",
    ),
    Own(
        "process_cpu_seconds",
        _C,
        "",
        Unit.SECONDS,
        "CPU time used by all threads of the broker's process",
    ),
    Own("process_resident_memory_bytes", _G, "", Unit.BYTES, "resident memory of the process"),
    Own("process_open_fds", _G, "", Unit.FILES, "open files and sockets of the process"),
    Own("process_max_fds", _G, "", Unit.FILES, "maximum number of open files and sockets"),
    Own(
        "process_start_time_seconds", _G, "", Unit.SECONDS, "start time of the process, since 1970"
    ),
    *_sensor_families(),
    Own(
        "milena_quota_limit",
        _G,
        f"{_QUOTA}, rule",
        Unit.VARIES,
        "the client's limit on this broker: bytes per second, percent of a thread, or partitions"
        " per second",
    ),
    Own("milena_quota_utilisation_ratio", _G, _QUOTA, Unit.RATIO, "rate divided by limit"),
    Own(
        "milena_quota_muted",
        _G,
        _QUOTA,
        Unit.STATE,
        "1 while the client's connections are not read",
    ),
    *_usage_families(),
    Own(
        "milena_client_connections",
        _G,
        f"{_CLIENT}, software",
        Unit.CONNECTIONS,
        "open connections, with the name and version that the client reports",
    ),
    Own("milena_clients", _G, "", Unit.CLIENTS, "clients that use a quota"),
    Own(
        "milena_clients_other",
        _G,
        "",
        Unit.CLIENTS,
        "clients without series of their own, summed up as user and client_id _other",
    ),
    Own(
        PUSHED_GAUGE,
        _G,
        _PUSHED,
        Unit.VARIES,
        "a metric that the client pushed to this broker (KIP-714), in the unit of its name",
    ),
    Own(
        PUSHED_COUNTER,
        _C,
        _PUSHED,
        Unit.VARIES,
        "a counter that the client pushed, since its first push to this broker",
    ),
    Own(
        PUSHED_LEFT_OUT,
        _G,
        "none (without broker)",
        Unit.CLIENTS,
        "clients whose pushed metrics are not exported, because there are too many",
    ),
    Own("kafka_consumergroup_members", _G, "consumergroup", Unit.MEMBERS, "members of the group"),
    Own(
        "milena_consumergroup_state",
        _G,
        "consumergroup, state",
        Unit.STATE,
        "1 for the current state of the group",
    ),
    Own(
        "kafka_consumergroup_current_offset",
        _G,
        _PARTITION,
        Unit.OFFSETS,
        "offset that the group has committed",
    ),
    Own(
        "kafka_consumergroup_lag",
        _G,
        _PARTITION,
        Unit.RECORDS,
        "records that the group has not committed",
    ),
    Own(
        "kafka_consumergroup_lag_sum",
        _G,
        "consumergroup, topic",
        Unit.RECORDS,
        "records of all partitions of a topic that the group has not committed",
    ),
    Own(
        "milena_consumergroup_partitions_left_out",
        _G,
        "",
        Unit.PARTITIONS,
        "partitions of groups without series of their own",
    ),
)
"""The families of quota rows and of groups; all others come from the tables of `metrics`."""


def seconds_family(family_ms: str) -> str:
    """The histogram beside a summary in ms: `milena_..._localtime_seconds` beside
    `kafka_..._localtimems`.
    """
    return family_ms.replace("kafka_", "milena_", 1).removesuffix("ms") + "_seconds"


class Families:
    """Collects samples; a family appears once, wherever its samples come from."""

    def __init__(self) -> None:
        self._own = {own.name: Family(own.name, own.type, own.doc) for own in OWN_FAMILIES}
        self._others: dict[str, Family] = {}

    def add(self, name: str, labels: str, value: float) -> None:
        """Add a sample to one of `OWN_FAMILIES`."""
        self._own[name].add(labels, value)

    def of(self, name: str, kind: Type, doc: str) -> Family:
        """The family with another name."""
        family = self._others.get(name)
        if family is None:
            family = self._others[name] = Family(name, kind, doc)
        elif doc and not family.doc:
            family.doc = doc
        return family

    def times_ms(self, name: str, part: RequestPart) -> Family:
        """The family of quantiles in milliseconds, their sum, and the number of requests."""
        return self.of(name, Type.SUMMARY, f"{part.doc}, in ms")

    def times_seconds(self, name_ms: str) -> Family:
        """The same requests as a histogram, for quantiles over any time."""
        return self.of(seconds_family(name_ms), Type.HISTOGRAM, f"{name_ms} as a histogram")

    def ordered(self) -> Iterator[Family]:
        yield from self._own.values()
        yield from self._others.values()
