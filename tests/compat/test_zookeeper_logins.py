"""Logins by SASL: ZooKeeper's own client at our registry and at ZooKeeper, and ours at both."""

import os
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, NoNodeError

from cluster.coordinator.registry.client.kazoo_setup import kazoo_arguments, start_client
from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.coordinator.registry.client.session_close import close_session
from cluster.runtime.certificates import CertificateAuthority, name_of
from tests.compat.zookeeper_server import CLI, HOST, ZooKeeperProcess, require_zookeeper
from tests.integration.registry_process import RegistryProcess

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]

PASSWORDS = {"alice": "wonder-1", "bob": "builder-2"}
ALICE = RegistryAccess("sasl", "alice", "wonder-1")
BOB = RegistryAccess("sasl", "bob", "builder-2")
WRONG = RegistryAccess("sasl", "alice", "guessed-9")
COMMANDS = """
create /own mine sasl:alice:cdrwa
create /others theirs sasl:bob:cdrwa
get /own
getAcl /own
get /others
create /auth x auth::r
getAcl /auth
whoami
quit
"""
JARS = Path("/usr/share/java")
_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"


@pytest.fixture(scope="module", params=["built-in", "zookeeper"])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where a server listens that requires logins."""
    require_zookeeper()
    directory = tmp_path_factory.mktemp("logins")
    if request.param == "built-in":
        logins = {"passwords": PASSWORDS, "is_required": True}
        with RegistryProcess(directory / "registry", tick_time_ms=2_000, logins=logins) as registry:
            yield registry.port
        return
    users = "".join(f'\n  user_{user}="{password}"' for user, password in PASSWORDS.items())
    jaas = directory / "server.jaas"
    jaas.write_text(f"Server {{ {_MODULE} required{users}; }};\n")
    with ZooKeeperProcess(
        directory / "zookeeper",
        tick_time_ms=2_000,
        settings={
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "sessionRequireClientSASLAuth": "true",
        },
        java_options=[f"-Djava.security.auth.login.config={jaas}"],
    ) as zookeeper:
        yield zookeeper.port


def zkcli(port: int, directory: Path, access: RegistryAccess, *flags: str) -> str:
    """What zkCli prints for the commands."""
    jaas = directory / "client.jaas"
    jaas.write_text(
        f'Client {{ {_MODULE} required username="{access.user}" password="{access.password}"; }};\n'
    )
    done = subprocess.run(
        [str(CLI), "-server", f"{HOST}:{port}"],
        input=COMMANDS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **os.environ,
            "CLIENT_JVMFLAGS": " ".join((f"-Djava.security.auth.login.config={jaas}", *flags)),
        },
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


def test_zkcli_logs_in(port: int, tmp_path: Path) -> None:
    printed = zkcli(port, tmp_path, ALICE)
    for line in ("Created /own", "mine", "Created /others", "Created /auth"):
        assert re.search(rf"(?m)^{line}$", printed), printed
    assert "'sasl,'alice\n: cdrwa" in printed
    assert "'sasl,'alice\n: r" in printed
    assert re.search(r"(?m)^sasl: alice$", printed), printed
    assert re.search(r"Insufficient permission : /others", printed), printed


def test_zkcli_speaks_tls_with_us(tmp_path: Path) -> None:
    require_zookeeper()
    authority = CertificateAuthority.make(name_of("authority"), datetime.now(UTC))
    server = authority.issue_server(name_of("registry"), [HOST], datetime.now(UTC))
    own, trusted = tmp_path / "server.pem", tmp_path / "trusted.pem"
    own.touch(0o600)
    own.write_bytes(server.chain_pem() + server.key_pem())
    trusted.write_bytes(authority.identity.certificate_pem())
    tls = {"key_store": str(own), "trust_store": str(trusted), "client_auth": "none"}
    logins = {"passwords": PASSWORDS, "is_required": True}
    # Debian's launcher leaves out what only TLS needs.
    jars = (JARS / "zookeeper.jar", *JARS.glob("netty-*.jar"))
    class_path = ":".join(map(str, jars))
    with RegistryProcess(
        tmp_path / "registry", tick_time_ms=2_000, logins=logins, tls=tls
    ) as registry:
        printed = zkcli(
            registry.port,
            tmp_path,
            ALICE,
            f"-cp {class_path}",
            "-Dzookeeper.client.secure=true",
            "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
            f"-Dzookeeper.ssl.trustStore.location={trusted}",
            "-Dzookeeper.ssl.trustStore.type=PEM",
        )
    assert re.search(r"(?m)^Created /own$", printed), printed
    assert re.search(r"(?m)^sasl: alice$", printed), printed


def test_zkcli_with_a_wrong_password_does_nothing(port: int, tmp_path: Path) -> None:
    printed = zkcli(port, tmp_path, WRONG)
    assert "Created" not in printed
    assert "mine" not in printed


def refuse(*_: object, **__: object) -> NoReturn:
    raise OSError("this process is dead")


def test_our_clients_log_in(port: int) -> None:
    client = KazooClient(f"{HOST}:{port}", **kazoo_arguments(BOB))
    start_client(client, 20)
    client.create("/ephemeral", ephemeral=True)
    session_id, password = client.client_id
    # A dead process does not connect again; kazoo would, and take the session back meanwhile.
    client.handler.create_connection = refuse
    for access in (NOBODY, WRONG):
        with pytest.raises(OSError, match=r"."):
            close_session(HOST, port, session_id, password, 5_000, access)
    assert close_session(HOST, port, session_id, password, 5_000, ALICE)
    other = KazooClient(f"{HOST}:{port}", **kazoo_arguments(BOB))
    start_client(other, 20)
    with pytest.raises(NoNodeError):
        other.get("/ephemeral")
    for one in (client, other):
        one.stop()
        one.close()


def test_wrong_password_of_our_client_is_reported_as_such(port: int) -> None:
    client = KazooClient(f"{HOST}:{port}", **kazoo_arguments(WRONG))
    with pytest.raises(AuthFailedError):
        start_client(client, 20)
    client.stop()
    client.close()
