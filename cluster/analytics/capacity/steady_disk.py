"""The final size of logs with other traffic, retention or number of brokers. Pure.

Each topic fills up until its retention deletes as much as comes in. Without a supposed retention,
the final size is known only for logs that stay the same; the others continue to grow.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.analytics.capacity.disks import YEAR_DAYS, BrokerDisk, is_held
from cluster.analytics.capacity.history import WindowHistory
from cluster.analytics.capacity.scenario import Scenario, Spread, average
from cluster.analytics.capacity.topics import TopicNow, topic_size_trends
from cluster.analytics.capacity.trends import DAY_S, Trend

HOW: Final = (
    "each topic at each broker: with a supposed retention, bytes in a day (of the last 24 hours)"
    " with the supposed growth, times the replicas, times the retention. Without one, logs that"
    " stay the same grow with the traffic, others continue to grow, if 6 hours are known. Room:"
    " logs now and what is left on the disks. Full: when the sum passes the room, from now on,"
    " with nothing deleted before a topic's steady state; the trend of the traffic is not added"
)


@dataclass(frozen=True, slots=True)
class SteadyDisk:
    """The logs of one broker."""

    broker: int
    is_new: bool
    size_now: float
    """The last reported size, spread over the supposed number of brokers."""
    steady: float | None
    """The final size; None if some topic continues to grow, or is unknown."""
    room: float | None
    """None if the records do not report the size of the disks."""
    growing_topics: list[str]
    unknown_topics: list[str]
    """Topics whose history is too short to tell whether they grow."""
    days_until_full: float | None
    verdict: str
    """`fits`, `full in days`, `full now`, `not within a year` or `unknown`."""


_REST: Final = "(all else)"
"""The part of the logs that windows of topics do not cover."""


class _Part(NamedTuple):
    """A topic at a broker."""

    size: float
    per_day: float | None
    """None if its growth is unknown."""
    steady: float | None

    def times(self, share: float) -> "_Part":
        """The part scaled by a factor."""
        return _Part(
            self.size * share,
            None if self.per_day is None else self.per_day * share,
            None if self.steady is None else self.steady * share,
        )


def steady_disks(
    history: WindowHistory,
    scenario: Scenario,
    spread: Spread,
    disks: Iterable[BrokerDisk],
    topics: Sequence[TopicNow],
) -> list[SteadyDisk]:
    """The disks of the brokers in the scenario."""
    known = {each.broker: each for each in disks if not each.is_gone}
    unbounded = [each.topic for each in topics if scenario.retention_of(each.topic) is None]
    trends = topic_size_trends(history, unbounded)
    parts: dict[int, dict[str, _Part]] = defaultdict(dict)
    for topic in topics:
        whole = _supposed(topic, trends.get(topic.topic), scenario, spread)
        shares = _shares(topic)
        for broker in spread.kept:
            share = shares.get(broker, 0.0) * spread.factor
            if share:
                parts[broker][topic.topic] = whole.times(share)
    rooms: dict[int, float | None] = {}
    for broker in spread.kept:
        disk = known.get(broker)
        if disk is None or disk.log_size is None:
            continue
        rooms[broker] = None if disk.disk_usable is None else disk.log_size + disk.disk_usable
        if topics:
            moved = disk.log_size * spread.factor * spread.copies / spread.copies_now
            rest = max(0.0, moved - sum(part.size for part in parts[broker].values()))
            parts[broker][_REST] = _Part(rest, 0.0, rest)
        else:
            parts[broker][_REST] = _whole_broker(disk, scenario, spread)
    made = [_steady(broker, False, parts[broker], room) for broker, room in rooms.items()]
    if not made:
        return []
    told = [room for room in rooms.values() if room is not None]
    like = _average([parts[broker] for broker in rooms])
    room = average(told) if told else None
    return made + [_steady(broker, True, like, room) for broker in spread.added]


def _shares(topic: TopicNow) -> dict[int, float]:
    """The share of each broker in the topic's logs."""
    whole = topic.size
    return {
        broker: size / whole if whole else 1 / len(topic.sizes)
        for broker, size in topic.sizes.items()
    }


