"""`quotas explain`: why a client is or is not throttled: its limits and its delay computed."""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster.metrics.stats_layout import CLIENT_ID_MAX_BYTES, USER_MAX_BYTES, cut
from cluster.model.errors import UserError
from cluster.model.finite_json import json_text
from cluster.model.kept_names import spellings
from cluster.model.quotas import QuotaKind
from cluster.tools.arguments import UsageError, data_dir
from cluster.tools.quotas import client_text, what_if
from cluster.tools.quotas.explanation_lines import brief_lines, whole_lines
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.views.client_states import (
    BrokerStats,
    ClientState,
    by_client,
    client_states,
    read_running,
)
from cluster.views.quota_explanation import (
    by_broker,
    explanation,
)
from cluster.views.supposed_limits import RATES, Supposed, supposed

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas explain` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "explain",
        "quotas explain --client-id loader-1",
        "quotas explain --user alice --json",
        "quotas explain --client-id loader-1 --if producer_byte_rate=2MiB",
    )
    parser.add_argument("--client-id", metavar="C", help="the client (default: all of --user)")
    parser.add_argument("--user", metavar="U", help="only as this user (default: any)")
    parser.add_argument(
        "--if",
        dest="supposed",
        action="append",
        default=[],
        type=partial(supposed, kinds=(*RATES, QuotaKind.MUTATION)),
        metavar="KEY=AMOUNT",
        help="what this limit would do to the present traffic; may be repeated",
    )
    detail = parser.add_mutually_exclusive_group()
    detail.add_argument(
        "--verbose", action="store_true", help="every rule, broker, window and mute"
    )
    detail.add_argument("--json", action="store_true", help="one object, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print the client's rules, use and delays. Raises UserError if no broker knows it."""
    if args.client_id is None and args.user is None:
        raise UsageError("name a client: --client-id, --user or both")
    brokers = read_running(data_dir(args))
    client_ids = _rows_of(args.client_id, CLIENT_ID_MAX_BYTES)
    users = _rows_of(args.user, USER_MAX_BYTES)
    found = [
        state
        for state in client_states(brokers)
        if (client_ids is None or state.row.client_id in client_ids)
        and (users is None or state.row.user in users)
    ]
    if not found:
        names = {"client": args.client_id, "user": args.user}
        who = " of ".join(f"{word} {name}" for word, name in names.items() if name is not None)
        raise UserError(f"no broker has heard of {who} within the last hour")
    if args.json:
        print(json_text(_to_json(found, brokers, args.supposed), indent=2))
    elif args.verbose:
        print("\n".join(whole_lines(found, brokers, args.supposed)))
    else:
        lines = brief_lines(found, brokers, args.supposed, with_hidden=args.client_id is not None)
        print("\n".join(lines))
    return 0


def _rows_of(name: str | None, most_bytes: int) -> set[str] | None:
    """The spellings of a name in the stats file, which has this much room for it; None for any."""
    if name is None:
        return None
    return {cut(spelling, most_bytes).decode() for spelling in spellings(name)}


def _to_json(
    found: Sequence[ClientState],
    brokers: Sequence[BrokerStats],
    suppositions: Sequence[Supposed],
) -> dict[str, Any]:
    quotas = [
        {
            **explanation(group),
            "if": [
                what_if.to_json(what, state)
                for what in suppositions
                if what.kind == quota
                for state in by_broker(group)
            ],
        }
        for (_, _, quota), group in by_client(found).items()
    ]
    return {
        "brokers": [
            {
                "broker": broker.broker,
                "state": broker.state,
                "age_ms": broker.age_ms,
                "thread": client_text.thread_times(broker),
            }
            for broker in brokers
        ],
        "quotas": quotas,
    }
