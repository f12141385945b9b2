"""Repairs damaged replicas: damaged batches of a segment are fetched from another replica.

A leader asks its in-sync followers, a follower asks its leader first. Only committed batches are
asked for, since every replica has the same ones, except where compaction changed them
(`SegmentPatch`). A replica keeps its role during the repair; it refuses the damaged offsets.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from cluster.brokers.replication.known_cluster import KnownCluster
from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.replication.replication_throttles import ReplicationThrottles
from cluster.brokers.storage.log_scrubber import ScrubCounts, file_of, take_findings
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.log.closed_rebuild import ClosedRebuild
from cluster.log.damage import Damage
from cluster.log.files import files_of
from cluster.log.log_reads import segment_slot
from cluster.log.segment import Segment
from cluster.log.segment_check import SegmentCheck
from cluster.log.segment_patch import SegmentPatch
from cluster.model.cluster import PartitionState
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import BrokerId, Offset, TopicPartition
from cluster.protocol.peer.control import AskBatches, Batches, Refusal
from cluster.runtime.background_thread import Post

log = logging.getLogger(__name__)

PATIENCE_MS: Final = 10_000
"""A fetch of damaged offsets waits this long for the repair before it is refused."""
RETRY_MS: Final = 30_000
_WAIT_FOR_CLUSTER_MS: Final = 500
_ANSWER_BYTES: Final = 1 << 20
_TIMEOUT_MS: Final = 5_000


class _Repair:
    """The repair of one segment of one replica."""

    def __init__(self, partition: Partition, segment: Segment) -> None:
        self.partition = partition
        self.log = partition.log
        self.cuts = partition.log.durability.cuts
        self.segment = segment
        self.patch: SegmentPatch | None = None
        self.sources: list[BrokerId] = []
        self.hopeless: set[int] = set()
        """Positions of holes that no broker could fill, or that are being filled."""
        self.reason = ""
        self.rebuild: ClosedRebuild | None = None

    @property
    def is_current(self) -> bool:
        """Whether the segment is still the one that was checked."""
        own, segment = self.partition.log, self.segment
        slot = segment_slot(own.segments, segment.base_offset)
        return (
            own is self.log and own.durability.cuts == self.cuts and own.segments[slot] is segment
        )


Answer = Batches | Refusal | None
OnBatches = Callable[[_Repair, BrokerId, Answer], None]


class ReplicaRepairs:
    """Owned by the broker's thread. Invariant: at most one segment is being repaired."""

    def __init__(
        self,
        local_id: BrokerId,
        table: PartitionTable,
        cluster: KnownCluster,
        link: ControlLink,
        counts: ScrubCounts,
        post: Post,
        post_back: Post,
        call_after: Callable[[int, Callable[[], None]], object],
        on_readable: Callable[[TopicPartition], None],
        is_cleaned: Callable[[Partition], bool],
        is_moving: Callable[[TopicPartition], bool],
        throttles: ReplicationThrottles,
    ) -> None:
        """`post` runs a call on a background thread, `post_back` on the broker's. `on_readable`
        wakes the requests that wait for a partition. `is_cleaned` tells whether a helper is
        compacting it, `is_moving` whether it is moving to another log directory. Bytes of throttled
        replicas count in `throttles`, but never wait, since reads may wait for the repair."""
        self._local_id = local_id
        self._table = table
        self._cluster = cluster
        self._link = link
        self._counts = counts
        self._post = post
        self._post_back = post_back
        self._call_after = call_after
        self._on_readable = on_readable
        self._is_cleaned = is_cleaned
        self._is_moving = is_moving
        self._throttles = throttles
        self._waiting: dict[TopicPartition, None] = {}
        self._current: _Repair | None = None
        self._is_scheduled = False
        self._is_closed = False
        self._reported: set[tuple[TopicPartition, int]] = set()
        """Offsets that were logged as lost, since no broker has them."""
        self._given_up: set[tuple[TopicPartition, int]] = set()
        """Segments, by their base offsets, that are not tried again before `RETRY_MS`."""
        link.serve(AskBatches, self.on_request)
        table.follow_damage(self.on_damage)
        for partition in table:  # damage that was found while the logs were opened
            if len(partition.log.damage):
                self._waiting[partition.id] = None
                self._soon()

    def close(self) -> None:
        """Begin no further repair."""
        self._is_closed = True

    # -- the other side --------------------------------------------------------------------------

    def on_request(self, request: AskBatches, reply: Reply) -> None:
        """Answer a peer that asks for batches that are damaged there, with committed ones only."""
        replica = self._table.find(TopicPartition(request.topic, request.partition))
        if replica is None or replica.topic_id != request.topic_id:
            reply(Batches(ErrorCode.unknown_topic_or_partition))
            return
        end_offset = Offset(min(request.end_offset, replica.high_watermark))
        try:
            found = replica.log.read(
                Offset(request.offset),
                _ANSWER_BYTES,
                upper_offset=end_offset,
                at_least_one_batch=True,
            )
            records = bytes(found.view())
        except Refused as refused:
            reply(Batches(refused.code))
        except StorageFailed as failure:
            self._table.note_failure(replica.id, failure)
            reply(Batches(ErrorCode.kafka_storage_error))
        else:
            self._throttles.leader.record(replica.id, len(records))
            reply(Batches(ErrorCode.none, _may_differ(replica), end_offset, records))

    # -- what is repaired next -------------------------------------------------------------------

    def on_damage(self, partition_id: TopicPartition, _damage: Damage) -> None:
        """Note new damage; a read may be under way."""
        self._counts.damaged += 1
        if partition_id in self._waiting:
            return
        partition = self._table.find(partition_id)
        if partition is not None and not partition.log.damage.is_being_repaired:
            state = self._cluster.partition(partition_id)
            if state is None or self._sources(state):
                partition.log.damage.is_being_repaired = True
                self._call_after(PATIENCE_MS, partial(self._end_patience, partition))
        self._waiting[partition_id] = None
        self._soon()

    def _soon(self, delay_ms: int = 0) -> None:
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._call_after(delay_ms, self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        if self._current is not None or self._is_closed:
            return
        for partition_id in list(self._waiting):
            partition = self._table.find(partition_id)
            if partition is not None and self._cluster.partition(partition_id) is None:
                continue  # not known before the controller's first update
            del self._waiting[partition_id]
            if partition is not None and self._begin(partition):
                return
        if self._waiting:
            self._soon(_WAIT_FOR_CLUSTER_MS)

    def _begin(self, partition: Partition) -> bool:
        """Begin the repair of the first damaged segment that may be repaired; False without one."""
        own = partition.log
        for damage in own.damage:
            segment = own.segments[segment_slot(own.segments, damage.base_offset)]
            if segment.base_offset != damage.base_offset:
                own.damage.forget(damage.base_offset)
            elif (partition.id, damage.base_offset) not in self._given_up:
                self._current = _Repair(partition, segment)
                self._check(self._current)
                return True
        self._end_patience(partition)
        return False

    def _check(self, repair: _Repair, *, was_written: bool = False) -> None:
        """Let the thread find where damage begins and ends, after a sync of what was written."""
        repair.patch = None
        check = SegmentCheck(file_of(repair.log, repair.segment))
        file = repair.segment.file

        def run() -> None:
            problem: OSError | None = None
            try:
                if was_written:
                    files_of(file.path).sync(file.fileno())
                check.run()
            except OSError as error:
                problem = error.with_traceback(
                    None
                )  # a traceback would keep this frame, and so the log, alive
            self._post_back(lambda: self._on_checked(repair, check, problem))

        self._post(run)

    def _on_checked(self, repair: _Repair, check: SegmentCheck, problem: OSError | None) -> None:
        if not repair.is_current:
            self._leave(repair)  # it was cut, compacted or moved: check it again
            return
        partition = repair.partition
        if problem is not None:
            repair.reason = f"it cannot be read: {problem.strerror}"
            self._give_up(repair, partition.log.log_start_offset)
            return
        log_start = partition.log.log_start_offset
        holes = [hole for hole in check.holes if hole.next_offset > log_start]
        hole = next((one for one in holes if one.position not in repair.hopeless), None)
        if hole is not None:
            is_end = hole.end == check.file.size_bytes and not check.file.is_active
            repair.hopeless.add(hole.position)  # unless it is gone when next looked at
            repair.patch = SegmentPatch(repair.segment, hole, repair.log.epochs, may_grow=is_end)
            state = self._cluster.partition(partition.id)
            repair.sources = [] if state is None else self._sources(state)
            repair.reason = "no other replica is there"
            self._ask(repair)
        elif holes and self._can_rebuild(repair):
            self._rebuild(repair)
        elif check.holes:
            self._give_up(repair, holes[0].offset if holes else None)
        else:
            self._finish(repair, check)

    def _finish(self, repair: _Repair, check: SegmentCheck) -> None:
        try:
            repair.log.files.on_repaired(repair.segment)
            take_findings(repair.log, repair.segment, check)
        except (OSError, StorageFailed) as failure:
            log.error("%s: %s", repair.partition.id, failure)  # noqa: TRY400 - one line
        self._leave(repair)

    def _sources(self, state: PartitionState) -> list[BrokerId]:
        """The brokers to ask: the leader first, then in-sync replicas, then the others."""
        wanted = dict.fromkeys((state.leader, *state.isr, *state.replicas))
        wanted.pop(self._local_id, None)
        return [broker for broker in wanted if broker in self._cluster.brokers]

    # -- asking ----------------------------------------------------------------------------------

    def _ask(self, repair: _Repair) -> None:
        patch, partition = repair.patch, repair.partition
        if patch is None:
            return
        while repair.sources:
            source = repair.sources[0]
            if patch.hole.next_offset > partition.high_watermark:
                repair.reason = "not all of it is committed"
            elif self._ask_of(
                repair, source, patch.offset, patch.hole.next_offset, self._on_answer
            ):
                return
            repair.sources.pop(0)
        self._check(repair)  # the next hole

    def _ask_of(
        self,
        repair: _Repair,
        source: BrokerId,
        offset: int,
        end_offset: int,
        on_answer: OnBatches,
    ) -> bool:
        """Ask a broker for batches; False if it is not registered any more."""
        broker = self._cluster.brokers.get(source)
        if broker is None:
            return False
        partition = repair.partition
        request = AskBatches(
            partition.id.topic, partition.topic_id, partition.id.partition, offset, end_offset
        )
        answered = partial(on_answer, repair, source)
        self._link.ask(broker.control_endpoint, request, answered, _TIMEOUT_MS)
        return True

    def _on_answer(self, repair: _Repair, source: BrokerId, answer: Answer) -> None:
        patch = repair.patch
        if patch is None or not repair.is_current or self._is_closed:
            self._leave(repair)
            return
        try:
            answer = self._accepted(repair, answer)
            may_differ = answer.may_differ or _may_differ(repair.partition)
            patch.write(answer.records, may_differ=may_differ)
            if patch.is_complete:
                patch.show_growth(repair.log)
        except Refused as refused:
            repair.reason = f"broker {source}: {refused}"
            repair.sources.pop(0)
            self._ask(repair)
            return
        except StorageFailed as failure:
            self._table.note_failure(repair.partition.id, failure)
            repair.reason = str(failure)
            repair.sources.clear()
            self._ask(repair)
            return
        if not patch.is_complete:
            self._ask(repair)
            return
        self._counts.repaired += 1
        log.warning(
            "%s: offsets %d to %d of %s are repaired, from broker %d",
            repair.partition.id,
            patch.hole.offset,
            patch.hole.next_offset - 1,
            repair.segment.file.path,
            source,
        )
        self._check(repair, was_written=True)

    def _accepted(self, repair: _Repair, answer: Answer) -> Batches:
        """Check that an answer is not an error, and count its bytes. Raises Refused."""
        if not isinstance(answer, Batches):
            raise Refused(ErrorCode.request_timed_out)
        if answer.code is not ErrorCode.none:
            raise Refused(answer.code)
        self._throttles.follower.record(repair.partition.id, len(answer.records))
        return answer

    # -- compacted logs --------------------------------------------------------------------------

    def _can_rebuild(self, repair: _Repair) -> bool:
        """Whether all closed segments may be taken from another replica, which is tried once."""
        partition = repair.partition
        own = partition.log
        active = own.segments[-1]
        is_possible = (
            repair.rebuild is None
            and _may_differ(partition)
            and repair.segment is not active
            and active.base_offset <= partition.high_watermark
            and not self._is_moving(partition.id)
            and not self._is_cleaned(partition)
        )
        if is_possible:
            state = self._cluster.partition(partition.id)
            repair.sources = [] if state is None else self._sources(state)
        return is_possible and bool(repair.sources)

    def _rebuild(self, repair: _Repair) -> None:
        """Ask the first broker that may have everything, or give up."""
        while repair.sources:
            try:
                repair.rebuild = ClosedRebuild(repair.log)
            except Refused as refused:
                repair.reason = str(refused.detail)
                break
            except StorageFailed as failure:
                self._table.note_failure(repair.partition.id, failure)
                repair.reason = str(failure)
                break
            if self._ask_for_rest(repair, repair.sources[0]):
                return
            repair.rebuild.abandon()
            repair.sources.pop(0)
        self._give_up(repair, repair.segment.base_offset)

    def _ask_for_rest(self, repair: _Repair, source: BrokerId) -> bool:
        rebuild = repair.rebuild
        return rebuild is not None and self._ask_of(
            repair, source, rebuild.offset, rebuild.end_offset, self._on_rest
        )

    def _on_rest(self, repair: _Repair, source: BrokerId, answer: Answer) -> None:
        rebuild = repair.rebuild
        if rebuild is None or not self._is_wanted(repair, rebuild):
            return
        try:
            answer = self._accepted(repair, answer)
            if answer.end_offset < rebuild.end_offset:
                raise Refused(ErrorCode.offset_not_available)
            rebuild.add(answer.records)
        except (Refused, StorageFailed) as problem:
            repair.reason = f"broker {source}: {problem}"
            rebuild.abandon()
            repair.sources.pop(0)
            self._rebuild(repair)
            return
        if answer.records and rebuild.offset < rebuild.end_offset:
            if not self._ask_for_rest(repair, source):
                rebuild.abandon()
                repair.sources.pop(0)
                self._rebuild(repair)
            return

        def run() -> None:
            failure: StorageFailed | None = None
            try:
                rebuild.finish()
            except StorageFailed as problem:
                failure = problem
            self._post_back(lambda: self._on_rebuilt(repair, source, rebuild, failure))

        self._post(run)

    def _on_rebuilt(
        self,
        repair: _Repair,
        source: BrokerId,
        rebuild: ClosedRebuild,
        failure: StorageFailed | None,
    ) -> None:
        if not self._is_wanted(repair, rebuild):
            return
        partition = repair.partition
        try:
            if failure is not None:
                raise failure
            rebuild.swap()
        except StorageFailed as problem:
            self._table.note_failure(partition.id, problem)
            repair.reason = str(problem)
            self._give_up(repair, repair.segment.base_offset)
            return
        self._counts.repaired += 1
        log.warning(
            "%s: replaced its closed segments, up to offset %d, by those of broker %d: the log is"
            " compacted, so %s could not be repaired in part",
            partition.id,
            rebuild.end_offset - 1,
            source,
            repair.segment.file.path,
        )
        self._leave(repair)

    def _is_wanted(self, repair: _Repair, rebuild: ClosedRebuild) -> bool:
        """Whether a rebuild can go on; otherwise its files are removed."""
        if self._is_closed or repair.partition.log is not repair.log or not rebuild.is_current:
            rebuild.abandon()
            self._leave(repair)
            return False
        return True

    # -- the end ---------------------------------------------------------------------------------

    def _give_up(self, repair: _Repair, offset: int | None) -> None:
        """Log once that no broker could help, and try later. None: the segment is unreadable."""
        partition, base_offset = repair.partition, repair.segment.base_offset
        if offset is not None and (partition.id, offset) not in self._reported:
            self._reported.add((partition.id, offset))
            log.error(
                "%s: offset %d and what else is damaged in %s cannot be repaired (%s): fetches of"
                " it are answered with CORRUPT_MESSAGE, what follows is served; tried again every"
                " %d s",
                partition.id,
                offset,
                repair.segment.file.path,
                repair.reason,
                RETRY_MS // 1_000,
            )
        self._given_up.add((partition.id, base_offset))
        self._call_after(RETRY_MS, partial(self._retry, partition.id, base_offset))
        self._leave(repair)

    def _retry(self, partition_id: TopicPartition, base_offset: int) -> None:
        self._given_up.discard((partition_id, base_offset))
        partition = self._table.find(partition_id)
        if partition is not None and len(partition.log.damage):
            self._waiting[partition_id] = None
            self._soon()

    def _leave(self, repair: _Repair) -> None:
        """Continue with other damage of the replica, if there is any."""
        self._current = None
        self._waiting[repair.partition.id] = None
        self._soon()

    def _end_patience(self, partition: Partition) -> None:
        damage = partition.log.damage
        if damage.is_being_repaired:
            damage.is_being_repaired = False
            self._on_readable(partition.id)


def _may_differ(partition: Partition) -> bool:
    own = partition.log
    return own.options.is_compacted or own.cleaned_to > 0
