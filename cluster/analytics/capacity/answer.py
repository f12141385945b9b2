"""The capacity report in one sentence. Pure."""

from cluster.analytics.capacity import words
from cluster.analytics.capacity.disks import BrokerDisk
from cluster.analytics.capacity.report import CapacityReport


def answer(report: CapacityReport) -> str:
    """When a disk is full, how traffic grows, and how many groups fall behind."""
    parts = [_disks(report), _traffic(report)]
    if report.lags.groups:
        parts.append(f"groups that fall behind: {behind(report)}")
    told = "; ".join(parts)
    return f"{told[0].upper()}{told[1:]}."


def first_disk(report: CapacityReport) -> BrokerDisk | None:
    """The disk that is full first, within a year."""
    found = (each for each in report.disks.brokers if each.broker == report.disks.first_full)
    return next(found, None)


def is_unknown(report: CapacityReport) -> bool:
    """Whether a disk may be full earlier than those of which it is known."""
    present = [each for each in report.disks.brokers if not each.is_gone]
    return not present or any(each.verdict == "unknown" for each in present)


def behind(report: CapacityReport) -> str:
    """How many groups fall behind, and of how many: `2 of 4`."""
    verdicts = [each.verdict for each in report.lags.groups]
    unknown = verdicts.count("unknown")
    if unknown == len(verdicts):
        return "not yet known" if verdicts else "no group is known"
    told = f"{verdicts.count('falls behind'):,} of {len(verdicts) - unknown:,}"
    return f"{told}; {unknown:,} more not yet known" if unknown else told


def _disks(report: CapacityReport) -> str:
    first = first_disk(report)
    if first is None:
        if is_unknown(report):
            return "it is not yet known when a disk will be full"
        return "no disk will be full within a year at the present pace"
    when = words.disk(first)
    pace = "" if when == "now" else " at the present pace"
    return f"the disk of broker {first.broker} is full {when}{pace}"


def _traffic(report: CapacityReport) -> str:
    trend = report.growth.trend
    if trend.verdict == "unknown":
        return "the history is too short for a trend of traffic"
    if trend.verdict == "steady":
        return "traffic shows no trend"
    if trend.percent_per_day is None:
        return f"traffic {trend.verdict}"
    return f"traffic {trend.verdict} by {abs(trend.percent_per_day):.1f} % a day"
