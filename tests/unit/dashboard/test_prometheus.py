"""The response to Prometheus, checked by its own parsers of both formats."""

import math
import os
from dataclasses import replace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from cluster.brokers.metrics.counters import BrokerCounters
from cluster.dashboard import client_series, prometheus
from cluster.dashboard.exposition_text import LABEL_MAX, accepts_openmetrics
from cluster.dashboard.process_figures import ProcessFigures, process_figures
from cluster.dashboard.prometheus import exposition
from cluster.dashboard.recent_throttles import RecentThrottles
from cluster.dashboard.request_times import RecentTimes
from cluster.metrics.histogram import BUCKETS, Histogram
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import read_memory
from cluster.protocol.api import ApiKey
from cluster.views.client_states import DEAD, SILENT, BrokerStats
from cluster.views.cluster_health import Health, Problem
from tests.support.broker_stats import broker_stats, counted, counted_values
from tests.support.examples import examples

LIMITED = QuotaRow(
    quota="produce",
    user="ANONYMOUS",
    client_id="loader-1",
    rule="client",
    limit=1_000_000.0,
    rate=1_500_000.0,
    delay_ms=420,
    requests=90,
    throttled=30,
    usage=9_000_000.0,
    throttle_ms=12_600.0,
    muted_ms=11_000.0,
    connections=2,
    software="librdkafka 2.5.0",
)
GROUP = {
    "kind": "group",
    "ts": 5,
    "broker": 0,
    "group": "g",
    "type": "classic",
    "state": "Stable",
    "members": 3,
    "lag": 30,
}
LAGS = [
    {"kind": "lag", "group": "g", "topic": "t", "partition": 0, "committed": 70, "lag": 30},
    {"kind": "lag", "group": "g", "topic": "t", "partition": 1, "committed": 5, "lag": None},
]
PROCESS = ProcessFigures(12.5, 80 << 20, 40, 1_024, 1_790_000_000.25)

Labels = frozenset[tuple[str, str]]


def families(text: bytes) -> list[Metric]:
    """Parsed as the format that the last line indicates."""
    decoded = text.decode()
    is_open = decoded.endswith("# EOF\n")
    return list((parse_openmetrics if is_open else parse_text)(decoded))


def samples(text: bytes) -> dict[tuple[str, Labels], float]:
    """Every sample by name and labels, none of them twice."""
    found = [
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in families(text)
        for sample in family.samples
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def both(brokers: list[BrokerStats]) -> dict[tuple[str, Labels], float]:
    """The samples, which are the same in either format."""
    text, openmetrics = (
        samples(exposition(brokers, openmetrics=is_open)) for is_open in (False, True)
    )
    assert text.keys() == openmetrics.keys()
    return text


def one(found: dict[tuple[str, Labels], float], name: str, **labels: str) -> float:
    """The value of the sample with exactly these labels."""
    return found[name, frozenset(labels.items())]


def test_names_are_those_of_kafkas_dashboards():
    values = counted_values(BytesInPerSec=1234, UnderReplicatedPartitions=2, LeaderCount=9)
    found = both([broker_stats(7, values=values)])
    one_of = {"broker": "7"}
    assert one(found, "kafka_server_brokertopicmetrics_bytesin_total", **one_of) == 1234
    assert one(found, "kafka_server_replicamanager_underreplicatedpartitions", **one_of) == 2
    assert one(found, "kafka_server_replicamanager_leadercount", **one_of) == 9
    assert one(found, "kafka_controller_kafkacontroller_activecontrollercount", **one_of) == 0
    requests = "kafka_network_requestmetrics_requests_total"
    assert one(found, requests, request="Metadata", **one_of) == 1
    assert one(found, "kafka_server_socket_server_metrics_connection_count", **one_of) == 0


def test_a_sum_is_left_out_where_kafka_has_only_its_parts():
    values = {
        "kafka.network:type=RequestMetrics,name=RequestsPerSec": 3,
        "kafka.network:type=RequestMetrics,name=ThrottleTimeMs": 3,
        "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Fetch": 3,
        "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec": 8,
        "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t": 8,
    }
    names = [name for name, _ in both([broker_stats(values=values)])]
    assert names.count("kafka_network_requestmetrics_requests_total") == 1
    assert names.count("kafka_server_brokertopicmetrics_bytesin_total") == 2
    assert len(names) == 8


def test_processes_by_the_names_of_every_exporter():
    text = exposition([broker_stats(3)], processes={3: PROCESS}, openmetrics=True)
    found = samples(text)
    assert one(found, "process_cpu_seconds_total", broker="3") == 12.5
    assert one(found, "process_resident_memory_bytes", broker="3") == 80 << 20
    assert one(found, "process_start_time_seconds", broker="3") == 1_790_000_000.25
    own = process_figures(os.getpid())
    assert own is not None
    assert own.resident_bytes > 1 << 20
    assert 0 < own.open_files < own.files_max
    assert process_figures(2**31 - 2) is None, "no process has that id"


def test_processes_have_other_figures_without_a_limit_of_files(monkeypatch):
    monkeypatch.delattr(psutil.Process, "rlimit")
    own = process_figures(os.getpid())
    assert own is not None
    assert own.files_max is None
    text = exposition([broker_stats(3)], processes={3: own}, openmetrics=True)
    assert b"process_open_fds" in text
    assert b"process_max_fds" not in text


OPEN = "application/openmetrics-text"


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        (OPEN, True),
        (f"{OPEN};version=1.0.0", True),
        (f'{OPEN}; version="1.0.0"; charset=utf-8', True),
        (f"{OPEN};version=2.0.0", False),
        (f"{OPEN};q=0", False),
        (f"{OPEN};q=many,text/plain", False),
        (f"text/plain;version=0.0.4;q=0.9,{OPEN};q=0.5", False),
        (f"{OPEN};version=1.0.0,{OPEN};version=0.0.1;q=0.75,text/plain;q=0.5,*/*;q=0.1", True),
        (
            f"{OPEN};version=1.0.0;escaping=allow-utf-8;q=0.6,{OPEN};version=0.0.1;q=0.5,"
            "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,*/*;q=0.2",
            True,
        ),
    ],
)
def test_openmetrics_is_returned_when_preferred(accept, is_open):
    assert accepts_openmetrics(accept) == is_open


