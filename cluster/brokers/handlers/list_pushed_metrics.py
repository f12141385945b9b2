"""ListPushedMetrics (API key 31010, specific to this cluster, version 0): the last values that
clients pushed to this broker (KIP-714).

Answers immediately. As ExplainGroup, Kafka does not have it; `protocol/peer/pushed_metrics.py`
defines the bodies. Clients that pushed last come first; one whose values would exceed the limit is
only counted, and so are those after it.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from cluster.brokers.client_metrics.pushed import PushedClient, is_wanted
from cluster.brokers.handlers.access import DESCRIBE_CLUSTER, may
from cluster.brokers.handlers.own_requests import own_request
from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import AdminServices
from cluster.brokers.network.connection import Connection
from cluster.metrics.kafka_names import kafka_api_name
from cluster.model.errors import ErrorCode
from cluster.model.ids import encode_uuid
from cluster.model.kept_names import kept_name
from cluster.protocol.api import Api, ApiKey, OwnApiKey
from cluster.protocol.otlp import Labels
from cluster.protocol.peer.pushed_metrics import (
    ANSWER,
    MEASURED_MAX,
    QUESTION,
    VALUES_MAX,
    MeasuredLatency,
    PushedLabel,
    PushedMetricsAnswer,
    PushedMetricsQuestion,
    PushedValue,
    PushingClient,
)

API: Final = Api(OwnApiKey.LIST_PUSHED_METRICS, 0, 0)


def handle(
    asked: PushedMetricsQuestion, context: RequestContext, services: AdminServices
) -> PushedMetricsAnswer:
    """The wanted values of all clients, as many as fit."""
    now_ms = services.clock.wall_ms()
    if not may(services, context, DESCRIBE_CLUSTER):
        code = ErrorCode.cluster_authorization_failed
        return PushedMetricsAnswer(code, services.broker_id, now_ms, (), 0, ())
    client_id = None if asked.client_id is None else kept_name(asked.client_id)
    room = min(asked.values_max, VALUES_MAX)
    found: list[PushingClient] = []
    left_out = 0
    for instance, client in services.client_metrics.pushed:
        if client_id not in (None, client.facts["client_id"]):
            continue
        values = () if left_out else _values(client, asked.prefixes)
        if left_out or len(values) > room:
            left_out += 1
            continue
        room -= len(values)
        found.append(_client(encode_uuid(instance), client, values))
    return PushedMetricsAnswer(
        ErrorCode.none,
        services.broker_id,
        now_ms,
        tuple(found),
        left_out,
        _measured(services.connected, client_id),
    )


def _measured(
    connected: Iterable[tuple[Connection, str, str]], wanted: str | None
) -> tuple[MeasuredLatency, ...]:
    """The times of clients' requests, weighted by how many of each connection were timed."""
    sums: dict[tuple[str, str, str], tuple[float, int]] = {}
    for channel, user, client_id in connected:
        if wanted not in (None, client_id):
            continue
        for route in channel.routes.values():
            if route.handler.api.key not in (ApiKey.PRODUCE, ApiKey.FETCH) or not route.timed_count:
                continue
            key = user, client_id, kafka_api_name(route.handler.api.key.name)
            total, count = sums.get(key, (0.0, 0))
            sums[key] = total + route.mean_us * route.timed_count, count + route.timed_count
        if len(sums) >= MEASURED_MAX:
            break
    return tuple(
        MeasuredLatency(*key, total / count)
        for key, (total, count) in islice(sums.items(), MEASURED_MAX)
    )


def _values(client: PushedClient, prefixes: tuple[str, ...]) -> tuple[PushedValue, ...]:
    return tuple(
        PushedValue(name, _labels(labels), float(each.value), each.is_counter)
        for (name, labels), each in client.series.items()
        if is_wanted(name, prefixes)
    )


def _client(instance: str, client: PushedClient, values: tuple[PushedValue, ...]) -> PushingClient:
    facts = client.facts
    return PushingClient(
        instance,
        facts["client_id"],
        facts["client_software_name"],
        facts["client_software_version"],
        facts["client_source_address"],
        client.user,
        _labels(client.labels),
        client.ts_ms,
        client.pushes,
        client.left_out,
        client.is_closed,
        values,
    )


def _labels(labels: Labels) -> tuple[PushedLabel, ...]:
    return tuple(PushedLabel(*each) for each in labels)


HANDLER: Final = own_request(
    API, handle, AdminServices, QUESTION.read, ANSWER.pack, authorizes=(DESCRIBE_CLUSTER,)
)
