"""`groups report`: lag over time and time in each state, from the rollup's windows."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cluster.model.errors import UserError
from cluster.model.finite_json import json_text
from cluster.model.printable import one_line
from cluster.tools import terminal
from cluster.tools.arguments import add_parser_of
from cluster.tools.groups.subcommands import GROUP_COMMANDS
from cluster.tools.rollup_windows import (
    add_window_options,
    chosen_period,
    no_windows,
    readable_windows,
    windows_place,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from cluster.analytics.reports.lag_history import GroupTimes, LagSeries
    from cluster.analytics.reports.usage_history import Span
    from cluster.tools.arguments import Subparsers

_PLOT_COLUMNS: Final = 32
_LAG_COLUMNS: Final = (
    *("GROUP", "TOPIC", "PARTITIONS", "LAG NOW", "LAG MAX"),
    *("PRODUCED/S", "CONSUMED/S", "LAG OVER TIME"),
)
_GROUP_COLUMNS: Final = (
    *("GROUP", "MEMBERS", "LAG NOW", "LAG MAX", "STABLE", "REBALANCING", "EMPTY"),
    "REBALANCING FOR",
)


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `groups report` and its options to `subparsers`."""
    parser = add_parser_of(
        subparsers,
        GROUP_COMMANDS["report"],
        "groups report",
        "groups report --group billing --last 30m",
    )
    add_window_options(parser)
    parser.add_argument(
        "--group",
        action="append",
        metavar="G",
        help="only this group, partition by partition; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="one object, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print the tables. Returns the exit status; raises UserError where there are no windows."""
    windows_place(args)

    import pyarrow as pa

    from cluster.analytics.reports.lag_history import (
        GROUP_COLUMNS,
        LAG_COLUMNS,
        group_times,
        lag_series,
    )
    from cluster.analytics.reports.usage_history import span_of_starts
    from cluster.analytics.windows.kinds import GROUP, LAG

    with readable_windows(args):
        period = chosen_period(args, GROUP)
        if period is None:
            raise no_windows(args, GROUP)
        groups = period.table(GROUP_COLUMNS)
        of_lags = chosen_period(args, LAG, period.width)
        lags = of_lags.table(LAG_COLUMNS) if of_lags else LAG.schema.empty_table()
    groups, lags = (_of_groups(each, args.group) for each in (groups, lags))
    # A group at rest has a record every 20 s, its partitions one a minute: neither tells the end.
    starts = pa.chunked_array([*groups["window_start"].chunks, *lags["window_start"].chunks])
    span = span_of_starts(starts, period.width_s)
    times = group_times(groups, span)
    series = lag_series(lags, span, by_partition=bool(args.group))
    if args.json:
        print(json_text(_to_json(times, series, span), indent=2))
    else:
        _print(times, series, span)
    return 0


def _of_groups(windows: "pa.Table", names: list[str] | None) -> "pa.Table":
    """Raises UserError if there are none."""
    if not names:
        return windows
    import pyarrow as pa
    import pyarrow.compute as pc

    known = sorted(pc.unique(windows["group"]).to_pylist())
    found = windows.filter(pc.is_in(windows["group"], pa.array(names)))
    if known and not found.num_rows and not set(names) & set(known):
        raise UserError(
            f"no windows of group {' or '.join(map(one_line, names))};"
            f" there are {', '.join(map(one_line, known))}"
        )
    return found


def _to_json(
    times: "Sequence[GroupTimes]", series: "Sequence[LagSeries]", span: "Span"
) -> dict[str, object]:
    return {
        "first_s": span.first_s,
        "end_s": span.end_s,
        "width_s": span.width_s,
        "groups": [
            {
                **each.as_json(),
                "lags": [one.as_json() for one in series if one.group == each.group],
            }
            for each in times
        ],
    }


def _print(times: "Sequence[GroupTimes]", series: "Sequence[LagSeries]", span: "Span") -> None:
    from cluster.views.quantities import clock

    print(
        f"{clock(span.first_s, with_day=True)} to {clock(span.end_s, with_day=True)} UTC,"
        f" windows of {span.width_s} s\n"
    )
    terminal.print_table(
        _GROUP_COLUMNS, [_group_row(each) for each in times], right=_GROUP_COLUMNS[1:]
    )
    if series:
        print()
        terminal.print_table(
            _LAG_COLUMNS, [_lag_row(each) for each in series], right=_LAG_COLUMNS[3:-1]
        )


def _group_row(times: "GroupTimes") -> tuple[str, ...]:
    from cluster.views.quantities import duration, percent

    shares = (times.states_ms["stable_ms"], times.rebalancing_ms, times.states_ms["empty_ms"])
    return (
        times.name,
        f"{times.members_max:,}",
        _lag(times.lag_now),
        f"{times.lag_max:,}",
        *(percent(times.share(spent_ms)) for spent_ms in shares),
        duration(times.rebalancing_ms),
    )


def _lag_row(series: "LagSeries") -> tuple[str, ...]:
    from cluster.analytics.reports.terminal_plot import sparkline

    return (
        one_line(series.group) or "(empty id)",
        one_line(series.topic),
        _numbers(sorted(series.partitions)),
        _lag(series.now),
        f"{series.most:,}",
        _rate(series.produced_per_s),
        _rate(series.consumed_per_s),
        sparkline(_condensed(series.lags)),
    )


def _lag(records: int | None) -> str:
    return "-" if records is None else f"{records:,}"


def _numbers(partitions: Sequence[int]) -> str:
    return str(partitions[0]) if len(partitions) == 1 else f"{len(partitions):,} of them"


def _rate(per_s: float | None) -> str:
    from cluster.views.quantities import number

    return "-" if per_s is None else number(per_s)


def _condensed(lags: Sequence[int | None]) -> list[int]:
    """The highest of so many neighbors that all fit into the plot; nothing counts as 0."""
    step = -(-len(lags) // _PLOT_COLUMNS)
    return [
        max(lag or 0 for lag in lags[start : start + step]) for start in range(0, len(lags), step)
    ]
