"""The offsets that a run of the rollup reads, given what the output has and what the topic has.

Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from cluster.analytics.rollup.engines import LOCAL, SPARK
from cluster.analytics.rollup.offset_ranges import OffsetRange, TopicRanges
from cluster.analytics.windows.manifest import FormerTopic, Progress

SLICE_RECORDS: Final = {LOCAL: 1_000_000, SPARK: 2_500_000}
"""After this many records a run saves its position, from which it continues if it is killed."""


class RunPlan(NamedTuple):
    """The input of a run."""

    start: Progress
    """The position of the output before the first record of `ranges`."""
    ranges: tuple[OffsetRange, ...]
    """Without empty ones."""
    lost: int
    """Records that retention removed after the last run, before this one could read them."""
    is_other_topic: bool
    """Whether the topic was recreated after the last run."""


def plan(progress: Progress | None, topic: TopicRanges, *, whole: bool) -> RunPlan:
    """The new records since `progress`; with `whole` everything in the topic."""
    is_other = progress is not None and _is_other(progress, topic)
    known = {} if progress is None or is_other or whole else progress.offsets
    ranges = tuple(
        OffsetRange(each.partition, max(each.start, known.get(each.partition, 0)), each.end)
        for each in topic.ranges
    )
    lost = sum(
        max(0, each.start - known[each.partition])
        for each in topic.ranges
        if each.partition in known
    )
    former = progress.former_topics if progress else ()
    if progress is not None and is_other:
        former = (*former, FormerTopic(progress.topic_id, progress.offsets))
    start = Progress(
        topic.name,
        topic.topic_id,
        {each.partition: each.start for each in ranges},
        cluster_id=topic.cluster_id or (progress.cluster_id if progress else None),
        former_topics=former,
    )
    return RunPlan(start, tuple(each for each in ranges if each.size > 0), lost, is_other)


def stream_start(progress: Progress | None, chosen: RunPlan) -> Progress:
    """The begin of a stream: the end of the windows, even if the topic begins later by now.

    So its first batch counts what retention has removed in between.
    """
    known = {} if progress is None or chosen.is_other_topic else progress.offsets
    offsets = chosen.start.offsets
    return replace(chosen.start, offsets={each: known.get(each, offsets[each]) for each in offsets})


def slices(chosen: RunPlan, most: int) -> Iterator[tuple[tuple[OffsetRange, ...], Progress]]:
    """Parts of the plan of some `most` records, each with the progress after it.

    Every partition has its share of each part, so that they advance in time together.
    """
    total = sum(each.size for each in chosen.ranges)
    count = max(1, -(-total // most))
    offsets = dict(chosen.start.offsets)
    for number in range(count):
        part = tuple(
            OffsetRange(
                each.partition,
                each.start + each.size * number // count,
                each.start + each.size * (number + 1) // count,
            )
            for each in chosen.ranges
        )
        offsets |= {each.partition: each.end for each in part}
        yield (
            tuple(each for each in part if each.size),
            replace(chosen.start, offsets=dict(offsets)),
        )


def records_in(ranges: Sequence[OffsetRange]) -> int:
    """The maximum number of records in ranges."""
    return sum(each.size for each in ranges)


def is_other_cluster(progress: Progress | None, topic: TopicRanges) -> bool:
    """Whether the topic belongs to another cluster than the windows."""
    known = progress.cluster_id if progress else None
    return None not in (known, topic.cluster_id) and known != topic.cluster_id


def _is_other(progress: Progress, topic: TopicRanges) -> bool:
    if progress.topic_id and topic.topic_id:
        return progress.topic_id != topic.topic_id
    ends = {each.partition: each.end for each in topic.ranges}
    return any(ends.get(number, 0) < offset for number, offset in progress.offsets.items())
