"""Metrics of the groups that a broker coordinates: records, the stats file, gauges."""

import json
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.groups.group_lag import FurthestBehind, GroupLag, pieces_of
from cluster.brokers.groups.group_metrics import REST_US_PER_OFFSET, GroupMetrics
from cluster.brokers.groups.lag_changes import (
    UNCHANGED_MS,
    DueGroup,
    GroupChanges,
    LagChanges,
    StateTimes,
)
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.records import GroupFigures, PartitionLag
from cluster.coordinator.groups.views.progress import GroupProgress
from cluster.coordinator.groups.views.queries import ListGroupIds, MeasureProgress
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_reader import read_memory
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.ids import BrokerId

WALL_MS = 1_700_000_000_000


class World:
    """Stands in for the coordinator and the leaders; `tick` runs all slices."""

    def __init__(self, groups_bytes: int = 1 << 16) -> None:
        self.stats = MmapStats.in_memory(rows=0, groups_bytes=groups_bytes)
        self.groups: dict[str, GroupProgress] = {}
        self.ends: dict[str, dict[int, int]] = {}
        self.answers_late = False
        self.waiting: list[Any] = []
        self.sent: list[dict[str, Any]] = []
        self.batches = 0
        self.jobs: list[Any] = []
        everything: Any = self
        self.metrics = GroupMetrics(
            BrokerId(3),
            everything,
            everything,
            BrokerCounters(self.stats, []),
            SimpleNamespace(send=self._send),  # type: ignore[arg-type]
            SimpleNamespace(start=self.jobs.append),  # type: ignore[arg-type]
            MonotonicMs(0),
        )

    def all_loaded(self):
        return iter([self])

    def ask(self, query):
        match query:
            case ListGroupIds():
                return [*self.groups, "removed meanwhile"]
            case MeasureProgress(group):
                return self.groups.get(group)

    def gather(self, wanted, on_done):
        self.wanted = wanted
        yield
        if self.answers_late:
            self.waiting.append(on_done)
        else:
            on_done(self.ends)

    def _send(self, records):
        self.batches += 1
        for record in records:
            self.sent.append(json.loads(record.value))
            assert record.timestamp_ms == self.sent[-1]["ts"]

    def tick(self, now_ms: int, wall_ms: int = WALL_MS) -> list[dict[str, Any]]:
        """The records of one interval."""
        self.sent.clear()
        self.metrics.on_tick(MonotonicMs(now_ms), WallMs(wall_ms))
        while self.jobs:
            for _ in self.jobs.pop(0):
                pass
        return list(self.sent)

    def in_file(self) -> list[dict[str, Any]]:
        return [*map(json.loads, read_memory(memoryview(self.stats.memory)).groups.splitlines())]

    def gauge(self, key: str) -> float:
        return read_memory(memoryview(self.stats.memory)).values[BY_KEY[key].name]


def a_group(name: str = "g", state: str = "Stable", **others: Any) -> GroupProgress:
    fields: dict[str, Any] = {
        "group_type": "classic",
        "protocol_type": "consumer",
        "generation": 4,
        "members": 2,
        "state_times_ms": {state: 1_000},
        "committed": {"orders": {0: 10, 1: 20}},
    }
    return GroupProgress(group_id=name, state=state, **{**fields, **others})


@pytest.mark.slow
def test_passes_are_less_frequent_when_there_are_many_offsets():
    world = World()
    world.groups["g"] = a_group(committed={"orders": dict.fromkeys(range(40_000), 5)})
    due_ms = 5_000 + 40_000 * REST_US_PER_OFFSET // 1_000
    assert world.tick(5_000)
    assert world.tick(due_ms - 1) == []
    world.groups["g"] = world.groups["g"]._replace(generation=5)
    [group] = [each for each in world.tick(due_ms) if each["kind"] == "group"]
    assert (group["partitions"], group["interval_ms"]) == (40_000, due_ms - 5_000)


def test_a_record_of_an_unchanged_time_is_stamped_with_its_end():
    """The stage compares the timestamp of each record with its `ts`."""
    world = World()
    world.groups["g"] = a_group()
    world.tick(5_000, WALL_MS)
    assert world.tick(10_000, WALL_MS + 5_000) == []
    world.groups["g"] = a_group(generation=5)
    records = [each for each in world.tick(15_000, WALL_MS + 10_000) if each["kind"] == "group"]
    assert [each["ts"] - WALL_MS for each in records] == [5_000, 10_000]


