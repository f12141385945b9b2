"""`broker`: one broker of a cluster on several hosts, in the foreground and without supervisor."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.runtime import collector
from cluster.tools.arguments import add_command, data_dir

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `broker` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "broker",
        "broker --config server.properties",
        "broker --config server.properties --override broker.rack=b --data-dir /var/lib/milena",
    )
    parser.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="FILE",
        help="its properties, such as Kafka's: zookeeper.connect, log.dirs, listeners, and"
        " broker.id unless the registry is to choose one",
    )
    parser.add_argument(
        "--override",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one broker setting, stronger than the file; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Run the broker until SIGINT or SIGTERM. Returns the exit status."""
    with collector.paused():  # it loads everything that brokers run
        from cluster.launch.lone_broker import start_lone_broker

    start_lone_broker(
        data_dir(args),
        args.config,
        args.overrides,
        note=lambda text: print(text, file=sys.stderr),
        say=lambda text: print(text, flush=True),
    )
    return 0
