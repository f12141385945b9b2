"""The sub-commands of `groups`; what kafka-consumer-groups can do has options as there instead."""

from typing import Final

from cluster.tools.commands import Command

GROUP_COMMANDS: Final = {
    command.name: command
    for command in (
        Command("explain", "groups.explain", "say why a group rebalances, and what to do about it"),
        Command(
            "report", "groups.report", "show how far groups were behind over time, from the rollup"
        ),
    )
}
"""`module` is one below `tools/`, with `add_parser(subparsers)` and `run(args) -> int`."""
