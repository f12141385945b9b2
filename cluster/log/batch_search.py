"""Searches one batch for a record by timestamp, decompressing the batch if necessary. Pure."""

from typing import Final, NamedTuple

from cluster.model.ids import Offset
from cluster.records.batch import BatchHeader, Buffer, Compression
from cluster.records.checked_batch import IsLong
from cluster.records.compression import TooLong
from cluster.records.reader import heads_of, plain_records

_PACKED_AT_ONCE_BYTES: Final = 16 * 1024
_PLAIN_AT_ONCE_BYTES: Final = 256 * 1024
_RECORDS_AT_ONCE: Final = 1_000
"""What is larger takes longer than a millisecond to look into."""


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp_ms: int
    offset: Offset


class BatchSearch(NamedTuple):
    """A search of one batch for its first record at or after a timestamp and an offset."""

    header: BatchHeader
    batch: memoryview
    timestamp_ms: int
    first_offset: int

    def __call__(self) -> TimestampOffset | None:
        """The record found, or None. Raises Refused(corrupt_message) if the batch cannot be
        decoded.

        This may take long. It touches no other state, so it may run on another thread.
        """
        return self._find(plain_records(self.header, self.batch))

    def at_once(self) -> TimestampOffset | None:
        """Like calling it, but on a thread that serves others. Raises IsLong."""
        header = self.header
        if header.compression is Compression.NONE:
            if header.record_count > _RECORDS_AT_ONCE:
                raise IsLong
            return self()
        if len(self.batch) > _PACKED_AT_ONCE_BYTES:
            raise IsLong
        try:
            plain = plain_records(header, self.batch, _PLAIN_AT_ONCE_BYTES)
        except TooLong:
            raise IsLong from None
        return self._find(plain)

    def _find(self, plain: Buffer) -> TimestampOffset | None:
        for timestamp_ms, offset, _ in heads_of(self.header, plain):
            if timestamp_ms >= self.timestamp_ms and offset >= self.first_offset:
                return TimestampOffset(timestamp_ms, Offset(offset))
        return None
