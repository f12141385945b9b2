"""One led partition of an internal topic: drives its shard with requests, appends and time."""

import logging
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, cast

from cluster.brokers.coordinators.options import CoordinatorOptions, CoordinatorPorts
from cluster.brokers.coordinators.shard_appends import OnMarked, ShardAppends
from cluster.brokers.coordinators.shard_loading import LoadCount, load_steps
from cluster.brokers.replication.partition import Partition
from cluster.coordinator.shards.effects import Effects
from cluster.coordinator.shards.load_times import LoadTimes
from cluster.coordinator.shards.requests import Query, ReplyT, Request
from cluster.coordinator.shards.shard import Shard
from cluster.model.clocks import Moment, WallMs
from cluster.model.error_codes import ErrorCode
from cluster.model.errors import StorageFailed
from cluster.model.ids import TopicPartition
from cluster.records.markers import EndMarker
from cluster.runtime import collector
from cluster.runtime.collector import Growth
from cluster.runtime.loop import Timer

log = logging.getLogger(__name__)

ShardT = TypeVar("ShardT", bound=Shard)
OnMessage = Callable[[TopicPartition, Any], None]
"""Takes a message of a shard, and the shard's partition."""


class LedShard(Generic[ShardT]):
    """Owned by the broker's thread; exists from the election of this broker until `close`. An
    `AppendListener`.

    Lifecycle: `loading_steps` to its end, then requests and queries.
    """

    def __init__(
        self,
        partition: Partition,
        shard: ShardT,
        options: CoordinatorOptions,
        ports: CoordinatorPorts,
        growth: Growth,
        load_times: LoadTimes,
        on_message: OnMessage,
    ) -> None:
        """`growth` counts appended records: what they change stays in memory for long.
        `on_message` takes the messages of the shard's effects."""
        self.id = partition.id
        self._partition = partition
        self._shard = shard
        self._options = options
        self._ports = ports
        self._clock = ports.clock
        self._loop = ports.loop
        self._growth = growth
        self._load_times = load_times
        self._elected_ms = ports.clock.monotonic_ms()
        self._on_message = on_message
        self._appends = ShardAppends(partition, options, ports, self)
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._is_tick_scheduled = False
        """A tick is due and will run in the next turn."""
        self._is_closed = False
        self._held: list[Request[None]] = []
        """Events that are reported once the shard is loaded."""
        self.is_loading = True
        self.since_wall_ms: WallMs | None = None
        """When loading ended; None until then."""

    def _now(self) -> Moment:
        return Moment(self._loop.now_ms, self._clock.wall_ms())

    # -- loading and unloading ---------------------------------------------------------------------

    def loading_steps(self) -> Iterator[None]:
        """Load the shard. Ends early if this broker loses the leadership or cannot read the log."""
        began_ms = self._clock.monotonic_ms()
        count = LoadCount()
        buffer_bytes = self._options.load_buffer_bytes
        try:
            for _ in load_steps(self._partition, self._shard, buffer_bytes, count):
                yield
                if self._is_closed:  # the log may be gone, and the shard is being freed
                    log.info("stopped loading %s: another broker leads it now", self.id)
                    return
        except StorageFailed as failure:
            # A part of the state would be worse than none: clients would act on old facts.
            log.error(  # noqa: TRY400 - one line
                "cannot load %s; its coordinator is unavailable until it can be read: %s",
                self.id,
                failure,
            )
            self._ports.internal_topics.note_failure(self.id, failure)
            self._is_closed = True  # it stays in the state of loading; no events are kept for it
            return
        for _ in self._shard.finishing_steps():
            collector.leave_out_what_is_there()
            yield
            if self._is_closed:
                return
        if count.records or count.damaged_batches:
            self._report(count, self._clock.monotonic_ms() - began_ms)
        if self._options.loads_committed:
            end_offset = self._partition.log.log_end_offset
            self._ports.internal_topics.appends.when_committed(
                self.id, end_offset, self._end_loading
            )
        else:
            self._end_loading()

    def _end_loading(self) -> None:
        if self._is_closed:
            return
        self.is_loading = False
        now_ms = self._clock.monotonic_ms()
        self._load_times.add(now_ms - self._elected_ms, now_ms)
        self.since_wall_ms = self._clock.wall_ms()
        self._carry_out(self._shard.on_loaded(self._now()))
        held, self._held = self._held, []
        for event in held:
            self.tell(event)
        self._ports.slices.start(self._resuming_steps(), steps_at_once=1)

    def _resuming_steps(self) -> Iterator[None]:
        for effects in self._shard.resuming_steps(self._now):
            self._carry_out(effects)
            self._growth.add(len(effects.messages))
            yield
            if self._is_closed:
                return

    def _report(self, count: LoadCount, took_ms: int) -> None:
        report = self._shard.load_report
        log.info(
            "loaded %s in %d ms: read %d records, %d bytes; replayed %s",
            self.id,
            took_ms,
            count.records,
            count.bytes,
            ", ".join(f"{number} {kind}" for kind, number in sorted(report.loaded.items())) or "0",
        )
        if count.damaged_batches:
            log.warning("skipped %d damaged batches of %s", count.damaged_batches, self.id)
        for kinds, what in ((report.unknown, "unknown"), (report.corrupt, "corrupt")):
            for kind, number in kinds.most_common():
                log.warning("ignored %d %s records of %s: %s", number, what, self.id, kind)

    def close(self) -> Iterator[None]:
        """This broker no longer leads the partition: answer waiting requests with an error.

        Returns the steps that free the shard's memory.
        """
        self._is_closed = True
        self._appends.close()
        if self._timer is not None:
            self._timer.cancel()
        self._carry_out(self._shard.unload(self._now()))
        return self._shard.forgetting_steps()

    # -- requests ----------------------------------------------------------------------------------

    def submit(self, request: Request[ReplyT], on_reply: Callable[[ReplyT], None]) -> None:
        """Pass a request to the shard; `on_reply` is called once, perhaps before this returns."""
        self._carry_out(self._shard.submit(request, on_reply, self._now()))

    def ask(self, query: Query[ReplyT]) -> ReplyT:
        """The shard's answer to a query."""
        return self._shard.ask(query, self._now())

    def tell(self, event: Request[None]) -> None:
        """Report an event to the shard; while it is being loaded, as soon as it is loaded."""
        if not self.is_loading:
            self.submit(event, _ignore_reply)
        elif not self._is_closed:
            self._held.append(event)

    def append_marker(self, marker: EndMarker, on_marked: OnMarked) -> None:
        """End a transaction in this partition; `on_marked` is called once, when the marker is
        committed or on error."""
        self._appends.add_marker(marker, on_marked)

    # -- effects -----------------------------------------------------------------------------------

    def on_appended(self, append_id: int, code: ErrorCode, *, is_in_log: bool | None) -> None:
        effects = self._shard.on_appended(append_id, code, self._now(), is_in_log=is_in_log)
        self._carry_out(effects)

    def on_marker(self, marker: EndMarker) -> None:
        self._shard.replay_marker(marker.producer_id, is_commit=marker.is_commit)

    def on_append_late(self, append_id: int) -> None:
        self._carry_out(self._shard.on_append_late(append_id, self._now()))

    def _carry_out(self, effects: Effects) -> None:
        for append in effects.appends:
            self._appends.add(append)
            self._growth.add(len(append.records))
        for answer in effects.answers:
            # The token is the `on_reply` that `submit` has taken with the request.
            cast("Callable[[Any], None]", answer.token)(answer.reply)
        for message in effects.messages:
            self._on_message(self.id, message)
        if not self._is_closed:
            self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer if a deadline is earlier: most events move deadlines further away."""
        due_ms = self._shard.next_deadline_ms()
        if due_ms is None:
            return
        if due_ms <= self._loop.now_ms:
            if not self._is_tick_scheduled:
                self._is_tick_scheduled = True
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
        self._is_tick_scheduled = False
        if self._is_closed:
            return
        due_ms = self._shard.next_deadline_ms()
        if due_ms is not None and due_ms <= self._loop.now_ms:
            self._carry_out(self._shard.on_tick(self._now()))
        else:
            self._set_timer()


def _ignore_reply(_reply: None) -> None:
    """Nobody waits for the reply to an event."""
