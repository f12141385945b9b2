"""The figures of the report as tables of texts, for the terminal and the page. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.analytics.capacity import words
from cluster.analytics.capacity.disks import Disks
from cluster.analytics.capacity.growth import BusyHours, TrafficGrowth
from cluster.analytics.capacity.headroom import Headroom
from cluster.analytics.capacity.lags import Lags
from cluster.analytics.capacity.latencies import Latencies
from cluster.analytics.capacity.report import CapacityReport, CoveredPeriod, Events
from cluster.analytics.capacity.topics import LargestTopics
from cluster.model.printable import one_line
from cluster.views.quantities import clock

TEXT = "text"
"""The kind of a column that is aligned to the left."""
LONG = "text wide"
"""The same for texts that may be long."""
NUMBER = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One section of the report."""

    title: str
    columns: Sequence[tuple[str, str]]
    """Headings, and kinds: TEXT, LONG or NUMBER."""
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    how: str


def tables(report: CapacityReport, groups: int, events: int) -> list[Table]:
    """All sections that are tables, with at most so many groups and events."""
    known = words.as_in_these(report.period.days)
    scaled = [f"Amounts a day: {known}, taken to 24 hours."] if known else []
    return [
        _growth(report.growth, scaled),
        _topics(report.topics, scaled),
        _disks(report.disks),
        _headroom(report.headroom),
        _latencies(report.latencies),
        _lags(report.lags, groups),
        _events(report.events, events),
    ]


def period_text(period: CoveredPeriod) -> str:
    """The begin, end and length of the period."""
    return (
        f"{clock(period.first_s, with_day=True)} to {clock(period.end_s, with_day=True)} UTC"
        f" ({words.days(period.days)})"
    )


def busiest(hours: BusyHours) -> str:
    """The busiest three hours of the week."""
    if not hours.busiest:
        return "There are no windows of traffic."
    named = ", ".join(
        f"{hours.days[each.weekday]} {each.hour:02}:00 ({words.per_second(each.bytes_per_s)})"
        for each in hours.busiest
    )
    return f"Busiest: {named}"


def _growth(growth: TrafficGrowth, scaled: Sequence[str]) -> Table:
    columns = (("", TEXT), ("a day", NUMBER), ("growth", TEXT), ("in bytes", TEXT))
    if growth.bytes_in_per_day is None:
        return Table("Growth", columns, [], ["There are no windows of traffic."], growth.how)
    rows = [
        (
            *("bytes in", words.size(growth.bytes_in_per_day), words.growth(growth.trend)),
            words.change(growth.trend),
        ),
        ("bytes out", words.size(growth.bytes_out_per_day), "", ""),
        (
            *("messages in", words.count(growth.messages_per_day)),
            *(words.growth(growth.messages_trend), ""),
        ),
    ]
    how = f"{growth.how}. The trend: {growth.trend.how}"
    notes = [f"The trend {growth.trend.how}."] if growth.trend.verdict == "unknown" else []
    return Table("Growth", columns, rows, [*scaled, *notes], how)


def _topics(topics: LargestTopics, scaled: Sequence[str]) -> Table:
    columns = (
        *(("topic", LONG), ("in a day", NUMBER), ("out a day", NUMBER), ("messages", NUMBER)),
        *(("growth", TEXT), ("logs", NUMBER), ("growth of logs", TEXT)),
    )
    rows = [
        (
            one_line(each.topic),
            *(words.size(each.bytes_in_per_day), words.size(each.bytes_out_per_day)),
            *(words.count(each.messages_per_day), words.growth(each.trend)),
            *(words.size(each.size), words.change(each.size_trend)),
        )
        for each in topics.rows
    ]
    notes = [*scaled] if rows else ["There are no windows of topics."]
    if topics.left_out:
        notes.append(f"{topics.left_out:,} more: capacity report --top")
    return Table("Topics", columns, rows, notes, topics.how)


