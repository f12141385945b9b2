"""`groups explain`: the last rebalances of a group, their causes and costs, and what to do."""

import argparse
import json
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cluster.model.errors import UserError
from cluster.runtime.whole_numbers import at_least_one
from cluster.tools.arguments import add_parser_of, running_state, stated_servers
from cluster.tools.groups.subcommands import GROUP_COMMANDS
from cluster.tools.kafka_connection import add_servers, admin_of, servers_of
from cluster.views.groups.explanation_json import explanation_object
from cluster.views.groups.explanation_text import explanation_text
from cluster.views.groups.find_rebalances import REBALANCES_SHOWN, UnknownGroup, find_rebalances
from cluster.views.groups.held_back import find_held_back
from cluster.views.groups.known_rebalances import KnownGroup
from cluster.views.groups.sentence import brief_text

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_CLIENT_ID: Final = "milena-groups"
_PATIENCE_S: Final = 3.0
"""For leaders that move."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `groups explain` and its options to `subparsers`."""
    parser = add_parser_of(
        subparsers,
        GROUP_COMMANDS["explain"],
        "groups explain billing",
        "groups explain --group billing --last 20 --json",
    )
    parser.accept_words(name="--group")
    parser.add_argument("--group", required=True, metavar="G", help="which")
    parser.add_argument(
        "--last",
        type=at_least_one,
        metavar="N",
        help=f"how many rebalances to show (default: {REBALANCES_SHOWN}; brokers keep 20); means"
        " --verbose",
    )
    detail = parser.add_mutually_exclusive_group()
    detail.add_argument(
        "--verbose", action="store_true", help="its members, and its last rebalances step by step"
    )
    detail.add_argument("--json", action="store_true", help="one object, for scripts")
    add_servers(parser, is_nested=True)


def run(args: argparse.Namespace) -> int:
    """Print what the brokers know. Returns the exit status: 1 if there is no such group.

    Raises UserError when nobody answers.
    """
    try:
        known = find_rebalances(servers_of(args), _CLIENT_ID, args.group, _events(args))
    except UnknownGroup as problem:
        sys.stderr.write(f"\nError: {problem}\n")
        return 1
    known = _with_transactions(args, known)
    if args.json:
        print(json.dumps(explanation_object(known, args.last or REBALANCES_SHOWN), indent=2))
    elif args.verbose or args.last:
        sys.stdout.write(explanation_text(known, args.last or REBALANCES_SHOWN))
    else:
        sys.stdout.write(brief_text(known))
    return 0


def _with_transactions(args: argparse.Namespace, known: KnownGroup) -> KnownGroup:
    """The same with the partitions that transactions hold back; a warning if that is not known."""
    try:
        with admin_of(args, _CLIENT_ID, _PATIENCE_S) as admin:
            held = find_held_back(admin, known.name, known.assigned, time.sleep)
    except UserError as problem:
        print(
            f"warning: not known whether a transaction holds the group back: {problem}",
            file=sys.stderr,
        )
        return known
    return replace(known, held_back=tuple(held))


def _events(args: argparse.Namespace) -> list[dict[str, Any]]:
    """What happened to the processes of the cluster, if it is that of the data directory."""
    if stated_servers(args) is not None:
        return []
    try:
        events: list[dict[str, Any]] = running_state(args).get("events", [])
    except UserError:
        return []
    return events
