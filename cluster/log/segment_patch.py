"""Replaces damaged bytes of a segment with batches of another replica.

The bytes are overwritten in place: they are not served anyway, and a crash in the middle leaves
bytes with a wrong checksum, which the next check finds. Nothing outside the hole is written.
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
    """One hole that is filled from its beginning. Owned by the log's thread.

    Invariant: each written batch continues the offsets, is whole and ends in the hole. If
    compaction may have made the replicas' logs differ, the batch is proven to be the lost one, by
    its own checksum that is still in the file, or by the file's content that matches its checksum.
    """

    def __init__(
        self, segment: Segment, hole: Hole, epochs: LeaderEpochs, *, may_grow: bool
    ) -> None:
        """`epochs` are those of the log. `may_grow` means that the hole ends a closed segment and
        may be shorter than the lost bytes."""
        self.segment = segment
        self.hole = hole
        self._epochs = epochs
        self._may_grow = may_grow
        self._position = hole.position
        self.offset = hole.offset
        """The next one that is wanted."""

    @property
    def is_complete(self) -> bool:
        """Whether the hole is filled; compaction may have left gaps at its end."""
        is_full = self._position >= self.hole.end and not self._may_grow
        return is_full or self.offset >= self.hole.next_offset

    def write(self, records: bytes, *, may_differ: bool) -> None:
        """Write the next batches. Raises Refused for batches that do not belong here, and
        StorageFailed."""
        with memoryview(records) as content:
            headers = check_replicated(content, self.offset)
            descriptor = self.segment.file.fileno()
            position, offset = self._position, self.offset
            for header in headers:
                if header.last_offset >= self.hole.next_offset:
                    raise _foreign(f"offset {header.last_offset} is beyond the damage")
                if header.base_offset != offset and not may_differ:
                    raise _foreign(
                        f"offset {header.base_offset} does not match the lost offset {offset}"
                    )
                check_epoch(header, self._epochs)
                start = position - self._position
                batch = content[start : start + header.size_bytes]
                if may_differ and not _was_there(self.segment.file, position, header, batch):
                    raise _foreign(
                        f"the batch at offset {header.base_offset} may differ from the lost one"
                    )
                position, offset = position + header.size_bytes, header.last_offset + 1
            is_end = offset >= self.hole.next_offset
            if not self._may_grow and (
                position > self.hole.end or (is_end and position != self.hole.end)
            ):
                raise _foreign("the batches have a different size")
            if not headers:
                raise _foreign("the bytes are not a batch")
            self._write(descriptor, content)
        self._position, self.offset = position, offset

    def show_growth(self, log: PartitionLog) -> None:
        """Make the log use the whole file after a complete patch, which may have grown it.

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
    """Raise Refused for a batch of another leader epoch than this log's.

    After an unclean election, a replica that has not been in sync since may hold such a batch.
    """
    expected = epochs.epoch_at(Offset(header.base_offset))
    if expected != NO_EPOCH and header.partition_leader_epoch != expected:
        raise _foreign(
            f"offset {header.base_offset} of epoch {header.partition_leader_epoch}, not {expected}"
        )


def _was_there(file: MmapSegment, position: int, header: BatchHeader, batch: memoryview) -> bool:
    """Whether damaged bytes once were this batch: either its checksum or its content matches."""
    found = files_of(file.path).pread(file.fileno(), len(batch), position)
    if len(found) < len(batch):
        return False
    return found[_CRC] == bytes(batch[_CRC]) or crc32c(found[ATTRIBUTES_POSITION:]) == header.crc


def _foreign(reason: str) -> Refused:
    return Refused(ErrorCode.corrupt_message, reason)
