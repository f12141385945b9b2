"""Groups closed segments so that small ones are joined into one. Pure."""

from collections.abc import Sequence
from typing import Final

from cluster.log.cleaner.order import SourceSegment
from cluster.records.batch import MAX_INT32

GROUP_MAX: Final = 64
"""So that a swap, which is a few renames for each segment, takes little of the broker's time."""


def group_segments(
    segments: Sequence[SourceSegment],
    upper_offset: int,
    segment_bytes: int,
    segment_index_bytes: int,
) -> list[list[SourceSegment]]:
    """Runs of segments whose bytes, indexes and offsets fit into one segment.

    The sizes are those before cleaning (Kafka: `Cleaner.groupSegmentsBySize`, but for `GROUP_MAX`).
    `upper_offset` is above the last segment's offsets.
    """
    groups: list[list[SourceSegment]] = []
    sizes = (0, 0, 0)
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else upper_offset
        grown = (
            sizes[0] + segment.size_bytes,
            sizes[1] + segment.index_bytes,
            sizes[2] + segment.time_index_bytes,
        )
        fits = (
            groups
            and len(groups[-1]) < GROUP_MAX
            and grown[0] <= segment_bytes
            and grown[1] <= segment_index_bytes
            and grown[2] <= segment_index_bytes
            and (not segment.size_bytes or following - 1 - groups[-1][0].base_offset <= MAX_INT32)
        )
        if fits:
            groups[-1].append(segment)
            sizes = grown
        else:
            groups.append([segment])
            sizes = (segment.size_bytes, segment.index_bytes, segment.time_index_bytes)
    return groups
