"""Produce requests with acks=all that wait until their records are committed. Pure.

What `Partition.produce_outcome` decides for one offset, it decides for every smaller one too. So
the waits of a partition are kept in the order of their offsets, and a check takes them from the
front until one has to go on waiting: it costs the same for each completed request, however many
others wait.
"""

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster.brokers.network.purgatory import Cancellable
from cluster.brokers.replication.partition import Partition
from cluster.model.errors import ErrorCode
from cluster.model.ids import LeaderEpoch, Offset, TopicPartition
from cluster.runtime.loop_time import LoopTime, Payer

COMPACT_ABOVE: Final = 256
"""Ended requests stay in the queues and in the heap of deadlines until there are more than this,
and more than others."""
_NEVER: Final = 1 << 62


class CommitWait:
    """One partition of a waiting request, made right after the append."""

    __slots__ = ("is_decided", "leader_epoch", "partition", "place", "request", "required_offset")

    request: "WaitingRequest"
    """Set by `CommitWaits.add`."""

    def __init__(self, partition: Partition, required_offset: Offset, place: Any = None) -> None:
        """`place` is where the request has the result of the partition."""
        self.place = place
        self.partition = partition
        self.required_offset = required_offset
        """The end of its batch."""
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        self.is_decided = False


class WaitingRequest(ABC):
    """A request with at least one `CommitWait`; subclasses know its answer.

    `CommitWaits.add` sets the attributes.
    """

    __slots__ = ("has_ended", "payer", "undecided_count", "waits")

    waits: Sequence[CommitWait]
    undecided_count: int
    has_ended: bool
    """Whether it is answered or dropped."""
    payer: Payer
    """Charged for the time of its answer."""

    @abstractmethod
    def on_failure(self, wait: CommitWait, code: ErrorCode) -> None:
        """The batch of one of its waits is not committed, or not in time."""

    @abstractmethod
    def on_decided(self) -> None:
        """All outcomes are known: answer."""


class CommitWaits:
    """One per broker, used by its thread.

    Invariant: the waits of a partition are ordered by leader epoch and offset.
    """

    def __init__(
        self, call_at: Callable[[int, Callable[[], None]], Cancellable], time: LoopTime
    ) -> None:
        """Uses one of the loop's timers; the client of a request is charged for its answer."""
        self._call_at = call_at
        self._time = time
        self._queues: dict[TopicPartition, deque[CommitWait]] = {}
        self._deadlines: list[tuple[int, int, WaitingRequest]] = []
        self._added_count = 0
        self._timer: Cancellable | None = None
        self._timer_ms = _NEVER
        self.size = 0
        """The undecided waits of requests that have not ended."""
        self._stale_count = 0
        """Waits in the queues whose requests have ended."""
        self._ended_count = 0
        """Requests in `_deadlines` that have ended."""

    def add(self, request: WaitingRequest, waits: Sequence[CommitWait], deadline_ms: int) -> None:
        """Wait for outcomes until the deadline. The caller has found that none is known yet."""
        request.waits = waits
        request.undecided_count = len(waits)
        request.has_ended = False
        request.payer = self._time.payer
        self.size += len(waits)
        queues = self._queues
        for wait in waits:
            wait.request = request
            queue = queues.get(wait.partition.id)
            if queue is None:
                queues[wait.partition.id] = deque((wait,))
            else:
                position = len(queue)
                while position and _is_before(wait, queue[position - 1]):
                    position -= 1  # a duplicate of an earlier batch
                queue.insert(position, wait)
        self._added_count += 1
        heapq.heappush(self._deadlines, (deadline_ms, self._added_count, request))
        if deadline_ms < self._timer_ms:
            self._start_timer(deadline_ms)

    def check(self, partition_id: TopicPartition) -> None:
        """Answer what is decided: the high watermark, the role, the ISR or the requirements of the
        partition have changed, or its log directory has failed.
        """
        queue = self._queues.get(partition_id)
        if queue is None:
            return
        payer = self._time.payer
        while queue:
            wait = queue[0]
            if wait.request.has_ended:
                queue.popleft()
                self._stale_count -= 1
                continue
            code = wait.partition.produce_outcome(wait.required_offset, wait.leader_epoch)
            if code is None:
                break
            queue.popleft()
            self._decide(wait, code)
        if not queue and self._queues.get(partition_id) is queue:
            del self._queues[partition_id]
        if self._time.payer is not payer:
            self._time.switch(payer)

    def drop(self, request: WaitingRequest) -> None:
        """Forget a request, since its connection is closed; a second call does nothing."""
        if not request.has_ended:
            self._end(request)
            self.size -= request.undecided_count
            self._leave_stale(request.undecided_count)

    def _decide(self, wait: CommitWait, code: ErrorCode) -> None:
        request, time = wait.request, self._time
        if time.payer is not request.payer:
            time.switch(request.payer)
        wait.is_decided = True
        self.size -= 1
        request.undecided_count -= 1
        if code is not ErrorCode.none:
            request.on_failure(wait, code)
        if not request.undecided_count:
            self._end(request)
            request.on_decided()

    def _end(self, request: WaitingRequest) -> None:
        request.has_ended = True
        request.waits = ()  # which refer to the request
        self._ended_count += 1
        deadlines = self._deadlines
        if self._ended_count > COMPACT_ABOVE and self._ended_count * 2 > len(deadlines):
            self._deadlines = [entry for entry in deadlines if not entry[2].has_ended]
            heapq.heapify(self._deadlines)
            self._ended_count = 0

    def _leave_stale(self, count: int) -> None:
        """So many waits of an ended request are still in the queues."""
        self._stale_count += count
        if self._stale_count <= max(COMPACT_ABOVE, self.size):
            return
        for partition_id, queue in list(self._queues.items()):
            kept = [wait for wait in queue if not wait.request.has_ended]
            queue.clear()  # in place, as it may be in use
            queue.extend(kept)
            if not queue:
                del self._queues[partition_id]
        self._stale_count = 0

    # -- deadlines ---------------------------------------------------------------------------------

    def _start_timer(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self._call_at(deadline_ms, self._on_timer)

    def _on_timer(self) -> None:
        due_ms, self._timer_ms, self._timer = self._timer_ms, _NEVER, None
        while self._deadlines:
            deadline_ms, _, request = self._deadlines[0]
            if deadline_ms > due_ms and not request.has_ended:
                break
            heapq.heappop(self._deadlines)
            self._ended_count -= 1
            if not request.has_ended:
                self._expire(request)  # counts it as ended
        if self._deadlines and self._deadlines[0][0] < self._timer_ms:
            self._start_timer(self._deadlines[0][0])

    def _expire(self, request: WaitingRequest) -> None:
        stale_count = request.undecided_count
        for wait in request.waits:
            if not wait.is_decided:
                code = wait.partition.produce_outcome(wait.required_offset, wait.leader_epoch)
                self._decide(wait, ErrorCode.request_timed_out if code is None else code)
        self._leave_stale(stale_count)


def _is_before(wait: CommitWait, other: CommitWait) -> bool:
    if wait.leader_epoch != other.leader_epoch:
        return wait.leader_epoch < other.leader_epoch
    return wait.required_offset < other.required_offset