def test_closed_connections_are_not_errors_of_an_api():
    counters = BrokerCounters(MmapStats.in_memory(rows=0), [ApiKey.FETCH])
    counters.on_error(ApiKey.FETCH, 3)
    counters.set("FailedConnectionsPerSec", 5)
    values = read_memory(memoryview(counters.stats.memory)).values
    text = exposition([broker_stats(values=values)], openmetrics=False)
    errors = [line for line in text.decode().splitlines() if "requestmetrics_errors_total" in line]
    assert errors[0].startswith(
        "# HELP kafka_network_requestmetrics_errors_total errors in responses of one API"
    )
    found = samples(text)
    labels = {"broker": "0", "request": "FetchConsumer", "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert one(found, "kafka_network_requestmetrics_errors_total", **labels) == 1
    assert one(found, "milena_server_connections_failedconnections_total", broker="0") == 5


def test_families_have_types_and_help():
    brokers = [
        broker_stats(0, **counted(), rows=[LIMITED], groups=[GROUP, *LAGS]),
        broker_stats(1, **counted(), rows=[LIMITED]),
    ]
    for is_open in (False, True):
        found = families(exposition(brokers, openmetrics=is_open))
        assert [each.name for each in found if not each.documentation] == []
        assert {each.type for each in found} == {"counter", "gauge", "summary", "histogram"}
        for family in found:
            ends_so = all(sample.name.endswith("_total") for sample in family.samples)
            assert ends_so == (family.type == "counter"), family.name


def test_a_clients_quota_with_its_limit():
    found = both([broker_stats(rows=[LIMITED])])
    client = {"broker": "0", "user": "ANONYMOUS", "client_id": "loader-1"}
    assert one(found, "kafka_server_produce_byte_rate", **client) == 1_500_000
    assert one(found, "kafka_server_produce_throttle_time", **client) == 420
    quota = {**client, "quota": "produce"}
    assert one(found, "milena_quota_limit", rule="client", **quota) == 1_000_000
    assert one(found, "milena_quota_utilisation_ratio", **quota) == 1.5
    assert one(found, "milena_quota_throttled_requests_total", **quota) == 30
    assert one(found, "milena_quota_throttle_seconds_total", **quota) == 12.6
    assert one(found, "milena_quota_muted_seconds_total", **quota) == 11
    connections = one(found, "milena_client_connections", software="librdkafka 2.5.0", **client)
    assert connections == 2


def test_exceeded_limit_of_zero_has_infinite_utilization():
    row = QuotaRow(quota="fetch", user="u", client_id="c", rule="user", limit=0.0, rate=1.0)
    found = both([broker_stats(rows=[row])])
    labels = {"broker": "0", "user": "u", "client_id": "c", "quota": "fetch"}
    assert one(found, "milena_quota_utilisation_ratio", **labels) == math.inf


def test_a_client_without_a_limit_has_none():
    row = QuotaRow(quota="request", user="u", client_id="c", rate=3.5)
    found = both([broker_stats(rows=[row])])
    labels = {"broker": "0", "user": "u", "client_id": "c"}
    assert one(found, "kafka_server_request_request_time", **labels) == 3.5
    assert "milena_quota_limit" not in {name for name, _ in found}


@pytest.mark.parametrize("state", [DEAD, SILENT])
def test_silent_broker_is_down_and_has_no_series(state):
    gone = broker_stats(1, state=state, **counted(), rows=[LIMITED], groups=[GROUP])
    found = both([broker_stats(0, **counted()), gone])
    assert one(found, "kafka_up", broker="0") == 1
    assert one(found, "kafka_up", broker="1") == 0
    of_it = {name for name, labels in found if ("broker", "1") in labels}
    assert of_it == {"kafka_up", "milena_broker_silence_seconds"}


def test_exposition_is_empty_without_brokers():
    assert exposition([], openmetrics=False) == b""
    assert exposition([], openmetrics=True) == b"# EOF\n"


def test_clients_beyond_the_bound_are_summed_up(monkeypatch):
    monkeypatch.setattr(client_series, "CLIENTS_MAX", 50)
    clients_max = 50
    rows = [
        QuotaRow(quota="produce", user="u", client_id=f"c{number}", rate=2.0, requests=number)
        for number in range(clients_max + 5)
    ]
    rows.append(QuotaRow(quota="produce", user="_other", client_id="_other", rate=7.0))
    rows.append(QuotaRow(quota="produce", user="u", client_id="limited", rate=2.0, limit=1.0))
    found = both([broker_stats(rows=rows)])
    rates = {labels: value for (name, labels), value in found.items() if "byte_rate" in name}
    assert len(rates) == clients_max + 1
    assert one(found, "milena_clients", broker="0") == clients_max + 7
    assert one(found, "milena_clients_other", broker="0") == 7
    other = {"broker": "0", "user": "_other", "client_id": "_other"}
    assert one(found, "kafka_server_produce_byte_rate", **other) == 7 + 6 * 2
    limited = {"broker": "0", "user": "u", "client_id": "limited", "quota": "produce"}
    assert one(found, "milena_quota_utilisation_ratio", **limited) == 2
    counters = [labels for name, labels in found if name == "milena_quota_requests_total"]
    assert len(counters) == clients_max


def test_groups_by_the_names_of_kafka_exporter():
    found = both([broker_stats(groups=[GROUP, *LAGS])])
    group = {"broker": "0", "consumergroup": "g"}
    assert one(found, "kafka_consumergroup_members", **group) == 3
    assert one(found, "milena_consumergroup_state", state="Stable", **group) == 1
    first = {**group, "topic": "t", "partition": "0"}
    assert one(found, "kafka_consumergroup_lag", **first) == 30
    assert one(found, "kafka_consumergroup_lag_sum", topic="t", **group) == 30
    unknown = ("kafka_consumergroup_lag", frozenset({**first, "partition": "1"}.items()))
    assert unknown not in found


def test_partitions_of_groups_are_bounded(monkeypatch):
    monkeypatch.setattr(prometheus, "LAGS_MAX", 50)
    lags_max = 50
    lags = [{**LAGS[0], "partition": number} for number in range(lags_max + 10)]
    found = both([broker_stats(groups=[GROUP, *lags])])
    assert one(found, "milena_consumergroup_partitions_left_out", broker="0") == 11
    named = [labels for name, labels in found if name == "kafka_consumergroup_lag"]
    assert len(named) == lags_max - 1


def test_quantiles_cover_the_last_minutes():
    recent = RecentTimes()
    quantile = {"broker": "0", "request": "Produce", "quantile": "0.5"}

    def median(requests: dict[str, dict[str, Histogram]], written_ms: int) -> float:
        text = exposition(
            [broker_stats(requests=requests, written_ms=written_ms)], recent, openmetrics=True
        )
        return one(samples(text), "kafka_network_requestmetrics_localtimems", **quantile)

    slow = Histogram(1_400, (*[0] * 10, 2, *[0] * (BUCKETS - 11)))
    assert 0.512 <= median({"Produce": {"LocalTimeMs": slow}}, 0) <= 1.024  # all of it
    faster = Histogram(1_450, (0, 50, *slow.counts[2:]))
    assert median({"Produce": {"LocalTimeMs": faster}}, 400_000) < 0.002
    # There were none in the last five minutes.
    assert math.isnan(median({"Produce": {"LocalTimeMs": faster}}, 1_000_000))


def test_throttle_times_are_means_over_the_last_seconds():
    throttles = RecentThrottles()
    client = {"broker": "0", "user": "u", "client_id": "c"}

    def told(written_ms: int, throttled: int, throttle_ms: float, pid: int = 1) -> float:
        row = QuotaRow(
            quota="fetch",
            user="u",
            client_id="c",
            delay_ms=7,
            throttled=throttled,
            throttle_ms=throttle_ms,
        )
        broker = broker_stats(rows=[row], written_ms=written_ms)
        broker = replace(broker, stats=replace(broker.stats, pid=pid))
        text = exposition([broker], None, throttles, openmetrics=True)
        return one(samples(text), "kafka_server_fetch_throttle_time", **client)

    assert told(0, 10, 5_000) == 500, "since it began"
    assert told(5_000, 12, 5_200) == 100
    assert told(5_000, 12, 5_200) == 100, "somebody else looks at the same"
    assert told(10_000, 12, 5_200) == 100, "of the last ten seconds"
    assert told(15_000, 12, 5_200) == 0, "nothing was throttled"
    assert told(20_000, 14, 5_800) == 300
    assert told(80_000, 15, 5_900) == 100, "since the last scrape, where they are rare"
    assert told(85_000, 2, 20) == 10, "its row is a new one"
    assert told(90_000, 30, 300, pid=2) == 10, "the broker began again"


def test_times_of_requests_have_quantiles_sum_number_and_buckets():
    found = both([broker_stats(**counted(produce_us=700, count=2))])
    labels = {"broker": "0", "request": "Produce"}
    name = "kafka_network_requestmetrics_totaltimems"
    assert one(found, f"{name}_sum", **labels) == 1.4
    assert one(found, f"{name}_count", **labels) == 2
    assert 0.5 <= one(found, name, quantile="0.99", **labels) <= 1.1
    buckets = "milena_network_requestmetrics_totaltime_seconds_bucket"
    assert one(found, buckets, le="0.000512", **labels) == 0
    assert one(found, buckets, le="0.001024", **labels) == 2
    assert one(found, buckets, le="+Inf", **labels) == 2


def test_topics_have_series_of_their_own():
    found = both([broker_stats(**counted())])
    labels = {"broker": "0", "topic": "t"}
    assert one(found, "kafka_server_brokertopicmetrics_bytesin_total", **labels) == 3
    assert one(found, "kafka_log_log_size", **labels) == 3


@examples(40)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
            | st.sampled_from(["a\\nb", 'q"', "new\nline", "\r\x00", "x" * 10_000, "_other", "🎈"]),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
            st.sampled_from(["produce", "fetch", "request", "mutation"]),
        ),
        max_size=8,
    )
)
def test_any_name_can_be_read_back(clients):
    rows = [
        QuotaRow(quota=quota, user=user, client_id=client, rate=1.0, limit=2.0, connections=1)
        for user, client, quota in clients
    ]
    found = both([broker_stats(rows=rows)])
    rates = {
        name: value
        for name, value in found.items()
        if name[0].endswith(("_rate", "request_request_time"))
    }
    assert sum(rates.values()) == len(rows)
    for _, labels in rates:
        assert all(len(value) <= LABEL_MAX for _, value in labels)


def test_cluster_state_and_problems_are_series() -> None:
    problems = (Problem("broker_paused", "broker 1 is paused", 1),) * 2
    text = exposition([], health=Health("degraded", 1, 3, problems), openmetrics=False).decode()
    assert 'milena_cluster_state{state="degraded"} 1\n' in text
    assert 'milena_cluster_state{state="up"} 0\n' in text
    assert "milena_cluster_brokers_serving 1\n" in text
    assert 'milena_cluster_problems{kind="broker_paused"} 2\n' in text
    assert 'milena_cluster_problems{kind="log_dir_full"} 0\n' in text
