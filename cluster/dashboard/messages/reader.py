"""Answers the page's questions about messages from the brokers of a running cluster."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cluster.client.refusals import allowing_words, principal_of
from cluster.client.security import Address
from cluster.client.socket_client import SocketClient
from cluster.dashboard.broker_connection import addresses_of, connect, security_of
from cluster.dashboard.messages import rows
from cluster.dashboard.messages.asking import Cursor, Question, Start
from cluster.dashboard.messages.batches import Message
from cluster.dashboard.messages.budget import Budget
from cluster.dashboard.messages.filtering import wanted_by
from cluster.dashboard.messages.paging import BackwardLane, Lane, OnwardLane, Range, read_page
from cluster.dashboard.messages.topic_log import TopicLog
from cluster.dashboard.sources import Json
from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import ask_supervisor
from cluster.model.errors import UserError
from cluster.model.printable import one_line
from cluster.runtime.clock import SystemClock
from cluster.runtime.installation import launcher

PARTITIONS_MAX: Final = 1_000
"""Partitions that are merged; of a topic with more, one is chosen."""
_RUNNING: Final = "running"


class MessageReader:
    """Implements `routes.Messages`. Not thread-safe: one call at a time."""

    def __init__(self, files: DataDir) -> None:
        self._files = files
        self._clock = SystemClock()

    def page(self, question: Question) -> Json:
        """A page of messages, see `rows.page_json`. Raises UserError."""
        budget = self._budget()
        with self._log(question.topic, budget, is_committed_only=question.is_committed_only) as log:
            numbers = _chosen(question, log.partitions)
            known = log.ranges(numbers)
            begin = _begin(question, known, log)
            ends = log.high_watermarks(known) if question.is_committed_only else {}
            # A leader may have been lost since it told the range.
            ranges = {number: each for number, each in known.items() if number not in log.failed}
            failed = {number: why for number, why in log.failed.items() if number in numbers}
            if not ranges:
                raise UserError(" ".join(rows.failures(failed)))
            lanes, notes = _lanes(question, ranges, begin)
            notes += rows.open_transactions(ranges, ends)
            edge = {lane.partition: lane.resume for lane in lanes}
            found = read_page(
                log,
                lanes,
                wanted_by(question.needle, question.match),
                budget,
                limit=question.limit,
                is_backward=question.is_backward,
            )
        failed |= found.failed
        return rows.page_json(question, ranges, edge, found, failed, notes, budget.records)

    def one(self, topic: str, partition: int, offset: int) -> Message:
        """One record. Raises UserError."""
        budget = self._budget()
        with self._log(topic, budget, is_committed_only=False) as log:
            ranges = log.ranges(_chosen(_only(topic, partition, offset), log.partitions))
            if not ranges:
                raise UserError(" ".join(rows.failures({partition: log.failed[partition]})))
            known = ranges[partition]
            _check_offset(topic, partition, offset, known, last=known.end - 1)
            lane = OnwardLane(partition, offset, offset + 1, 1)
            found = read_page(log, [lane], lambda _: True, budget, limit=1, is_backward=False)
        if found.failed:
            raise UserError(" ".join(rows.failures(found.failed)))
        if not found.messages and found.stopped is not None:
            raise UserError(
                f"offset {offset} of partition {partition} was not reached within {found.stopped}:"
                " read again"
            )
        if not found.messages:
            raise UserError(
                f"partition {partition} of {one_line(topic)} has no record at offset {offset}:"
                " compaction has removed it"
            )
        message = found.messages[0]
        if message.problem:
            raise UserError(message.problem)
        return message

    def _budget(self) -> Budget:
        return Budget(lambda: self._clock.monotonic_ms() / 1000)

    def _log(self, topic: str, budget: Budget, *, is_committed_only: bool) -> TopicLog:
        state = ask_supervisor(self._files.control_socket, {"command": "status"})
        running = [each["id"] for each in state["brokers"] if each["state"] == _RUNNING]
        addresses = [*addresses_of(state, running).values()]
        if running:  # the others do not answer, and asking them takes time
            addresses = addresses[: len(running)]

        def opened(those: Iterable[Address], timeout_s: float) -> SocketClient:
            return connect(self._files, those, timeout_s)

        return TopicLog(topic, addresses, opened, self, budget, is_committed_only=is_committed_only)

    def denied(self, topic: str) -> UserError:
        principal = principal_of(security_of(self._files))
        words = allowing_words(principal, "Read", ["--topic", topic])
        return UserError(
            f"the dashboard ({principal}) may not read topic {one_line(topic)}; to allow it:"
            f" {launcher(self._files.path)} acls {words}"
        )

    def gone(self, topic: str) -> UserError:
        return UserError(f"there is no topic {one_line(topic)}")


def _only(topic: str, partition: int, offset: int) -> Question:
    return Question(topic, partition, Start("offset", offset), "", "any", False, 1, None, None)


def _chosen(question: Question, existing: Sequence[int]) -> list[int]:
    """The partitions to read. Raises UserError."""
    topic, count = one_line(question.topic), len(existing)
    if question.partition is None:
        if count > PARTITIONS_MAX:
            raise UserError(
                f"topic {topic} has {count:,} partitions; at most {PARTITIONS_MAX:,} are merged:"
                " choose one"
            )
        return [*existing]
    if question.partition not in existing:
        numbers = f"0 to {count - 1}" if count > 1 else "partition 0 only"
        raise UserError(f"topic {topic} has no partition {question.partition}; it has {numbers}")
    return [question.partition]


def _begin(question: Question, ranges: Mapping[int, Range], log: TopicLog) -> dict[int, int]:
    """The offset in each partition at which the question starts. Raises UserError."""
    match question.start:
        case Start("newest"):
            return {number: each.end for number, each in ranges.items()}
        case Start("time", timestamp_ms):
            found = log.offsets_at(ranges, timestamp_ms)
            return {
                number: min(found[number], each.end) if found.get(number, -1) >= 0 else each.end
                for number, each in ranges.items()
            }
        case Start("offset", offset):
            for number, each in ranges.items():
                _check_offset(question.topic, number, offset, each, last=each.end)
            return dict.fromkeys(ranges, offset)
    return {number: each.start for number, each in ranges.items()}


def _check_offset(topic: str, number: int, offset: int, known: Range, *, last: int) -> None:
    if known.start <= offset <= last:
        return
    held = f"holds offsets {known.start} to {known.end - 1}"
    if known.start == known.end:
        held = f"is empty, and its next record gets offset {known.end}"
    raise UserError(
        f"offset {offset} is out of range: partition {number} of {one_line(topic)} {held}"
    )


class _Place(NamedTuple):
    lanes: list[Lane]
    notes: list[str]


def _lanes(question: Question, ranges: Mapping[int, Range], begin: Mapping[int, int]) -> _Place:
    """The lanes of a page, and notes about records that are gone since the page before."""
    cursor: Cursor = question.before or question.after or {}
    lanes: list[Lane] = []
    notes = []
    for number, known in ranges.items():
        wanted = cursor.get(number, begin[number])
        position = max(known.start, min(wanted, known.end))
        if question.is_backward:
            lanes.append(BackwardLane(number, position, known.start, question.limit))
        else:
            lanes.append(OnwardLane(number, position, known.end, question.limit))
        if wanted < known.start and number in cursor:
            notes.append(
                f"Offsets {wanted} to {known.start - 1} of partition {number} were deleted"
                " meanwhile."
            )
    return _Place(lanes, notes)
