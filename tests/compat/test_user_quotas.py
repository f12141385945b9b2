"""Quotas of users who log in: all eight levels of precedence, and who is held back by which."""

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cluster.client.quota_requests import alter_quotas
from cluster.client.security import ClientSecurity, Servers
from cluster.client.socket_client import SocketClient
from cluster.model.quotas import DEFAULT, RULES, QuotaEntity
from cluster.model.security import SaslMechanism, SecurityProtocol
from tests.compat.kafka_process import ToolShell
from tests.support.client_quotas import KIB
from tests.support.running_cluster import Cluster
from tests.support.topics import unique_name
from tests.support.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.compat

USERS = ("admin", "alice", "bob", "carol")
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        + "".join(f' user_{user}="secret of {user}"' for user in USERS)
        + ";"
    ),
}
LEVELS = {
    "user+client": QuotaEntity("alice", "loader"),
    "user+default-client": QuotaEntity("alice", DEFAULT),
    "user": QuotaEntity("alice", None),
    "default-user+client": QuotaEntity(DEFAULT, "loader"),
    "default-user+default-client": QuotaEntity(DEFAULT, DEFAULT),
    "default-user": QuotaEntity(DEFAULT, None),
    "client": QuotaEntity(None, "loader"),
    "default-client": QuotaEntity(None, DEFAULT),
}
LIMITS = {rule: (number + 1.0) * 1_000 * KIB for number, rule in enumerate(LEVELS)}
"""Of bytes per second that are produced; more than this test sends."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data_dir: Path = tmp_path_factory.mktemp("quotas") / "data"
    with Cluster(data_dir, brokers=1, overrides=SETTINGS) as running:
        yield running


class UsersClient:
    """A producer of one user."""

    def __init__(self, cluster: Cluster, user: str, client_id: str) -> None:
        self.told: list[float] = []
        self.user = user
        self.client_id = client_id
        self._topic = unique_name("quotas")
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": f"secret of {user}",
                "client.id": client_id,
                "batch.num.messages": 1,
                "log_level": 0,
                "throttle_cb": lambda event: self.told.append(event.throttle_time),
            }
        )

    def produce(self, count: int = 1, size_bytes: int = 100) -> None:
        """Returns when all are acknowledged."""
        errors: list[Any] = []
        for _ in range(count):
            self._producer.produce(
                self._topic, bytes(size_bytes), on_delivery=lambda error, _: errors.append(error)
            )
        assert self._producer.flush(DEADLINE_S) == 0
        assert errors == [None] * count


def change(cluster: Cluster, entity: QuotaEntity, producer_byte_rate: float | None) -> None:
    admin = ClientSecurity(
        SecurityProtocol.SASL_PLAINTEXT,
        mechanism=SaslMechanism.PLAIN,
        username="admin",
        password="secret of admin",
    )
    with closing(SocketClient.connect(Servers(cluster.addresses, admin), "test")) as client:
        alter_quotas(client, entity, {"producer_byte_rate": producer_byte_rate})


@contextmanager
def limited(cluster: Cluster, entity: QuotaEntity, producer_byte_rate: float) -> Iterator[None]:
    change(cluster, entity, producer_byte_rate)
    try:
        yield
    finally:
        change(cluster, entity, None)


def explained(cluster: Cluster, client: UsersClient) -> dict[str, Any]:
    """What the broker says of the client's produce quota; it does so some time after a request."""
    names = ("--user", client.user, "--client-id", client.client_id)

    def produce_quota() -> dict[str, Any] | None:
        done = cluster.command("quotas", "explain", *names, "--json", check=False)
        told = json.loads(done.stdout)["quotas"] if done.returncode == 0 else []
        return next((each for each in told if each["quota"] == "produce"), None)

    return wait_until(produce_quota, "the client to be explained")


def has_rule(cluster: Cluster, client: UsersClient, rule: str | None, limit: float | None) -> bool:
    client.produce()
    found = explained(cluster, client)
    return (found["rule"], found["limit"]) == (rule, limit)


