"""Puts batches of another replica in place of damaged bytes of a segment.

In place: the bytes are refused before, and a kill in the middle leaves bytes that fail their
checksum, which the next check finds. Nothing outside the hole is written.
"""

from typing import Final

from crc32c import crc32c

from cluster.log.files import files_of
from cluster.log.leader_epochs import LeaderEpochs
from cluster.log.mmap_segment import MmapSegment
from cluster.log.partition_log import PartitionLog
from cluster.log.replicated import check_replicated
from cluster.log.segment import Segment
from cluster.log.segment_check import Hole
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import NO_EPOCH, Offset
from cluster.records.batch import ATTRIBUTES_POSITION, BatchHeader

_CRC: Final = slice(17, ATTRIBUTES_POSITION)


class SegmentPatch:
    """One hole that is being filled from its beginning on. Owned by the log's thread.

    Invariant: a batch that is written there continues the offsets, is whole and ends in the hole;
    where compaction may have made the replicas' logs differ, it is proven to be what was there: by
    its own checksum that is still in the file, or by the file's content that has its checksum.
    """

    def __init__(
        self, segment: Segment, hole: Hole, epochs: LeaderEpochs, *, may_grow: bool
    ) -> None:
        """`epochs` are those of the log. `may_grow`: the hole ends a closed segment, and may be
        shorter than what was lost."""
        self.segment = segment
        self.hole = hole
        self._epochs = epochs
        self._may_grow = may_grow
        self._position = hole.position
        self.offset = hole.offset
        """The next one that is wanted."""

    @property
    def is_complete(self) -> bool:
        """Whether all of the hole was written; compaction may have left gaps at its end."""
        is_full = self._position >= self.hole.end and not self._may_grow
        return is_full or self.offset >= self.hole.next_offset

    def write(self, records: bytes, *, may_differ: bool) -> None:
        """Write the next batches. Raises Refused for what cannot belong there, StorageFailed."""
        with memoryview(records) as content:
            headers = check_replicated(content, self.offset)
            descriptor = self.segment.file.fileno()
            position, offset = self._position, self.offset
            for header in headers:
                if header.last_offset >= self.hole.next_offset:
                    raise _foreign(f"offset {header.last_offset} lies behind the damage")
                if header.base_offset != offset and not may_differ:
                    raise _foreign(f"offset {header.base_offset} where {offset} was lost")
                check_epoch(header, self._epochs)
                start = position - self._position
                batch = content[start : start + header.size_bytes]
                if may_differ and not _was_there(self.segment.file, position, header, batch):
                    raise _foreign(f"the batch at offset {header.base_offset} may be another")
                position, offset = position + header.size_bytes, header.last_offset + 1
            is_end = offset >= self.hole.next_offset
            if not self._may_grow and (
                position > self.hole.end or (is_end and position != self.hole.end)
            ):
                raise _foreign("it takes another number of bytes")
            if not headers:
                raise _foreign("no batch")
            self._write(descriptor, content)
        self._position, self.offset = position, offset

    def show_growth(self, log: PartitionLog) -> None:
        """Once it is complete: have the log see all of a file that may be longer than it was.

        Raises StorageFailed.
        """
        if not self._may_grow:
            return
        try:
            log.files.on_repaired(self.segment, self.hole.position)
            self.segment.file.fileno()  # opened here, not on the syncing thread
        except OSError as error:
            path = self.segment.file.path
            raise StorageFailed(f"cannot read {path}: {error.strerror}") from error

    def _write(self, descriptor: int, content: memoryview) -> None:
        done = 0
        write = files_of(self.segment.file.path).pwrite
        try:
            while done < len(content):
                done += write(descriptor, content[done:], self._position + done)
        except OSError as error:
            path = self.segment.file.path
            raise StorageFailed(f"cannot write {path}: {error.strerror}") from error


def check_epoch(header: BatchHeader, epochs: LeaderEpochs) -> None:
    """Raise Refused for a batch of another leader than the one that this log has it from.

    After an unclean election a replica that has not been in sync since may have such a one.
    """
    expected = epochs.epoch_at(Offset(header.base_offset))
    if expected != NO_EPOCH and header.partition_leader_epoch != expected:
        raise _foreign(
            f"offset {header.base_offset} of epoch {header.partition_leader_epoch}, not {expected}"
        )


def _was_there(file: MmapSegment, position: int, header: BatchHeader, batch: memoryview) -> bool:
    """Whether damaged bytes once were this batch: its checksum or its content is what is there."""
    found = files_of(file.path).pread(file.fileno(), len(batch), position)
    if len(found) < len(batch):
        return False
    return found[_CRC] == bytes(batch[_CRC]) or crc32c(found[ATTRIBUTES_POSITION:]) == header.crc


def _foreign(reason: str) -> Refused:
    return Refused(ErrorCode.corrupt_message, reason)
