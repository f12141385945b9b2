"""Broker configs that clients change while brokers run: requests, answers, descriptions
(KIP-226).
"""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.brokers.handlers.config_alterations import APPEND, DELETE, SET, SUBTRACT
from cluster.config.snapshot import Source
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, HandlerStage, StageConnection
from tests.support.kafka_wire import request

TOPIC, BROKER_RESOURCE, LOGGERS = 2, 4, 8
ME = str(BROKER)
EVERYONE = ""
CODES = ErrorCode

Operations = list[tuple[str, int, str | None]]


def answered(stage: HandlerStage, client: StageConnection) -> Any:
    """The answer, after the registry has run its pending operations."""
    while client.is_waiting:
        stage.store.work()
        stage.turn()
    stage.store.work()
    stage.turn()
    return client.receive()


def incremental(
    stage: HandlerStage,
    name: str,
    operations: Operations,
    *,
    validate_only: bool = False,
    kind: int = BROKER_RESOURCE,
) -> tuple[int, str | None]:
    """Code and message of the answer for one broker, or for its loggers."""
    client = stage.connect()
    client.send(
        request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [
                        {"name": key, "config_operation": operation, "value": value}
                        for key, operation, value in operations
                    ],
                }
            ],
            validate_only=validate_only,
        )
    )
    (result,) = answered(stage, client).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message


def replaced(stage: HandlerStage, name: str, values: dict[str, str | None], version: int) -> int:
    """The code of AlterConfigs for one broker."""
    client = stage.connect()
    client.send(
        request(
            ApiKey.ALTER_CONFIGS,
            version,
            resources=[
                {
                    "resource_type": BROKER_RESOURCE,
                    "resource_name": name,
                    "configs": [{"name": key, "value": text} for key, text in values.items()],
                }
            ],
            validate_only=False,
        )
    )
    (result,) = answered(stage, client).responses
    code: int = result.error_code
    return code


def described(stage: HandlerStage, kind: int, name: str) -> dict[str, Any]:
    answer = stage.connect().call(
        request(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": None}],
            include_synonyms=True,
            include_documentation=True,
        )
    )
    (result,) = answer.results
    assert result.error_code == 0
    return {config.name: config for config in result.configs}


def synonyms(config: Any) -> list[tuple[str, str, str]]:
    return [(Source(each.source).name, each.name, each.value) for each in config.synonyms]


def test_broker_and_cluster_wide_values_are_described_with_their_sources(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs={"retention.ms": "1000"}))
    assert incremental(stage, ME, [("log.segment.bytes", SET, "5000000")]) == (0, None)
    everyone: Operations = [("log.segment.bytes", SET, "6000000"), ("log.retention.ms", SET, "99")]
    assert incremental(stage, EVERYONE, everyone) == (0, None)

    mine = described(stage, BROKER_RESOURCE, ME)
    segment = mine["log.segment.bytes"]
    assert (segment.value, segment.config_source) == ("5000000", Source.DYNAMIC_BROKER)
    assert (segment.read_only, segment.is_sensitive) == (False, False)
    assert synonyms(segment) == [
        ("DYNAMIC_BROKER", "log.segment.bytes", "5000000"),
        ("DYNAMIC_DEFAULT_BROKER", "log.segment.bytes", "6000000"),
        ("DEFAULT", "log.segment.bytes", "1073741824"),
    ]
    assert mine["log.retention.ms"].value == "99"
    assert [mine[name].read_only for name in ("log.retention.hours", "broker.id", "listeners")] == [
        True
    ] * 3

    shared = described(stage, BROKER_RESOURCE, EVERYONE)
    assert {name: each.value for name, each in shared.items()} == {
        "log.segment.bytes": "6000000",
        "log.retention.ms": "99",
    }
    assert synonyms(shared["log.retention.ms"]) == [
        ("DYNAMIC_DEFAULT_BROKER", "log.retention.ms", "99")
    ]

    topic = described(stage, TOPIC, "t")
    assert synonyms(topic["retention.ms"]) == [
        ("DYNAMIC_TOPIC", "retention.ms", "1000"),
        ("DYNAMIC_DEFAULT_BROKER", "log.retention.ms", "99"),
        ("DEFAULT", "log.retention.ms", "604800000"),
    ]
    assert topic["segment.bytes"].config_source == Source.DYNAMIC_BROKER
    assert stage.partition("t").log.options.segment_bytes == 5_000_000


