"""The commands of the launcher, in the order of its help: one row and one module each."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Command(NamedTuple):
    """`module` is one below this folder, with `add_parser(subparsers)` and `run(args) -> int`."""

    name: str
    module: str
    summary: str
    starts_cluster: bool = False
    """Afterwards the modules are compiled in the background if they are not yet."""


GROUPS: Final[Mapping[str, tuple[Command, ...]]] = {
    "start here": (
        Command(
            "demo",
            "demo",
            "start a cluster, throttle a client and explain why, in one go",
            starts_cluster=True,
        ),
        Command("start", "start", "start a cluster on this machine", starts_cluster=True),
        Command("status", "status", "show what runs, and where"),
        Command("dashboard", "dashboard", "print the address of the dashboard, or open it"),
        Command("stop", "stop", "stop the cluster, brokers first; data stays"),
        Command("run", "run", "run a command with a cluster of its own, removed afterwards"),
        Command(
            "load-test", "load.command", "produce and consume at a steady rate, and measure it"
        ),
    ),
    "topics and records": (
        Command("topics", "topics.command", "create, list, describe, alter and delete topics"),
        Command("produce", "produce", "write lines of text to a topic"),
        Command("consume", "consume", "print the records of a topic"),
        Command("delete-records", "delete_records", "delete the records before an offset"),
        Command(
            "import-log", "import_log.command", "import a partition directory of Kafka into a topic"
        ),
        Command(
            "configs",
            "configs.command",
            "show and change settings of topics, brokers and groups, and quotas",
        ),
    ),
    "groups and transactions": (
        Command(
            "groups", "groups.command", "list, describe, explain, delete and reset consumer groups"
        ),
        Command(
            "transactions",
            "transactions.command",
            "list, describe, explain and end transactions",
        ),
    ),
    "quotas": (
        Command("quotas", "quotas.command", "limit clients; see which are throttled, and why"),
    ),
    "brokers": (
        Command("kill", "kill", "send a signal to one broker, and see it restarted"),
        Command("pause", "pause", "stop processes from answering, without ending them"),
        Command("resume", "resume", "let paused processes run on"),
        Command("restart", "restart", "stop one broker cleanly and start it again"),
        Command("add-broker", "add_broker", "add one more broker to the running cluster"),
        Command(
            "remove-broker", "remove_broker", "move everything away from a broker, and remove it"
        ),
        Command(
            "partitions",
            "partitions.command",
            "elect leaders, move partitions to other brokers, spread them evenly",
        ),
        Command("broker", "broker", "run one broker of a cluster on several hosts"),
        Command("compile", "compile", "compile the request path now: faster brokers"),
    ),
    "inspect": (
        Command("top", "top.command", "show clients, topics, groups and brokers live"),
        Command("events", "events", "show what happened to the processes: deaths, pauses, ..."),
        Command("metrics", "metrics", "show the brokers' metrics, and the lag of groups"),
        Command(
            "client-metrics",
            "client_metrics",
            "choose the metrics that clients push (KIP-714), and show them",
        ),
        Command("log-dirs", "log_dirs", "show the sizes of topics in the log directories"),
        Command("dump-log", "dump_log.command", "print the files of a log, as kafka-dump-log does"),
        Command("verify", "verify.command", "check the files of all logs for damage"),
        Command("registry", "registry", "look at and change znodes, as zkCli does"),
    ),
    "security": (
        Command("users", "users", "add, alter, delete and list users who log in by SCRAM"),
        Command("acls", "acls.command", "add, remove and list access rules: who may do what"),
    ),
    "analysis": (
        Command("rollup", "rollup", "roll metrics up into time windows, with PySpark"),
        Command(
            "capacity",
            "capacity.command",
            "show what grows and fills up, and what another size would do, from the rollup",
        ),
    ),
}
"""By purpose, as `--help` shows them."""

COMMANDS: Final = {command.name: command for group in GROUPS.values() for command in group}
