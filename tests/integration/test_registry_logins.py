"""Logins at the registry by SASL: kazoo, who closes sessions, brokers and tools, and strangers."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, NoAuthError, NoNodeError
from kazoo.security import make_acl

from cluster.coordinator.registry.client.kazoo_session import KazooSession
from cluster.coordinator.registry.client.kazoo_setup import kazoo_arguments, start_client
from cluster.coordinator.registry.client.registry_access import NOBODY, RegistryAccess
from cluster.coordinator.registry.client.session_close import close_session
from cluster.model.clocks import WallMs
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.errors import UserError
from cluster.model.scram import credential_of
from cluster.model.security import SaslMechanism
from tests.integration.registry_process import RegistryProcess, wait_until

PASSWORDS = {"alice": "wonder-1", "bob": "builder-2", "root": "rabbit-3"}
ALICE, BOB, ROOT = (RegistryAccess("sasl", *one) for one in PASSWORDS.items())
SHA_256 = SaslMechanism.SCRAM_SHA_256
WRONG = RegistryAccess("sasl", "alice", "guessed-9")


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """A registry that requires logins."""
    logins = {"passwords": PASSWORDS, "is_required": True, "super_user": "root"}
    directory = tmp_path_factory.mktemp("closed") / "registry"
    with RegistryProcess(directory, logins=logins) as process:
        yield process


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """A registry with users that takes others too."""
    directory = tmp_path_factory.mktemp("open") / "registry"
    with RegistryProcess(directory, logins={"passwords": PASSWORDS}) as process:
        yield process


@pytest.fixture
def connect() -> Iterator[Any]:
    """A function that starts clients, which are stopped in the end."""
    clients: list[KazooClient] = []

    def start(registry: RegistryProcess, access: RegistryAccess = NOBODY) -> KazooClient:
        client = KazooClient(f"127.0.0.1:{registry.port}", **kazoo_arguments(access))
        clients.append(client)
        start_client(client, 10)
        return client

    yield start
    for client in clients:
        client.stop()
        client.close()


def test_znodes_belong_to_the_user_who_created_them(
    open_to_all: RegistryProcess, connect: Any
) -> None:
    alice, bob, nobody = (connect(open_to_all, one) for one in (ALICE, BOB, NOBODY))
    alice.create("/own", b"1", acl=[make_acl("auth", "", all=True)])
    assert alice.get_acls("/own")[0] == [make_acl("sasl", "alice", all=True)]
    bob.create("/for-alice", b"2", acl=[make_acl("sasl", "alice", read=True)])
    assert alice.get("/for-alice")[0] == b"2"
    for stranger in (bob, nobody):
        with pytest.raises(NoAuthError):
            stranger.get("/own")
    with pytest.raises(NoAuthError):
        alice.set("/for-alice", b"3")


@pytest.mark.parametrize("wrong", [WRONG, RegistryAccess("sasl", "nobody", "guessed-9")])
def test_a_wrong_password_is_refused_and_stands_in_no_log(
    open_to_all: RegistryProcess,
    closed: RegistryProcess,
    connect: Any,
    caplog: pytest.LogCaptureFixture,
    wrong: RegistryAccess,
) -> None:
    caplog.set_level(1)
    for registry in (open_to_all, closed):
        with pytest.raises(AuthFailedError):
            connect(registry, wrong).get("/")
        wait_until(lambda one=registry: "its login failed" in one.log(), "the line")
        assert "guessed-9" not in registry.log()
    assert "guessed-9" not in caplog.text
    assert "response=" not in caplog.text
    assert "Traceback" not in caplog.text


def test_requests_without_login_are_refused_when_logins_are_required(
    closed: RegistryProcess, connect: Any
) -> None:
    alice, root = connect(closed, ALICE), connect(closed, ROOT)
    alice.create("/alices", b"", acl=[make_acl("auth", "", all=True)])
    root.set("/alices", b"held back by no list")
    with pytest.raises(AuthFailedError):
        connect(closed).create("/strangers")
    assert alice.exists("/strangers") is None
    with pytest.raises(NoAuthError):
        connect(closed, BOB).get("/alices")


def test_neither_credentials_nor_what_is_in_znodes_stand_in_a_log(
    open_to_all: RegistryProcess, connect: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    connect(open_to_all, RegistryAccess("digest", "carol", "curious-4")).get("/")
    client = connect(open_to_all, ALICE)
    client.get("/")
    client.create("/credentials", b"stored_key=1")
    client.set("/credentials", b"stored_key=2")
    assert client.get("/credentials")[0] == b"stored_key=2"
    transaction = client.transaction()
    transaction.set_data("/credentials", b"stored_key=3")
    transaction.commit()
    assert "Sending request" in caplog.text
    assert "<12 bytes>" in caplog.text
    assert "stored_key" not in caplog.text
    assert "curious-4" not in caplog.text
    assert "response=" not in caplog.text
    assert "session_passwd" not in caplog.text
    assert logging.getLogger("kazoo.client").isEnabledFor(1)


def test_credentials_and_tokens_are_readable_by_brokers_alone(
    open_to_all: RegistryProcess, connect: Any, tmp_path: Path
) -> None:
    hosts, now_ms = f"127.0.0.1:{open_to_all.port}/protected", WallMs(1)
    session = KazooSession(
        hosts,
        10_000,
        tmp_path / "session",
        lambda call: call(),
        access=ALICE,
        protects_znodes=True,
    )
    session.connect(10_000)
    token = DelegationToken("one", "User:bob", "User:bob", (), now_ms, now_ms, now_ms)
    credential = credential_of(SHA_256, "a password", b"salt")
    session.call(lambda store: store.brokers.prepare())
    session.call(lambda store: store.tokens.load(None))
    session.call(lambda store: store.tokens.write(token, now_ms))
    session.call(lambda store: store.credentials.alter("bob", {SHA_256: credential}, now_ms))
    nobody = connect(open_to_all)
    for path in (
        *("/delegation_token", "/delegation_token/tokens", "/delegation_token/tokens/one"),
        *("/delegation_token/token_changes", "/config/users", "/config/users/bob"),
    ):
        with pytest.raises(NoAuthError):
            nobody.get(f"/protected{path}")
        with pytest.raises(NoAuthError):
            nobody.create(f"/protected{path}/forged")
    session.close(10_000)


def test_a_session_is_closed_only_with_a_login(
    closed: RegistryProcess, connect: Any, tmp_path: Path
) -> None:
    owner = connect(closed, ALICE)
    owner.create("/ephemeral", ephemeral=True)
    watcher = connect(closed, BOB)
    session_id, password = owner.client_id

    def close(access: RegistryAccess) -> bool:
        return close_session("127.0.0.1", closed.port, session_id, password, 5_000, access)

    for access in (NOBODY, WRONG):
        with pytest.raises(ConnectionError):
            close(access)
    assert watcher.exists("/ephemeral") is not None

    def is_closed() -> bool:
        # Its owner may connect again in between, which breaks the connection that closes it.
        with contextlib.suppress(ConnectionError):
            close(ALICE)
        return watcher.exists("/ephemeral") is None

    wait_until(is_closed, "the session to be closed")
    with pytest.raises(NoNodeError):
        watcher.get("/ephemeral")


def test_a_broker_with_a_wrong_password_says_so(closed: RegistryProcess, tmp_path: Path) -> None:
    for access in (WRONG, NOBODY):
        session = KazooSession(
            f"127.0.0.1:{closed.port}",
            3_000,
            tmp_path / "a.session",
            lambda _: None,
            access=access,
        )
        with pytest.raises(UserError, match=r"milena\.registry\.auth"):
            session.connect(10_000)
        session.close(1_000)
