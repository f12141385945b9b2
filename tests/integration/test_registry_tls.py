"""The registry over TLS: kazoo, who closes sessions, client certificates, and who is refused."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_acl

from cluster.config.properties_file import render_properties
from cluster.coordinator.registry.client.kazoo_setup import kazoo_arguments, start_client
from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.coordinator.registry.client.session_close import close_session
from cluster.runtime.certificates import CertificateAuthority, Identity, name_of
from cluster.runtime.tls_context import client_context
from cluster.runtime.tls_options import StoreSource, TlsClientOptions
from cluster.tools.main import main
from tests.integration.registry_process import RegistryProcess
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until

NOW = datetime.now(UTC)
LOGINS = {"passwords": {"alice": "wonder-1"}, "is_required": False}


class Stage(NamedTuple):
    registry: RegistryProcess
    directory: Path
    authority: CertificateAuthority

    def pem(self, name: str, identity: Identity, *, with_key: bool) -> StoreSource:
        """A file of a certificate, and of its key."""
        path = self.directory / f"{name}.pem"
        path.touch(0o600)
        path.write_bytes(identity.chain_pem() + (identity.key_pem() if with_key else b""))
        return StoreSource("keystore" if with_key else "truststore", "PEM", str(path))

    def access(self, client: str | None = None) -> RegistryAccess:
        """Over TLS, with a certificate for a name."""
        trusted = self.pem("authority", self.authority.identity, with_key=False)
        own = None
        if client is not None:
            identity = self.authority.issue_client(name_of(client), NOW)
            own = self.pem(client, identity, with_key=True)
        tls = TlsClientOptions(trusted, own)
        return RegistryAccess("sasl", "alice", "wonder-1", tls)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A registry behind TLS that asks clients for certificates."""
    directory = tmp_path_factory.mktemp("tls")
    authority = CertificateAuthority.make(name_of("authority"), NOW)
    server = authority.issue_server(name_of("registry"), ["127.0.0.1"], NOW)
    paths = {}
    for name, identity, with_key in (
        ("key_store", server, True),
        ("trust_store", authority.identity, False),
    ):
        path = directory / f"{name}.pem"
        path.touch(0o600)
        path.write_bytes(identity.chain_pem() + (identity.key_pem() if with_key else b""))
        paths[name] = str(path)
    tls = {**paths, "client_auth": "requested"}
    with RegistryProcess(directory / "registry", logins=LOGINS, tls=tls) as registry:
        yield Stage(registry, directory, authority)


def connect(stage: Stage, access: RegistryAccess, timeout_s: float = 10) -> KazooClient:
    client = KazooClient(f"127.0.0.1:{stage.registry.port}", **kazoo_arguments(access))
    start_client(client, timeout_s)
    stage.registry.clients.append(client)
    return client


def test_requests_and_logins_work_over_tls(stage: Stage) -> None:
    client = connect(stage, stage.access())
    client.create("/tls", b"x" * 100_000, acl=[make_acl("sasl", "alice", all=True)])
    # Many answers arrive in one record of TLS.
    answers = [client.get_async("/tls") for _ in range(200)]
    assert {len(answer.get(timeout=10)[0]) for answer in answers} == {100_000}


def test_a_client_s_certificate_is_an_identity(stage: Stage) -> None:
    owner = connect(stage, stage.access("owner"))
    owner.create("/owned", b"", acl=[make_acl("x509", "CN=owner", all=True)])
    assert owner.get("/owned")[0] == b""
    with pytest.raises(NoAuthError):
        connect(stage, stage.access("other")).get("/owned")


def test_a_dead_owner_s_session_is_closed_over_tls(stage: Stage) -> None:
    owner, other = connect(stage, stage.access()), connect(stage, stage.access())
    owner.create("/ephemeral", ephemeral=True)
    session_id, password = owner.client_id
    port = stage.registry.port
    assert close_session("127.0.0.1", port, session_id, password, 5_000, stage.access())
    assert other.exists("/ephemeral") is None
    with pytest.raises(OSError, match=r"."):
        close_session("127.0.0.1", port, session_id, password, 5_000, NOBODY)


def test_plaintext_and_other_authorities_are_refused(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KazooTimeoutError):
        connect(stage, NOBODY, timeout_s=1)
    stranger = CertificateAuthority.make(name_of("stranger"), NOW)
    foreign = Stage(stage.registry, stage.directory / "foreign", stranger)
    foreign.directory.mkdir()
    with pytest.raises(KazooTimeoutError):
        connect(foreign, foreign.access(), timeout_s=1)
    assert "TLS with the registry at 127.0.0.1" in caplog.text
    connect(stage, stage.access()).get("/")  # others are served


def test_brokers_and_the_registry_command_connect_over_tls(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted = stage.pem("authority", stage.authority.identity, with_key=False)
    tls = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.protocol": "TLSv1.3",
        "zookeeper.ssl.truststore.location": str(trusted.location),
    }
    server = f"127.0.0.1:{stage.registry.port}/brokers"
    login = "sasl:alice:wonder-1"
    overrides = {**tls, "zookeeper.connect": server, "milena.registry.auth": login}
    with Cluster(tmp_path / "cluster", brokers=2, overrides=overrides) as cluster:
        topic = create_topic(cluster, assignments=[[0, 1]])
        old = leader(cluster, topic)
        cluster.kill(old)  # the supervisor closes its session, over TLS too
        wait_until(lambda: leader(cluster, topic) not in (old, -1), "another leader")
        wait_for_isr(cluster, topic, 2)
        file = tmp_path / "client.properties"
        file.write_text(render_properties({**tls, "broker.id": "of others"}))
        words = ["registry", "--server", server, "--auth", login, "--zk-tls-config-file", str(file)]
        capsys.readouterr()
        assert main([*words, "ls", "/brokers/ids"]) == 0
        assert capsys.readouterr().out == "[0, 1]\n"
    file.write_text("zookeeper.ssl.protocol=SSLv3\n")
    assert main([*words, "ls", "/"]) == 1
    assert "zookeeper.ssl.protocol" in capsys.readouterr().err


def test_four_letter_words_are_answered_over_tls(stage: Stage) -> None:
    tls = stage.access().tls
    assert tls is not None
    address = ("127.0.0.1", stage.registry.port)
    with (
        socket.create_connection(address, 10) as plain,
        client_context(tls).wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(b"ruok")
        assert secure.recv(100) == b"imok"