def test_a_pass_writes_records_of_a_group_and_its_partitions():
    world = World()
    world.groups["g"] = a_group(committed={"orders": {1: 20, 0: 10}, "audit": {0: 7}})
    world.ends = {"orders": {0: 15, 1: 18}}
    lags = world.tick(5_000)
    assert world.wanted == {"orders": {0, 1}, "audit": {0}}
    head = {"v": 1, "ts": WALL_MS, "interval_ms": 5_000, "broker": 3, "group": "g"}
    group = {
        **head,
        "kind": "group",
        "type": "classic",
        "protocol_type": "consumer",
        "state": "Stable",
        "generation": 4,
        "members": 2,
        "partitions": 3,
        "partitions_unknown": 1,
        "lag": 5,
        "lag_max": 5,
        "state_ms": {"Stable": 1_000},
    }
    row = {**head, "kind": "lag", "topic": "orders"}
    first = {**row, "partition": 0, "log_end": 15, "committed": 10, "lag": 5}
    second = {**row, "partition": 1, "log_end": 18, "committed": 20, "lag": 0}
    # A partition whose leader is unknown has no record, but a line in the file.
    assert lags == [first, second, group]
    unknown = {**row, "topic": "audit", "partition": 0, "log_end": None, "committed": 7}
    assert world.in_file() == [group, {**unknown, "lag": None}, first, second]


