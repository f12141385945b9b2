"""`quotas simulate`: when a described or recorded load would be throttled, without a cluster."""

import argparse
import csv
import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.model.errors import UserError
from cluster.model.quotas import KEY_OF_KIND, QuotaKind
from cluster.quotas.sampled_rate import WindowCredit, WindowOptions
from cluster.runtime.text_table import table_text
from cluster.runtime.whole_numbers import at_least_one, not_negative
from cluster.tools.arguments import UsageError
from cluster.tools.quotas.simulation import (
    COUNTED,
    Interval,
    Offer,
    Simulated,
    Step,
    simulate,
    steady_load,
    timeline,
)
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.views.amounts import AMOUNTS, byte_rate, per_second
from cluster.views.quantities import duration, percent, rate, usage
from cluster.views.supposed_limits import supposed

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_STEPS_MAX: Final = 1_000_000
_TOO_MANY: Final = f"more than {_STEPS_MAX:,} requests: simulate a shorter load or larger requests"
_INTERVALS_MAX: Final = 100_000
_HEADINGS: Final = (
    *("TIME", "OFFERED", "TAKEN", "WAITING", "RATE", "REQUESTS", "THROTTLED"),
    *("LONGEST DELAY", "MUTED"),
)


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `quotas simulate` and its options to `subparsers`."""
    parser = add_subcommand(
        subparsers,
        "simulate",
        "quotas simulate --rate 5MiB --batch 64KiB --quota producer_byte_rate=2MiB",
        "quotas simulate load.csv --quota consumer_byte_rate=1MiB --connections 4 --json",
        "quotas simulate --rate 20 --batch 3 --quota controller_mutation_rate=5",
        "quotas simulate --rate 50 --connections 100 --quota connection_creation_rate=10",
    )
    load = parser.add_argument_group("load")
    load.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="recorded: CSV with the columns t (seconds) and bytes (count, of partitions or"
        " connections), maybe connection, or lines of JSON with these fields; - is stdin",
    )
    load.add_argument(
        "--rate",
        metavar="B",
        help="described: bytes per second; or partitions that are created or deleted, or"
        " connections that are opened, per second",
    )
    load.add_argument(
        "--batch", metavar="B", help="bytes per request (16KiB), or partitions per request (1)"
    )
    load.add_argument(
        "--duration", type=_seconds, default=10.0, metavar="S", help="how many seconds (10)"
    )
    load.add_argument(
        "--connections", type=at_least_one, default=1, metavar="N", help="sent in turn over (1)"
    )
    limits = parser.add_argument_group("limits, of one broker", AMOUNTS)
    limits.add_argument(
        "--quota",
        action="append",
        required=True,
        type=partial(supposed, kinds=tuple(QuotaKind)),
        metavar="KEY=AMOUNT",
        help="producer_byte_rate or consumer_byte_rate, and request_percentage, repeating the"
        " option; or controller_mutation_rate; or connection_creation_rate, of one address, whose"
        " --connections are clients that come again when they are refused",
    )
    limits.add_argument(
        "--request-us",
        type=not_negative,
        default=0,
        metavar="US",
        help="microseconds of the broker's thread per request, for request_percentage (0)",
    )
    windows = WindowOptions()
    limits.add_argument(
        "--window-num",
        type=at_least_one,
        default=windows.window_count,
        metavar="N",
        help="quota.window.num, or controller.quota.window.num (11)",
    )
    limits.add_argument(
        "--window-seconds",
        type=at_least_one,
        default=windows.window_ms // 1_000,
        metavar="S",
        help="quota.window.size.seconds, or controller.quota.window.size.seconds (1)",
    )
    limits.add_argument(
        "--credit",
        choices=[each.value for each in WindowCredit],
        default=windows.credit.value,
        help="milena.quota.window.credit (elapsed)",
    )
    parser.add_argument(
        "--interval", type=_seconds, default=1.0, metavar="S", help="seconds per line (1)"
    )
    parser.add_argument("--json", action="store_true", help="one object, with every throttling")


def run(args: argparse.Namespace) -> int:
    """Print the timeline. Raises UserError for a load that cannot be read."""
    what = _simulated(args)
    offers = _offers(args, what.load)
    steps = list(itertools.islice(simulate(what, offers), _STEPS_MAX + 1))
    interval_ms = max(1, round(args.interval * 1_000))
    if len(steps) > _STEPS_MAX:
        raise UserError(_TOO_MANY)
    if steps and (steps[-1].at_ms + steps[-1].delay_ms) // interval_ms >= _INTERVALS_MAX:
        raise UserError(f"more than {_INTERVALS_MAX:,} lines: choose a longer --interval")
    rows = timeline(offers, steps, interval_ms)
    if args.json:
        print(json.dumps(_to_json(what, offers, steps, rows), indent=2))
    else:
        print("\n".join(_lines(what, offers, steps, rows, interval_ms)))
    return 0


def _simulated(args: argparse.Namespace) -> Simulated:
    limits = {each.kind: each.limit for each in args.quota}
    counted = [kind for kind in limits if kind in COUNTED]
    if counted and len(limits) > 1:
        raise UsageError(f"{KEY_OF_KIND[counted[0]]} limits a load of its own: name it alone")
    if QuotaKind.PRODUCE in limits and QuotaKind.FETCH in limits:
        raise UsageError("a load is produced or fetched: name one of the two byte rates")
    if QuotaKind.REQUEST in limits and not args.request_us:
        raise UsageError("request_percentage needs --request-us, the time that a request takes")
    load = QuotaKind.FETCH if QuotaKind.FETCH in limits else QuotaKind.PRODUCE
    if counted:
        (load,) = counted
    return Simulated(
        limits,
        WindowOptions(args.window_num, args.window_seconds * 1_000, WindowCredit(args.credit)),
        load,
        args.request_us,
    )


# -- the load --------------------------------------------------------------------------------------


def _offers(args: argparse.Namespace, kind: QuotaKind) -> list[Offer]:
    if (args.file is None) == (args.rate is None):
        raise UsageError("name the load: either a FILE or --rate")
    if args.rate is not None:
        duration_ms = round(args.duration * 1_000)
        load = steady_load(*_described(args, kind), duration_ms)
        offers = list(itertools.islice(load, _STEPS_MAX + 1))
    else:
        column = "count" if kind in COUNTED else "bytes"
        offers = recorded(_text(args.file), args.connections, column)
        if kind is QuotaKind.CONNECTION and any(offer.amount != 1 for offer in offers):
            raise UserError("connections come singly: count is 1 in each line")
    if not offers:
        raise UserError("the load has no requests")
    if len(offers) > _STEPS_MAX:
        raise UserError(_TOO_MANY)
    return offers


def _described(args: argparse.Namespace, kind: QuotaKind) -> tuple[float, int, int]:
    """A load with this rate, number of connections, and size of requests."""
    try:
        if kind not in COUNTED:
            batch = 16_384 if args.batch is None else int(byte_rate(args.batch))
            return byte_rate(args.rate), args.connections, batch
        batch = 1 if args.batch is None else at_least_one(args.batch)
        speed = per_second(args.rate)
    except argparse.ArgumentTypeError as problem:
        raise UsageError(f"--rate and --batch: {problem}") from None
    if kind is QuotaKind.CONNECTION and batch != 1:
        raise UsageError("connections come singly: --batch is for requests")
    return speed, args.connections, batch


def recorded(lines: Iterable[str], connections: int, column: str = "bytes") -> list[Offer]:
    """The requests of a file, by time; those without a connection take turns.

    `column` has the amounts. Raises UserError.
    """
    offers = []
    for number, (line, fields) in enumerate(_records(lines)):
        try:
            at_s, amount = float(fields["t"]), int(fields[column])
            connection = int(fields.get("connection") or number % connections)
        except (KeyError, TypeError, ValueError):
            raise UserError(f"line {line}: t (seconds) and {column} must be numbers") from None
        if not 0 <= at_s < math.inf or amount < 0:
            raise UserError(f"line {line}: t and {column} cannot be negative")
        offers.append(Offer(int(at_s * 1_000), amount, connection))
        if len(offers) > _STEPS_MAX:
            raise UserError(_TOO_MANY)
    return sorted(offers, key=lambda each: each.at_ms)


def _records(lines: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line number and fields of each record, from CSV with a heading or lines of JSON."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        return
    if not first[1].lstrip().startswith("{"):
        names = [name.strip() for name in next(csv.reader([first[1]]))]
        for number, line in numbered:
            yield number, dict(zip(names, next(csv.reader([line])), strict=False))
        return
    for number, line in itertools.chain([first], numbered):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"line {number}: not an object of JSON") from None
        yield number, fields if isinstance(fields, dict) else {}


def _text(file: str) -> list[str]:
    try:
        return (sys.stdin.read() if file == "-" else Path(file).read_text()).splitlines()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file} is not text: it must be CSV or lines of JSON") from None


# -- telling ---------------------------------------------------------------------------------------


def _lines(
    what: Simulated,
    offers: Sequence[Offer],
    steps: Sequence[Step],
    rows: Sequence[Interval],
    interval_ms: int,
) -> Iterator[str]:
    connections = len({offer.connection for offer in offers})
    limits = ", ".join(
        f"{KEY_OF_KIND[kind]} {rate(kind, limit)}" for kind, limit in what.limits.items()
    )
    yield f"{limits}; {len(offers):,} requests, connections: {connections}"
    yield ""
    kind, amounts, waiting = what.kind, what.load, 0
    cells = []
    for row in rows:
        waiting += row.offered - row.taken
        cells.append(
            (
                duration(row.begin_ms),
                usage(amounts, row.offered),
                usage(amounts, row.taken),
                usage(amounts, waiting),
                rate(kind, row.rate),
                str(row.requests),
                str(row.throttled),
                duration(row.delay_ms_max),
                percent(100 * row.muted_ms / interval_ms / connections),
            )
        )
    yield table_text(_HEADINGS, cells, right=_HEADINGS)
    yield ""
    total = _summary(offers, steps)
    yield (
        f"{total['requests']:,} requests, {total['throttled']:,} throttled, the longest delay"
        f" {duration(total['delay_ms_max'])}; {usage(amounts, total['taken'])} taken within"
        f" {duration(total['end_ms'])}, where the load alone takes {duration(total['planned_ms'])}"
    )


def _to_json(
    what: Simulated, offers: Sequence[Offer], steps: Sequence[Step], rows: Sequence[Interval]
) -> dict[str, Any]:
    return {
        "limits": {KEY_OF_KIND[kind]: limit for kind, limit in what.limits.items()},
        "intervals": [{name: getattr(row, name) for name in Interval.__slots__} for row in rows],
        "throttlings": [
            {**step._asdict(), "until_ms": step.at_ms + step.delay_ms}
            for step in steps
            if step.delay_ms
        ],
        "sum": _summary(offers, steps),
    }


def _summary(offers: Sequence[Offer], steps: Sequence[Step]) -> dict[str, int]:
    return {
        "requests": len(steps),
        "throttled": sum(1 for step in steps if step.delay_ms),
        "delay_ms_max": max(step.delay_ms for step in steps),
        "taken": sum(step.amount for step in steps),
        "end_ms": steps[-1].at_ms,
        "planned_ms": max(offer.at_ms for offer in offers),
    }


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text}") from None
    if not 0.001 <= seconds <= 1e6:
        raise argparse.ArgumentTypeError("must be between 0.001 and 1000000 seconds")
    return seconds
