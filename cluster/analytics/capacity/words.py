"""The figures of capacity planning as texts, for the terminal and the page. Pure."""

from cluster.analytics.capacity.disks import BrokerDisk
from cluster.analytics.capacity.lags import GroupPace
from cluster.analytics.capacity.latencies import Times
from cluster.analytics.capacity.trends import DAY_S, Trend
from cluster.views.quantities import duration, number, usage


def size(amount: float | None) -> str:
    """`1.50 MiB`, or `-` for None; negative sizes have a sign."""
    if amount is None:
        return "-"
    return f"-{size(-amount)}" if amount < 0 else usage("produce", amount)


def per_second(amount: float | None) -> str:
    """`1.50 MiB/s`, or `-` for None."""
    return "-" if amount is None else f"{size(amount)}/s"


def count(amount: float | None) -> str:
    """`12,345` or `1.2`, or `-` for None."""
    if amount is None:
        return "-"
    return f"{amount:,.0f}" if amount >= 10 or amount == int(amount) else f"{amount:.1f}"


def share(amount: float | None) -> str:
    """A share from 0 to 1 in percent, or `-` for None."""
    return "-" if amount is None else f"{100 * amount:.1f} %"


def growth(trend: Trend) -> str:
    """The growth of a rate: `+5.0 % a day (4.2 to 6.1)`, or why it is unknown."""
    if trend.verdict == "unknown":
        return "not yet known"
    if trend.percent_per_day is None:
        return f"{trend.verdict}" if trend.verdict != "steady" else "no trend"
    if trend.verdict == "steady":
        return "no trend"
    between = ""
    if trend.percent_low is not None and trend.percent_high is not None:
        between = f" ({trend.percent_low:+.1f} to {trend.percent_high:+.1f})"
    return f"{trend.percent_per_day:+.1f} % a day{between}"


def change(trend: Trend) -> str:
    """The growth of a size: `+1.50 GiB a day`, or why it is unknown."""
    if trend.verdict == "unknown" or trend.per_day is None:
        return "not yet known"
    if trend.verdict == "steady":
        return "no trend"
    return f"{'+' if trend.per_day > 0 else ''}{size(trend.per_day)} a day"


def as_in_these(known_days: float) -> str:
    """`as in these 2 h`: what is known of a day if the history is shorter; else empty."""
    return "" if known_days >= 1 else f"as in these {days(known_days)}"


def disk(each: BrokerDisk) -> str:
    """When the disk is full."""
    if each.verdict == "full in days" and each.days_until_full is not None:
        return f"in {days(each.days_until_full)}"
    if each.verdict == "held by retention":
        return f"retention holds the logs at about {size(each.log_size)}"
    if each.verdict == "unknown":
        return "not yet known" if each.disk_usable is not None else "size of the disk not known"
    return "now" if each.verdict == "full now" else each.verdict


def days(amount: float) -> str:
    """`12.0 days`, `5.5 hours`, `2 min 10 s`."""
    if amount < 1 / 12:
        return duration(1000 * DAY_S * amount)
    if amount < 2:
        return f"{24 * amount:.1f} hours"
    return f"{amount:.1f} days" if amount < 100 else f"{amount:.0f} days"


def times(found: Times | None) -> tuple[str, str, str]:
    """The three percentiles."""
    if found is None or not found.requests:
        return ("-", "-", "-")
    return (_ms(found.p50_ms), _ms(found.p95_ms), _ms(found.p99_ms))


def ratio(amount: float | None) -> str:
    """`x 2.0`, or `-` for None."""
    return "-" if amount is None else f"x {number(amount)}"


def caught_up(pace: GroupPace) -> str:
    """When a group has caught up, at its pace."""
    if pace.caught_up_in_s is not None:
        if pace.caught_up_in_s >= DAY_S:
            return f"in {days(pace.caught_up_in_s / DAY_S)}"
        return f"in {duration(1000 * pace.caught_up_in_s)}"
    if pace.verdict == "unknown":
        return "not yet known"
    return "never at this pace" if pace.is_never else "-"


def _ms(amount: float) -> str:
    return f"{1000 * amount:.0f} us" if amount < 1 else f"{number(amount)} ms"
