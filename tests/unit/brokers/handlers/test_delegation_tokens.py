"""Delegation tokens: creating, renewing, expiring and describing them, and logging in with one."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kio.index import load_response_schema

from cluster.brokers.assembly.options import token_rules
from cluster.brokers.stored import delegation_tokens
from cluster.brokers.stored.delegation_tokens import DelegationTokens
from cluster.coordinator.cluster_store import StoredAcls
from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.acls import (
    AclEntry,
    AclOperation,
    AclPermission,
    ResourcePattern,
    ResourceType,
)
from cluster.model.clocks import WallMs
from cluster.model.delegation_tokens import DelegationToken
from cluster.model.errors import ErrorCode
from cluster.model.scram import ScramClient, ScramCredential, credential_of
from cluster.model.security import SaslMechanism
from cluster.protocol.api import ApiKey
from tests.support.handler_stage import HandlerStage, StageConnection
from tests.support.kafka_wire import WireClient, request

DAY_MS = 24 * 3_600_000
SASL = "SASL_PLAINTEXT"
USER = {"principal_type": "User"}
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "delegation.token.master.key": "a secret",
}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path, SETTINGS) as made:
        made.core.clients.security.authentication.follower.load_at_start()
        yield made


def client_of(stage: HandlerStage, user: str) -> StageConnection:
    client = stage.connect(SASL)
    client.login, client.principal = None, user
    client.deadline.cancel()
    return client


def call(stage: HandlerStage, client: StageConnection, message: Any) -> Any:
    """The answer, or only the error code of a refusal: kio cannot read times of -1."""
    client.send(message)
    while client.is_waiting and stage.store.pending:
        stage.store.work()
        stage.turn()
    frame = client.take_frame()
    assert frame is not None
    if error := int.from_bytes(frame[9:11]):
        return SimpleNamespace(error_code=error)
    asked = type(message)
    schema = load_response_schema(asked.__api_key__, asked.__version__)
    return WireClient.parse(frame[4:], schema, int.from_bytes(frame[4:8]))


def create(
    stage: HandlerStage,
    client: StageConnection,
    *,
    lifetime_ms: int = -1,
    renewers: tuple[str, ...] = (),
    owner: str | None = None,
    owner_type: str = "User",
) -> Any:
    return call(
        stage,
        client,
        request(
            ApiKey.CREATE_DELEGATION_TOKEN,
            3,
            owner_principal_type=None if owner is None else owner_type,
            owner_principal_name=owner,
            renewers=[USER | {"principal_name": name} for name in renewers],
            max_lifetime=lifetime_ms,
        ),
    )


def renew(stage: HandlerStage, client: StageConnection, hmac: bytes, period_ms: int = -1) -> Any:
    message = request(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=hmac, renew_period=period_ms)
    return call(stage, client, message)


def expire(stage: HandlerStage, client: StageConnection, hmac: bytes, period_ms: int = -1) -> Any:
    message = request(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=hmac, expiry_time_period=period_ms)
    return call(stage, client, message)


def described(stage: HandlerStage, client: StageConnection, owners: Any = None) -> list[str]:
    """The ids of the tokens in the description."""
    if owners is not None:
        owners = [USER | {"principal_name": name} for name in owners]
    answer = call(stage, client, request(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=owners))
    assert answer.error_code == 0
    return [token.token_id for token in answer.tokens]


def log_in(stage: HandlerStage, token: Any, extensions: dict[str, str] | None = None) -> Any:
    """A connection that has tried to log in with a token."""
    client = stage.connect(SASL)
    password = base64.b64encode(token.hmac).decode()
    scram = ScramClient(
        SaslMechanism.SCRAM_SHA_256,
        token.token_id,
        password,
        "nonce",
        {"tokenauth": "true"} if extensions is None else extensions,
    )
    client.call(request(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256"))
    message = request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=scram.first_message())
    first = client.call(message).auth_bytes
    client.call(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=scram.final_message(first)))
    return client


def after(stage: HandlerStage, moment: Any) -> int:
    """The milliseconds from now to a time."""
    return round(moment.timestamp() * 1000) - stage.clock.wall_ms()


def test_a_token_acts_as_its_owner_until_it_expires(stage: HandlerStage) -> None:
    alice = client_of(stage, "alice")
    token = create(stage, alice)
    assert token.error_code == 0
    assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
    assert after(stage, token.issue_timestamp) == 0
    assert after(stage, token.expiry_timestamp) == DAY_MS
    assert after(stage, token.max_timestamp) == 7 * DAY_MS
    bearer = log_in(stage, token)
    assert bearer.principal == "alice"
    assert log_in(stage, token, {}).principal == "ANONYMOUS"
    stage.pass_time(DAY_MS)
    assert log_in(stage, token).principal == "alice"
    stage.pass_time(1)
    assert log_in(stage, token).principal == "ANONYMOUS"
    bearer.send(request(ApiKey.METADATA, 1, topics=[]))
    assert "the session has expired" in str(bearer.closed_because)


def test_client_authenticated_by_a_token_may_not_use_token_requests(stage: HandlerStage) -> None:
    token = create(stage, client_of(stage, "alice"))
    refused = ErrorCode.delegation_token_request_not_allowed
    for client in (log_in(stage, token), stage.connect("PLAINTEXT")):
        assert create(stage, client).error_code == refused
        assert renew(stage, client, token.hmac).error_code == refused
        assert expire(stage, client, token.hmac).error_code == refused
        message = request(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=None)
        assert call(stage, client, message).error_code == refused


def test_owner_and_renewers_renew_a_token_up_to_its_maximal_lifetime(stage: HandlerStage) -> None:
    alice, bob, carol = (client_of(stage, name) for name in ("alice", "bob", "carol"))
    token = create(stage, alice, renewers=("bob",), lifetime_ms=2 * DAY_MS)
    stage.pass_time(DAY_MS // 2)
    assert after(stage, renew(stage, bob, token.hmac).expiry_timestamp) == DAY_MS
    assert after(stage, renew(stage, alice, token.hmac, 1_000).expiry_timestamp) == 1_000
    assert after(stage, renew(stage, alice, token.hmac, 9 * DAY_MS).expiry_timestamp) == (
        DAY_MS * 3 // 2
    )
    answer = renew(stage, carol, token.hmac)
    assert answer.error_code == ErrorCode.delegation_token_owner_mismatch
    assert renew(stage, bob, b"x").error_code == ErrorCode.delegation_token_not_found
    stage.pass_time(2 * DAY_MS)
    assert renew(stage, bob, token.hmac).error_code == ErrorCode.delegation_token_expired
    assert expire(stage, bob, token.hmac, 5).error_code == ErrorCode.delegation_token_expired


def test_expired_token_no_longer_authenticates(stage: HandlerStage) -> None:
    alice = client_of(stage, "alice")
    token, other = create(stage, alice), create(stage, alice)
    assert after(stage, expire(stage, alice, token.hmac, 500).expiry_timestamp) == 500
    assert expire(stage, alice, token.hmac).error_code == 0
    assert expire(stage, alice, token.hmac).error_code == ErrorCode.delegation_token_not_found
    assert log_in(stage, token).principal == "ANONYMOUS"
    assert described(stage, alice) == [other.token_id]


@pytest.mark.slow
def test_tokens_are_described_to_owners_and_renewers_only(stage: HandlerStage) -> None:
    alice, bob = client_of(stage, "alice"), client_of(stage, "bob")
    one = create(stage, alice, renewers=("bob",)).token_id
    two = create(stage, bob).token_id
    assert sorted(described(stage, bob)) == sorted([one, two])
    assert described(stage, alice, ["alice"]) == [one]
    assert described(stage, alice, []) == []
    many = [f"nobody-{number}" for number in range(20_000)]  # none is compared with every token
    assert sorted(described(stage, bob, [*many, "bob"])) == sorted([one, two])
    assert described(stage, bob, many) == []


def test_token_owner_must_be_a_user(stage: HandlerStage) -> None:
    alice = client_of(stage, "alice")
    answer = create(stage, alice, owner="x", owner_type="Group")
    assert answer.error_code == ErrorCode.invalid_principal_type
    made = create(stage, alice, owner="bob")
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
    assert log_in(stage, made).principal == "bob"


def test_the_controller_removes_expired_tokens(stage: HandlerStage) -> None:
    create(stage, client_of(stage, "alice"), lifetime_ms=1_000)
    kept = create(stage, client_of(stage, "alice")).token_id
    stage.pass_time(1_001)
    stage.core.clients.security.authentication.tokens.remove_expired()
    stage.store.work()
    stage.turn()
    assert list(stage.store.store.tokens.load(None).tokens) == [kept]


def test_token_stored_by_another_broker_authenticates_here(stage: HandlerStage) -> None:
    now = stage.clock.wall_ms()
    later = WallMs(now + 1_000)
    token = DelegationToken("id", "User:a b", "User:c", ("User:d",), now, later, later)
    stage.store.store.tokens.write(token, now)
    settle(stage)
    assert list(stage.core.clients.security.authentication.tokens.tokens()) == [token]
    stage.store.store.tokens.remove("id", now)
    settle(stage)
    assert list(stage.core.clients.security.authentication.tokens.tokens()) == []


def settle(stage: HandlerStage) -> None:
    """Run the store until it has no work left."""
    stage.turn()
    while stage.store.pending:
        stage.store.work()
        stage.turn()


def test_change_of_one_token_reads_only_that_token(
    stage: HandlerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = client_of(stage, "alice")
    first, *others = [create(stage, alice) for _ in range(10)]
    settle(stage)
    read: list[str] = []
    client = stage.store.client
    get = client.get_async
    monkeypatch.setattr(client, "get_async", lambda path: (read.append(path), get(path))[1])
    now = stage.clock.wall_ms()
    other = znodes.decode_token(client.get(f"{paths.TOKENS}/{first.token_id}")[0])
    stage.store.store.tokens.write(other._replace(expires_at=WallMs(now + 5)), now)
    settle(stage)
    assert [path for path in read if path.startswith(paths.TOKENS)] == [
        f"{paths.TOKENS}/{first.token_id}"
    ]
    ends = {
        each.token_id: each.expires_at
        for each in stage.core.clients.security.authentication.tokens.tokens()
    }
    assert ends[first.token_id] == now + 5
    assert ends.keys() == {first.token_id, *(each.token_id for each in others)}


@pytest.mark.parametrize("named", [b"\xff", b"", b"a/b"])
def test_change_without_a_token_id_reads_all_tokens(stage: HandlerStage, named: bytes) -> None:
    create(stage, client_of(stage, "alice"))
    now = stage.clock.wall_ms()
    later = WallMs(now + 1_000)
    other = DelegationToken("id", "User:bob", "User:bob", (), now, later, later)
    client = stage.store.client
    client.create(f"{paths.TOKENS}/id", znodes.encode_token(other))
    client.create(paths.TOKEN_CHANGE_PREFIX, named, sequence=True)
    settle(stage)
    assert other in list(stage.core.clients.security.authentication.tokens.tokens())


def test_unreadable_token_authenticates_nobody(stage: HandlerStage) -> None:
    token = create(stage, client_of(stage, "alice"))
    client = stage.store.client
    client.set(f"{paths.TOKENS}/{token.token_id}", b"damaged")
    client.create(paths.TOKEN_CHANGE_PREFIX, token.token_id.encode(), sequence=True)
    settle(stage)
    assert log_in(stage, token).principal == "ANONYMOUS"


def test_all_tokens_are_read_after_a_new_registry_session(stage: HandlerStage) -> None:
    alice = client_of(stage, "alice")
    kept, gone = create(stage, alice), create(stage, alice)
    settle(stage)
    stage.store.client.delete(f"{paths.TOKENS}/{gone.token_id}")  # nobody told us
    stage.core.clients.security.authentication.tokens.follower.on_new_session()
    settle(stage)
    assert described(stage, alice) == [kept.token_id]
    answer = renew(stage, alice, gone.hmac)
    assert answer.error_code == ErrorCode.delegation_token_not_found


def test_token_requests_are_refused_without_a_master_key(tmp_path: Path) -> None:
    settings = {name: text for name, text in SETTINGS.items() if "delegation" not in name}
    with HandlerStage(tmp_path, settings) as stage:
        alice = client_of(stage, "alice")
        disabled = ErrorCode.delegation_token_auth_disabled
        assert create(stage, alice).error_code == disabled
        assert renew(stage, alice, b"").error_code == disabled
        assert expire(stage, alice, b"").error_code == disabled
        message = request(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=None)
        assert call(stage, alice, message).error_code == disabled


def test_token_documents_have_kafkas_format(stage: HandlerStage) -> None:
    token_id = create(stage, client_of(stage, "a b"), renewers=("c",)).token_id
    document = stage.store.client.get(f"{paths.TOKENS}/{token_id}")[0]
    now = stage.clock.wall_ms()
    assert json.loads(document) == {
        "version": 3,
        "owner": "User%3Aa%20b",
        "tokenRequester": "User%3Aa%20b",
        "renewers": ["User%3Ac"],
        "issueTimestamp": now,
        "maxTimestamp": now + 7 * DAY_MS,
        "expiryTimestamp": now + DAY_MS,
        "tokenId": token_id,
    }
    old = json.loads(document) | {"version": 1}
    del old["tokenRequester"]
    assert znodes.decode_token(json.dumps(old).encode()).requester == "User:a b"


@pytest.mark.parametrize("wrong", [b"", b"[]", b'{"version": 4}', b'{"version": 3, "owner": 1}'])
def test_malformed_token_documents_are_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        znodes.decode_token(wrong)


def test_tokens_of_other_users_need_rights(tmp_path: Path) -> None:
    guard = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    with HandlerStage(tmp_path, SETTINGS | guard) as stage:
        stage.core.clients.security.authentication.follower.load_at_start()
        assert stage.core.clients.security.acls is not None
        stage.core.clients.security.acls.follower.load_at_start()
        alice, bob = client_of(stage, "alice"), client_of(stage, "bob")
        own = create(stage, alice, renewers=("bob",))
        other = create(stage, bob)
        assert (own.error_code, other.error_code) == (0, 0)
        answer = create(stage, alice, owner="bob")
        assert answer.error_code == ErrorCode.delegation_token_authorization_failed
        assert described(stage, alice) == [own.token_id]
        assert sorted(described(stage, bob)) == sorted([own.token_id, other.token_id])
        authorizer = stage.services.security.authorizer
        assert authorizer is not None

        def grant(operation: AclOperation, kind: ResourceType, name: str) -> None:
            rule = AclEntry("User:alice", "*", operation, AclPermission.ALLOW)
            stored = StoredAcls(frozenset({rule}))
            authorizer.take_rules({ResourcePattern(kind, name): stored})

        grant(AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob")
        for_bob = create(stage, alice, owner="bob")
        assert for_bob.error_code == 0
        # Who had it made sees it, as in Kafka, and may neither renew nor end it.
        assert sorted(described(stage, alice)) == sorted([own.token_id, for_bob.token_id])
        mismatch = ErrorCode.delegation_token_owner_mismatch
        assert renew(stage, alice, for_bob.hmac).error_code == mismatch
        assert expire(stage, alice, for_bob.hmac).error_code == mismatch
        grant(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, other.token_id)
        everything = sorted([own.token_id, for_bob.token_id, other.token_id])
        assert sorted(described(stage, alice)) == everything
        grant(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "another")
        carol = create(stage, client_of(stage, "carol")).token_id
        assert carol not in described(stage, alice)
        grant(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:carol")
        assert carol in described(stage, alice)


def test_token_is_refused_when_the_owner_has_too_many(tmp_path: Path) -> None:
    with HandlerStage(tmp_path, {**SETTINGS, "milena.delegation.token.max.per.owner": "3"}) as made:
        made.core.clients.security.authentication.follower.load_at_start()
        alice, bob = client_of(made, "alice"), client_of(made, "bob")
        first = [create(made, alice).token_id, create(made, bob, owner="alice").token_id]
        short = create(made, alice, lifetime_ms=1_000)
        assert short.error_code == 0
        for client, owner in ((alice, None), (bob, "alice")):
            assert create(made, client, owner=owner).error_code == ErrorCode.policy_violation
        assert create(made, bob).error_code == 0  # those of others are not counted
        made.pass_time(1_001)  # one has expired, and the controller has not removed it yet
        last = create(made, alice)
        assert last.error_code == 0
        settle(made)
        own = {*first, last.token_id}
        stored = made.store.store.tokens.load(None).tokens.values()
        assert {each.token_id for each in stored if each.owner == "User:alice"} == own
        assert create(made, alice).error_code == ErrorCode.policy_violation
        assert expire(made, alice, last.hmac).error_code == 0
        assert create(made, alice).error_code == 0


def test_tokens_being_created_count_toward_the_limit(tmp_path: Path) -> None:
    with HandlerStage(tmp_path, {**SETTINGS, "milena.delegation.token.max.per.owner": "3"}) as made:
        made.core.clients.security.authentication.follower.load_at_start()
        clients = [client_of(made, "alice") for _ in range(5)]
        message = request(
            ApiKey.CREATE_DELEGATION_TOKEN,
            3,
            owner_principal_type=None,
            owner_principal_name=None,
            renewers=[],
            max_lifetime=-1,
        )
        for client in clients:
            client.send(message)
        settle(made)
        assert len(made.store.store.tokens.load(None).tokens) == 3


def test_long_lists_of_renewers_are_refused(stage: HandlerStage) -> None:
    alice = client_of(stage, "alice")
    long = tuple(f"{number:05}-{'x' * 1_000}" for number in range(17))
    assert create(stage, alice, renewers=long).error_code == ErrorCode.invalid_request
    assert create(stage, alice, renewers=long[:16]).error_code == 0


def test_token_passwords_are_derived_at_first_use_and_not_at_startup(
    stage: HandlerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = client_of(stage, "alice")
    token = create(stage, alice)
    now = stage.clock.wall_ms()
    later = WallMs(now + DAY_MS)
    for number in range(1_500):
        other = DelegationToken(f"id-{number}", "User:bob", "User:bob", (), now, later, later)
        stage.store.client.create(f"{paths.TOKENS}/id-{number}", znodes.encode_token(other))
    derived: list[str] = []

    def counted(mechanism: SaslMechanism, password: str, *rest: Any) -> ScramCredential:
        derived.append(password)
        return credential_of(mechanism, password, *rest)

    monkeypatch.setattr(delegation_tokens, "credential_of", counted)
    authentication = stage.core.clients.security.authentication
    store: Any = stage.store
    rules = token_rules(stage.core.foundation.live.now)
    again = DelegationTokens(store, stage.loop, stage.clock.wall_ms, rules)
    again.follower.load_at_start()
    assert len(list(again.tokens())) == 1_501
    assert derived == []
    known = again.known(SaslMechanism.SCRAM_SHA_256, token.token_id)
    assert known == again.known(SaslMechanism.SCRAM_SHA_256, token.token_id)
    assert derived == [base64.b64encode(token.hmac).decode()]
    # As another broker has it, and this one after another start.
    assert known == authentication.tokens.known(SaslMechanism.SCRAM_SHA_256, token.token_id)
