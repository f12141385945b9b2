"""`quotas explain`: which of the eight quota rules applies to a client, and its delay computed."""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from cluster.analytics.quantities import duration, percent, rate
from cluster.metrics.stats_layout import CLIENT_ID_MAX_BYTES, USER_MAX_BYTES, cut
from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.model.quota_delay import explain_delay
from cluster.model.quotas import RULES
from cluster.runtime.text_table import table_text
from cluster.tools.arguments import data_dir
from cluster.tools.quotas.client_states import (
    ALIVE,
    BrokerStats,
    ClientState,
    by_client,
    client_states,
    read_running,
)
from cluster.tools.quotas.subcommands import add_subcommand

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_HEADINGS: Final = (
    *("BROKER", "RATE", "LIMIT", "USED", "DELAY", "MUTE LEFT", "REQUESTS", "THROTTLED"),
)
_SHARED: Final = {
    "user": "all clients of this user share it",
    "default-user": "all clients of this user share it",
    "client": "all users of this client id share it",
    "default-client": "all users of this client id share it",
}


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas explain` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "explain",
        "quotas explain --client-id loader-1",
        "quotas explain --client-id loader-1 --user alice --json",
    )
    parser.add_argument("--client-id", required=True, metavar="C", help="the client")
    parser.add_argument("--user", metavar="U", help="only as this user (default: any)")
    parser.add_argument("--json", action="store_true", help="one object, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print the client's rules, use and delays. Raises UserError when no broker knows it."""
    brokers = read_running(data_dir(args))
    # Long names are cut in the stats file.
    client_id = cut(args.client_id, CLIENT_ID_MAX_BYTES).decode()
    user = None if args.user is None else cut(args.user, USER_MAX_BYTES).decode()
    found = [
        state
        for state in client_states(brokers)
        if state.row.client_id == client_id and user in (None, state.row.user)
    ]
    if not found:
        who = args.client_id if user is None else f"{args.client_id} of user {args.user}"
        raise UserError(f"no broker has heard of client {who} within the last hour")
    if args.json:
        print(json.dumps(_to_json(found, brokers), indent=2))
    else:
        print("\n".join(_lines(found, brokers)))
    return 0


def arithmetic(state: ClientState) -> str:
    """The delay formula with this broker's numbers."""
    row = state.row
    return explain_delay(row.quota, row.rate, row.limit, row.window_seconds * 1000, row.delay_ms)


def _lines(found: Sequence[ClientState], brokers: Sequence[BrokerStats]) -> Iterator[str]:
    present = None
    for (user, client_id, quota), group in by_client(found).items():
        if present != (user, client_id):
            present = (user, client_id)
            yield f"Client '{one_line(client_id)}', user {one_line(user)}"
        row = _newest(group).row
        yield ""
        if row.rule is None:
            yield f"{quota}: no rule matches, so there is no limit"
        else:
            shared = f"; {_SHARED[row.rule]}" if row.rule in _SHARED else ""
            yield f"{quota}: {row.rule}, {rate(quota, row.limit)} on each broker{shared}"
        rules = [
            (f"{'>' if rule == row.rule else ' '} {rule}", rate(quota, limit))
            for rule, limit in zip(RULES, row.limits, strict=True)
        ]
        yield table_text(("", ""), rules, indent="  ")
        yield from _broker_table(quota, group)
    for broker in brokers:
        if broker.state != ALIVE:
            yield ""
            yield (
                f"Broker {broker.broker} is {broker.state}: its figures are"
                f" {duration(broker.age_ms)} old."
            )


def _broker_table(quota: str, group: Sequence[ClientState]) -> Iterator[str]:
    ordered = sorted(group, key=lambda state: state.source.broker)
    rows = [
        (
            _label(state.source),
            rate(quota, state.row.rate),
            rate(quota, state.row.limit),
            percent(_as_percent(state.row.utilisation)),
            duration(state.row.delay_ms),
            duration(state.muted_left_ms),
            str(state.row.requests),
            str(state.row.throttled),
        )
        for state in ordered
    ]
    total = _sum(group)
    rows.append(
        (
            "sum",
            rate(quota, total["rate"]),
            rate(quota, total["limit"]),
            percent(_as_percent(total["utilisation"])),
            duration(total["delay_ms"]),
            duration(total["muted_left_ms"]),
            str(total["requests"]),
            str(total["throttled"]),
        )
    )
    yield table_text(_HEADINGS, rows, right=_HEADINGS[1:], indent="    ")
    for state in ordered:
        if state.row.limit is not None:
            yield f"    broker {state.source.broker}: {arithmetic(state)}"


def _label(broker: BrokerStats) -> str:
    return str(broker.broker) if broker.state == ALIVE else f"{broker.broker} ({broker.state})"


def _as_percent(utilisation: float | None) -> float | None:
    return None if utilisation is None else utilisation * 100


def _newest(group: Sequence[ClientState]) -> ClientState:
    return max(group, key=lambda state: state.row.written_wall_ms)


def _sum(group: Sequence[ClientState]) -> dict[str, Any]:
    """Totals over brokers: rates and limits are added; delays are not, each broker has its own."""
    living = [state for state in group if not state.source.is_dead]
    limits = [state.row.limit for state in living]
    known = [limit for limit in limits if limit is not None]
    limit = sum(known) if known and len(known) == len(limits) else None
    total = sum(state.row.rate for state in living)
    return {
        "brokers": len(living),
        "rate": total,
        "limit": limit,
        "utilisation": total / limit if limit else None,
        "delay_ms": max((state.row.delay_ms for state in living), default=0),
        "muted_left_ms": max((state.muted_left_ms for state in living), default=0),
        "requests": sum(state.row.requests for state in group),
        "throttled": sum(state.row.throttled for state in group),
        "usage": sum(state.row.usage for state in group),
        "throttle_ms": sum(state.row.throttle_ms for state in group),
        "muted_ms": sum(state.row.muted_ms for state in group),
    }


def _to_json(found: Sequence[ClientState], brokers: Sequence[BrokerStats]) -> dict[str, Any]:
    quotas = []
    for (user, client_id, quota), group in by_client(found).items():
        row = _newest(group).row
        quotas.append(
            {
                "user": user,
                "client_id": client_id,
                "quota": quota,
                "rule": row.rule,
                "limit": row.limit,
                "rules": [
                    {"rule": rule, "limit": limit, "matched": rule == row.rule}
                    for rule, limit in zip(RULES, row.limits, strict=True)
                ],
                "brokers": [
                    {**state.to_json(), "arithmetic": arithmetic(state)}
                    for state in sorted(group, key=lambda s: s.source.broker)
                ],
                "sum": _sum(group),
            }
        )
    return {
        "brokers": [
            {"broker": broker.broker, "state": broker.state, "age_ms": broker.age_ms}
            for broker in brokers
        ],
        "quotas": quotas,
    }
