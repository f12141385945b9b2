"""`metrics`: the metrics of every broker and the lag of every group, from the stats files.

It sends no request, so it costs brokers nothing and works while one is saturated or dead.
"""

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from cluster.metrics.broker_metrics import BROKER_METRICS
from cluster.metrics.declarations import Metric
from cluster.metrics.kafka_names import REQUEST_METRICS, REQUEST_PARTS, TOPIC_METRICS
from cluster.metrics.stats_reader import Stats
from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.model.units import Unit
from cluster.runtime.text_table import table_text
from cluster.tools.arguments import UsageError, add_command, data_dir
from cluster.views.api_times import api_times, api_times_table
from cluster.views.broker_rates import metric_values, topic_values
from cluster.views.client_states import ALIVE, BrokerStats, read_brokers, read_running
from cluster.views.group_lags import (
    GroupLags,
    group_lags,
    groups_table,
    lags_table,
    states_line,
)

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_GROUPS_SHOWN: Final = 20
_PARTITIONS_SHOWN: Final = 20
_INTERVAL_MIN_S: Final = 0.5
"""Brokers store their counters four times a second."""


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `metrics` and its options to `subparsers`."""
    parser = add_command(
        subparsers,
        "metrics",
        "metrics",
        "metrics --all",
        "metrics --match Groups --totals",
        "metrics --topics",
        "metrics --requests",
        "metrics --describe --match Isr",
        "metrics --group billing",
        "metrics --json",
    )
    parser.add_argument(
        "--match", metavar="TEXT", help="only metrics whose name contains it, in any case"
    )
    parser.add_argument("--all", action="store_true", help="also metrics that are 0 everywhere")
    parser.add_argument(
        "--group", action="append", metavar="G", help="only the lag of this group; may be repeated"
    )
    parser.add_argument(
        "--topics", action="store_true", help="traffic and sizes of topics, the largest first"
    )
    parser.add_argument(
        "--requests",
        action="store_true",
        help="the rate of each API's requests, and how long they take, by part",
    )
    parser.add_argument(
        "--describe",
        action="store_true",
        help="what each metric is: Kafka's name, kind, unit and meaning; needs no cluster",
    )
    parser.add_argument(
        "--totals",
        action="store_true",
        help="counters and times since each broker started, rather than in the last second",
    )
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="over how many seconds rates are measured (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="one object, for scripts")


def run(args: argparse.Namespace) -> int:
    """Print the metrics and the groups. Returns the exit status; raises NotRunning."""
    _check(args)
    if args.describe:
        return _describe(args)
    files = data_dir(args)
    before = brokers = read_running(files)
    if not args.totals and not args.group:
        time.sleep(args.interval)
        brokers = read_brokers(files)
    groups = group_lags(brokers, time.time_ns() // 1_000_000)
    if args.group:
        groups = _chosen(groups, args.group)
        if not args.json:
            _print_groups(groups)
            return 0
    metrics = [each for each in BROKER_METRICS if not args.match or _matches(each, args.match)]
    values = {
        broker.broker: metric_values(
            broker.stats, None if args.totals else _former(before, broker), metrics
        )
        for broker in brokers
    }
    topics = {
        broker.broker: topic_values(broker.stats, None if args.totals else _former(before, broker))
        for broker in brokers
    }
    apis = api_times(
        (each.stats, None if args.totals else former)
        for each in brokers
        if (former := _former(before, each)) is not None or args.totals
    )
    if args.json:
        found = _to_json(brokers, {} if args.group else values, groups, topics)
        print(json.dumps({**found, "requests": [each.to_json() for each in apis]}))
        return 0
    if args.requests:
        print(api_times_table(apis, is_total=args.totals) if apis else "no requests")
        return 0
    if args.topics:
        print(_topics_text(topics.values(), is_total=args.totals))
        return 0
    if not metrics:
        raise UserError(f"no metric has {args.match} in its name")
    shown = metrics if args.all or args.match else _nonzero(metrics, values.values())
    _print_metrics(brokers, shown, values, is_total=args.totals)
    if len(shown) < len(metrics):
        print(f"... and {len(metrics) - len(shown)} metrics that are 0 on every broker: --all")
    if groups and not args.match:
        _print_overview(groups)
    return 0


def _check(args: argparse.Namespace) -> None:
    chosen = [name for name in ("group", "topics", "requests", "describe") if getattr(args, name)]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} show different things: choose one")
    if args.group and (args.match or args.totals):
        raise UsageError("--group shows no other metrics: it goes without --match and --totals")
    if chosen and args.all:
        raise UsageError(f"--all chooses among the metrics, which --{chosen[0]} does not show")
    if chosen and args.match and not args.describe:
        raise UsageError(f"--match chooses among the metrics, which --{chosen[0]} does not show")


def _describe(args: argparse.Namespace) -> int:
    tables = (*BROKER_METRICS, *REQUEST_METRICS, *TOPIC_METRICS)
    rows = [(each.key, each.name, each.kind.name.lower(), each.unit, each.doc) for each in tables]
    rows += [(part.key, part.name, "histogram", part.unit, part.doc) for part in REQUEST_PARTS]
    if args.match:
        text = args.match.lower()
        rows = [row for row in rows if text in row[0].lower() or text in row[1].lower()]
    if not rows:
        raise UserError(f"no metric has {args.match} in its name")
    headings = ("key", "name", "kind", "unit", "meaning")
    if args.json:
        print(json.dumps([dict(zip(headings, row, strict=True)) for row in rows]))
    else:
        print(table_text([heading.upper() for heading in headings], rows))
    return 0


def _matches(metric: Metric, text: str) -> bool:
    return text.lower() in metric.name.lower() or text.lower() in metric.key.lower()


def _chosen(groups: Sequence[GroupLags], names: Sequence[str]) -> list[GroupLags]:
    by_name = {group.fields["group"]: group for group in groups}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise UserError(
            f"no broker has reported group {one_line(missing[0])}: a new group is reported after"
            " milena.metrics.group.interval.ms"
        )
    return [by_name[name] for name in dict.fromkeys(names)]


def _former(before: Sequence[BrokerStats], broker: BrokerStats) -> Stats | None:
    """An earlier reading of the same process."""
    for each in before:
        if each.broker == broker.broker and each.stats.pid == broker.stats.pid:
            return each.stats
    return None


def _to_json(
    brokers: Sequence[BrokerStats],
    values: Mapping[int, Mapping[str, float]],
    groups: Sequence[GroupLags],
    topics: Mapping[int, Mapping[str, Mapping[str, float]]],
) -> dict[str, Any]:
    return {
        "ts": time.time_ns() // 1_000_000,
        "brokers": [
            {
                "broker": broker.broker,
                "state": broker.state,
                "age_ms": broker.age_ms,
                "values": values.get(broker.broker, {}),
                "topics": topics.get(broker.broker, {}),
            }
            for broker in brokers
        ],
        "groups": [group.to_json() for group in groups],
    }


def _nonzero(metrics: Sequence[Metric], values: Collection[Mapping[str, float]]) -> list[Metric]:
    """The metrics that are not 0 on at least one broker."""
    return [metric for metric in metrics if any(each[metric.key] for each in values)]


def _print_metrics(
    brokers: Sequence[BrokerStats],
    metrics: Sequence[Metric],
    values: Mapping[int, Mapping[str, float]],
    *,
    is_total: bool,
) -> None:
    names = [
        f"{broker.broker}" if broker.state == ALIVE else f"{broker.broker}({broker.state})"
        for broker in brokers
    ]
    columns = [f"BROKER {name}" for name in names]
    rows = [
        (
            metric.key,
            metric.unit,
            "gauge" if not metric.is_rate else "total" if is_total else "per second",
            *(_value(metric, values[broker.broker][metric.key]) for broker in brokers),
        )
        for metric in metrics
    ]
    print(table_text(("METRIC", "UNIT", "", *columns), rows, right=columns))


def _topics_text(brokers: Iterable[Mapping[str, Mapping[str, float]]], *, is_total: bool) -> str:
    sums: dict[str, Counter[str]] = {}
    for topics in brokers:
        for topic, values in topics.items():
            sums.setdefault(topic, Counter()).update(values)
    if not sums:
        return "no topics"
    rate = "" if is_total else "/S"
    heads = [f"MESSAGES{rate}", f"BYTES-IN{rate}", f"BYTES-OUT{rate}", "SIZE", "REPLICAS"]
    heads.append("UNDER-REPLICATED")
    keys = ("MessagesInPerSec", "BytesInPerSec", "BytesOutPerSec", "Size", "PartitionCount")
    rows = [
        (one_line(topic), *(_number(values[key]) for key in (*keys, "UnderReplicated")))
        for topic, values in sorted(sums.items(), key=lambda item: (-item[1]["Size"], item[0]))
    ]
    return table_text(("TOPIC", *heads), rows, right=heads)


def _print_overview(groups: Sequence[GroupLags]) -> None:
    print(f"\n{groups_table(groups[:_GROUPS_SHOWN])}")
    _print_rest(len(groups) - _GROUPS_SHOWN, "groups")
    count = sum(len(group.partitions) for group in groups)
    if count:
        print(f"\n{lags_table(groups, _PARTITIONS_SHOWN)}")
        _print_rest(count - _PARTITIONS_SHOWN, "partitions")


def _print_rest(count: int, what: str) -> None:
    if count > 0:
        print(f"... and {count:,} {what} more: --group, --json")


def _print_groups(groups: Sequence[GroupLags]) -> None:
    for number, group in enumerate(groups):
        print(("\n" if number else "") + groups_table([group]))
        seconds = group.fields["interval_ms"] / 1_000
        print(f"In the last {seconds:.1f} s: {states_line(group) or '-'}")
        if group.partitions:
            print(f"\n{lags_table([group])}")


def _value(metric: Metric, value: float) -> str:
    return f"{value:.2f}" if metric.unit is Unit.RATIO else _number(value)


def _number(value: float) -> str:
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text}") from None
    if not _INTERVAL_MIN_S <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"must be {_INTERVAL_MIN_S:g} or more")
    return seconds
