"""Has the markers of ended transactions written by the leaders of their partitions.

Kafka: `TransactionMarkerChannelManager`. It tries again until every partition has its marker: after
a change of leaders, and if an answer does not come. A marker may be written twice, which changes
nothing.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.transactions.marker_writer import MarkerWriter
from cluster.brokers.transactions.numbered import numbered, partitions_in
from cluster.coordinator.controller.control_link import ControlLink, Reply
from cluster.coordinator.transactions.requests import EndMarkers, PartitionsMarked
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.protocol.peer.control import Refusal
from cluster.protocol.peer.transactions import MarkersOfProducer, PartitionErrors, WriteMarkers
from cluster.records.markers import EndMarker
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_RETRY_MS: Final = 50
_TIMEOUT_MS: Final = 10_000
_PARTITIONS_MAX: Final = 2_000
"""Partitions of one request; a leader writes some 20,000 markers per second."""
_GONE_AFTER_MS: Final = 5_000
"""A topic that is unknown for so long was deleted: a new one may become known here later than to
the producer."""

Report = Callable[[PartitionsMarked, TopicPartition], None]


class _Job:
    """The markers of one transaction that are not known to be written."""

    __slots__ = ("began_ms", "coordinator", "is_ended", "left", "marker", "message")

    def __init__(self, message: EndMarkers, coordinator: TopicPartition, began_ms: int) -> None:
        self.message = message
        self.coordinator = coordinator
        self.left = set(message.partitions)
        self.began_ms = began_ms
        self.is_ended = False
        producer_id, epoch = message.producer
        self.marker = EndMarker(producer_id, epoch, message.coordinator_epoch, message.is_commit)


class MarkerSender:
    """Owned by the broker's thread."""

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
        self._jobs: dict[TopicPartition, set[_Job]] = defaultdict(set)
        """By partition of `__transaction_state`."""
        self._due: list[tuple[_Job, Iterable[TopicPartition]]] = []
        """Sent at the end of this turn."""
        self._again: list[tuple[_Job, Iterable[TopicPartition]]] = []
        """Sent when the timer has run out."""

    def report_to(self, report: Report) -> None:
        """Call a function with the partitions that have their markers, and with the partition of
        `__transaction_state` that `send` was given."""
        self._report = report

    @property
    def unmarked_count(self) -> int:
        """The number of markers that are not known to be written."""
        return sum(len(job.left) for jobs in self._jobs.values() for job in jobs)

    def send(self, message: EndMarkers, coordinator: TopicPartition) -> None:
        """Write the markers of a transaction that a partition of `__transaction_state` has."""
        job = _Job(message, coordinator, self._loop.now_ms)
        self._jobs[coordinator].add(job)
        self._send_soon(job, message.partitions)

    def forget(self, coordinator: TopicPartition) -> None:
        """This broker does not coordinate these transactions any more; the next leader sends all
        markers again."""
        for job in self._jobs.pop(coordinator, ()):
            job.is_ended = True

    # -- sending -----------------------------------------------------------------------------------

    def _send_soon(self, job: _Job, partitions: Iterable[TopicPartition]) -> None:
        if not self._due:
            self._loop.defer(self._send_due)
        self._due.append((job, partitions))

    def _send_due(self) -> None:
        due, self._due = self._due, []
        by_leader: dict[BrokerId, list[tuple[_Job, list[TopicPartition]]]] = defaultdict(list)
        for job, partitions in due:
            if job.is_ended:
                continue
            for leader, led in self._by_leader(job, partitions).items():
                by_leader[leader].append((job, led))
        for leader, work in by_leader.items():
            if leader == self._local_id:
                for job, led in work:
                    self._write_here(job, led)
            else:
                self._ask(leader, work)

    def _by_leader(
        self, job: _Job, partitions: Iterable[TopicPartition]
    ) -> dict[BrokerId, list[TopicPartition]]:
        found: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
        unknown = []
        for partition in partitions:
            state = self._metadata.partition(partition)
            if state is None:
                unknown.append(partition)
            elif state.leader in self._metadata.brokers:
                found[state.leader].append(partition)
            else:
                self._try_again(job, [partition])
        if unknown:
            self._on_unknown(job, unknown)
        return found

    def _on_unknown(self, job: _Job, partitions: list[TopicPartition]) -> None:
        if self._loop.now_ms - job.began_ms < _GONE_AFTER_MS:
            self._try_again(job, partitions)
            return
        log.info(
            "a transaction of %r ends without %d partitions that were deleted",
            job.message.transactional_id,
            len(partitions),
        )
        self._on_marked(job, partitions)

    def _write_here(self, job: _Job, partitions: list[TopicPartition]) -> None:
        self._writer.write(job.marker, partitions, lambda codes: self._on_codes(job, codes))

    def _ask(self, leader: BrokerId, work: list[tuple[_Job, list[TopicPartition]]]) -> None:
        batch: list[tuple[_Job, list[TopicPartition]]] = []
        count = 0
        for job, led in work:
            if batch and count + len(led) > _PARTITIONS_MAX:
                self._ask_once(leader, batch)
                batch, count = [], 0
            batch.append((job, led))
            count += len(led)
        self._ask_once(leader, batch)

    def _ask_once(self, leader: BrokerId, work: list[tuple[_Job, list[TopicPartition]]]) -> None:
        request = WriteMarkers(
            tuple(
                MarkersOfProducer(*job.marker, numbered(led))  # in the order of its fields
                for job, led in work
            )
        )

        def on_reply(answer: PartitionErrors | Refusal | None) -> None:
            codes: list[Mapping[TopicPartition, ErrorCode]] = [{} for _ in work]
            if isinstance(answer, PartitionErrors):
                codes = [
                    dict(zip(partitions_in(each.topics), found, strict=False))
                    for each, found in zip(request.markers, answer.codes, strict=False)
                ]
            for (job, led), found in zip(work, codes, strict=False):
                lost = dict.fromkeys(led, ErrorCode.network_exception)
                self._on_codes(job, {**lost, **found})

        endpoint = self._metadata.brokers[leader].control_endpoint
        self._link.ask(endpoint, request, on_reply, _TIMEOUT_MS)

    # -- outcomes ----------------------------------------------------------------------------------

    def _on_codes(self, job: _Job, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        if job.is_ended:
            return
        marked, failed = [], []
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
                self._end(job)
                return
            else:
                failed.append(partition)
        if failed:
            self._try_again(job, failed)
        if marked:
            self._on_marked(job, marked)

    def _on_marked(self, job: _Job, partitions: list[TopicPartition]) -> None:
        job.left.difference_update(partitions)
        if not job.left:
            self._end(job)
        message = job.message
        event = PartitionsMarked(message.transactional_id, message.producer, tuple(partitions))
        self._report(event, job.coordinator)

    def _end(self, job: _Job) -> None:
        job.is_ended = True
        jobs = self._jobs.get(job.coordinator)
        if jobs is not None:
            jobs.discard(job)

    def _try_again(self, job: _Job, partitions: list[TopicPartition]) -> None:
        if not self._again:
            self._loop.call_after(_RETRY_MS, self._send_again)
        self._again.append((job, partitions))

    def _send_again(self) -> None:
        again, self._again = self._again, []
        for job, partitions in again:
            self._send_soon(job, partitions)

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

            self._writer.write(EndMarker(*markers[:4]), partitions, on_written)

        for number, markers in enumerate(request.markers):
            write(number, markers)
