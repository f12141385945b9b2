"""What Kafka 4.x's admin tools ask: Kafka 4.1 and our brokers give the same answers."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from cluster.model.error_codes import ErrorCode
from cluster.protocol.api import ApiKey
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import ToolShell, require_kafka
from tests.compat.kraft_process import KraftProcess
from tests.support.kafka_wire import WireClient, request
from tests.support.running_cluster import Address, Cluster
from tests.support.topics import describe
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

SETTINGS: Final = {
    "max.request.partition.size.limit": "10",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
TOPICS: Final = ("a", "b", "c")
PARTITIONS: Final = 4
HIDDEN: Final = "hidden"
"""A topic that nobody may describe."""
ELSEWHERE: Final = ("b", 1)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    require_kafka(NEWEST)
    without = {"eligible.leader.replicas.version": 0}
    with KraftProcess(
        tmp_path_factory.mktemp("kafka"), overrides=SETTINGS, features=without
    ) as node:
        prepare(node.address)
        yield node.address


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    # The topic of metric records would be on the pages, as soon as there are some.
    settings = {**SETTINGS, "milena.metrics.topic.enable": "false"}
    with Cluster(tmp_path_factory.mktemp("ours"), overrides=settings) as cluster:
        prepare(cluster.addresses[0])
        yield cluster.addresses[0]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("tools"), version=NEWEST) as running:
        yield running


def prepare(address: Address) -> None:
    """Make the topics, and forbid to describe one of them."""
    plain = {
        "num_partitions": PARTITIONS,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    names = (*TOPICS, HIDDEN)
    denial = {
        "resource_type": 2,
        "resource_name": HIDDEN,
        "resource_pattern_type": 3,
        "principal": "User:ANONYMOUS",
        "host": "*",
        "operation": 8,
        "permission_type": 2,
    }
    view = describe(address)
    assert view is not None
    (controller,) = (each for each in view.brokers if each.node_id == view.controller_id)
    with WireClient((controller.host, controller.port)) as client:
        made = client.call(
            request(
                ApiKey.CREATE_TOPICS,
                7,
                topics=[{"name": name, **plain} for name in names],
                timeout=10_000,
                validate_only=False,
            )
        )
        assert {each.error_code for each in made.topics} == {ErrorCode.none}

        def are_led() -> bool:
            view = describe(address, *names)
            return view is not None and all(
                [each.error_code for each in topic.partitions] == [ErrorCode.none] * PARTITIONS
                for topic in view.topics
            )

        wait_until(are_led, "leaders of the topics")
        client.call(request(ApiKey.CREATE_ACLS, 3, creations=[denial]))
        wait_until(lambda: page(client, HIDDEN)["topics"][0][0] is not ErrorCode.none, "the denial")


def page(
    client: WireClient, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None
) -> dict[str, Any]:
    """An answer to DescribeTopicPartitions, without what differs from cluster to cluster."""
    answer = client.call(
        request(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[{"name": name} for name in names],
            response_partition_limit=limit,
            cursor=cursor and {"topic_name": cursor[0], "partition_index": cursor[1]},
        )
    )
    return {
        "topics": [
            (
                topic.error_code,
                topic.name,
                topic.topic_id is not None,
                topic.is_internal,
                topic.topic_authorized_operations,
                [
                    (
                        each.error_code,
                        each.partition_index,
                        (each.leader_id,) == each.replica_nodes == each.isr_nodes,
                        each.eligible_leader_replicas,
                        each.last_known_elr,
                        each.offline_replicas,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in answer.topics
        ],
        "next": answer.next_cursor
        and (answer.next_cursor.topic_name, answer.next_cursor.partition_index),
    }


PAGES: Final[list[tuple[tuple[str, ...], int, tuple[str, int] | None]]] = [
    (("a",), 2_000, None),
    ((), 2_000, None),
    (TOPICS, 5, None),
    (TOPICS, 4, None),
    (TOPICS, 5, ELSEWHERE),
    (("a", "c"), 5, ELSEWHERE),
    (("a", "b"), 5, ("b", -1)),
    (("a", "b"), 5, ("b", 100)),
    (("c", "a", "nope", "bad name", "a"), 2_000, None),
    (("a",), 0, None),
    (("a",), -5, None),
    ((), 3, ("b", 2)),
    ((), 3, ("bb", 2)),
    ((), 10, ("zz", 0)),
    (("nope", "a"), 1, ("nope", 7)),
    ((), 5, ("b", -1)),
    (("a", "b", "nope"), 8, None),
    (("a", HIDDEN, "nope"), 2_000, None),
    ((HIDDEN,), 5, (HIDDEN, 1)),
    ((HIDDEN, "a", "b"), 4, None),
]


def test_topics_are_described_by_the_same_pages(kafka: Address, ours: Address) -> None:
    with WireClient(kafka) as theirs, WireClient(ours) as own:
        for names, limit, cursor in PAGES:
            expected = page(theirs, *names, limit=limit, cursor=cursor)
            assert page(own, *names, limit=limit, cursor=cursor) == expected, (names, limit, cursor)


UPDATES: Final[list[tuple[tuple[str, int, int], ...]]] = [
    (),
    (("group.version", 1, 1),),
    (("group.version", 1, 2),),
    (("group.version", 1, 1), ("transaction.version", 2, 1)),
    (("group.version", -1, 1),),
    (("group.version", 1, 0),),
    (("group.version", 1, 9),),
    (("nope", 1, 1),),
    (("nope", 0, 3),),
    (("", 1, 1),),
    (("nope", 5, 3), ("group.version", 1, 1)),
]


@pytest.mark.parametrize("version", range(3))
def test_updates_of_features_have_the_same_results(
    kafka: Address, ours: Address, version: int
) -> None:
    def update(client: WireClient, updates: tuple[tuple[str, int, int], ...]) -> Any:
        asked = [
            {
                "feature": feature,
                "max_version_level": level,
                **({"upgrade_type": kind} if version else {"allow_downgrade": kind > 1}),
            }
            for feature, level, kind in updates
        ]
        answer = client.call(
            request(
                ApiKey.UPDATE_FEATURES,
                version,
                timeout=10_000,
                feature_updates=asked,
                validate_only=True,
            )
        )
        message = answer.error_message
        results = getattr(answer, "results", ())
        return (
            answer.error_code,
            # The controller is named.
            message
            and message.replace("controller 0", "controller 1").replace(
                "controller 2", "controller 1"
            ),
            {(each.feature, each.error_code, each.error_message) for each in results},
        )

    with WireClient(kafka) as theirs, WireClient(ours) as own:
        for updates in UPDATES:
            if version or all(kind in (1, 2, 3) for _, _, kind in updates):
                assert update(own, updates) == update(theirs, updates), updates


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described_with_the_same_errors(
    kafka: Address, ours: Address, version: int
) -> None:
    def described(client: WireClient, endpoint_type: int, asks: bool) -> Any:
        answer = client.call(
            request(
                ApiKey.DESCRIBE_CLUSTER,
                version,
                include_cluster_authorized_operations=asks,
                endpoint_type=endpoint_type,
                include_fenced_brokers=True,
            )
        )
        brokers = [(each.rack, getattr(each, "is_fenced", None)) for each in answer.brokers]
        return (
            answer.error_code,
            answer.error_message,
            getattr(answer, "endpoint_type", None),
            answer.cluster_id == "",
            answer.controller_id >= 0,
            answer.cluster_authorized_operations,
            set(brokers),
        )

    with WireClient(kafka) as theirs, WireClient(ours) as own:
        for endpoint_type in (1, 0, 2, 3, -1):
            for asks in (False, True):
                assert described(own, endpoint_type, asks) == described(theirs, endpoint_type, asks)


# -- Kafka's tools -----------------------------------------------------------------------------


def run(shell: ToolShell, address: Address, tool: str, *arguments: str, fails: bool = False) -> str:
    return shell.run(
        f"org.apache.kafka.tools.{tool}",
        *("--bootstrap-server", "{}:{}".format(*address)),
        *arguments,
        fails=fails,
    )


def test_topics_are_printed_as_by_kafka(shell: ToolShell, kafka: Address, ours: Address) -> None:
    def lines(address: Address) -> list[list[str]]:
        text = run(shell, address, "TopicCommand", "--describe", "--topic", "a|c")
        own = ("TopicId", "Leader", "Replicas", "Isr")
        return [
            [field for field in line.split("\t") if field.split(":")[0] not in own]
            for line in text.splitlines()
        ]

    found = lines(ours)
    assert len(found) == 2 * (1 + PARTITIONS)
    assert found == lines(kafka)


def test_features_are_described_and_stay_as_they_are(shell: ToolShell, ours: Address) -> None:
    described = [
        f"Feature: {name}\tSupportedMinVersion: {level}\tSupportedMaxVersion: {level}"
        f"\tFinalizedVersionLevel: {level}\tEpoch: 0"
        for name, level in (("group.version", 1), ("transaction.version", 2))
    ]
    assert run(shell, ours, "FeatureCommand", "describe").splitlines() == described
    upgrade = ("upgrade", "--feature", "transaction.version=2")
    assert (
        run(shell, ours, "FeatureCommand", *upgrade) == "transaction.version was upgraded to 2.\n"
    )
    downgrade = ("downgrade", "--feature", "transaction.version=1")
    text = run(shell, ours, "FeatureCommand", *downgrade, fails=True)
    assert "Could not downgrade transaction.version to 1." in text
    assert "only supports versions 2-2" in text
    assert run(shell, ours, "FeatureCommand", "describe").splitlines() == described


def test_versions_of_apis_are_listed(shell: ToolShell, ours: Address) -> None:
    versions = run(shell, ours, "BrokerApiVersionsCommand")
    assert versions.count("DescribeTopicPartitions(75): 0 [usable: 0],") == 3
    assert versions.count("UpdateFeatures(57): 0 to 2 [usable: 2],") == 3
    assert versions.count("DescribeQuorum(55): UNSUPPORTED,") == 3
    assert "ERROR" not in versions
