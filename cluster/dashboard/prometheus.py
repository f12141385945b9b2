"""The response to Prometheus, from readings of the brokers' stats files.

Names are those that dashboards made for Kafka query (docs/prometheus.md), plus each client's
limits, which Kafka does not export. A dead or silent broker has `kafka_up` 0 and no other series:
Prometheus shows them as gone rather than unchanged.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cluster.dashboard.client_series import add_clients
from cluster.dashboard.exposition_text import Family, Type, label_text, rendered
from cluster.dashboard.families import Families
from cluster.dashboard.process_figures import ProcessFigures
from cluster.dashboard.prometheus_names import Spelled, spelled
from cluster.dashboard.pushed_series import add_pushed
from cluster.dashboard.recent_throttles import RecentThrottles
from cluster.dashboard.request_times import QUANTILES, RecentTimes, request_times
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.declarations import Metric, without_labels
from cluster.metrics.histogram import Histogram, bound_us
from cluster.metrics.kafka_names import REQUEST_PARTS, TOPIC_METRICS, declared, help_of
from cluster.metrics.stats_layout import MetricKind
from cluster.protocol.peer.pushed_metrics import PushedMetricsAnswer
from cluster.views.client_states import ALIVE, BrokerStats
from cluster.views.cluster_health import KINDS, STATES, Health
from cluster.views.group_lags import group_lags

LAGS_MAX: Final = 5_000
"""Partitions of groups with series of their own: those of the groups with the largest lag."""
SUMS: Final = frozenset(
    BY_KEY[key].name for key in ("RequestsPerSec", "ThrottleTimeMs", "PurgatorySize")
)
"""Sums that are not exported: Kafka exports only their parts, and adding up everything would count
twice. The same holds for requests by version, which are parts of those by API."""
WITH_BUCKETS: Final = ("TotalTimeMs", "LocalTimeMs")
"""Times that are also exported as histograms."""
_PARTS: Final = {spelled(part.name, Type.SUMMARY).family: part for part in REQUEST_PARTS}


def exposition(
    brokers: Sequence[BrokerStats],
    recent: RecentTimes | None = None,
    throttles: RecentThrottles | None = None,
    processes: Mapping[int, ProcessFigures] | None = None,
    *,
    health: Health | None = None,
    pushed: Sequence[PushedMetricsAnswer] = (),
    openmetrics: bool,
) -> bytes:
    """All metrics of these brokers, in the text format or in OpenMetrics.

    `recent` keeps earlier readings, so that quantiles cover the last minutes, and `throttles`, so
    that throttle times cover the last seconds; without them they cover everything since each
    broker's start. `processes` has the figures of the brokers' processes. `health` is that of the
    cluster, if all brokers are exported. `pushed` is what clients pushed to brokers.
    """
    families = Families()
    if health is not None:
        _add_health(families, health)
    for broker in brokers:
        labels = label_text([("broker", str(broker.broker))])
        families.add("kafka_up", labels, int(broker.state == ALIVE))
        families.add("milena_broker_silence_seconds", labels, broker.age_ms / 1_000)
    alive = [broker for broker in brokers if broker.state == ALIVE]
    _add_processes(families, processes or {})
    _add_values(families, alive)
    for broker in alive:
        counts = request_times(broker.stats)
        past = recent.compared(broker.broker, broker.stats, counts) if recent else {}
        _add_topics(families, broker)
        _add_times(families, broker.broker, counts, past)
    add_clients(families, alive, throttles or RecentThrottles())
    _add_groups(families, alive)
    if pushed:
        add_pushed(families, pushed)
    return rendered(families.ordered(), openmetrics=openmetrics)


def _add_health(families: Families, health: Health) -> None:
    for state in STATES:
        families.add(
            "milena_cluster_state", label_text([("state", state)]), int(state == health.state)
        )
    families.add("milena_cluster_brokers_serving", "", health.serving)
    counts = Counter(problem.kind for problem in health.problems)
    for kind in KINDS:
        families.add("milena_cluster_problems", label_text([("kind", kind)]), counts[kind])


# -- counters and gauges of the brokers --------------------------------------------------------


def _add_processes(families: Families, processes: Mapping[int, ProcessFigures]) -> None:
    for broker, process in processes.items():
        labels = label_text([("broker", str(broker))])
        families.add("process_cpu_seconds", labels, process.cpu_s)
        families.add("process_resident_memory_bytes", labels, process.resident_bytes)
        families.add("process_open_fds", labels, process.open_files)
        if process.files_max is not None:
            families.add("process_max_fds", labels, process.files_max)
        families.add("process_start_time_seconds", labels, process.started_s)


def _add_values(families: Families, brokers: Iterable[BrokerStats]) -> None:
    for broker in brokers:
        head = ("broker", str(broker.broker))
        for name, value in broker.stats.values.items():
            if is_left_out(name):
                continue
            kind = type_of(name, declared(name))
            place = spelled(name, kind)
            family = families.of(place.family, kind, help_of(name))
            labels = label_text([head, *place.labels])
            family.add(labels, value, "_count" if kind is Type.SUMMARY else "")


def is_left_out(name: str) -> bool:
    """Whether a value is the sum or a part of other exported values."""
    return name in SUMS or ",version=" in name


def type_of(name: str, metric: Metric | None) -> Type:
    """The type of a value with this JMX name and row of the table, if it has one."""
    if without_labels(name).endswith(("RateAndTimeMs", "FailureRate")):
        return Type.SUMMARY  # a timer or meter, of which the count is known
    if metric is not None:
        return Type.COUNTER if metric.kind is MetricKind.COUNTER else Type.GAUGE
    return Type.COUNTER if "PerSec" in name else Type.GAUGE


def _add_topics(families: Families, broker: BrokerStats) -> None:
    head = ("broker", str(broker.broker))
    for topic, values in broker.stats.topics.items():
        for metric in TOPIC_METRICS:
            kind = type_of(metric.name, metric)
            place = spelled(metric.name, kind)
            family = families.of(place.family, kind, metric.doc)
            family.add(label_text([head, ("topic", topic)]), values[metric.key])


# -- times of requests -------------------------------------------------------------------------


def _add_times(
    families: Families,
    broker: int,
    now: Mapping[Spelled, Histogram],
    past: Mapping[Spelled, Histogram],
) -> None:
    for place, times in now.items():
        if not times.count:
            continue
        labels = [("broker", str(broker)), *place.labels]
        part = _PARTS[place.family]
        summary = families.times_ms(place.family, part)
        newer = times.since(past.get(place))
        for quantile in QUANTILES:
            value = newer.quantile_us(quantile) / 1_000 if newer.count else float("nan")
            summary.add(label_text([*labels, ("quantile", repr(quantile))]), value)
        summary.add(label_text(labels), times.sum_us / 1_000, "_sum")
        summary.add(label_text(labels), times.count, "_count")
        if part.key in WITH_BUCKETS:
            _add_buckets(families.times_seconds(place.family), labels, times)


def _add_buckets(family: Family, labels: list[tuple[str, str]], times: Histogram) -> None:
    seen = 0
    for number, count in enumerate(times.counts):
        seen += count
        bound = bound_us(number)
        le = "+Inf" if bound is None else repr(bound / 1_000_000)
        family.add(label_text([*labels, ("le", le)]), seen, "_bucket")
    family.add(label_text(labels), times.sum_us / 1_000_000, "_sum")
    family.add(label_text(labels), seen, "_count")


# -- groups ------------------------------------------------------------------------------------


def _add_groups(families: Families, brokers: Sequence[BrokerStats]) -> None:
    left_out = dict.fromkeys((broker.broker for broker in brokers), 0)
    room = LAGS_MAX
    for group in group_lags(brokers, 0):
        broker = group.fields["broker"]
        head = [("broker", str(broker)), ("consumergroup", str(group.fields["group"]))]
        if room <= 0:
            left_out[broker] += len(group.partitions)
            continue
        labels = label_text(head)
        families.add("kafka_consumergroup_members", labels, group.fields["members"])
        state = ("state", str(group.fields["state"]))
        families.add("milena_consumergroup_state", label_text([*head, state]), 1)
        room -= 1
        for lag in group.partitions:
            if room <= 0:
                left_out[broker] += 1
                continue
            room -= 1
            topic = ("topic", str(lag["topic"]))
            one = label_text([*head, topic, ("partition", str(lag["partition"]))])
            families.add("kafka_consumergroup_current_offset", one, lag["committed"])
            if lag["lag"] is not None:
                families.add("kafka_consumergroup_lag", one, lag["lag"])
                families.add("kafka_consumergroup_lag_sum", label_text([*head, topic]), lag["lag"])
    for broker, count in left_out.items():
        labels = label_text([("broker", str(broker))])
        families.add("milena_consumergroup_partitions_left_out", labels, count)
