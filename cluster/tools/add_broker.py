"""`add-broker`: one more broker for a running cluster, remembered for later starts."""

import argparse
import time
from typing import TYPE_CHECKING

from cluster.local.member_orders import add_broker
from cluster.model.errors import Refused, UserError
from cluster.model.printable import one_line
from cluster.runtime.installation import launcher, shown
from cluster.runtime.whole_numbers import not_negative
from cluster.tools.arguments import add_command, data_dir, running_state
from cluster.tools.kafka_connection import add_servers, admin_of

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `add-broker` and its options to `subparsers`."""
    parser = add_command(
        subparsers, "add-broker", "add-broker", "add-broker --rack b", "add-broker --broker-id 100"
    )
    parser.add_argument(
        "--broker-id",
        type=not_negative,
        metavar="ID",
        help="its id (default: the one after the largest that is in use)",
    )
    parser.add_argument(
        "--rack",
        metavar="RACK",
        help="its rack (default: that of the settings, else the one with the fewest brokers)",
    )
    add_servers(parser)


def run(args: argparse.Namespace) -> int:
    """Add the broker and print its address once it serves. Returns the exit status."""
    began = time.monotonic()
    files = data_dir(args)
    running_state(args)
    in_use = set() if args.broker_id is not None else _ids_in_use(args)
    broker = add_broker(files, args.broker_id, args.rack, in_use)
    seconds = time.monotonic() - began
    state = running_state(args)
    added = next((each for each in state["brokers"] if each["id"] == broker), None)
    if added is None:
        raise UserError(f"broker {broker} was removed right after it had started")
    rack = f", rack {one_line(added['rack'])}" if added.get("rack") else ""
    command = launcher(files.path)
    print(
        f"Broker {broker} runs on {added['host']}:{added['port']}{rack}, after {seconds:.1f} s."
        f" Its log is {shown(files.log(f'broker-{broker}'))}.\n"
        f"BOOTSTRAP={state['bootstrap']}\n\n"
        "It has no partitions yet: new topics use it, and"
        f" `{command} partitions balance --execute` moves existing ones.\n"
        f"Later starts start it, too, until `{command} remove-broker {broker}`."
    )
    return 0


def _ids_in_use(args: argparse.Namespace) -> set[int]:
    """The ids of brokers, also on other hosts, and of those that replicas are assigned to."""
    try:
        with admin_of(args, "milena-add-broker") as admin:
            facts = admin.facts()
    except (Refused, UserError):  # brokers that are down add nothing to what the supervisor knows
        return set()
    replicas = {
        broker for topic in facts.topics for each in topic.partitions for broker in each.replicas
    }
    return {*facts.brokers, *replicas}
