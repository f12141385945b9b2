"""Has the markers of ended transactions written by the leaders of their partitions.

Kafka: `TransactionMarkerChannelManager`. It tries again until every partition has its marker: after
a change of leaders, and if an answer does not come. A marker may be written twice, which changes
nothing.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, repeat, zip_longest
from typing import Final

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.transactions.held_markers import HeldMarkers
from cluster.brokers.transactions.marker_job import MarkerJob
from cluster.brokers.transactions.marker_writer import MarkerWriter
from cluster.brokers.transactions.numbered import numbered, partitions_in
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.coordinator.transactions.requests import EndMarkers, PartitionsMarked
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.kept_names import kept_name
from cluster.protocol.peer.control import Refusal
from cluster.protocol.peer.transactions import MarkersOfProducer, PartitionErrors, WriteMarkers
from cluster.records.markers import EndMarker
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_LOOK_MS: Final = 50
_TIMEOUT_MS: Final = 10_000
MARKERS_PER_TURN: Final = 200
"""A leader writes some 20,000 markers per second."""
_LOOKED_AT_PER_TURN: Final = 1_000
_DROPPED_PER_TURN: Final = 2_000
_GONE_AFTER_MS: Final = 5_000
"""A topic that is unknown for so long was deleted: a new one may become known here later than to
the producer."""

Report = Callable[[PartitionsMarked, TopicPartition], None]


class MarkerSender:
    """Owned by the broker's thread.

    Invariant: each partition that a job still needs is in a request on its way, due at the end of
    this turn or of one of the next, or held.
    """

    def __init__(
        self,
        local_id: BrokerId,
        metadata: MetadataCache,
        link: ControlLink,
        writer: MarkerWriter,
        loop: EventLoop,
    ) -> None:
        self._local_id = local_id
        self._metadata = metadata
        self._link = link
        self._writer = writer
        self._loop = loop
        self._report: Report = lambda _event, _coordinator: None
        self._jobs: dict[TopicPartition, set[MarkerJob]] = defaultdict(set)
        """By partition of `__transaction_state`."""
        self.unmarked_count = 0
        """The number of markers that are not known to be written."""
        self._due: deque[Iterator[tuple[MarkerJob, TopicPartition]]] = deque()
        """Sent at the end of this turn and in the next ones."""
        self._is_sending_scheduled = False
        self._held = HeldMarkers()
        self._looked_at: deque[TopicPartition] = deque()
        """Partitions with held markers that this look has still to come to."""
        self._is_look_scheduled = False

    def report_to(self, report: Report) -> None:
        """Call a function with the partitions that have their markers, and with the partition of
        `__transaction_state` that `send` was given."""
        self._report = report

    @property
    def without_leader_count(self) -> int:
        """The number of markers that wait because their partition has no leader."""
        return sum(
            number for partition, number in self._held.counts() if self._leader(partition) is None
        )

    def send(self, message: EndMarkers, coordinator: TopicPartition) -> None:
        """Write the markers of a transaction that a partition of `__transaction_state` has."""
        job = MarkerJob(message, coordinator, self._loop.now_ms)
        self._jobs[coordinator].add(job)
        self.unmarked_count += len(job.left)
        self._send_soon(zip(repeat(job), sorted(message.partitions)))

    def forget(self, coordinator: TopicPartition) -> None:
        """This broker does not coordinate these transactions any more; the next leader sends all
        markers again."""
        ended = self._jobs.pop(coordinator, set())
        for job in ended:
            job.is_ended = True
            self.unmarked_count -= len(job.left)
        self._drop(ended)

    def _drop(self, ended: set[MarkerJob]) -> None:
        """Forget jobs that have ended, some in each turn."""
        for _ in range(min(_DROPPED_PER_TURN, len(ended))):
            self._held.drop(ended.pop())
        if ended:
            self._loop.next_turn(lambda: self._drop(ended))

    # -- sending -----------------------------------------------------------------------------------

    def _send_soon(self, markers: Iterator[tuple[MarkerJob, TopicPartition]]) -> None:
        self._due.append(markers)
        if not self._is_sending_scheduled:
            self._is_sending_scheduled = True
            self._loop.defer(self._send_due)

    def _send_due(self) -> None:
        """Send a turn's share of the markers; those of partitions without a leader, and of leaders
        that have just refused other markers, are held."""
        self._is_sending_scheduled = False
        by_leader: dict[BrokerId, dict[MarkerJob, list[TopicPartition]]] = {}
        for job, partition in self._take_due():
            if job.is_ended:
                continue
            leader = None
            if self._held.may_send(job, partition):
                leader = self._leader(partition)
            if leader is None:
                self._hold(job, partition)
            else:
                by_leader.setdefault(leader, {}).setdefault(job, []).append(partition)
        for leader, work in by_leader.items():
            if leader == self._local_id:
                for job, led in work.items():
                    self._write_here(job, led)
            else:
                self._ask(leader, work)
        if self._due and not self._is_sending_scheduled:
            self._is_sending_scheduled = True
            self._loop.next_turn(self._send_due)

    def _take_due(self) -> list[tuple[MarkerJob, TopicPartition]]:
        taken: list[tuple[MarkerJob, TopicPartition]] = []
        while self._due:
            taken.extend(islice(self._due[0], MARKERS_PER_TURN - len(taken)))
            if len(taken) == MARKERS_PER_TURN:
                break
            self._due.popleft()
        return taken

    def _leader(self, partition: TopicPartition) -> BrokerId | None:
        state = self._metadata.partition(partition)
        if state is None or state.leader not in self._metadata.brokers:
            return None
        return state.leader

    def _write_here(self, job: MarkerJob, partitions: list[TopicPartition]) -> None:
        self._writer.write(job.marker, partitions, lambda codes: self._on_codes(job, codes))

    def _ask(self, leader: BrokerId, by_job: Mapping[MarkerJob, list[TopicPartition]]) -> None:
        work = list(by_job.items())
        request = WriteMarkers(tuple(self._markers(job, led) for job, led in work))

        def on_reply(answer: PartitionErrors | Refusal | None) -> None:
            codes = answer.codes if isinstance(answer, PartitionErrors) else ()
            for (job, led), asked, found in zip_longest(work, request.markers, codes[: len(work)]):
                lost = dict.fromkeys(led, ErrorCode.network_exception)
                known = dict(zip(partitions_in(asked.topics), found or (), strict=False))
                self._on_codes(job, {**lost, **known})

        endpoint = self._metadata.brokers[leader].control_endpoint
        self._link.ask(endpoint, request, on_reply, _TIMEOUT_MS)

    def _markers(self, job: MarkerJob, led: list[TopicPartition]) -> MarkersOfProducer:
        topics = numbered(led)
        states = (self._metadata.partition(each) for each in partitions_in(topics))
        epochs = tuple(0 if state is None else state.leader_epoch for state in states)
        return MarkersOfProducer(*job.marker, topics, epochs)  # in the order of its fields

    # -- outcomes ----------------------------------------------------------------------------------

    def _on_codes(self, job: MarkerJob, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        marked, fenced, failed = [], [], []
        for partition, code in codes.items():
            if code is ErrorCode.none:
                marked.append(partition)
            elif code is ErrorCode.invalid_producer_epoch:
                # A later epoch of the producer has written there, so this transaction has ended.
                log.warning(
                    "%s: %s has no transaction of this epoch any more", partition, job.marker
                )
                marked.append(partition)
            elif code is ErrorCode.transaction_coordinator_fenced:
                log.warning("%s: another broker coordinates %s", partition, job.marker)
                fenced.append(partition)
            else:
                failed.append(partition)
        if fenced and not job.is_ended:
            self._end(job)
        if failed and not job.is_ended:
            for partition in failed:
                self._held.on_failed(job, partition, self._loop.now_ms)
            self._look_later()
        for partition in (*marked, *fenced):
            self._release(partition)
        if marked and not job.is_ended:
            self._on_marked(job, marked)

    def _release(self, partition: TopicPartition) -> None:
        """The leader takes markers: send those that are held."""
        if partition in self._held.partitions():
            released = self._held.release(partition)
            self._send_soon((job, partition) for job in released)

    def _on_marked(self, job: MarkerJob, partitions: list[TopicPartition]) -> None:
        before = len(job.left)
        job.left.difference_update(partitions)
        self.unmarked_count -= before - len(job.left)
        if not job.left:
            self._end(job)
        message = job.message
        event = PartitionsMarked(message.transactional_id, message.producer, tuple(partitions))
        self._report(event, job.coordinator)

    def _end(self, job: MarkerJob) -> None:
        job.is_ended = True
        self.unmarked_count -= len(job.left)
        self._held.drop(job)
        jobs = self._jobs.get(job.coordinator)
        if jobs is not None:
            jobs.discard(job)

    # -- held markers ------------------------------------------------------------------------------

    def _hold(self, job: MarkerJob, partition: TopicPartition) -> None:
        self._held.add(job, partition)
        self._look_later()

    def _look_later(self) -> None:
        if not self._is_look_scheduled:
            self._is_look_scheduled = True
            self._loop.call_after(_LOOK_MS, self._look_at_held)

    def _look_at_held(self) -> None:
        """Try one marker of each partition that may have a leader that takes it."""
        self._looked_at.extend(self._held.partitions())
        self._look_on()

    def _look_on(self) -> None:
        now_ms = self._loop.now_ms
        for _ in range(min(_LOOKED_AT_PER_TURN, len(self._looked_at))):
            partition = self._looked_at.popleft()
            if not self._held.is_due(partition, now_ms):
                continue
            if self._metadata.partition(partition) is None:
                if self._give_up(partition, now_ms):
                    self._looked_at.appendleft(partition)
                    break
            elif self._leader(partition) is not None:
                job = self._held.probe(partition)
                if job is not None:
                    self._send_soon(iter([(job, partition)]))
        if self._looked_at:
            self._loop.next_turn(self._look_on)
            return
        self._is_look_scheduled = False
        if self._held:
            self._look_later()

    def _give_up(self, partition: TopicPartition, now_ms: MonotonicMs) -> bool:
        """End transactions that wait for a partition that was deleted; returns whether there may be
        more of them."""
        older = self._held.take_older(partition, now_ms - _GONE_AFTER_MS, MARKERS_PER_TURN)
        for job in older:
            name = kept_name(job.message.transactional_id)
            log.info("a transaction of %r ends without %s, which was deleted", name, partition)
            self._on_marked(job, [partition])
        return len(older) == MARKERS_PER_TURN

    # -- the leader's side -------------------------------------------------------------------------

    def on_request(self, request: WriteMarkers, reply: Reply) -> None:
        """A coordinator on another broker asks to end transactions in partitions led here."""
        codes: list[list[ErrorCode]] = [[] for _ in request.markers]
        left = len(request.markers)
        if not left:
            reply(PartitionErrors(()))

        def write(number: int, markers: MarkersOfProducer) -> None:
            partitions = partitions_in(markers.topics)

            def on_written(found: Mapping[TopicPartition, ErrorCode]) -> None:
                nonlocal left
                codes[number] = [found[each] for each in partitions]
                left -= 1
                if not left:
                    reply(PartitionErrors(codes))

            epochs = dict(zip(partitions, markers.leader_epochs, strict=False))
            self._writer.write(EndMarker(*markers[:4]), partitions, on_written, epochs)

        for number, markers in enumerate(request.markers):
            write(number, markers)
