"""`acls`: rules and filters from options, what goes together, and the words of Kafka's tool."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cluster.model.acls import AclBinding, AclEntry, AclFilter, AclOperation, AclPermission
from cluster.model.errors import ErrorCode, Refused
from cluster.tools.acls import command
from cluster.tools.main import main

ALICE = "User:alice"


class Store:
    """Stands for the cluster: the rules that it has."""

    def __init__(self) -> None:
        self.rules: set[AclBinding] = set()
        self.refusal: Refused | None = None

    def create(self, _client: Any, bindings: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.rules.update(bindings)

    def delete(self, _client: Any, filters: Any) -> list[AclBinding]:
        gone = [each for each in self.rules if any(one.selects(each) for one in filters)]
        self.rules.difference_update(gone)
        return gone

    def describe(self, _client: Any, wanted: AclFilter) -> list[AclBinding]:
        return [each for each in self.rules if wanted.selects(each)]


@pytest.fixture
def store(monkeypatch) -> Store:
    rules = Store()
    monkeypatch.setattr(command, "create_acls", rules.create)
    monkeypatch.setattr(command, "delete_acls", rules.delete)
    monkeypatch.setattr(command, "describe_acls", rules.describe)

    @contextmanager
    def connect(_servers: Any, _client_id: str) -> Iterator[None]:
        yield None

    monkeypatch.setattr("cluster.tools.acls.command.SocketClient.connect", connect)
    return rules


def acls(*words: str) -> int:
    return main(["acls", "--bootstrap-server", "127.0.0.1:1", *words])


def granted(store: Store) -> set[tuple[str, str, str]]:
    return {
        (pattern.resource_type.name, pattern.name, entry.operation.name)
        for pattern, entry in store.rules
    }


def test_added_acls_are_printed_as_kafkas_tool_prints_them(store, capsys):
    assert acls("--add", "--allow-principal", ALICE, "--operation", "read", "--topic", "t") == 0
    of_topic = "resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`"
    entry = " \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)"
    assert capsys.readouterr().out == f"Adding ACLs for {of_topic}: \n{entry} \n\n"
    assert acls("--list", "--topic", "t") == 0
    assert capsys.readouterr().out == f"Current ACLs for {of_topic}: \n{entry} \n\n"


@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        ("group", "AlterConfigs"),
        ("group", "DescribeConfigs"),
        ("transactional-id", "TwoPhaseCommit"),
    ],
)
def test_operations_of_kafka_4_are_granted(store, capsys, kind: str, operation: str):
    rule = ("--allow-principal", ALICE, "--operation", operation, f"--{kind}", "g")
    assert acls("--add", *rule) == 0
    assert "permissionType=ALLOW" in capsys.readouterr().out


def test_a_producer_and_a_consumer_get_what_they_need(store):
    everyone = ["--add", "--allow-principal", ALICE, "--producer", "--idempotent", "--consumer"]
    assert acls(*everyone, "--topic", "t", "--group", "g", "--transactional-id", "x") == 0
    assert granted(store) == {
        ("TOPIC", "t", "WRITE"),
        ("TOPIC", "t", "DESCRIBE"),
        ("TOPIC", "t", "CREATE"),
        ("TOPIC", "t", "READ"),
        ("GROUP", "g", "READ"),
        ("TRANSACTIONAL_ID", "x", "WRITE"),
        ("TRANSACTIONAL_ID", "x", "DESCRIBE"),
        ("CLUSTER", "kafka-cluster", "IDEMPOTENT_WRITE"),
    }


def test_hosts_are_those_of_their_kind_of_principal(store):
    words = ["--allow-principal", ALICE, "--allow-host", "10.0.0.1", "--deny-principal", "User:eve"]
    assert acls("--add", *words, "--cluster") == 0
    assert {each.entry for each in store.rules} == {
        AclEntry(ALICE, "10.0.0.1", AclOperation.ALL, AclPermission.ALLOW),
        AclEntry("User:eve", "*", AclOperation.ALL, AclPermission.DENY),
    }


def test_a_host_that_is_no_address_is_warned_of(store, capsys):
    words = ["--deny-principal", "User:eve", "--topic", "t"]
    assert acls("--add", *words, "--deny-host", "gateway", "--deny-host", " 10.0.0.1 ") == 0
    assert "gateway is not an IPv4 or IPv6 address" in capsys.readouterr().err
    assert {each.entry.host for each in store.rules} == {"gateway", "10.0.0.1"}
    assert acls("--add", *words, "--deny-host", "fe80::1", "--deny-host", "*") == 0
    assert capsys.readouterr().err == ""


def test_the_cluster_is_listed_and_removed_whatever_the_type_of_patterns(store, capsys):
    acls("--add", "--allow-principal", ALICE, "--topic", "t")
    acls("--add", "--allow-principal", ALICE, "--cluster")
    capsys.readouterr()
    for kind in ("any", "match"):
        assert acls("--list", "--cluster", "--resource-pattern-type", kind) == 0
        assert "name=t" not in capsys.readouterr().out
    assert acls("--remove", "--cluster", "--resource-pattern-type", "any", "--force") == 0
    assert granted(store) == {("TOPIC", "t", "ALL")}


def test_rules_are_removed_when_that_is_confirmed(store, monkeypatch, capsys):
    acls("--add", "--allow-principal", ALICE, "--topic", "t", "--topic", "u")
    monkeypatch.setattr("sys.stdin.readline", lambda: "n\n", raising=False)
    assert acls("--remove", "--topic", "t") == 0
    assert len(store.rules) == 2
    assert "Are you sure you want to delete all ACLs for resource filter" in capsys.readouterr().out
    assert acls("--remove", "--topic", "t", "--force") == 0
    assert granted(store) == {("TOPIC", "u", "ALL")}


def test_one_entry_of_several_is_removed(store):
    words = ["--allow-principal", ALICE, "--topic", "t"]
    acls("--add", *words, "--operation", "Read", "--operation", "Write")
    assert acls("--remove", *words, "--operation", "Read", "--force") == 0
    assert granted(store) == {("TOPIC", "t", "WRITE")}


def test_rules_of_one_user_are_listed(store, capsys):
    acls("--add", "--allow-principal", ALICE, "--allow-principal", "User:bob", "--topic", "t")
    capsys.readouterr()
    assert acls("--list", "--principal", ALICE) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"ACLs for principal `{ALICE}`\nCurrent ACLs for resource ")
    assert "bob" not in said


def test_a_list_for_scripts_has_objects(store, capsys):
    acls(
        "--add", "--allow-principal", ALICE, "--group", "g-", "--resource-pattern-type", "Prefixed"
    )
    capsys.readouterr()
    assert acls("--list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "resource_type": "GROUP",
            "name": "g-",
            "pattern_type": "PREFIXED",
            "principal": ALICE,
            "host": "*",
            "operation": "ALL",
            "permission": "ALLOW",
        }
    ]


def test_a_refusal_is_said_as_kafkas_tool_says_it(store, capsys):
    store.refusal = Refused(ErrorCode.security_disabled, "No Authorizer is configured.")
    assert acls("--add", "--allow-principal", ALICE, "--topic", "t") == 1
    said = capsys.readouterr().err
    assert said == "Error while executing ACL command: No Authorizer is configured.\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--add", "--topic", "t"], "--add needs --allow-principal or --deny-principal"),
        (["--add", "--allow-principal", ALICE], "name a resource"),
        (["--add", "--allow-principal", "alice", "--topic", "t"], "must be User:NAME, not alice"),
        (["--list", "--producer"], "--producer does not go with --list"),
        (["--remove", "--topic", "t", "--principal", ALICE], "--principal goes with --list"),
        (["--add", "--producer", "--allow-principal", ALICE], "--producer needs --topic"),
        (
            ["--add", "--consumer", "--topic", "t", "--allow-principal", ALICE],
            "--consumer needs --topic and --group",
        ),
        (
            ["--add", "--producer", "--topic", "t", "--operation", "Read"],
            "--operation does not go with --producer",
        ),
        (
            ["--add", "--allow-principal", ALICE, "--topic", "t", "--idempotent"],
            "--idempotent goes with --producer",
        ),
        (
            ["--add", "--allow-principal", ALICE, "--group", "g", "--operation", "Write"],
            "ResourceType GROUP only supports operations READ, DELETE, DESCRIBE,",
        ),
        (
            ["--add", "--allow-principal", ALICE, "--topic", "t", "--resource-pattern-type=any"],
            "--resource-pattern-type ANY does not go with --add",
        ),
        (["--list", "--operation", "Fly"], "there is no operation Fly"),
        # Options that Kafka's tool ignores, with more or fewer rules than were meant.
        (
            ["--remove", "--topic", "t", "--operation", "Read", "--force"],
            "--operation needs --allow-principal or --deny-principal",
        ),
        (
            ["--add", "--deny-principal", ALICE, "--allow-host", "10.0.0.1", "--topic", "t"],
            "--allow-host needs --allow-principal",
        ),
        (
            ["--add", "--allow-principal", ALICE, "--producer", "--topic", "t", "--group", "g"],
            "--group changes nothing with --producer",
        ),
        (
            [
                *("--add", "--allow-principal", ALICE, "--consumer", "--topic", "t"),
                *("--group", "g", "--transactional-id", "x"),
            ],
            "--transactional-id changes nothing with --consumer",
        ),
        (
            [
                *("--add", "--allow-principal", ALICE, "--producer", "--consumer", "--topic", "t"),
                *("--group", "g", "--cluster"),
            ],
            "--cluster changes nothing with --producer and --consumer",
        ),
        (
            [
                *("--remove", "--cluster", "--resource-pattern-type", "prefixed", "--topic", "t"),
                "--force",
            ],
            "--cluster has no name",
        ),
        (
            ["--add", "--allow-principal", ALICE, "--user-principal", "bob"],
            "--user-principal must be User:NAME or *, not bob",
        ),
    ],
)
def test_conflicting_options_are_a_usage_error(store, capsys, words, reason):
    try:
        status = acls(*words)
    except SystemExit as end:
        status = int(end.code or 0)
    assert status == 2
    assert reason in capsys.readouterr().err
    assert store.rules == set()
