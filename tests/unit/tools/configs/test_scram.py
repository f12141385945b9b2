"""Passwords of users in `configs`, in the words of Kafka's tool."""

from typing import Any

import pytest

from cluster.client.user_requests import Iterations, NewPassword
from cluster.model.errors import Refused, UserError
from cluster.model.quotas import DEFAULT
from cluster.model.security import SaslMechanism
from cluster.tools.configs import scram
from cluster.tools.configs.changes import alter, pairs
from cluster.tools.configs.entities import Entity

ALICE = [Entity("users", "alice")]
SCRAM_256, SCRAM_512 = SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512
PRESENT: dict[str, Iterations] = {"alice": {SCRAM_512: 4096}}


@pytest.fixture
def altered(monkeypatch) -> list[tuple[str, list[NewPassword], list[SaslMechanism]]]:
    """What the cluster was asked for."""
    asked: list[tuple[str, list[NewPassword], list[SaslMechanism]]] = []
    monkeypatch.setattr(scram, "alter_user", lambda _client, *wanted: asked.append(wanted))
    monkeypatch.setattr(scram, "describe_users", lambda _client, _names: PRESENT)
    return asked


def run(found: list[Entity], add: str = "", delete: str = "") -> str:
    client: Any = None
    return alter(client, found, pairs(add), [key for key in delete.split(",") if key])


def test_passwords_are_set_with_kafkas_words(altered):
    text = "SCRAM-SHA-256=[iterations=8192,password=a,b=c],SCRAM-SHA-512=[password=d]"
    assert run(ALICE, text) == "Completed updating config for user alice."
    assert altered == [
        ("alice", [NewPassword(SCRAM_256, "a,b=c", 8192), NewPassword(SCRAM_512, "d", 4096)], [])
    ]
    assert "a,b" not in repr(altered)


def test_a_password_is_removed(altered):
    run(ALICE, delete="SCRAM-SHA-512")
    assert altered == [("alice", [], [SCRAM_512])]


@pytest.mark.parametrize(
    ("found", "add", "delete", "reason"),
    [
        (ALICE, "SCRAM-SHA-512=[iterations=100,password=d]", "", "less than the minimum 4096"),
        (ALICE, "SCRAM-SHA-512=[pass=secret]", "", "Invalid value for SCRAM-SHA-512"),
        (ALICE, "", "SCRAM-SHA-256", r"Invalid config\(s\): SCRAM-SHA-256"),
        ([Entity("users", DEFAULT)], "SCRAM-SHA-512=[password=d]", "", "--entity-default"),
        (
            [Entity("clients", "c")],
            "SCRAM-SHA-512=[password=d]",
            "",
            "Only quota configs can be altered for 'clients'",
        ),
        (
            [*ALICE, Entity("clients", "c")],
            "SCRAM-SHA-512=[password=d]",
            "",
            "Only quota configs can be altered",
        ),
    ],
)
def test_invalid_scram_changes_are_refused(altered, found, add, delete, reason):
    with pytest.raises(Refused, match=reason) as refusal:
        run(found, add, delete)
    assert "secret" not in refusal.value.detail
    assert altered == []


def test_users_are_described_with_kafkas_words():
    line = scram.scram_line("alice", {SCRAM_512: 4096, SCRAM_256: 8192})
    assert line == (
        "SCRAM credential configs for user-principal 'alice' are"
        " SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
    )


def test_a_user_who_could_not_log_in_is_refused(altered):
    with pytest.raises(UserError, match=r"^nobody can log in by SCRAM as ü€: a name has ASCII"):
        run([Entity("users", "ü€")], "SCRAM-SHA-512=[password=d]")
    assert altered == []
