"""The `acls --add` line that allows what was refused."""

import shlex

import pytest

from cluster.client.refusals import allowing_words
from cluster.model.acls import AclOperation
from cluster.tools.acls import command
from cluster.tools.command_parser import CommandParser


@pytest.mark.parametrize("name", ["orders", "-orders", "--list", "two words"])
def test_the_line_names_the_resource_whatever_it_is_called(name: str) -> None:
    words = shlex.split(allowing_words("User:eve", "Read", ["--topic", name]))
    parser = CommandParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["acls", *words])
    assert (args.topic, args.operation, args.allow_principal) == (
        [name],
        [AclOperation.READ],
        ["User:eve"],
    )


def test_rules_of_the_cluster_have_no_name() -> None:
    assert allowing_words("User:eve", "Alter", ["--cluster"]).endswith(
        " --operation Alter --cluster"
    )