def test_unchanged_groups_and_partitions_are_written_less_often():
    world = World()
    world.groups["g"] = a_group(committed={"orders": {0: 10, 1: 20}})
    world.ends = {"orders": {0: 15, 1: 30}}
    written = []
    for now_ms in range(5_000, 130_000, 5_000):
        if now_ms == 20_000:
            world.ends["orders"][1] = 31
        kinds = [(each["kind"], each.get("partition")) for each in world.tick(now_ms)]
        written += [(now_ms // 1_000, kind, partition) for kind, partition in kinds]
        assert len(world.in_file()) == 3
    lags = [(at_s, partition) for at_s, kind, partition in written if kind == "lag"]
    assert lags == [(5, 0), (5, 1), (20, 1), (55, 0), (70, 1), (105, 0), (120, 1)]
    # When its lag changes, a record of the unchanged time and one of the last interval.
    groups = [at_s for at_s, kind, _ in written if kind == "group"]
    assert groups == [5, 20, 20, 40, 60, 80, 100, 120]


def test_a_change_after_an_unchanged_time_has_a_record_of_its_own():
    world = World()
    spent = {"Empty": 0}

    def tick(now_ms: int, **others: Any) -> list[tuple[Any, ...]]:
        world.groups["g"] = a_group(state="Empty", state_times_ms=dict(spent), **others)
        found = [each for each in world.tick(now_ms) if each["kind"] == "group"]
        return [(each["members"], each["interval_ms"], each["state_ms"]) for each in found]

    spent["Empty"] = 5_000
    assert tick(5_000, members=0) == [(0, 5_000, {"Empty": 5_000})]
    for now_ms in (10_000, 15_000):
        spent["Empty"] = now_ms
        assert tick(now_ms, members=0) == []
    spent |= {"Empty": 16_000, "Stable": 4_000}
    assert tick(20_000, members=0) == [
        (0, 10_000, {"Empty": 10_000}),
        (0, 5_000, {"Empty": 1_000, "Stable": 4_000}),
    ]
    spent["Empty"] = 21_000
    assert tick(25_000, members=0) == []
    world.groups.clear()
    assert [each["state_ms"] for each in world.tick(30_000)] == [{"Empty": 5_000}]


_LOOKS = st.lists(
    st.dictionaries(
        st.sampled_from(["g", "h"]),
        st.tuples(st.sampled_from(["Empty", "Stable"]), st.integers(0, 1), st.booleans()),
    ),
    max_size=40,
)


@given(_LOOKS)
def test_records_of_a_group_cover_its_time_once_and_date_each_change(looks):
    changes = GroupChanges()
    told: dict[str, list[DueGroup]] = {"g": [], "h": []}
    seen: dict[str, list[tuple[int, int, dict[str, int]]]] = {"g": [], "h": []}
    for number, groups in enumerate([*looks, {}], 1):
        changes.begin(MonotonicMs(5_000 * number), WallMs(5_000 * number), 5_000)
        for group, (state, lag, was_moved) in groups.items():
            times = {"Reconciling": 1_000, state: 4_000} if was_moved else {state: 5_000}
            seen[group].append((5_000 * number, lag, times))
            figures = GroupFigures(group, "classic", "", state, 1, 0, 1, 0, lag, lag, times)
            told[group] += changes.due(figures)
        for due in changes.gone():
            told[due.figures.group].append(due)
    for group, records in told.items():
        spans = [(each.wall_ms - each.interval_ms, each.wall_ms) for each in records]
        assert sum(end - start for start, end in spans) == 5_000 * len(seen[group])
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        for at_ms, lag, _ in seen[group]:
            (of_then,) = [
                each
                for each, (start, end) in zip(records, spans, strict=True)
                if start < at_ms <= end
            ]
            assert of_then.figures.lag == lag
        for state in ("Empty", "Stable", "Reconciling"):
            spent = sum(times.get(state, 0) for _, _, times in seen[group])
            assert sum(each.figures.state_ms.get(state, 0) for each in records) == spent
        assert all(each.interval_ms <= 20_000 for each in records)


def test_an_interval_is_extended_when_a_leader_has_not_answered():
    world = World()
    world.groups["g"] = a_group()
    world.answers_late = True
    assert world.tick(5_000) == []
    assert world.tick(10_000) == []
    (on_done,) = world.waiting
    world.answers_late = False
    on_done({})
    (late,) = world.tick(12_000)  # the record of the first interval
    assert late["interval_ms"] == 5_000
    world.groups["g"] = world.groups["g"]._replace(generation=5)
    (next_one,) = world.tick(15_000)
    assert next_one["interval_ms"] == 10_000


def test_leadership_may_change_between_two_steps():
    world = World()
    world.groups |= {str(number): a_group(str(number)) for number in range(30)}
    led: dict[int, World] = {0: world, 1: World()}
    world.all_loaded = lambda: iter(led.values())  # type: ignore[method-assign]
    world.metrics.on_tick(MonotonicMs(5_000), WallMs(WALL_MS))
    job = world.jobs.pop()
    next(job)
    led[2] = World()
    for _ in job:
        del led[min(led)]
        led[max(led, default=2) + 1] = World()
    while world.jobs:
        for _ in world.jobs.pop(0):
            pass
    assert len([each for each in world.in_file() if each["kind"] == "group"]) == 30


def test_many_records_are_sent_in_several_batches():
    world = World()
    world.groups["g"] = a_group(committed={"t": dict.fromkeys(range(1_000), 0)})
    world.ends = {"t": dict.fromkeys(range(1_000), 1)}
    assert len(world.tick(5_000)) == 1_001
    assert world.batches == 6


def test_groups_are_counted_by_state():
    world = World()
    for number, state in enumerate(["Stable", "Empty", "Empty", "PreparingRebalance"]):
        world.groups[str(number)] = a_group(str(number), state)
    world.groups["new"] = a_group("new", "Stable", group_type="consumer")
    world.tick(5_000)
    assert world.gauge("NumGroups") == 5
    assert world.gauge("NumOffsets") == 10
    states = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead")
    assert [world.gauge(f"NumGroups{state}") for state in states] == [1, 2, 1, 0, 0]
    assert (world.gauge("GroupCountClassic"), world.gauge("GroupCountConsumer")) == (4, 1)
    newer = ("Empty", "Assigning", "Reconciling", "Stable")
    assert [world.gauge(f"ConsumerGroupCount{state}") for state in newer] == [0, 0, 0, 1]


@pytest.mark.parametrize("groups_bytes", [0, 100, 800, 2_000])
def test_the_file_contains_groups_with_the_largest_lag_when_not_all_fit(groups_bytes):
    world = World(groups_bytes=groups_bytes)
    for number in range(6):
        world.groups[f"g{number}"] = a_group(f"g{number}", committed={"t": {number: 0}})
    world.ends = {"t": {number: 10 * number for number in range(6)}}
    assert len(world.tick(5_000)) == 12
    found = world.in_file()
    lags = [each["group"] for each in found if each["kind"] == "group"]
    assert lags == [f"g{number}" for number in reversed(range(6))][: len(lags)]
    assert bool(found) == (groups_bytes == 2_000)
    if groups_bytes:
        told = sum(each["kind"] == "lag" for each in found)
        assert world.gauge("GroupPartitionsWithoutRow") == 6 - told


def test_only_the_file_is_written_when_there_is_no_topic():
    world = World()
    everything: Any = world
    jobs: list[Any] = []
    counters = BrokerCounters(world.stats, [])
    slices: Any = SimpleNamespace(start=jobs.append)
    metrics = GroupMetrics(
        BrokerId(0), everything, everything, counters, None, slices, MonotonicMs(0)
    )
    world.groups["g"] = a_group()
    metrics.on_tick(MonotonicMs(5_000), WallMs(WALL_MS))
    while jobs:
        for _ in jobs.pop(0):
            pass
    assert world.sent == []
    assert len(world.in_file()) == 3


# -- pure parts ------------------------------------------------------------------------------------


def test_times_in_states_are_counted_since_the_last_pass():
    times = StateTimes()

    def look(**spent: int) -> dict[str, int]:
        times.begin()
        return times.since_last(a_group(state_times_ms=spent))

    assert look(Empty=10) == {"Empty": 10}
    assert look(Empty=40, Stable=5) == {"Empty": 30, "Stable": 5}
    assert look(Empty=40, Stable=65) == {"Stable": 60}
    assert look(Empty=3) == {"Empty": 3}  # deleted and created again
    times.begin()
    assert look(Empty=9) == {"Empty": 9}  # missing in the previous pass


def test_a_group_is_forgotten_when_it_is_missing_in_a_pass():
    changes = LagChanges()
    lag = PartitionLag(0, 5, 5)
    for now_ms, is_there, expected in (
        (0, True, True),
        (5, True, False),
        (10, False, None),
        (15, True, True),
        (15 + UNCHANGED_MS - 1, True, False),
        (15 + UNCHANGED_MS, True, True),
    ):
        changes.begin(MonotonicMs(now_ms))
        if is_there:
            assert bool(changes.due("g", "t", [lag])) is expected


@given(
    st.lists(
        st.dictionaries(
            st.tuples(st.sampled_from("ab"), st.sampled_from("tu"), st.integers(0, 12)),
            st.tuples(st.none() | st.integers(0, 1), st.integers(0, 1)),
        ),
        max_size=6,
    ),
    st.integers(1, 4),
)
def test_partitions_are_due_when_they_differ_from_their_last_record(looks, piece):
    changes = LagChanges()
    told: dict[tuple[str, str, int], tuple[tuple[int | None, int], int]] = {}
    for step, offsets in enumerate(looks):
        now_ms = step * UNCHANGED_MS // 3
        changes.begin(MonotonicMs(now_ms))
        expected = {
            key
            for key, value in offsets.items()
            if value[0] is not None
            and (key not in told or told[key][0] != value or now_ms - told[key][1] >= UNCHANGED_MS)
        }
        found = set()
        for group, topic in sorted({key[:2] for key in offsets}):
            lags = [
                PartitionLag(k[2], *v)
                for k, v in sorted(offsets.items())
                if k[:2] == (group, topic)
            ]
            for start in range(0, len(lags), piece):
                due = changes.due(group, topic, lags[start : start + piece])
                found |= {(group, topic, lag.partition) for lag in due}
        assert found == expected
        told = {
            key: (value, now_ms if key in expected else told[key][1])
            for key, value in offsets.items()
            if value[0] is not None
        }


def test_only_groups_with_the_largest_lag_keep_their_partitions():
    groups = [GroupLag(a_group(str(number))) for number in range(20)]
    furthest = FurthestBehind(at_most=30)
    for number, group in enumerate(groups):
        group.add("t", [PartitionLag(each, number, 0) for each in range(10)])
        furthest.add(group)
    assert [bool(group.pieces) for group in groups] == [False] * 17 + [True] * 3
    huge = GroupLag(a_group("huge"))
    huge.add("t", [PartitionLag(each, 100, 0) for each in range(100)])
    furthest.add(huge)
    assert [bool(group.pieces) for group in [*groups, huge]] == [False] * 20 + [True]


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.dictionaries(st.integers(0, 400), st.integers(0, 50))
    ),
    st.dictionaries(
        st.sampled_from("abcd"), st.dictionaries(st.integers(0, 400), st.integers(0, 50))
    ),
)
def test_lag_of_a_group_is_the_sum_over_its_partitions(committed, ends):
    progress = a_group(committed=committed)
    group = GroupLag(progress)
    rows = []
    for topic, some in pieces_of(progress, ends):
        assert 0 < len(some) <= 100
        group.add(topic, some)
        rows += [(topic, *each) for each in some]
    assert {(topic, number): offset for topic, number, _, offset in rows} == {
        (topic, number): offset
        for topic, partitions in committed.items()
        for number, offset in partitions.items()
    }
    figures = group.figures({})
    known = [max(0, end - offset) for _, _, end, offset in rows if end is not None]
    assert all(ends.get(topic, {}).get(number) == end for topic, number, end, _ in rows)
    assert figures.partitions == len(rows)
    assert figures.partitions_unknown == len(rows) - len(known)
    assert (figures.lag, figures.lag_max) == (sum(known), max(known, default=0))
