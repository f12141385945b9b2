"""Recalls the batches before the last one of each producer, which a producer snapshot lacks.

A client may repeat its last five batches, after a restart of its broker too: those that were
appended and not answered when the brokers stopped. Kafka loads its last batch alone and refuses the
others as out of order; librdkafka takes that for a fatal error. Here the log is read again when
the first such batch comes, once, so that a start has nothing more to do.
"""

from collections.abc import Sequence
from typing import Final

from cluster.log.log_reads import segment_slot
from cluster.log.producer_state import ProducerState
from cluster.log.segment import Segment
from cluster.model.errors import Refused

READ_BYTES: Final = 8 * 1024 * 1024
"""Five batches of a client, each of `message.max.bytes` (1 MiB), and some of others."""


def recall(segments: Sequence[Segment], producers: ProducerState) -> None:
    """Add the batches found in so many bytes before the snapshot that producers were loaded from.

    Damage ends the search: the batches before it stay unknown. Raises StorageFailed.
    """
    end_offset = producers.snapshot_offset
    found = ProducerState(producers.expiration_ms)
    try:
        for segment, start, end in _parts_before(segments, end_offset):
            for batches, _ in segment.producer_batches_from(start, end):
                found.replay_walked(batches, segment.file.mapping())
    except Refused:
        pass  # damage; the segment has reported it
    else:
        producers.take_earlier(found)
    producers.snapshot_offset = -1


def _parts_before(segments: Sequence[Segment], end_offset: int) -> list[tuple[Segment, int, int]]:
    """The last bytes before an offset: segments with a first and an end position, in order.

    Raises DamagedBatch and StorageFailed.
    """
    if end_offset <= segments[0].base_offset:
        return []
    slot = segment_slot(segments, end_offset)
    end = segments[slot].locate(end_offset)
    parts: list[tuple[Segment, int, int]] = []
    left = READ_BYTES
    while left > 0 and slot >= 0:
        segment = segments[slot]
        start = segment.boundary_before(0, end - left) if end > left else 0
        parts.insert(0, (segment, start, end))
        left -= end
        slot -= 1
        end = segments[slot].file.size_bytes
    return parts