def test_each_level_holds_until_a_more_specific_one_is_set(cluster: Cluster) -> None:
    assert tuple(LEVELS) == RULES
    client = UsersClient(cluster, "alice", "loader")
    wait_until(lambda: has_rule(cluster, client, None, None), "no rule")
    for rule, entity in reversed(LEVELS.items()):
        change(cluster, entity, LIMITS[rule])
        wait_until(lambda rule=rule: has_rule(cluster, client, rule, LIMITS[rule]), rule)
    limits = {each["rule"]: each["limit"] for each in explained(cluster, client)["rules"]}
    assert limits == LIMITS
    others = [
        ("alice", "other", "user+default-client"),
        ("bob", "loader", "default-user+client"),
        ("bob", "other", "default-user+default-client"),
    ]
    for user, client_id, rule in others:
        other = UsersClient(cluster, user, client_id)
        wait_until(
            lambda other=other, rule=rule: has_rule(cluster, other, rule, LIMITS[rule]), rule
        )
    for entity in LEVELS.values():
        change(cluster, entity, None)
    wait_until(lambda: has_rule(cluster, client, None, None), "no rule")
    assert client.told == []


def test_a_user_is_held_back_with_all_its_clients_and_nobody_else(cluster: Cluster) -> None:
    bob, same_client_id = UsersClient(cluster, "bob", "one"), UsersClient(cluster, "carol", "one")
    with limited(cluster, QuotaEntity("bob", None), 60 * KIB):
        began = time.monotonic()
        wait_until(lambda: has_rule(cluster, bob, "user", 60 * KIB), "the limit")
        sent_count = 0

        def is_throttled() -> bool:
            nonlocal sent_count
            bob.produce(5, 10 * KIB)
            sent_count += 5
            return any(bob.told)

        wait_until(is_throttled, "bob to be throttled")
        for _ in range(3):
            is_throttled()
        # A second's worth may be sent at once; the last requests are answered before their delay.
        assert (sent_count - 3) * 10 * KIB < 60 * KIB * (time.monotonic() - began + 1)
        used = explained(cluster, bob)
        assert used["sum"]["throttled"] > 0
        assert used["rule"] == "user"
        # Another client of this user shares the account: it has sent a hundred bytes itself.
        another = UsersClient(cluster, "bob", "two")
        wait_until(lambda: has_rule(cluster, another, "user", 60 * KIB), "the other client")
        assert explained(cluster, another)["sum"]["rate"] > 2 * KIB
        same_client_id.produce(sent_count, 10 * KIB)
        assert not any(same_client_id.told)
        # Other tests gave this user limits, and took them away again.
        wait_until(
            lambda: explained(cluster, same_client_id)["rule"] is None, "a user without limits"
        )


@pytest.mark.beyond_pypi
@pytest.mark.slow
def test_kafkas_tool_limits_users_over_sasl(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "admin.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="admin" password="secret of admin";\n'
    )
    (tmp_path / "shell").mkdir()
    own, other = UsersClient(cluster, "carol", "mine"), UsersClient(cluster, "carol", "other")
    with ToolShell(tmp_path / "shell") as shell:

        def configs(*arguments: str) -> str:
            servers = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(config))
            return shell.run("kafka.admin.ConfigCommand", *servers, *arguments)

        carol = ("--entity-type", "users", "--entity-name", "carol")
        mine = (*carol, "--entity-type", "clients", "--entity-name", "mine")
        rest = (*carol, "--entity-type", "clients", "--entity-default")
        configs("--alter", "--add-config", "producer_byte_rate=5000000", *mine)
        configs("--alter", "--add-config", "producer_byte_rate=6000000", *rest)
        wait_until(lambda: has_rule(cluster, own, "user+client", 5e6), "her client's limit")
        wait_until(lambda: has_rule(cluster, other, "user+default-client", 6e6), "the others'")
        assert "producer_byte_rate=5000000.0" in configs("--describe", *mine)
        configs("--alter", "--delete-config", "producer_byte_rate", *mine)
        wait_until(lambda: has_rule(cluster, own, "user+default-client", 6e6), "the rest")
        configs("--alter", "--delete-config", "producer_byte_rate", *rest)
