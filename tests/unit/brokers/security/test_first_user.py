"""The first user of a secure cluster."""

import json
from typing import Any

import pytest

from cluster.brokers.security.first_user import store_first_user
from cluster.coordinator.registry.documents.znodes import decode_entity_config
from cluster.model.clocks import WallMs
from cluster.model.errors import UserError
from tests.support.fake_registry import FakeSession, FakeTree

FIRST = {"user": "admin", "credentials": {"SCRAM-SHA-512": "salt=eA==,iterations=4096"}}


@pytest.fixture
def registry() -> Any:
    session = FakeSession(FakeTree(), lambda callback: callback())
    session.store.brokers.prepare()
    return session


def test_credential_is_stored_at_kafkas_path(tmp_path, registry):
    path = tmp_path / "first-user.json"
    path.write_text(json.dumps(FIRST))
    store_first_user(registry, path, WallMs(1))
    document, _ = registry.client.get("/config/users/admin")
    assert decode_entity_config(document) == FIRST["credentials"]


def test_missing_file_stores_nothing(tmp_path, registry):
    store_first_user(registry, tmp_path / "first-user.json", WallMs(1))
    assert registry.client.get_children("/config/users") == []


def test_damaged_file_is_named_in_the_error(tmp_path, registry):
    path = tmp_path / "first-user.json"
    path.write_text("{}")
    with pytest.raises(UserError, match=f"^cannot use {path}: "):
        store_first_user(registry, path, WallMs(1))
