"""The traffic of each topic, the size of its logs, and the trends of both. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from cluster.analytics.capacity.history import (
    GONE_S,
    HourTotal,
    WindowHistory,
    a_day,
    last_day,
    traffic,
)
from cluster.analytics.capacity.trends import (
    DAY_S,
    HOUR_S,
    Trend,
    trend_of_levels,
    trend_of_rates,
)
from cluster.analytics.windows.kinds import TOPIC


@dataclass(frozen=True, slots=True)
class TopicNow:
    """One topic in the last 24 hours of the history."""

    topic: str
    bytes_in_per_day: float
    bytes_out_per_day: float
    messages_per_day: float
    sizes: dict[int, float]
    """Bytes of its logs by broker, for brokers that reported at the end of the history."""

    @property
    def size(self) -> float:
        """Bytes of all replicas."""
        return sum(self.sizes.values())


@dataclass(frozen=True, slots=True)
class TopicGrowth:
    """One topic, at all brokers together."""

    topic: str
    bytes_in_per_day: float
    bytes_out_per_day: float
    messages_per_day: float
    size: float
    """Bytes of all its replicas, as last reported."""
    trend: Trend
    """The trend of the bytes that clients produce."""
    size_trend: Trend


@dataclass(frozen=True, slots=True)
class LargestTopics:
    """The topics with the most bytes in a day, or in their logs."""

    rows: list[TopicGrowth]
    left_out: int
    how: str


def topics(history: WindowHistory, most: int) -> LargestTopics:
    """The topics with the most bytes in the last 24 hours, and of equal ones the largest."""
    found = topics_now(history)
    shown = found[:most]
    names = [each.topic for each in shown]
    trends = _trends(history, names, traffic(history).hours)
    size_trends = topic_size_trends(history, names)
    rows = [
        TopicGrowth(
            topic=each.topic,
            bytes_in_per_day=each.bytes_in_per_day,
            bytes_out_per_day=each.bytes_out_per_day,
            messages_per_day=each.messages_per_day,
            size=each.size,
            trend=trends[each.topic],
            size_trend=size_trends[each.topic],
        )
        for each in shown
    ]
    return LargestTopics(
        rows,
        len(found) - len(rows),
        "from windows of topics in the last 24 hours: bytes and messages as for all topics; an hour"
        " without a window of the topic counts as 0. Size: of all replicas, the last value of each"
        " broker; its trend over the sums of those of each hour",
    )


def topics_now(history: WindowHistory) -> list[TopicNow]:
    """All topics of the last 24 hours, in the same order."""
    now = last_day(traffic(history).hours)
    if not now:
        return []
    covered_s = sum(hour.covered_s for hour in now)
    names = ("bytes_in_exact", "bytes_out_exact", "messages_in_exact")
    sizes: dict[str, dict[int, float]] = defaultdict(dict)
    since_s = history.end_s - GONE_S - HOUR_S + 1
    for row in history.rows(TOPIC, "topic", "broker", "log_size_last", since_s=since_s):
        sizes[row["topic"]][row["broker"]] = float(row["log_size_last"] or 0)
    found = [
        TopicNow(
            topic=row["topic"],
            bytes_in_per_day=a_day(row["bytes_in_exact"], covered_s),
            bytes_out_per_day=a_day(row["bytes_out_exact"], covered_s),
            messages_per_day=a_day(row["messages_in_exact"], covered_s),
            sizes=sizes[row["topic"]],
        )
        for row in history.sums(TOPIC, ["topic"], *names, since_s=now[0].start_s)
    ]
    return sorted(found, key=lambda each: (-each.bytes_in_per_day, -each.size, each.topic))


def topic_size_trends(history: WindowHistory, names: Sequence[str]) -> dict[str, Trend]:
    """The growth of these topics' logs, all replicas of each together."""
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in history.sums(TOPIC, ["topic", "start_s"], "log_size_last", topic=names):
        points[row["topic"]].append(((row["start_s"] + HOUR_S) / DAY_S, row["log_size_last"]))
    return {name: trend_of_levels(points[name]) for name in names}


def _trends(
    history: WindowHistory, names: Sequence[str], hours: Sequence[HourTotal]
) -> dict[str, Trend]:
    """The trends of incoming bytes, each from the first hour in which the topic existed."""
    totals: dict[str, dict[int, float]] = defaultdict(dict)
    for row in history.sums(TOPIC, ["topic", "start_s"], "bytes_in_exact", topic=names):
        totals[row["topic"]][row["start_s"]] = row["bytes_in_exact"]
    made = {}
    for name in names:
        first_s = min(totals[name])
        made[name] = trend_of_rates(
            [
                (hour.start_s, hour.covered_s, totals[name].get(hour.start_s, 0.0))
                for hour in hours
                if hour.start_s >= first_s
            ]
        )
    return made
