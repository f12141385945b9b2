"""`top`: clients, topics, groups and brokers live, as `htop` shows processes.

It only reads the brokers' stats files, so it costs brokers nothing and works after their death.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cluster.model.clocks import MonotonicMs
from cluster.model.finite_json import json_text
from cluster.runtime.text_table import fitted_table, styled, table_text
from cluster.tools.arguments import UsageError, add_command, data_dir
from cluster.tools.live_terminal import add_interval, cut_line, pressed_keys, single_keys
from cluster.tools.terminal import console
from cluster.tools.top.group_past import GroupPast
from cluster.tools.top.selection import HINT, VIEWS, Selection, chosen_rows, keys_of, window
from cluster.tools.top.tables import TABLES, Look, Row, Table, summary
from cluster.views.broker_rates import PastReadings
from cluster.views.client_states import ALIVE, BrokerStats, read_brokers, read_running
from cluster.views.explained_lines import wrapped
from cluster.views.group_lags import group_lags

if TYPE_CHECKING:
    from rich.console import ConsoleDimensions, RenderableType

    from cluster.datadir.paths import DataDir
    from cluster.tools.arguments import Subparsers

_RATES_OVER_MS: Final = 2_000
_FIRST_RATES_S: Final = 3.0
"""How long a single look waits for the second reading that rates need."""
_LOOK_S: Final = 0.25
"""How often brokers write, and how soon a new size of the terminal is noticed."""
_NOTE_LINES: Final = 3
_LINES_AROUND: Final = 6 + _NOTE_LINES
"""The lines around the table: two above with an empty one, headings, the rest, the hint."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `top` and its options to `subparsers`."""
    parser = add_command(
        subparsers, "top", "top", "top --view topics --sort in", "top --once --view brokers --json"
    )
    parser.add_argument(
        "--view", choices=VIEWS, default=VIEWS[0], help=f"what to begin with (default: {VIEWS[0]})"
    )
    parser.add_argument("--sort", metavar="COLUMN", help="sort by this column")
    parser.add_argument("--reverse", action="store_true", help="the other way round")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only names with this text")
    parser.add_argument(
        "--all",
        action="store_true",
        help="also idle clients, Milena's own tools, internal topics and empty groups",
    )
    add_interval(parser)
    parser.add_argument("--once", action="store_true", help="look once and end")
    parser.add_argument("--json", action="store_true", help="one object per look, one per line")


def run(args: argparse.Namespace) -> int:
    """Show the table until `q` or Ctrl-C, or once with --once."""
    files = data_dir(args)
    looks = _Looks(files, read_running(files))
    selection = Selection(
        args.view, _sort(args, looks.look), args.reverse, args.filter, everyone=args.all
    )
    with contextlib.suppress(KeyboardInterrupt):
        if args.once:
            looks.wait_for_rates()
            _print(args, looks.look, selection)
        elif args.json or not sys.stdout.isatty():
            looks.wait_for_rates()
            while True:
                _print(args, looks.look, selection)
                time.sleep(args.interval)
                looks.again()
        else:
            _show_live(args.interval, looks, selection)
    return 0


def _sort(args: argparse.Namespace, look: Look) -> str | None:
    """The column that --sort names. Raises UsageError."""
    if args.sort is None:
        return None
    columns = TABLES[args.view](look, everyone=True).columns
    found = next((each for each in columns if each.casefold() == args.sort.casefold()), None)
    if found is None:
        named = ", ".join(each.lower() for each in columns)
        raise UsageError(f"--sort: {args.view} have no column {args.sort}; there are {named}")
    return found


