"""`quotas watch`: live use of quotas by client, the highest share of a limit first.

It only reads the brokers' stats files, so it costs brokers nothing and works after their death.
"""

import argparse
import contextlib
import json
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from cluster.model.printable import one_line
from cluster.runtime.text_table import fitted_table, styled, table_text
from cluster.tools.arguments import data_dir
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.tools.terminal import console
from cluster.views.client_states import (
    ALIVE,
    BrokerStats,
    ClientState,
    by_client,
    client_states,
    read_brokers,
    read_running,
)
from cluster.views.quantities import duration, percent, rate

if TYPE_CHECKING:
    from rich.console import ConsoleDimensions, RenderableType
    from rich.text import Text

    from cluster.datadir.paths import DataDir
    from cluster.tools.arguments import Subparsers

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
_NEAR: Final = 0.8
_BAR_CELLS: Final = 12
_INTERVAL_MIN_S: Final = 0.1
_LINES_AROUND: Final = 5
"""The lines around the live table: the first line, the headings, the hint, and two empty ones."""
_HINT: Final = "Rates and limits are of the broker named first, where the client stands worst."


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas watch` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers, "watch", "quotas watch", "quotas watch --once", "quotas watch --json"
    )
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="seconds between two looks (default: 1)",
    )
    parser.add_argument("--once", action="store_true", help="look once and end")
    parser.add_argument("--all", action="store_true", help="also clients that are idle now")
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
    groups = _sorted_groups(brokers, everyone=args.all)
    if args.json:
        print(json.dumps(_to_json(groups, brokers)), flush=True)
        return
    lines = [
        f"{time.strftime('%H:%M:%S')}  {_state_line(brokers)}",
        table_text(_COLUMNS, [_cells(group) for group in groups], right=_AMOUNTS),
    ]
    if not groups:
        lines.append("(no client is active)")
    print("\n".join(lines), end="\n\n", flush=True)


def _to_json(
    groups: Sequence[Sequence[ClientState]], brokers: Sequence[BrokerStats]
) -> dict[str, Any]:
    return {
        "ts": time.time_ns() // 1_000_000,
        "brokers": [
            {"broker": broker.broker, "state": broker.state, "age_ms": broker.age_ms}
            for broker in brokers
        ],
        "clients": [
            {
                "user": group[0].row.user,
                "client_id": group[0].row.client_id,
                "quota": group[0].row.quota,
                **_without(group[0].to_json(), "state", "age_ms"),
                "brokers": [state.to_json() for state in group],
            }
            for group in groups
        ],
    }


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


# -- live table ------------------------------------------------------------------------------------


def _show_live(args: argparse.Namespace, files: "DataDir", brokers: Sequence[BrokerStats]) -> None:
    from rich.live import Live

    first = _screen(args, brokers, console().size)
    with (
        _single_keys(),
        Live(first, console=console(), screen=True, auto_refresh=False) as live,
    ):
        while not _is_quit_pressed(args.interval):
            # The size is read each time, since a window may change it.
            live.update(_screen(args, read_brokers(files), live.console.size), refresh=True)


def _screen(
    args: argparse.Namespace, brokers: Sequence[BrokerStats], size: "ConsoleDimensions"
) -> "RenderableType":
    """The lines that fit the terminal; no line is broken."""
    from rich.console import Group

    groups = _sorted_groups(brokers, everyone=args.all)
    room = max(1, size.height - _LINES_AROUND)
    shown = groups if len(groups) <= room else groups[: max(1, room - 1)]
    more = len(groups) - len(shown)
    is_fine = all(broker.state == ALIVE for broker in brokers)
    now = time.strftime("%H:%M:%S")
    return Group(
        _line(f"Quotas  {now}  {_health(brokers)}", "bold" if is_fine else "bold yellow"),
        _line(""),
        fitted_table(
            _LIVE_COLUMNS,
            [_live_cells(group) for group in shown],
            size.width,
            right=_AMOUNTS,
            shrinking="CLIENT-ID",
            dispensable=_DISPENSABLE,
        )
        if groups
        else _line("No client is active."),
        *([_line(f"... and {more:,} more: quotas watch --once", "dim")] if more else []),
        _line(""),
        _line(f"q: quit. {_HINT}", "dim"),
    )


def _line(text: str, style: str = "") -> "Text":
    line = styled(text, style)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _health(brokers: Sequence[BrokerStats]) -> str:
    """The number of live brokers, and the others."""
    others = [broker for broker in brokers if broker.state != ALIVE]
    alive = f"{len(brokers) - len(others)} of {len(brokers)} brokers alive"
    return f"{alive}; {_state_line(others)}" if others else alive


def _live_cells(group: Sequence[ClientState]) -> "list[Text]":
    worst = group[0]
    style = "dim" if worst.source.is_dead else _color(worst)
    return [styled(cell, style) for cell in (*_cells(group), _bar(worst.row.utilization))]


def _color(state: ClientState) -> str:
    utilization = state.row.utilization
    if state.muted_left_ms or (utilization is not None and utilization >= 1):
        return "red"
    if utilization is not None and utilization >= _NEAR:
        return "yellow"
    return "" if utilization is None else "green"


def _bar(utilization: float | None) -> str:
    if utilization is None:
        return " " * _BAR_CELLS
    filled = round(min(1.0, max(0.0, utilization)) * _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


@contextlib.contextmanager
def _single_keys() -> Iterator[None]:
    """Within the block, the terminal delivers single keys without echo."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _is_quit_pressed(wait_s: float) -> bool:
    """Wait for `wait_s`, or until the key `q`. Returns whether it was pressed."""
    if not sys.stdin.isatty():
        time.sleep(wait_s)
        return False
    deadline = time.monotonic() + wait_s
    while (left_s := deadline - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left_s)[0]:
            key = sys.stdin.read(1)
            if key in ("q", "Q", ""):
                return True
    return False


# -- what both show --------------------------------------------------------------------------------


def _sorted_groups(brokers: Sequence[BrokerStats], *, everyone: bool) -> list[list[ClientState]]:
    found = [s for s in client_states(brokers) if everyone or s.is_active]
    return sorted(by_client(found).values(), key=_fullness, reverse=True)


def _fullness(group: Sequence[ClientState]) -> tuple[bool, float, float]:
    worst = group[0]
    utilization = worst.row.utilization
    return not worst.source.is_dead, -1.0 if utilization is None else utilization, worst.row.rate


def _cells(group: Sequence[ClientState]) -> tuple[str, ...]:
    worst = group[0]
    row = worst.row
    muted_left_ms = max(state.muted_left_ms for state in group)
    return (
        one_line(row.user),
        one_line(row.client_id),
        row.quota,
        row.rule or "-",
        " ".join(_label(state.source) for state in group),
        rate(row.quota, row.rate),
        rate(row.quota, row.limit),
        percent(None if row.utilization is None else row.utilization * 100),
        f"{row.delay_ms:,}" if row.delay_ms else "-",
        duration(muted_left_ms) if muted_left_ms else "-",
    )


def _label(broker: BrokerStats) -> str:
    return str(broker.broker) if broker.state == ALIVE else f"{broker.broker}({broker.state})"


def _state_line(brokers: Sequence[BrokerStats]) -> str:
    shown = [
        f"broker {broker.broker} {broker.state}"
        + ("" if broker.state == ALIVE else f" for {duration(broker.age_ms)}")
        for broker in brokers
    ]
    return ", ".join(shown)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text}") from None
    if not _INTERVAL_MIN_S <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"must be {_INTERVAL_MIN_S:g} or more")
    return seconds
