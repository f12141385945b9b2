"""Takes the batches of a stream into the windows, each once, whatever was killed in between.

Spark plans a batch in the checkpoint, then it is added to the output, then Spark commits it. The
output says with its windows how far it is (`rollup_output.Progress`), so a batch that Spark runs
again after a kill is left out if it is there, and read again if it is not.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from cluster.analytics.rollup.follow_checkpoint import BadCheckpoint, FollowCheckpoint, Subject
from cluster.analytics.rollup.stream_offsets import Offsets, are_equal, records_between
from cluster.analytics.rollup_output import LATE_AFTER, Added, Progress, RollupOutput, closed_until
from cluster.analytics.window_files import NARROWEST, WIDTHS_S

if TYPE_CHECKING:
    import pyarrow as pa

_WIDTH: Final = timedelta(seconds=WIDTHS_S[NARROWEST])


class OutOfStep(Exception):
    """A batch begins elsewhere than the windows end."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of one batch of the stream."""

    number: int
    offsets: int
    """How many offsets it spans: at least as many as it has records."""
    added: Added | None
    """None if the windows had it already."""
    reached: dict[int, int]
    closed: int
    """So many spans of the narrowest width were closed by this batch."""
    closed_until: datetime | None
    """Where the last of these ends: records of before count as late."""


def go_on(checkpoint: FollowCheckpoint, subject: Subject, held: Offsets) -> bool:
    """Make the checkpoint one with which the stream goes on from `held`, where the windows end.

    Returns whether it was, or had no batch; otherwise its batches are forgotten, because a rollup
    has worked without it or the topic is another one. Raises BadCheckpoint if it is about something
    else, and OSError.
    """
    found = checkpoint.subject()
    if found is not None:
        if found.topic != subject.topic:
            raise BadCheckpoint(f"it is about topic {found.topic}")
        clusters = {found.cluster_id, subject.cluster_id} - {None}
        if len(clusters) > 1:
            raise BadCheckpoint(f"it is about another cluster, {found.cluster_id}")
        if found.schema != subject.schema:
            raise BadCheckpoint("it is of a version with other columns")
        last = checkpoint.last_batch()
        if last is not None and found.topic_id == subject.topic_id:
            begin, end = checkpoint.start_of(last), checkpoint.end_of(last)
            is_open = not checkpoint.is_committed(last)
            if are_equal(held, end) or (is_open and are_equal(held, begin)):
                checkpoint.check()
                return True
        checkpoint.begin(subject, held)
        return last is None
    checkpoint.begin(subject, held)
    return True


class FollowedOutput:
    """The windows of a directory, and the checkpoint of the stream that is added to them."""

    def __init__(
        self,
        output: RollupOutput,
        checkpoint: FollowCheckpoint,
        start: Progress,
        watermark: timedelta = LATE_AFTER,
    ) -> None:
        """`start` is where the windows end. Windows that began longer than the watermark before
        the newest one are closed."""
        self._output = output
        self._checkpoint = checkpoint
        self._start = start
        self._held: Offsets = start.offsets
        self._watermark = watermark

    def take(self, number: int, sums: "pa.Table") -> Batch:
        """Add the sums (SUMS_SCHEMA) of a planned batch, unless they are there.

        Raises OutOfStep, BadCheckpoint, OSError, pa.ArrowException.
        """
        begin, end = self._checkpoint.start_of(number), self._checkpoint.end_of(number)
        added = None
        before = closed_until(self._output.progress, self._watermark)
        if not are_equal(self._held, end):
            if not are_equal(self._held, begin):
                raise OutOfStep(f"batch {number} does not begin where the windows end")
            reached = Progress(self._start.topic, self._start.topic_id, end)
            added = self._output.add(sums, reached, late=self._watermark)
            self._held = end
        until = closed_until(self._output.progress, self._watermark)
        closed = 0 if before is None or until is None else (until - before) // _WIDTH
        return Batch(number, records_between(begin, end), added, end, closed, until)
