"""Writes docs/prometheus.md: `python -m cluster.dashboard.prometheus_page > docs/prometheus.md`."""

import sys
from collections.abc import Iterator
from typing import Final

from cluster.dashboard.client_series import CLIENTS_MAX
from cluster.dashboard.exposition_text import LABEL_MAX, Type
from cluster.dashboard.families import (
    OWN_FAMILIES,
    PUSHED_GAUGE,
    PUSHED_LEFT_OUT,
    seconds_family,
)
from cluster.dashboard.prometheus import LAGS_MAX, WITH_BUCKETS, is_left_out, type_of
from cluster.dashboard.prometheus_names import spelled
from cluster.dashboard.pushed_series import SERIES_MAX as PUSHED_MAX
from cluster.dashboard.recent_throttles import SPAN_MS
from cluster.dashboard.request_times import QUANTILES
from cluster.metrics.broker_metrics import BROKER_METRICS
from cluster.metrics.kafka_names import REQUEST_METRICS, REQUEST_PARTS, TOPIC_METRICS
from cluster.model.units import Unit

_TIMED: Final = {part.name: part for part in REQUEST_PARTS}

_INTRODUCTION: Final = f"""\
# Prometheus and Grafana

<!-- Written by `python -m cluster.dashboard.prometheus_page`. -->

The dashboard's process serves `/metrics` (every broker) and `/metrics/broker/ID` (one) in
Prometheus' text format, or in OpenMetrics 1.0 to clients that accept it, as Prometheus does. It
reads the brokers' stats files ([metrics.md](metrics.md)), without contacting the brokers. The
exception are metrics that clients pushed: a broker that has some is asked for them, at most every
two seconds.

```
prometheus --config.file=etc/prometheus.yml
MILENA_GRAFANA_DASHBOARDS=$PWD/etc/grafana/dashboards \\
  GF_PATHS_PROVISIONING=$PWD/etc/grafana/provisioning grafana server
```

`etc/grafana/dashboards` has two dashboards: quotas (rate, limit and throttle time of each
client) and the cluster. If the dashboard has a password, Prometheus needs it as `basic_auth`
(`etc/prometheus.yml`).

## What to know

- **Names** are those that Kafka's beans get by the usual rules of jmx_exporter, and that
  dashboards made for Kafka query: lower case, joined by `_`; a meter (`...PerSec`) is a counter
  that ends in `_total`; `Percent` becomes `_percent`; tags become labels. Names of groups are
  kafka_exporter's. Names that begin with `milena_` do not exist in Kafka. Every series has the
  label `broker`, except for `milena_cluster_...`, which describe the whole cluster.
- **A counter ends in `_total`** in both formats, because Prometheus chooses the format. If Kafka
  has both a total and a rate over a window (`offset-commit-count`, `offset-commit-rate`), only
  the total is exported: apply `rate()` to it.
- **Processes** of brokers have the names that every exporter uses (`process_cpu_seconds_total`,
  ...), with values from the operating system. There is no JVM, and so there are no `jvm_...`.
- **Quantiles** in milliseconds cover the last five minutes (in the first half minute of readings,
  all requests so far), and are NaN if there were none. Prometheus cannot aggregate quantiles, but
  it can aggregate the histograms beside them. The median is `quantile="0.5"`, which jmx_exporter
  writes as 0.50.
- **Rates of clients** are those that the quota compares with its limit, in bytes per second or
  percent of one thread, on this broker. Limits are per broker, too. **Throttle times** are
  means as in Kafka, of the requests throttled since the scrape some {SPAN_MS // 1_000} s before
  (or the last one); 0 if none were throttled.
- **Sums that Kafka does not have** are not exported, so that adding up the parts counts each
  once. `kafka_server_brokertopicmetrics_...` exists with and without `topic`, as in Kafka.
- **A dead or silent broker** has `kafka_up` 0, and no other series but the time since it last
  updated its stats file: graphs end instead of continuing unchanged. After a restart its counters
  begin at 0.
- **Metrics of clients** (KIP-714, `bin/cluster client-metrics`) keep their own names, in the label
  `metric`: `{PUSHED_GAUGE}{{metric="org.apache.kafka.producer.node.request.latency.avg"}}`.
  A closed client has no series, and a silent one loses its series after three push intervals.
- **Bounds**: {CLIENTS_MAX} clients (user and client id) have series of their own, those with
  limits first, and among these the most throttled first. The rates of the others are summed up,
  and the longest of their throttle times is exported, under
  `user="_other",client_id="_other"`; `milena_clients_other` is their number. Their counters are
  omitted, because the sum would fall whenever a client leaves it. Of groups, {LAGS_MAX} series of
  partitions are exported, those with the largest lag first, and
  `milena_consumergroup_partitions_left_out` is the number of the others. Of metrics that clients
  pushed, {PUSHED_MAX} series are exported, those of the clients that pushed last, and
  `{PUSHED_LEFT_OUT}` is the number of the other clients. A label has at most
  {LABEL_MAX} characters: a longer one is cut, and ends in a checksum. (Stats files represent
  names of more than 180 bytes by their beginning and SHA-256, and cut users to 128 bytes; clients
  that look the same after that are summed up.) Control characters become U+FFFD. Items without
  room in a stats file are not exported either, but counted:
  `milena_server_metrics_clientrowslost_total`, `..._topicswithoutrow`,
  `..._grouppartitionswithoutrow`.

## Names

| name | type | unit | labels beside `broker` | Kafka's name | meaning |
| --- | --- | --- | --- | --- | --- |
"""


def page() -> str:
    """The text of docs/prometheus.md."""
    return _INTRODUCTION + "".join(f"| {' | '.join(row)} |\n" for row in _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    for own in OWN_FAMILIES:
        yield (
            f"`{own.name}{'_total' if own.type is Type.COUNTER else ''}`",
            own.type,
            own.unit,
            own.labels or "-",
            "-",
            own.doc,
        )
    for name, kind, unit, doc in _of_kafka():
        place = spelled(name, kind)
        suffix = "_total" if kind is Type.COUNTER else ""
        values = ", ".join(f"{key}={value}" for key, value in place.labels)
        if name in _TIMED:
            values = f"{values}, quantile ({', '.join(map(str, QUANTILES))})"
        yield f"`{place.family}{suffix}`", kind, unit, values or "-", f"`{name}`", doc
        if name in _TIMED and _TIMED[name].key in WITH_BUCKETS:
            histogram, labels = seconds_family(place.family), "request=<Api>, le"
            yield (
                f"`{histogram}`",
                Type.HISTOGRAM,
                Unit.SECONDS,
                labels,
                f"`{name}`",
                "the same times in seconds",
            )


def _of_kafka() -> Iterator[tuple[str, Type, Unit, str]]:
    """JMX name, type, unit and meaning; `<...>` in a name stands for a part that varies."""
    of_apis = [metric for metric in REQUEST_METRICS if not is_left_out(metric.name)]
    for metric in (*BROKER_METRICS, *of_apis):
        if not is_left_out(metric.name):
            yield metric.name, type_of(metric.name, metric), metric.unit, metric.doc
    for part in REQUEST_PARTS:
        yield part.name, Type.SUMMARY, part.unit, part.doc
    for metric in TOPIC_METRICS:
        yield metric.name, type_of(metric.name, metric), metric.unit, metric.doc


if __name__ == "__main__":
    sys.stdout.write(page())
