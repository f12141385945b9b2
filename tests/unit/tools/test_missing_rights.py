"""The access rule that a refused command lacks, as a command to be pasted."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from cluster.model.errors import ErrorCode, UserError
from cluster.tools import missing_rights
from cluster.tools.acls.bindings import rules
from cluster.tools.main import command_line
from cluster.tools.missing_rights import action_of, right_hint

TOPIC = ErrorCode.topic_authorization_failed
GROUP = ErrorCode.group_authorization_failed
CLUSTER = ErrorCode.cluster_authorization_failed
TRANSACTIONAL_ID = ErrorCode.transactional_id_authorization_failed
NEEDED = {
    TOPIC: {("TOPIC", "Write"), ("TOPIC", "Read")},
    GROUP: {("GROUP", "Read")},
    CLUSTER: {("TOPIC", "Write")},  # to any topic (KIP-679)
    TRANSACTIONAL_ID: {("TRANSACTIONAL_ID", "Write")},
}


def parsed(tmp_path: Path, words: str) -> Namespace:
    return command_line(["--data-dir", str(tmp_path), *words.split()])


@pytest.mark.parametrize(
    ("words", "code", "rule"),
    [
        ("topics create orders", TOPIC, "Create --topic orders"),
        ("topics delete a,b", TOPIC, "Delete --topic a --topic b"),
        ("consume orders", TOPIC, "Read --topic orders"),
        ("consume --include o.* --group g", GROUP, "Read --group g"),
        ("groups describe a b", GROUP, "Describe --group a --group b"),
        ("groups explain g", GROUP, "Describe --group g"),
        (
            "groups reset-offsets g --topic o:0,1 --to-latest",
            TOPIC,
            "Read --topic o",
        ),
        ("transactions force-terminate t", TRANSACTIONAL_ID, "Write --transactional-id t"),
        ("users list", CLUSTER, "Describe --cluster"),
        ("acls list", CLUSTER, "Describe --cluster"),
        ("quotas set --client-id c --producer-byte-rate 1", CLUSTER, "AlterConfigs --cluster"),
        ("configs alter --add-config a=b --broker-defaults", CLUSTER, "AlterConfigs --cluster"),
        ("log-dirs", CLUSTER, "Describe --cluster"),
        ("partitions balance", CLUSTER, "Alter --cluster"),
    ],
)
def test_hint_has_operation_and_resource(words, code, rule, tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    told = right_hint(code, parsed(tmp_path, words))
    assert told == (
        f"; to allow it: bin/cluster --data-dir {tmp_path} acls --add"
        f" --allow-principal User:ANONYMOUS --operation {rule}"
    )


@pytest.mark.parametrize(
    ("words", "codes", "rule"),
    [
        ("produce orders", (TOPIC, CLUSTER), "--producer --topic orders"),
        (
            "produce o --transactional-id t",
            (TOPIC, CLUSTER, TRANSACTIONAL_ID),
            "--producer --topic o --transactional-id t",
        ),
        ("import-log d --topic o", (TOPIC, CLUSTER), "--producer --topic o"),
        ("consume orders --group g", (TOPIC, GROUP), "--consumer --topic orders --group g"),
    ],
)
def test_hint_of_a_client_grants_all_that_it_needs(words, codes, rule, tmp_path):
    """One right after the other would be refused otherwise."""
    for code in codes:
        told = right_hint(code, parsed(tmp_path, words))
        assert told.endswith(f" acls --add --allow-principal User:ANONYMOUS {rule}")
        command = told[told.index(" acls ") :]
        granted = {
            (resource.resource_type.name, entry.operation.label)
            for resource, entries in rules(parsed(tmp_path, command)).items()
            for entry in entries
        }
        assert NEEDED[code] & granted


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("topics create orders", ErrorCode.topic_already_exists),
        ("topics create orders", -192),  # of librdkafka itself
        ("topics delete ord.*", TOPIC),  # a rule for which topic?
        ("topics delete (", TOPIC),
        ("status", CLUSTER),
    ],
)
def test_hint_is_empty_where_no_rule_is_known(words, code, tmp_path):
    assert right_hint(code, parsed(tmp_path, words)) == ""


@pytest.mark.parametrize(
    ("properties", "user"),
    [
        ("sasl.username=bob sasl.password=x sasl.mechanism=PLAIN", "User:bob"),
        ("sasl.username=a'b sasl.password=x sasl.mechanism=PLAIN", "'User:a'\"'\"'b'"),
    ],
)
def test_hint_names_the_user_and_the_brokers_of_the_command(properties, user, tmp_path):
    options = " ".join(f"--command-property {each}" for each in properties.split())
    args = parsed(
        tmp_path,
        "topics create orders --bootstrap-server b:9092"
        f" --command-property security.protocol=SASL_PLAINTEXT {options}",
    )
    told = right_hint(TOPIC, args)
    assert f" acls --bootstrap-server b:9092 --add --allow-principal {user} " in told
    assert "x" not in told.replace("acls", "")


def test_hint_does_without_a_supervisor_that_does_not_answer(tmp_path, monkeypatch):
    def silent(_args: Namespace) -> dict[str, Any]:
        raise UserError("the supervisor does not answer")

    monkeypatch.setattr(missing_rights, "running_state", silent)
    args = parsed(tmp_path, "topics create orders --bootstrap-server b:9092")
    assert " acls --bootstrap-server b:9092 --add " in right_hint(TOPIC, args)


def test_names_of_resources_may_come_from_the_refusal(tmp_path):
    args = parsed(tmp_path, "configs alter --add-config a=b --topic orders")
    assert right_hint(TOPIC, args, ["orders"]).endswith("--operation AlterConfigs --topic orders")


def test_action_is_empty_without_a_command():
    some: Any = Namespace()
    assert action_of(some) == ""
