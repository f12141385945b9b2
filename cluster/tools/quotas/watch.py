"""`quotas watch`: live use of quotas by client, throttled clients first.

It only reads the brokers' stats files, so it costs brokers nothing and works after their death.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cluster.model.clocks import MonotonicMs
from cluster.model.finite_json import json_text
from cluster.model.printable import one_line
from cluster.runtime.text_table import fitted_table, styled, table_text
from cluster.tools.arguments import data_dir
from cluster.tools.live_terminal import (
    add_interval,
    broker_states,
    brokers_alive,
    cut_line,
    pressed_keys,
    single_keys,
)
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.tools.terminal import console
from cluster.views.client_states import (
    ALIVE,
    BrokerStats,
    ClientState,
    client_states,
    read_brokers,
    read_running,
)
from cluster.views.client_verdict import NEAR_FROM
from cluster.views.listed_clients import ListedClient, has_users, hidden_words, listed_clients
from cluster.views.quantities import duration, percent, rate

if TYPE_CHECKING:
    from rich.console import ConsoleDimensions, RenderableType
    from rich.text import Text

    from cluster.datadir.paths import DataDir
    from cluster.tools.arguments import Subparsers

    _Cell = str | Text

_COLUMNS: Final = (
    "USER",
    "CLIENT-ID",
    "QUOTA",
    "RULE",
    "BROKERS",
    "RATE",
    "LIMIT",
    "USED",
    "THROTTLE-MS",
    "MUTED",
)
_LIVE_COLUMNS: Final = (*_COLUMNS, "OF LIMIT")
_DISPENSABLE: Final = ("BROKERS", "RULE", "USER", "OF LIMIT", "LIMIT", "MUTED", "THROTTLE-MS")
"""The columns that a narrow terminal omits, in this order."""
_AMOUNTS: Final = ("RATE", "LIMIT", "USED", "THROTTLE-MS", "MUTED")
_BAR_CELLS: Final = 12
_LINES_AROUND: Final = 5
"""The lines around the live table: the first line, the headings, the hint, and two empty ones."""
_HINT: Final = "Rates and limits are of the broker named first, where the client stands worst."


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas watch` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers, "watch", "quotas watch", "quotas watch --once", "quotas watch --json"
    )
    add_interval(parser)
    parser.add_argument("--once", action="store_true", help="look once and end")
    parser.add_argument(
        "--all", action="store_true", help="also idle clients and Milena's own tools"
    )
    parser.add_argument("--json", action="store_true", help="one object per look, one per line")


def run(args: argparse.Namespace) -> int:
    """Show the use of quotas until `q` or Ctrl-C, or once with --once."""
    files = data_dir(args)
    first = read_running(files)
    with contextlib.suppress(KeyboardInterrupt):
        if args.once:
            _print_look(args, first)
        elif args.json or not sys.stdout.isatty():
            _print_looks(args, files, first)
        else:
            _show_live(args, files, first)
    return 0


# -- plain lines -----------------------------------------------------------------------------------


def _print_looks(
    args: argparse.Namespace, files: "DataDir", brokers: Sequence[BrokerStats]
) -> None:
    while True:
        _print_look(args, brokers)
        time.sleep(args.interval)
        brokers = read_brokers(files)


def _print_look(args: argparse.Namespace, brokers: Sequence[BrokerStats]) -> None:
    found = _look(brokers, everyone=args.all)
    if args.json:
        print(json_text(_to_json(found, brokers)), flush=True)
        return
    columns, rows = _without_needless_users(found, _COLUMNS, _rows(found.shown, _cells))
    lines = [f"{time.strftime('%H:%M:%S')}  {broker_states(brokers)}"]
    if rows:
        lines.append(table_text(columns, rows, right=_AMOUNTS))
    else:
        lines.append("No client is active.")
    if found.left_out:
        lines.append(f"{found.left_out} (--all)")
    print("\n".join(lines), end="\n\n", flush=True)


def _to_json(found: "_Look", brokers: Sequence[BrokerStats]) -> dict[str, Any]:
    return {
        "ts": time.time_ns() // 1_000_000,
        "brokers": [
            {"broker": broker.broker, "state": broker.state, "age_ms": broker.age_ms}
            for broker in brokers
        ],
        "clients": [
            {
                "user": client.user,
                "client_id": client.client_id,
                "quota": quota,
                "hidden": client.hidden,
                **_without(group[0].to_json(), "state", "age_ms"),
                "brokers": [state.to_json() for state in group],
            }
            for client in found.shown
            for quota, group in client.quotas.items()
        ],
    }


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


# -- live table ------------------------------------------------------------------------------------


def _show_live(args: argparse.Namespace, files: "DataDir", brokers: Sequence[BrokerStats]) -> None:
    from rich.live import Live

    first = _screen(args, brokers, console().size)
    with (
        single_keys(),
        Live(first, console=console(), screen=True, auto_refresh=False) as live,
    ):
        due = time.monotonic() + args.interval
        while not {"q", "Q"}.intersection(pressed_keys(due - time.monotonic())):
            if time.monotonic() < due:
                continue
            due = time.monotonic() + args.interval
            # The size is read each time, since a window may change it.
            live.update(_screen(args, read_brokers(files), live.console.size), refresh=True)


def _screen(
    args: argparse.Namespace, brokers: Sequence[BrokerStats], size: "ConsoleDimensions"
) -> "RenderableType":
    """The lines that fit the terminal; no line is broken."""
    from rich.console import Group

    found = _look(brokers, everyone=args.all)
    columns, rows = _without_needless_users(found, _LIVE_COLUMNS, _rows(found.shown, _live_cells))
    room = max(1, size.height - _LINES_AROUND - bool(found.left_out))
    shown = rows if len(rows) <= room else rows[: max(1, room - 1)]
    more = len(rows) - len(shown)
    is_fine = all(broker.state == ALIVE for broker in brokers)
    now = time.strftime("%H:%M:%S")
    return Group(
        cut_line(f"Quotas  {now}  {brokers_alive(brokers)}", "bold" if is_fine else "bold yellow"),
        cut_line(""),
        fitted_table(
            columns,
            shown,
            size.width,
            right=_AMOUNTS,
            shrinking="CLIENT-ID",
            dispensable=[each for each in _DISPENSABLE if each in columns],
        )
        if rows
        else cut_line("No client is active."),
        *([cut_line(f"... and {more:,} more: quotas watch --once", "dim")] if more else []),
        *([cut_line(f"{found.left_out}: quotas watch --all", "dim")] if found.left_out else []),
        cut_line(""),
        cut_line(f"q: quit. {_HINT}", "dim"),
    )


def _live_cells(group: Sequence[ClientState]) -> "list[Text]":
    worst = group[0]
    style = "dim" if worst.source.is_dead else _color(worst)
    return [styled(cell, style) for cell in (*_cells(group), _bar(worst.row.utilization))]


def _color(state: ClientState) -> str:
    utilization = state.row.utilization
    if state.muted_left_ms or (utilization is not None and utilization >= 1):
        return "red"
    if utilization is not None and utilization >= NEAR_FROM:
        return "yellow"
    return "" if utilization is None else "green"


def _bar(utilization: float | None) -> str:
    if utilization is None:
        return " " * _BAR_CELLS
    filled = round(min(1.0, max(0.0, utilization)) * _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


# -- what both show --------------------------------------------------------------------------------


class _Look(NamedTuple):
    """One look at all brokers."""

    shown: list[ListedClient]
    left_out: str
    """How many clients are hidden, and why."""
    has_users: bool


def _look(brokers: Sequence[BrokerStats], *, everyone: bool) -> _Look:
    now_ms = MonotonicMs(time.monotonic_ns() // 1_000_000)
    listed = listed_clients(client_states(brokers), now_ms)
    shown = listed if everyone else [each for each in listed if each.hidden is None]
    left_out = "" if everyone else hidden_words(each.hidden for each in listed)
    return _Look(shown, left_out, has_users(each.user for each in listed))


def _rows(
    clients: Sequence[ListedClient],
    cells: "Callable[[Sequence[ClientState]], Sequence[_Cell]]",
) -> "list[list[_Cell]]":
    """A line per client and quota; the first of a client names it, the others are beneath."""
    rows = []
    for client in clients:
        # A client that uses nothing has one line all the same.
        groups = client.shown_quotas or dict(list(client.quotas.items())[:1])
        for at, group in enumerate(groups.values()):
            row: list[_Cell] = list(cells(group))
            rows.append(["", "", *row[2:]] if at else row)
    return rows


def _without_needless_users(
    found: _Look, columns: Sequence[str], rows: "list[list[_Cell]]"
) -> "tuple[Sequence[str], list[list[_Cell]]]":
    """The table without the column of users, which comes first, if nobody has logged in."""
    if found.has_users:
        return columns, rows
    return columns[1:], [row[1:] for row in rows]


def _cells(group: Sequence[ClientState]) -> tuple[str, ...]:
    worst = group[0]
    row = worst.row
    muted_left_ms = max(state.muted_left_ms for state in group)
    return (
        one_line(row.user),
        one_line(row.client_id),
        row.quota,
        row.rule or "",
        " ".join(_label(state.source) for state in group),
        rate(row.quota, row.rate),
        "none" if row.limit is None else rate(row.quota, row.limit),
        "" if row.utilization is None else percent(row.utilization * 100),
        f"{row.delay_ms:,}" if row.delay_ms else "",
        duration(muted_left_ms) if muted_left_ms else "",
    )


def _label(broker: BrokerStats) -> str:
    return str(broker.broker) if broker.state == ALIVE else f"{broker.broker}({broker.state})"
