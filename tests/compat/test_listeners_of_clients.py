"""Every stock client through every listener, by every way to log in that it has.

Only alice may use topics where clients have to say who they are: whoever gets through is alice.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import psutil
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.compat.client_programs import (
    ClientProgram,
    ProgramFailed,
    RunningProgram,
    as_produced,
    go_programs,
    javascript_programs,
)
from tests.compat.kafka_jvm import NEWEST, VERSION
from tests.compat.kafka_process import compiled, java_command
from tests.compat.round_trips import ROUND_TRIPS, Login
from tests.compat.samples import Sample
from tests.support.running_cluster import Cluster
from tests.support.tls import a_client, a_server, authority, pem_store
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import DEADLINE_S, wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow]

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
WAYS = [
    ("PLAINTEXT", ""),
    ("SSL", ""),
    ("MUTUAL", ""),
    *[(listener, each) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for each in MECHANISMS],
]
REFUSALS = {
    "franz-go": "SASL_AUTHENTICATION_FAILED",
    "sarama": "SASL Authentication failed",
    "kafkajs": "SASL SCRAM SHA512 authentication failed",
    "java-3.9": "SaslAuthenticationException: Authentication failed .* invalid credentials",
    "java-4.1": "SaslAuthenticationException: Authentication failed .* invalid credentials",
}
"""What each client says of a wrong password."""
PASSWORD = "a secret, with = and é"
RECORDS = [Sample(0, None, value) for value in (b"one", b"x" * 100_000, b"the last")]
ALICE = a_client()
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
MODULES = {"PLAIN": "plain.Plain", "OAUTHBEARER": "oauthbearer.OAuthBearer"}
"""Of Java's logins; the others are SCRAM's."""


class Place(NamedTuple):
    """A running cluster, its listeners' ports, and a signed token of alice in a file."""

    cluster: Cluster
    ports: dict[str, int]
    token: Path
    ca_file: Path
    certificate_file: Path

    def at(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def security(self, listener: str, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        """What clients in Go and JavaScript are told."""
        told = {"ca": "" if listener.endswith("PLAINTEXT") else certificate_of_the_authority()}
        if listener == "MUTUAL":
            told["certificate"] = certificate_of_alice()
        if mechanism:
            told |= {"mechanism": mechanism, "user": "alice", "password": password}
            told["token"] = self.token.read_text()
        return told

    def login(self, listener: str, mechanism: str, password: str = PASSWORD) -> Login:
        """What clients in Python and kcat are told."""
        return Login(
            self.at(listener),
            "SSL" if listener == "MUTUAL" else listener,
            "" if listener.endswith("PLAINTEXT") else str(self.ca_file),
            str(self.certificate_file) if listener == "MUTUAL" else "",
            mechanism,
            "alice",
            password,
            self.token.read_text() if mechanism == "OAUTHBEARER" else "",
            time.time() + 3_600,
        )

    def properties(self, listener: str, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        """What clients in Java are told."""
        told = {
            "bootstrap.servers": self.at(listener),
            "security.protocol": "SSL" if listener == "MUTUAL" else listener,
        }
        if not listener.endswith("PLAINTEXT"):
            told["ssl.truststore.type"] = "PEM"
            told["ssl.truststore.certificates"] = certificate_of_the_authority()
        if listener == "MUTUAL":
            told["ssl.keystore.type"] = "PEM"
            told["ssl.keystore.certificate.chain"] = ALICE.chain_pem().decode()
            told["ssl.keystore.key"] = ALICE.key_pem().decode()
        if mechanism:
            module = f"org.apache.kafka.common.security.{MODULES.get(mechanism, 'scram.Scram')}"
            told["sasl.mechanism"] = mechanism
            told["sasl.jaas.config"] = f"{module}LoginModule required"
            if mechanism == "OAUTHBEARER":
                told["sasl.jaas.config"] += ";"
                told["sasl.oauthbearer.token.endpoint.url"] = self.token.as_uri()
                told["sasl.login.callback.handler.class"] = (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
                )
            else:
                told["sasl.jaas.config"] += f' username="alice" password="{password}";'
        return told


def certificate_of_alice() -> str:
    return (ALICE.key_pem() + ALICE.chain_pem()).decode()


def certificate_of_the_authority() -> str:
    return authority().identity.certificate_pem().decode()


def a_token() -> str:
    now_s = int(time.time())
    claims = {"sub": "alice", "aud": "kafka", "iat": now_s, "exp": now_s + 3_600}
    return jwt.encode(claims, KEY, "RS256", {"kid": "one"})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("listeners")
    ca = directory / "ca.pem"
    ca.write_text(certificate_of_the_authority())
    keys = directory / "keys.json"
    public = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    keys.write_text(json.dumps({"keys": [public | {"kid": "one"}]}))
    token = directory / "token"
    token.write_text(a_token())
    listeners = ("PLAINTEXT", "SSL", "MUTUAL", "SASL_PLAINTEXT", "SASL_SSL")
    protocols = {name: "SSL" if name == "MUTUAL" else name for name in listeners}
    jaas = (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'
    )
    overrides = {
        "listeners": ",".join(f"{name}://:0" for name in listeners),
        "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": pem_store(a_server(), directory / "server.pem").location,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=([^,]*),O=Milena$/$1/",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
    }
    with Cluster(directory / "data", brokers=1, overrides=overrides) as cluster:
        (broker,) = cluster.state()["brokers"]
        certificate = directory / "alice.pem"
        certificate.write_text(certificate_of_alice())
        ports = {each["name"]: each["port"] for each in broker["listeners"]}
        running = Place(cluster, ports, token, ca, certificate)
        admin = AdminClient({"bootstrap.servers": running.at("PLAINTEXT")})
        for each in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(each, 4096)
            change = UserScramCredentialUpsertion("alice", info, PASSWORD.encode())
            admin.alter_user_scram_credentials([change])["alice"].result(DEADLINE_S)
        yield running


class Client(NamedTuple):
    """A library in a running program."""

    name: str
    process: RunningProgram

    def at(self, place: Place, listener: str, mechanism: str, *password: str) -> ClientProgram:
        if self.name.startswith("java"):
            how: dict[str, Any] = {"properties": place.properties(listener, mechanism, *password)}
        else:
            how = {"security": place.security(listener, mechanism, *password)}
            how["library"] = self.name
        return ClientProgram(self.process, place.at(listener), **how)


@pytest.fixture(scope="module", params=REFUSALS)
def client(
    request: pytest.FixtureRequest, place: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    name: str = request.param
    command: list[str | Path]
    if name == "kafkajs":
        command = ["node", javascript_programs() / "kafkajs_client.mjs"]
    elif name.startswith("java"):
        classes = compiled("SecuredClients", tmp_path_factory.mktemp("classes"))
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={place.token.as_uri()}"
        files = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={place.token}"
        version = NEWEST if name == "java-4.1" else VERSION
        command = [*java_command(classes, version), allowed, files, "SecuredClients"]
    else:
        command = [go_programs() / "go_clients"]
    process = RunningProgram(command)
    yield Client(name, process)
    process.close()


@pytest.mark.beyond_pypi
@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_records_come_back_as_they_were_sent(
    place: Place, client: Client, listener: str, mechanism: str
) -> None:
    topic = create_topic(place.cluster, unique_name("listeners"), replication_factor=1)
    program = client.at(place, listener, mechanism)
    assert program.produce(topic, RECORDS).offsets == [0, 1, 2]
    assert program.consume(topic).records == RECORDS


@pytest.mark.parametrize(
    ("name", "listener", "mechanism"),
    [
        (name, *way)
        for name in ROUND_TRIPS
        for way in WAYS
        if (name, way[1]) != ("kcat", "OAUTHBEARER")  # it has unsecured tokens only
    ],
)
def test_values_come_back_as_they_were_sent(
    place: Place, name: str, listener: str, mechanism: str
) -> None:
    topic = create_topic(place.cluster, unique_name("listeners"), replication_factor=1)
    login = place.login(listener, mechanism)
    values = [sample.value or b"" for sample in RECORDS]
    assert ROUND_TRIPS[name](login, topic, values) == values


@pytest.mark.beyond_pypi
def test_a_wrong_password_is_told_as_that_and_leaves_no_connection(
    place: Place, client: Client
) -> None:
    topic = create_topic(place.cluster, unique_name("listeners"), replication_factor=1)
    program = client.at(place, "SASL_SSL", "SCRAM-SHA-512", "not the secret")
    # franz-go's producer tries again for as long as the record may wait.
    action = "describe" if client.name == "franz-go" else "produce"
    with pytest.raises(ProgramFailed, match=REFUSALS[client.name]):
        program.ask(action, topic=topic, **as_produced(RECORDS))
    process = psutil.Process(client.process.pid)

    def is_alone() -> bool:
        return all(each.status != psutil.CONN_ESTABLISHED for each in process.net_connections())

    wait_until(is_alone, "the end of its connections")
