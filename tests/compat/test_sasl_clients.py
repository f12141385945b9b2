"""Stock clients log in by SASL: PLAIN, SCRAM and OAUTHBEARER, with right and wrong secrets."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaTokenProvider

from cluster.datadir.paths import DataDir
from cluster.metrics.stats_reader import read_stats
from cluster.model.errors import ErrorCode
from cluster.model.scram import MECHANISMS as SCRAM
from cluster.model.scram import ScramClient
from cluster.model.security import SaslMechanism
from cluster.protocol.api import ApiKey
from tests.compat.kafka_process import ToolShell
from tests.support.kafka_wire import WireClient, metadata_request, request
from tests.support.running_cluster import Address, Cluster
from tests.support.topics import unique_name
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat

TIMEOUT_S = 30
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
WRONG = "not the secret"
PASSWORD = "a secret, with = and \u00e9"
ADMIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
SESSION_MS = 2_000
"""Of logins by SCRAM-SHA-512; the others last. Nobody may log in again twice in a second."""
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "delegation.token.master.key": "a secret of the cluster",
    "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
    "listener.name.plaintext.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
    "listener.name.plaintext.scram-sha-512.connections.max.reauth.ms": str(SESSION_MS),
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' user_admin="admin secret" user_alice="{PASSWORD}";'
    ),
}


def librdkafka(cluster: Cluster, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


def python_client(cluster: Cluster, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def bearer_token(user: str = "alice", key: Any = KEY) -> tuple[str, float]:
    """A signed token of a minute, and when it ends in seconds."""
    now_s = time.time()
    claims = {"sub": user, "aud": "kafka", "iat": now_s, "exp": now_s + 60}
    return jwt.encode(claims, key, "RS256", {"kid": "one"}), now_s + 60


class Tokens(KafkaTokenProvider):
    def __init__(self, **_config: Any) -> None:
        return

    def token(self) -> str:
        return bearer_token()[0]


class AsyncTokens(AbstractTokenProvider):
    async def token(self) -> str:
        return bearer_token()[0]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    path: Path = tmp_path_factory.mktemp("sasl")
    keys = path / "keys.json"
    public = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [public | {"kid": "one"}]}))
    url = {"listener.name.plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri()}
    with Cluster(path / "data", brokers=3, overrides=SETTINGS | url) as running:
        admin = AdminClient(librdkafka(running, "PLAIN", "admin", "admin secret"))
        changes: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(
                "alice", ScramCredentialInfo(each, 4096), PASSWORD.encode()
            )
            for each in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for future in admin.alter_user_scram_credentials(changes).values():
            future.result(TIMEOUT_S)
        yield running


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in_and_exchanges_records(cluster: Cluster, mechanism: str) -> None:
    config = librdkafka(cluster, mechanism, "alice", PASSWORD)
    topic = unique_name("sasl")
    producer = Producer(config)
    errors: list[Any] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None]
    consumer = Consumer(config | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None
    assert message.value() == b"x"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", WRONG), ("nobody", PASSWORD)])
def test_librdkafka_is_refused_with_a_wrong_password(
    cluster: Cluster, mechanism: str, user: str, password: str
) -> None:
    said: list[str] = []
    config = librdkafka(cluster, mechanism, user, password)
    admin = AdminClient(config | {"error_cb": lambda error: said.append(error.str())})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    wait_until(lambda: admin.poll(0.1) or said, "the client to say why")
    wanted = "Invalid username or password" if mechanism == "PLAIN" else "invalid credentials"
    assert any(wanted in line for line in said), said


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in_and_exchanges_records(cluster: Cluster, mechanism: str) -> None:
    config = python_client(cluster, mechanism, "alice", PASSWORD)
    topic = unique_name("sasl")
    producer = KafkaProducer(**config)
    producer.send(topic, b"x").get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, **config, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1_000
    )
    assert next(consumer).value == b"x"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in_and_exchanges_records(cluster: Cluster, mechanism: str) -> None:
    config = python_client(cluster, mechanism, "alice", PASSWORD)
    topic = unique_name("sasl")

    async def run() -> bytes:
        async with AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait(topic, b"x")
        async with AIOKafkaConsumer(topic, **config, auto_offset_reset="earliest") as consumer:
            message = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
            return bytes(message.value)

    assert asyncio.run(run()) == b"x"


def produced_by_librdkafka(cluster: Cluster, topic: str, until_s: float) -> int:
    producer = Producer(librdkafka(cluster, "SCRAM-SHA-512", "alice", PASSWORD))
    errors: list[Any] = []
    while time.monotonic() < until_s:
        producer.produce(
            topic, b"x", partition=0, on_delivery=lambda error, _message: errors.append(error)
        )
        assert producer.flush(TIMEOUT_S) == 0
        time.sleep(0.05)
    assert set(errors) == {None}
    return len(errors)


def produced_by_kafka_python(cluster: Cluster, topic: str, until_s: float) -> int:
    producer = KafkaProducer(**python_client(cluster, "SCRAM-SHA-512", "alice", PASSWORD))
    count = 0
    while time.monotonic() < until_s:
        producer.send(topic, b"x", partition=0).get(TIMEOUT_S)
        count += 1
        time.sleep(0.05)
    producer.close()
    return count


def produced_by_aiokafka(cluster: Cluster, topic: str, until_s: float) -> int:
    async def run() -> int:
        count = 0
        config = python_client(cluster, "SCRAM-SHA-512", "alice", PASSWORD)
        async with AIOKafkaProducer(**config) as producer:
            while time.monotonic() < until_s:
                await asyncio.wait_for(producer.send_and_wait(topic, b"x", partition=0), TIMEOUT_S)
                count += 1
                await asyncio.sleep(0.05)
        return count

    return asyncio.run(run())


def logged_in_again(cluster: Cluster) -> float:
    """How many times clients have logged in again on their connections."""
    stats = DataDir(cluster.data_dir).run.glob("broker-*.stats")
    return sum(
        value
        for path in stats
        for name, value in read_stats(path).values.items()
        if name.endswith("successful-reauthentication-total")
    )


def test_sessions_that_end_disturb_no_client_at_work(cluster: Cluster) -> None:
    """librdkafka and kafka-python log in again in time (KIP-368), aiokafka connects anew."""
    before = logged_in_again(cluster)
    until_s = time.monotonic() + 2.5 * SESSION_MS / 1_000
    work = (produced_by_librdkafka, produced_by_kafka_python, produced_by_aiokafka)
    topics = [unique_name("sessions") for _ in work]
    with ThreadPoolExecutor() as pool:
        running = [
            pool.submit(each, cluster, topic, until_s)
            for each, topic in zip(work, topics, strict=True)
        ]
        counts = [each.result(4 * TIMEOUT_S) for each in running]
    config = librdkafka(cluster, "PLAIN", "alice", PASSWORD) | {"group.id": "sessions"}
    consumer = Consumer(config)
    try:
        for topic, count in zip(topics, counts, strict=True):
            assert count > 0
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
            assert end >= count, topic
    finally:
        consumer.close()
    after = logged_in_again(cluster)
    assert after > before


def test_clients_with_signed_tokens_log_in(cluster: Cluster) -> None:
    config = librdkafka(cluster, "OAUTHBEARER", "", "")
    del config["sasl.username"], config["sasl.password"]
    producer = Producer(config | {"oauth_cb": lambda _config: bearer_token()})
    topic = unique_name("sasl")
    producer.produce(topic, b"x")
    assert producer.flush(TIMEOUT_S) == 0
    other = {
        "bootstrap_servers": cluster.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }
    consumer = KafkaConsumer(
        topic,
        **other,
        sasl_oauth_token_provider=Tokens(),
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1_000,
    )
    assert next(consumer).value == b"x"
    consumer.close()

    async def run() -> None:
        provider = AsyncTokens()
        async with AIOKafkaProducer(**other, sasl_oauth_token_provider=provider) as producer:
            await producer.send_and_wait(topic, b"y")

    asyncio.run(run())


def test_client_with_a_forged_token_is_refused(cluster: Cluster) -> None:
    forger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    config = librdkafka(cluster, "OAUTHBEARER", "", "")
    del config["sasl.username"], config["sasl.password"]
    said: list[str] = []
    admin = AdminClient(
        config
        | {
            "oauth_cb": lambda _config: bearer_token(key=forger),
            "error_cb": lambda error: said.append(error.str()),
        }
    )
    wait_until(lambda: admin.poll(0.1) or said, "the client to say why")
    assert any("invalid_token" in line for line in said), said


class Refusal(NamedTuple):
    """What a login that fails is told at each step, and how long it took from the last one."""

    told: list[bytes]
    error_code: int
    message: str
    elapsed_s: float


def begun(client: WireClient, mechanism: str) -> None:
    client.call(request(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism))


def answered(client: WireClient, token: bytes) -> Any:
    return client.call(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token))


def refusal(address: Address, mechanism: SaslMechanism, user: str, password: str) -> Refusal:
    with WireClient(address) as client:
        begun(client, mechanism)
        told = []
        last = f"\0{user}\0{password}".encode()
        if mechanism in SCRAM:
            scram = ScramClient(mechanism, user, password, "nonce")
            told = [answered(client, scram.first_message()).auth_bytes]
            last = scram.final_message(told[0])
        began_s = time.monotonic()
        answer = answered(client, last)
        elapsed_s = time.monotonic() - began_s
        assert client.wait_for_close() == b""
        return Refusal(told, answer.error_code, answer.error_message, elapsed_s)


@pytest.mark.parametrize("mechanism", [SaslMechanism.PLAIN, *SCRAM])
def test_an_unknown_user_is_answered_as_a_wrong_password_after_the_delay(
    cluster: Cluster, mechanism: SaslMechanism
) -> None:
    wrong = refusal(cluster.addresses[0], mechanism, "alice", WRONG)
    unknown = refusal(cluster.addresses[0], mechanism, "nobody", PASSWORD)
    assert wrong.message == unknown.message
    assert wrong.error_code == unknown.error_code == ErrorCode.sasl_authentication_failed
    assert min(wrong.elapsed_s, unknown.elapsed_s) >= 0.095, "a timer of whole milliseconds"


def test_every_broker_makes_up_the_same_salt_for_an_unknown_user_and_keeps_it(
    cluster: Cluster,
) -> None:
    def salts(broker: int) -> list[bytes]:
        told = [
            refusal(cluster.addresses[broker], SaslMechanism.SCRAM_SHA_512, user, WRONG).told[0]
            for user in ("nobody", "somebody", "alice")
        ]
        return [part for each in told for part in each.split(b",") if part.startswith(b"s=")]

    nobody, somebody, alice = before = salts(0)
    assert len({nobody, somebody, alice}) == 3
    assert salts(1) == salts(2) == before
    cluster.restart(1)
    assert salts(1) == before


def test_recorded_messages_log_nobody_in_again(cluster: Cluster) -> None:
    mechanism = SaslMechanism.SCRAM_SHA_256
    scram = ScramClient(mechanism, "alice", PASSWORD, "nonce")
    with WireClient(cluster.addresses[0]) as client:
        begun(client, mechanism)
        first = scram.first_message()
        final = scram.final_message(answered(client, first).auth_bytes)
        assert answered(client, final).error_code == ErrorCode.none
        assert client.call(metadata_request()).brokers
    with WireClient(cluster.addresses[0]) as client:
        begun(client, mechanism)
        assert answered(client, first).error_code == ErrorCode.none
        assert answered(client, final).error_code == ErrorCode.sasl_authentication_failed
        assert client.wait_for_close() == b""


def signed(key_id: str = "one", audience: str = "kafka", **seconds_from_now: float) -> str:
    now = time.time()
    times = {"iat": now, "exp": now + 60} | {k: now + v for k, v in seconds_from_now.items()}
    return jwt.encode({"sub": "alice", "aud": audience} | times, KEY, "RS256", {"kid": key_id})


@pytest.mark.parametrize(
    ("token_made_now", "words"),
    [
        (lambda: signed(audience="others"), "it is for another audience (aud)"),
        (lambda: signed(exp=-60, iat=-90), "the token has expired (exp)"),
        (lambda: signed(nbf=600, exp=660), "the token is not valid yet (nbf)"),
        (lambda: signed(key_id="rotated"), "is not in the key set (kid)"),
        (lambda: "W10.e30.c2ln", "it is not a JSON Web Token"),
        (lambda: "eyJhbGciOltdfQ.e30.c2ln", "not signed by an algorithm with public keys (alg)"),
    ],
)
def test_a_token_that_proves_nothing_is_told_as_kafka_does_and_is_one_line(
    cluster: Cluster, token_made_now: Callable[[], str], words: str
) -> None:
    token = token_made_now()
    with WireClient(cluster.addresses[0]) as client:
        begun(client, "OAUTHBEARER")
        first = answered(client, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        assert first.error_code == ErrorCode.none
        assert json.loads(first.auth_bytes) == {"status": "invalid_token"}
        last = answered(client, b"\x01")
        assert last.error_code == ErrorCode.sasl_authentication_failed
        assert last.error_message == '{"status":"invalid_token"}'
        assert client.wait_for_close() == b""
        name = client.name
    wait_until(lambda: cluster.log_lines(0, name), "the line")
    (line,) = cluster.log_lines(0, name)
    assert line.endswith(words)


def test_a_request_before_the_login_ends_its_connection_with_one_line(cluster: Cluster) -> None:
    with WireClient(cluster.addresses[0]) as client:
        client.send(metadata_request())
        assert client.wait_for_close() == b""
        name = client.name
    wait_until(lambda: cluster.log_lines(0, name), "the line")
    (line,) = cluster.log_lines(0, name)
    assert "API key 3 version 12 before the login" in line


def test_credentials_are_described_and_deleted(cluster: Cluster) -> None:
    admin = AdminClient(librdkafka(cluster, "PLAIN", "admin", "admin secret"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    for change in (
        UserScramCredentialUpsertion("bob", info, b"first"),
        UserScramCredentialUpsertion("bob", info, b"second"),
    ):
        admin.alter_user_scram_credentials([change])["bob"].result(TIMEOUT_S)
    config = librdkafka(cluster, "SCRAM-SHA-512", "bob", "second")
    assert AdminClient(config).list_topics(timeout=TIMEOUT_S).brokers
    futures = admin.describe_user_scram_credentials(["bob"])
    assert isinstance(futures, dict)
    described = futures["bob"].result(TIMEOUT_S)
    assert isinstance(described, UserScramCredentialsDescription)
    assert [each.iterations for each in described.scram_credential_infos] == [8192]
    deletion = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])["bob"].result(TIMEOUT_S)
    with pytest.raises(KafkaException):
        AdminClient(config).list_topics(timeout=2)


def test_no_password_is_in_a_log(cluster: Cluster) -> None:
    with pytest.raises(KafkaException):
        AdminClient(librdkafka(cluster, "PLAIN", "admin", WRONG)).list_topics(timeout=2)

    def logs_of_all() -> str:
        return "".join(path.read_text() for path in (cluster.data_dir / "logs").glob("*.log"))

    wait_until(
        lambda: "failed to log in as admin by PLAIN" in logs_of_all(), "the line of a refused login"
    )
    logs = logs_of_all()
    secrets = (PASSWORD, "admin secret", WRONG, "stored_key", "server_key", "eyJ")
    for secret in secrets:
        assert secret not in logs


@pytest.mark.beyond_pypi
@pytest.mark.slow
def test_kafkas_tools_log_in_and_make_users_and_tokens(cluster: Cluster, tmp_path: Path) -> None:
    def config(name: str, mechanism: str, user: str, password: str, more: str = "") -> str:
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        path = tmp_path / name
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required"
            f' username="{user}" password="{password}"{more};\n'
        )
        return str(path)

    servers = ("--bootstrap-server", cluster.bootstrap)
    admin = ("--command-config", config("admin.properties", "PLAIN", "admin", "admin secret"))
    carol = ("--entity-type", "users", "--entity-name", "carol")
    topics = "org.apache.kafka.tools.TopicCommand"
    (tmp_path / "shell").mkdir()
    with ToolShell(tmp_path / "shell") as shell:
        for added in ("SCRAM-SHA-512=[iterations=8192,password=carols]", "producer_byte_rate=4096"):
            change = ("--alter", "--add-config", added)
            shell.run("kafka.admin.ConfigCommand", *servers, *admin, *carol, *change)
        said = shell.run("kafka.admin.ConfigCommand", *servers, *admin, *carol, "--describe")
        assert "SCRAM-SHA-512=iterations=8192" in said
        assert "producer_byte_rate=4096.0" in said
        own = ("--command-config", config("carol.properties", "SCRAM-SHA-512", "carol", "carols"))
        shell.run(topics, *servers, *own, "--list")
        said = shell.run(
            "org.apache.kafka.tools.DelegationTokenCommand",
            *(*servers, *own, "--create", "--max-life-time-period", "-1"),
            *("--renewer-principal", "User:alice"),
        )
        token_id, hmac = said.splitlines()[-1].split()[:2]
        token = config("token.properties", "SCRAM-SHA-256", token_id, hmac, ' tokenauth="true"')
        shell.run(topics, *servers, "--command-config", token, "--list")
        said = shell.run(
            "org.apache.kafka.tools.DelegationTokenCommand",
            *(*servers, *own, "--describe", "--owner-principal", "User:carol"),
        )
        assert token_id in said