def _supposed(
    topic: TopicNow, size_trend: Trend | None, scenario: Scenario, spread: Spread
) -> _Part:
    """All replicas of a topic together: current size, growth per day, and final size.

    The trend may be missing if a retention is supposed.
    """
    copies = spread.copies / spread.copies_now
    grown = 1 + scenario.growth
    came_in = topic.bytes_in_per_day * spread.copies * grown
    retention_s = scenario.retention_of(topic.topic)
    if retention_s is not None:
        return _Part(topic.size * copies, came_in, came_in * retention_s / DAY_S)
    inflow = topic.bytes_in_per_day * spread.copies_now
    return _unbounded(topic.size * copies, size_trend, inflow, copies, grown)


def _whole_broker(disk: BrokerDisk, scenario: Scenario, spread: Spread) -> _Part:
    """All logs of a broker as if they were one topic's, if there are no windows of topics."""
    moved = spread.factor * spread.copies / spread.copies_now
    grown = 1 + scenario.growth
    size, inflow = (disk.log_size or 0.0) * moved, disk.inflow_per_day or 0.0
    if scenario.retention_s is not None:
        came_in = inflow * moved * grown
        return _Part(size, came_in, came_in * scenario.retention_s / DAY_S)
    return _unbounded(size, disk.log_trend, inflow, moved, grown)


def _unbounded(
    size: float, trend: Trend | None, inflow: float, moved: float, grown: float
) -> _Part:
    """Logs without a supposed retention: bounded by their own, or growing as before."""
    if trend is None or trend.per_day is None:
        return _Part(size, None, None)
    if trend.verdict != "grows" or is_held(trend, inflow):
        return _Part(size, inflow * moved * grown, size * grown)
    return _Part(size, trend.per_day * moved * grown, None)


def _steady(broker: int, is_new: bool, parts: dict[str, _Part], room: float | None) -> SteadyDisk:
    unknown = sorted(topic for topic, part in parts.items() if part.per_day is None)
    growing = sorted(
        topic for topic, part in parts.items() if part.steady is None and topic not in unknown
    )
    now = sum(part.size for part in parts.values())
    days = None
    if room is None or (unknown and now < room):
        verdict = "unknown"
    else:
        days = _days_until(list(parts.values()), room)
        if days is None:
            verdict = "not within a year" if growing else "fits"
        elif days == 0:
            verdict = "full now"
        else:
            verdict = "full in days" if days <= YEAR_DAYS else "not within a year"
    return SteadyDisk(
        broker=broker,
        is_new=is_new,
        size_now=now,
        steady=None if growing or unknown else sum(part.steady or 0.0 for part in parts.values()),
        room=room,
        growing_topics=growing,
        unknown_topics=unknown,
        days_until_full=days if verdict != "not within a year" else None,
        verdict=verdict,
    )


def _days_until(parts: list[_Part], room: float) -> float | None:
    """When the sum of the parts exceeds the room, each growing until it is steady; else None."""
    ends = {
        (part.steady - part.size) / part.per_day
        for part in parts
        if part.steady is not None and part.steady > part.size and part.per_day
    }
    before = 0.0
    for end in [*sorted(ends), math.inf]:
        size = sum(_size_at(part, before) for part in parts)
        if size >= room:
            return before
        rate = sum(
            part.per_day or 0.0
            for part in parts
            if part.steady is None or _size_at(part, before) < part.steady * (1 - 1e-12)
        )
        if rate > 0 and before + (room - size) / rate <= end:
            return before + (room - size) / rate
        before = end
    return None


def _size_at(part: _Part, days: float) -> float:
    if part.steady is not None and part.steady <= part.size:
        return part.steady
    grown = part.size + (part.per_day or 0.0) * days
    return grown if part.steady is None else min(part.steady, grown)


def _average(parts: list[dict[str, _Part]]) -> dict[str, _Part]:
    """The logs of an added broker, which is assumed to be like the others."""
    made = {}
    for topic in {topic for each in parts for topic in each}:
        told = [each[topic] for each in parts if topic in each]
        speeds = [part.per_day for part in told if part.per_day is not None]
        steady = [part.steady for part in told if part.steady is not None]
        made[topic] = _Part(
            sum(part.size for part in told) / len(parts),
            sum(speeds) / len(parts) if len(speeds) == len(told) else None,
            sum(steady) / len(parts) if len(steady) == len(told) else None,
        )
    return made
