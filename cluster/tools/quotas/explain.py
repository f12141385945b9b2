"""`quotas explain`: which of the eight quota rules applies to a client, and its delay computed."""

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cluster.metrics.stats_layout import CLIENT_ID_MAX_BYTES, USER_MAX_BYTES, cut
from cluster.model.errors import UserError
from cluster.model.kept_names import spellings
from cluster.model.printable import one_line
from cluster.model.quotas import RULES, QuotaKind
from cluster.runtime.text_table import table_text
from cluster.tools.arguments import UsageError, data_dir
from cluster.tools.quotas import client_text, what_if
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.views.client_states import (
    ALIVE,
    BrokerStats,
    ClientState,
    by_client,
    client_states,
    read_running,
)
from cluster.views.quantities import duration, percent, rate
from cluster.views.quota_explanation import (
    arithmetic,
    by_broker,
    explanation,
    newest,
    totals,
)
from cluster.views.supposed_limits import RATES, Supposed, supposed

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
        "quotas explain --user alice --json",
        "quotas explain --client-id loader-1 --if producer_byte_rate=2MB",
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
    parser.add_argument("--json", action="store_true", help="one object, for scripts")


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
        print(json.dumps(_to_json(found, brokers, args.supposed), indent=2))
    else:
        print("\n".join(_lines(found, brokers, args.supposed)))
    return 0


def _rows_of(name: str | None, most_bytes: int) -> set[str] | None:
    """The spellings of a name in the stats file, which has this much room for it; None for any."""
    if name is None:
        return None
    return {cut(spelling, most_bytes).decode() for spelling in spellings(name)}


def _lines(
    found: Sequence[ClientState],
    brokers: Sequence[BrokerStats],
    suppositions: Sequence[Supposed],
) -> Iterator[str]:
    present = None
    groups = by_client(found)
    for (user, client_id, quota), group in groups.items():
        if present != (user, client_id):
            if present is not None:
                yield ""
            present = (user, client_id)
            yield f"Client '{one_line(client_id)}', user {one_line(user)}"
            yield from client_text.software_lines(
                [s for s in found if (s.row.user, s.row.client_id) == present]
            )
        row = newest(group).row
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
        yield from client_text.window_lines(quota, group)
        yield from client_text.pause_lines(group)
        for what in suppositions:
            if what.kind == quota:
                yield from what_if.lines(what, by_broker(group))
    yield from _unanswered(list(groups), suppositions)
    yield ""
    yield from client_text.thread_lines(brokers)
    for broker in brokers:
        if broker.state != ALIVE:
            yield ""
            yield (
                f"Broker {broker.broker} is {broker.state}: its figures are"
                f" {duration(broker.age_ms)} old."
            )


def _unanswered(
    keys: Sequence[tuple[str, str, str]], suppositions: Sequence[Supposed]
) -> Iterator[str]:
    """The suppositions about quotas that none of the clients (user, client id, quota) use."""
    for what in suppositions:
        if all(quota != what.kind for _, _, quota in keys):
            yield ""
            yield (
                f"if {what.key} were {rate(what.kind, what.limit)}: nobody named here used anything"
                " of it within the last hour, so it would delay nothing"
            )


def _broker_table(quota: str, group: Sequence[ClientState]) -> Iterator[str]:
    ordered = by_broker(group)
    rows = [
        (
            _label(state.source),
            rate(quota, state.row.rate),
            rate(quota, state.row.limit),
            percent(_as_percent(state.row.utilization)),
            duration(state.row.delay_ms),
            duration(state.muted_left_ms),
            str(state.row.requests),
            str(state.row.throttled),
        )
        for state in ordered
    ]
    total = totals(group)
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


def _as_percent(utilization: float | None) -> float | None:
    return None if utilization is None else utilization * 100


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