def test_list_configs_are_appended_to_subtracted_from_and_reset(stage: HandlerStage) -> None:
    def policy() -> str:
        value: str = described(stage, BROKER_RESOURCE, ME)["log.cleanup.policy"].value
        return value

    for operation, given, expected in [
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (APPEND, "compact", "compact"),
        (SUBTRACT, "compact", ""),
        (APPEND, "delete,delete", "delete"),
        (SET, "delete,compact,delete", "delete,compact,delete"),
        (SUBTRACT, "delete", "compact,delete"),  # the first one only, as Kafka does
        (DELETE, None, "delete"),
    ]:
        assert incremental(stage, ME, [("log.cleanup.policy", operation, given)]) == (0, None)
        assert policy() == expected


@pytest.mark.parametrize(
    ("name", "operations", "code", "detail"),
    [
        (
            ME,
            [("broker.id", SET, "9")],
            CODES.invalid_request,
            "Cannot update these configs dynamically: Set(broker.id)",
        ),
        (
            "2",
            [("log.segment.bytes", SET, "9000")],
            CODES.invalid_request,
            f"Unexpected broker id, expected {ME}, but received 2",
        ),
        ("x", [], CODES.invalid_request, "Node id must be an integer, but it is: x"),
        (
            ME,
            [("log.segment.bytes", APPEND, "9")],
            CODES.invalid_config,
            "Config value append is not allowed for config key: log.segment.bytes",
        ),
        (
            ME,
            [("log.segment.bytes", SUBTRACT, "9")],
            CODES.invalid_config,
            "Config value subtract is not allowed for config key: log.segment.bytes",
        ),
        (
            ME,
            [("log.segment.bytes", SET, "9000"), ("log.segment.bytes", SET, "9001")],
            CODES.invalid_request,
            "Error due to duplicate config keys : log.segment.bytes",
        ),
        (
            EVERYONE,
            [("log.segment.bytes", SET, "1")],
            CODES.invalid_request,
            "log.segment.bytes=1 is not valid: it must be a whole number, 14 or more",
        ),
        (
            ME,
            [("log.segment.bytes", SET, None)],
            CODES.invalid_request,
            "Null value not supported for : log.segment.bytes",
        ),
    ],
)
def test_refused_alteration_changes_nothing(
    stage: HandlerStage, name: str, operations: Operations, code: int, detail: str
) -> None:
    assert incremental(stage, name, operations) == (code, detail)
    assert stage.core.foundation.live.now is stage.core.foundation.live.started


def test_delete_of_an_unset_value_succeeds(stage: HandlerStage) -> None:
    assert incremental(stage, ME, [("nope", DELETE, None), ("broker.id", DELETE, None)]) == (
        0,
        None,
    )


def test_validate_only_changes_nothing(stage: HandlerStage) -> None:
    operations: Operations = [("log.segment.bytes", SET, "5000000")]
    assert incremental(stage, ME, operations, validate_only=True) == (0, None)
    assert stage.core.foundation.live.now is stage.core.foundation.live.started


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_all_values_of_a_level(stage: HandlerStage, version: int) -> None:
    incremental(stage, ME, [("log.segment.bytes", SET, "5000000")])
    assert replaced(stage, ME, {"log.retention.bytes": "777"}, version) == 0
    assert replaced(stage, EVERYONE, {"max.connections": "5"}, version) == 0
    assert replaced(stage, ME, {"broker.id": "1"}, version) == CODES.invalid_request
    assert replaced(stage, ME, {"log.retention.bytes": None}, version) == CODES.invalid_request
    sources = {
        name: Source(each.config_source).name
        for name, each in described(stage, BROKER_RESOURCE, ME).items()
        if each.config_source in (Source.DYNAMIC_BROKER, Source.DYNAMIC_DEFAULT_BROKER)
    }
    assert sources == {
        "log.retention.bytes": "DYNAMIC_BROKER",
        "max.connections": "DYNAMIC_DEFAULT_BROKER",
    }


