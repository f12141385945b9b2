"""`groups explain`: the last rebalances of a group, their causes and costs, and what to do."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from cluster.client.cluster_requests import broker_addresses
from cluster.client.group_requests import explain_group
from cluster.client.security import Servers
from cluster.client.socket_client import SocketClient
from cluster.client.timeouts import POLL_S
from cluster.coordinator.groups.history.explanation import ExplainAnswer
from cluster.model.errors import ErrorCode, UserError
from cluster.model.printable import one_line
from cluster.runtime.whole_numbers import at_least_one
from cluster.tools.arguments import add_parser_of, running_state, stated_servers
from cluster.tools.groups.subcommands import GROUP_COMMANDS
from cluster.tools.kafka_connection import add_servers, servers_of
from cluster.views.groups.explanation_json import explanation_object
from cluster.views.groups.explanation_text import explanation_text
from cluster.views.groups.known_rebalances import merged
from cluster.views.groups.outages import outages
from cluster.views.groups.sentence import brief_text

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_CLIENT_ID: Final = "milena-groups"
_SHOWN: Final = 5
_ANSWER_TIMEOUT_S: Final = 3.0
_PATIENCE_S: Final = 10.0
"""How long a group may have no coordinator, or one that is loading, before that is said."""
_TRANSIENT: Final = (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)


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
        help=f"how many rebalances to show (default: {_SHOWN}; brokers keep 20); means --verbose",
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
    group_id: str = args.group
    servers = servers_of(args)
    with SocketClient.connect(servers, _CLIENT_ID, _ANSWER_TIMEOUT_S) as client:
        brokers = broker_addresses(client)
    answers, silent = _ask_until_coordinated(lambda: _ask_all(servers, brokers, group_id))
    codes = {answer.code for answer in answers.values()}
    known_outages = outages(_events(args))
    known = merged(
        group_id,
        answers,
        {broker: f"{host}:{port}" for broker, (host, port) in brokers.items()},
        silent,
        known_outages,
    )
    if known is None:
        away = [str(each) for each in known_outages if each.until_ms is None]
        sys.stderr.write(f"\nError: {why_nothing(group_id, codes, silent, away)}\n")
        return 1
    if args.json:
        print(json.dumps(explanation_object(known, args.last or _SHOWN), indent=2))
    elif args.verbose or args.last:
        sys.stdout.write(explanation_text(known, args.last or _SHOWN))
    else:
        sys.stdout.write(brief_text(known))
    return 0


def _events(args: argparse.Namespace) -> list[dict[str, Any]]:
    """What happened to the processes of the cluster, if it is that of the data directory."""
    if stated_servers(args) is not None:
        return []
    try:
        events: list[dict[str, Any]] = running_state(args).get("events", [])
    except UserError:
        return []
    return events


_Answers = tuple[dict[int, ExplainAnswer], list[str]]


def _ask_all(servers: Servers, brokers: dict[int, tuple[str, int]], group_id: str) -> _Answers:
    """Answers by broker, and lines about those that do not answer."""
    answers: dict[int, ExplainAnswer] = {}
    silent = []
    for broker, address in sorted(brokers.items()):
        try:
            with SocketClient.connect(
                servers.only(address), _CLIENT_ID, _ANSWER_TIMEOUT_S
            ) as client:
                answers[broker] = explain_group(client, group_id)
        except UserError as problem:
            silent.append(f"broker {broker}: {problem}")
    return answers, silent


def _ask_until_coordinated(ask: Callable[[], _Answers]) -> _Answers:
    """A coordinator that moves or loads is waited for."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        answers, silent = ask()
        codes = {answer.code for answer in answers.values()}
        is_settled = not codes or not codes.issubset(_TRANSIENT)
        if is_settled or silent or time.monotonic() > deadline:
            return answers, silent
        time.sleep(POLL_S)


def why_nothing(group_id: str, codes: set[ErrorCode], silent: list[str], away: list[str]) -> str:
    """Why no broker tells of a group. `away`: brokers that are known not to answer."""
    name = one_line(group_id)
    if ErrorCode.group_id_not_found in codes:
        return f"Consumer group '{name}' does not exist."
    if ErrorCode.coordinator_load_in_progress in codes:
        return f"The coordinator of group '{name}' is still loading it: try again."
    if away or silent:
        return (
            f"The coordinator of group '{name}' does not answer at present"
            f" ({'; '.join(away or map(one_line, silent))}): try again when it is back, or when"
            " another broker leads the group's partition of __consumer_offsets."
        )
    return (
        f"No broker coordinates group '{name}' at present: no group has been used yet, or its"
        " partition of __consumer_offsets has no leader."
    )