class _Looks:
    """The present look at the brokers, with the earlier readings that rates need."""

    def __init__(self, files: "DataDir", brokers: list[BrokerStats]) -> None:
        self._files = files
        self._past = PastReadings(_RATES_OVER_MS)
        self._groups = GroupPast()
        self.look = self._of(brokers)

    def again(self) -> None:
        """Look again."""
        self.look = self._of(read_brokers(self._files))

    def wait_for_rates(self) -> None:
        """Look until the rates of all living brokers are known, but not for long."""
        deadline = time.monotonic() + _FIRST_RATES_S
        while time.monotonic() < deadline and any(
            broker.state == ALIVE and self.look.formers[broker.broker] is None
            for broker in self.look.brokers
        ):
            time.sleep(_LOOK_S)
            self.again()

    def _of(self, brokers: list[BrokerStats]) -> Look:
        groups = group_lags(brokers, time.time_ns() // 1_000_000)
        return Look(
            brokers,
            {each.broker: self._past.add(each.broker, each.stats) for each in brokers},
            groups,
            self._groups.add(groups),
            MonotonicMs(time.monotonic_ns() // 1_000_000),
        )


# -- plain lines -----------------------------------------------------------------------------------


def _print(args: argparse.Namespace, look: Look, selection: Selection) -> None:
    table = TABLES[selection.view](look, everyone=selection.everyone)
    rows = chosen_rows(table, selection)
    if args.json:
        print(
            json_text(
                {
                    "ts": time.time_ns() // 1_000_000,
                    "view": selection.view,
                    "brokers_alive": sum(each.state == ALIVE for each in look.brokers),
                    selection.view: [row.fields for row in rows],
                }
            ),
            flush=True,
        )
        return
    lines = [f"{time.strftime('%H:%M:%S')}  {summary(look)}"]
    if rows:
        lines.append(table_text(table.columns, [row.cells for row in rows], right=table.amounts))
    else:
        lines.append(_nothing(selection))
    if table.hidden:
        lines.append(f"{table.hidden} (--all)")
    print("\n".join(lines), end="\n" if args.once else "\n\n", flush=True)


def _nothing(selection: Selection) -> str:
    if selection.filter:
        return f"No {selection.view} with '{selection.filter}' in their names."
    return f"There are no {selection.view} to show."


# -- live table ------------------------------------------------------------------------------------


def _show_live(interval_s: float, looks: _Looks, selection: Selection) -> None:
    from rich.live import Live

    screen = _Screen(looks.look, selection)
    with (
        single_keys(),
        Live(
            screen.drawn(console().size), console=console(), screen=True, auto_refresh=False
        ) as live,
    ):
        due = time.monotonic()
        size = live.console.size
        while not screen.selection.is_over:
            typed = pressed_keys(min(_LOOK_S, max(0.0, due - time.monotonic())))
            for key in keys_of(typed):
                screen.press(key)
            is_due = time.monotonic() >= due
            if is_due:
                due = time.monotonic() + interval_s
                if not screen.selection.is_paused:
                    looks.again()
                    screen.look = looks.look
            if typed or is_due or live.console.size != size:
                size = live.console.size
                live.update(screen.drawn(size), refresh=True)


class _Screen:
    """What the terminal shows."""

    def __init__(self, look: Look, selection: Selection) -> None:
        self.look = look
        self.selection = selection

    def press(self, key: str) -> None:
        """Take a key."""
        columns = self._table().columns
        self.selection = self.selection.pressed(key, columns)

    def drawn(self, size: "ConsoleDimensions") -> "RenderableType":
        """The lines that fit the terminal; no line is broken."""
        from rich.console import Group

        table = self._table()
        rows = chosen_rows(table, self.selection)
        at = min(self.selection.at, max(0, len(rows) - 1))
        if at != self.selection.at:
            self.selection = self.selection.selecting(at)
        room = max(1, size.height - _LINES_AROUND)
        first, end = window(len(rows), at, room)
        is_fine = all(broker.state == ALIVE for broker in self.look.brokers)
        return Group(
            cut_line(
                f"{time.strftime('%H:%M:%S')}  {summary(self.look)}",
                "bold" if is_fine else "bold yellow",
            ),
            cut_line(self._views(), "cyan"),
            cut_line(""),
            fitted_table(
                _marked(table, self.selection),
                [
                    [styled(cell, _style(row, is_selected=number == at)) for cell in row.cells]
                    for number, row in enumerate(rows[first:end], first)
                ],
                size.width,
                right=_marked(table, self.selection, table.amounts),
                shrinking=_marked(table, self.selection)[0],
                dispensable=_marked(table, self.selection, table.dispensable),
            )
            if rows
            else cut_line(_nothing(self.selection)),
            cut_line(self._rest(table, len(rows), first, end), "dim"),
            *(cut_line(line) for line in self._note(rows, at, size.width)),
            cut_line(HINT, "dim"),
        )

    def _table(self) -> Table:
        return TABLES[self.selection.view](self.look, everyone=self.selection.everyone)

    def _views(self) -> str:
        chosen = self.selection
        names = [
            f"[{number} {view}]" if view == chosen.view else f" {number} {view} "
            for number, view in enumerate(VIEWS, 1)
        ]
        typed = f"  filter: {chosen.filter}{'_' if chosen.is_typing else ''}"
        shown = typed if chosen.filter or chosen.is_typing else ""
        return " ".join(names) + shown + ("  paused" if chosen.is_paused else "")

    def _rest(self, table: Table, count: int, first: int, end: int) -> str:
        parts = [f"{first + 1} to {end} of {count:,}"] if end - first < count else []
        return ", ".join([*parts, *([f"{table.hidden} (a)"] if table.hidden else [])])

    def _note(self, rows: list[Row], at: int, width: int) -> Iterator[str]:
        note = rows[at].note if rows else ""
        yield from list(wrapped("", note, width=width) if note else [])[:_NOTE_LINES]


def _style(row: Row, *, is_selected: bool) -> str:
    return f"{row.style} reverse".strip() if is_selected else row.style


def _marked(
    table: Table, selection: Selection, columns: tuple[str, ...] | None = None
) -> list[str]:
    """Headings, with an arrow at the one that sorts."""
    arrow = "▲" if (selection.sort in table.amounts) == selection.is_reversed else "▼"
    return [
        f"{each}{arrow}" if each == selection.sort else each
        for each in (table.columns if columns is None else columns)
    ]
