"""Recalls the batches before the last one of each producer, which a producer snapshot lacks.

A client may repeat its last five batches, after a restart of its broker too: those that were
appended and not answered when the brokers stopped. Kafka loads its last batch alone and refuses the
others as out of order; librdkafka takes that for a fatal error. Here the log is read again when
the first such batch comes, once, so that a start has nothing more to do.
"""

from collections.abc import Sequence
from typing import Final

from cluster.log.damage import DamagedBatch
from cluster.log.log_reads import segment_slot
from cluster.log.producer_state import ProducerState
from cluster.log.segment import Segment
from cluster.records.batch import BatchHeader

READ_BYTES: Final = (256 * 1024, 8 * 1024 * 1024)
"""First few, which take milliseconds, and then enough for five batches of `message.max.bytes`
(1 MiB), and for those of other clients among them."""


def recall(segments: Sequence[Segment], producers: ProducerState, header: BatchHeader) -> None:
    """Add the batches in front of the snapshot that producers were loaded from, until one that a
    client sends again is among them.

    Damage ends the search. Raises StorageFailed.
    """
    for read_bytes in READ_BYTES:
        try:
            producers.take_earlier(_read_before(segments, producers, read_bytes))
        except DamagedBatch:  # which was reported when it was found
            break
        if not producers.may_have_forgotten(header):
            return
    producers.snapshot_offset = -1


def _read_before(
    segments: Sequence[Segment], producers: ProducerState, read_bytes: int
) -> ProducerState:
    found = ProducerState(producers.expiration_ms)
    for segment, start, end in _parts_before(segments, producers.snapshot_offset, read_bytes):
        for batches, _ in segment.producer_batches_from(start, end):
            found.replay_walked(batches, segment.file.mapping())
    return found


def _parts_before(
    segments: Sequence[Segment], end_offset: int, read_bytes: int
) -> list[tuple[Segment, int, int]]:
    """The last bytes before an offset: segments with a first and an end position, in order.

    Raises DamagedBatch and StorageFailed.
    """
    if end_offset <= segments[0].base_offset:
        return []
    slot = segment_slot(segments, end_offset)
    end = segments[slot].locate(end_offset)
    parts: list[tuple[Segment, int, int]] = []
    left = read_bytes
    while left > 0 and slot >= 0:
        segment = segments[slot]
        start = segment.boundary_before(0, end - left) if end > left else 0
        parts.insert(0, (segment, start, end))
        left -= end
        slot -= 1
        end = segments[slot].file.size_bytes
    return parts
