"""Record batch v2 as bytes: reads and writes the header.

Each operation takes constant time per batch, apart from the checksum, and never decodes records.
Layout after Apache Kafka's protocol guide, "Record Batch".
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from mmap import mmap
from typing import Final, NamedTuple

from crc32c import crc32c

from cluster.model.errors import ErrorCode, Refused

#  0 base_offset            int64   outside the checksum: the leader's to set
#  8 batch_length           int32   bytes after this field
# 12 partition_leader_epoch int32   outside the checksum: the leader's to set
# 16 magic                  int8    2
# 17 crc                    uint32  CRC-32C of everything from byte 21 on
# 21 attributes             int16   bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control,
#                                   6 delete horizon
# 23 last_offset_delta      int32
# 27 base_timestamp         int64
# 35 max_timestamp          int64
# 43 producer_id            int64
# 51 producer_epoch         int16
# 53 base_sequence          int32
# 57 record_count           int32
# 61 records
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OFFSET_LENGTH_EPOCH: Final = struct.Struct(">qii")
_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple
unpack_header: Final = _HEADER.unpack_from
"""The fields of `BatchHeader`; raises struct.error for fewer than 61 bytes."""
pack_head: Final = _OFFSET_LENGTH_EPOCH.pack
"""From base offset, batch length and leader epoch to a batch's first 16 bytes: what a leader gives
a batch, outside of its checksum.
"""
_CRC: Final = struct.Struct(">I")
_FROM_MAGIC: Final = struct.Struct(">bI")
_FROM_ATTRIBUTES: Final = struct.Struct(">hiqqqhii")
_CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAGIC_POSITION: Final = 16

HEADER_BYTES: Final = 61
LENGTH_OVERHEAD_BYTES: Final = 12
"""Base offset and batch length: what the field `batch_length` does not count."""
MAGIC_V2: Final = 2
NO_TIMESTAMP: Final = -1
MAX_INT32: Final = 2**31 - 1

Buffer = bytes | bytearray | memoryview | mmap
WritableBuffer = bytearray | memoryview | mmap

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
"""The base timestamp is the time from which tombstones and markers may be dropped (KIP-534)."""


class Compression(IntEnum):
    """Codec of a batch's records: bits 0-2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of_name(cls, name: str) -> "Compression":
        """The codec with this name in `compression.type` (`uncompressed` is NONE). Raises
        KeyError."""
        return cls.NONE if name == "uncompressed" else cls[name.upper()]


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch, field by field."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header included."""
        return LENGTH_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record, inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; wraps to 0 after 2^31 - 1; -1 without sequences."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & MAX_INT32

    @property
    def compression(self) -> Compression:
        """Codec of the records. Raises Refused(unsupported_compression_type) for an unknown one."""
        try:
            return Compression(self.attributes & CODEC_MASK)
        except ValueError:
            raise Refused(
                ErrorCode.unsupported_compression_type, f"codec {self.attributes & CODEC_MASK}"
            ) from None

    @property
    def is_log_append_time(self) -> bool:
        """Whether `max_timestamp`, set by the leader, is the timestamp of every record."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds commit or abort markers."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time after which compaction may drop its tombstones or marker; None if not set
        yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    def pack(self) -> bytes:
        """Encode the 61 bytes that `read_header` reads."""
        return _HEADER.pack(*self)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at a position. Raises Refused(corrupt_message) if fewer than 61 bytes
    follow."""
    try:
        return _new(BatchHeader, unpack_header(buffer, position))
    except struct.error:
        raise Refused(ErrorCode.corrupt_message, "batch shorter than its header") from None


def no_batch(position: int, end: int) -> Refused:
    """The error for bytes that must be a batch and are none."""
    return Refused(ErrorCode.corrupt_message, f"no record batch v2 at byte {position} of {end}")


def checksum(batch: Buffer) -> int:
    """CRC-32C of a batch, from its attributes to its end, without a copy."""
    return crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])


def stamp_checksum(batch: memoryview) -> None:
    """Write the checksum into a finished batch."""
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(batch[ATTRIBUTES_POSITION:]))


def pack_from_magic(header: BatchHeader, records: memoryview) -> bytes:
    """Encode bytes 16 to 60 of a batch with this header and records, including a new checksum."""
    covered = _FROM_ATTRIBUTES.pack(*header[5:])
    return _FROM_MAGIC.pack(header.magic, crc32c(records, crc32c(covered))) + covered


def batches_of(buffer: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Header and bytes of each whole batch; a partial batch at the end is skipped.

    Raises Refused(corrupt_message) for an invalid size or magic. Does not verify checksums.
    """
    position, end = 0, len(buffer)
    while position + HEADER_BYTES <= end:
        header = read_header(buffer, position)
        size = header.size_bytes
        if size < HEADER_BYTES or header.magic != MAGIC_V2:
            raise no_batch(position, end)
        if position + size > end:
            return
        yield header, buffer[position : position + size]
        position += size
