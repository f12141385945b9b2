"""One led partition of `__consumer_offsets`: drives its shard with requests, appends and time."""

import logging
from collections.abc import Callable, Collection, Iterator
from typing import cast

from cluster.brokers.groups.shard_appends import ShardAppends
from cluster.brokers.groups.shard_loading import LoadCount, load_steps
from cluster.brokers.replication.internal_topics import InternalTopics
from cluster.brokers.replication.partition import Partition
from cluster.coordinator.groups.consumer.requests import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from cluster.coordinator.groups.effects import Effects
from cluster.coordinator.groups.history.explanation import GroupExplanation
from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.coordinator.groups.requests import (
    CommitOffsets,
    CommitReply,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    FetchedOffsets,
    FetchOffsets,
    GroupDescription,
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    ListedGroup,
    SyncGroup,
    SyncGroupReply,
)
from cluster.coordinator.groups.shard import GroupShard
from cluster.coordinator.groups.views.progress import GroupProgress
from cluster.model.clocks import Moment, WallMs
from cluster.model.error_codes import ErrorCode
from cluster.model.errors import StorageFailed
from cluster.records.batch import Compression
from cluster.runtime.clock import Clock
from cluster.runtime.collector import Growth
from cluster.runtime.loop import EventLoop, Timer

log = logging.getLogger(__name__)