def test_topics_and_brokers_in_one_request_are_answered_in_order(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER])))
    asked = [(BROKER_RESOURCE, ME, "log.segment.bytes"), (TOPIC, "", "segment.bytes")]
    asked += [(TOPIC, "t", "segment.bytes"), (BROKER_RESOURCE, "", "log.segment.bytes")]
    client = stage.connect()
    client.send(
        request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            0,
            resources=[
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [{"name": key, "config_operation": SET, "value": "4096"}],
                }
                for kind, name, key in asked
            ],
            validate_only=False,
        )
    )
    stage.link.answer_all(None)
    results = answered(stage, client).responses
    assert [(r.resource_type, r.resource_name, r.error_code) for r in results] == [
        (BROKER_RESOURCE, ME, 0),
        (TOPIC, "", CODES.invalid_request),
        (TOPIC, "t", CODES.request_timed_out),
        (BROKER_RESOURCE, "", 0),
    ]


def test_topic_config_that_contradicts_its_broker_is_left_out_of_the_description(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", a_partition([BROKER]), configs={"min.compaction.lag.ms": "100"}))
    incremental(stage, ME, [("log.cleaner.max.compaction.lag.ms", SET, "10")])
    assert described(stage, TOPIC, "t")["min.compaction.lag.ms"].value == "0"


# -- loggers (KIP-412) -----------------------------------------------------------------------------


@pytest.fixture
def logger() -> Iterator[str]:
    name = "cluster.tests.logger"
    made = logging.getLogger(name)
    yield name
    made.setLevel(logging.NOTSET)


def level_of(stage: HandlerStage, logger: str) -> Any:
    config = described(stage, LOGGERS, ME)[logger]
    assert (config.config_source, config.read_only, config.synonyms) == (6, False, ())
    return config.value


def test_logger_levels_apply_until_they_are_removed(stage: HandlerStage, logger: str) -> None:
    before = level_of(stage, logger)
    assert level_of(stage, "root") == before
    assert incremental(stage, ME, [(logger, SET, "DEBUG")], kind=LOGGERS) == (0, None)
    assert level_of(stage, logger) == "DEBUG"
    assert logging.getLogger(logger).isEnabledFor(logging.DEBUG)
    assert incremental(stage, ME, [(logger, SET, "FATAL")], kind=LOGGERS) == (0, None)
    assert logging.getLogger(logger).getEffectiveLevel() == logging.CRITICAL
    only_check = incremental(stage, ME, [(logger, SET, "TRACE")], kind=LOGGERS, validate_only=True)
    assert (only_check, level_of(stage, logger)) == ((0, None), "FATAL")
    assert incremental(stage, ME, [(logger, DELETE, None)], kind=LOGGERS) == (0, None)
    assert level_of(stage, logger) == before


@pytest.mark.parametrize(
    ("name", "operation", "code", "detail"),
    [
        (
            ME,
            ("root", SET, "LOUD"),
            CODES.invalid_config,
            "Cannot set the log level of root to LOUD as it is not a supported log level."
            " Valid log levels are FATAL, ERROR, WARN, INFO, DEBUG, TRACE",
        ),
        (
            ME,
            ("no.such.logger", SET, "INFO"),
            CODES.invalid_config,
            "Logger no.such.logger does not exist!",
        ),
        (
            ME,
            ("root", DELETE, None),
            CODES.invalid_request,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            ME,
            ("root", APPEND, "INFO"),
            CODES.invalid_request,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            EVERYONE,
            ("root", SET, "INFO"),
            CODES.invalid_request,
            "Node id must be an integer, but it is: ",
        ),
        (
            "2",
            ("root", SET, "INFO"),
            CODES.invalid_request,
            f"Unexpected broker id, expected {ME}, but received 2",
        ),
    ],
)
def test_invalid_logger_levels_are_refused(
    stage: HandlerStage, name: str, operation: Any, code: int, detail: str
) -> None:
    assert incremental(stage, name, [operation], kind=LOGGERS) == (code, detail)
