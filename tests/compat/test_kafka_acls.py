"""Kafka's kafka-acls on our brokers and on our registry, and its AclAuthorizer as the oracle."""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from cluster.brokers.security.authorizer import Authorizer
from cluster.coordinator.registry.client.kazoo_setup import kazoo_arguments
from cluster.datadir.paths import REGISTRY_JAAS, DataDir
from cluster.datadir.registry_auth import registry_access
from cluster.model.acls import (
    RESOURCE_TYPES,
    SUPPORTED_OPERATIONS,
    AclEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
)
from cluster.model.clocks import WallMs
from cluster.tools.main import main
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import ToolShell, run_program
from tests.integration.registry_process import RegistryProcess
from tests.support.fake_registry import store_of
from tests.support.running_cluster import Cluster
from tests.support.topics import unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow]

USERS = ("admin", "alice", "bob")
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OVERRIDES = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": " ".join(
        [LOGIN, *(f'user_{user}="{user}-secret"' for user in USERS)]
    )
    + ";",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    "offsets.topic.replication.factor": "1",
    "zookeeper.session.timeout.ms": "6000",
}
KAFKA_ACLS = "kafka.admin.AclCommand"
TIMEOUT_S = 30


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers with users and an authorizer."""
    directory = tmp_path_factory.mktemp("acls") / "data"
    with Cluster(directory, brokers=2, overrides=OVERRIDES) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shell(guarded: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    """Its tools log in to the registry, as those of a cluster with SASL have to."""
    login = DataDir(guarded.data_dir).clients / REGISTRY_JAAS
    options = f"-Djava.security.auth.login.config={login}"
    with ToolShell(tmp_path_factory.mktemp("tools"), options) as running:
        yield running


@pytest.fixture
def admin_file(tmp_path: Path) -> Path:
    """How `admin` connects."""
    file = tmp_path / "admin.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} username="admin" password="admin-secret";\n'
    )
    return file


@pytest.fixture
def kafka_acls(guarded: Cluster, shell: ToolShell, admin_file: Path) -> Callable[..., str]:
    """kafka-acls as `admin`, at one broker."""

    def run(*arguments: str, broker: int = 0) -> str:
        server = guarded.bootstrap.split(",")[broker]
        return shell.run(
            KAFKA_ACLS,
            "--bootstrap-server",
            server,
            "--command-config",
            str(admin_file),
            *arguments,
        )

    return run


@pytest.fixture
def by_registry(guarded: Cluster, shell: ToolShell) -> Callable[..., str]:
    """kafka-acls with Kafka's AclAuthorizer on the registry."""

    def run(*arguments: str) -> str:
        registry = f"zookeeper.connect=127.0.0.1:{guarded.registry_port}"
        return shell.run(KAFKA_ACLS, "--authorizer-properties", registry, *arguments)

    return run


def login(cluster: Cluster, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
        "log_level": 0,
    }


@pytest.fixture
def topic(guarded: Cluster) -> str:
    name = unique_name("acls")
    admin = AdminClient(login(guarded, "admin"))
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(TIMEOUT_S)
    return name


WITHOUT_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
"""What a producer of a user without any right gets: its topic, or its producer id, is refused
first."""


def write_error(cluster: Cluster, user: str, topic: str) -> int | None:
    """The code of the error that a record of this user is answered with.

    A broker that has not heard of a rule yet may refuse the producer as a whole.
    """
    found: list[Any] = []
    producer = Producer(login(cluster, user) | {"enable.idempotence": True})
    try:
        producer.produce(topic, b"value", on_delivery=lambda error, _: found.append(error))
        producer.flush(TIMEOUT_S)
    except KafkaException as refused:
        return int(refused.args[0].code())
    (error,) = found
    return None if error is None else int(error.code())


