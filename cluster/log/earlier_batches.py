"""Recalls the batches before the last one of each producer, which a producer snapshot lacks.

A client may repeat its last five batches, after a restart of its broker too: those that were
appended and not answered when the brokers stopped. Kafka loads its last batch alone and refuses the
others as out of order; librdkafka takes that for a fatal error. Here the log is read again when
the first such batch comes, once, so that a start has nothing more to do.
"""

from collections.abc import Sequence
from typing import Final

from cluster.log.log_reads import segment_slot
from cluster.log.producer_state import AppendedBatch, ProducerState, Verification
from cluster.log.segment import Segment
from cluster.model.errors import Refused
from cluster.records.batch import BatchHeader

READ_BYTES: Final = (256 * 1024, 8 * 1024 * 1024)
"""First few, which take milliseconds, and then enough for five batches of `message.max.bytes`
(1 MiB), and for those of other clients among them."""


def check_again(
    segments: Sequence[Segment],
    producers: ProducerState,
    refused: Refused,
    header: BatchHeader,
    verification: Verification | None,
) -> AppendedBatch | None:
    """Check a batch that was refused, as `ProducerState.check` does, with those that are recalled.

    Raises `refused` if they cannot change that, and what `check` raises; also StorageFailed.
    """
    if not producers.may_have_forgotten(header):
        raise refused
    _recall(segments, producers, header)
    return producers.check(header, verification)


def _recall(segments: Sequence[Segment], producers: ProducerState, header: BatchHeader) -> None:
    """Add the batches in front of the snapshot, until the one that is sent again is among them.

    Damage ends the search.
    """
    for read_bytes in READ_BYTES:
        try:
            producers.take_earlier(_read_before(segments, producers, read_bytes))
        except Refused:  # damage, which was reported when it was found
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
    last = segment_slot(segments, end_offset)
    parts: list[tuple[Segment, int, int]] = []
    left = read_bytes
    for slot in range(last, -1, -1):
        segment = segments[slot]
        end = segment.locate(end_offset) if slot == last else segment.file.size_bytes
        start = segment.boundary_before(0, end - left) if end > left else 0
        parts.insert(0, (segment, start, end))
        left -= end
        if left <= 0:
            break
    return parts
