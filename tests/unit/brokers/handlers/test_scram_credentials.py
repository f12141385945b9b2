"""Describing and altering SCRAM credentials, and logging in with stored ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.coordinator.registry.documents import paths, znodes
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode
from cluster.model.quotas import QuotaEntity, QuotaKind
from cluster.model.scram import ScramClient, salted_password
from cluster.model.security import SaslMechanism
from cluster.protocol.api import ApiKey
from tests.support.handler_stage import HandlerStage, StageConnection
from tests.support.kafka_wire import request

SHA_256, SHA_512 = 1, 2
MECHANISMS = {SHA_256: SaslMechanism.SCRAM_SHA_256, SHA_512: SaslMechanism.SCRAM_SHA_512}
MISSING = ErrorCode.resource_not_found


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    }
    with HandlerStage(tmp_path, settings) as made:
        made.core.clients.security.authentication.credentials.follower.load_at_start()
        yield made


def call(stage: HandlerStage, message: Any) -> Any:
    """The answer, after the store has run the submitted operations."""
    client = stage.connect()
    answer = client.call(message)
    while answer is None and stage.store.pending:
        stage.store.work()
        stage.turn()
        answer = client.receive()
    return answer


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4096, **other: Any) -> Any:
    salted = salted_password(MECHANISMS.get(mechanism, MECHANISMS[1]), "secret", b"salt", 4096)
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"salt",
        "salted_password": salted,
    } | other


def deletion(name: str, mechanism: int = SHA_256) -> Any:
    return {"name": name, "mechanism": mechanism}


def alter(stage: HandlerStage, *items: Any) -> dict[str, tuple[int, str | None]]:
    """The outcome by user."""
    answer = call(
        stage,
        request(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            deletions=[item for item in items if "salt" not in item],
            upsertions=[item for item in items if "salt" in item],
        ),
    )
    return {each.user: (each.error_code, each.error_message) for each in answer.results}


def describe(stage: HandlerStage, *users: str) -> Any:
    named = [{"name": user} for user in users] or None
    return call(stage, request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=named))


def described(stage: HandlerStage, *users: str) -> dict[str, Any]:
    """Mechanisms and iterations by user, or the error."""
    answer = describe(stage, *users)
    assert answer.error_code == 0
    return {
        each.user: each.error_code
        or {info.mechanism: info.iterations for info in each.credential_infos}
        for each in answer.results
    }


def log_in(stage: HandlerStage, user: str, password: str, mechanism: int = SHA_256) -> bool:
    client: StageConnection = stage.connect("SASL_PLAINTEXT")
    scram = ScramClient(MECHANISMS[mechanism], user, password, "nonce")
    name = MECHANISMS[mechanism].value
    client.call(request(ApiKey.SASL_HANDSHAKE, 1, mechanism=name))
    first = client.call(
        request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=scram.first_message())
    ).auth_bytes
    client.call(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=scram.final_message(first)))
    return client.principal == user


def test_user_logs_in_with_stored_credentials(stage: HandlerStage) -> None:
    assert not log_in(stage, "alice", "secret")
    assert alter(stage, upsertion("alice"), upsertion("bob", SHA_512)) == {
        "alice": (0, None),
        "bob": (0, None),
    }
    assert log_in(stage, "alice", "secret")
    assert log_in(stage, "bob", "secret", SHA_512)
    assert not log_in(stage, "bob", "secret", SHA_256)
    assert not log_in(stage, "alice", "wrong")
    assert alter(stage, deletion("alice")) == {"alice": (0, None)}
    assert not log_in(stage, "alice", "secret")


def test_credential_stored_by_another_broker_authenticates_here(
    stage: HandlerStage, tmp_path: Path
) -> None:
    store = stage.store.store
    credential = {SaslMechanism.SCRAM_SHA_256: None}
    alter(stage, upsertion("alice"))
    store.credentials.alter("alice", credential, WallMs(0))
    stage.turn()
    stage.store.work()
    stage.turn()
    assert not log_in(stage, "alice", "secret")


def test_credentials_are_described_without_secrets(stage: HandlerStage) -> None:
    alter(stage, upsertion("bob", SHA_512, 8192), upsertion("alice"), upsertion("alice", SHA_512))
    assert described(stage) == {"alice": {1: 4096, 2: 4096}, "bob": {2: 8192}}
    assert described(stage, "bob") == {"bob": {2: 8192}}
    assert described(stage, "nobody", "bob", "bob", "") == {
        "nobody": MISSING,
        "bob": ErrorCode.duplicate_resource,
        "": MISSING,
    }


@pytest.mark.parametrize(
    ("items", "code", "message"),
    [
        ([upsertion("")], ErrorCode.unacceptable_credential, "Username must not be empty"),
        ([deletion("")], ErrorCode.unacceptable_credential, "Username must not be empty"),
        ([upsertion("a", 3)], ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
        ([deletion("a", 0)], ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
        (
            [upsertion("a", iterations=4095)],
            ErrorCode.unacceptable_credential,
            "Too few iterations",
        ),
        (
            [upsertion("a", iterations=16385)],
            ErrorCode.unacceptable_credential,
            "Too many iterations",
        ),
        (
            [upsertion("a"), deletion("a")],
            ErrorCode.duplicate_resource,
            "A user credential cannot be altered twice in the same request",
        ),
        (
            [deletion("a")],
            MISSING,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_invalid_alteration_is_explained_and_changes_nothing_of_that_user(
    stage: HandlerStage, items: list[Any], code: ErrorCode, message: str
) -> None:
    name = items[0]["name"]
    more = [upsertion(name, SHA_512)] if name else []
    assert alter(stage, *items, *more, upsertion("good")) == {
        name: (code, message),
        "good": (0, None),
    }
    assert described(stage) == {"good": {1: 4096}}


def test_only_the_controller_alters_credentials(stage: HandlerStage) -> None:
    stage.controller.is_active = False
    assert alter(stage, upsertion("alice")) == {"alice": (ErrorCode.not_controller, None)}
    assert described(stage) == {}


def test_quotas_and_credentials_of_a_user_do_not_affect_each_other(stage: HandlerStage) -> None:
    store = stage.store.store
    alice = QuotaEntity("alice", None)
    store.quotas.alter(alice, {"producer_byte_rate": "1024"}, WallMs(0))
    alter(stage, upsertion("alice"))
    assert store.quotas.load() == {alice: {QuotaKind.PRODUCE: 1024.0}}
    store.quotas.alter(alice, {"producer_byte_rate": "2048"}, WallMs(0))
    assert described(stage) == {"alice": {1: 4096}}
    alter(stage, deletion("alice"))
    assert store.quotas.load() == {alice: {QuotaKind.PRODUCE: 2048.0}}


def test_unreadable_credential_is_ignored(
    stage: HandlerStage, caplog: pytest.LogCaptureFixture
) -> None:
    alter(stage, upsertion("alice"), upsertion("bob"))
    document = znodes.encode_entity_config({"SCRAM-SHA-256": "salt=verysecret"})
    stage.store.client.set(paths.entity_config(paths.USER_CONFIGS, "alice"), document)
    stage.core.clients.security.authentication.credentials.follower.on_new_session()
    stage.store.work()
    stage.turn()
    assert not log_in(stage, "alice", "secret")
    assert log_in(stage, "bob", "secret")
    assert "verysecret" not in caplog.text


def test_names_that_need_escaping_are_stored_and_found(stage: HandlerStage) -> None:
    alter(stage, upsertion("a/b=c,d <default>"), upsertion("<default>"))
    assert described(stage) == {"a/b=c,d <default>": {1: 4096}, "<default>": {1: 4096}}
    assert log_in(stage, "a/b=c,d <default>", "secret")