def read_outcome(cluster: Cluster, user: str, topic: str, group: str) -> bytes | int:
    """The first record of a topic, or the code of the error that stands in its place."""
    consumer = Consumer(login(cluster, user) | {"group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        found: Any = None

        def is_over() -> bool:
            nonlocal found
            found = consumer.poll(0.2)
            return found is not None

        wait_until(is_over, "a record or an error")
        error = found.error()
        return int(error.code()) if error is not None else bytes(found.value())
    finally:
        consumer.close()


def listed(text: str) -> set[str]:
    """The rules in what kafka-acls prints, without its layout."""
    rules, pattern = set(), ""
    for line in text.splitlines():
        if line.startswith("Current ACLs"):
            pattern = line.partition("`")[2].partition("`")[0]
        elif "principal=" in line:
            rules.add(f"{pattern} {line.strip()}")
    return rules


@pytest.mark.beyond_pypi
def test_a_producer_and_a_consumer_are_allowed_by_kafka_acls(
    guarded: Cluster, kafka_acls: Callable[..., str], topic: str
) -> None:
    group = f"{topic}-readers"
    assert write_error(guarded, "alice", topic) in WITHOUT_RIGHTS
    kafka_acls("--add", "--allow-principal", "User:alice", "--producer", "--topic", topic)
    wait_until(lambda: write_error(guarded, "alice", topic) is None, "a record of alice")
    assert write_error(guarded, "bob", topic) in WITHOUT_RIGHTS
    refusal = read_outcome(guarded, "bob", topic, group)
    assert refusal in (
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    )
    kafka_acls(
        *("--add", "--allow-principal", "User:bob", "--consumer"),
        *("--topic", topic, "--group", f"{topic}-", "--resource-pattern-type", "prefixed"),
    )
    wait_until(lambda: read_outcome(guarded, "bob", topic, group) == b"value", "a record")
    for broker in (0, 1):
        any_pattern = ("--topic", topic, "--resource-pattern-type", "any")
        assert len(listed(kafka_acls("--list", *any_pattern, broker=broker))) == 5
    kafka_acls("--remove", "--force", "--topic", topic, "--resource-pattern-type", "any")
    wait_until(lambda: write_error(guarded, "alice", topic) is not None, "a refusal")
    assert listed(kafka_acls("--list", "--topic", topic, broker=1)) == set()
    denials = guarded.log_lines(0, "denied: ") + guarded.log_lines(1, "denied: ")
    assert any(f"resource Topic {topic}" in line and "User:bob" in line for line in denials)


@pytest.mark.beyond_pypi
def test_our_command_says_and_does_what_kafkas_does(
    guarded: Cluster,
    kafka_acls: Callable[..., str],
    topic: str,
    admin_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = guarded.bootstrap.split(",")

    def ours(*words: str, broker: int = 0) -> str:
        capsys.readouterr()
        connection = ("--bootstrap-server", servers[broker], "--command-config", str(admin_file))
        assert main(["acls", *connection, *words]) == 0
        return capsys.readouterr().out

    def settled() -> set[str]:
        """All rules, once both brokers have them: whoever changes some hears of one broker."""
        lists: list[set[str]] = []

        def are_alike() -> bool:
            lists[:] = [listed(ours("--list", broker=broker)) for broker in (0, 1)]
            return lists[0] == lists[1]

        wait_until(are_alike, "both brokers to have the same rules")
        return lists[0]

    def both(*words: str) -> None:
        theirs, said = kafka_acls(*words), ours(*words)
        # The order of rules, and so the spaces at the first and the last one, are a hash table's.
        texts = (sorted(line.strip() for line in text.split("\n")) for text in (said, theirs))
        assert next(texts) == next(texts), words

    of_topic = ("--topic", topic)
    two = ("--allow-principal", "User:alice", "--allow-principal", "User:bob")
    prefixed = ("--resource-pattern-type", "prefixed")
    for words in (
        ("--add", *two, "--operation", "Read", "--operation", "describe", *of_topic),
        ("--add", "--allow-principal", "User:CN=x,O=y", "--allow-host", "10.0.0.1", *of_topic),
        ("--add", "--deny-principal", "User:*", "--deny-host", "::1", "--group", topic, *prefixed),
        ("--add", *two, "--producer", "--idempotent", "--transactional-id", "tx", *of_topic),
        ("--add", *two, "--producer", "--consumer", "--group", "g", *of_topic, *prefixed),
        ("--add", *two, "--operation", "CreateTokens", "--user-principal", "User:carol"),
        ("--add", *two, "--operation", "Describe", "--delegation-token", "id"),
        ("--add", *two, "--operation", "AlterConfigs", "--cluster"),
    ):
        both(*words)
    settled()
    for kind in ("literal", "prefixed", "match", "any"):
        both("--list", *of_topic, "--resource-pattern-type", kind)
    both("--list")
    both("--list", "--principal", "User:alice", "--principal", "User:nobody")
    both("--list", "--cluster", "--user-principal", "User:carol", "--delegation-token", "*")
    matching = ("--remove", "--force", *of_topic, "--resource-pattern-type", "match")
    for which in ((*two, "--operation", "Read"), ()):
        left = []
        for remove in (kafka_acls, ours):
            kafka_acls("--add", *two, "--producer", "--consumer", "--group", "g", *of_topic)
            before = settled()
            remove(*matching, *which)
            left.append(settled())
            assert left[-1] < before
        assert left[0] == left[1]
    ours("--remove", "--force", "--cluster", "--user-principal", "User:carol")
    ours("--remove", "--force", "--group", "g", "--group", topic, "--resource-pattern-type", "any")


@pytest.mark.beyond_pypi
def test_kafkas_authorizer_and_ours_share_the_registry(
    guarded: Cluster,
    kafka_acls: Callable[..., str],
    by_registry: Callable[..., str],
    topic: str,
) -> None:
    kafka_acls(
        *("--add", "--allow-principal", "User:alice", "--allow-host", "127.0.0.1"),
        *("--operation", "Write", "--topic", topic),
    )
    by_registry(
        *("--add", "--deny-principal", "User:alice", "--operation", "All"),
        *("--topic", topic[:-1], "--resource-pattern-type", "prefixed"),
    )
    code = KafkaError.TOPIC_AUTHORIZATION_FAILED
    wait_until(lambda: write_error(guarded, "alice", topic) == code, "what Kafka's tool denies")
    assert listed(by_registry("--list")) == listed(kafka_acls("--list"))
    by_registry("--remove", "--force", "--topic", topic[:-1], "--resource-pattern-type", "prefixed")
    wait_until(lambda: write_error(guarded, "alice", topic) is None, "a record of alice")
    by_registry("--remove", "--force", "--topic", topic)
    wait_until(lambda: write_error(guarded, "alice", topic) == code, "a refusal")
    assert listed(kafka_acls("--list", "--topic", topic)) == set()


def test_a_topic_is_created_by_whom_may_create_it(guarded: Cluster, topic: str) -> None:
    name = f"{topic}-of-alice"
    alice = AdminClient(login(guarded, "alice"))
    with pytest.raises(KafkaException) as raised:
        alice.create_topics([NewTopic(name, 1, 1)])[name].result(TIMEOUT_S)
    assert raised.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert topic not in alice.list_topics(timeout=TIMEOUT_S).topics


@pytest.mark.beyond_pypi
def test_a_broker_whose_session_has_ended_learns_what_it_has_missed(
    guarded: Cluster, by_registry: Callable[..., str], topic: str
) -> None:
    access = registry_access(DataDir(guarded.data_dir).registry_auth_file)
    registry = KazooClient(f"127.0.0.1:{guarded.registry_port}", **kazoo_arguments(access))
    registry.start()
    told = "the ACLs of 1 resource patterns have changed"
    try:
        before = len(guarded.log_lines(1, told))
        guarded.pause(1)
        wait_until(lambda: registry.get_children("/brokers/ids") == ["0"], "the session's end")
        by_registry(
            "--add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", topic
        )
        for name in registry.get_children("/kafka-acl-changes"):  # as after a quarter of an hour
            registry.delete(f"/kafka-acl-changes/{name}")
    finally:
        guarded.resume(1)
        registry.stop()
        registry.close()
    wait_until(lambda: len(guarded.log_lines(1, told)) > before, "the rules to be read")


# -- Kafka's AclAuthorizer as the oracle -----------------------------------------------------------

NAMES = ("orders", "order", "o", "pay", "*")
HOSTS = ("10.0.0.1", "2001:db8:0:0:0:0:0:1", "*")
PRINCIPALS = ("User:alice", "User:bob", "User:*")


LATER = AclOperation.TWO_PHASE_COMMIT
"""Not known to the last Kafka with the AclAuthorizer."""


def random_rules(random: Random) -> dict[ResourcePattern, set[AclEntry]]:
    rules: dict[ResourcePattern, set[AclEntry]] = {}
    for _ in range(60):
        kind = random.choice(RESOURCE_TYPES)
        pattern = ResourcePattern(
            kind,
            random.choice(NAMES),
            random.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        )
        entry = AclEntry(
            random.choice(PRINCIPALS),
            random.choice(HOSTS),
            random.choice(
                [each for each in (*SUPPORTED_OPERATIONS[kind], AclOperation.ALL) if each != LATER]
            ),
            random.choice((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
        )
        rules.setdefault(pattern, set()).add(entry)
    return rules


@pytest.mark.beyond_pypi
@pytest.mark.parametrize(("seed", "everyone"), [(1, "false"), (2, "true")])
def test_decisions_are_those_of_kafkas_authorizer(tmp_path: Path, seed: int, everyone: str) -> None:
    authorizer = Authorizer({"User:root"}, allows_without_rules=everyone == "true")
    questions = [
        (user, host, operation, kind, name)
        for user, host, kind, name in product(
            ("alice", "bob", "root"),
            ("10.0.0.1", "2001:db8::1", "10.0.0.2"),
            RESOURCE_TYPES,
            ("orders", "order", "paying", "x", "<any>"),
        )
        for operation in SUPPORTED_OPERATIONS[kind]
        if operation != LATER
    ]
    with RegistryProcess(tmp_path / "registry", tick_time_ms=2_000) as registry:
        client = registry.client()
        for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            store_of(client).acls.load(pattern_type, None)  # makes what is missing
        for pattern, entries in random_rules(Random(seed)).items():
            new = frozenset(entries)
            stored = store_of(client).acls.change(pattern, lambda _, new=new: new, WallMs(0))
            authorizer.take_rules({pattern: stored})
        lines = [f"{u} {h} {o.name} {k.name} {n}\n" for u, h, o, k, n in questions]
        address = f"127.0.0.1:{registry.port}"
        answers = run_program("AclDecisions", address, everyone, stdin="".join(lines)).split()
        registry.close_clients()
    ours = [
        authorizer.allows_some(user, host, operation, kind)
        if name == "<any>"
        else authorizer.allows(user, host, operation, kind, name)
        for user, host, operation, kind, name in questions
    ]
    theirs = [answer == "ALLOWED" for answer in answers]
    assert len(theirs) == len(ours)
    different = [q for q, a, b in zip(questions, ours, theirs, strict=True) if a is not b]
    assert different == []
    assert 0 < sum(ours) < len(ours)


@pytest.mark.beyond_pypi
def test_operations_that_can_be_granted_are_those_of_kafka() -> None:
    theirs = {}
    for line in run_program("SupportedOperations", version=NEWEST).splitlines():
        kind, *operations = line.split()
        theirs[kind] = operations
    assert theirs.pop("all") == [f"{each.name}={each.value}" for each in AclOperation]
    assert theirs == {
        kind.name: [each.name for each in sorted(operations)]
        for kind, operations in SUPPORTED_OPERATIONS.items()
    }
