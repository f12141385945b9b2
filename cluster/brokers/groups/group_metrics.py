"""The lag of groups, at intervals: metric records, and the section of groups in the stats file.

The coordinator knows the committed offsets, and the leaders know where the logs end. Requests cost
nothing more; the work of an interval runs in slices and takes some 6 us for each committed offset.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from cluster.brokers.groups.group_coordinator import GroupCoordinator
from cluster.brokers.groups.group_lag import OFFSETS_PER_STEP, FurthestBehind, GroupLag, pieces_of
from cluster.brokers.groups.lag_changes import (
    DueGroup,
    GroupChanges,
    LagChanges,
    StateTimes,
)
from cluster.brokers.groups.log_ends import Ends, LeaderLogEnds
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.records import MetricRecord, group_record, lag_records
from cluster.brokers.metrics.topic import MetricTopic
from cluster.coordinator.groups.state.classic_states import GroupState
from cluster.coordinator.groups.state.consumer_group import ConsumerState
from cluster.coordinator.groups.views.progress import CLASSIC, GroupProgress
from cluster.coordinator.groups.views.queries import ListGroupIds, MeasureProgress
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.ids import BrokerId
from cluster.runtime.slices import Slices

REST_US_PER_OFFSET: Final = 150
"""The minimum time between two passes, for each committed offset. A pass takes 2 to 6 us for each,
so a million offsets cost 2 to 4 % of a core."""
_LINE_MIN_BYTES: Final = 100
"""A lower bound of a partition's line in the stats file."""
_RECORDS_PER_BATCH: Final = 200
"""A batch is built in one step of a slice."""


class _Moment(NamedTuple):
    now_ms: MonotonicMs
    wall_ms: WallMs
    interval_ms: int


