"""`configs`: whose settings are meant and what is to change, before any broker is asked."""

import argparse

import pytest

from cluster.model.quotas import DEFAULT, QuotaEntity
from cluster.tools.arguments import UsageError
from cluster.tools.configs.changes import add_changes, changes, pairs
from cluster.tools.configs.entities import Entity, add_entities, entities, quota_entity
from cluster.tools.main import main


def named(*words: str) -> list[Entity]:
    parser = argparse.ArgumentParser()
    add_entities(parser)
    return entities(parser.parse_args(words))


def test_an_entity_may_be_named_the_short_way():
    assert named("--entity-type", "topics", "--entity-name", "a") == [Entity("topics", "a")]
    assert named("--entity-type", "brokers") == [Entity("brokers", None)]
    assert named("--topic", "orders") == [Entity("topics", "orders")]
    assert named("--broker", "0") == [Entity("brokers", "0")]
    assert named("--group", "g") == [Entity("groups", "g")]
    assert named("--client-defaults") == [Entity("clients", DEFAULT)]
    assert named("--broker-defaults") == [Entity("brokers", DEFAULT)]
    assert named("--entity-type", "brokers", "--entity-default") == [Entity("brokers", DEFAULT)]


def test_types_and_names_are_matched_in_order():
    words = ["--entity-type", "users", "--entity-default", "--entity-type", "clients"]
    assert named(*words, "--entity-name", "c") == [Entity("users", DEFAULT), Entity("clients", "c")]
    assert quota_entity(named("--user", "u", "--client-defaults")) == QuotaEntity("u", DEFAULT)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--entity-name", "orders"],
        ["--topic", "t", "--entity-name", "orders"],
        ["--topic", "t", "--broker", "0"],
        ["--topic", "t", "--topic", "u"],
        ["--user", "u", "--topic", "t"],
        ["--entity-type", "topics", "--entity-default"],
        ["--entity-type", "groups", "--entity-default"],
        ["--entity-type", "broker-loggers"],
        ["--entity-type", "broker-loggers", "--entity-default"],
        ["--user", ""],
    ],
)
def test_entities_that_contradict_each_other_are_wrong_usage(words):
    with pytest.raises(UsageError):
        named(*words)


def test_altering_quotas_needs_a_name_for_every_type():
    with pytest.raises(UsageError, match="--entity-name"):
        quota_entity(named("--entity-type", "users"))


def test_values_with_commas_stand_in_brackets():
    assert pairs("a=1,b=[x,y], c = d=e ,f=") == {"a": "1", "b": "x,y", "c": "d=e", "f": ""}
    for wrong in ("a", "a=[1", "=1", ",a=1"):
        with pytest.raises(UsageError):
            pairs(wrong)


def test_a_password_that_cannot_be_read_is_not_repeated():
    with pytest.raises(UsageError) as refused:
        pairs("a=1,SCRAM-SHA-512=[password=hidden")
    assert str(refused.value).startswith("cannot read --add-config from 'SCRAM-SHA-512'")
    assert "hidden" not in str(refused.value)


def test_values_may_come_from_a_file(tmp_path):
    file = tmp_path / "some.properties"
    file.write_text("retention.ms=5\n")
    parser = argparse.ArgumentParser()
    add_changes(parser)
    args = parser.parse_args(["--add-config-file", str(file), "--delete-config", "a, b"])
    assert changes(args) == ({"retention.ms": "5"}, ["a", "b"])
    with pytest.raises(UsageError, match="needs"):
        changes(parser.parse_args([]))
    with pytest.raises(UsageError, match="exclude"):
        changes(parser.parse_args(["--add-config-file", str(file), "--add-config", "a=1"]))


@pytest.mark.parametrize(
    "words",
    [
        ["--describe"],
        ["--entity-type", "topics"],
        ["--describe", "--entity-type", "planets"],
        ["--describe", "--alter", "--topic", "t"],
        ["--describe", "--topic", "t", "--broker", "0"],
        ["--describe", "--topic", "t", "--add-config", "a=b"],
    ],
)
def test_options_that_cannot_be_read_are_status_2(words, capsys):
    try:
        status: str | int = main(["configs", *words])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert capsys.readouterr().err
