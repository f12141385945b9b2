"""Logins of a broker's connections: their answers, their deadlines, and the resulting sessions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.security.logins import LOGIN_TIMEOUT_MS
from cluster.config.settings import broker_settings
from tests.support.handler_stage import HandlerStage, StageConnection
from tests.support.kafka_wire import request

HANDSHAKE, API_VERSIONS, METADATA, AUTHENTICATE = 17, 18, 3, 36
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.server.max.receive.size": "1000",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' user_alice="secret" user_bob="secret";'
    ),
}


@pytest.fixture(params=[0])
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[HandlerStage]:
    """A broker with the parameter as `connections.max.reauth.ms`."""
    settings = SETTINGS | {"connections.max.reauth.ms": str(request.param)}
    with HandlerStage(tmp_path, settings) as stage:
        stage.update()
        yield stage


with_sessions = pytest.mark.parametrize("stage", [5_000], indirect=True)


def begin(client: StageConnection) -> None:
    assert client.call(request(HANDSHAKE, 1, mechanism="PLAIN")).error_code == 0


def prove(client: StageConnection, token: bytes = b"\0alice\0secret") -> Any:
    return client.call(request(AUTHENTICATE, 2, auth_bytes=token))


def log_in(client: StageConnection) -> Any:
    begin(client)
    return prove(client)


def ask(client: StageConnection) -> Any:
    return client.call(request(METADATA, 1, topics=[]))


def test_listener_without_sasl_needs_no_login(stage: HandlerStage) -> None:
    client = stage.connect("PLAINTEXT")
    assert ask(client) is not None
    assert client.principal == "ANONYMOUS"
    assert client.call(request(HANDSHAKE, 1, mechanism="PLAIN")).error_code == 34
    assert prove(client).error_code == 34
    assert client.is_open


def test_request_before_the_login_closes_the_connection_after_a_delay(stage: HandlerStage) -> None:
    client = stage.connect("SASL_PLAINTEXT")
    client.send(request(METADATA, 1, topics=[]))
    stage.pass_time(99)
    assert client.is_open, "as long as one whose password is wrong"
    stage.pass_time(1)
    assert "before the login" in str(client.closed_because)
    assert client.receive() is None


def test_connection_belongs_to_its_user_after_the_login(stage: HandlerStage) -> None:
    client = stage.connect("SASL_PLAINTEXT")
    assert client.max_frame_bytes == 1_000
    assert client.call(request(API_VERSIONS, 0)).error_code == 0
    before = client.routes[API_VERSIONS << 16]
    assert log_in(client).error_code == 0
    assert client.principal == "alice"
    assert client.login is None
    assert client.max_frame_bytes > 1_000
    client.call(request(API_VERSIONS, 0))
    assert client.routes[API_VERSIONS << 16] is not before, "its accounts are ANONYMOUS's"
    assert ask(client) is not None
    stage.pass_time(10 * LOGIN_TIMEOUT_MS)
    assert client.is_open


def test_failed_login_is_answered_after_a_delay_and_closed(stage: HandlerStage) -> None:
    client = stage.connect("SASL_PLAINTEXT")
    begin(client)
    assert prove(client, b"\0alice\0wrong") is None
    stage.pass_time(99)
    assert client.is_open
    stage.pass_time(1)
    assert client.receive().error_code == 58
    assert client.closed_because == (
        "it failed to log in as alice by PLAIN: invalid user name or password"
    )
    assert client.principal == "ANONYMOUS"


def test_delayed_failure_is_dropped_when_the_client_disconnects(stage: HandlerStage) -> None:
    client = stage.connect("SASL_PLAINTEXT")
    begin(client)
    prove(client, b"\0alice\0wrong")
    client.close()
    stage.pass_time(1_000)
    assert client.receive() is None


def test_connection_is_closed_when_the_login_takes_too_long(stage: HandlerStage) -> None:
    client = stage.connect("SASL_PLAINTEXT")
    stage.pass_time(LOGIN_TIMEOUT_MS - 1)
    begin(client)
    stage.pass_time(1)
    assert client.closed_because == "it has not logged in within 30 s"


def test_reauthentication_is_refused_when_sessions_do_not_expire(stage: HandlerStage) -> None:
    client = stage.connect("SASL_PLAINTEXT")
    log_in(client)
    assert client.call(request(HANDSHAKE, 1, mechanism="PLAIN")).error_code == 34
    assert ask(client) is not None


@with_sessions
def test_client_reauthenticates_before_its_session_expires(stage: HandlerStage) -> None:
    client = stage.connect("SASL_PLAINTEXT")
    assert log_in(client).session_lifetime.total_seconds() == 5
    for _ in range(3):
        stage.pass_time(4_000)
        assert log_in(client).error_code == 0
        assert ask(client) is not None


@with_sessions
def test_an_expired_session_ends_at_the_next_request(stage: HandlerStage) -> None:
    client, late = stage.connect("SASL_PLAINTEXT"), stage.connect("SASL_PLAINTEXT")
    log_in(client)
    log_in(late)
    stage.pass_time(5_000)
    assert client.is_open
    client.send(request(METADATA, 1, topics=[]))
    assert (
        client.closed_because == "the session has expired, and the client has not logged in again"
    )
    assert log_in(late).error_code == 0
    assert ask(late) is not None


@with_sessions
def test_reauthentication_as_another_user_is_refused(stage: HandlerStage) -> None:
    client = stage.connect("SASL_PLAINTEXT")
    log_in(client)
    stage.pass_time(2_000)
    begin(client)
    prove(client, b"\0bob\0secret")
    stage.pass_time(100)
    assert client.receive().error_code == 58
    assert not client.is_open
    assert client.principal == "alice"


@with_sessions
def test_reauthentication_is_refused_within_a_second(stage: HandlerStage) -> None:
    client = stage.connect("SASL_PLAINTEXT")
    log_in(client)
    log_in(client)
    stage.pass_time(999)
    assert client.call(request(HANDSHAKE, 1, mechanism="PLAIN")).error_code == 34
    stage.pass_time(1)
    assert log_in(client).error_code == 0


@with_sessions
def test_other_requests_are_refused_during_a_reauthentication(stage: HandlerStage) -> None:
    client = stage.connect("SASL_PLAINTEXT")
    log_in(client)
    begin(client)
    client.send(request(METADATA, 1, topics=[]))
    stage.pass_time(100)
    assert "before the login" in str(client.closed_because)


def test_changed_users_apply_to_later_connections(stage: HandlerStage) -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    early, client = stage.connect("SASL_PLAINTEXT"), stage.connect("SASL_PLAINTEXT")
    log_in(early)
    text = SETTINGS[key].replace("alice", "carol")
    stage.core.foundation.live.replace(broker_settings(SETTINGS | {"broker.id": "1", key: text}))
    late = stage.connect("SASL_PLAINTEXT")
    begin(late)
    assert prove(late, b"\0carol\0secret").error_code == 0
    assert log_in(client).error_code == 0, "it was here before"
    assert ask(early) is not None


def test_contradictory_settings_change_nothing(stage: HandlerStage) -> None:
    prefix = "listener.name.sasl_plaintext."
    without_keys = {
        "broker.id": "1",
        f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}oauthbearer.sasl.server.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
    }
    stage.core.foundation.live.replace(broker_settings(SETTINGS | without_keys))
    client = stage.connect("SASL_PLAINTEXT")
    assert log_in(client).error_code == 0