class GroupPartition:
    """Owned by the broker's thread; from election until `close`.

    Lifecycle: `loading_steps` to its end, then requests. Each request's `on_reply` is called once,
    perhaps before the request's method returns.
    """

    def __init__(
        self,
        partition: Partition,
        shard: GroupShard,
        internal_topics: InternalTopics,
        codec: Compression,
        commit_timeout_ms: int,
        clock: Clock,
        loop: EventLoop,
        growth: Growth,
    ) -> None:
        self._partition = partition
        self._shard = shard
        self._internal_topics = internal_topics
        self._clock = clock
        self._loop = loop
        self._growth = growth
        self._appends = ShardAppends(
            partition, internal_topics, codec, commit_timeout_ms, clock, loop, self
        )
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._is_due = False
        """Something is due, and is done in the next turn."""
        self._is_closed = False
        self._gone_topics: set[str] = set()
        """Deleted while the partition was being loaded."""
        self._changed_topics: set[str] = set()
        """Made, deleted or enlarged meanwhile."""
        self.is_loading = True
        self.since_wall_ms: WallMs | None = None
        """When it was loaded; None while it is being loaded."""

    def _now(self) -> Moment:
        return Moment(self._loop.now_ms, self._clock.wall_ms())

    # -- beginning and end -------------------------------------------------------------------------

    def loading_steps(self, buffer_bytes: int) -> Iterator[None]:
        """Load the partition; ends early when this broker stops leading it, or cannot read it."""
        began_ms = self._clock.monotonic_ms()
        count = LoadCount()
        try:
            for _ in load_steps(self._partition, self._shard, buffer_bytes, count):
                yield
                if self._is_closed:  # the log may be gone, and the shard is being forgotten
                    log.info("loading %s is given up: it is led by another now", self._partition.id)
                    return
        except StorageFailed as failure:
            # Without all offsets, members would begin where they should not: they have to wait.
            log.error(  # noqa: TRY400 - one line
                "cannot load %s, its groups wait until it can be read: %s",
                self._partition.id,
                failure,
            )
            self._internal_topics.note_failure(self._partition.id, failure)
            return
        self.is_loading = False
        self.since_wall_ms = self._clock.wall_ms()
        if count.records or count.damaged_batches:
            self._report(count, self._clock.monotonic_ms() - began_ms)
        self._carry_out(self._shard.on_loaded(self._now()))
        if self._gone_topics:
            self.on_topics_deleted(self._gone_topics)
        if self._changed_topics:
            self.on_topics_changed(self._changed_topics)

    def _report(self, count: LoadCount, took_ms: int) -> None:
        report, name = self._shard.load_report, self._partition.id
        log.info(
            "loaded %s in %d ms: %d records, %d bytes; of the newest of each key in each piece"
            " %d offsets, %d groups, %d tombstones",
            name,
            took_ms,
            count.records,
            count.bytes,
            report.offsets,
            report.groups,
            report.tombstones,
        )
        if count.damaged_batches:
            log.warning("damaged parts of %s that were left out: %d", name, count.damaged_batches)
        for kinds, what in (
            (report.unknown, "of a kind unknown here"),
            (report.corrupt, "damaged"),
        ):
            for kind, number in kinds.most_common():
                log.warning("left out %d records of %s that are %s: %s", number, name, what, kind)

    def close(self) -> None:
        """This broker does not lead the partition any more: waiting requests are told so."""
        self._is_closed = True
        self._appends.close()
        if self._timer is not None:
            self._timer.cancel()
        for answer in self._shard.unload(self._now()).answers:
            cast("Callable[[object], None]", answer.token)(answer.reply)

    def forgetting_steps(self) -> Iterator[None]:
        """See `GroupShard.forgetting_steps`; after `close`."""
        return self._shard.forgetting_steps()

    # -- requests of members -----------------------------------------------------------------------

    def join(self, request: JoinGroup, on_reply: Callable[[JoinGroupReply], None]) -> None:
        """See `GroupShard.join`."""
        self._carry_out(self._shard.join(request, on_reply, self._now()))

    def sync(self, request: SyncGroup, on_reply: Callable[[SyncGroupReply], None]) -> None:
        """See `GroupShard.sync`."""
        self._carry_out(self._shard.sync(request, on_reply, self._now()))

    def heartbeat(self, request: Heartbeat) -> ErrorCode:
        """See `GroupShard.heartbeat`."""
        return self._shard.heartbeat(request, self._now())

    def leave(self, request: LeaveGroup, on_reply: Callable[[LeaveGroupReply], None]) -> None:
        """See `GroupShard.leave`."""
        self._carry_out(self._shard.leave(request, on_reply, self._now()))

    def consumer_heartbeat(
        self, request: ConsumerHeartbeat, on_reply: Callable[[ConsumerHeartbeatReply], None]
    ) -> None:
        """See `GroupShard.consumer_heartbeat`."""
        self._carry_out(self._shard.consumer_heartbeat(request, on_reply, self._now()))

    # -- offsets and groups ------------------------------------------------------------------------

    def commit_offsets(
        self, request: CommitOffsets, on_reply: Callable[[CommitReply], None]
    ) -> None:
        """See `GroupShard.commit_offsets`."""
        self._carry_out(self._shard.commit_offsets(request, on_reply, self._now()))

    def fetch_offsets(self, request: FetchOffsets) -> FetchedOffsets:
        """See `GroupShard.fetch_offsets`."""
        return self._shard.fetch_offsets(request)

    def delete_offsets(
        self, request: DeleteOffsets, on_reply: Callable[[DeleteOffsetsReply], None]
    ) -> None:
        """See `GroupShard.delete_offsets`."""
        self._carry_out(self._shard.delete_offsets(request, on_reply, self._now()))

    def delete_groups(
        self, request: DeleteGroups, on_reply: Callable[[DeleteGroupsReply], None]
    ) -> None:
        """See `GroupShard.delete_groups`."""
        self._carry_out(self._shard.delete_groups(request, on_reply, self._now()))

    def describe(self, group_id: str) -> GroupDescription | None:
        """See `GroupShard.describe`."""
        return self._shard.describe(group_id)

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription | None:
        """See `GroupShard.describe_consumer_group`."""
        return self._shard.describe_consumer_group(group_id)

    def list_groups(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        """See `GroupShard.list_groups`."""
        return self._shard.list_groups(states, types)

    def explain(self, group_id: str) -> GroupExplanation | None:
        """See `GroupShard.explain`."""
        return self._shard.explain(group_id, self._now())

    def histories(self) -> dict[str, tuple[Rebalance, ...]]:
        """See `GroupShard.histories`."""
        return self._shard.histories(self._now())

    def group_ids(self) -> list[str]:
        """See `GroupShard.group_ids`."""
        return self._shard.group_ids()

    def progress(self, group_id: str) -> GroupProgress | None:
        """See `GroupShard.progress`; None also once it is closed: another broker tells."""
        if self._is_closed:
            return None
        return self._shard.progress(group_id, self._now())

    def on_topics_deleted(self, topics: Collection[str]) -> None:
        """See `GroupShard.on_topics_deleted`; also while loading."""
        if self.is_loading:
            self._gone_topics.update(topics)
            return
        self._carry_out(self._shard.on_topics_deleted(topics, self._now()))

    def on_topics_changed(self, topics: Collection[str]) -> None:
        """See `GroupShard.on_topics_changed`; also while loading."""
        if self.is_loading:
            self._changed_topics.update(topics)
            return
        self._carry_out(self._shard.on_topics_changed(topics, self._now()))

    # -- what the shard orders ---------------------------------------------------------------------

    def on_appended(self, append_id: int, code: ErrorCode, *, is_in_log: bool | None) -> None:
        """See `AppendListener`."""
        effects = self._shard.on_appended(append_id, code, self._now(), is_in_log=is_in_log)
        self._carry_out(effects)

    def on_append_late(self, append_id: int) -> None:
        """See `AppendListener`."""
        self._carry_out(self._shard.on_append_late(append_id, self._now()))

    def _carry_out(self, effects: Effects) -> None:
        for append in effects.appends:
            self._appends.add(append)
            self._growth.add(len(append.records))
        for answer in effects.answers:
            cast("Callable[[object], None]", answer.token)(answer.reply)
        if not self._is_closed:
            self._set_timer()

    def _set_timer(self) -> None:
        """Only for an earlier deadline: most of what happens moves deadlines further away."""
        due_ms = self._shard.next_deadline_ms()
        if due_ms is None:
            return
        if due_ms <= self._loop.now_ms:
            if not self._is_due:
                self._is_due = True
                self._loop.next_turn(self._on_due)
            return
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self._loop.call_at(due_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._on_due()

    def _on_due(self) -> None:
        self._is_due = False
        if self._is_closed:
            return
        due_ms = self._shard.next_deadline_ms()
        if due_ms is not None and due_ms <= self._loop.now_ms:
            self._carry_out(self._shard.on_tick(self._now()))
        else:
            self._set_timer()
