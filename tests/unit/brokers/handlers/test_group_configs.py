"""Group configs: setting, describing and listing them, on every broker (KIP-848)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.handlers.config_alterations import APPEND, DELETE, SET
from cluster.config.snapshot import Source
from cluster.coordinator.cluster_store import group_config
from cluster.coordinator.groups.consumer.requests import ConsumerTimings
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, HandlerStage, StageConnection
from tests.support.kafka_wire import request

GROUP = 32
SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
DEFAULTS = ConsumerTimings(45_000, 5_000)
CODES = ErrorCode

Operations = list[tuple[str, int, str | None]]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        made.core.groups.configs.follower.load_at_start()
        yield made


def answered(stage: HandlerStage, client: StageConnection) -> Any:
    """The answer, after the registry has run its pending operations."""
    while client.is_waiting:
        stage.store.work()
        stage.turn()
    return client.receive()


def altered(
    stage: HandlerStage, operations: Operations, name: str = "g", *, validate_only: bool = False
) -> tuple[int, str | None]:
    """Code and message of the answer for one group."""
    client = stage.connect()
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in operations
    ]
    resource = {"resource_type": GROUP, "resource_name": name, "configs": configs}
    client.send(
        request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=validate_only
        )
    )
    (result,) = answered(stage, client).responses
    assert (result.resource_type, result.resource_name) == (GROUP, name)
    return result.error_code, result.error_message


def described(stage: HandlerStage, name: str = "g", keys: list[str] | None = None) -> Any:
    asked = {"resource_type": GROUP, "resource_name": name, "configuration_keys": keys}
    answer = stage.connect().call(
        request(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[asked],
            include_synonyms=True,
            include_documentation=True,
        )
    )
    (result,) = answer.results
    return result


def listed(stage: HandlerStage, *types: int, version: int = 1) -> Any:
    return stage.connect().call(
        request(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=list(types))
    )


def test_group_uses_the_brokers_values_until_it_has_its_own(stage: HandlerStage) -> None:
    assert stage.core.groups.configs.timings("g") == DEFAULTS
    assert altered(stage, [(SESSION, SET, "50000")]) == (CODES.none, None)
    assert stage.core.groups.configs.timings("g") == ConsumerTimings(50_000, 5_000)
    assert stage.core.groups.configs.timings("h") == DEFAULTS
    entries = {each.name: each for each in described(stage).configs}
    assert list(entries) == sorted(entries)
    assert {INTERVAL, SESSION} < entries.keys()
    assert (entries[SESSION].value, entries[SESSION].config_source) == ("50000", 8)
    assert (entries[INTERVAL].value, entries[INTERVAL].config_source) == ("5000", Source.DEFAULT)
    (synonym,) = entries[SESSION].synonyms
    assert (synonym.name, synonym.value, synonym.source) == (SESSION, "50000", 8)
    assert not entries[SESSION].read_only
    assert altered(stage, [(SESSION, DELETE, None)]) == (CODES.none, None)
    assert stage.core.groups.configs.timings("g") == DEFAULTS


def test_group_config_changed_through_another_broker_applies_here(stage: HandlerStage) -> None:
    stage.store.call(
        lambda store: store.configs.write(
            group_config("g"), {INTERVAL: "6000"}, -1, stage.clock.wall_ms()
        )
    )
    stage.turn()
    stage.store.work()
    stage.turn()
    assert stage.core.groups.configs.timings("g") == ConsumerTimings(45_000, 6_000)


@pytest.mark.parametrize("texts", [{INTERVAL: "1"}, {SESSION: "x"}, {"retention.ms": "5"}])
def test_invalid_group_configs_in_the_registry_are_ignored(
    stage: HandlerStage, texts: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    stage.store.call(
        lambda store: store.configs.write(group_config("g"), texts, -1, stage.clock.wall_ms())
    )
    stage.core.groups.configs.follower.load_at_start()
    assert stage.core.groups.configs.timings("g") == DEFAULTS
    assert "ignored the configs of group g" in caplog.text


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        ([(SESSION, SET, "44999")], CODES.invalid_config, f"{SESSION} must be greater than or"),
        ([(SESSION, SET, "60001")], CODES.invalid_config, f"{SESSION} must be less than or equal"),
        ([(INTERVAL, SET, "4999")], CODES.invalid_config, f"{INTERVAL} must be greater than or"),
        ([(INTERVAL, SET, "15001")], CODES.invalid_config, f"{INTERVAL} must be less than or"),
        ([(INTERVAL, SET, "x")], CODES.invalid_config, "is not valid"),
        ([("session.timeout", SET, "1")], CODES.invalid_config, "Unknown group setting"),
        ([("share.session.timeout.ms", SET, "0")], CODES.invalid_config, "1 or more"),
        ([(SESSION, SET, None)], CODES.invalid_request, "Null value not supported"),
        ([(SESSION, APPEND, "1")], CODES.invalid_config, "append is not allowed"),
        ([(SESSION, 9, "1")], CODES.invalid_request, "Unknown operation type"),
        ([(SESSION, SET, "50000"), (SESSION, SET, "50001")], CODES.invalid_request, "duplicate"),
    ],
)
def test_an_invalid_group_config_is_refused(
    stage: HandlerStage, operations: Operations, code: int, message: str
) -> None:
    found, text = altered(stage, operations)
    assert (found, message in (text or "")) == (code, True), text
    assert stage.core.groups.configs.group_ids() == []


def test_session_timeout_must_exceed_the_heartbeat_interval(tmp_path: Path) -> None:
    bounds = {
        "group.consumer.min.session.timeout.ms": "5000",
        "group.consumer.max.heartbeat.interval.ms": "60000",
    }
    with HandlerStage(tmp_path / "data", bounds) as stage:
        code, text = altered(stage, [(INTERVAL, SET, "45000")])
        assert code == CODES.invalid_config
        assert text == f"{SESSION} must be greater than {INTERVAL}"


def test_empty_group_name_is_refused(stage: HandlerStage) -> None:
    assert altered(stage, [(SESSION, SET, "50000")], "")[0] == CODES.invalid_request
    assert described(stage, "").error_code == CODES.invalid_request


def test_validate_only_changes_no_group_config(stage: HandlerStage) -> None:
    assert altered(stage, [(SESSION, SET, "50000")], validate_only=True)[0] == CODES.none
    assert stage.core.groups.configs.group_ids() == []


@pytest.mark.parametrize("name", ["a/b", ".", "..", "<default>", "\u00e9 %2F~", "x" * 300])
def test_any_group_id_can_have_configs(stage: HandlerStage, name: str) -> None:
    assert altered(stage, [(SESSION, SET, "50000")], name)[0] == CODES.none
    assert stage.core.groups.configs.group_ids() == [name]
    assert stage.core.groups.configs.timings(name) == ConsumerTimings(50_000, 5_000)


def test_only_the_requested_keys_are_described(stage: HandlerStage) -> None:
    assert [each.name for each in described(stage, keys=[SESSION, "x"]).configs] == [SESSION]


def test_resources_with_configs_are_listed(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER])))
    altered(stage, [(SESSION, SET, "50000")])
    groups = listed(stage, GROUP)
    assert [(each.resource_type, each.resource_name) for each in groups.config_resources] == [
        (GROUP, "g")
    ]
    everything = {
        (each.resource_type, each.resource_name) for each in listed(stage).config_resources
    }
    assert everything >= {(GROUP, "g"), (2, "t"), (4, str(BROKER)), (8, str(BROKER))}
    assert listed(stage, GROUP, 99).error_code == CODES.unsupported_version
    assert listed(stage, version=0).config_resources == ()
