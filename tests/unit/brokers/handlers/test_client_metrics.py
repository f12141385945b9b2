"""Client metrics (KIP-714): subscriptions as configs, and the requests of clients."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.handlers.config_alterations import APPEND, DELETE, SET
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.coordinator.cluster_store import client_metrics_config
from cluster.metrics.mmap_stats import MmapStats
from cluster.model.errors import ErrorCode
from cluster.protocol.api import CLIENT_METRICS_APIS, ApiKey, OwnApiKey
from cluster.protocol.peer import pushed_metrics
from cluster.protocol.peer.pushed_metrics import PushedLabel, PushedMetricsQuestion
from cluster.records.batch import Compression
from cluster.records.compression import compress
from tests.support import otlp_messages as otlp
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import a_batch
from tests.support.handler_stage import BROKER, HandlerStage, StageConnection
from tests.support.kafka_wire import produce_to, request

CLIENT_METRICS = 16
CODES = ErrorCode
PAYLOAD = otlp.metrics_data([otlp.counter("sent", 3), otlp.gauge("latency", 1.5)], group_id="g")

Operations = list[tuple[str, int, str | None]]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        made.core.clients.client_metrics.configs.follower.load_at_start()
        yield made


def altered(stage: HandlerStage, operations: Operations, name: str = "one") -> ErrorCode:
    client = stage.connect()
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in operations
    ]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": configs}
    client.send(
        request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    )
    while client.is_waiting:
        stage.store.work()
        stage.turn()
    (result,) = client.receive().responses
    return ErrorCode(result.error_code)


def described(stage: HandlerStage, name: str = "one") -> Any:
    asked = {"resource_type": CLIENT_METRICS, "resource_name": name, "configuration_keys": None}
    (result,) = (
        stage.connect()
        .call(
            request(
                ApiKey.DESCRIBE_CONFIGS,
                4,
                resources=[asked],
                include_synonyms=True,
                include_documentation=True,
            )
        )
        .results
    )
    return result


def listed(stage: HandlerStage, version: int) -> list[str]:
    types = {} if version == 0 else {"resource_types": [CLIENT_METRICS]}
    answer = stage.connect().call(request(ApiKey.LIST_CONFIG_RESOURCES, version, **types))
    return [each.resource_name for each in answer.config_resources]


def asked(client: StageConnection, instance: UUID | None = None) -> Any:
    return client.call(
        request(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=instance or UUID(int=0))
    )


def pushed(
    client: StageConnection, told: Any, metrics: bytes = PAYLOAD, codec: Compression | int = 0
) -> ErrorCode:
    answer = client.call(
        request(
            ApiKey.PUSH_TELEMETRY,
            0,
            client_instance_id=told.client_instance_id,
            subscription_id=told.subscription_id,
            terminating=False,
            compression_type=int(codec),
            metrics=metrics,
        )
    )
    return ErrorCode(answer.error_code)


def listed_apis(stage: HandlerStage) -> set[int]:
    """Those that ApiVersions lists."""
    answer = stage.connect().call(request(ApiKey.API_VERSIONS, 2))
    return {int(each.api_key) for each in answer.api_keys}


def test_client_metrics_apis_are_listed_while_there_is_a_subscription(stage: HandlerStage) -> None:
    usual = listed_apis(stage)
    assert not usual & CLIENT_METRICS_APIS
    assert altered(stage, [("metrics", SET, "*")]) is CODES.none
    assert listed_apis(stage) == usual | CLIENT_METRICS_APIS
    assert altered(stage, [("metrics", SET, "*")], name="two") is CODES.none
    assert altered(stage, [("metrics", DELETE, None)]) is CODES.none
    assert listed_apis(stage) == usual | CLIENT_METRICS_APIS
    assert altered(stage, [("metrics", DELETE, None)], name="two") is CODES.none
    assert listed_apis(stage) == usual


def test_client_metrics_apis_are_served_while_they_are_not_listed(stage: HandlerStage) -> None:
    """A client that learned of them before asks on."""
    told = asked(stage.connect())
    assert (told.error_code, told.requested_metrics) == (CODES.none, ())


def subscribed(stage: HandlerStage) -> StageConnection:
    """A client, with a subscription for it."""
    assert altered(stage, [("metrics", SET, "*"), ("interval.ms", SET, "1000")]) is CODES.none
    return stage.connect()


def test_subscriptions_are_set_described_listed_and_removed(stage: HandlerStage) -> None:
    assert altered(stage, [("metrics", SET, "a,b"), ("interval.ms", SET, "500")]) is CODES.none
    assert altered(stage, [("metrics", APPEND, "c")]) is CODES.none
    entries = {each.name: each for each in described(stage).configs}
    assert {name: (each.value, each.config_source) for name, each in entries.items()} == {
        "interval.ms": ("500", 7),
        "match": ("", 5),
        "metrics": ("a,b,c", 7),
    }
    assert listed(stage, 0) == listed(stage, 1) == ["one"]
    removed: Operations = [("metrics", DELETE, None), ("interval.ms", DELETE, None)]
    assert altered(stage, removed) is CODES.none
    assert listed(stage, 1) == []
    assert described(stage).configs[0].value == "300000"


@pytest.mark.parametrize(
    ("name", "operation", "code"),
    [
        ("", ("metrics", SET, "a"), CODES.invalid_request),
        ("one", ("metric", SET, "a"), CODES.invalid_request),
        ("one", ("interval.ms", SET, "99"), CODES.invalid_request),
        ("one", ("interval.ms", APPEND, "99"), CODES.invalid_config),
        ("one", ("match", SET, "nothing"), CODES.invalid_config),
        ("one", ("metrics", SET, None), CODES.invalid_request),
    ],
)
def test_bad_subscriptions_are_refused(
    stage: HandlerStage, name: str, operation: tuple[str, int, str | None], code: ErrorCode
) -> None:
    assert altered(stage, [operation], name) is code
    assert listed(stage, 1) == []
    assert described(stage, "").error_code == CODES.invalid_request


def test_a_subscription_that_another_broker_stored_counts_here(stage: HandlerStage) -> None:
    wall_ms = stage.clock.wall_ms()
    for name, texts in (("good", {"metrics": "a"}), ("bad", {"match": "?"})):
        stage.store.call(
            lambda store, name=name, texts=texts: store.configs.write(
                client_metrics_config(name), texts, -1, wall_ms
            )
        )
    stage.turn()
    stage.store.work()
    stage.turn()
    assert asked(stage.connect()).requested_metrics == ("a",)


def test_a_client_is_told_what_to_push_and_its_values_are_kept(stage: HandlerStage) -> None:
    client = subscribed(stage)
    client.software = "librdkafka", "2.16.0"
    told = asked(client)
    assert told.error_code == CODES.none
    assert told.client_instance_id
    assert told.requested_metrics == ("*",)
    assert told.accepted_compression_types == (4, 3, 1, 2)
    assert (told.telemetry_max_bytes, told.delta_temporality) == (1 << 20, True)
    assert asked(client, told.client_instance_id).error_code == CODES.throttling_quota_exceeded
    assert pushed(client, told) is CODES.none
    assert pushed(client, told) is CODES.throttling_quota_exceeded

    ((instance, found),) = stage.core.clients.client_metrics.pushed
    assert instance == told.client_instance_id
    assert found.facts["client_software_name"] == "librdkafka"
    assert found.facts["client_source_address"] == "127.0.0.1"
    assert found.labels == (("group_id", "g"),)
    assert {name: each.value for (name, _), each in found.series.items()} == {
        "sent": 3,
        "latency": 1.5,
    }


def show(stage: HandlerStage, *prefixes: str, client_id: str | None = None, most: int = 100) -> Any:
    question = pushed_metrics.QUESTION.pack(PushedMetricsQuestion(client_id, prefixes, most))
    header = struct.pack(">hhih", OwnApiKey.LIST_PUSHED_METRICS, 0, 7, 4) + b"tool"
    answer = stage.connect().exchange(header + question)
    assert answer is not None
    return pushed_metrics.ANSWER.read(answer[8:])


def test_pushed_values_are_listed_as_far_as_they_fit(stage: HandlerStage) -> None:
    client = subscribed(stage)
    for _ in range(2):
        pushed(client, asked(client))
    whole = show(stage)
    assert [len(each.values) for each in whole.clients] == [2, 2]
    assert whole.clients[0].labels == (PushedLabel("group_id", "g"),)
    assert [each.values[0].name for each in show(stage, "sen").clients] == ["sent", "sent"]
    assert (len(show(stage, most=3).clients), show(stage, most=3).clients_left_out) == (1, 1)
    assert show(stage, client_id="another").clients == ()
    assert len(show(stage, client_id="wire").clients) == 2


def test_the_times_that_the_broker_measures_are_listed_by_client(tmp_path: Path) -> None:
    counters = BrokerCounters(MmapStats.in_memory(), [handler.api.key for handler in HANDLERS])
    with HandlerStage(tmp_path / "data", counters=counters) as stage:
        stage.update(a_topic("t", a_partition([BROKER])))
        client = stage.connect()
        for _ in range(3):
            client.call(produce_to(("t", 0, a_batch()), acks=1))
        (measured,) = show(stage).measured
        assert measured[:3] == ("ANONYMOUS", "wire", "Produce")
        assert measured.mean_us >= 0
        assert show(stage, client_id="another").measured == ()


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec_is_taken(stage: HandlerStage, codec: Compression) -> None:
    client = subscribed(stage)
    assert pushed(client, asked(client), compress(codec, PAYLOAD), codec) is CODES.none
    assert len(stage.core.clients.client_metrics.pushed) == 1


@pytest.mark.parametrize(
    ("metrics", "codec", "code"),
    [
        (b"\xff" * 20, 0, CODES.invalid_record),
        (b"no gzip", 1, CODES.invalid_record),
        (PAYLOAD, 9, CODES.unsupported_compression_type),
        (bytes((1 << 20) + 1), 0, CODES.telemetry_too_large),
        (zlib.compress(bytes(5 << 20), wbits=31), 1, CODES.telemetry_too_large),
        (b"", 0, CODES.none),
    ],
    ids=["not OTLP", "not gzip", "unknown codec", "too large", "opens too far", "empty"],
)
def test_a_bad_push_is_refused_and_nothing_kept(
    stage: HandlerStage, metrics: bytes, codec: int, code: ErrorCode
) -> None:
    client = subscribed(stage)
    assert pushed(client, asked(client), metrics, codec) is code
    assert len(stage.core.clients.client_metrics.pushed) == 0


def test_without_subscriptions_a_client_is_asked_for_nothing(stage: HandlerStage) -> None:
    told = asked(stage.connect())
    assert told.requested_metrics == ()
    assert told.push_interval.total_seconds() == 300


def test_values_of_silent_clients_are_forgotten(stage: HandlerStage) -> None:
    client = subscribed(stage)
    pushed(client, asked(client))
    metrics = stage.core.clients.client_metrics
    assert len(metrics.pushed) == len(metrics.instances) == 1
    stage.clock.pass_time(60_000)
    metrics.instances.expire(stage.clock.monotonic_ms())
    assert len(metrics.pushed) == len(metrics.instances) == 0