def _disks(disks: Disks) -> Table:
    columns = (
        *(("broker", TEXT), ("logs", NUMBER), ("growth", TEXT), ("disk left", NUMBER)),
        *(("of", NUMBER), ("change", TEXT), ("full", TEXT), ("from", LONG)),
    )
    rows = [
        (
            str(each.broker),
            *(words.size(each.log_size), words.change(each.log_trend)),
            *(words.size(each.disk_usable), words.size(each.disk_total)),
            *(words.change(each.usable_trend), words.disk(each), each.basis),
        )
        for each in disks.brokers
    ]
    notes = [] if rows else ["There are no windows of brokers."]
    notes += [
        f"The first disk to be full is that of broker {each.broker}: {words.disk(each)}."
        for each in disks.brokers
        if each.broker == disks.first_full
    ]
    return Table("Disks", columns, rows, notes, disks.how)


def _headroom(headroom: Headroom) -> Table:
    columns = (
        *(("broker", TEXT), ("idle", NUMBER), ("busiest 10 %", NUMBER), ("most busy", NUMBER)),
        *(("highest window", NUMBER), ("at", TEXT), ("requests/s", NUMBER)),
        *(("connections", NUMBER), ("leaders", NUMBER)),
    )
    rows = [
        (
            f"{each.broker}{' (gone)' if each.is_gone else ''}",
            *(words.share(each.idle_avg), words.share(each.idle_low)),
            *(words.share(each.busy_max), words.per_second(each.bytes_per_s_max)),
            "-" if each.bytes_per_s_max_at is None else _time(each.bytes_per_s_max_at),
            *(words.count(each.requests_per_s), words.count(each.connections_max)),
            words.count(each.leaders_max),
        )
        for each in headroom.brokers
    ]
    notes = [] if rows else ["There are no windows of brokers."]
    notes += [
        f"The bottleneck is broker {each.broker}: in the busiest tenth of its windows it is idle"
        f" for at most {words.share(each.idle_low)}."
        for each in headroom.brokers
        if each.broker == headroom.bottleneck
    ]
    return Table("Headroom of brokers", columns, rows, notes, headroom.how)


def _latencies(latencies: Latencies) -> Table:
    columns = [
        *(("API", TEXT), ("requests", NUMBER), ("p50", NUMBER), ("p95", NUMBER), ("p99", NUMBER)),
    ]
    rows = [
        [one_line(each.api), words.count(each.now.requests), *words.times(each.now)]
        for each in latencies.apis
    ]
    notes = [] if rows else ["There are no windows of response times."]
    if any(each.before is not None for each in latencies.apis):
        columns += [(f"{name} before", NUMBER) for name in ("p50", "p95", "p99")]
        columns += [("p99 now", NUMBER)]
        for row, each in zip(rows, latencies.apis, strict=True):
            row += [*words.times(each.before), words.ratio(each.p99_ratio)]
    elif rows:
        notes.append("The history is too short to compare them with earlier ones.")
    return Table("Response times", columns, rows, notes, latencies.how)


def _lags(lags: Lags, most: int) -> Table:
    columns = (
        *(("group", LONG), ("partitions", NUMBER), ("lag", NUMBER), ("produced/s", NUMBER)),
        *(("consumed/s", NUMBER), ("pace", TEXT), ("caught up", TEXT)),
    )
    rows = [
        (
            *(one_line(each.group), words.count(each.partitions), words.count(each.lag)),
            *(words.count(each.produced_per_s), words.count(each.consumed_per_s)),
            *(each.verdict, words.caught_up(each)),
        )
        for each in lags.groups[:most]
    ]
    notes = [] if rows else ["No group has windows of lag at the end of the history."]
    if len(lags.groups) > most:
        notes.append(f"{len(lags.groups) - most:,} more: capacity report --json")
    return Table("Lag of groups", columns, rows, notes, lags.how)


def _events(events: Events, most: int) -> Table:
    columns = (("time, UTC", TEXT), ("reported by", TEXT), ("event", TEXT), ("details", LONG))
    shown = events.rows[-most:]
    rows = [
        (_time(each.start_s), f"broker {each.broker}", one_line(each.event), each.text)
        for each in shown
    ]
    notes = [] if rows else ["There are no windows of events."]
    before = len(events.rows) - len(shown) + events.left_out
    if before:
        notes.append(f"{before:,} earlier ones are left out.")
    return Table("Events", columns, rows, notes, events.how)


def _time(time_s: int) -> str:
    return clock(time_s, with_day=True)
