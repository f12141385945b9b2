"""Reads one page of messages from several partitions, merged by timestamp. Pure.

A page is what lies between two cursors, each an offset in every partition: the next page begins
where it ends, the former one ends where it begins, so that nothing is skipped or shown twice. The
records of one partition keep their order whatever their timestamps are.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from cluster.client.fetch_requests import Fetched
from cluster.dashboard.messages.batches import DAMAGED, Batch, Message, batches_in
from cluster.dashboard.messages.budget import Budget
from cluster.model.errors import Refused
from cluster.records.batch import CODEC_MASK

WINDOW_MAX_BYTES: Final = 4 * 1024 * 1024
"""A run of offsets this long is read to its end before its last records are shown."""
_SPARSE_BYTES: Final = 256 * 1024
_WIDER: Final = 4
_CHECKED_EVERY: Final = 256

Wants = Callable[[Message], bool]


class Range(NamedTuple):
    """The offsets of a partition that may be read."""

    start: int
    end: int
    """Exclusive: the high watermark, or the last stable offset."""


class Round(NamedTuple):
    """Answers of brokers to one round of requests."""

    answers: Mapping[int, Fetched]
    failed: Mapping[int, str] = {}
    """Why a partition cannot be read."""


class Source(Protocol):
    """The partitions of one topic."""

    def fetch(self, offsets: Mapping[int, int]) -> Round:
        """Some batches of each of these partitions, from the batch that has the offset on.

        Room is limited: a partition may get none, but not all of them while one has some.
        """
        ...


class Lane(Protocol):
    """One partition of a page, read in one direction."""

    partition: int
    found: deque[Message]
    """Messages that are wanted and not on the page yet, the next one first."""

    @property
    def is_hungry(self) -> bool:
        """Whether more must be read before its next message is known."""
        ...

    def wanted(self) -> int:
        """The offset to read from."""
        ...

    def take(self, batches: Iterable[Batch], wants: Wants, budget: Budget) -> bool:
        """Look through batches; whether there were any."""
        ...

    def end(self) -> None:
        """There is nothing more to be read from the wanted offset on."""
        ...

    @property
    def resume(self) -> int:
        """Where the next page goes on."""
        ...


class OnwardLane:
    """Reads from an offset to the end."""

    def __init__(self, partition: int, position: int, end: int, limit: int) -> None:
        self.partition = partition
        self.found: deque[Message] = deque()
        self._position = position
        self._end = end
        self._limit = limit

    @property
    def is_hungry(self) -> bool:
        return not self.found and self._position < self._end

    def wanted(self) -> int:
        return self._position

    def take(self, batches: Iterable[Batch], wants: Wants, budget: Budget) -> bool:
        before = self._position
        for batch in batches:
            for message in batch.messages():
                is_damaged = message.kind == DAMAGED  # what it hides is from its offset to the end
                if message.offset < self._position and not is_damaged:
                    continue
                if message.offset >= self._end:
                    self._position = self._end
                    return True
                self._position = min(batch.end, self._end) if is_damaged else message.offset + 1
                _count(message, wants, self.found, budget)
                if len(self.found) >= self._limit or _is_over(budget):
                    return True
            self._position = max(self._position, min(batch.end, self._end))
        return self._position > before

    def end(self) -> None:
        self._end = self._position

    @property
    def resume(self) -> int:
        return self.found[0].offset if self.found else self._position


class BackwardLane:
    """Reads from an offset, exclusive, to the beginning.

    Batches can be read forward only, so it reads windows of offsets, each to its end. Where they
    hold few records (compaction, a filter) the next one is wider.
    """

    def __init__(self, partition: int, upper: int, start: int, limit: int) -> None:
        self.partition = partition
        self.found: deque[Message] = deque()
        self._upper = upper
        self._start = start
        self._limit = limit
        self._width = limit
        self._low: int | None = None
        """Where the window begins; None between two windows."""
        self._position = upper
        self._matches: deque[Message] = deque(maxlen=limit)
        self._match_count = 0
        self._window_bytes = 0

    @property
    def is_hungry(self) -> bool:
        return not self.found and self._upper > self._start

    def wanted(self) -> int:
        if self._low is None:
            self._low = self._position = max(self._start, self._upper - self._width)
            self._matches.clear()
            self._match_count = self._window_bytes = 0
        return self._position

    def take(self, batches: Iterable[Batch], wants: Wants, budget: Budget) -> bool:
        is_any = False
        low = self.wanted() if self._low is None else self._low
        for batch in batches:
            is_any = True
            if self._position == low > batch.header.base_offset:
                # The batch is here already: what it has before the window need not be read again.
                low = self._low = self._position = max(self._start, batch.header.base_offset)
            for message in batch.messages():
                if message.offset < self._position:
                    continue
                if message.offset >= self._upper:
                    break
                self._position = message.offset + 1
                self._match_count += _count(message, wants, self._matches, budget)
                if _is_late(budget):  # else a batch of many records would never be passed
                    return True
            self._position = max(self._position, batch.end)
            self._window_bytes += len(batch.content)
            if self._position >= self._upper:
                self.end()
                return True
        if self._window_bytes > WINDOW_MAX_BYTES and self._width > 1:
            per_offset = self._window_bytes // max(1, self._position - low)
            fitting = WINDOW_MAX_BYTES // max(1, per_offset)
            self._width = max(1, min(self._width // _WIDER, fitting))
            self._low = None
        return is_any

    def end(self) -> None:
        low = self._upper if self._low is None else self._low
        is_cut = self._match_count > len(self._matches)
        self._upper = self._matches[0].offset if is_cut else low
        self.found.extend(reversed(self._matches))
        if self._match_count < self._limit and self._window_bytes < _SPARSE_BYTES:
            self._width *= _WIDER
        self._low = None

    @property
    def resume(self) -> int:
        return self.found[0].offset + 1 if self.found else self._upper


class Page(NamedTuple):
    """What was read."""

    messages: Sequence[Message]
    """They are in the order in which they were read."""
    resume: Mapping[int, int]
    """Where the next page in this direction goes on in each partition."""
    stopped: str | None
    """The limit that ended it before it was full."""
    failed: Mapping[int, str]


def read_page(
    source: Source,
    lanes: Sequence[Lane],
    wants: Wants,
    budget: Budget,
    *,
    limit: int,
    is_backward: bool,
) -> Page:
    """Read until there are `limit` messages, nothing is left, or the budget is exhausted.

    If it is, the page may lack messages of partitions that are behind; the next page has them.
    """
    sign = -1 if is_backward else 1
    first = [lane.resume for lane in lanes]
    failed: dict[int, str] = {}
    messages: list[Message] = []
    stopped = None
    while len(messages) < limit:
        hungry = [lane for lane in lanes if lane.is_hungry and lane.partition not in failed]
        if hungry and stopped is None:
            has_moved = bool(messages) or [lane.resume for lane in lanes] != first
            # Else the next request would read the same again, and end at the same place.
            if has_moved or budget.seconds_left <= 0:
                stopped = budget.exhausted
        if hungry and stopped is None:
            failed |= _feed(hungry, source, wants, budget)
            continue
        ready = [lane for lane in lanes if lane.found]
        if not ready:
            break
        lane = min(
            ready, key=lambda each: (sign * each.found[0].timestamp_ms, sign * each.partition)
        )
        messages.append(lane.found.popleft())
    resume = {lane.partition: lane.resume for lane in lanes}
    return Page(messages, resume, stopped, failed)


def _feed(lanes: Sequence[Lane], source: Source, wants: Wants, budget: Budget) -> dict[int, str]:
    """Read something for some of the lanes; why partitions cannot be read."""
    answers, failures = source.fetch({lane.partition: lane.wanted() for lane in lanes})
    failed = dict(failures)
    is_any = bool(failed)
    empty = []
    for lane in lanes:
        answer = answers.get(lane.partition)
        if answer is None:
            continue
        budget.size_bytes += len(answer.records)
        try:
            if lane.take(batches_in(answer), wants, budget):
                is_any = True
            else:
                empty.append(lane)
        except Refused as refused:
            failed[lane.partition] = refused.reason
            is_any = True
    if not is_any:
        for lane in empty:
            lane.end()
    return failed


def _count(message: Message, wants: Wants, found: deque[Message], budget: Budget) -> bool:
    budget.records += 1
    if not wants(message):
        return False
    found.append(message)
    if message.batch.attributes & CODEC_MASK:  # else its bytes are counted as the batch's
        budget.size_bytes += message.size_bytes
    return True


def _is_over(budget: Budget) -> bool:
    """Whether to stop within a batch; the clock is read now and then only."""
    return budget.records % _CHECKED_EVERY == 0 and budget.exhausted is not None


def _is_late(budget: Budget) -> bool:
    """Whether the time is over, which stops also where nothing has been found yet."""
    return budget.records % _CHECKED_EVERY == 0 and budget.seconds_left <= 0
