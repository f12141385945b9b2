"""`quotas recommend`: the limits that fit the clients' usage, from the rollup's history."""

import argparse
import shlex
from typing import TYPE_CHECKING, Any, Final

from cluster.model.finite_json import json_text
from cluster.model.kept_names import is_kept_whole, spellings
from cluster.model.printable import one_line
from cluster.model.quotas import DEFAULT, QuotaKind
from cluster.runtime.installation import launcher
from cluster.runtime.text_table import table_text
from cluster.runtime.whole_numbers import at_least_one
from cluster.tools.arguments import UsageError, data_dir
from cluster.tools.extra_packages import need_extra
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.tools.rollup import EXTRA, need_java, phase
from cluster.tools.rollup_windows import (
    add_period,
    add_place,
    no_windows,
    open_windows,
    possible_period,
    readable_windows,
    windows_place,
)
from cluster.views.amounts import AMOUNTS
from cluster.views.quantities import clock, duration, percent, rate
from cluster.views.supposed_limits import Supposed, supposed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.analytics.reports.recommendations import Demand, Findings
    from cluster.model.quotas import QuotaEntity
    from cluster.tools.arguments import Subparsers

_LEVELS: Final = ("client", "default-client", "user", "default-user")
"""The levels that are shown by default; users only if one has logged in."""
_MORE_LEVELS: Final = ("user+client", "default-user+default-client")
_ANONYMOUS: Final = "ANONYMOUS"
_HEADROOM: Final = 5.0
_TOP: Final = 30
_NAMES_MAX: Final = 10
_HEADINGS: Final = ("RULE", "FOR", "QUOTA", "HIGHEST", "P95", "LIMIT NOW", "THROTTLED")
_COMMANDS_MAX: Final = 10
_LITTLE: Final = {
    QuotaKind.PRODUCE: 100 * 1024.0,
    QuotaKind.FETCH: 100 * 1024.0,
    QuotaKind.REQUEST: 5.0,
    QuotaKind.MUTATION: 1.0,
}
"""A highest rate below this needs no limit."""
_IF_HEADINGS: Final = ("RULE", "FOR", "WINDOWS OVER", "SHARE", "SECONDS OVER", "HIGHEST")


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas recommend` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "recommend",
        "quotas recommend",
        "quotas recommend --headroom 20 --client-id loader-1",
        "quotas recommend --if producer_byte_rate=2MiB --level default-client",
    )
    add_place(parser)
    add_period(parser)
    parser.add_argument(
        "--headroom",
        type=_headroom,
        default=_HEADROOM,
        metavar="PERCENT",
        help="what the highest rate leaves free of a limit (default: 5)",
    )
    parser.add_argument(
        "--if",
        dest="suppositions",
        type=supposed,
        action="append",
        default=[],
        metavar="KEY=AMOUNT",
        help="show which clients this limit would have throttled, and how often; may be repeated",
    )
    parser.add_argument(
        "--level",
        action="append",
        choices=(*_LEVELS, *_MORE_LEVELS),
        metavar="LEVEL",
        help=f"only limits of this rule: {', '.join((*_LEVELS, *_MORE_LEVELS))}; may be repeated"
        " (default: of clients, and of users)",
    )
    parser.add_argument("--client-id", action="append", metavar="C", help="only this client id")
    parser.add_argument("--user", action="append", metavar="U", help="only this user")
    parser.add_argument(
        "--top", type=at_least_one, metavar="N", help=f"rows shown at most (default: {_TOP})"
    )
    parser.add_argument(
        "--all",
        "--all-clients",
        dest="all_clients",
        action="store_true",
        help="also limits for clients with little load, and for Milena's own tools and page",
    )
    parser.add_argument("--json", action="store_true", help="one object with all rows")
    parser.epilog = f"{parser.epilog}\n\n{AMOUNTS}"


def run(args: argparse.Namespace) -> int:
    """Ask Spark, and print the limits that would fit. Returns the exit status."""
    if args.json and args.top is not None:
        raise UsageError("--top is for the table: --json has all rows")
    windows_place(args)
    limits = _limits(args.suppositions)
    need_extra(EXTRA, "pyspark", "pyarrow")
    need_java()

    from cluster.analytics.reports.recommendations import Question, look_back
    from cluster.analytics.rollup.spark_session import LOCAL_MASTER
    from cluster.analytics.windows.kinds import QUOTA

    with_own = args.all_clients or bool(args.client_id)
    with readable_windows(args):
        first, end = possible_period(args, QUOTA)
    question = Question(open_windows(args), first, end, args.level or _LEVELS, limits, with_own)
    found = look_back(question, LOCAL_MASTER, data_dir(args).log("rollup"), phase)
    if found is None:
        raise no_windows(args, QUOTA)
    demands = _wanted(args, found.demands)
    if args.json:
        print(json_text(_as_json(args, found, demands), indent=2))
    else:
        print("\n".join(_text(args, found, demands)))
    return 0


def _limits(suppositions: "Sequence[Supposed]") -> dict[str, float]:
    limits = {what.kind.value: what.limit for what in suppositions}
    if len(limits) < len(suppositions):
        raise UsageError("--if: give one limit for each key")
    return limits


def _wanted(args: argparse.Namespace, demands: "Sequence[Demand]") -> "list[Demand]":
    """The levels that the options name; those of users only if there are users, or by name."""
    client_ids, named_users = (
        {spelling for name in names or () for spelling in spellings(name)}
        for names in (args.client_id, args.user)
    )
    found = [
        each
        for each in demands
        if (not client_ids or each.client_id in client_ids)
        and (not named_users or each.user in named_users)
    ]
    users = {each.user for each in found if each.level == "user"}
    if args.level or args.user or users - {_ANONYMOUS, None}:
        return found
    return [each for each in found if "user" not in each.level]


def _command(args: argparse.Namespace, demand: "Demand") -> str | None:
    """The command that sets the fitting limit.

    None for a client without a name, which can have none, for one whose name is too long for the
    records, and for one that cannot be typed.
    """
    entity = demand.entity
    if entity is None or not all(
        is_kept_whole(name) and name == one_line(name, None)
        for name in (entity.user, entity.client_id)
        if isinstance(name, str)
    ):
        return None
    option = f"--{demand.key.replace('_', '-')}"
    limit = demand.limit(args.headroom / 100)
    words = shlex.join(["quotas", "set", *_options(entity), option, f"{limit:.12g}"])
    return f"{launcher(data_dir(args).path)} {words}"


def _options(entity: "QuotaEntity") -> "Iterator[str]":
    for name, value in (("user", entity.user), ("client-id", entity.client_id)):
        if value is DEFAULT:
            yield f"--{name.removesuffix('-id')}-default"
        elif isinstance(value, str):
            yield f"--{name}={value}"


def _as_json(
    args: argparse.Namespace, found: "Findings", demands: "Sequence[Demand]"
) -> dict[str, Any]:
    limits = _limits(args.suppositions)
    return {
        "first_window": found.first.isoformat(),
        "last_window": found.last.isoformat(),
        "headroom_percent": args.headroom,
        "own_clients_left_out": found.own_clients,
        "recommendations": [_demand_as_json(args, each, limits) for each in demands],
    }


def _demand_as_json(
    args: argparse.Namespace, demand: "Demand", limits: dict[str, float]
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "level": demand.level,
        "user": demand.user,
        "client_id": demand.client_id,
        "names": demand.names,
        "quota": demand.quota,
        "key": demand.key,
        "rate_max": demand.rate_max,
        "rate_p95": demand.rate_p95,
        "windows": demand.windows,
        "seconds": demand.seconds,
        "rule_now": demand.rule,
        "limit_now": demand.limit_now,
        "windows_throttled": demand.windows_throttled,
        "throttle_ms_sum": demand.throttle_ms,
        "held_back_now": demand.is_held,
        "limit": demand.limit(args.headroom / 100),
        "command": _command(args, demand),
    }
    if demand.quota in limits:
        made["if"] = {
            "limit": limits[demand.quota],
            "windows_over": demand.windows_over,
            "windows_over_share": demand.windows_over / demand.windows,
            "seconds_over": demand.seconds_over,
            "names_over": list(demand.names_over),
        }
    return made


def _text(
    args: argparse.Namespace, found: "Findings", demands: "Sequence[Demand]"
) -> "Iterator[str]":
    first, last = (clock(time.timestamp(), with_day=True) for time in (found.first, found.last))
    yield (
        f"Windows of 10 s that began from {first} to {last} UTC in {windows_place(args)};"
        " rates and limits are per broker"
    )
    if not demands:
        yield from _left_out(found, 0)
        yield "\nNone of the named clients was active then."
        return
    is_chosen = args.all_clients or args.client_id or args.user
    busy = [each for each in demands if is_chosen or not _has_little_load(each)]
    yield from _left_out(found, len(demands) - len(busy))
    for what in args.suppositions:
        yield from _supposition(what, [each for each in demands if each.quota == what.kind], args)
    yield ""
    if busy:
        yield from _recommendations(args, busy)
    else:
        yield "No client had a load that needs a limit."


def _has_little_load(demand: "Demand") -> bool:
    """Whether a limit for it would be pointless: a low rate, which nothing limits now."""
    return (
        demand.rate_max < _LITTLE[QuotaKind(demand.quota)]
        and demand.limit_now is None
        and not demand.windows_throttled
        and not demand.windows_over
    )


def _left_out(found: "Findings", little: int) -> "Iterator[str]":
    parts = []
    if little:
        floors = ", ".join(dict.fromkeys(rate(kind, floor) for kind, floor in _LITTLE.items()))
        parts.append(f"{little:,} with little load (below {floors})")
    if found.own_clients:
        clients = "client" if found.own_clients == 1 else "clients"
        parts.append(f"those of {found.own_clients:,} of Milena's own {clients}")
    if parts:
        yield f"Left out: {' and '.join(parts)}; --all shows them"


def _supposition(
    what: Supposed, demands: "Sequence[Demand]", args: argparse.Namespace
) -> "Iterator[str]":
    yield f"\nIf {what.key} had been {rate(what.kind, what.limit)}:"
    top = args.top or _TOP
    over = [each for each in demands if each.windows_over]
    if not over:
        yield "  no client would have been throttled"
        return
    rows = [
        (
            each.level,
            each.name,
            f"{each.windows_over:,} of {each.windows:,}",
            percent(100 * each.windows_over / each.windows),
            f"{each.seconds_over:,}",
            rate(each.quota, each.rate_max),
        )
        for each in over[:top]
    ]
    yield table_text(_IF_HEADINGS, rows, right=_IF_HEADINGS[2:], indent="  ")
    yield from _rest(over, top)
    for each in over:
        if each.is_default:
            named = list(each.names_over[:_NAMES_MAX])
            more = len(each.names_over) - len(named)
            listed = ", ".join([*named, *([f"{more:,} more"] if more else [])])
            yield f"  {each.level}: {len(each.names_over):,} of {each.names:,}: {listed}"


def _recommendations(args: argparse.Namespace, demands: "Sequence[Demand]") -> "Iterator[str]":
    top = args.top or _TOP
    shown_first = demands[:top]
    last = f"LIMIT, {args.headroom:g} % FREE"
    rows = [
        (
            each.level,
            each.name,
            each.quota,
            rate(each.quota, each.rate_max),
            rate(each.quota, each.rate_p95),
            "-" if each.is_default else rate(each.quota, each.limit_now),
            _throttled(each),
            rate(each.quota, each.limit(args.headroom / 100)) + (" *" if each.is_held else "  "),
        )
        for each in shown_first
    ]
    headings = (*_HEADINGS, f"{last}  ")
    yield table_text(headings, rows, right=headings[3:])
    yield from _rest(demands, top)
    if any(each.is_held for each in shown_first):
        yield "* held back by a limit now: more may be wanted than was measured"
    commands = [command for each in shown_first if (command := _command(args, each)) is not None]
    if commands:
        yield "\nTo set one of these limits:"
        yield from (f"  {command}" for command in commands[:_COMMANDS_MAX])
        if len(commands) > _COMMANDS_MAX:
            yield f"  {len(commands) - _COMMANDS_MAX:,} more: --json"


def _throttled(demand: "Demand") -> str:
    if not demand.windows_throttled:
        return "-"
    share = percent(100 * demand.windows_throttled / demand.windows)
    return f"{share} of windows, {duration(demand.throttle_ms)}"


def _rest(demands: "Sequence[Demand]", top: int) -> "Iterator[str]":
    if len(demands) > top:
        yield f"  {len(demands) - top:,} more: --top, --json"


def _headroom(text: str) -> float:
    try:
        amount = float(text.removesuffix("%"))
    except ValueError:
        amount = -1.0
    if not 0 <= amount < 100:
        raise argparse.ArgumentTypeError(f"must be a percentage from 0 to below 100, not {text}")
    return amount
