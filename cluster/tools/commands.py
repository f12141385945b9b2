"""The commands of the launcher, in the order of its help: one row and one module each."""

from typing import Final, NamedTuple


class Command(NamedTuple):
    """`module` is one below this folder, with `add_parser(subparsers)` and `run(args) -> int`."""

    name: str
    module: str
    summary: str
    starts_cluster: bool = False
    """Afterwards the modules are compiled in the background if they are not yet."""


COMMANDS: Final = {
    command.name: command
    for command in (
        Command("start", "start", "start a cluster on this machine", starts_cluster=True),
        Command("status", "status", "show what runs, and where"),
        Command("events", "events", "show what happened to the processes: deaths, pauses, ..."),
        Command("dashboard", "dashboard", "print the address of the dashboard, or open it"),
        Command("metrics", "metrics", "show what brokers count, and how far groups are behind"),
        Command("stop", "stop", "stop the cluster, brokers first; data stays"),
        Command("kill", "kill", "send a signal to one broker, and see it restarted"),
        Command("pause", "pause", "stop processes from answering, without ending them"),
        Command("resume", "resume", "let paused processes run on"),
        Command("restart", "restart", "stop one broker cleanly and start it again"),
        Command("add-broker", "add_broker", "add one more broker to the running cluster"),
        Command("broker", "broker", "run one broker of a cluster on several hosts"),
        Command(
            "remove-broker", "remove_broker", "move everything away from a broker, and remove it"
        ),
        Command("topics", "topics.command", "create, list, describe, alter and delete topics"),
        Command(
            "configs",
            "configs.command",
            "show and change settings of topics, brokers and groups, and quotas",
        ),
        Command(
            "groups", "groups.command", "list, describe, explain, delete and reset consumer groups"
        ),
        Command(
            "transactions",
            "transactions.command",
            "list, describe and explain transactions, find and end hanging ones",
        ),
        Command(
            "client-metrics",
            "client_metrics",
            "choose the metrics that clients push, and show them",
        ),
        Command("users", "users", "add, alter, delete and list users who log in by SCRAM"),
        Command("acls", "acls.command", "add, remove and list who may do what"),
        Command("log-dirs", "log_dirs", "show what the log directories of brokers hold"),
        Command("produce", "produce", "write lines of text to a topic"),
        Command("consume", "consume", "print the records of a topic"),
        Command("dump-log", "dump_log.command", "print the files of a log, as kafka-dump-log does"),
        Command("verify", "verify.command", "check the files of all logs for damage"),
        Command("delete-records", "delete_records", "delete the records before an offset"),
        Command(
            "partitions",
            "partitions.command",
            "elect leaders, move partitions to other brokers, spread them evenly",
        ),
        Command(
            "import-log", "import_log.command", "take a partition's directory of Kafka into a topic"
        ),
        Command(
            "load-test", "load.command", "produce and consume at a steady rate, and measure it"
        ),
        Command(
            "demo",
            "demo",
            "see clients throttled, and why: everything in one go",
            starts_cluster=True,
        ),
        Command("registry", "registry", "look at and change znodes, as zkCli does"),
        Command("quotas", "quotas.command", "limit clients, and see who is throttled, and why"),
        Command(
            "capacity",
            "capacity.command",
            "show what grows and fills up, and what another size would do, from the rollup",
        ),
        Command("rollup", "rollup", "roll metrics up into time windows, with PySpark"),
        Command("compile", "compile", "compile the request path now: faster brokers"),
    )
}
