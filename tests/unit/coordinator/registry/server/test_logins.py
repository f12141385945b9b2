"""Logins at the registry: what is proved, when, and what is closed to those who have not."""

from pathlib import Path

import pytest

from cluster.coordinator.registry.server.acl import (
    SUPER,
    AclEntry,
    Identity,
    require_permission,
    resolve_acl,
)
from cluster.coordinator.registry.server.logins import Logins
from cluster.coordinator.registry.server.options import LoginOptions, RegistryOptions
from cluster.coordinator.registry.wire.codes import (
    Operation,
    OperationRefused,
    Permission,
    RegistryError,
)
from cluster.coordinator.registry.wire.digest_md5 import DigestExchange, client_response
from cluster.model.errors import UserError
from cluster.runtime.tls_options import StoreSource, TlsOptions

PASSWORDS = {"alice": "secret", "root": "toor"}
IP = Identity("ip", "127.0.0.1")


class Peer:
    """A connection as far as logins are concerned."""

    def __init__(self) -> None:
        self.address = "127.0.0.1:5000"
        self.identities: tuple[Identity, ...] = (IP,)
        self.exchange: DigestExchange | None = None


class Stage:
    def __init__(self, *, is_required: bool = False, super_user: str | None = None) -> None:
        self.refusals: list[tuple[str, str]] = []
        self.peer = Peer()
        self.logins = Logins(
            LoginOptions(PASSWORDS, is_required, super_user),
            lambda: "n0nce",
            lambda *one: self.refusals.append(one),
        )

    def log_in(self, user: str, password: str) -> bytes:
        challenge = self.logins.answer(self.peer, b"")
        return self.logins.answer(self.peer, client_response(challenge, user, password, "c"))


def refusal_of(stage: Stage, token: bytes) -> RegistryError:
    with pytest.raises(OperationRefused) as refused:
        stage.logins.answer(stage.peer, token)
    return refused.value.code


def test_a_login_adds_an_identity() -> None:
    stage = Stage()
    assert stage.log_in("alice", "secret").startswith(b"rspauth=")
    assert stage.peer.identities == (IP, Identity("sasl", "alice"))
    assert stage.refusals == []


def test_super_user_is_exempt_from_acls() -> None:
    stage = Stage(super_user="root")
    stage.log_in("root", "toor")
    owned = (AclEntry(31, "sasl", "alice"),)
    require_permission(owned, Permission.WRITE, stage.peer.identities)
    with pytest.raises(OperationRefused):
        require_permission(owned, Permission.WRITE, (IP, Identity("sasl", "root")))
    by_auth = resolve_acl((AclEntry(31, "auth", ""),), stage.peer.identities)
    assert by_auth == (AclEntry(31, "sasl", "root"),)
    assert SUPER in stage.peer.identities


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_is_refused_and_reported_without_it(user: str, required: bool) -> None:
    stage = Stage(is_required=required)
    expected = RegistryError.SESSION_CLOSED_REQUIRE_SASL_AUTH
    with pytest.raises(OperationRefused) as refused:
        stage.log_in(user, "wrong")
    assert refused.value.code is (expected if required else RegistryError.AUTH_FAILED)
    assert stage.peer.identities == (IP,)
    reason = "its login failed: unknown user or wrong password"
    assert stage.refusals == [(stage.peer.address, reason)]


def test_tokens_at_the_wrong_time_are_refused() -> None:
    stage = Stage()
    assert refusal_of(stage, b"username=alice") is RegistryError.AUTH_FAILED
    stage.log_in("alice", "secret")
    assert refusal_of(stage, b"") is RegistryError.AUTH_FAILED  # as another user on top
    nobody = Stage()
    nobody.logins = Logins(LoginOptions(), lambda: "n", lambda *_: None)
    assert refusal_of(nobody, b"") is RegistryError.AUTH_FAILED


def test_requests_before_a_required_login_are_refused() -> None:
    stage = Stage(is_required=True)
    for operation in Operation:
        if operation in (Operation.AUTH, Operation.SASL):
            stage.logins.require_login(stage.peer, operation)
            continue
        with pytest.raises(OperationRefused) as refused:
            stage.logins.require_login(stage.peer, operation)
        assert refused.value.code is RegistryError.SESSION_CLOSED_REQUIRE_SASL_AUTH
    stage.peer.identities += (Identity("digest", "alice:x"),)
    with pytest.raises(OperationRefused):
        stage.logins.require_login(stage.peer, Operation.PING)
    stage.log_in("alice", "secret")
    for operation in Operation:
        stage.logins.require_login(stage.peer, operation)


def test_ids_of_the_scheme_sasl() -> None:
    for name in ("alice", "kafka/host@REALM", "kafka@REALM"):
        entry = AclEntry(1, "sasl", name)
        assert resolve_acl((entry,), ()) == (entry,)
    with pytest.raises(OperationRefused):
        resolve_acl((AclEntry(1, "sasl", "a@b@c"),), ())


def test_a_registry_that_others_reach_requires_logins_over_tls(tmp_path: Path) -> None:
    users = LoginOptions(PASSWORDS, is_required=True)
    tls = TlsOptions(StoreSource("keystore", "PEM", "registry.pem"))
    for host, logins, own_tls in (
        ("127.0.0.1", LoginOptions(), None),
        ("localhost", LoginOptions(), None),
        ("::1", LoginOptions(), None),
        ("0.0.0.0", users, tls),
    ):
        RegistryOptions(tmp_path, host=host, logins=logins, tls=own_tls).check()
    for host, logins, own_tls in (
        ("0.0.0.0", LoginOptions(), tls),
        ("0.0.0.0", users, None),
        ("10.0.0.7", LoginOptions(PASSWORDS), tls),
        ("registry.example", LoginOptions(), None),
        ("127.0.0.1", LoginOptions(is_required=True), None),
    ):
        with pytest.raises(UserError):
            RegistryOptions(tmp_path, host=host, logins=logins, tls=own_tls).check()
    assert "secret" not in repr(users)
