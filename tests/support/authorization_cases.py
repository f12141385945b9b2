"""What each API asks the authorizer: requests, the rights they need, and the errors without them.

A request is of a client that has no other right than those of its case. `tests/unit/brokers/
handlers/test_authorization.py` sends each with all of them, and with each of them missing.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final

from cluster.brokers.handlers import access
from cluster.coordinator.groups.history.explanation import pack_question, read_answer
from cluster.coordinator.transactions import explanation, held_back
from cluster.model.acls import CLUSTER_NAME, AclOperation, ResourceType, Right
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey, OwnApiKey
from cluster.protocol.peer import pushed_metrics
from tests.support.group_requests import (
    commit_offsets,
    delete_groups,
    delete_offsets,
    describe_groups,
    fetch_offsets,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
    topic_id,
)
from tests.support.handler_requests import a_batch, list_offsets_of
from tests.support.handler_stage import StageConnection
from tests.support.kafka_wire import fetch_request, metadata_request, produce_to, request

TOPIC: Final = "orders"
"""Exists, with one partition that the broker leads."""
NEW_TOPIC: Final = "new"
GROUP: Final = "billing"
TRANSACTION: Final = "tx"

Need = tuple[Right, str, ErrorCode]
"""A right, the name of the resource, and the error of a client that lacks it."""

NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION = (
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
)
AUTHORIZATION_ERRORS: Final = frozenset(
    {*access.NOT_ALLOWED.values(), ErrorCode.sasl_authentication_failed}
)


def on_topic(right: Right, name: str = TOPIC) -> Need:
    return right, name, NO_TOPIC


def on_group(right: Right) -> Need:
    return right, GROUP, NO_GROUP


def on_cluster(right: Right) -> Need:
    return right, CLUSTER_NAME, NO_CLUSTER


@dataclass(frozen=True)
class Case:
    """One request that is allowed with exactly these rights."""

    name: str
    key: int
    message: Any
    needs: tuple[Need, ...]
    codes_of: Callable[[StageConnection, Any], set[int]] = field(
        default=lambda client, message: codes_in(client.call(message))
    )
    """Sends the message; the error codes in the answer, none while it waits."""


def codes_in(answer: Any) -> set[int]:
    """Every error code that is not 0, wherever it stands in an answer."""
    return {code for code in _codes(answer) if code != 0}


def _codes(part: Any) -> Iterator[int]:
    if isinstance(part, tuple):
        for each in part:
            yield from _codes(each)
    elif is_dataclass(part):
        for one in fields(part):
            value = getattr(part, one.name)
            if one.name in ("error_code", "partition_error_code"):
                yield int(value)
            else:
                yield from _codes(value)


def _exchange(client: StageConnection, key: OwnApiKey, question: bytes) -> bytes:
    header = struct.pack(">hhih", key, 0, 7, 4) + b"tool"
    answer = client.exchange(header + question)
    assert answer is not None
    return answer[8:]


def _explain(client: StageConnection, group: str) -> set[int]:
    answer = _exchange(client, OwnApiKey.EXPLAIN_GROUP, pack_question(group))
    return {int(read_answer(answer).code)} - {0}


def _explain_transaction(client: StageConnection, name: str) -> set[int]:
    question = explanation.QUESTION.pack(name)
    answer = _exchange(client, OwnApiKey.EXPLAIN_TRANSACTION, question)
    return {int(explanation.ANSWER.read(answer).code)} - {0}


def _explain_partition(client: StageConnection, topic: str) -> set[int]:
    question = held_back.QUESTION.pack((held_back.PartitionQuestion(topic, 0),))
    answer = _exchange(client, OwnApiKey.EXPLAIN_LAST_STABLE_OFFSETS, question)
    return {int(each.code) for each in held_back.ANSWER.read(answer).unknown}


def _list_pushed_metrics(client: StageConnection, _message: Any) -> set[int]:
    question = pushed_metrics.QUESTION.pack(pushed_metrics.PushedMetricsQuestion(None, (), 1))
    answer = _exchange(client, OwnApiKey.LIST_PUSHED_METRICS, question)
    return {int(pushed_metrics.ANSWER.read(answer).code)} - {0}


def _configs(key: ApiKey, version: int, resource_type: int, name: str) -> Any:
    config = {"name": "x", "value": "1", "config_operation": 0}
    return request(
        key,
        version,
        resources=[
            {
                "resource_type": resource_type,
                "resource_name": name,
                "configs": [config],
                "configuration_keys": None,
            }
        ],
        validate_only=True,
        include_synonyms=False,
        include_documentation=False,
    )


def _config_cases() -> Iterator[Case]:
    rights = {
        ApiKey.DESCRIBE_CONFIGS: (
            4,
            access.DESCRIBE_TOPIC_CONFIGS,
            access.DESCRIBE_CLUSTER_CONFIGS,
            access.DESCRIBE_GROUP_CONFIGS,
        ),
        ApiKey.ALTER_CONFIGS: (
            2,
            access.ALTER_TOPIC_CONFIGS,
            access.ALTER_CLUSTER_CONFIGS,
            access.ALTER_GROUP_CONFIGS,
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (
            1,
            access.ALTER_TOPIC_CONFIGS,
            access.ALTER_CLUSTER_CONFIGS,
            access.ALTER_GROUP_CONFIGS,
        ),
    }
    for key, (version, topic_right, cluster_right, group_right) in rights.items():
        for what, kind, name, need in (
            ("topic", 2, TOPIC, on_topic(topic_right)),
            ("broker", 4, "1", on_cluster(cluster_right)),
            ("all brokers", 4, "", on_cluster(cluster_right)),
            ("loggers", 8, "1", on_cluster(cluster_right)),
            ("client metrics", 16, "latency", on_cluster(cluster_right)),
            ("group", 32, GROUP, on_group(group_right)),
        ):
            yield Case(f"{key.name} of {what}", key, _configs(key, version, kind, name), (need,))
    yield Case(
        "LIST_PUSHED_METRICS",
        OwnApiKey.LIST_PUSHED_METRICS,
        None,
        (on_cluster(access.DESCRIBE_CLUSTER),),
        _list_pushed_metrics,
    )


def _topic_cases() -> Iterator[Case]:
    ask = request
    yield Case(
        "PRODUCE",
        ApiKey.PRODUCE,
        produce_to((TOPIC, 0, a_batch(b"x")), acks=1),
        (on_topic(access.WRITE_TOPIC),),
    )
    yield Case(
        "PRODUCE by id",
        ApiKey.PRODUCE,
        produce_to((topic_id(TOPIC), 0, a_batch(b"x")), acks=1, version=13),
        (on_topic(access.WRITE_TOPIC),),
    )
    yield Case(
        "PRODUCE in a transaction",
        ApiKey.PRODUCE,
        produce_to((TOPIC, 0, a_batch(b"x")), transactional_id=TRANSACTION),
        (
            on_topic(access.WRITE_TOPIC),
            (access.WRITE_TRANSACTIONAL_ID, TRANSACTION, NO_TRANSACTION),
        ),
    )
    for version, topic in ((12, TOPIC), (17, topic_id(TOPIC))):
        yield Case(
            f"FETCH version {version}",
            ApiKey.FETCH,
            fetch_request(topic, 0, version=version),
            (on_topic(access.READ_TOPIC),),
        )
    yield Case(
        "LIST_OFFSETS",
        ApiKey.LIST_OFFSETS,
        list_offsets_of(TOPIC, (0, -1)),
        (on_topic(access.DESCRIBE_TOPIC),),
    )
    yield Case(
        "METADATA",
        ApiKey.METADATA,
        metadata_request(TOPIC),
        (on_topic(access.DESCRIBE_TOPIC),),
    )
    yield Case(
        "METADATA by id",
        ApiKey.METADATA,
        ask(
            ApiKey.METADATA,
            12,
            topics=[{"topic_id": topic_id(TOPIC), "name": None}],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
        (on_topic(access.DESCRIBE_TOPIC),),
    )
    for right, name in (
        (access.CREATE_TOPIC, NEW_TOPIC),
        (access.CREATE_ON_CLUSTER, CLUSTER_NAME),
    ):
        yield Case(
            f"METADATA of a topic that is created, with {right}",
            ApiKey.METADATA,
            metadata_request(NEW_TOPIC, auto_create=True),
            (on_topic(access.DESCRIBE_TOPIC, NEW_TOPIC), (right, name, NO_TOPIC)),
        )
        yield Case(
            f"CREATE_TOPICS with {right}",
            ApiKey.CREATE_TOPICS,
            ask(
                ApiKey.CREATE_TOPICS,
                7,
                topics=[
                    {
                        "name": NEW_TOPIC,
                        "num_partitions": 1,
                        "replication_factor": 1,
                        "assignments": [],
                        "configs": [],
                    }
                ],
                timeout=1_000,
                validate_only=False,
            ),
            ((right, name, NO_TOPIC),),
        )
    for version, asked in (
        (5, {"topic_names": [TOPIC]}),
        (6, {"topics": [{"name": TOPIC, "topic_id": None}]}),
        (6, {"topics": [{"name": None, "topic_id": topic_id(TOPIC)}]}),
    ):
        yield Case(
            f"DELETE_TOPICS {asked}",
            ApiKey.DELETE_TOPICS,
            ask(ApiKey.DELETE_TOPICS, version, timeout=1_000, **asked),
            (on_topic(access.DELETE_TOPIC),),
        )
    yield Case(
        "DELETE_RECORDS",
        ApiKey.DELETE_RECORDS,
        ask(
            ApiKey.DELETE_RECORDS,
            2,
            topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}],
            timeout=1_000,
        ),
        (on_topic(access.DELETE_TOPIC),),
    )
    yield Case(
        "CREATE_PARTITIONS",
        ApiKey.CREATE_PARTITIONS,
        ask(
            ApiKey.CREATE_PARTITIONS,
            3,
            topics=[{"name": TOPIC, "count": 2, "assignments": None}],
            timeout=1_000,
            validate_only=False,
        ),
        (on_topic(access.ALTER_TOPIC),),
    )
    yield Case(
        "DESCRIBE_TOPIC_PARTITIONS",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ask(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[{"name": TOPIC}],
            response_partition_limit=10,
            cursor=None,
        ),
        (on_topic(access.DESCRIBE_TOPIC),),
    )
    for some in ([{"topic": TOPIC, "partitions": [0]}], None):
        yield Case(
            f"ELECT_LEADERS {some}",
            ApiKey.ELECT_LEADERS,
            ask(ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=some, timeout=1_000),
            (on_cluster(access.ALTER_CLUSTER),),
        )
    yield Case(
        "UNREGISTER_BROKER",
        ApiKey.UNREGISTER_BROKER,
        ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=77),
        (on_cluster(access.ALTER_CLUSTER),),
    )
    some_moved = {"partition_index": 0, "replicas": [1]}
    yield Case(
        "ALTER_PARTITION_REASSIGNMENTS",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            1,
            topics=[{"name": TOPIC, "partitions": [some_moved]}],
            timeout=1_000,
        ),
        (on_cluster(access.ALTER_CLUSTER),),
    )
    yield Case(
        "LIST_PARTITION_REASSIGNMENTS",
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout=1_000),
        (on_cluster(access.DESCRIBE_CLUSTER),),
    )
    for right, name in ((access.DESCRIBE_TOPIC, TOPIC), (access.CLUSTER_ACTION, CLUSTER_NAME)):
        yield Case(
            f"OFFSET_FOR_LEADER_EPOCH with {right}",
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ask(
                ApiKey.OFFSET_FOR_LEADER_EPOCH,
                4,
                replica_id=-1,
                topics=[
                    {
                        "topic": TOPIC,
                        "partitions": [
                            {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
                        ],
                    }
                ],
            ),
            ((right, name, NO_TOPIC),),
        )


def _producer_id(transactional_id: str | None) -> Any:
    return request(
        ApiKey.INIT_PRODUCER_ID,
        4,
        transactional_id=transactional_id,
        transaction_timeout=1_000,
        producer_id=-1,
        producer_epoch=-1,
    )


def _cluster_cases() -> Iterator[Case]:
    ask = request
    for right, name in ((access.IDEMPOTENT_WRITE, CLUSTER_NAME), (access.WRITE_TOPIC, "any")):
        yield Case(
            f"INIT_PRODUCER_ID with {right}",
            ApiKey.INIT_PRODUCER_ID,
            _producer_id(None),
            ((right, name, NO_CLUSTER),),
        )
    yield Case(
        "INIT_PRODUCER_ID of a transaction",
        ApiKey.INIT_PRODUCER_ID,
        _producer_id(TRANSACTION),
        ((access.WRITE_TRANSACTIONAL_ID, TRANSACTION, NO_TRANSACTION),),
    )
    yield Case(
        "ALTER_REPLICA_LOG_DIRS",
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ask(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            2,
            dirs=[{"path": "/nowhere", "topics": [{"name": TOPIC, "partitions": [0]}]}],
        ),
        (on_cluster(access.ALTER_CLUSTER),),
    )
    yield Case(
        "DESCRIBE_LOG_DIRS",
        ApiKey.DESCRIBE_LOG_DIRS,
        ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None),
        (on_cluster(access.DESCRIBE_CLUSTER),),
    )
    yield Case(
        "DESCRIBE_CLIENT_QUOTAS",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False),
        (on_cluster(access.DESCRIBE_CLUSTER_CONFIGS),),
    )
    yield Case(
        "ALTER_CLIENT_QUOTAS",
        ApiKey.ALTER_CLIENT_QUOTAS,
        ask(
            ApiKey.ALTER_CLIENT_QUOTAS,
            1,
            entries=[
                {
                    "entity": [{"entity_type": "user", "entity_name": "bob"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
                }
            ],
            validate_only=True,
        ),
        (on_cluster(access.ALTER_CLUSTER_CONFIGS),),
    )
    yield Case(
        "DESCRIBE_USER_SCRAM_CREDENTIALS",
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None),
        (on_cluster(access.DESCRIBE_CLUSTER),),
    )
    yield Case(
        "ALTER_USER_SCRAM_CREDENTIALS",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ask(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            deletions=[{"name": "carol", "mechanism": 1}],
            upsertions=[],
        ),
        (on_cluster(access.ALTER_CLUSTER),),
    )
    yield Case(
        "UPDATE_FEATURES",
        ApiKey.UPDATE_FEATURES,
        ask(ApiKey.UPDATE_FEATURES, 2, timeout=1_000, feature_updates=[], validate_only=True),
        (on_cluster(access.ALTER_CLUSTER),),
    )
    yield Case(
        "LIST_CONFIG_RESOURCES",
        ApiKey.LIST_CONFIG_RESOURCES,
        ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[]),
        (on_cluster(access.DESCRIBE_CLUSTER_CONFIGS),),
    )
    everything = {
        "resource_type_filter": int(ResourceType.ANY),
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": int(AclOperation.ANY),
        "permission_type": 1,
    }
    yield Case(
        "DESCRIBE_ACLS",
        ApiKey.DESCRIBE_ACLS,
        ask(ApiKey.DESCRIBE_ACLS, 3, **everything),
        (on_cluster(access.DESCRIBE_CLUSTER),),
    )
    yield Case(
        "CREATE_ACLS",
        ApiKey.CREATE_ACLS,
        ask(
            ApiKey.CREATE_ACLS,
            3,
            creations=[
                {
                    "resource_type": int(ResourceType.TOPIC),
                    "resource_name": "other",
                    "resource_pattern_type": 3,
                    "principal": "User:carol",
                    "host": "*",
                    "operation": int(AclOperation.READ),
                    "permission_type": 3,
                }
            ],
        ),
        (on_cluster(access.ALTER_CLUSTER),),
    )
    yield Case(
        "DELETE_ACLS",
        ApiKey.DELETE_ACLS,
        ask(ApiKey.DELETE_ACLS, 3, filters=[{**everything, "resource_name_filter": "other"}]),
        (on_cluster(access.ALTER_CLUSTER),),
    )


def _transaction_cases() -> Iterator[Case]:
    """The broker does not coordinate the transaction, which only an allowed client learns."""
    ask = request
    producer = {"producer_id": 5, "producer_epoch": 0}
    written = (access.WRITE_TRANSACTIONAL_ID, TRANSACTION, NO_TRANSACTION)
    cluster_action = on_cluster(access.CLUSTER_ACTION)
    partitions = [{"name": TOPIC, "partitions": [0]}]
    yield Case(
        "ADD_PARTITIONS_TO_TXN of a client",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=TRANSACTION,
            v3_and_below_producer_id=5,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=partitions,
        ),
        (written, on_topic(access.WRITE_TOPIC)),
    )
    added = {"transactional_id": TRANSACTION, "verify_only": False, "topics": partitions}
    yield Case(
        "ADD_PARTITIONS_TO_TXN of a broker",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=[{**added, **producer}]),
        (cluster_action,),
    )
    yield Case(
        "ADD_OFFSETS_TO_TXN",
        ApiKey.ADD_OFFSETS_TO_TXN,
        ask(
            ApiKey.ADD_OFFSETS_TO_TXN,
            4,
            transactional_id=TRANSACTION,
            group_id=GROUP,
            **producer,
        ),
        (written, on_group(access.READ_GROUP)),
    )
    yield Case(
        "END_TXN",
        ApiKey.END_TXN,
        ask(ApiKey.END_TXN, 5, transactional_id=TRANSACTION, committed=True, **producer),
        (written,),
    )
    ended = {"transaction_result": True, "coordinator_epoch": 0}
    yield Case(
        "WRITE_TXN_MARKERS",
        ApiKey.WRITE_TXN_MARKERS,
        ask(
            ApiKey.WRITE_TXN_MARKERS,
            1,
            markers=[
                {"topics": [{"name": TOPIC, "partition_indexes": [0]}], **ended, **producer},
            ],
        ),
        (cluster_action,),
    )
    offset = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": None,
    }
    yield Case(
        "TXN_OFFSET_COMMIT",
        ApiKey.TXN_OFFSET_COMMIT,
        ask(
            ApiKey.TXN_OFFSET_COMMIT,
            5,
            transactional_id=TRANSACTION,
            group_id=GROUP,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": TOPIC, "partitions": [offset]}],
            **producer,
        ),
        (written, on_group(access.READ_GROUP), on_topic(access.READ_TOPIC)),
    )
    yield Case(
        "DESCRIBE_PRODUCERS",
        ApiKey.DESCRIBE_PRODUCERS,
        ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": TOPIC, "partition_indexes": [0]}]),
        (on_topic(access.READ_TOPIC),),
    )
    yield Case(
        "DESCRIBE_TRANSACTIONS",
        ApiKey.DESCRIBE_TRANSACTIONS,
        ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[TRANSACTION]),
        ((access.DESCRIBE_TRANSACTIONAL_ID, TRANSACTION, NO_TRANSACTION),),
    )
    yield Case(
        "EXPLAIN_TRANSACTION",
        OwnApiKey.EXPLAIN_TRANSACTION,
        TRANSACTION,
        ((access.DESCRIBE_TRANSACTIONAL_ID, TRANSACTION, NO_TRANSACTION),),
        _explain_transaction,
    )
    yield Case(
        "EXPLAIN_LAST_STABLE_OFFSETS",
        OwnApiKey.EXPLAIN_LAST_STABLE_OFFSETS,
        TOPIC,
        (on_topic(access.READ_TOPIC),),
        _explain_partition,
    )


def _group_cases() -> Iterator[Case]:
    read, describe, delete = (
        on_group(right) for right in (access.READ_GROUP, access.DESCRIBE_GROUP, access.DELETE_GROUP)
    )
    for key, message in (
        (ApiKey.JOIN_GROUP, join_group(GROUP)),
        (ApiKey.SYNC_GROUP, sync_group(GROUP, "m", 1)),
        (ApiKey.HEARTBEAT, heartbeat(GROUP, "m", 1)),
        (ApiKey.LEAVE_GROUP, leave_group(GROUP, "m")),
    ):
        yield Case(key.name, key, message, (read,))
    yield Case("FIND_COORDINATOR", ApiKey.FIND_COORDINATOR, find_coordinator(GROUP), (describe,))
    yield Case(
        "FIND_COORDINATOR of a transaction",
        ApiKey.FIND_COORDINATOR,
        find_coordinator(TRANSACTION, key_type=1),
        ((access.DESCRIBE_TRANSACTIONAL_ID, TRANSACTION, NO_TRANSACTION),),
    )
    for version in (9, 10):
        yield Case(
            f"OFFSET_COMMIT version {version}",
            ApiKey.OFFSET_COMMIT,
            commit_offsets(GROUP, {(TOPIC, 0): 1}, version=version),
            (read, on_topic(access.READ_TOPIC)),
        )
    for version in (1, 7, 9, 10):
        yield Case(
            f"OFFSET_FETCH version {version}",
            ApiKey.OFFSET_FETCH,
            fetch_offsets(GROUP, [(TOPIC, 0)], version=version),
            (describe, on_topic(access.DESCRIBE_TOPIC)),
        )
    yield Case(
        "OFFSET_DELETE",
        ApiKey.OFFSET_DELETE,
        delete_offsets(GROUP, (TOPIC, 0)),
        (delete, on_topic(access.READ_TOPIC)),
    )
    yield Case("DESCRIBE_GROUPS", ApiKey.DESCRIBE_GROUPS, describe_groups(GROUP), (describe,))
    yield Case("DELETE_GROUPS", ApiKey.DELETE_GROUPS, delete_groups(GROUP), (delete,))
    yield Case("EXPLAIN_GROUP", OwnApiKey.EXPLAIN_GROUP, GROUP, (describe,), _explain)
    yield Case(
        "CONSUMER_GROUP_HEARTBEAT",
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        request(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=GROUP,
            member_id="m",
            member_epoch=0,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=60_000,
            subscribed_topic_names=[TOPIC],
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=[],
        ),
        (read, on_topic(access.DESCRIBE_TOPIC)),
    )
    yield Case(
        "CONSUMER_GROUP_DESCRIBE",
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        request(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            1,
            group_ids=["newer"],
            include_authorized_operations=False,
        ),
        ((access.DESCRIBE_GROUP, "newer", NO_GROUP), on_topic(access.DESCRIBE_TOPIC)),
    )


CASES: Final = (
    *_topic_cases(),
    *_config_cases(),
    *_cluster_cases(),
    *_transaction_cases(),
    *_group_cases(),
)
