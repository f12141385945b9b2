"""`client-metrics`: what clients are asked to push, as kafka-client-metrics, and what they pushed.

`--show` is not in Kafka's tool: it asks the brokers for the last values, and puts the latency that
clients see beside the one that brokers measure.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cluster.client.admin import Admin
from cluster.client.config_requests import alter_configs, described, names_with_configs
from cluster.client.pushed_metrics_requests import pushed_metrics
from cluster.client.refusals import reason_of
from cluster.config.client_metrics import INTERVAL_MS, MATCH, METRICS
from cluster.model.errors import Refused
from cluster.model.ids import encode_uuid, new_uuid
from cluster.model.printable import one_line
from cluster.protocol.peer.pushed_metrics import (
    VALUES_MAX,
    PushedMetricsQuestion,
    PushingClient,
)
from cluster.runtime.installation import launcher
from cluster.tools.arguments import UsageError, add_command, running_state
from cluster.tools.kafka_connection import add_servers, admin_of
from cluster.tools.missing_rights import right_hint
from cluster.tools.terminal import print_table
from cluster.views.pushed_latencies import latest_clients, measured_times, pushed_latencies

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_CLIENT_ID: Final = "milena-client-metrics"
_TYPE: Final = "client-metrics"
_SETTINGS: Final = {"interval": INTERVAL_MS.name, "match": MATCH.name, "metrics": METRICS.name}
"""The settings' names by option."""
_WHO_PUSHES: Final = (
    "Clients that were connected before the first subscription push after they have connected"
    " again, those of Java within five minutes."
)


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `client-metrics` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "client-metrics",
        "client-metrics --alter --name all --metrics '*' --interval 10000",
        "client-metrics --alter --generate-name --metrics org.apache.kafka.producer."
        " --match client_id=billing.*",
        "client-metrics describe",
        "client-metrics show",
        "client-metrics --show --client-id billing-1 --json",
    )
    action = parser.add_mutually_exclusive_group(required=True)
    for name, what in (
        ("alter", "create a subscription, or change it"),
        ("delete", "delete a subscription"),
        ("describe", "print subscriptions"),
        ("list", "print the names of subscriptions"),
        ("show", "print what clients pushed last"),
    ):
        action.add_argument(f"--{name}", action="store_const", dest="action", const=name, help=what)
    parser.accept_words(("alter", "delete", "describe", "list", "show"), name="--name")
    parser.add_argument("--name", metavar="NAME", help="the subscription")
    parser.add_argument(
        "--generate-name", action="store_true", help="with --alter: a new name instead of --name"
    )
    parser.add_argument(
        "--metrics",
        metavar="PREFIX[,PREFIX...]",
        help="with --alter: the metrics, by the beginnings of their names, * for all; with --show:"
        " only these",
    )
    parser.add_argument(
        "--interval",
        metavar="MS",
        help="with --alter: milliseconds between two pushes, 100 to 3600000 (default: 300000)",
    )
    parser.add_argument(
        "--match",
        metavar="KEY=EXPRESSION[,...]",
        help="with --alter: which clients, all of whose expressions must match; KEY is"
        " client_instance_id, client_id, client_software_name, client_software_version,"
        " client_source_address or client_source_port (default: every client)",
    )
    parser.add_argument("--client-id", metavar="ID", help="with --show: this client, with values")
    parser.add_argument("--json", action="store_true", help="with --show: one object, for scripts")
    add_servers(parser)


def run(args: argparse.Namespace) -> int:
    """Carry the action out. Returns the exit status."""
    _check(args)
    actions = {
        "alter": _alter,
        "delete": _delete,
        "describe": _describe,
        "list": _list,
        "show": _show,
    }
    with admin_of(args, _CLIENT_ID) as admin:
        try:
            return actions[args.action](admin, args)
        except Refused as refused:
            print(
                f"Error while executing client metrics command : {reason_of(refused)}"
                f"{right_hint(refused.code, args)}",
                file=sys.stderr,
            )
            return 1


def _check(args: argparse.Namespace) -> None:
    if args.action == "alter" and bool(args.name) == args.generate_name:
        raise UsageError("--alter needs one of --name and --generate-name")
    if args.action == "delete" and not args.name:
        raise UsageError("--delete needs --name")
    uses = {
        "name": ("alter", "delete", "describe"),
        "generate_name": ("alter",),
        "metrics": ("alter", "show"),
        "interval": ("alter",),
        "match": ("alter",),
        "client_id": ("show",),
        "json": ("show",),
    }
    for option, actions in uses.items():
        if getattr(args, option) and args.action not in actions:
            raise UsageError(
                f"--{option.replace('_', '-')} goes with {' and '.join(f'--{a}' for a in actions)}"
            )


def _alter(admin: Admin, args: argparse.Namespace) -> int:
    name = args.name or encode_uuid(new_uuid())
    given = {
        name: text
        for option, name in _SETTINGS.items()
        if (text := getattr(args, option)) is not None
    }
    if not given:
        raise UsageError("--alter needs --metrics, --interval or --match")
    # As in Kafka's tool, an empty text takes a setting away.
    added = {key: text for key, text in given.items() if text}
    deleted = [key for key, text in given.items() if not text]
    is_first = not _names(admin)
    admin.any_broker(lambda client: alter_configs(client, _TYPE, name, added, deleted))
    print(f"Altered client metrics config for {one_line(name)}.")
    if is_first:
        print(f"This is the first subscription. {_WHO_PUSHES}", file=sys.stderr)
    return 0


def _delete(admin: Admin, args: argparse.Namespace) -> int:
    keys = list(_SETTINGS.values())
    admin.any_broker(lambda client: alter_configs(client, _TYPE, args.name, {}, keys))
    print(f"Deleted client metrics config for {one_line(args.name)}.")
    return 0


