"""Every API is refused when one of its rights is missing, and allowed with exactly these rights."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.handlers import access
from cluster.brokers.handlers.request import Unchecked
from cluster.model.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    ResourceType,
    Right,
)
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome
from cluster.protocol.api import ApiKey, OwnApiKey
from tests.support.authorization_cases import (
    AUTHORIZATION_ERRORS,
    CASES,
    GROUP,
    NEW_TOPIC,
    TOPIC,
    Case,
    codes_in,
)
from tests.support.cluster_states import a_partition, a_topic
from tests.support.group_requests import (
    commit_offsets,
    delete_groups,
    describe_groups,
    fetch_offsets,
    fetched_in,
    join_group,
    lead_offsets_topic,
    list_groups,
    topic_id,
)
from tests.support.guarded_broker import SETTINGS, Guarded
from tests.support.handler_stage import BROKER, HandlerStage
from tests.support.kafka_wire import metadata_request, request

BY_KEY = {int(handler.api.key): handler for handler in HANDLERS}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    with HandlerStage(tmp_path / "data", SETTINGS) as stage:
        stage.update(
            a_topic(TOPIC, a_partition([BROKER])), a_topic("hidden", a_partition([BROKER]))
        )
        lead_offsets_topic(stage)
        guarded = Guarded(stage)
        admin = guarded.client("admin")
        assert codes_in(admin.call(_joining("newer"))) == set()
        assert codes_in(admin.call(commit_offsets(GROUP, {(TOPIC, 0): 1}))) == set()
        yield guarded


def _joining(group: str, regex: str | None = None) -> Any:
    return request(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id=group,
        member_id="somebody",
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=60_000,
        subscribed_topic_names=[TOPIC] if regex is None else [],
        subscribed_topic_regex=regex,
        server_assignor=None,
        topic_partitions=[],
    )


def _names(cases: Iterable[Case]) -> list[str]:
    return [case.name for case in cases]


@pytest.mark.parametrize("case", CASES, ids=_names(CASES))
def test_request_is_allowed_only_with_each_of_its_rights_and_no_denial(
    guarded: Guarded, case: Case
) -> None:
    for missing in case.needs:
        guarded.revoke_all()
        guarded.grant(*((right, name) for right, name, _ in case.needs if right != missing[0]))
        found = case.codes_of(guarded.client(), case.message)
        assert found == {missing[2]}, f"without {missing[0]}"
    for denied in case.needs:
        guarded.revoke_all()
        guarded.grant(*((right, name) for right, name, _ in case.needs))
        guarded.grant(denied[:2], permission="DENY")
        found = case.codes_of(guarded.client(), case.message)
        assert denied[2] in found, f"{denied[0]} is denied"
    guarded.revoke_all()
    guarded.grant(*((right, name) for right, name, _ in case.needs))
    assert not case.codes_of(guarded.client(), case.message) & AUTHORIZATION_ERRORS


# What is asked for without an error of its own: lists are shorter then, fields are empty.
SILENT: Mapping[int, set[Right]] = {
    ApiKey.LIST_GROUPS: {access.DESCRIBE_CLUSTER, access.DESCRIBE_GROUP},
    ApiKey.LIST_TRANSACTIONS: {access.DESCRIBE_TRANSACTIONAL_ID},
    ApiKey.DESCRIBE_TRANSACTIONS: {access.DESCRIBE_TOPIC},
    OwnApiKey.EXPLAIN_LAST_STABLE_OFFSETS: {access.DESCRIBE_TRANSACTIONAL_ID},
    OwnApiKey.LIST_HIDDEN_PRODUCERS: {access.DESCRIBE_TRANSACTIONAL_ID},
    ApiKey.WRITE_TXN_MARKERS: {access.ALTER_CLUSTER},  # suffices as well
    ApiKey.METADATA: {access.DESCRIBE_CLUSTER},
    ApiKey.DESCRIBE_CLUSTER: {access.DESCRIBE_CLUSTER},
    ApiKey.CREATE_TOPICS: {access.DESCRIBE_TOPIC_CONFIGS},
    ApiKey.DELETE_TOPICS: {access.DESCRIBE_TOPIC},
    # Only of tokens of others: `test_delegation_tokens.py`.
    ApiKey.CREATE_DELEGATION_TOKEN: {access.CREATE_TOKENS},
    ApiKey.DESCRIBE_DELEGATION_TOKEN: {access.DESCRIBE_TOKEN, access.DESCRIBE_TOKENS},
}


# Rows that ask the authorizer for nothing. A row that is not here, and has no case of a refusal, is
# one that was forgotten.
UNCHECKED = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}


@pytest.mark.parametrize("key", sorted(BY_KEY))
def test_each_handler_row_states_the_rights_of_its_cases(key: int) -> None:
    stated = BY_KEY[key].authorizes
    asked = {right for case in CASES if case.key == key for right, _, _ in case.needs}
    asked |= SILENT.get(key, set())
    assert isinstance(stated, Unchecked) == (key in UNCHECKED)
    if isinstance(stated, Unchecked):
        assert stated.reason
        assert not asked
    else:
        assert set(stated) == asked
        assert asked


def test_no_request_checks_a_right_that_its_handler_row_does_not_state(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[Right] = set()
    allows = guarded.authorizer.allows

    def recording(
        user: str, host: str, operation: AclOperation, kind: ResourceType, name: str, **how: bool
    ) -> bool:
        asked.add(Right(operation, kind))
        return allows(user, host, operation, kind, name, **how)

    monkeypatch.setattr(type(guarded.authorizer), "allows", staticmethod(recording))
    # Describing what the client may do checks nothing.
    monkeypatch.setattr(type(guarded.authorizer), "allowed_operations", lambda *_: ())
    for case in CASES:
        asked.clear()
        case.codes_of(guarded.client("admin"), case.message)
        stated = BY_KEY[case.key].authorizes
        assert not isinstance(stated, Unchecked)
        assert asked <= set(stated), case.name


# -- what is left out rather than refused ----------------------------------------------------------


def all_topics() -> Any:
    return request(
        ApiKey.METADATA,
        9,
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


def test_metadata_of_all_topics_lists_only_describable_topics(guarded: Guarded) -> None:
    client = guarded.client()
    assert client.call(all_topics()).topics == ()
    guarded.grant((access.READ_TOPIC, TOPIC))
    assert [topic.name for topic in client.call(all_topics()).topics] == [TOPIC]
    everything = {topic.name for topic in guarded.client("admin").call(all_topics()).topics}
    assert everything == {TOPIC, "hidden", "__consumer_offsets"}
    assert [topic.name for topic in client.call(all_topics()).topics] == [TOPIC]


def test_metadata_of_a_denied_name_does_not_reveal_whether_the_topic_exists(
    guarded: Guarded,
) -> None:
    answer = guarded.client().call(metadata_request("hidden", "nothing", "__consumer_offsets"))
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.topic_authorization_failed}
    assert {(topic.topic_id, topic.is_internal, topic.partitions) for topic in answer.topics} == {
        (None, False, ())
    }


def test_denied_topic_id_does_not_reveal_its_name(guarded: Guarded) -> None:
    by_id = request(
        ApiKey.METADATA,
        12,
        topics=[{"topic_id": topic_id("hidden"), "name": None}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    deletion = request(
        ApiKey.DELETE_TOPICS,
        6,
        topics=[{"name": None, "topic_id": topic_id("hidden")}],
        timeout=1_000,
    )
    (known,) = guarded.client().call(by_id).topics
    assert (known.error_code, known.name) == (ErrorCode.topic_authorization_failed, None)
    client = guarded.client()
    client.send(deletion)
    (deleted,) = client.receive().responses
    assert (deleted.error_code, deleted.name) == (ErrorCode.topic_authorization_failed, None)


def test_topic_id_is_authorized_by_its_own_name_not_by_the_given_one(guarded: Guarded) -> None:
    guarded.grant((access.DELETE_TOPIC, TOPIC))
    asked = [{"name": TOPIC, "topic_id": topic_id("hidden")}]
    deletion = request(ApiKey.DELETE_TOPICS, 6, topics=asked, timeout=1_000)
    answer = guarded.client().call(deletion)
    assert [each.error_code for each in answer.responses] == [ErrorCode.invalid_request]
    assert guarded.stage.controller.asked == []
    by_both = request(
        ApiKey.METADATA,
        12,
        topics=[asked[0]],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    (told,) = guarded.client().call(by_both).topics
    assert (told.error_code, told.partitions) == (ErrorCode.topic_authorization_failed, ())


def test_delete_topics_refuses_an_id_that_the_broker_does_not_know_yet(guarded: Guarded) -> None:
    asked = {"name": None, "topic_id": topic_id(NEW_TOPIC)}
    deletion = request(ApiKey.DELETE_TOPICS, 6, topics=[asked], timeout=1_000)
    (answered,) = guarded.client().call(deletion).responses
    assert answered.error_code == ErrorCode.unknown_topic_id
    assert guarded.stage.controller.asked == []


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


def test_authorized_operations_match_the_clients_rights(guarded: Guarded) -> None:
    op = AclOperation
    guarded.grant((access.READ_TOPIC, TOPIC), (access.READ_GROUP, GROUP))
    client = guarded.client()
    answer = client.call(all_topics())
    assert answer.topics[0].topic_authorized_operations == bits(op.READ, op.DESCRIBE)
    assert answer.cluster_authorized_operations == 0
    (group,) = client.call(describe_groups(GROUP, operations=True)).groups
    assert group.authorized_operations == bits(op.READ, op.DESCRIBE)
    guarded.grant((access.ALTER_CLUSTER, CLUSTER_NAME))
    answer = client.call(all_topics())
    assert answer.cluster_authorized_operations == bits(op.ALTER, op.DESCRIBE)
    described = request(
        ApiKey.DESCRIBE_CLUSTER,
        2,
        include_cluster_authorized_operations=True,
        endpoint_type=1,
        include_fenced_brokers=False,
    )
    mine = client.call(described).cluster_authorized_operations
    assert mine == bits(op.ALTER, op.DESCRIBE)
    all_of_them = guarded.client("admin").call(described).cluster_authorized_operations
    assert all_of_them == bits(*SUPPORTED_OPERATIONS[ResourceType.CLUSTER])


def test_list_groups_lists_only_describable_groups(guarded: Guarded) -> None:
    admin = guarded.client("admin")
    for group in (GROUP, "other"):
        admin.call(join_group(group))
    client = guarded.client()

    def listed() -> set[str]:
        return {group.group_id for group in client.call(list_groups()).groups}

    assert listed() == set()
    guarded.grant((access.DESCRIBE_GROUP, GROUP))
    assert listed() == {GROUP}
    guarded.grant((access.DESCRIBE_CLUSTER, CLUSTER_NAME))
    assert listed() == {GROUP, "other", "newer"}


def test_fetch_of_all_offsets_returns_only_describable_topics(
    guarded: Guarded,
) -> None:
    admin = guarded.client("admin")
    admin.call(commit_offsets(GROUP, {(TOPIC, 0): 1, ("hidden", 0): 2}, version=9))
    guarded.grant((access.DESCRIBE_GROUP, GROUP), (access.DESCRIBE_TOPIC, TOPIC))
    code, found = fetched_in(guarded.client().call(fetch_offsets(GROUP, None, version=9)))
    assert (code, found) == (0, {(TOPIC, 0): (1, 0)})


def test_create_topics_returns_configs_only_to_clients_that_may_describe_them(
    guarded: Guarded,
) -> None:
    def created() -> Any:
        client = guarded.client()
        client.send(next(c.message for c in CASES if c.name.startswith("CREATE_TOPICS")))
        asked = guarded.stage.controller.take()
        state = a_topic(NEW_TOPIC, a_partition([BROKER]))
        asked.on_done({NEW_TOPIC: Outcome(ErrorCode.none)}, {NEW_TOPIC: state})
        return client.receive().topics[0]

    guarded.grant((access.CREATE_TOPIC, NEW_TOPIC))
    topic = created()
    assert (topic.error_code, topic.num_partitions, topic.configs) == (0, -1, None)
    assert topic.topic_config_error_code == ErrorCode.topic_authorization_failed
    guarded.grant((access.DESCRIBE_TOPIC_CONFIGS, NEW_TOPIC))
    topic = created()
    assert (topic.num_partitions, topic.topic_config_error_code) == (1, 0)
    assert topic.configs


def test_subscribed_expression_matches_only_describable_topics(guarded: Guarded) -> None:
    guarded.grant((access.READ_GROUP, GROUP), (access.DESCRIBE_TOPIC, TOPIC))
    guarded.client("admin").call(delete_groups(GROUP))
    answer = guarded.client().call(_joining(GROUP, ".*"))
    assert answer.error_code == 0
    assigned = {each.topic_id for each in answer.assignment.topic_partitions}
    assert assigned == {topic_id(TOPIC)}


def test_every_right_that_a_handler_checks_can_be_granted() -> None:
    asked = {
        right
        for handler in HANDLERS
        if not isinstance(handler.authorizes, Unchecked)
        for right in handler.authorizes
    }
    asked |= {each for each in vars(access).values() if isinstance(each, Right)}
    grantable = {
        Right(operation, kind)
        for kind, operations in SUPPORTED_OPERATIONS.items()
        for operation in operations
    }
    assert asked <= grantable


def test_supported_operations_on_a_group_equal_kafkas(guarded: Guarded) -> None:
    (group,) = guarded.client("admin").call(describe_groups(GROUP, operations=True)).groups
    assert group.authorized_operations == 3400  # as Kafka 4.1 answers
