"""`start`: registry and brokers under a supervisor, here or in the background."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.datadir.supervisor_socket import NotRunning
from cluster.model.errors import UserError
from cluster.runtime import collector
from cluster.runtime.installation import shown
from cluster.tools.arguments import add_command, data_dir, running_state
from cluster.tools.options import at_least_one, integer
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
        "start --config etc/server.properties --override num.partitions=3",
    )
    parser.add_argument(
        "--brokers",
        type=at_least_one,
        metavar="N",
        help="how many (default: as many as last time, else 3)",
    )
    parser.add_argument(
        "--detach",
        action="store_true",
        help="return once the cluster is ready; stop it with `stop`",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="properties for every broker: etc/server.properties, or Kafka's own",
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one broker setting, stronger than the file; may be repeated",
    )
    parser.add_argument(
        "--log-dirs",
        metavar="DIR[,DIR...]",
        help="where brokers keep partitions, each in a directory of its own such as DIR/broker-0;"
        " below the data directory unless absolute (default: as last time, else that directory)",
    )
    parser.add_argument(
        "--secure",
        action="store_true",
        help="TLS, a password and ACLs: makes certificates, a user who may do everything, and files"
        " for clients in DATA_DIR/clients; the data directory stays secure",
    )
    parser.add_argument(
        "--host", help="address brokers listen on (default: that of the file, else 127.0.0.1)"
    )
    parser.add_argument(
        "--advertised-host",
        metavar="HOST",
        help="address clients are told (default: that of the file, else --host)",
    )
    parser.add_argument(
        "--port",
        type=_port,
        help="port of broker 0, the next ones follow; of several listeners that of the first, the"
        " others move with it (default: that of the file, else 9092; 0: any free ones)",
    )
    parser.add_argument(
        "--dashboard-port",
        type=_port,
        metavar="PORT",
        help="port of the dashboard (default: 9292, or a free one where that is taken)",
    )
    parser.add_argument(
        "--dashboard-host",
        default="127.0.0.1",
        metavar="HOST",
        help="address the dashboard listens on (default: 127.0.0.1); it asks for a password on"
        " any address that other machines can reach, and on every one with --secure, SASL or ACLs",
    )
    parser.add_argument(
        "--dashboard-actions",
        action="store_true",
        help="let a dashboard that other machines can reach change quotas and kill brokers too",
    )
    parser.add_argument("--no-dashboard", action="store_true", help="start no dashboard")
    parser.add_argument(
        "--registry-host",
        default="127.0.0.1",
        metavar="HOST",
        help="address the registry listens on (default: 127.0.0.1); any address that other machines"
        " can reach needs --secure, and the registry then speaks TLS and takes logins only",
    )
    parser.add_argument(
        "--registry-port", type=_port, default=2181, help="port of the registry (default: 2181)"
    )


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
                f" {shown(files.path)}: stop it before you change their number"
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
        from cluster import launch

    options = launch.StartOptions(
        data_dir=files.path,
        brokers=args.brokers,
        host=args.host,
        advertised_host=args.advertised_host,
        port=args.port,
        registry_host=args.registry_host,
        registry_port=args.registry_port,
        config=args.config,
        overrides=tuple(args.override),
        log_dirs=args.log_dirs,
        detach=args.detach,
        has_dashboard=not args.no_dashboard,
        dashboard_host=args.dashboard_host,
        dashboard_port=args.dashboard_port,
        dashboard_actions=args.dashboard_actions,
        secure=args.secure,
    )
    return launch.start(options, began_ms, note=lambda text: print(text, file=sys.stderr))


def _port(text: str) -> int:
    port = integer(text)
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError("must be from 0 to 65535")
    return port
