"""The commands of the launcher, in the order of its help: one row and one module each."""

from typing import Final, NamedTuple


class Command(NamedTuple):
    """`module` is a file of this folder, with `add_parser(subparsers)` and `run(args) -> int`."""

    name: str
    module: str
    summary: str


COMMANDS: Final = {
    command.name: command
    for command in (
        Command("start", "start", "start a cluster on this machine"),
        Command("status", "status", "show what runs, and where"),
        Command("stop", "stop", "stop the cluster, brokers first; data stays"),
        Command("kill", "kill", "send a signal to one broker, and see it restarted"),
        Command("restart", "restart", "stop one broker cleanly and start it again"),
    )
}
