"""What a supposed size would have done, as text. Pure."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from cluster.analytics.capacity import words
from cluster.analytics.capacity.trends import DAY_S
from cluster.model.printable import one_line
from cluster.model.quotas import KEY_OF_KIND, QuotaKind
from cluster.runtime.text_table import table_text
from cluster.tools.capacity.report_text import period_line
from cluster.views.quantities import number, percent, rate

if TYPE_CHECKING:
    from cluster.analytics.capacity.scenario import Scenario
    from cluster.analytics.capacity.steady_disk import SteadyDisk
    from cluster.analytics.capacity.what_if import Busy, WhatIf

_TOPICS_MAX: Final = 5


def what_if_text(found: "WhatIf", source: str, top: int, *, explain: bool) -> Iterator[str]:
    """The lines of the answer; `explain` adds how each figure was reached."""
    yield period_line(found.period, source)
    yield f"If there had been {_supposed(found)}:"
    if found.busy:
        yield ""
        yield "Processors and network"
        yield from _indented(_busy(found.busy))
        if explain:
            yield f"  How: {found.how['brokers']}; {found.how['busy']}."
    if found.disks:
        yield ""
        yield "Disks, at last"
        yield from _indented(_disks(found.disks))
        if explain:
            yield f"  How: {found.how['disks']}."
    if found.scenario.quotas:
        yield ""
        yield "Throttled client ids"
        yield from _indented(_throttled(found, top))
        if explain:
            yield f"  How: {found.how['throttled']}."
    if found.busy:
        yield ""
        yield _first(found)
    for note in found.notes:
        yield f"Note: {note}."
    if not explain:
        yield "How each figure was reached: --explain"


def _supposed(found: "WhatIf") -> str:
    scenario: Scenario = found.scenario
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


def _busy(busy: Sequence["Busy"]) -> Iterator[str]:
    rows = [
        (
            f"{each.broker}{' (new)' if each.is_new else ''}",
            "-" if each.is_new else f"{words.share(each.busy_avg_now)}",
            words.share(each.busy_avg),
            "-" if each.is_new else f"{words.share(each.busy_high_now)}",
            words.share(each.busy_high),
            f"{each.windows_full:,} of {each.windows:,}",
            *(
                words.per_second(each.client_bytes_per_s),
                words.per_second(each.replication_bytes_per_s),
            ),
            words.per_second(each.bytes_per_s_max),
            "-" if each.days_until_busy is None else _in(each.days_until_busy),
            _model(each),
        )
        for each in busy
    ]
    headings = (
        *("BROKER", "BUSY NOW", "THEN", "HIGH NOW", "HIGH THEN", "FULL WINDOWS"),
        *("CLIENTS", "REPLICATION", "HIGHEST", "100 % BUSY", "MODEL"),
    )
    yield table_text(headings, rows, right=headings[1:9])


def _model(each: "Busy") -> str:
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


def _disks(disks: Sequence["SteadyDisk"]) -> Iterator[str]:
    rows = [
        (
            f"{each.broker}{' (new)' if each.is_new else ''}",
            *(words.size(each.size_now), _steady(each), words.size(each.room)),
            _full(each),
        )
        for each in disks
    ]
    headings = ("BROKER", "LOGS NOW", "AT LAST", "ROOM", "FULL")
    yield table_text(headings, rows, right=headings[1:4])


def _steady(each: "SteadyDisk") -> str:
    if each.steady is not None:
        return words.size(each.steady)
    parts = []
    for topics, word in ((each.growing_topics, "grow on"), (each.unknown_topics, "not yet known")):
        named = [one_line(topic) for topic in topics[:_TOPICS_MAX]]
        more = len(topics) - len(named)
        if named:
            parts.append(f"{', '.join(named)}{f' and {more} more' if more else ''}: {word}")
    return "; ".join(parts)


def _full(each: "SteadyDisk") -> str:
    if each.verdict == "full in days" and each.days_until_full is not None:
        return _in(each.days_until_full)
    if each.verdict == "unknown":
        return "size of the disk not known" if each.room is None else "not yet known"
    names = {"full now": "now", "fits": "never: it fits"}
    return names.get(each.verdict, each.verdict)


def _throttled(found: "WhatIf", top: int) -> Iterator[str]:
    over = [each for each in found.throttled if each.windows_over]
    if not over:
        yield f"None of {len(found.throttled):,} would have been."
        return
    rows = [
        (
            *(one_line(each.client_id) or "(no client id)", each.quota),
            f"{each.windows_over:,} of {each.windows:,}",
            percent(100 * each.windows_over / each.windows),
            *(f"{each.seconds_over:,} of {each.seconds:,}", rate(each.quota, each.rate_max)),
        )
        for each in over[:top]
    ]
    headings = ("CLIENT ID", "QUOTA", "WINDOWS OVER", "SHARE", "SECONDS OVER", "HIGHEST")
    yield table_text(headings, rows, right=headings[2:])
    if len(over) > top:
        yield f"{len(over) - top:,} more: --top, --json"


def _first(found: "WhatIf") -> str:
    first = found.first_limit
    if first is None:
        return "No broker is 100 % busy or has a full disk within a year, as far as can be told."
    return f"What comes first: broker {first.broker}, {first.what}, {_in(first.in_days)}."


def _in(days: float) -> str:
    return "now" if days == 0 else f"in {words.days(days)}"


def _indented(lines: Iterator[str]) -> Iterator[str]:
    for each in lines:
        for line in each.split("\n"):
            yield f"  {line}"
