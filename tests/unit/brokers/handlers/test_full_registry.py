"""Changes requested by clients while the registry's disk is full."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.coordinator.cluster_store import STORE_FULL
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.handler_stage import BROKER, HandlerStage
from tests.support.kafka_wire import request

FULL = (ErrorCode.kafka_storage_error, STORE_FULL)
SASL = "SASL_PLAINTEXT"
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "delegation.token.secret.key": "a secret",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3
BROKER_CONFIG, GROUP_CONFIG = 4, 32
RULE = {
    "resource_type": TOPIC,
    "resource_name": "orders",
    "resource_pattern_type": LITERAL,
    "principal": "User:alice",
    "host": "*",
    "operation": READ,
    "permission_type": ALLOW,
}


class Admin:
    """A super user's connection to one broker."""

    def __init__(self, stage: HandlerStage) -> None:
        self.stage = stage
        self.connection = stage.connect(SASL)
        self.connection.login, self.connection.principal = None, "admin"
        self.connection.deadline.cancel()

    def call(self, message: Any) -> Any:
        self.connection.send(message)
        while self.connection.is_waiting and self.stage.store.pending:
            self.stage.store.work()
            self.stage.turn()
        return self.connection.receive()


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    with HandlerStage(tmp_path, SETTINGS) as stage:
        stage.core.clients.follower.load_at_start()
        stage.core.groups.configs.follower.load_at_start()
        yield Admin(stage)


def fill_registry(admin: Admin) -> None:
    admin.stage.store.client.tree.is_full = True


def test_quota_change_names_the_full_disk(admin: Admin) -> None:
    fill_registry(admin)
    entry = {
        "entity": [{"entity_type": "user", "entity_name": "alice"}],
        "ops": [{"key": "producer_byte_rate", "value": 1024.0, "remove": False}],
    }
    message = request(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry], validate_only=False)
    (result,) = admin.call(message).entries
    assert (result.error_code, result.error_message) == FULL


def test_credential_change_names_the_full_disk(
    admin: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    fill_registry(admin)
    upsertion = {
        "name": "alice",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": b"x" * 32,
    }
    message = request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[upsertion])
    (result,) = admin.call(message).results
    assert (result.error_code, result.error_message) == FULL
    assert f"cannot alter the credentials of user alice: {STORE_FULL}" in caplog.text


def test_created_rule_names_the_full_disk(admin: Admin) -> None:
    creation = request(ApiKey.CREATE_ACLS, 3, creations=[RULE])
    (result,) = admin.call(creation).results
    assert result.error_code == ErrorCode.none
    fill_registry(admin)
    other = request(ApiKey.CREATE_ACLS, 3, creations=[RULE | {"resource_name": "bills"}])
    (result,) = admin.call(other).results
    assert (result.error_code, result.error_message) == FULL
    (result,) = admin.call(request(ApiKey.CREATE_ACLS, 3, creations=[RULE])).results
    assert result.error_code == ErrorCode.none, "an existing rule needs no room"


@pytest.mark.parametrize(
    ("resource_type", "name", "key", "value"),
    [
        (BROKER_CONFIG, str(BROKER), "log.segment.bytes", "1000000"),
        (GROUP_CONFIG, "g", "consumer.heartbeat.interval.ms", "6000"),
    ],
)
def test_config_change_names_the_full_disk(
    admin: Admin, resource_type: int, name: str, key: str, value: str
) -> None:
    fill_registry(admin)
    config = {"name": key, "config_operation": 0, "value": value}
    resource = {"resource_type": resource_type, "resource_name": name, "configs": [config]}
    message = request(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
    )
    (result,) = admin.call(message).responses
    assert (result.error_code, result.error_message) == FULL


def test_delegation_token_is_refused_with_a_storage_error(admin: Admin) -> None:
    fill_registry(admin)
    message = request(
        ApiKey.CREATE_DELEGATION_TOKEN,
        3,
        owner_principal_type=None,
        owner_principal_name=None,
        renewers=[],
        max_lifetime=-1,
    )
    admin.connection.send(message)
    while admin.connection.is_waiting:
        admin.stage.store.work()
        admin.stage.turn()
    frame = admin.connection.take_frame()
    assert frame is not None
    assert int.from_bytes(frame[9:11]) == ErrorCode.kafka_storage_error
