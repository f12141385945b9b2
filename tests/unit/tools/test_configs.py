"""`configs`: whose settings are meant, before any broker is asked."""

import argparse

import pytest

from cluster.tools import configs
from cluster.tools.arguments import UsageError
from cluster.tools.main import main


def entity(**options: str) -> tuple[str, str | None]:
    given = {"entity_type": None, "entity_name": None, "topic": None, "broker": None, **options}
    return configs._entity(argparse.Namespace(**given))


def test_an_entity_may_be_named_the_short_way():
    assert entity(entity_type="topics", entity_name="orders") == ("topics", "orders")
    assert entity(entity_type="brokers") == ("brokers", None)
    assert entity(topic="orders") == ("topics", "orders")
    assert entity(broker="0") == ("brokers", "0")


def test_a_name_given_twice_is_wrong_usage():
    with pytest.raises(UsageError, match="goes with --entity-type"):
        entity(topic="orders", entity_name="orders")


@pytest.mark.parametrize(
    "words",
    [
        ["--describe"],
        ["--entity-type", "topics"],
        ["--describe", "--entity-type", "planets"],
        ["--describe", "--topic", "t", "--broker", "0"],
    ],
)
def test_options_that_cannot_be_read_are_status_2(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["configs", *words])
    assert ended.value.code == 2
