"""Transactions of every client: commit, abort, fencing, timeouts, copying, and both reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.compat.client_programs import ClientProgram, RunningProgram, go_programs
from tests.compat.confluent_records import TIMEOUT_S, assigning_consumer
from tests.compat.kafka_jvm import NEWEST, VERSION
from tests.compat.kafka_process import compiled, java_command
from tests.compat.transaction_clients import (
    PARTITIONS,
    AioClient,
    Client,
    Confluent,
    InProgram,
    PythonClient,
    TransactionFailed,
)
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow]

JAVA: Final = {"java-3.9": VERSION, "java-4.1": NEWEST}
GO: Final = ("franz-go", "sarama")
BEYOND_PYPI: Final = pytest.mark.beyond_pypi
CLIENTS: Final = [
    "confluent",
    "kafka-python",
    "aiokafka",
    *(pytest.param(each, marks=BEYOND_PYPI) for each in (*JAVA, *GO)),
]
FENCED: Final = {
    "confluent": "_FENCED",
    "kafka-python": "ProducerFenced",
    "aiokafka": "ProducerFenced",
    "java-3.9": "ProducerFencedException|InvalidProducerEpochException",
    "java-4.1": "ProducerFencedException|InvalidProducerEpochException",
    "franz-go": "PRODUCER_FENCED|INVALID_PRODUCER_EPOCH",
    "sarama": "Error code = 90",
}
"""What each client says when another has taken its place."""
LATE: Final = FENCED | {"java-4.1": "InvalidTxnState", "franz-go": "INVALID_TXN_STATE"}
"""What each client says when its transaction took too long: as with Kafka 4.1."""
TIMEOUT_MS: Final = 1_000
PASSWORD: Final = "a secret of payer"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers that look for timeouts often; users who log in need rights."""
    overrides = {
        "listeners": "PLAINTEXT://:0,SASL_PLAINTEXT://:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    with Cluster(tmp_path_factory.mktemp("transactions"), overrides=overrides) as made:
        yield made
        made.kill_everything()  # a clean stop syncs hundreds of logs


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Programs"]:
    started = Programs(tmp_path_factory)
    yield started
    started.close()


class Programs:
    """The running programs, started when they are needed."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories
        self._running: dict[str, RunningProgram] = {}

    def __getitem__(self, client: str) -> RunningProgram:
        program = "go" if client in GO else client
        if program not in self._running:
            self._running[program] = RunningProgram(self._command(program))
        return self._running[program]

    def _command(self, program: str) -> list[str | Path]:
        if program == "go":
            return [go_programs() / "go_clients"]
        version = JAVA[program]
        classes = compiled("Transactions", self._directories.mktemp("java"), version)
        return [*java_command(classes, version), "Transactions"]

    def close(self) -> None:
        for each in self._running.values():
            each.close()


@pytest.fixture(params=CLIENTS)
def name(request: pytest.FixtureRequest) -> str:
    """A client library."""
    found: str = request.param
    return found


@pytest.fixture
def client(name: str, cluster: Cluster, programs: Programs) -> Iterator[Client]:
    if name == "confluent":
        yield Confluent(cluster.bootstrap)
    elif name == "kafka-python":
        yield PythonClient(cluster.bootstrap)
    elif name == "aiokafka":
        asynchronous = AioClient(cluster.bootstrap)
        yield asynchronous
        asynchronous.close()
    else:
        yield InProgram(program_of(programs, name, cluster.bootstrap))


def program_of(
    programs: Programs, name: str, bootstrap: str, user: str = "", mechanism: str = "SCRAM-SHA-256"
) -> ClientProgram:
    """A library of a program, which logs in if there is a user."""
    if name in GO:
        security = {"mechanism": mechanism, "user": user, "password": PASSWORD} if user else {}
        return ClientProgram(programs[name], bootstrap, library=name, security=security)
    properties = {"bootstrap.servers": bootstrap}
    if user:
        properties |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{user}" password="{PASSWORD}";',
        }
    return ClientProgram(programs[name], bootstrap, properties=properties)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Each broker leads one of its partitions."""
    return create_topic(cluster, unique_name("transactions"), partitions=PARTITIONS)


def seen(cluster: Cluster, topic: str, isolation: str = "read_committed") -> list[str]:
    """All values that another client reads up to the end, in order."""
    values: list[str] = []
    at_end: set[int] = set()
    with assigning_consumer(cluster.bootstrap, isolation_level=isolation) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        while len(at_end) < PARTITIONS:
            message: Any = consumer.poll(TIMEOUT_S)
            assert message is not None, f"nothing more of {topic} after {values}"
            if message.error() is None:
                values.append(message.value().decode())
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                at_end.add(message.partition())
    return sorted(values)


def committed(cluster: Cluster, group: str, topic: str) -> dict[int, int]:
    """The group's offsets that are committed; asking waits for transactions that end."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        found = consumer.committed(places, TIMEOUT_S)
        return {each.partition: each.offset for each in found if each.offset >= 0}
    finally:
        consumer.close()


def test_only_committed_records_are_read_by_others(
    cluster: Cluster, client: Client, topic: str
) -> None:
    producer = client.producer(unique_name("ends"))
    for number, end in enumerate([producer.commit, producer.abort, producer.commit]):
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send(topic, partition, f"{number}-{partition}")
        end()
    producer.close()

    expected = [f"{number}-{p}" for number in (0, 2) for p in range(PARTITIONS)]
    wait_until(lambda: seen(cluster, topic) == expected, "the committed records")
    everything = [f"{number}-{p}" for number in range(3) for p in range(PARTITIONS)]
    assert seen(cluster, topic, "read_uncommitted") == everything


def test_a_producer_of_the_same_id_takes_its_place(
    cluster: Cluster, client: Client, name: str, topic: str
) -> None:
    transactional_id = unique_name("fenced")
    first = client.producer(transactional_id)
    first.begin()
    first.send(topic, 0, "of the first")
    second = client.producer(transactional_id)
    second.begin()
    second.send(topic, 0, "of the second")
    second.commit()
    with pytest.raises(TransactionFailed, match=FENCED[name]):
        first.commit()
    first.close()
    second.close()

    assert seen(cluster, topic) == ["of the second"]
    assert len(seen(cluster, topic, "read_uncommitted")) == 2


def test_a_transaction_that_takes_too_long_is_aborted_and_the_producer_told(
    cluster: Cluster, client: Client, name: str, topic: str
) -> None:
    producer = client.producer(unique_name("late"), timeout_ms=TIMEOUT_MS)
    producer.begin()
    producer.send(topic, 0, "late")
    with assigning_consumer(cluster.bootstrap) as consumer:
        place = TopicPartition(topic, 0)
        wait_until(
            lambda: consumer.get_watermark_offsets(place, TIMEOUT_S)[1] == 2,
            "the marker to end what others may read",
        )
    with pytest.raises(TransactionFailed, match=LATE[name]):
        producer.commit()
    producer.close()

    assert seen(cluster, topic) == []


def test_copied_records_and_offsets_are_committed_together(
    cluster: Cluster, client: Client, topic: str
) -> None:
    source, group = create_topic(cluster, unique_name("source"), partitions=PARTITIONS), topic
    writer = Confluent(cluster.bootstrap).producer(unique_name("writer"))
    writer.begin()
    for partition in range(PARTITIONS):
        writer.send(source, partition, f"value {partition}")
    writer.commit()
    how = (unique_name("copier"), group, source, topic, PARTITIONS)

    client.copy(*how, is_commit=False)
    assert (seen(cluster, topic), committed(cluster, group, source)) == ([], {})
    client.copy(*how)
    copies = [f"VALUE {partition}" for partition in range(PARTITIONS)]
    wait_until(lambda: seen(cluster, topic) == copies, "the copies")
    assert committed(cluster, group, source) == dict.fromkeys(range(PARTITIONS), 1)


def test_reads_end_at_an_open_transaction_if_only_committed_records_are_asked_for(
    cluster: Cluster, client: Client, topic: str
) -> None:
    one, other = (Confluent(cluster.bootstrap).producer(unique_name("writer")) for _ in range(2))
    for number, end in enumerate([one.commit, one.abort, one.commit]):
        one.begin()
        one.send(topic, 0, f"ended {number}")
        end()
    one.begin()
    other.begin()
    one.send(topic, 0, "open")
    other.send(topic, 0, "behind it")
    other.send(topic, 1, "elsewhere")
    other.commit()

    first = ["ended 0", "ended 2", "elsewhere"]
    wait_until(lambda: seen(cluster, topic) == sorted(first), "the committed ones")
    assert sorted(client.read(topic, 3, is_committed=True, grace_ms=300)) == sorted(first)
    everything = sorted([*first, "ended 1", "open", "behind it"])
    assert sorted(client.read(topic, 6, is_committed=False)) == everything
    one.commit()
    last = sorted([*first, "open", "behind it"])
    assert sorted(client.read(topic, 5, is_committed=True)) == last


# -- rights ----------------------------------------------------------------------------------------


def secured(programs: Programs, name: str, bootstrap: str) -> Client:
    """A client that logs in as payer."""
    if name != "confluent":
        return InProgram(program_of(programs, name, bootstrap, user="payer"))
    login = {"sasl.username": "payer", "sasl.password": PASSWORD}
    protocol = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
    return Confluent(bootstrap, **protocol, **login)


@pytest.fixture(scope="module")
def payer(cluster: Cluster) -> str:
    """Make a user who may use the transactional ids of payments; returns where they log in."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("payer", info, PASSWORD.encode())
    admin.alter_user_scram_credentials([change])["payer"].result(TIMEOUT_S)
    rules = [
        (ResourceType.TRANSACTIONAL_ID, "payments-", AclOperation.WRITE),
        (ResourceType.TOPIC, "transactions-", AclOperation.WRITE),
        (ResourceType.TOPIC, "source-", AclOperation.READ),
        (ResourceType.GROUP, "transactions-", AclOperation.READ),
    ]
    bindings = [
        AclBinding(
            kind, prefix, ResourcePatternType.PREFIXED,
            "User:payer", "*", operation, AclPermissionType.ALLOW,
        )
        for kind, prefix, operation in rules
    ]  # fmt: skip
    for future in admin.create_acls(bindings).values():
        future.result(TIMEOUT_S)
    return ",".join(
        f"localhost:{each['port']}"
        for broker in cluster.state()["brokers"]
        for each in broker["listeners"]
        if each["name"] == "SASL_PLAINTEXT"
    )


@pytest.mark.parametrize(
    "name", ["confluent", *(pytest.param(each, marks=BEYOND_PYPI) for each in (*JAVA, *GO))]
)
def test_a_user_needs_the_right_to_the_transactional_id(
    cluster: Cluster, programs: Programs, payer: str, name: str, topic: str
) -> None:
    client = secured(programs, name, payer)
    with pytest.raises(TransactionFailed, match=r"(?i)Transactional.?Id.?Authorization.?Failed"):
        client.producer(unique_name("salaries"))
    source = create_topic(cluster, unique_name("source"), partitions=PARTITIONS)
    writer = Confluent(cluster.bootstrap).producer(unique_name("writer"))
    writer.begin()
    writer.send(source, 1, "paid")
    writer.commit()

    client.copy(unique_name("payments"), topic, source, topic, 1)
    wait_until(lambda: seen(cluster, topic) == ["PAID"], "the copy")
    assert committed(cluster, topic, source) == {1: 1}
