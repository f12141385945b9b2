"""The result of a scenario as tables of texts, for the terminal and the page. Pure."""

from collections.abc import Sequence
from typing import Final

from cluster.analytics.capacity import words
from cluster.analytics.capacity.steady_disk import SteadyDisk
from cluster.analytics.capacity.tables import LONG, NUMBER, TEXT, Table
from cluster.analytics.capacity.throttling import Throttled
from cluster.analytics.capacity.trends import DAY_S
from cluster.analytics.capacity.what_if import BrokerLoad, WhatIf
from cluster.model.printable import one_line
from cluster.model.quotas import KEY_OF_KIND, QuotaKind
from cluster.views.quantities import number, percent, rate

_TOPICS_MAX: Final = 5


def what_if_tables(found: WhatIf, clients: int) -> list[Table]:
    """All nonempty sections, with at most so many throttled client ids."""
    made = []
    if found.busy:
        made.append(_processors(found.busy, f"{found.how['brokers']}; {found.how['busy']}"))
        made.append(_network(found.busy, found.how["brokers"]))
    if found.disks:
        made.append(_disks(found.disks, found.how["disks"]))
    if found.scenario.quotas:
        made.append(_throttled(found.throttled, clients, found.how["throttled"]))
    return made


def supposed_text(found: WhatIf) -> str:
    """The changes of the scenario, as text behind "if there had been"."""
    scenario = found.scenario
    parts = []
    if scenario.brokers is not None:
        were = f"{found.brokers_now} broker{'' if found.brokers_now == 1 else 's'}"
        parts.append(f"{found.brokers} instead of {were}")
    if scenario.growth:
        word = "more" if scenario.growth > 0 else "less"
        parts.append(f"{abs(100 * scenario.growth):g} % {word} traffic")
    if scenario.retention_s is not None:
        parts.append(f"a retention of {words.days(scenario.retention_s / DAY_S)}")
    parts += [
        f"a retention of {words.days(each / DAY_S)} for {one_line(topic)}"
        for topic, each in scenario.topic_retention_s.items()
    ]
    parts += [
        f"a {KEY_OF_KIND[QuotaKind(kind)]} of {rate(kind, limit)} for each client id"
        for kind, limit in scenario.quotas.items()
    ]
    return ", ".join(parts) or "no change"


def first_text(found: WhatIf) -> str:
    """The limit that is reached first; empty without figures of brokers."""
    if not found.busy:
        return ""
    first = found.first_limit
    if first is None:
        return "No broker is 100 % busy or has a full disk within a year, as far as can be told."
    return f"What comes first: broker {first.broker}, {first.what}, {_in(first.in_days)}."


def _processors(busy: Sequence[BrokerLoad], how: str) -> Table:
    columns = (
        *(("broker", TEXT), ("busy now", NUMBER), ("busy then", NUMBER), ("high now", NUMBER)),
        *(("high then", NUMBER), ("full windows", NUMBER), ("100 % busy", NUMBER)),
        ("model", LONG),
    )
    rows = [
        (
            _broker(each),
            *("-" if each.is_new else words.share(each.busy_avg_now), words.share(each.busy_avg)),
            *("-" if each.is_new else words.share(each.busy_high_now), words.share(each.busy_high)),
            f"{each.windows_full:,} of {each.windows:,}",
            "-" if each.days_until_busy is None else _in(each.days_until_busy),
            _model(each),
        )
        for each in busy
    ]
    return Table("Processors", columns, rows, [], how)


def _network(busy: Sequence[BrokerLoad], how: str) -> Table:
    columns = (
        *(("broker", TEXT), ("clients now", NUMBER), ("clients then", NUMBER)),
        *(("replication now", NUMBER), ("replication then", NUMBER), ("highest then", NUMBER)),
    )
    rows = [
        (
            _broker(each),
            "-" if each.is_new else words.per_second(each.client_bytes_per_s_now),
            words.per_second(each.client_bytes_per_s),
            "-" if each.is_new else words.per_second(each.replication_bytes_per_s_now),
            words.per_second(each.replication_bytes_per_s),
            words.per_second(each.bytes_per_s_max),
        )
        for each in busy
    ]
    return Table("Network", columns, rows, [], how)


def _model(each: BrokerLoad) -> str:
    model = each.model
    explained = "" if model.r2 is None else f", R2 {model.r2:.2f}"
    if model.kind != "fitted":
        return f"{model.kind}{explained}"
    terms = [f"{100 * model.base:.1f} %"]
    if model.per_mib:
        terms.append(f"{number(100 * model.per_mib)} % per MiB/s")
    if model.per_request:
        terms.append(f"{100 * model.per_request:.3g} % per request/s")
    return f"{' + '.join(terms)}{explained}"


def _disks(disks: Sequence[SteadyDisk], how: str) -> Table:
    columns = (
        *(("broker", TEXT), ("logs now", NUMBER), ("at last", NUMBER), ("room", NUMBER)),
        ("full", TEXT),
    )
    rows = [
        (
            _broker(each),
            *(words.size(each.size_now), _steady(each), words.size(each.room)),
            _full(each),
        )
        for each in disks
    ]
    return Table("Final size of logs", columns, rows, [], how)


def _steady(each: SteadyDisk) -> str:
    if each.steady is not None:
        return words.size(each.steady)
    parts = []
    for topics, word in ((each.growing_topics, "grow on"), (each.unknown_topics, "not yet known")):
        named = [one_line(topic) for topic in topics[:_TOPICS_MAX]]
        more = len(topics) - len(named)
        if named:
            parts.append(f"{', '.join(named)}{f' and {more} more' if more else ''}: {word}")
    return "; ".join(parts)


def _full(each: SteadyDisk) -> str:
    if each.verdict == "full in days" and each.days_until_full is not None:
        return _in(each.days_until_full)
    if each.verdict == "unknown":
        return "size of the disk not known" if each.room is None else "not yet known"
    names = {"full now": "now", "fits": "never: it fits"}
    return names.get(each.verdict, each.verdict)


def _throttled(clients: Sequence[Throttled], most: int, how: str) -> Table:
    columns = (
        *(("client id", LONG), ("quota", TEXT), ("windows over", NUMBER), ("share", NUMBER)),
        *(("seconds over", NUMBER), ("highest", NUMBER)),
    )
    over = [each for each in clients if each.windows_over]
    rows = [
        (
            *(one_line(each.client_id) or "(no client id)", each.quota),
            f"{each.windows_over:,} of {each.windows:,}",
            percent(100 * each.windows_over / each.windows),
            *(f"{each.seconds_over:,} of {each.seconds:,}", rate(each.quota, each.rate_max)),
        )
        for each in over[:most]
    ]
    notes = [] if rows else [f"None of {len(clients):,} would have been throttled."]
    if len(over) > most:
        notes.append(f"{len(over) - most:,} more: capacity what-if --top, --json")
    return Table("Throttled client ids", columns, rows, notes, how)


def _broker(each: BrokerLoad | SteadyDisk) -> str:
    return f"{each.broker}{' (new)' if each.is_new else ''}"


def _in(days: float) -> str:
    return "now" if days == 0 else f"in {words.days(days)}"
