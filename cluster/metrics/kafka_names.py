"""The tables of metrics per topic and per request, and Kafka's names of all metrics."""

from typing import Final

from cluster.metrics.broker_metrics import BROKER_METRICS
from cluster.metrics.declarations import Metric, RequestPart, without_labels
from cluster.metrics.stats_layout import MetricKind
from cluster.model.units import Unit

_COUNTER: Final = MetricKind.COUNTER
_GAUGE: Final = MetricKind.GAUGE


def _of_topic(key: str, kind: MetricKind, unit: Unit, doc: str, beginning: str = "") -> Metric:
    name = beginning or "kafka.server:type=BrokerTopicMetrics"
    return Metric(key, f"{name},name={key},topic=<topic>", kind, unit, doc)


TOPIC_METRICS: Final = (
    _of_topic(
        "BytesInPerSec", _COUNTER, Unit.BYTES, "bytes of record batches that clients produced"
    ),
    _of_topic("MessagesInPerSec", _COUNTER, Unit.RECORDS, "records that clients produced"),
    _of_topic(
        "BytesOutPerSec", _COUNTER, Unit.BYTES, "bytes of record batches that clients fetched"
    ),
    _of_topic(
        "TotalProduceRequestsPerSec", _COUNTER, Unit.PARTITIONS, "partitions of produce requests"
    ),
    _of_topic(
        "FailedProduceRequestsPerSec",
        _COUNTER,
        Unit.PARTITIONS,
        "refused partitions of produce requests",
    ),
    _of_topic(
        "TotalFetchRequestsPerSec",
        _COUNTER,
        Unit.PARTITIONS,
        "partitions of answered fetch requests",
    ),
    _of_topic(
        "FailedFetchRequestsPerSec",
        _COUNTER,
        Unit.PARTITIONS,
        "refused partitions of fetch requests",
    ),
    _of_topic(
        "Size",
        _GAUGE,
        Unit.BYTES,
        "bytes of the topic's replicas on this broker",
        "kafka.log:type=Log",
    ),
    _of_topic(
        "NumLogSegments",
        _GAUGE,
        Unit.SEGMENTS,
        "segments of the topic's replicas on this broker",
        "kafka.log:type=Log",
    ),
    _of_topic(
        "PartitionCount",
        _GAUGE,
        Unit.REPLICAS,
        "the topic's replicas on this broker",
        "milena.server:type=Topics",
    ),
    _of_topic(
        "LeaderCount",
        _GAUGE,
        Unit.PARTITIONS,
        "the topic's partitions that this broker leads",
        "milena.server:type=Topics",
    ),
    _of_topic(
        "UnderReplicated",
        _GAUGE,
        Unit.PARTITIONS,
        "led partitions with a replica that is not in sync",
        "kafka.cluster:type=Partition",
    ),
    _of_topic(
        "UnderMinIsr",
        _GAUGE,
        Unit.PARTITIONS,
        "led partitions below min.insync.replicas",
        "kafka.cluster:type=Partition",
    ),
    _of_topic(
        "AtMinIsr",
        _GAUGE,
        Unit.PARTITIONS,
        "led partitions exactly at min.insync.replicas",
        "kafka.cluster:type=Partition",
    ),
)
"""The metrics of each topic, in the order of the stats file. `<topic>` stands for its name."""


REQUEST_PARTS: Final = (
    RequestPart("TotalTimeMs", "from the arrival of the request to the last byte of its response"),
    RequestPart(
        "RequestQueueTimeMs",
        "from the arrival of the complete request until the broker's thread began to process it:"
        " the thread was busy with other requests of the same turn of its loop, or with earlier"
        " requests of the connection",
    ),
    RequestPart(
        "LocalTimeMs",
        "processing by the broker's thread until the request was answered or had to wait",
    ),
    RequestPart(
        "RemoteTimeMs", "waiting for other brokers, records, a rebalance, or the controller"
    ),
    RequestPart("ThrottleTimeMs", "the throttle time in the response; not part of the total"),
    RequestPart(
        "ResponseQueueTimeMs",
        "waiting of the encoded response for responses to other requests of the connection",
    ),
    RequestPart(
        "ResponseSendTimeMs",
        "from the first attempt to send the response until the socket had accepted all of it",
    ),
)
"""In the order of the stats file, which has a histogram in microseconds for each."""


def kafka_api_name(key_name: str) -> str:
    """`ApiVersions` for `API_VERSIONS`; `FetchConsumer` for FETCH, since followers use ZeroMQ."""
    words = "".join(word.capitalize() for word in key_name.split("_"))
    return "FetchConsumer" if words == "Fetch" else words


_OF_API: Final = "kafka.network:type=RequestMetrics,name="

REQUEST_METRICS: Final = (
    Metric(
        "RequestsPerSec",
        f"{_OF_API}RequestsPerSec,request=<Api>",
        _COUNTER,
        Unit.REQUESTS,
        "requests of one API: `Produce`, `FetchConsumer`, `Metadata`, ...",
    ),
    Metric(
        "RequestsPerSec",
        f"{_OF_API}RequestsPerSec,request=<Api>,version=<n>",
        _COUNTER,
        Unit.REQUESTS,
        "requests of one API in one version",
    ),
    Metric(
        "ErrorsPerSec",
        f"{_OF_API}ErrorsPerSec,request=<Api>,error=<ERROR>",
        _COUNTER,
        Unit.ERRORS,
        "errors in responses of one API; each item of a response counts separately; success"
        " (`NONE`) is not counted; after some 500 pairs of API and error, new ones count as"
        " `_other`",
    ),
)
"""The counters of each API; `<...>` stands for a part that varies."""

_BY_NAME: Final = {metric.name: metric for metric in BROKER_METRICS}
_BY_BEGINNING: Final = {
    without_labels(metric.name): metric for metric in (*TOPIC_METRICS, *REQUEST_METRICS[::-1])
}
_HELP: Final = {
    **{name: metric.doc for name, metric in _BY_BEGINNING.items()},
    **{name: metric.doc for name, metric in _BY_NAME.items()},
    **{without_labels(metric.name): metric.doc for metric in REQUEST_METRICS[::-1]},
    "kafka.server:type=group-coordinator-metrics,name=group-count": "groups, by protocol",
    "kafka.server:type=group-coordinator-metrics,name=consumer-group-count": (
        "groups of the newer consumer protocol, by state"
    ),
}


def declared(name: str) -> Metric | None:
    """The row of the tables for a name in a stats file; None for another version's name."""
    return _BY_NAME.get(name) or _BY_BEGINNING.get(without_labels(name))


def help_of(name: str) -> str:
    """The meaning of all metrics of this name, whatever their labels; empty if unknown."""
    return _HELP.get(without_labels(name)) or _HELP.get(name, "")


def requests_of(key_name: str, version: str | None = None) -> str:
    """The name of the counter of one API's requests, in all versions or in one."""
    name = f"{_OF_API}RequestsPerSec,request={kafka_api_name(key_name)}"
    return name if version is None else f"{name},version={version}"


def errors_of(api: str, error: str) -> str:
    """The name of the counter of one error in the responses of an API."""
    return f"{_OF_API}ErrorsPerSec,request={api},error={error}"
