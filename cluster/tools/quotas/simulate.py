"""`quotas simulate`: when a described or recorded load would be throttled, without any cluster."""

import argparse
import csv
import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cluster.brokers.quotas.sampled_rate import WindowCredit, WindowOptions
from cluster.model.errors import UserError
from cluster.model.quotas import KEY_OF_KIND, QuotaKind
from cluster.runtime.text_table import table_text
from cluster.tools.arguments import UsageError
from cluster.tools.options import at_least_one, not_negative
from cluster.tools.quotas.options import AMOUNTS, byte_rate
from cluster.tools.quotas.simulation import (
    Interval,
    Offer,
    Simulated,
    Step,
    simulate,
    steady_load,
    timeline,
)
from cluster.tools.quotas.subcommands import add_subcommand
from cluster.tools.quotas.what_if import supposed
from cluster.views.quantities import duration, percent, rate, usage

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
        "quotas simulate --rate 5MB --batch 64KiB --quota producer_byte_rate=2MB",
        "quotas simulate load.csv --quota consumer_byte_rate=1MiB --connections 4 --json",
    )
    load = parser.add_argument_group("load")
    load.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="recorded: CSV with the columns t (seconds) and bytes, maybe connection, or lines of"
        " JSON with these fields; - is stdin",
    )
    load.add_argument("--rate", type=byte_rate, metavar="B", help="described: bytes per second")
    load.add_argument(
        "--batch", type=_size, default=16_384, metavar="B", help="bytes per request (16KiB)"
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
        type=supposed,
        metavar="KEY=AMOUNT",
        help="producer_byte_rate, consumer_byte_rate or request_percentage; may be repeated",
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
        help="quota.window.num (11)",
    )
    limits.add_argument(
        "--window-seconds",
        type=at_least_one,
        default=windows.window_ms // 1_000,
        metavar="S",
        help="quota.window.size.seconds (1)",
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
    offers = _offers(args)
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
    if QuotaKind.PRODUCE in limits and QuotaKind.FETCH in limits:
        raise UsageError("a load is produced or fetched: name one of the two byte rates")
    if QuotaKind.REQUEST in limits and not args.request_us:
        raise UsageError("request_percentage needs --request-us, the time that a request takes")
    return Simulated(
        limits,
        WindowOptions(args.window_num, args.window_seconds * 1_000, WindowCredit(args.credit)),
        QuotaKind.FETCH in limits,
        args.request_us,
    )


# -- the load --------------------------------------------------------------------------------------


def _offers(args: argparse.Namespace) -> list[Offer]:
    if (args.file is None) == (args.rate is None):
        raise UsageError("name the load: either a FILE or --rate")
    if args.rate is not None:
        duration_ms = round(args.duration * 1_000)
        load = steady_load(args.rate, args.connections, args.batch, duration_ms)
        offers = list(itertools.islice(load, _STEPS_MAX + 1))
    else:
        offers = recorded(_text(args.file), args.connections)
    if not offers:
        raise UserError("the load has no requests")
    if len(offers) > _STEPS_MAX:
        raise UserError(_TOO_MANY)
    return offers


def recorded(lines: Iterable[str], connections: int) -> list[Offer]:
    """The requests of a file, by time; those that name no connection take turns.

    Raises UserError.
    """
    offers = []
    for number, (line, fields) in enumerate(_records(lines)):
        try:
            at_s, size_bytes = float(fields["t"]), int(fields["bytes"])
            connection = int(fields.get("connection") or number % connections)
        except (KeyError, TypeError, ValueError):
            raise UserError(f"line {line}: t (seconds) and bytes must be numbers") from None
        if not 0 <= at_s < math.inf or size_bytes < 0:
            raise UserError(f"line {line}: t and bytes cannot be negative")
        offers.append(Offer(int(at_s * 1_000), size_bytes, connection))
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
        except ValueError:
            raise UserError(f"line {number}: not an object of JSON") from None
        yield number, fields if isinstance(fields, dict) else {}


def _text(file: str) -> list[str]:
    try:
        return (sys.stdin.read() if file == "-" else Path(file).read_text()).splitlines()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file} is no text: it must be CSV or lines of JSON") from None


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
    kind, waiting = what.kind, 0
    amounts = QuotaKind.FETCH if what.fetches else QuotaKind.PRODUCE
    cells = []
    for row in rows:
        waiting += row.offered_bytes - row.taken_bytes
        cells.append(
            (
                duration(row.begin_ms),
                usage(amounts, row.offered_bytes),
                usage(amounts, row.taken_bytes),
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
        f" {duration(total['delay_ms_max'])}; {usage(amounts, total['bytes'])} taken within"
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
        "bytes": sum(step.size_bytes for step in steps),
        "end_ms": steps[-1].at_ms,
        "planned_ms": max(offer.at_ms for offer in offers),
    }


def _size(text: str) -> int:
    return int(byte_rate(text))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text}") from None
    if not 0.001 <= seconds <= 1e6:
        raise argparse.ArgumentTypeError("must be between 0.001 and 1000000 seconds")
    return seconds
