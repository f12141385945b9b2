"""The settings that a partition's log uses; defaults are Kafka's."""

import zlib
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.log.directory_room import DirectoryRoom
from cluster.model.ids import TopicPartition
from cluster.records.batch import Compression
from cluster.records.compression import DEFAULT_LEVELS
from cluster.records.produced import BatchLimits

NO_LIMIT: Final = 2**63 - 1
PRODUCER_CODEC: Final = "producer"
LOG_APPEND_TIME: Final = "LogAppendTime"
CREATE_TIME: Final = "CreateTime"


class CleaningPolicy(NamedTuple):
    """When a compacted topic is cleaned; times in milliseconds."""

    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    """Younger records are not compacted away."""
    max_lag_ms: int = NO_LIMIT
    """Older ones are, whatever the ratio."""
    delete_retention_ms: int = 86_400_000
    """How long tombstones are kept after the first cleaning that meets them."""


_EVERY_DEFAULT: Final = CleaningPolicy()


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The settings of one topic for its logs: sizes in bytes, times in milliseconds."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = NO_LIMIT
    message_timestamp_after_max_ms: int = 3_600_000
    flush_messages: int = NO_LIMIT
    flush_ms: int = NO_LIMIT
    file_delete_delay_ms: int = 60_000
    retention_ms: int = 7 * 24 * 3600 * 1000
    """Negative: for ever."""
    retention_bytes: int = -1
    """Of one partition; negative: no limit."""
    is_deleted: bool = True
    """Whether segments are deleted for their age and size."""
    preallocate_step_bytes: int = 16 << 20
    preallocate: bool = False
    """Whether a segment takes all of its space with its first batch."""
    producer_id_expiration_ms: int = 86_400_000
    producer_snapshot_bytes: int = 8 << 20
    """Between two snapshots of the producers within a segment (see `inner_snapshots`)."""
    compression_type: str = PRODUCER_CODEC
    compression_gzip_level: int = DEFAULT_LEVELS[Compression.GZIP]
    compression_lz4_level: int = DEFAULT_LEVELS[Compression.LZ4]
    compression_zstd_level: int = DEFAULT_LEVELS[Compression.ZSTD]
    is_compacted: bool = False
    """Also where old segments are deleted besides."""
    cleaning: CleaningPolicy = _EVERY_DEFAULT
    room: DirectoryRoom | None = None
    """Of the log directory that a log is in; None where nobody watches how full that is."""

    @property
    def is_log_append_time(self) -> bool:
        """Whether the leader's clock, not the producer's, sets the timestamps."""
        return self.message_timestamp_type == LOG_APPEND_TIME

    def jitter_ms(self, segment: str) -> int:
        """How much earlier than `segment_ms` a segment is rolled because of its age.

        As in Kafka, it is below `segment_jitter_ms` and `segment_ms`. It depends on the segment's
        name alone, while Kafka draws a random number.
        """
        bound = min(self.segment_jitter_ms, self.segment_ms)
        return zlib.crc32(segment.encode()) % bound if bound > 0 else 0

    def limits(self, partition: TopicPartition) -> BatchLimits:
        """The limits that a produced batch of this partition must satisfy."""
        return BatchLimits(
            max_message_bytes=self.max_message_bytes,
            is_log_append_time=self.is_log_append_time,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            keyed=partition if self.is_compacted else None,
            codec=self.codec,
            codec_level=self.codec_level,
        )

    @property
    def removal_delay_ms(self) -> int:
        """The delay before the files of deleted segments are unlinked; 0 in a full log
        directory."""
        is_full = self.room is not None and self.room.is_full
        return 0 if is_full else self.file_delete_delay_ms

    @property
    def codec(self) -> Compression | None:
        """The codec of every stored batch; None to keep the producer's."""
        name = self.compression_type
        return None if name == PRODUCER_CODEC else Compression.of_name(name)

    @property
    def codec_level(self) -> int | None:
        """The level for `codec`; None if the codec has no levels."""
        match self.codec:
            case Compression.GZIP:
                return self.compression_gzip_level
            case Compression.LZ4:
                return self.compression_lz4_level
            case Compression.ZSTD:
                return self.compression_zstd_level
        return None
