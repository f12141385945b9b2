"""`start`: registry and brokers under a supervisor, here or in the background."""

import argparse
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cluster.datadir.supervisor_socket import NotRunning
from cluster.launch.broker_ids import parse_broker_ids
from cluster.launch.options import StartOptions, add_start_options
from cluster.launch.racks import racks_of_brokers, remembered_racks
from cluster.model.errors import UserError
from cluster.runtime import collector
from cluster.runtime.installation import shown
from cluster.tools.arguments import add_command, data_dir, running_state
from cluster.tools.compile import compile_later
from cluster.views.cluster_health import UP
from cluster.views.cluster_text import how_to_go_on
from cluster.views.running_cluster import read_health

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `start` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "start",
        "start",
        "start --brokers 1 --detach",
        "start --secure --detach",
        "start --brokers 6 --racks a,b,c --detach",
        "start --config etc/server.properties --override num.partitions=3",
    )
    add_start_options(parser)


def run(args: argparse.Namespace) -> int:
    """Start the cluster unless it is running already. Returns the exit status."""
    # CPU time so far approximates the time since the user entered the command.
    began_ms = (time.monotonic_ns() - time.process_time_ns()) // 1_000_000
    files = data_dir(args)
    try:
        state = running_state(args)
    except NotRunning:
        pass
    else:
        if state["state"] != "up":
            raise UserError(f"the cluster in {shown(files.path)} is {state['state']}: wait for it")
        if args.brokers not in (None, len(state["brokers"])):
            raise UserError(
                f"a cluster of {len(state['brokers'])} brokers is running in"
                f" {shown(files.path)}: use `add-broker` or `remove-broker`, or stop it first"
            )
        ids = sorted(each["id"] for each in state["brokers"])
        if args.broker_ids is not None and list(parse_broker_ids(args.broker_ids)) != ids:
            raise UserError(
                f"a cluster of brokers {', '.join(map(str, ids))} is running in"
                f" {shown(files.path)}: use `add-broker` or `remove-broker`, or stop it first"
            )
        if args.racks is not None and _other_racks(args.racks, state):
            raise UserError(
                f"the brokers in {shown(files.path)} run with other racks: stop the cluster before"
                " you change them"
            )
        if args.secure and not state["secure"]:
            raise UserError(
                f"the cluster in {shown(files.path)} runs without security: stop it before you"
                " make it secure"
            )
        health = read_health(files, state)
        print("Cluster is already running.")
        if health.state != UP:
            print(f"It is {health.state}: {health.text}.")
        print(how_to_go_on(state, foreground=False))
        return 0

    # Imported only now, because it loads everything that brokers run.
    with collector.paused():
        from cluster.launch.start import start

    options = StartOptions.of_arguments(files.path, args)
    return start(
        options, began_ms, note=lambda text: print(text, file=sys.stderr), after_up=compile_later
    )


def _other_racks(named: str, state: Mapping[str, Any]) -> bool:
    """Whether `--racks` would give the brokers that run other racks. Raises UserError."""
    before = remembered_racks(state)
    return racks_of_brokers(named, None, before, sorted(before), note=lambda _: None) != before