def _names(admin: Admin) -> list[str]:
    return sorted(admin.any_broker(lambda client: names_with_configs(client, _TYPE)))


def _describe(admin: Admin, args: argparse.Namespace) -> int:
    names = _names(admin)
    if args.name:
        if args.name not in names:
            print(
                f"The client metric resource {one_line(args.name)} doesn't exist and doesn't have"
                " dynamic config."
            )
            return 0
        names = [args.name]
    for name in names:
        entries = admin.any_broker(partial(described, entity_type=_TYPE, name=name))
        print(f"Client metrics configs for {one_line(name)} are:")
        for entry in entries:
            print(f"  {entry.name}={one_line(entry.value or '', None)}")
    return 0


def _list(admin: Admin, _args: argparse.Namespace) -> int:
    print("\n".join(map(one_line, _names(admin))))
    return 0


def _show(admin: Admin, args: argparse.Namespace) -> int:
    prefixes = tuple(each for each in (args.metrics or "").split(",") if each not in ("", "*"))
    question = PushedMetricsQuestion(args.client_id, prefixes, VALUES_MAX)
    answers, silent = pushed_metrics(admin, question)
    clients = latest_clients(answers)
    left_out = sum(answer.clients_left_out for answer in answers)
    for line in silent:
        print(f"WARNING: {line}", file=sys.stderr)
    if args.json:
        shown = {"clients": [_as_json(each) for each in clients], "clients_left_out": left_out}
        print(json.dumps(shown, indent=2))
        return 0
    if not clients:
        print("No client has pushed metrics lately.")
        if _names(admin):
            print(_WHO_PUSHES)
        else:
            command = f"{launcher()} client-metrics alter all --metrics '*'"
            print(f"No subscription asks for any. To create one: {command}")
        return 0
    now_ms = max(answer.now_ms for answer in answers)
    _print_clients(clients, now_ms)
    if left_out:
        print(f"... and {left_out} more, too many for one answer: name one with --client-id")
    _print_latencies(clients, measured_times(answers), args)
    if args.client_id is not None or prefixes:
        _print_values(clients)
    return 0


def _print_clients(clients: Sequence[PushingClient], now_ms: int) -> None:
    print_table(
        ["CLIENT", "INSTANCE", "SOFTWARE", "HOST", "PUSHED", "PUSHES", "VALUES"],
        [
            [
                each.client_id,
                each.client_instance_id,
                each.software or "-",
                each.host,
                "closed" if each.is_closed else f"{max(0, now_ms - each.ts_ms) / 1_000:.1f} s ago",
                f"{each.pushes:,}",
                f"{len(each.values):,}" + (f" (+{each.left_out:,})" if each.left_out else ""),
            ]
            for each in clients
        ],
        right=["PUSHES", "VALUES"],
    )


def _print_latencies(
    clients: Sequence[PushingClient],
    measured: Mapping[tuple[int, str, str, str], float],
    args: argparse.Namespace,
) -> None:
    """What clients and brokers say of the same requests; nothing if no client says anything."""
    found = pushed_latencies(clients)
    if not found:
        return
    own = _times_of_brokers(args)
    print(
        "\nLatency of requests in ms, as clients see it, and as brokers measure it: MEASURED of the"
        "\nlatest requests by this client id, P50 and P99 of all clients since the broker's start."
    )
    print_table(
        ["CLIENT", "BROKER", "API", "AVG", "MAX", "MEASURED", "P50", "P99"],
        [
            [
                each.client.client_id,
                str(each.broker),
                each.api,
                _ms(each.avg_ms),
                _ms(each.max_ms),
                _ms(measured.get(each.place)),
                *map(_ms, own.get((each.broker, each.api), (None, None))),
            ]
            for each in found
        ],
        right=["AVG", "MAX", "MEASURED", "P50", "P99"],
    )


def _times_of_brokers(
    args: argparse.Namespace,
) -> Mapping[tuple[int, str], tuple[float | None, float | None]]:
    """Median and 99th percentile of TotalTimeMs since each broker's start, by broker and API.

    Empty if the cluster is not that of the data directory.
    """
    from cluster.datadir.supervisor_socket import NotRunning
    from cluster.tools.arguments import data_dir
    from cluster.views.api_times import api_times
    from cluster.views.client_states import read_brokers

    if args.bootstrap_server:
        return {}
    try:
        running_state(args)
    except NotRunning:
        return {}
    found = {}
    for broker in read_brokers(data_dir(args)):
        for each in api_times([(broker.stats, None)]):
            times = each.to_json()["times"]["TotalTimeMs"]
            found[broker.broker, each.api] = (times["p50"], times["p99"])
    return found


def _print_values(clients: Sequence[PushingClient]) -> None:
    for client in clients:
        labels = ", ".join(f"{each.key}={each.value}" for each in client.labels)
        print(
            f"\nMetrics of {one_line(client.client_id)} {client.client_instance_id}"
            f"{f' ({one_line(labels)})' if labels else ''}:"
        )
        print_table(
            ["METRIC", "LABELS", "VALUE", "TYPE"],
            [
                [
                    each.name,
                    ", ".join(f"{label.key}={label.value}" for label in each.labels),
                    f"{each.value:g}",
                    "counter" if each.is_counter else "gauge",
                ]
                for each in sorted(client.values)
            ],
            right=["VALUE"],
        )


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _as_json(client: PushingClient) -> dict[str, Any]:
    shown = asdict(client)
    shown["labels"] = {each.key: each.value for each in client.labels}
    shown["values"] = [
        {**each._asdict(), "labels": {label.key: label.value for label in each.labels}}
        for each in client.values
    ]
    return shown
