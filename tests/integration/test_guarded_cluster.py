"""With SASL and ACLs, `--secure` or not, registry and files of a cluster are closed to others."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, SessionClosedRequireSaslError

from cluster.coordinator.registry.documents import paths
from cluster.datadir.paths import REGISTRY_JAAS, DataDir
from cluster.model.scram import credential_of, credential_text
from cluster.model.security import SaslMechanism
from cluster.tools.main import main
from tests.support.running_cluster import HOST, Cluster
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

GUARDED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_root="root-secret";'
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:root",
}


def test_registry_of_a_cluster_with_sasl_lets_no_client_create_a_super_user(
    new_cluster: Callable[..., Cluster], capsys: pytest.CaptureFixture[str]
) -> None:
    before = new_cluster(brokers=2).start()  # open, so its znodes and files are
    topic = create_topic(before, replication_factor=2)
    before.data_dir.chmod(0o755)
    before.stop()

    guarded = Cluster(before.data_dir, brokers=2, overrides=GUARDED, dashboard=True).start()
    try:
        check_guarded(guarded, topic, capsys)
    finally:
        guarded.stop()
    before.start()  # and open again
    anybody = AdminClient({"bootstrap.servers": before.bootstrap})
    wait_until(lambda: topic in anybody.list_topics(timeout=30).topics, "the topic")


def check_guarded(cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster.data_dir.stat().st_mode & 0o777 == 0o700
    stranger_is_refused(cluster)
    jaas = DataDir(cluster.data_dir).clients / REGISTRY_JAAS
    assert jaas.stat().st_mode & 0o777 == 0o600
    assert DataDir(cluster.data_dir).clients.stat().st_mode & 0o777 == 0o700
    admin = AdminClient(client(cluster, "PLAIN", "root-secret"))
    wait_until(lambda: topic in admin.list_topics(timeout=30).topics, "the topic")
    capsys.readouterr()
    # The command finds its login.
    assert main(["registry", "--data-dir", str(cluster.data_dir), "ls", "/brokers/ids"]) == 0
    assert json.loads(capsys.readouterr().out) == [0, 1]
    wait_until(lambda: dashboard_asks_for_the_password(cluster), "the dashboard to answer")
    cluster.kill(1)  # the supervisor, which closes its session, finds it too
    wait_until(lambda: len(admin.list_topics(timeout=30).brokers) == 2, "both brokers")
    password = DataDir(cluster.data_dir).registry_auth_file.read_text().strip()
    for name in ("registry", "supervisor", "broker-0", "broker-1"):
        assert password.rpartition(":")[2] not in cluster.log_text(name)


def client(cluster: Cluster, mechanism: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "root",
        "sasl.password": password,
    }


def stranger_is_refused(cluster: Cluster) -> None:
    """Who writes a credential for the super user, as `kafka-configs --zookeeper` does."""
    sha = SaslMechanism.SCRAM_SHA_512
    text = credential_text(credential_of(sha, "guessed", b"0123456789"))
    document = f'{{"version":1,"config":{{"{sha}":"{text}"}}}}'.encode()
    stranger = KazooClient(f"{HOST}:{cluster.registry_port}")
    stranger.start(timeout=20)
    try:
        with pytest.raises((AuthFailedError, SessionClosedRequireSaslError)):
            stranger.create(f"{paths.CONFIG}/users/root", document, makepath=True)
    finally:
        stranger.stop()
        stranger.close()


def dashboard_asks_for_the_password(cluster: Cluster) -> bool:
    """False while it does not listen yet."""
    url = f"http://{HOST}:{cluster.dashboard_port}/"
    if (status := status_of(url)) is None:
        return False
    assert status == 401
    password = DataDir(cluster.data_dir).dashboard_password.read_text().strip()
    login = base64.b64encode(f"milena:{password}".encode()).decode()
    asked = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
    return status_of(asked) == 200


def status_of(asked: str | urllib.request.Request) -> int | None:
    """None while nobody listens there."""
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return refusal.code
    except OSError:
        return None
