"""CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders, configs and producer ids."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_response_schema

from cluster.brokers.network.connection import MuteReason
from cluster.coordinator.controller.leader_elections import ElectionType
from cluster.model.errors import ErrorCode, PeerError, Refused
from cluster.model.ids import TopicPartition
from cluster.model.plan import Outcome
from cluster.model.quotas import QuotaEntity, QuotaKind
from cluster.model.topics import TopicAlteration
from cluster.protocol.api import ApiKey
from cluster.protocol.peer.control import (
    AlterTopicConfigs,
    TopicOutcome,
    TopicOutcomes,
)
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import WireClient, header_of, request

ALL = [BROKER, OTHER, THIRD]
DONE = Outcome(ErrorCode.none)
TOPIC, BROKER_RESOURCE, GROUP = 2, 4, 3
SET, DELETE, APPEND, SUBTRACT = range(4)


def creation(*topics: dict[str, Any], version: int = 7, validate_only: bool = False) -> Any:
    plain = {"num_partitions": 2, "replication_factor": 3, "assignments": [], "configs": []}
    return request(
        ApiKey.CREATE_TOPICS,
        version,
        topics=[plain | topic for topic in topics],
        timeout=7_000,
        validate_only=validate_only,
    )


# -- CreateTopics ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_by_the_controller(stage: HandlerStage, version: int) -> None:
    client = stage.connect()
    config = {"name": "retention.ms", "value": "5"}
    assignment = {"partition_index": 0, "broker_ids": [2, 3]}
    client.send(
        creation({"name": "t", "configs": [config], "assignments": [assignment]}, version=version)
    )
    assert client.is_waiting

    asked = stage.controller.take()
    (new,) = asked.subjects
    assert (new.name, new.partition_count, new.replication_factor) == ("t", 2, 3)
    assert (new.configs, new.assignment) == ({"retention.ms": "5"}, {0: (2, 3)})
    assert (asked.timeout_ms, asked.validate_only) == (7_000, False)

    made = a_topic("t", a_partition(ALL), a_partition(ALL), configs={"retention.ms": "5"})
    asked.on_done({"t": DONE}, {"t": made})
    (result,) = client.receive().topics
    assert (result.name, result.error_code) == ("t", 0)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (2, 3)
        assert {c.name: c.value for c in result.configs}["retention.ms"] == "5"
    if version >= 7:
        assert result.topic_id == made.topic_id


def test_invalid_topics_are_refused_without_the_controller(stage: HandlerStage) -> None:
    client = stage.connect()
    client.send(
        creation(
            {"name": "twice"},
            {"name": "good"},
            {"name": "null", "configs": [{"name": "retention.ms", "value": None}]},
            {"name": "twice"},
            validate_only=True,
        )
    )

    asked = stage.controller.take()
    assert [new.name for new in asked.subjects] == ["good"]
    assert asked.validate_only
    asked.on_done({"good": DONE}, {"good": a_topic("good", a_partition(ALL))})

    assert {t.name: t.error_code for t in client.receive().topics} == {
        "twice": ErrorCode.invalid_request,
        "good": 0,
        "null": ErrorCode.invalid_config,
    }


def test_topic_creation_continues_when_the_client_disconnects(stage: HandlerStage) -> None:
    client = stage.connect()
    client.send(creation({"name": "t"}))

    client.close()

    stage.controller.take().on_done({"t": DONE}, {"t": a_topic("t", a_partition(ALL))})
    assert client.receive() is None


# -- DeleteTopics and CreatePartitions -------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_the_controller(stage: HandlerStage, version: int) -> None:
    client = stage.connect()
    topic_id = uuid.uuid4()
    named = [{"name": "t", "topic_id": None}, {"name": None, "topic_id": topic_id}]
    client.send(
        request(ApiKey.DELETE_TOPICS, version, topics=named, topic_names=["t", "u"], timeout=7_000)
    )

    asked = stage.controller.take()
    second = (None, topic_id) if version >= 6 else ("u", None)
    assert asked.subjects == [("t", None), second]
    unknown = Outcome(ErrorCode.unknown_topic_or_partition, "no")
    asked.on_done([("t", None, DONE), ("u", topic_id, unknown)])

    first, other = client.receive().responses
    assert (first.name, first.error_code) == ("t", 0)
    assert (other.name, other.error_code) == ("u", ErrorCode.unknown_topic_or_partition)


def test_delete_topics_refuses_topics_named_twice_or_by_both_name_and_id(
    stage: HandlerStage,
) -> None:
    """Codes and messages are those of Kafka 4.1."""
    known = a_topic("known", a_partition(ALL))
    stage.update(known)
    client, other = stage.connect(), uuid.uuid4()
    client.send(
        request(
            ApiKey.DELETE_TOPICS,
            6,
            topics=[
                {"name": name, "topic_id": topic_id}
                for name, topic_id in [
                    *((None, None), ("both", other), ("twice", None), ("twice", None)),
                    *((None, other), (None, other), ("t", None)),
                    *((None, known.topic_id), ("known", None), ("both", None)),
                ]
            ],
            timeout=7_000,
        )
    )
    asked = stage.controller.take()
    assert asked.subjects == [("t", None), ("both", None)]
    asked.on_done([("t", None, DONE), ("both", None, DONE)])
    answers = {
        (each.name, each.topic_id): (each.error_code, each.error_message)
        for each in client.receive().responses
    }
    refused = ErrorCode.invalid_request
    mapped = "The provided topic name maps to an ID that was already supplied."
    assert answers == {
        ("t", None): (0, None),
        ("both", None): (0, None),
        (None, None): (refused, "Neither topic name nor id were specified."),
        ("both", other): (refused, "You may not specify both topic name and topic id."),
        ("twice", None): (refused, "Duplicate topic name."),
        (None, other): (refused, "Duplicate topic id."),
        ("known", known.topic_id): (refused, mapped),
    }


def test_delete_topics_is_refused_when_deletion_is_disabled(tmp_path: Path) -> None:
    with HandlerStage(tmp_path, {"delete.topic.enable": "false"}) as stage:
        answer = stage.connect().call(
            request(ApiKey.DELETE_TOPICS, 5, topic_names=["t"], timeout=1_000)
        )

        assert [r.error_code for r in answer.responses] == [ErrorCode.topic_deletion_disabled]
        assert stage.controller.asked == []


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_by_the_controller(stage: HandlerStage, version: int) -> None:
    client = stage.connect()
    client.send(
        request(
            ApiKey.CREATE_PARTITIONS,
            version,
            topics=[
                {"name": "t", "count": 4, "assignments": None},
                {"name": "u", "count": 2, "assignments": [{"broker_ids": [1, 2]}]},
            ],
            timeout=7_000,
            validate_only=True,
        )
    )

    asked = stage.controller.take()
    assert asked.subjects == [("t", 4, None), ("u", 2, [(1, 2)])]
    assert (asked.timeout_ms, asked.validate_only) == (7_000, True)
    asked.on_done({"t": DONE, "u": Outcome(ErrorCode.invalid_partitions, "why")})

    first, second = client.receive().results
    assert (first.name, first.error_code) == ("t", 0)
    assert (second.error_code, second.error_message) == (ErrorCode.invalid_partitions, "why")


# -- ElectLeaders ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_leaders_are_elected_by_the_controller(stage: HandlerStage, version: int) -> None:
    client = stage.connect()
    asked_for = [{"topic": "t", "partitions": [0, 2]}, {"topic": "u", "partitions": [1]}]
    only = {"election_type": 1} if version else {}
    client.send(
        request(ApiKey.ELECT_LEADERS, version, topic_partitions=asked_for, timeout=7_000, **only)
    )

    asked = stage.controller.take()
    first, second, third = (TopicPartition(*each) for each in (("t", 0), ("t", 2), ("u", 1)))
    election = ElectionType.UNCLEAN if version else ElectionType.PREFERRED
    assert (asked.subjects, asked.timeout_ms) == ((election, [first, second, third]), 7_000)
    refused = Outcome(ErrorCode.election_not_needed, "no")
    asked.on_done(DONE, [(first, DONE), (second, refused), (third, DONE)])

    answer = client.receive()
    assert [
        (
            each.topic,
            [(r.partition_id, r.error_code, r.error_message) for r in each.partition_result],
        )
        for each in answer.replica_election_results
    ] == [
        ("t", [(0, 0, None), (2, ErrorCode.election_not_needed, "no")]),
        ("u", [(1, 0, None)]),
    ]
    assert getattr(answer, "error_code", 0) == 0


def test_leaders_of_all_partitions_are_elected(stage: HandlerStage) -> None:
    client = stage.connect()
    everything = request(
        ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=None, timeout=1_000
    )
    client.send(everything)
    asked = stage.controller.take()
    assert asked.subjects == (ElectionType.PREFERRED, None)
    asked.on_done(Outcome(ErrorCode.not_controller), [])
    answer = client.receive()
    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.not_controller, ())


def test_an_election_names_the_partitions_of_the_request_as_often_as_it(
    stage: HandlerStage,
) -> None:
    client = stage.connect()
    asked_for = [("t", [0, 0]), ("none", []), ("u", [1]), ("t", [0])]
    topics = [{"topic": name, "partitions": numbers} for name, numbers in asked_for]
    client.send(
        request(ApiKey.ELECT_LEADERS, 2, topic_partitions=topics, timeout=1, election_type=0)
    )
    asked = stage.controller.take()
    asked.on_done(DONE, [(each, DONE) for each in asked.subjects[1]])
    assert [
        (each.topic, [result.partition_id for result in each.partition_result])
        for each in client.receive().replica_election_results
    ] == asked_for


def test_a_refused_election_of_all_partitions_names_them_where_nothing_else_tells(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", a_partition(ALL)), a_topic("u", a_partition(ALL), a_partition(ALL)))
    client = stage.connect()
    client.send(request(ApiKey.ELECT_LEADERS, 0, topic_partitions=None, timeout=1_000))
    stage.controller.take().on_done(Outcome(ErrorCode.not_controller), [])
    assert [
        (each.topic, [(result.partition_id, result.error_code) for result in each.partition_result])
        for each in client.receive().replica_election_results
    ] == [
        ("t", [(0, ErrorCode.not_controller)]),
        ("u", [(0, ErrorCode.not_controller), (1, ErrorCode.not_controller)]),
    ]


def test_election_of_unknown_type_is_refused(stage: HandlerStage) -> None:
    some = [{"topic": "t", "partitions": [0]}]
    answer = stage.connect().call(
        request(ApiKey.ELECT_LEADERS, 2, election_type=2, topic_partitions=some, timeout=1_000)
    )
    ((result,),) = (each.partition_result for each in answer.replica_election_results)
    assert answer.error_code == result.error_code == ErrorCode.invalid_request
    assert result.error_message == "Unknown election type 2"
    none = request(ApiKey.ELECT_LEADERS, 2, election_type=2, topic_partitions=[], timeout=1_000)
    empty = stage.connect().call(none)
    assert (empty.error_code, empty.replica_election_results) == (0, ())
    assert stage.controller.asked == []


# -- DescribeConfigs -------------------------------------------------------------------------------


def described(
    stage: HandlerStage, *resources: tuple[int, str, list[str] | None], version: int = 4
) -> list[Any]:
    answer = stage.connect().call(
        request(
            ApiKey.DESCRIBE_CONFIGS,
            version,
            resources=[
                {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
                for kind, name, keys in resources
            ],
            include_synonyms=True,
            include_documentation=False,
        )
    )
    return list(answer.results)


@pytest.mark.parametrize("version", range(1, 5))
def test_describe_configs_returns_configs_of_topics_and_of_this_broker(
    stage: HandlerStage, version: int
) -> None:
    stage.update(a_topic("t", a_partition(ALL), configs={"retention.ms": "5"}))

    topic, broker, everyone = described(
        stage,
        (TOPIC, "t", ["retention.ms", "no.such"]),
        (BROKER_RESOURCE, str(BROKER), ["broker.id"]),
        (BROKER_RESOURCE, "", None),
        version=version,
    )

    assert [(c.name, c.value) for c in topic.configs] == [("retention.ms", "5")]
    assert [(c.name, c.value) for c in broker.configs] == [("broker.id", str(BROKER))]
    assert (everyone.error_code, everyone.configs) == (0, ())


def test_repeated_resource_is_described_once(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL)))

    results = described(
        stage,
        *[(BROKER_RESOURCE, str(BROKER), None)] * 5_000,
        (TOPIC, "t", ["retention.ms"]),
        (TOPIC, "t", ["segment.bytes"]),
    )

    assert [r.resource_name for r in results] == [str(BROKER), "t", "t"]
    assert [len(r.configs) for r in results[1:]] == [1, 1]


def test_configs_of_many_topics_are_described_in_slices(stage: HandlerStage) -> None:
    names = [f"t{number}" for number in range(100)]
    stage.update(*(a_topic(name, a_partition(ALL)) for name in names))
    client = stage.connect()
    client.send(
        request(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[
                {"resource_type": TOPIC, "resource_name": name, "configuration_keys": None}
                for name in (*names, "missing")
            ],
            include_synonyms=True,
            include_documentation=True,
        )
    )
    assert client.is_waiting
    while not stage.slices.is_idle:
        stage.loop.run_once(max_wait_ms=0)
    *told, missing = client.receive().results
    assert [r.resource_name for r in told] == names
    assert all(len(r.configs) > 20 for r in told)
    assert missing.error_code == ErrorCode.unknown_topic_or_partition


def test_describing_many_configs_stops_when_the_client_disconnects(stage: HandlerStage) -> None:
    stage.update(*(a_topic(f"t{number}", a_partition(ALL)) for number in range(50)))
    client = stage.connect()
    client.send(
        request(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[
                {"resource_type": TOPIC, "resource_name": f"t{number}", "configuration_keys": None}
                for number in range(50)
            ],
            include_synonyms=False,
            include_documentation=False,
        )
    )
    client.close()
    stage.loop.run_once(max_wait_ms=0)
    assert stage.slices.is_idle


def test_describe_configs_refuses_invalid_resources(stage: HandlerStage) -> None:
    stage.update()

    results = described(
        stage,
        (TOPIC, "none", None),
        (TOPIC, "..", None),
        (BROKER_RESOURCE, "2", None),
        (GROUP, "g", None),
    )

    assert [r.error_code for r in results] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_topic_exception,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
    ]
    assert all(r.configs == () for r in results)


# -- AlterConfigs and IncrementalAlterConfigs ------------------------------------------------------


def incremental(*resources: tuple[int, str, list[tuple[str, int, str | None]]]) -> Any:
    return request(
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
            for kind, name, operations in resources
        ],
        validate_only=False,
    )


def altered(stage: HandlerStage, message: Any, codes: dict[str, int] | None = None) -> Any:
    """Answer as the controller with these codes; returns its requests and the results."""
    client = stage.connect()
    client.send(message)
    request = None
    if stage.link.asked:
        (asked,) = stage.link.asked
        request = asked.request
        assert isinstance(request, AlterTopicConfigs)
        stage.link.answer_all(
            None
            if codes is None
            else TopicOutcomes(
                [TopicOutcome(name, ErrorCode(code), None) for name, code in codes.items()]
            )
        )
    stage.turn()
    return request, {r.resource_name: r.error_code for r in client.receive().responses}


def test_list_configs_are_appended_to_and_subtracted_from(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL), configs={"cleanup.policy": "compact"}))

    for operation, given, expected in [
        (APPEND, "delete", "compact,delete"),
        (APPEND, "compact", "compact"),
        (SUBTRACT, "compact", ""),
        (SUBTRACT, "delete", "compact"),
        (SET, "delete", "delete"),
        (DELETE, None, None),
    ]:
        body, _ = altered(stage, incremental((TOPIC, "t", [("cleanup.policy", operation, given)])))
        assert repr(expected) in repr(body) or expected is None
        assert "'cleanup.policy'" in repr(body)


def test_an_invalid_alteration_is_refused_without_affecting_the_others(stage: HandlerStage) -> None:
    stage.update(a_topic("good", a_partition(ALL)))
    retention = ("retention.ms", SET, "5")

    body, results = altered(
        stage,
        incremental(
            (TOPIC, "twice", [retention]),
            (TOPIC, "twice", [retention]),
            (BROKER_RESOURCE, "2", [("log.retention.ms", SET, "5")]),
            (GROUP, "g", [retention]),
            (TOPIC, "..", [retention]),
            (TOPIC, "same", [retention, retention]),
            (TOPIC, "null", [("retention.ms", SET, None)]),
            (TOPIC, "what", [("retention.ms", 7, "5")]),
            (TOPIC, "nolist", [("retention.ms", APPEND, "5")]),
            (TOPIC, "unknown", [("no.such", APPEND, "5")]),
            (TOPIC, "good", [retention]),
        ),
        {"good": 0},
    )

    invalid = ErrorCode.invalid_request
    assert results == {
        "twice": invalid,
        "2": invalid,
        "g": invalid,
        "..": ErrorCode.invalid_topic_exception,
        "same": invalid,
        "null": invalid,
        "what": invalid,
        "nolist": ErrorCode.invalid_config,
        "unknown": ErrorCode.invalid_config,
        "good": 0,
    }
    assert "good" in repr(body)
    assert "twice" not in repr(body)


def test_alteration_times_out_when_the_controller_does_not_answer(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition(ALL)))

    _, results = altered(stage, incremental((TOPIC, "t", [("retention.ms", SET, "5")])))

    assert results == {"t": ErrorCode.request_timed_out}


def test_empty_alteration_is_answered_immediately(stage: HandlerStage) -> None:
    body, results = altered(stage, incremental())

    assert (body, results) == (None, {})


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_all_values(stage: HandlerStage, version: int) -> None:
    stage.update(a_topic("t", a_partition(ALL), configs={"segment.bytes": "12345"}))
    message = request(
        ApiKey.ALTER_CONFIGS,
        version,
        resources=[
            {
                "resource_type": TOPIC,
                "resource_name": "t",
                "configs": [{"name": "retention.ms", "value": "5"}],
            }
        ],
        validate_only=True,
    )

    body, results = altered(stage, message, {"t": int(ErrorCode.policy_violation)})

    assert results == {"t": ErrorCode.policy_violation}
    assert body == AlterTopicConfigs((TopicAlteration("t", True, {"retention.ms": "5"}),), True)


# -- InitProducerId --------------------------------------------------------------------------------


def init_producer_id(
    transactional_id: str | None = None, present: tuple[int, int] = (-1, -1), version: int = 4
) -> Any:
    return request(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=transactional_id,
        transaction_timeout=1_000,
        producer_id=present[0],
        producer_epoch=present[1],
    )


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_its_own_id(stage: HandlerStage, version: int) -> None:
    first, second = stage.connect(), stage.connect()
    assert first.call(init_producer_id(version=version)) is None
    ((on_done, _),) = stage.producer_id_blocks

    on_done(range(1_000, 2_000))
    answers = [first.receive(), second.call(init_producer_id(version=version))]

    assert [(a.error_code, a.producer_id, a.producer_epoch) for a in answers] == [
        (0, 1_000, 0),
        (0, 1_001, 0),
    ]


def test_producer_id_is_refused_with_coordinator_not_available_without_a_registry(
    stage: HandlerStage,
) -> None:
    client = stage.connect()
    client.send(init_producer_id())
    ((_, on_failed),) = stage.producer_id_blocks

    on_failed(ConnectionError("gone"))

    answer = client.receive()
    assert answer.error_code == ErrorCode.coordinator_not_available
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (init_producer_id("tx"), ErrorCode.not_coordinator),
        (init_producer_id(""), ErrorCode.invalid_request),
        (init_producer_id(present=(5, -1)), ErrorCode.invalid_request),
        (init_producer_id(present=(-1, 5)), ErrorCode.invalid_request),
    ],
)
def test_no_producer_id_is_used_for_refused_requests(
    stage: HandlerStage, message: Any, code: ErrorCode
) -> None:
    answer = stage.connect().call(message)

    assert answer.error_code == code
    assert stage.producer_id_blocks == []


def test_producer_that_bumps_its_epoch_gets_a_new_id(stage: HandlerStage) -> None:
    client = stage.connect()
    client.send(init_producer_id(present=(77, 3)))
    ((on_done, _),) = stage.producer_id_blocks

    on_done(range(1_000, 2_000))

    assert client.receive().producer_id == 1_000


# -- ApiVersions and the pipeline ------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_the_supported_apis(stage: HandlerStage, version: int) -> None:
    answer = stage.connect().call(
        request(
            ApiKey.API_VERSIONS, version, client_software_name="me", client_software_version="1"
        )
    )

    served = {int(a.api_key): (a.min_version, a.max_version) for a in answer.api_keys}
    assert served[ApiKey.PRODUCE] == (0, 13)
    assert served[ApiKey.FETCH] == (4, 18)
    assert ApiKey.LIST_OFFSETS in served


def test_api_versions_stores_the_client_software_on_the_connection(stage: HandlerStage) -> None:
    client = stage.connect()
    named = {"client_software_name": "apache-kafka-java", "client_software_version": "3.9.0"}
    assert client.call(request(ApiKey.API_VERSIONS, 3, **named)).error_code == ErrorCode.none
    assert client.software == ("apache-kafka-java", "3.9.0")
    known = stage.core.limits.connected.get("ANONYMOUS", "wire")
    assert known is not None
    assert (known.connection_count, known.software) == (1, client.software)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a\n", "x" * 200 + "-"])
def test_invalid_client_software_name_is_refused(stage: HandlerStage, name: str) -> None:
    client = stage.connect()
    told = client.call(
        request(ApiKey.API_VERSIONS, 4, client_software_name=name, client_software_version="1")
    )
    assert (told.error_code, told.api_keys) == (ErrorCode.invalid_request, ())
    assert client.software == ("", "")


@pytest.mark.parametrize(
    ("api_key", "version", "reason"),
    [
        (ApiKey.PRODUCE, 2, "PRODUCE version 2 is not supported (supported: 3-13)"),
        (ApiKey.METADATA, 14, "METADATA version 14 is not supported (supported: 0-13)"),
        (999, 0, "API key 999 is not supported"),
    ],
)
def test_an_unsupported_request_closes_the_connection(
    stage: HandlerStage, api_key: int, version: int, reason: str
) -> None:
    channel: Any = stage.connect()
    no_tags = b"\0"

    with pytest.raises(PeerError) as refused:
        stage.pipeline.on_frame(channel, memoryview(header_of(api_key, version) + no_tags))

    assert str(refused.value) == reason


def test_unknown_version_of_api_versions_is_answered_in_version_0(
    stage: HandlerStage,
) -> None:
    answers: list[bytes] = []
    channel: Any = stage.connect()
    channel.respond = lambda buffers: answers.append(b"".join(buffers))

    stage.pipeline.on_frame(channel, memoryview(header_of(ApiKey.API_VERSIONS, 99) + b"\0"))

    schema = load_response_schema(int(ApiKey.API_VERSIONS), 0)
    answer = WireClient.parse(answers[0][4:], schema, 1)
    assert answer.error_code == ErrorCode.unsupported_version
    assert ApiKey.API_VERSIONS in [int(a.api_key) for a in answer.api_keys]


# -- controller_mutation_rate (KIP-599) ------------------------------------------------------------


def deletion(name: str, version: int) -> Any:
    named = (
        {"topic_names": [name]} if version < 6 else {"topics": [{"name": name, "topic_id": None}]}
    )
    return request(ApiKey.DELETE_TOPICS, version, timeout=7_000, **named)


def enlargement(name: str, version: int) -> Any:
    topic = {"name": name, "count": 3, "assignments": None}
    return request(
        ApiKey.CREATE_PARTITIONS, version, topics=[topic], timeout=7_000, validate_only=False
    )


@pytest.mark.parametrize(
    ("message", "is_strict"),
    [
        (creation({"name": "t"}, version=5), False),
        (creation({"name": "t"}, version=6), True),
        (creation({"name": "t"}, version=7), True),
        (deletion("t", 4), False),
        (deletion("t", 5), True),
        (deletion("t", 6), True),
        (enlargement("t", 2), False),
        (enlargement("t", 3), True),
    ],
)
def test_mutations_over_the_limit_are_refused_from_each_apis_strict_version_on(
    stage: HandlerStage, message: Any, is_strict: bool
) -> None:
    entity = QuotaEntity(None, "wire")
    stage.quotas.replace_quotas({entity: {QuotaKind.MUTATION: 1.0}})
    client = stage.connect()
    client.send(message)
    asked = stage.controller.take()
    admit = asked.admit
    admit("large", 15)  # eleven at once
    if is_strict:
        with pytest.raises(Refused):
            admit("t", 1)
    else:
        admit("t", 1)
    stage.pass_time(2_000)
    outcome = DONE if not is_strict else Outcome(ErrorCode.throttling_quota_exceeded, "so")
    if message.__api_key__ == ApiKey.CREATE_TOPICS:
        asked.on_done({"t": outcome}, {"t": a_topic("t", a_partition(ALL))})
    elif message.__api_key__ == ApiKey.DELETE_TOPICS:
        asked.on_done([("t", None, outcome)])
    else:
        asked.on_done({"t": outcome})
    answer = client.receive()
    assert answer.throttle_time.total_seconds() == (2 if is_strict else 3)
    assert client.mute_reasons == MuteReason.QUOTA
    stage.pass_time(3_000)
    assert client.mute_reasons == 0