class GroupMetrics:
    """Owned by the broker's thread; `on_tick` is called once per interval.

    Invariant: the work of one interval ends before that of the next begins.
    """

    def __init__(
        self,
        local_id: BrokerId,
        coordinator: GroupCoordinator,
        ends: LeaderLogEnds,
        counters: BrokerCounters,
        topic: MetricTopic | None,
        slices: Slices,
        now_ms: MonotonicMs,
    ) -> None:
        """Without a `topic` only the stats file is written."""
        self._local_id = local_id
        self._coordinator = coordinator
        self._ends = ends
        self._counters = counters
        self._topic = topic
        self._slices = slices
        self._looked_ms = now_ms
        self._next_ms = now_ms
        self._is_busy = False
        self._times = StateTimes()
        self._group_changes = GroupChanges()
        self._changes = LagChanges()

    def on_tick(self, now_ms: MonotonicMs, wall_ms: WallMs) -> None:
        """Start a pass over all groups.

        An interval is merged with the next one while the previous pass is running, or if it ends
        too early for the number of offsets.
        """
        if self._is_busy or now_ms < self._next_ms:
            return
        self._is_busy = True
        moment = _Moment(now_ms, wall_ms, now_ms - self._looked_ms)
        self._looked_ms = now_ms
        self._slices.start(self._look(moment))

    # -- committed offsets and the ends of logs ----------------------------------------------------

    def _look(self, moment: _Moment) -> Iterator[None]:
        found: list[GroupProgress] = []
        wanted: dict[str, set[int]] = {}
        since_yield = 0
        for led in list(self._coordinator.all_loaded()):  # leadership may change between steps
            for group_id in led.ask(ListGroupIds()):
                group = led.ask(MeasureProgress(group_id))
                if group is None:
                    continue
                found.append(group)
                for topic, partitions in group.committed.items():
                    wanted.setdefault(topic, set()).update(partitions)
                    since_yield += len(partitions)
                since_yield += 10  # a group takes as long as ten offsets
                if since_yield >= OFFSETS_PER_STEP:
                    since_yield = 0
                    yield
        offsets = self._count(found)
        self._next_ms = MonotonicMs(moment.now_ms + offsets * REST_US_PER_OFFSET // 1_000)
        yield from self._ends.gather(wanted, partial(self._on_ends, found, moment))

    def _count(self, found: Iterable[GroupProgress]) -> int:
        """Set the gauges. Returns the number of offsets."""
        offsets = 0
        classic: Counter[str] = Counter()
        newer: Counter[str] = Counter()
        for each in found:
            offsets += sum(map(len, each.committed.values()))
            (classic if each.group_type == CLASSIC else newer)[each.state] += 1
        counters = self._counters
        counters.set("NumGroups", classic.total() + newer.total())
        counters.set("NumOffsets", offsets)
        for state in GroupState:
            counters.set(f"NumGroups{state.value}", classic[state.value])
        joining = classic[GroupState.PREPARING_REBALANCE.value]
        counters.set("RebalancePurgatorySize", joining)
        counters.set("GroupCountClassic", classic.total())
        counters.set("GroupCountConsumer", newer.total())
        for newer_state in ConsumerState:
            if newer_state is not ConsumerState.DEAD:  # such a group is not in memory
                counters.set(f"ConsumerGroupCount{newer_state.value}", newer[newer_state.value])
        return offsets

    def _on_ends(self, found: list[GroupProgress], moment: _Moment, ends: Ends) -> None:
        self._slices.start(self._publish(found, moment, ends))

    # -- records and the stats file ----------------------------------------------------------------

    def _publish(
        self, progresses: list[GroupProgress], moment: _Moment, ends: Ends
    ) -> Iterator[None]:
        self._times.begin()
        self._group_changes.begin(*moment)
        self._changes.begin(moment.now_ms)
        head = (self._local_id, moment.wall_ms, moment.interval_ms)
        found: list[GroupLag] = []
        furthest = FurthestBehind(self._counters.stats.groups_capacity // _LINE_MIN_BYTES)
        batch: list[MetricRecord] = []
        progresses.reverse()
        while progresses:
            progress = progresses.pop()  # frees its offsets one group at a time
            each = GroupLag(progress)
            found.append(each)
            for topic, some in pieces_of(progress, ends):
                each.add(topic, some)
                due = self._changes.due(each.group, topic, some)
                batch += lag_records(*head, each.group, topic, due)
                yield
            figures = each.figures(self._times.since_last(progress))
            furthest.add(each)
            each.record = group_record(*head, figures).value
            batch += map(self._record_of, self._group_changes.due(figures))
            yield
            yield from self._send_full(batch)
        for rest in self._group_changes.gone():
            batch.append(self._record_of(rest))
            yield from self._send_full(batch)
        self._send(batch)
        yield
        yield from self._write_file(found, moment)
        self._is_busy = False

    def _record_of(self, due: DueGroup) -> MetricRecord:
        return group_record(self._local_id, due.wall_ms, due.interval_ms, due.figures)

    def _send_full(self, batch: list[MetricRecord]) -> Iterator[None]:
        while len(batch) >= _RECORDS_PER_BATCH:
            self._send(batch[:_RECORDS_PER_BATCH])
            del batch[:_RECORDS_PER_BATCH]
            yield

    def _send(self, records: list[MetricRecord]) -> None:
        if self._topic is not None and records:
            self._topic.send(records)

    def _write_file(self, found: list[GroupLag], moment: _Moment) -> Iterator[None]:
        """Write the groups and then their partitions, those with the largest lag first, as far as
        they fit."""
        capacity = self._counters.stats.groups_capacity
        if not capacity:
            return
        lines = bytearray()
        line_count = 0
        found.sort(key=lambda each: (-each.lag, each.group))
        for piece in _pieces_of_file(found, (self._local_id, moment.wall_ms, moment.interval_ms)):
            some = b"\n".join([*piece, b""])
            if len(lines) + len(some) > capacity:
                break
            lines += some
            line_count += len(piece)
            yield
        self._counters.stats.write_groups(lines)
        partitions = sum(each.partitions for each in found)
        without = partitions - max(0, line_count - len(found))
        self._counters.set("GroupPartitionsWithoutRow", without)


def _pieces_of_file(
    found: list[GroupLag], head: tuple[BrokerId, WallMs, int]
) -> Iterator[list[bytes]]:
    for start in range(0, len(found), OFFSETS_PER_STEP):
        yield [each.record for each in found[start : start + OFFSETS_PER_STEP]]
    for each in found:
        for topic, some in each.pieces:
            yield [record.value for record in lag_records(*head, each.group, topic, some)]
